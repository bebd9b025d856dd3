//! The operators: one file each. They check shapes when a pack is opened, divide the work among
//! threads, and call kernels.
//!
//! An operator has three functions, which the dispatch in this file joins by [`OpKind`]:
//!
//! - `validate(layer, inputs, output, isa)`: everything that `run` relies on. Called once, by
//!   `open`, on untrusted records; it must reject whatever could make `run` panic or index out of
//!   bounds.
//! - `scratch_bytes(problem)`, of those that need any: intermediates for one step. The planner
//!   calls the same function, so plan and runtime cannot disagree. A step may be given less, down
//!   to [`least_scratch_bytes`].
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
mod lanes;
pub mod layernorm;
pub mod lookup;
pub mod lrn;
pub mod matmul;
pub mod order;
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
pub mod take;
pub mod unary;
pub mod winograd;
pub mod words;
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
use crate::kernels::table::Prefetch;
use crate::matrix::{MatMut, MatRef};
use crate::pack::{Encoding, INPUTS, Isa, Layer, Method, NONE, OpKind, Tensor};
use expand::Expansion;
use winograd::ChannelBlocks;

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
    pub weights: &'a [f32],
    /// What the next step reads first of its weights, for operators that fetch theirs.
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
    /// What the step makes.
    pub fn slice(&self) -> Slice {
        Slice {
            first: self.first as u32,
            count: self.count as u32,
            row: self.rows.start as u32,
            rows: self.rows.len() as u32,
            method: self.method,
        }
    }

    /// What the step computes.
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
    let kind = OpKind::from_code(layer.kind).ok_or(LayerError::Kind(layer.kind))?;
    match layer.activation.function() {
        Some(function) if function.fuses() || kind == OpKind::Unary => {}
        _ => return Err(LayerError::Activation(layer.activation.kind)),
    }
    for (index, input) in inputs.iter().enumerate() {
        if layer.inputs[index] != NONE {
            check(!input.dims.contains(&0), "smallest extent of an input", 0, 1)?;
        }
    }
    check(!output.dims.contains(&0), "smallest extent of the output", 0, 1)?;
    check_inputs_at_most(layer, kind.inputs())?;
    let on_gpu = isa != Isa::Cuda || cuda::computes(kind);
    check(on_gpu, "operator on a GPU, which has no kernel for it,", layer.kind.into(), 0)?;
    check_encoding(layer, kind, isa)?;
    check_width(layer, kind, isa)?;
    match kind {
        OpKind::Pool => pool::validate(layer, inputs, output, isa),
        OpKind::Unary => unary::validate(layer, inputs, output, isa),
        OpKind::Binary => binary::validate(layer, inputs, output, isa),
        OpKind::Softmax => softmax::validate(layer, inputs, output, isa),
        OpKind::Lrn => lrn::validate(layer, inputs, output, isa),
        OpKind::Copy => copy::validate(layer, inputs, output, buffers, isa),
        OpKind::Reduce => reduce::validate(layer, inputs, output, isa),
        OpKind::Conv => conv::validate(layer, inputs, output, isa),
        OpKind::Depthwise => depthwise::validate(layer, inputs, output, isa),
        OpKind::MatMul => matmul::validate(layer, inputs, output, isa),
        OpKind::Winograd => winograd::validate(layer, inputs, output, isa),
        OpKind::LayerNorm => layernorm::validate(layer, inputs, output, isa),
        OpKind::Gather => gather::validate(layer, inputs, output, isa),
        OpKind::Lookup => lookup::validate(layer, inputs, output, isa),
        OpKind::Where => select::validate(layer, inputs, output, isa),
        OpKind::Words => words::validate(layer, inputs, output, isa),
        OpKind::Fold => fold::validate(layer, inputs, output, isa),
        OpKind::Order => order::validate(layer, inputs, output, isa),
        OpKind::Suppress => suppress::validate(layer, inputs, output, isa),
        OpKind::Scatter => scatter::validate(layer, inputs, output, isa),
        OpKind::Take => take::validate(layer, inputs, output, isa),
        OpKind::Resample => resample::validate(layer, inputs, output, isa),
        OpKind::Recurrent => recurrent::validate(layer, inputs, output, isa),
        OpKind::GridSample => grid_sample::validate(layer, inputs, output, isa),
    }
}

