//! The operators: one file each. They check shapes when a pack is opened, divide the work among
//! threads, and call kernels.
//!
//! An operator has three functions, which the dispatch in this file joins by [`OpKind`]:
//!
//! - `validate(layer, tensors, isa)`: everything that `run` relies on. Called once, by `open`, on
//!   untrusted records; it must reject whatever could make `run` panic or index out of bounds.
//! - `scratch_bytes(layer, tensors, step, threads, isa)`: intermediates for one step. The planner calls
//!   the same function, so plan and runtime cannot disagree.
//! - `run(call)`: computes one step. Infallible after `validate`.

pub mod conv;
pub mod depthwise;
pub mod matmul;
pub mod unary;

use crate::arena::{MatMut, MatRef};
use crate::device::Device;
use crate::kernels::{Isa, Kernels};
use crate::pack::{Layer, OpKind, Tensor};

/// An operand of a step.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// There is none.
    Absent,
    /// A tensor: rows times channels. For [`OpKind::Copy`] and [`OpKind::MatMul`], which address their
    /// operands by strides: one row that is the whole buffer (Copy), or the buffer from the tensor's
    /// first element on (MatMul).
    Mat(MatRef<'a>),
    /// The output itself (in place).
    Output,
}

/// One step, ready to run.
pub struct Call<'a> {
    /// The layer.
    pub layer: &'a Layer,
    /// Its input tensors' records; those of absent inputs are zero.
    pub inputs: [Tensor; 2],
    /// Its output tensor's record.
    pub output: Tensor,
    /// The inputs.
    pub operands: [Operand<'a>; 2],
    /// The output: the *whole* tensor, of which this step makes `rows` and the panels `first..`. For
    /// [`OpKind::Copy`]: one row that is the whole buffer.
    pub out: MatMut<'a>,
    /// Packed weights of this step's panels only: `count · panel_bytes`.
    pub weights: &'a [f32],
    /// First panel of the step.
    pub first: usize,
    /// Panels of the step.
    pub count: usize,
    /// Output rows of the step.
    pub rows: core::ops::Range<usize>,
    /// Scratch, aligned to 64 bytes, of at least `scratch_bytes`.
    pub scratch: &'a mut [u8],
    /// Where it runs.
    pub device: &'a dyn Device,
    /// With what.
    pub kernels: &'a Kernels,
}

/// The part of a layer that a step makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// First panel.
    pub first: u32,
    /// Panels.
    pub count: u32,
    /// First output row.
    pub row: u32,
    /// Output rows.
    pub rows: u32,
}

/// Why a layer's record is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerError {
    /// The operator code is unknown.
    Kind(u32),
    /// The activation code is unknown.
    Activation(u32),
    /// A parameter, input or weight is out of its range: which, found, and the limit it disagrees with.
    Field(&'static str, u64, u64),
}

impl core::fmt::Display for LayerError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Kind(code) => write!(f, "operator code {code} is unknown"),
            Self::Activation(code) => write!(f, "activation code {code} is unknown"),
            Self::Field(what, found, limit) => write!(f, "{what} is {found}, against {limit}"),
        }
    }
}
