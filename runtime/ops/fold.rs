//! Reduction of words: sums, products and extremes of integers, and the places of extremes:
//! [`OpKind::Fold`].
//!
//! [`OpKind::Fold`]: crate::pack::OpKind::Fold

use super::reduce::check_extents;
use super::work::elements;
use super::{
    Call, Elements, LayerError, Operand, Operator, check, check_no_activation, check_one_input,
    device_for,
};
use crate::device::{Split, divide};
use crate::matrix::MatMut;
use crate::pack::{Element, FoldOp, FoldParams, INPUTS, Isa, Layer, OpKind, Tensor, params};
use bytemuck::{cast_slice, cast_slice_mut};

/// Results that are computed at a time.
const LANES: usize = 64;

/// Reduction of words.
pub(super) const ROW: Operator = Operator {
    row_unit: |_, _| None,
    elements: |layer| {
        let places = match FoldOp::from_code(params::<FoldParams>(layer).op) {
            Some(FoldOp::ArgMin | FoldOp::ArgMax) => Element::Float,
            _ => Element::Word,
        };
        Elements::of([Some(places); INPUTS], Some(Element::Word))
    },
    macs: |_, inputs, _| elements(&inputs[0]),
    ..Operator::new(OpKind::Fold, 1, validate, run)
};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    _isa: Isa,
) -> Result<(), LayerError> {
    check_one_input(layer)?;
    check_no_activation(layer)?;
    let FoldParams { outer, reduce, inner, op, last } = params(layer);
    let most = FoldOp::ALL.len() as u64 - 1;
    check(FoldOp::from_code(op).is_some(), "reduction of words", op.into(), most)?;
    check(last <= 1, "which of equal words counts", last.into(), 1)?;
    check_extents([outer, reduce, inner], &inputs[0], output)
}

/// Computes the whole output.
pub fn run(mut call: Call<'_>) {
    let Operand::Mat(input) = call.operands[0] else { return };
    let Some(input) = input.contiguous() else { return };
    let params: FoldParams = params(call.layer);
    let Some(op) = FoldOp::from_code(params.op) else { return };
    let [outer, reduce, inner] = [params.outer, params.reduce, params.inner].map(|x| x as usize);
    let out = if call.out.cols() == inner {
        call.out
    } else {
        let Some(out) = call.out.contiguous_mut() else { return };
        let Some(out) = MatMut::new(out, outer, inner, inner) else { return };
        out
    };
    let words: &[u32] = cast_slice(input);
    let device = device_for(call.device, input.len());
    divide(device, out, Split::Rows(1), &mut [], 0, |mut share| {
        for row in 0..share.out.rows() {
            let block = (share.rows.start + row) * reduce * inner;
            let block = &words[block..block + reduce * inner];
            let out: &mut [u32] = cast_slice_mut(share.out.row_mut(row));
            for (part, out) in out.chunks_mut(LANES).enumerate() {
                fold(op, params.last == 1, block, [inner, part * LANES], out);
            }
        }
    });
}

/// Some results of a block: of its columns from `first` on, of `inner`.
fn fold(op: FoldOp, last: bool, block: &[u32], [inner, first]: [usize; 2], out: &mut [u32]) {
    let count = out.len();
    let lines = block.chunks_exact(inner).map(|line| &line[first..first + count]);
    let (float, int) = (f32::from_bits, |word: u32| word as i32);
    match op {
        FoldOp::Sum => each(lines, out, 0, |x, y| x.wrapping_add(y)),
        FoldOp::Product => each(lines, out, 1, |x, y| x.wrapping_mul(y)),
        FoldOp::Min => each(lines, out, i32::MAX, |x, y| x.min(y)),
        FoldOp::Max => each(lines, out, i32::MIN, |x, y| x.max(y)),
        FoldOp::ArgMin if last => place(lines, out, |x, y| float(x) <= float(y)),
        FoldOp::ArgMin => place(lines, out, |x, y| float(x) < float(y)),
        FoldOp::ArgMax if last => place(lines, out, |x, y| float(x) >= float(y)),
        FoldOp::ArgMax => place(lines, out, |x, y| float(x) > float(y)),
        FoldOp::ArgMinWord if last => place(lines, out, |x, y| int(x) <= int(y)),
        FoldOp::ArgMinWord => place(lines, out, |x, y| int(x) < int(y)),
        FoldOp::ArgMaxWord if last => place(lines, out, |x, y| int(x) >= int(y)),
        FoldOp::ArgMaxWord => place(lines, out, |x, y| int(x) > int(y)),
    }
}

