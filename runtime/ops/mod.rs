//! The operators: one file each. They check shapes when a pack is opened, divide the work among
//! threads, and call kernels.
//!
//! Each file has a `ROW`, which says all that there is to know of its operator (`operator.rs`); the
//! functions in this file look it up by the layer's code. Three things it always says:
//!
//! - `validate(layer, inputs, output, isa)`: everything that `run` relies on. Called once, by
//!   `open`, on untrusted records; it must reject whatever could make `run` panic or index out of
//!   bounds.
//! - `scratch(problem, want)`: intermediates for one step. The planner calls the same function, so
//!   plan and runtime cannot disagree. A step may be given less, down to [`least_scratch_bytes`].
//! - `run(call)`: computes one step. Infallible after `validate` and [`validate_slice`].
//!
//! Weights that are stored in fewer bits, or are to be transformed, are made what the operators
//! read before these run: `expand` has all of it, so that operators need not know.
//!
//! `work` has the estimates that the planner weighs layers by.
//!
//! # Rings
//!
//! A layer that slides makes some lines of an image at a time, from a buffer that holds only some
//! lines into another such: line y lies in slot `y % lines` ([`Place`](crate::pack::Place)).
//! Tensors' records, and the rows of a [`Slice`], speak of the whole image; a matrix has the rows
//! that memory holds, and [`MatRef::slots`] says in which of them a tensor's rows lie. So nothing
//! is different for an operator that reads by a window (each line is found by itself) or row by row
//! (the rows of a step do not go around the end of any ring: [`validate_rings`]). Operators that
//! see a tensor as one run of floats do not read from rings, and only copies by rows ([`row_unit`])
//! write to them.

pub mod binary;
mod broadcast;
pub mod conv;
pub mod copy;
pub mod cuda;
pub mod depthwise;
mod elements;
mod expand;
pub mod fold;
pub mod gather;
pub mod grid_sample;
pub mod integer;
mod lanes;
pub mod layernorm;
pub mod lookup;
pub mod lrn;
pub mod matmul;
mod operator;
pub mod pool;
mod problem;
mod reads;
pub mod recurrent;
pub mod reduce;
pub mod resample;
pub mod scatter;
pub mod select;
mod slice;
mod slicing;
pub mod softmax;
pub mod suppress;
mod table;
pub mod take;
pub mod top_k;
pub mod unary;
pub mod winograd;
mod work;

pub use conv::{chains, weights};
pub use elements::{Elements, elements, validate_elements};
pub use problem::Problem;
pub use reads::{Reads, reads, rows_read};
pub use slice::Slice;
pub use slicing::{row_unit, slides, validate_rings, validate_slice};
pub use work::{Work, step_work, work};

use crate::device::{Device, Inline, Split};
use crate::kernels::Kernels;
use crate::kernels::table::{Packed, Prefetch};
use crate::matrix::{MatMut, MatRef};
use crate::pack::{Encoding, INPUTS, Isa, Layer, Method, NONE, OpKind, Tensor};
use expand::Expansion;
use operator::Panels;
pub(crate) use operator::{Addresses, Operator};
use table::{LAUNCHES, OPERATORS};
use winograd::ChannelBlocks;

/// The operator of a kind.
fn row_of(kind: OpKind) -> &'static Operator {
    &OPERATORS[kind as usize - 1]
}

/// The operator of a layer, if its code is known.
pub(crate) fn row(layer: &Layer) -> Option<&'static Operator> {
    OPERATORS.get((layer.kind as usize).wrapping_sub(1))
}

/// The launch of a layer on a GPU, if there is one.
fn launch_of(layer: &Layer) -> Option<cuda::Launch> {
    LAUNCHES.get((layer.kind as usize).wrapping_sub(1)).copied().flatten()
}

