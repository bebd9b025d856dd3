//! Which rows of its inputs a step reads.
//!
//! A step is lent no others ([`Activations`](crate::arena)), so that what it makes may lie over
//! what it does not read. [`rows_read`] therefore has to be a superset of what `run` touches,
//! whatever the threads, kernels and scratch. It is, since
//!
//! - operators and kernels come by rows through [`MatRef`](crate::matrix::MatRef) alone, which
//!   panics where a row is not lent; and kernels read no more of a row than its channels, as their
//!   contracts say;
//! - those that read by rows ask for the rows that they make, of inputs with the output's rows; of
//!   a broadcast operand, and of an operand that is one run of floats, all;
//! - a convolution lists its taps (`Indirection`) for pixels that it makes, those outside the image
//!   excepted, and a depthwise one (`Grid`) all lines between the first tap and the last of lines
//!   of which it makes pixels; so does pooling clip its windows;
//! - Winograd's tiles begin where a step's lines do. A tile that reaches beyond the last line that
//!   is made has fewer outputs (`Block::outputs`), and reads two lines more than these: the lines
//!   of the direct convolution's windows. That is so for layers that are stored for the direct one,
//!   too.

use super::{Slice, row};
use crate::pack::{INPUTS, Layer, OpKind, Tensor};
use core::ops::Range;

/// How an operator finds the pixels of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// By a window: each line by itself.
    Window,
    /// Next to the pixels of the output.
    Rows,
    /// As one run of floats.
    Whole,
}

/// How an operator reads its inputs.
pub fn reads(kind: OpKind) -> [Reads; INPUTS] {
    super::row_of(kind).reads
}

/// The rows of each input that a (valid) slice of a (valid) layer reads on a processor, at most;
/// those between the first and the last are counted. [`OpKind::Copy`] addresses the whole buffer
/// instead, whichever rows it makes.
pub fn rows_read(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    slice: &Slice,
) -> [Range<u64>; INPUTS] {
    let made = slice.made();
    let operator = row(layer);
    core::array::from_fn(|slot| {
        let input = &inputs[slot];
        let same_rows = || input.dims[..3] == output.dims[..3];
        match operator.map(|operator| (operator.reads[slot], operator.window)) {
            _ if made.is_empty() => 0..0,
            Some((Reads::Window, window)) => window(layer, [input, output], &made),
            Some((Reads::Rows, _)) if same_rows() => made.clone(),
            _ => 0..input.rows(),
        }
    })
}

/// The rows of the lines that some windows pass over, in all their images: of kernel, stride,
/// dilation and padding, down and across.
pub(super) fn seen(
    windows: [[u32; 2]; 4],
    [input, output]: [&Tensor; 2],
    made: &Range<u64>,
) -> Range<u64> {
    let [kernel, stride, dilation, pad] = windows.map(|[down, _]| u64::from(down));
    let reach = kernel.saturating_sub(1).saturating_mul(dilation).saturating_add(1);
    let [_, height, width, _] = input.dims.map(u64::from);
    let [_, lines, pixels, _] = output.dims.map(|extent| u64::from(extent.max(1)));
    // The line `below` lines after the first of a row's window, counted over all images; at most
    // the image's end.
    let line = |row: u64, below: u64| {
        let (image, y) = (row / pixels / lines, row / pixels % lines);
        let at = (y * stride).saturating_add(below).saturating_sub(pad);
        image * height + at.min(height)
    };
    let start = line(made.start, 0);
    let end = line(made.end - 1, reach).max(start);
    start * width..end * width
}
