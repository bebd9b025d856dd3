//! What the checker knows of the operators: a row for each.
//!
//! The runtime has rows of its own (`runtime/ops`), which planners ask. These here are written
//! independently of them, so that a fault in one of the two tables is found by the other.

use eyelet::ops;
use eyelet::pack::{
    BinaryParams, ConvParams, INPUTS, Layer, OpKind, PoolParams, ResampleParams, Step, Tensor,
    WinogradParams, params,
};
use std::ops::Range;

/// What is known of an operator. An operand is an input, or `None` for the output.
#[derive(Clone, Copy)]
pub(super) struct Operator {
    /// The inputs that may be the output itself.
    pub in_place: [bool; INPUTS],
    /// How the floats of its operands are addressed.
    pub floats: Floats,
    /// Whether its sums are cut into chains, some of which a step can compute.
    pub chains: bool,
    /// From which rows of each input a step makes its rows.
    reads: [Reads; INPUTS],
    /// Whether it addresses an operand row by row. The others have strides of their own.
    rows: fn(&Layer, Operand<'_>) -> bool,
    /// Whether an operand may be a ring of lines.
    rings: fn(&Layer, Operand<'_>) -> bool,
    /// Lines of a tile; steps make whole ones. 0: as the step's algorithm has it.
    tile: fn(&Layer) -> u32,
}

/// An operand, and the output's record.
#[derive(Clone, Copy)]
struct Operand<'a> {
    input: Option<usize>,
    tensor: &'a Tensor,
    output: &'a Tensor,
}

impl Operand<'_> {
    /// Whether it has the output's extents.
    fn is_alike(&self) -> bool {
        self.tensor.dims == self.output.dims
    }

    /// Whether it has as many rows as the output, in the same lines.
    fn is_beside(&self) -> bool {
        self.tensor.dims[..3] == self.output.dims[..3]
    }
}

/// How the floats of an operator's operands are addressed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Floats {
    /// By the tensors' rows.
    Rows,
    /// By the strides of a copy.
    Copied,
    /// Inputs by the strides of stacks of matrices.
    Matrices,
}

/// From which rows of an input some rows of the output are made.
#[derive(Clone, Copy)]
enum Reads {
    /// From the rows of their numbers, if there are as many; from all otherwise.
    Own,
    /// From all.
    All,
    /// From those of the lines that a window passes over.
    Window(fn(&Layer) -> Window),
    /// From those of lines that begin at a fraction of the output's.
    Parts,
}

/// A window down the lines of an image.
struct Window {
    kernel: u32,
    stride: u32,
    dilation: u32,
    pad: u32,
}

impl Operator {
    /// One that touches its operands row by row, and makes every row from those of its number.
    const ROWWISE: Self = Self {
        in_place: [false; INPUTS],
        floats: Floats::Rows,
        chains: false,
        reads: [Reads::Own; INPUTS],
        rows: |_, _| true,
        rings: |_, _| true,
        tile: |_| 0,
    };

    /// One that makes every row from all of its inputs' rows, of which none is in a ring.
    const WHOLE: Self = Self { reads: [Reads::All; INPUTS], rings: |_, _| false, ..Self::ROWWISE };

    /// One of no known code.
    const UNKNOWN: Self = Self { rows: |_, _| false, rings: |_, _| false, ..Self::ROWWISE };

    /// One that looks at its first input through a window, and may add to its second one.
    const fn convolution(window: fn(&Layer) -> Window) -> Self {
        Self {
            in_place: [false, true, false],
            reads: [Reads::Window(window), Reads::Own, Reads::Own],
            ..Self::ROWWISE
        }
    }