/// An operand of a step.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// There is none.
    Absent,
    /// A tensor: rows (that memory holds) times channels, of which the step is lent those that it
    /// reads ([`rows_read`]). For [`OpKind::Copy`], which addresses its operands by strides: one
    /// row that is the whole buffer.
    Mat(MatRef<'a>),
    /// The output itself (in place).
    Output,
}

/// One step, ready to run.
pub struct Call<'a> {
    /// The layer.
    pub layer: &'a Layer,
    /// Its input tensors' records; those of absent inputs are zero.
    pub inputs: [Tensor; INPUTS],
    /// Its output tensor's record.
    pub output: Tensor,
    /// The inputs.
    pub operands: [Operand<'a>; INPUTS],
    /// The output: all of the tensor that memory holds, of which this step makes `rows`, and is
    /// lent no others, and the panels `first..`. For [`OpKind::Copy`]: one row that is the whole
    /// buffer, or the whole ring.
    pub out: MatMut<'a>,
    /// Packed weights of this step's panels only, `count · panel_bytes`, in the layer's encoding;
    /// or of its chains only.
    pub weights: Packed<'a>,
    /// The weights that the next step reads first, for operators that prefetch.
    pub prefetch: Prefetch,
    /// First panel of the step.
    pub first: usize,
    /// Panels of the step.
    pub count: usize,
    /// Which sums the step computes, and how.
    pub method: Method,
    /// Output rows of the step.
    pub rows: core::ops::Range<usize>,
    /// Scratch, aligned to 64 bytes, of at least `scratch_bytes`.
    pub scratch: &'a mut [u8],
    /// Where it runs.
    pub device: &'a dyn Device,
    /// With what.
    pub kernels: &'a Kernels,
}

impl Call<'_> {
    /// The slice that the step makes.
    pub fn slice(&self) -> Slice {
        Slice {
            first: self.first as u32,
            count: self.count as u32,
            row: self.rows.start as u32,
            rows: self.rows.len() as u32,
            method: self.method,
        }
    }

    /// The problem that the step computes.
    pub fn problem(&self) -> Problem<'_> {
        Problem {
            layer: self.layer,
            inputs: &self.inputs,
            output: &self.output,
            slice: self.slice(),
            threads: self.device.threads() as u32,
            isa: self.kernels.isa(),
        }
    }
}

/// Why a layer's record is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerError {
    /// The operator code is unknown.
    Kind(u32),
    /// The activation code is unknown, or only for Unary layers.
    Activation(u32),
    /// A parameter, input or weight is out of its range: which, found, and the limit it disagrees
    /// with.
    Field(&'static str, u64, u64),
}

impl core::fmt::Display for LayerError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Kind(code) => write!(f, "operator code {code} is unknown"),
            Self::Activation(code) => {
                write!(f, "activation code {code} is unknown, or not for this operator")
            }
            Self::Field(what, found, limit) => write!(f, "{what} is {found}, against {limit}"),
        }
    }
}

/// Refuses a layer whose `run` could panic or index out of bounds, or that means nothing.
///
/// `buffers` are the floats of the first input's and the output's buffers. The caller has proven
/// that every tensor lies inside its buffer with `pitch ≥ dims[3]`, and that no input overlaps the
/// output unless it is the very same tensor.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    buffers: [u64; 2],
    isa: Isa,
) -> Result<(), LayerError> {
    let operator = row(layer).ok_or(LayerError::Kind(layer.kind))?;
    match layer.activation.function() {
        Some(function) if function.fuses() || operator.functions => {}
        _ => return Err(LayerError::Activation(layer.activation.kind)),
    }
    for (index, input) in inputs.iter().enumerate() {
        if layer.inputs[index] != NONE {
            check(!input.dims.contains(&0), "smallest extent of an input", 0, 1)?;
        }
    }
    check(!output.dims.contains(&0), "smallest extent of the output", 0, 1)?;
    check_inputs_at_most(layer, operator.inputs)?;
    let on_gpu = isa != Isa::Cuda || operator.on_gpu.is_some();
    check(on_gpu, "operator on a GPU, which has no kernel for it,", layer.kind.into(), 0)?;
    check_encoding(layer, operator, isa)?;
    check_width(layer, operator, isa)?;
    (operator.validate)(layer, inputs, output, isa)?;
    (operator.buffers)(layer, buffers)
}

