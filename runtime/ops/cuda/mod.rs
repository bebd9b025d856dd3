//! The operators on a GPU: one file each. They choose kernels, grids and blocks, and fill in the
//! kernels' records.
//!
//! The records of a pack are those of every instruction set, and so are the rules for them
//! ([`super::validate`]): weights lie in panels of 32 output channels, activations in NHWC. What
//! runs here may therefore trust them as the operators on a processor do. Nothing here touches
//! memory: addresses are the GPU's, and only numbers.
//!
//! **Bits.** A kernel computes each output by the same chain of operations as the portable kernel:
//! fused multiply-adds in the order of the reduction from the bias on, the elementary functions of
//! `kernels/math.h`. So a GPU gives the bits of a processor, unless a reduction is cut into chains
//! ([`ConvParams::chains`](crate::pack::ConvParams)), which is a property of the layer and not of
//! the way it is run: slices, tiles and the number of multiprocessors never change a bit.
//!
//! An operator has two functions:
//!
//! - `scratch_bytes(layer, inputs, output, slice)`: intermediates for one step. The planner calls
//!   the same function.
//! - `run(call, queue)`: launches one step. The queue may return an error; nothing else can go
//!   wrong after [`super::validate`] and [`super::validate_slice`].
//!
//! Rings and algorithms of steps ([`Step::algorithm`](crate::pack::Step)) are not for GPUs: a pack
//! is refused for the one, [`validate_slice`] refuses the other.

pub mod conv;
mod copy;
mod depthwise;
mod elementwise;
mod gather;
mod gemm;
mod launch;
mod matmul;
mod pool;
mod rows;
mod winograd;

#[cfg(all(test, any(feature = "cuda", feature = "cuda-linked")))]
pub(crate) mod testing;
#[cfg(all(test, any(feature = "cuda", feature = "cuda-linked")))]
mod tests;

use super::{LayerError, Slice};
use crate::device::DeviceError;
use crate::device::accelerator::Queue;
use crate::pack::{INPUTS, Layer, OpKind, Tensor};

/// One step, ready to be launched. Addresses are the GPU's; 0 for what is absent.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The layer.
    pub layer: &'a Layer,
    /// Its input tensors' records; those of absent inputs are zero.
    pub inputs: [Tensor; INPUTS],
    /// Its output tensor's record.
    pub output: Tensor,
    /// Where the inputs' first elements lie (of [`OpKind::Copy`](crate::pack::OpKind::Copy): their
    /// buffers). One may be `out`: in place.
    pub operands: [u64; INPUTS],
    /// Where the output's first element lies (of [`OpKind::Copy`](crate::pack::OpKind::Copy): its
    /// buffer).
    pub out: u64,
    /// Where the first panel of this step lies, in the layer's encoding.
    pub weights: u64,
    /// Where its scratch lies.
    pub scratch: u64,
    /// What the step makes.
    pub slice: Slice,
    /// Multiprocessors of the GPU.
    pub multiprocessors: u32,
}

impl Call<'_> {
    /// Where the output's rows lie.
    fn out_matrix(&self) -> launch::Matrix {
        launch::Matrix { address: self.out, pitch: self.output.pitch }
    }
}

/// Whether there is a kernel of an operator.
pub fn computes(kind: OpKind) -> bool {
    use OpKind::{
        Fold, GridSample, Lookup, Order, Recurrent, Resample, Scatter, Suppress, Where, Words,
    };
    let floats = !matches!(kind, Resample | Recurrent | GridSample | Lookup);
    floats && !matches!(kind, Where | Words | Fold | Order | Suppress | Scatter)
}

/// Refuses a (valid) slice that GPUs do not compute.
pub fn validate_slice(slice: &Slice, output: &Tensor) -> Result<(), LayerError> {
    let algorithm = slice.algorithm();
    if algorithm != 0 {
        return Err(LayerError::Field("algorithm of a step on a GPU", algorithm.into(), 0));
    }
    if u64::from(slice.rows) != output.rows() {
        let (found, limit) = (slice.rows.into(), output.rows());
        return Err(LayerError::Field("rows of a step on a GPU", found, limit));
    }
    Ok(())
}

/// Bytes of intermediates for one step.
pub fn scratch_bytes(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    slice: &Slice,
) -> u64 {
    match OpKind::from_code(layer.kind) {
        Some(OpKind::Conv) => conv::scratch_bytes(layer, inputs, output, slice),
        Some(OpKind::Winograd) => winograd::scratch_bytes(layer, inputs, output, slice),
        _ => 0,
    }
}

/// Launches one step.
pub fn run(call: &Call<'_>, queue: &mut dyn Queue) -> Result<(), DeviceError> {
    let Some(kind) = OpKind::from_code(call.layer.kind) else { return Ok(()) };
    match kind {
        OpKind::Binary => elementwise::binary(call, queue),
        OpKind::Conv => conv::run(call, queue),
        OpKind::Copy => copy::run(call, queue),
        OpKind::Depthwise => depthwise::run(call, queue),
        OpKind::Gather => gather::run(call, queue),
        // Refused before.
        OpKind::Take => Ok(()),
        OpKind::LayerNorm => rows::layernorm(call, queue),
        OpKind::Lrn => rows::lrn(call, queue),
        OpKind::MatMul => matmul::run(call, queue),
        OpKind::Pool => pool::pool(call, queue),
        OpKind::Reduce => pool::reduce(call, queue),
        OpKind::Softmax => rows::softmax(call, queue),
        OpKind::Unary => elementwise::unary(call, queue),
        OpKind::Winograd => winograd::run(call, queue),
        // Refused by `computes`.
        OpKind::Where
        | OpKind::Resample
        | OpKind::Recurrent
        | OpKind::GridSample
        | OpKind::Words
        | OpKind::Fold
        | OpKind::Order
        | OpKind::Suppress
        | OpKind::Scatter
        | OpKind::Lookup => Ok(()),
    }
}
