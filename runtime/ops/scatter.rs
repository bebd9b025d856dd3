//! Rows of a tensor replaced by others, or combined with them, where indices say:
//! [`OpKind::Scatter`].
//!
//! Indices count from the end where they are negative. One that is no row's ends the inference with an
//! error before the step runs ([`outside`](super::outside)); the operator itself leaves out its row. If
//! several rows have one place, each is combined with the result of those before it.
//!
//! [`OpKind::Scatter`]: crate::pack::OpKind::Scatter

use super::gather::{entry, index};
use super::work::elements;
use super::{
    Call, Elements, LayerError, Operand, Operator, Reads, check, check_inputs, check_no_activation,
    device_for,
};
use crate::device::{Split, divide};
use crate::pack::{Element, INPUTS, Isa, Layer, OpKind, ScatterOp, ScatterParams, Tensor, params};
use core::ops::Range;

/// Rows of a tensor, some of them replaced.
pub(super) const ROW: Operator = Operator {
    reads: [Reads::Rows, Reads::Whole, Reads::Whole],
    elements: |layer| {
        let op = ScatterOp::from_code(params::<ScatterParams>(layer).op);
        let rows = if op == Some(ScatterOp::Replace) { None } else { Some(Element::Float) };
        Elements::of([rows, Some(Element::Word), rows], rows)
    },
    macs: |_, inputs, _| elements(&inputs[1]).saturating_add(elements(&inputs[2])),
    outside: Some(outside),
    ..Operator::new(OpKind::Scatter, 3, validate, run)
};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    _isa: Isa,
) -> Result<(), LayerError> {
    check_inputs(layer, 3)?;
    check_no_activation(layer)?;
    check(layer.panels == 0, "number of weight panels", layer.panels.into(), 0)?;
    for input in layer.inputs {
        let what = "output tensor, which must not be an input,";
        check(input != layer.output, what, layer.output.into(), input.into())?;
    }
    let ScatterParams { entries, op } = params(layer);
    let most = ScatterOp::ALL.len() as u64 - 1;
    check(ScatterOp::from_code(op).is_some(), "what rows do to others", op.into(), most)?;
    let [data, indices, updates] = inputs;
    for (found, what) in [
        (data.rows(), "number of rows to write to"),
        (output.rows(), "number of rows of the output"),
    ] {
        check(found == u64::from(entries), what, found, entries.into())?;
    }
    for (tensor, what) in [
        (data, "number of columns to write to"),
        (updates, "number of columns of the rows that are written"),
    ] {
        let (found, limit) = (tensor.cols().into(), output.cols().into());
        check(found == limit, what, found, limit)?;
    }
    check(indices.cols() == 1, "number of columns of the indices", indices.cols().into(), 1)?;
    let (found, limit) = (indices.rows(), updates.rows());
    check(found == limit, "number of indices", found, limit)
}

