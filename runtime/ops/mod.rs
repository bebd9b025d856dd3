//! The operators: one file each. They check shapes when a pack is opened, divide the work among
//! threads, and call kernels.
//!
//! An operator has three functions, which the dispatch in this file joins by [`OpKind`]:
//!
//! - `validate(layer, inputs, output, isa)`: everything that `run` relies on. Called once, by `open`, on
//!   untrusted records; it must reject whatever could make `run` panic or index out of bounds.
//! - `scratch_bytes(layer, inputs, output, slice, threads, isa)`, of those that need any: intermediates
//!   for one step. The planner calls the same function, so plan and runtime cannot disagree. A step may be given
//!   less, down to [`least_scratch_bytes`].
//! - `run(call)`: computes one step. Infallible after `validate` and [`validate_slice`].
//!
//! Weights that are stored in fewer bits, or are to be transformed, are made what the operators read before
//! these run: [`expand`] has all of it, so that operators need not know.
//!
//! [`work`] has the estimates that the planner weighs layers by.
//!
//! # Rings
//!
//! A layer that slides makes some lines of an image at a time, from a buffer that holds only some lines into
//! another such: line y lies in slot `y % lines` ([`Place`](crate::pack::Place)). Tensors' records, and the rows
//! of a [`Slice`], speak of the whole image; a matrix has the rows that memory holds, and [`MatRef::slots`]
//! says in which of them a tensor's rows lie. So nothing is different for an operator that reads by a window
//! (each line is found by itself) or row by row (the rows of a step do not go around the end of any ring:
//! [`validate_rings`]). Operators that see a tensor as one run of floats do not work in rings.

pub mod binary;
pub mod conv;
pub mod copy;
pub mod cuda;
pub mod depthwise;
mod expand;
pub mod gather;
pub mod layernorm;
pub mod lrn;
pub mod matmul;
pub mod pool;
pub mod reduce;
pub mod softmax;
pub mod unary;
pub mod winograd;
mod work;

pub use work::{Work, work};

use crate::arena::{MatMut, MatRef};
use crate::device::{Device, Inline, Split};
use crate::kernels::{Isa, Kernels};
use crate::pack::{Encoding, Layer, NONE, OpKind, Tensor};
use expand::Expansion;

/// An operand of a step.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// There is none.
    Absent,
    /// A tensor: rows (that memory holds) times channels. For [`OpKind::Copy`], which addresses its operands by
    /// strides: one row that is the whole buffer.
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
    /// The output: all of the tensor that memory holds, of which this step makes `rows` and the panels `first..`.
    /// For [`OpKind::Copy`]: one row that is the whole buffer.
    pub out: MatMut<'a>,
    /// Packed weights of this step's panels only, `count · panel_bytes`, in the layer's encoding.
    pub weights: &'a [f32],
    /// [`Step::algorithm`](crate::pack::Step::algorithm).
    pub algorithm: u32,
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

impl Call<'_> {
    /// What the step makes.
    pub fn slice(&self) -> Slice {
        Slice {
            first: self.first as u32,
            count: self.count as u32,
            row: self.rows.start as u32,
            rows: self.rows.len() as u32,
            algorithm: self.algorithm,
        }
    }
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
    /// [`Step::algorithm`](crate::pack::Step::algorithm).
    pub algorithm: u32,
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

/// Refuses a layer whose `run` could panic or index out of bounds, or that means nothing.
///
/// `buffers` are the floats of the first input's and the output's buffers. The caller has proven that
/// every tensor lies inside its buffer with `pitch ≥ dims[3]`, and that no input overlaps the output
/// unless it is the very same tensor.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; 2],
    output: &Tensor,
    buffers: [u64; 2],
    isa: Isa,
) -> Result<(), LayerError> {
    let kind = OpKind::from_code(layer.kind).ok_or(LayerError::Kind(layer.kind))?;
    if layer.activation.function().is_none() {
        return Err(LayerError::Activation(layer.activation.kind));
    }
    for (index, input) in inputs.iter().enumerate() {
        if layer.inputs[index] != NONE {
            check(!input.dims.contains(&0), "smallest extent of an input", 0, 1)?;
        }
    }
    check(!output.dims.contains(&0), "smallest extent of the output", 0, 1)?;
    check_encoding(layer, kind)?;
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
    }
}

/// Whether steps of this operator can make a part of the output's rows: any, but whole lines of tiles with
/// Winograd ([`winograd::slice_lines`]).
pub fn sliceable(kind: OpKind) -> bool {
    !matches!(kind, OpKind::Copy | OpKind::Reduce)
}

/// How an operator finds the pixels of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// By a window: each line by itself.
    Window,
    /// Beside the pixels of the output.
    Rows,
    /// As one run of floats.
    Whole,
}