/// The record that a layer would have if it were stored as steps of this algorithm make it for
/// themselves; none where it cannot be computed by it.
pub fn transformed(layer: &Layer, input: &Tensor, algorithm: u32, isa: Isa) -> Option<Layer> {
    winograd::transformed(layer, input, algorithm, isa).ok()
}

/// Panels of a layer (its record as [`transformed`], or with floats for weights) that are expanded
/// at once, for which a Winograd convolution transforms its inputs.
pub fn panels_at_once(plain: &Layer) -> usize {
    expand::panels_at_once(plain)
}

/// How a step that transforms its weights can be computed with little scratch; `None` where it
/// cannot.
pub fn channel_blocks(problem: &Problem<'_>) -> Option<ChannelBlocks> {
    let expansion = if problem.isa == Isa::Cuda { None } else { Expansion::new(problem) };
    expansion?.channel_blocks(problem)
}

/// How much scratch a step is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    All,
    Least,
}

/// Bytes of intermediates that one step can use when it runs on the problem's threads, or on fewer:
/// those of the operator, and those for weights that are not stored as the operator reads them.
pub fn scratch_bytes(problem: &Problem<'_>) -> u64 {
    scratch_of(problem, Want::All)
}

/// Bytes of intermediates that one step cannot do without, whichever its first row is. With any
/// number from these to [`scratch_bytes`] it computes the same, bit for bit.
pub fn least_scratch_bytes(problem: &Problem<'_>) -> u64 {
    scratch_of(problem, Want::Least)
}

fn scratch_of(problem: &Problem<'_>, want: Want) -> u64 {
    let Problem { layer, inputs, output, slice, .. } = problem;
    if problem.isa == Isa::Cuda {
        return cuda::scratch_bytes(layer, inputs, output, slice);
    }
    match expand::expands(layer, slice.algorithm()) {
        true => expand::scratch_bytes(problem, want),
        false => operator_scratch_bytes(problem, want),
    }
}

/// Bytes of intermediates of an operator.
fn operator_scratch_bytes(problem: &Problem<'_>, want: Want) -> u64 {
    row(problem.layer).map_or(0, |operator| (operator.scratch)(problem, want))
}