    /// The row of a kind.
    const fn row(kind: OpKind) -> Self {
        match kind {
            OpKind::Conv => Self { chains: true, ..Self::convolution(convolved) },
            OpKind::Depthwise => Self::convolution(convolved),
            OpKind::Winograd => Self {
                tile: |layer| params::<WinogradParams>(layer).tile,
                ..Self::convolution(|layer| {
                    let p: WinogradParams = params(layer);
                    Window { kernel: 3, stride: 1, dilation: 1, pad: p.pad[0] }
                })
            },
            OpKind::Pool => Self { reads: [Reads::Window(pooled); INPUTS], ..Self::ROWWISE },
            OpKind::Resample => Self { reads: [Reads::Parts; INPUTS], ..Self::ROWWISE },
            OpKind::Unary | OpKind::Softmax | OpKind::LayerNorm => {
                Self { in_place: [true, false, false], ..Self::ROWWISE }
            }
            OpKind::Lrn => Self::ROWWISE,
            OpKind::Binary => Self {
                in_place: [true; INPUTS],
                rings: |layer, operand| {
                    let p: BinaryParams = params(layer);
                    operand.is_alike() || p.constant_operand != 0
                },
                ..Self::ROWWISE
            },
            OpKind::Where | OpKind::Integer => Self {
                in_place: [true; INPUTS],
                rings: |_, operand| operand.is_alike(),
                ..Self::ROWWISE
            },
            OpKind::Copy => Self {
                floats: Floats::Copied,
                rows: copies_rows,
                rings: copies_rows,
                ..Self::WHOLE
            },
            OpKind::MatMul => Self {
                floats: Floats::Matrices,
                reads: [Reads::Own, Reads::All, Reads::All],
                rows: is_left,
                rings: is_left,
                ..Self::WHOLE
            },
            OpKind::GridSample | OpKind::Take => {
                Self { reads: [Reads::All, Reads::Own, Reads::Own], ..Self::WHOLE }
            }
            OpKind::Scatter => Self { reads: [Reads::Own, Reads::All, Reads::All], ..Self::WHOLE },
            OpKind::Reduce | OpKind::Fold | OpKind::TopK | OpKind::Suppress => Self::WHOLE,
            OpKind::Gather | OpKind::Lookup | OpKind::Recurrent => Self::WHOLE,
        }
    }

    /// The row of a layer's operator.
    pub(super) fn of(layer: &Layer) -> Self {
        OpKind::from_code(layer.kind).map_or(Self::UNKNOWN, Self::row)
    }

    /// Whether it addresses an operand row by row.
    pub(super) fn has_rows(
        &self,
        layer: &Layer,
        input: Option<usize>,
        tensor: &Tensor,
        output: &Tensor,
    ) -> bool {
        (self.rows)(layer, Operand { input, tensor, output })
    }

    /// Whether it goes through an operand that is a ring row by row; else it looks through a window.
    /// `None` if it does neither.
    pub(super) fn on_ring(
        &self,
        layer: &Layer,
        input: Option<usize>,
        tensor: &Tensor,
        output: &Tensor,
    ) -> Option<bool> {
        let looks = |input: usize| matches!(self.reads[input], Reads::Window(_) | Reads::Parts);
        let rings = (self.rings)(layer, Operand { input, tensor, output });
        rings.then_some(!input.is_some_and(looks))
    }

    /// Lines of which a step makes multiples.
    pub(super) fn tile(&self, layer: &Layer, step: &Step) -> u32 {
        match (self.tile)(layer) {
            // Of tiles, where the step transforms the weights.
            0 => step.algorithm().max(1),
            tile => tile,
        }
    }
}

fn convolved(layer: &Layer) -> Window {
    let ConvParams { kernel, stride, dilation, pad, .. } = params(layer);
    Window { kernel: kernel[0], stride: stride[0], dilation: dilation[0], pad: pad[0] }
}

fn pooled(layer: &Layer) -> Window {
    let PoolParams { kernel, stride, dilation, pad, .. } = params(layer);
    Window { kernel: kernel[0], stride: stride[0], dilation: dilation[0], pad: pad[0] }
}