/// How an operator reads its inputs.
pub fn reads(kind: OpKind) -> [Reads; 2] {
    match kind {
        OpKind::Conv | OpKind::Depthwise | OpKind::Winograd | OpKind::Pool => {
            [Reads::Window, Reads::Rows]
        }
        OpKind::Unary | OpKind::Binary | OpKind::Softmax | OpKind::Lrn | OpKind::LayerNorm => {
            [Reads::Rows; 2]
        }
        OpKind::MatMul => [Reads::Rows, Reads::Whole],
        OpKind::Copy | OpKind::Reduce | OpKind::Gather => [Reads::Whole; 2],
    }
}

/// Whether an operator's output may lie in a ring: where an input is found pixel by pixel.
pub fn slides(kind: OpKind) -> bool {
    reads(kind)[0] != Reads::Whole
}

/// Refuses a slice that is not inside its (valid) layer, that cuts what cannot be cut, or whose algorithm the
/// layer cannot be computed by.
pub fn validate_slice(
    layer: &Layer,
    inputs: &[Tensor; 2],
    output: &Tensor,
    slice: &Slice,
    isa: Isa,
) -> Result<(), LayerError> {
    if slice.algorithm != 0 && isa != Isa::Cuda {
        let plain = expand::transformed(layer, &inputs[0], slice.algorithm, isa)?;
        winograd::validate(&plain, inputs, output, isa)?;
        return validate_slice(&plain, inputs, output, &Slice { algorithm: 0, ..*slice }, isa);
    }
    let kind = OpKind::from_code(layer.kind).ok_or(LayerError::Kind(layer.kind))?;
    if isa == Isa::Cuda {
        cuda::validate_slice(slice, output)?;
    }
    let end = slice.row as u64 + slice.rows as u64;
    check(slice.rows > 0, "number of the step's rows", 0, 1)?;
    check(end <= output.rows(), "end of the step's rows", end, output.rows())?;
    if !sliceable(kind) {
        let rows = slice.rows as u64;
        check(rows == output.rows(), "number of the step's rows", rows, output.rows())?;
    }
    if kind == OpKind::Winograd {
        let tiles = winograd::slice_lines(layer);
        for row in [slice.row.into(), end] {
            let line = whole_lines(row, output)? % u64::from(output.dims[1]);
            let what = "first line of the step, or behind its last, which begins tiles,";
            check(line % u64::from(tiles) == 0, what, line, tiles.into())?;
        }
    }
    let end = slice.first as u64 + slice.count as u64;
    check(end <= layer.panels as u64, "end of the step's panels", end, layer.panels as u64)?;
    if !kind.has_panels() {
        let (count, panels) = (slice.count as u64, layer.panels as u64);
        check(count == panels, "number of the step's panels", count, panels)?;
    }
    Ok(())
}

/// The line, over all images, that a row begins. Refuses one that does not.
fn whole_lines(row: u64, tensor: &Tensor) -> Result<u64, LayerError> {
    let width = u64::from(tensor.dims[2]);
    let (line, beyond) = (row / width, row % width);
    check(beyond == 0, "end of the step's rows beyond whole lines", beyond, 0)?;
    Ok(line)
}

/// Refuses a (valid) slice whose operands cannot lie in rings of so many lines, where they do: of the inputs and
/// the output, 0 for one that is whole or absent.
pub fn validate_rings(
    layer: &Layer,
    inputs: &[Tensor; 2],
    output: &Tensor,
    slice: &Slice,
    rings: [u32; 3],
) -> Result<(), LayerError> {
    if rings == [0; 3] {
        return Ok(());
    }
    let kind = OpKind::from_code(layer.kind).ok_or(LayerError::Kind(layer.kind))?;
    let reads = reads(kind);
    let whole = (0..2).any(|slot| rings[slot] > 0 && reads[slot] == Reads::Whole);
    check(slides(kind) && !whole, "operator that works in a ring", layer.kind.into(), 0)?;
    let [a, b] = [0, 1].map(|slot| (&inputs[slot], reads[slot] == Reads::Rows));
    for ((tensor, beside), lines) in [a, b, (output, true)].into_iter().zip(rings) {
        if lines == 0 || !beside {
            continue;
        }
        for dim in 0..3 {
            let (found, limit) = (tensor.dims[dim].into(), output.dims[dim].into());
            check(found == limit, "extent of a ring that is read row by row", found, limit)?;
        }
        let first = whole_lines(slice.row.into(), output)?;
        let count = whole_lines(slice.rows.into(), output)?;
        let end = first % u64::from(lines) + count;
        check(end <= lines.into(), "end of the step's lines in a ring", end, lines.into())?;
    }
    Ok(())
}

/// The record that a layer would have if it were stored as steps of this algorithm make it for themselves; none
/// where it cannot be computed by it.
pub fn transformed(layer: &Layer, input: &Tensor, algorithm: u32, isa: Isa) -> Option<Layer> {
    expand::transformed(layer, input, algorithm, isa).ok()
}