/// The first index that is no row's, and the number of rows.
fn outside(
    layer: &Layer,
    operands: &[Operand<'_>; INPUTS],
    _rows: Range<usize>,
) -> Option<(i32, u32)> {
    let Operand::Mat(indices) = &operands[1] else { return None };
    let ScatterParams { entries, .. } = params(layer);
    let mut found = (0..indices.rows()).map(|row| index(indices, row));
    found.find(|&index| entry(index, entries).is_none()).map(|index| (index, entries))
}

/// Computes the rows of one step.
pub fn run(mut call: Call<'_>) {
    let [Operand::Mat(data), Operand::Mat(indices), Operand::Mat(updates)] = call.operands else {
        return;
    };
    let ScatterParams { entries, op } = params(call.layer);
    let Some(op) = ScatterOp::from_code(op) else { return };
    let (cols, first) = (call.out.cols(), call.rows.start);
    let out = call.out.part_mut(call.rows, 0..cols);
    let device = device_for(call.device, out.rows() * cols);
    divide(device, out, Split::Rows(1), &mut [], 0, |mut share| {
        let first = first + share.rows.start;
        for row in 0..share.out.rows() {
            share.out.row_mut(row).copy_from_slice(data.row(first + row));
        }
        for at in 0..indices.rows() {
            let place = entry(index(&indices, at), entries);
            let row = place.and_then(|place| place.checked_sub(first));
            let Some(row) = row.filter(|&row| row < share.out.rows()) else { continue };
            let (old, new) = (share.out.row_mut(row), updates.row(at));
            match op {
                ScatterOp::Replace => old.copy_from_slice(new),
                op => old.iter_mut().zip(new).for_each(|(old, new)| *old = op.of(*old, *new)),
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, layer};
    use super::*;
    use crate::pack::Activation;
    use std::prelude::rust_2024::*;

    fn case(random: &mut Random, op: u32, [entries, count, cols]: [u32; 3]) -> (Case, Vec<usize>) {
        let params = ScatterParams { entries, op };
        let layer = layer(OpKind::Scatter, Activation::NONE, &params);
        let inputs = [[1, 1, entries, cols], [1, 1, count, 1], [1, 1, count, cols]];
        let mut case = Case::new(layer, random, &inputs, [1, 1, entries, cols]);
        let rows: Vec<usize> = (0..count).map(|_| random.below(entries as usize)).collect();
        let tensor = case.inputs[1];
        for (at, row) in rows.iter().enumerate() {
            // Every third counts from the end.
            let index = *row as i32 - if at % 3 == 0 { entries as i32 } else { 0 };
            let place = tensor.offset as usize + at * tensor.pitch as usize;
            case.data[1][place] = f32::from_bits(index as u32);
        }
        (case, rows)
    }

    #[test]
    fn rows_are_combined_in_their_order() {
        let mut random = Random::new(1);
        for sizes in [[1, 1, 1], [9, 5, 3], [7, 40, 33], [1000, 300, 8], [64, 64, 1]] {
            for op in ScatterOp::ALL {
                let (case, rows) = case(&mut random, op as u32, sizes);
                let cols = sizes[2] as usize;
                let count = sizes[0] as usize * cols;
                let mut want: Vec<f32> = (0..count).map(|at| case.input(0, at) as f32).collect();
                for (at, row) in rows.iter().enumerate() {
                    for column in 0..cols {
                        let new = case.input(2, at * cols + column) as f32;
                        let old = &mut want[row * cols + column];
                        *old = match op {
                            ScatterOp::Replace => new,
                            ScatterOp::Add => *old + new,
                            ScatterOp::Mul => *old * new,
                            ScatterOp::Max => old.max(new),
                            ScatterOp::Min => old.min(new),
                        };
                    }
                }
                let found = case.run_everywhere();
                case.assert_close(&found, 0.0, |at| want[at].into());
            }
        }
    }

    #[test]
    fn indices_that_are_no_rows_are_found() {
        let mut random = Random::new(2);
        let (mut case, _) = self::case(&mut random, 0, [5, 4, 3]);
        let tensor = case.inputs[1];
        let place = tensor.offset as usize + 2 * tensor.pitch as usize;
        case.data[1][place] = f32::from_bits(-6i32 as u32);
        let data = &case.data[1][tensor.offset as usize..];
        let indices = crate::matrix::MatRef::new(data, 4, 1, tensor.pitch as usize).unwrap();
        let operands = [Operand::Absent, Operand::Mat(indices), Operand::Absent];
        assert_eq!(outside(&case.layer, &operands, 0..5), Some((-6, 5)));
        case.run_everywhere();
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let mut random = Random::new(3);
        let refused = |random: &mut Random, change: fn(&mut Case)| {
            let (mut case, _) = self::case(random, 1, [5, 4, 3]);
            assert_eq!(case.validate(), Ok(()));
            change(&mut case);
            case.validate().is_err()
        };
        assert!(refused(&mut random, |case| case.layer.params[0] = 6));
        assert!(refused(&mut random, |case| case.layer.params[1] = 5));
        assert!(refused(&mut random, |case| case.output.dims[3] = 2));
        assert!(refused(&mut random, |case| case.inputs[1].dims[2] = 3));
        assert!(refused(&mut random, |case| case.inputs[2].dims[3] = 2));
        assert!(refused(&mut random, |case| case.layer.output = case.layer.inputs[0]));
        assert!(refused(&mut random, |case| case.layer.panels = 1));
    }
}