/// Whether an operand is the output of a copy by rows.
fn copies_rows(layer: &Layer, operand: Operand<'_>) -> bool {
    operand.input.is_none() && ops::row_unit(layer, operand.output).is_some()
}

/// Whether an operand is the output of a product, or the left operand whose record has the output's
/// rows.
fn is_left(_: &Layer, operand: Operand<'_>) -> bool {
    operand.input.is_none_or(|input| input == 0 && operand.is_beside())
}

/// The rows of an input from which a step makes its rows of the output; all of them where an operator
/// does not go row by row.
pub(super) fn rows_read(
    layer: &Layer,
    number: usize,
    input: &Tensor,
    output: &Tensor,
    step: &Step,
) -> Range<u64> {
    let own = u64::from(step.row)..u64::from(step.row) + u64::from(step.rows);
    let operator = Operator::of(layer);
    let is_one_image = input.dims[0] == 1 && output.dims[0] == 1;
    match operator.reads[number] {
        Reads::Own if input.dims[..3] == output.dims[..3] => own,
        Reads::Window(window) if is_one_image => {
            let tile = operator.tile(layer, step);
            windowed(&window(layer), tile, input, output, &own)
        }
        Reads::Parts if is_one_image => resampled(layer, input, output, &own),
        _ => 0..input.rows(),
    }
}

/// The rows of the lines that the windows of some rows pass over, for whole tiles; what of the last
/// ones lies beside the map reads nothing.
fn windowed(
    window: &Window,
    tile: u32,
    input: &Tensor,
    output: &Tensor,
    own: &Range<u64>,
) -> Range<u64> {
    let (width, height) = (u64::from(output.dims[2]).max(1), u64::from(input.dims[1]));
    let first = own.start / width / u64::from(tile) * u64::from(tile);
    let last = ((own.end - 1) / width + 1).next_multiple_of(tile.into()) - 1;
    let (stride, pad) = (u64::from(window.stride), u64::from(window.pad));
    let reach = u64::from(window.kernel.saturating_sub(1)) * u64::from(window.dilation) + 1;
    let from = (first * stride).saturating_sub(pad).min(height);
    let to = (last * stride + reach).saturating_sub(pad).clamp(from, height);
    let across = u64::from(input.dims[2]);
    from * across..to * across
}

/// The rows of the lines from which a layer that sums along an axis makes some rows of one image.
fn resampled(layer: &Layer, input: &Tensor, output: &Tensor, own: &Range<u64>) -> Range<u64> {
    let p: ResampleParams = params(layer);
    let (width, across) = (u64::from(output.dims[2]).max(1), u64::from(input.dims[2]));
    let (first, last) = (own.start / width, (own.end - 1) / width);
    if p.axis == 2 {
        return first * across..(last + 1) * across;
    }
    let begin = |line: u64| {
        let parts = i128::from(line) * i128::from(p.step[0]) + i128::from(p.shift);
        let latest = i128::from(input.dims[1]) - i128::from(p.reach);
        parts.div_euclid(i128::from(p.step[1]).max(1)).min(latest).max(0) as u64
    };
    begin(first) * across..(begin(last) + u64::from(p.reach)) * across
}

#[cfg(test)]
mod tests {
    use super::*;
    use eyelet::ops::{Reads as Runtime, reads};

    /// Neither table asks the other, and both say the same.
    #[test]
    fn rows_agree_with_the_runtime() {
        for kind in OpKind::ALL {
            let row = Operator::row(kind);
            for slot in 0..kind.inputs() {
                assert_eq!(row.in_place[slot], kind.in_place()[slot], "{kind:?}, input {slot}");
                let agree = match reads(kind)[slot] {
                    Runtime::Window => matches!(row.reads[slot], Reads::Window(_) | Reads::Parts),
                    Runtime::Rows => matches!(row.reads[slot], Reads::Own),
                    Runtime::Whole => matches!(row.reads[slot], Reads::All),
                };
                assert!(agree, "{kind:?}, input {slot}");
            }
        }
    }
}
