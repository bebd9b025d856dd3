//! Operators that make each word of their output from one word of each operand.
//!
//! Words are gathered into more lanes than the vectors of any processor have. So one loop over
//! arrays of a constant length serves all operators and all ways of broadcasting, and the compiler
//! makes vectors of it. The operator alone decides what is computed, so results have the same bits
//! on every processor.

use crate::kernels::table::OperandPart;
use crate::matrix::MatMut;
use bytemuck::{cast_slice, cast_slice_mut};

/// Words that are computed at a time.
const LANES: usize = 64;

/// Makes each word of a rectangle of the output. Missing lanes at the end of a row are zero.
pub(super) fn map<const N: usize>(
    operands: [OperandPart<'_>; N],
    mut out: MatMut<'_>,
    word: impl Fn([u32; N]) -> u32,
) {
    let cols = out.cols();
    for row in 0..out.rows() {
        let made: &mut [u32] = cast_slice_mut(out.row_mut(row));
        for start in (0..cols).step_by(LANES) {
            let count = LANES.min(cols - start);
            let mut lanes = [[0u32; LANES]; N];
            for (lanes, operand) in lanes.iter_mut().zip(&operands) {
                gather(operand, row, start, &made[start..start + count], lanes);
            }
            let mut words = [0u32; LANES];
            for (lane, made) in words.iter_mut().enumerate() {
                *made = word(core::array::from_fn(|operand| lanes[operand][lane]));
            }
            made[start..start + count].copy_from_slice(&words[..count]);
        }
    }
}

/// Takes an operand's words that belong to some of a row of the output, which are `made`.
fn gather(
    operand: &OperandPart<'_>,
    row: usize,
    start: usize,
    made: &[u32],
    lanes: &mut [u32; LANES],
) {
    let mat = match operand {
        OperandPart::Output => return lanes[..made.len()].copy_from_slice(made),
        OperandPart::Mat(mat) => mat,
    };
    let words: &[u32] = cast_slice(mat.row(if mat.rows() == 1 { 0 } else { row }));
    match words {
        // One word is for all, and for the one that there is.
        [word] => lanes.fill(*word),
        words => lanes[..made.len()].copy_from_slice(&words[start..start + made.len()]),
    }
}