/// The record that a layer would have if it were stored as steps of this algorithm make it for
/// themselves; none where it cannot be computed by it.
pub fn transformed(layer: &Layer, input: &Tensor, algorithm: u32, isa: Isa) -> Option<Layer> {
    expand::transformed(layer, input, algorithm, isa).ok()
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
enum Want {
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
    let Some(kind) = OpKind::from_code(problem.layer.kind) else { return 0 };
    match kind {
        OpKind::Conv => conv::scratch_bytes(problem),
        OpKind::Depthwise => depthwise::scratch_bytes(problem),
        OpKind::MatMul => matmul::scratch_bytes(problem),
        OpKind::Recurrent => recurrent::scratch_bytes(problem),
        OpKind::Suppress => suppress::scratch_bytes(problem),
        OpKind::Winograd => winograd::scratch_of(problem, want),
        // The others need none.
        OpKind::Pool
        | OpKind::Unary
        | OpKind::Binary
        | OpKind::Softmax
        | OpKind::Lrn
        | OpKind::Copy
        | OpKind::Reduce
        | OpKind::LayerNorm
        | OpKind::Gather
        | OpKind::Lookup
        | OpKind::Where
        | OpKind::Words
        | OpKind::Fold
        | OpKind::Order
        | OpKind::Scatter
        | OpKind::Take
        | OpKind::Resample
        | OpKind::GridSample => 0,
    }
}

/// The first index that a step would look up in a table, or write to, and that is no entry of it,
/// and the number of entries.
pub fn outside(
    layer: &Layer,
    operands: &[Operand<'_>; INPUTS],
    rows: core::ops::Range<usize>,
) -> Option<(i32, u32)> {
    match OpKind::from_code(layer.kind) {
        Some(OpKind::Gather | OpKind::Lookup) => gather::outside(layer, &operands[0], rows),
        Some(OpKind::Take) => take::outside(layer, &operands[1], rows),
        Some(OpKind::Scatter) => scatter::outside(layer, &operands[1]),
        _ => None,
    }
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
    let Some(kind) = OpKind::from_code(call.layer.kind) else { return };
    match kind {
        OpKind::Pool => pool::run(call),
        OpKind::Unary => unary::run(call),
        OpKind::Binary => binary::run(call),
        OpKind::Softmax => softmax::run(call),
        OpKind::Lrn => lrn::run(call),
        OpKind::Copy => copy::run(call),
        OpKind::Reduce => reduce::run(call),
        OpKind::Conv => conv::run(call),
        OpKind::Depthwise => depthwise::run(call),
        OpKind::MatMul => matmul::run(call),
        OpKind::Winograd => winograd::run(call),
        OpKind::LayerNorm => layernorm::run(call),
        OpKind::Gather => gather::run(call),
        OpKind::Lookup => lookup::run(call),
        OpKind::Where => select::run(call),
        OpKind::Words => words::run(call),
        OpKind::Fold => fold::run(call),
        OpKind::Order => order::run(call),
        OpKind::Suppress => suppress::run(call),
        OpKind::Scatter => scatter::run(call),
        OpKind::Take => take::run(call),
        OpKind::Resample => resample::run(call),
        OpKind::Recurrent => recurrent::run(call),
        OpKind::GridSample => grid_sample::run(call),
    }
}

/// An error unless `holds`.
fn check(holds: bool, what: &'static str, found: u64, limit: u64) -> Result<(), LayerError> {
    if holds { Ok(()) } else { Err(LayerError::Field(what, found, limit)) }
}

/// Panels of output channels have an encoding, as floats they fit their field; nothing else has
/// one. GPUs have none of 8 bits.
fn check_encoding(layer: &Layer, kind: OpKind, isa: Isa) -> Result<(), LayerError> {
    let last = if isa == Isa::Cuda { Encoding::Bf16 } else { Encoding::I8 } as u64;
    let known = layer.encoding().is_some() && u64::from(layer.encoding) <= last;
    check(known, "encoding of the weights", layer.encoding.into(), last)?;
    let plain = layer.encoding == Encoding::F32 as u32;
    let ok = plain || kind.has_panels() && layer.panel_bytes <= u32::MAX / 4;
    check(ok, "encoding of the weights of this operator", layer.encoding.into(), 0)
}

/// Panels hold as many output channels as they have room for, or fewer where the operator can do
/// with that.
fn check_width(layer: &Layer, kind: OpKind, isa: Isa) -> Result<(), LayerError> {
    let most = match kind {
        OpKind::Conv | OpKind::Gather | OpKind::Lookup => isa.panel() as u64 - 1,
        _ => 0,
    };
    let width = u64::from(layer.width);
    check(width <= most, "output channels of a panel, where these are fewer,", width, most)
}

/// For operators with so many inputs, which come first.
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

/// Refuses more inputs than so many.
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