/// The first index that a step would look up in a table, or write to, and that is no entry of it,
/// and the number of entries.
pub fn outside(
    layer: &Layer,
    operands: &[Operand<'_>; INPUTS],
    rows: core::ops::Range<usize>,
) -> Option<(i32, u32)> {
    row(layer)?.outside?(layer, operands, rows)
}

/// Whether a layer addresses its operands' whole buffers, by strides: it then takes each as one row.
pub fn takes_buffers(layer: &Layer) -> bool {
    row(layer).is_some_and(|operator| operator.addresses == Addresses::Buffers)
}

/// Computes one step of a layer that [`validate`] has accepted, over a slice that
/// [`validate_slice`] has.
pub fn run(call: Call<'_>) {
    match Expansion::new(&call.problem()) {
        Some(expansion) => expansion.run(call),
        None => run_operator(call),
    }
}

/// Computes a step whose weights are as its operator reads them.
fn run_operator(call: Call<'_>) {
    if let Some(operator) = row(call.layer) {
        (operator.run)(call);
    }
}

/// An error unless `holds`.
fn check(holds: bool, what: &'static str, found: u64, limit: u64) -> Result<(), LayerError> {
    if holds { Ok(()) } else { Err(LayerError::Field(what, found, limit)) }
}

/// Panels of output channels have an encoding, as floats they fit their field; nothing else has
/// one. GPUs have none of 8 bits.
fn check_encoding(layer: &Layer, operator: &Operator, isa: Isa) -> Result<(), LayerError> {
    let last = if isa == Isa::Cuda { Encoding::Bf16 } else { Encoding::I8 } as u64;
    let known = layer.encoding().is_some() && u64::from(layer.encoding) <= last;
    check(known, "encoding of the weights", layer.encoding.into(), last)?;
    let plain = layer.encoding == Encoding::F32 as u32;
    let panels = operator.panels != Panels::Whole;
    let ok = plain || panels && layer.panel_bytes <= u32::MAX / 4;
    check(ok, "encoding of the weights of this operator", layer.encoding.into(), 0)
}

/// Panels are full, or hold fewer output channels if the operator permits that.
fn check_width(layer: &Layer, operator: &Operator, isa: Isa) -> Result<(), LayerError> {
    let most = match operator.panels {
        Panels::Narrow => isa.panel() as u64 - 1,
        Panels::Whole | Panels::Full => 0,
    };
    let width = u64::from(layer.width);
    check(width <= most, "output channels of a panel, where these are fewer,", width, most)
}

/// Checks that the first `count` inputs are there, and no others.
fn check_inputs(layer: &Layer, count: usize) -> Result<(), LayerError> {
    let present = layer.inputs.iter().filter(|id| **id != NONE).count();
    let first = layer.inputs.iter().take_while(|id| **id != NONE).count();
    check(present == count, "number of inputs", present as u64, count as u64)?;
    check(first == count, "absent input", first as u64, count as u64)
}

/// Refuses an activation.
fn check_no_activation(layer: &Layer) -> Result<(), LayerError> {
    let code = layer.activation.kind;
    check(code == 0, "activation of an operator without one", code.into(), 0)
}

/// Refuses more than `count` inputs.
fn check_inputs_at_most(layer: &Layer, count: usize) -> Result<(), LayerError> {
    let last = layer.inputs.iter().rposition(|id| *id != NONE).map_or(0, |last| last + 1);
    check(last <= count, "number of inputs", last as u64, count as u64)
}

/// For operators with one input, no weights, and an output elsewhere.
fn check_one_input(layer: &Layer) -> Result<(), LayerError> {
    check_one_input_panels(layer)?;
    check(layer.panels == 0, "number of weight panels", layer.panels.into(), 0)
}

/// For operators with one input, and an output elsewhere.
fn check_one_input_panels(layer: &Layer) -> Result<(), LayerError> {
    let (first, output) = (layer.inputs[0], layer.output);
    let what = "output tensor, which must not be the input,";
    check(first != output, what, output.into(), first.into())?;
    check_inputs(layer, 1)
}

/// For operators with one input and no weights.
fn check_one_input_or_in_place(layer: &Layer) -> Result<(), LayerError> {
    check_inputs(layer, 1)?;
    check(layer.panels == 0, "number of weight panels", layer.panels.into(), 0)
}

/// For operators whose output has the input's extents.
fn check_same_extents(input: &Tensor, output: &Tensor) -> Result<(), LayerError> {
    for (input, output) in input.dims.iter().zip(&output.dims) {
        check(input == output, "extent of the output", (*output).into(), (*input).into())?;
    }
    Ok(())
}

/// How the elementwise operators divide an output: along rows where there are enough of them, along
/// channels (whole cache lines of them) where there are not.
fn split(rows: usize, cols: usize, device: &dyn Device) -> Split {
    let threads = device.threads();
    if rows >= 2 * threads || cols < 16 * threads { Split::Rows(1) } else { Split::Cols(16) }
}

/// The device, or the caller's core alone where there is too little to do to wake others for it.
fn device_for(device: &dyn Device, floats: usize) -> &dyn Device {
    if floats < 4096 { &Inline } else { device }
}

#[cfg(test)]
mod extremes;
#[cfg(test)]
mod odd;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