/// Joins the words of each column, from a start on.
fn each<'a>(
    lines: impl Iterator<Item = &'a [u32]>,
    out: &mut [u32],
    start: i32,
    join: impl Fn(i32, i32) -> i32,
) {
    out.fill(start as u32);
    for line in lines {
        for (out, word) in out.iter_mut().zip(line) {
            *out = join(*out as i32, *word as i32) as u32;
        }
    }
}

/// The place in each column of the word that is better than the best before it.
fn place<'a>(
    lines: impl Iterator<Item = &'a [u32]>,
    out: &mut [u32],
    better: impl Fn(u32, u32) -> bool,
) {
    let mut best = [0; LANES];
    for (at, line) in lines.enumerate() {
        for ((best, out), word) in best.iter_mut().zip(&mut *out).zip(line) {
            let takes = at == 0 || better(*word, *best);
            *best = if takes { *word } else { *best };
            *out = if takes { at as u32 } else { *out };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, layer};
    use super::*;
    use crate::pack::Activation;
    use std::prelude::rust_2024::*;

    fn case(op: FoldOp, sizes: [u32; 3], last: bool, gaps: bool, random: &mut Random) -> Case {
        let [outer, reduce, inner] = sizes;
        let params = FoldParams { outer, reduce, inner, op: op as u32, last: last.into() };
        let layer = layer(OpKind::Fold, Activation::NONE, &params);
        let output = if gaps { [1, 1, outer, inner] } else { [1, 1, 1, outer * inner] };
        let mut case = Case::contiguous(layer, random, &[[1, outer, reduce, inner]], output);
        let floats = [FoldOp::ArgMin, FoldOp::ArgMax].contains(&op);
        for word in &mut case.data[0] {
            // Few numbers, so that some are equal.
            let number = random.below(9) as i32 - 4;
            let large = random.next() as i32;
            let number = if random.below(9) == 0 && !floats { large } else { number };
            *word = if floats { number as f32 } else { f32::from_bits(number as u32) };
        }
        if gaps {
            case.output.pitch += 2;
            case.out.resize(case.out.len() + 2 * outer as usize, 0.0);
        }
        case
    }

    #[test]
    fn reductions_are_their_definitions() {
        let mut random = Random::new(1);
        for sizes in [[1, 1, 1], [3, 50, 7], [40, 9, 1], [2, 3, 130], [5, 2, 64], [1, 4097, 1]] {
            for (op, last, gaps) in
                FoldOp::ALL.into_iter().flat_map(|op| [(op, false, true), (op, true, false)])
            {
                let case = case(op, sizes, last, gaps, &mut random);
                let found = case.run_everywhere();
                let [_, reduce, inner] = sizes.map(|x| x as usize);
                for (at, found) in found.iter().enumerate() {
                    let words: Vec<i64> = (0..reduce)
                        .map(|k| {
                            let word = case.data[0][(at / inner * reduce + k) * inner + at % inner];
                            match op {
                                FoldOp::ArgMin | FoldOp::ArgMax => word as i64,
                                _ => i64::from(word.to_bits() as i32),
                            }
                        })
                        .collect();
                    let (least, most) =
                        (*words.iter().min().unwrap(), *words.iter().max().unwrap());
                    let of = |word: i64| match last {
                        false => words.iter().position(|x| *x == word).unwrap() as i64,
                        true => words.iter().rposition(|x| *x == word).unwrap() as i64,
                    };
                    let want = match op {
                        FoldOp::Sum => words.iter().sum(),
                        FoldOp::Product => {
                            words.iter().fold(1i64, |n, x| i64::from((n.wrapping_mul(*x)) as i32))
                        }
                        FoldOp::Min => least,
                        FoldOp::Max => most,
                        FoldOp::ArgMin | FoldOp::ArgMinWord => of(least),
                        FoldOp::ArgMax | FoldOp::ArgMaxWord => of(most),
                    };
                    assert_eq!(found.to_bits(), want as u32, "{op:?} {sizes:?}: {at}");
                }
            }
        }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let good = case(FoldOp::Sum, [3, 5, 7], false, false, &mut Random::new(2));
        assert_eq!(good.validate(), Ok(()));
        let refused = |change: fn(&mut Case)| {
            let mut case = good.clone();
            change(&mut case);
            case.validate().unwrap_err()
        };
        use LayerError::Field;
        assert_eq!(refused(|case| case.layer.params[3] = 8), Field("reduction of words", 8, 7));
        let what = "which of equal words counts";
        assert_eq!(refused(|case| case.layer.params[4] = 2), Field(what, 2, 1));
        let what = "number of elements of the input";
        assert_eq!(refused(|case| case.layer.params[1] = 6), Field(what, 105, 126));
    }
}
