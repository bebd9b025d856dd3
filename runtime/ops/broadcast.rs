//! Operands that are broadcast where their extent is 1: tensors, or constants in the layer's
//! weights.
//!
//! Work goes by rectangles of the output, for which each operand is a rectangle, a row, a column or
//! one element: the whole output where nothing is broadcast, an image or a line of pixels where
//! something is.

use super::{Call, LayerError, Operand, check, check_same_extents, device_for, split};
use crate::device::divide;
use crate::kernels::table::OperandPart;
use crate::matrix::{MatMut, MatRef};
use crate::pack::{INPUTS, Layer, NONE, Tensor};
use core::ops::Range;

/// Refuses operands that do not fit the output, or are neither a tensor nor a constant. The
/// constants, in the order of the operands, fill the layer's one panel from its start.
pub(super) fn check_operands(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    constants: &[Option<[u32; 4]>],
) -> Result<(), LayerError> {
    let held = constants.iter().flatten().count();
    check(layer.panels == (held > 0) as u32, "number of weight panels", layer.panels.into(), 1)?;
    let mut bytes = 0u64;
    for (index, constant) in constants.iter().enumerate() {
        let present = layer.inputs[index] != NONE;
        let wanted = constant.is_none();
        check(present == wanted, "presence of an input", present.into(), wanted.into())?;
        if layer.inputs[index] == layer.output {
            check_same_extents(&inputs[index], output)?;
        }
        let dims = constant.as_ref().unwrap_or(&inputs[index].dims);
        for (extent, limit) in dims.iter().zip(&output.dims) {
            let fits = *extent == 1 || extent == limit;
            check(fits, "extent of an operand", (*extent).into(), (*limit).into())?;
        }
        let size =
            |dims: &[u32; 4]| dims.iter().fold(4u64, |n, dim| n.saturating_mul(u64::from(*dim)));
        bytes = bytes.saturating_add(constant.as_ref().map_or(0, size));
    }
    let limit = layer.panel_bytes.into();
    check(held == 0 || bytes <= limit, "bytes of the constant operand", bytes, limit)
}

/// An operand as seen from the output.
#[derive(Clone, Copy)]
pub(super) enum Side<'a> {
    /// The output itself.
    Output,
    /// A matrix, the rows of its tensor, and how many of these one goes on with each image, line
    /// and pixel of the output: 0 where it is broadcast.
    Mat { mat: MatRef<'a>, rows: usize, strides: [usize; 3] },
}

impl<'a> Side<'a> {
    fn new(mat: MatRef<'a>, dims: [u32; 4]) -> Self {
        let [images, lines, pixels, _] = dims.map(|extent| extent as usize);
        let strides = [lines * pixels, pixels, 1];
        let stride = |dim: usize| if dims[dim] == 1 { 0 } else { strides[dim] };
        let rows = images * lines * pixels;
        Side::Mat { mat, rows, strides: [stride(0), stride(1), stride(2)] }
    }

    /// Whether it has a row for each row of the output, or one for all.
    fn is_even(&self, all: usize) -> bool {
        match *self {
            Side::Output => true,
            Side::Mat { rows, .. } => rows == 1 || rows == all,
        }
    }

    /// The operand's part for `count` rows of the output from the pixel `at` on, which are in one
    /// line of pixels unless it is even, and the columns `cols`. `out` is the output's size.
    fn part_at(
        &self,
        at: [usize; 3],
        count: usize,
        cols: &Range<usize>,
        out: [usize; 2],
    ) -> OperandPart<'a> {
        let Side::Mat { mat, rows, strides } = self else { return OperandPart::Output };
        let first = at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2];
        let rows = if strides[2] == 0 && *rows != out[0] { 1 } else { count };
        let cols = if mat.cols() == out[1] { cols.clone() } else { 0..1 };
        OperandPart::Mat(mat.part(mat.slots(first..first + rows), cols))
    }
}

/// The operands of a step, of which these are constants. `None` where one is missing, which
/// [`check_operands`] refuses.
pub(super) fn sides<'a, const N: usize>(
    call: &Call<'a>,
    constants: &[Option<[u32; 4]>; N],
) -> Option<[Side<'a>; N]> {
    let mut sides = [Side::Output; N];
    let mut weights = call.weights.floats();
    for (index, constant) in constants.iter().enumerate() {
        sides[index] = match (constant, &call.operands[index]) {
            (Some(dims), _) => {
                let [images, lines, pixels, cols] = dims.map(|extent| extent as usize);
                let rows = images * lines * pixels;
                let side = Side::new(MatRef::new(weights, rows, cols, cols)?, *dims);
                weights = &weights[rows * cols..];
                side
            }
            (None, Operand::Mat(mat)) => Side::new(*mat, call.inputs[index].dims),
            (None, Operand::Output) => Side::Output,
            (None, Operand::Absent) => return None,
        };
    }
    Some(sides)
}

/// Runs `task` on rectangles of a step's output, with each operand's part for it. Rectangles of
/// several rows have at most `most` elements.
pub(super) fn by_rectangles<const N: usize>(
    call: Call<'_>,
    sides: [Side<'_>; N],
    most: usize,
    task: impl Fn([OperandPart<'_>; N], MatMut<'_>) + Sync,
) {
    let mut call = call;
    let [_, lines, pixels, _] = call.output.dims.map(|extent| extent as usize);
    let (rows, cols, first) = (call.output.rows() as usize, call.out.cols(), call.rows.start);
    let out = call.out.part_mut(call.out.slots(call.rows), 0..cols);
    let device = device_for(call.device, out.rows() * cols);
    let split = split(out.rows(), cols, device);
    let even = sides.iter().all(|side| side.is_even(rows));
    divide(device, out, split, &mut [], 0, |mut share| {
        let most = (most / share.cols.len().max(1)).max(1);
        let mut done = 0;
        while done < share.out.rows() {
            let row = first + share.rows.start + done;
            let (line, pixel) = (row / pixels, row % pixels);
            let at = [line / lines, line % lines, pixel];
            let mut count = (share.out.rows() - done).min(most);
            if !even {
                count = count.min(pixels - pixel);
            }
            let parts = sides.map(|side| side.part_at(at, count, &share.cols, [rows, cols]));
            task(parts, share.out.part_mut(done..done + count, 0..share.cols.len()));
            done += count;
        }
    });
}