/// Panels of a layer (its record as [`transformed`], or with floats for weights) that are expanded at once, for
/// which a Winograd convolution transforms its inputs.
pub fn panels_at_once(plain: &Layer) -> usize {
    expand::panels_at_once(plain)
}

/// How much scratch a step is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    All,
    Least,
}

/// Bytes of intermediates that one step can use when it runs on `threads` threads, or on fewer: those of the
/// operator, and those for weights that are not stored as the operator reads them.
pub fn scratch_bytes(
    layer: &Layer,
    inputs: &[Tensor; 2],
    output: &Tensor,
    slice: &Slice,
    threads: u32,
    isa: Isa,
) -> u64 {
    scratch_of(layer, inputs, output, slice, threads, isa, Want::All)
}

/// The bytes of these that it cannot do without. With any number between it computes the same, bit for bit.
pub fn least_scratch_bytes(
    layer: &Layer,
    inputs: &[Tensor; 2],
    output: &Tensor,
    slice: &Slice,
    threads: u32,
    isa: Isa,
) -> u64 {
    scratch_of(layer, inputs, output, slice, threads, isa, Want::Least)
}

fn scratch_of(
    layer: &Layer,
    inputs: &[Tensor; 2],
    output: &Tensor,
    slice: &Slice,
    threads: u32,
    isa: Isa,
    want: Want,
) -> u64 {
    if isa == Isa::Cuda {
        return cuda::scratch_bytes(layer, inputs, output, slice);
    }
    let bytes = |threads: u32| match Expansion::new(layer, inputs, slice, threads as usize, isa) {
        Some(expansion) => expansion.scratch_bytes(inputs, output, slice, threads, want),
        None => operator_scratch_bytes(layer, inputs, output, slice, threads, isa, want),
    };
    match expand::expands(layer, slice.algorithm) {
        true => (1..=threads.max(1)).map(bytes).max().unwrap_or(0),
        false => bytes(threads),
    }
}

/// Bytes of intermediates of an operator.
fn operator_scratch_bytes(
    layer: &Layer,
    inputs: &[Tensor; 2],
    output: &Tensor,
    slice: &Slice,
    threads: u32,
    isa: Isa,
    want: Want,
) -> u64 {
    let Some(kind) = OpKind::from_code(layer.kind) else { return 0 };
    match kind {
        OpKind::Conv => conv::scratch_bytes(layer, inputs, output, slice, threads, isa),
        OpKind::Depthwise => depthwise::scratch_bytes(layer, inputs, output, slice, threads, isa),
        OpKind::MatMul => matmul::scratch_bytes(layer, inputs, output, slice, threads, isa),
        OpKind::Winograd => winograd::scratch_of(layer, inputs, output, slice, threads, isa, want),
        // The others need none.
        OpKind::Pool
        | OpKind::Unary
        | OpKind::Binary
        | OpKind::Softmax
        | OpKind::Lrn
        | OpKind::Copy
        | OpKind::Reduce
        | OpKind::LayerNorm
        | OpKind::Gather => 0,
    }
}

/// Computes one step of a layer that [`validate`] has accepted, over a slice that [`validate_slice`] has.
pub fn run(call: Call<'_>) {
    match Expansion::of(&call) {
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
    }
}

/// An error unless `holds`.
fn check(holds: bool, what: &'static str, found: u64, limit: u64) -> Result<(), LayerError> {
    if holds { Ok(()) } else { Err(LayerError::Field(what, found, limit)) }
}

/// Panels of output channels have an encoding, as floats they fit their field; nothing else has one.
fn check_encoding(layer: &Layer, kind: OpKind) -> Result<(), LayerError> {
    let last = Encoding::Bf16 as u64;
    check(layer.encoding().is_some(), "encoding of the weights", layer.encoding.into(), last)?;
    let plain = layer.encoding == Encoding::F32 as u32;
    let ok = plain || kind.has_panels() && layer.panel_bytes <= u32::MAX / 2;
    check(ok, "encoding of the weights of this operator", layer.encoding.into(), 0)
}

/// For operators with one input, no weights, and an output elsewhere.
fn check_one_input(layer: &Layer) -> Result<(), LayerError> {
    check_one_input_panels(layer)?;
    check(layer.panels == 0, "number of weight panels", layer.panels.into(), 0)
}

/// For operators with one input, and an output elsewhere.
fn check_one_input_panels(layer: &Layer) -> Result<(), LayerError> {
    let ([first, second], output) = (layer.inputs, layer.output);
    let what = "output tensor, which must not be the input,";
    check(first != output, what, output.into(), first.into())?;
    check(first != NONE, "number of inputs", 0, 1)?;
    check(second == NONE, "number of inputs", 2, 1)
}

/// For operators with one input and no weights.
fn check_one_input_or_in_place(layer: &Layer) -> Result<(), LayerError> {
    let [first, second] = layer.inputs;
    check(first != NONE, "number of inputs", 0, 1)?;
    check(second == NONE, "number of inputs", 2, 1)?;
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
pub(crate) mod testing;
