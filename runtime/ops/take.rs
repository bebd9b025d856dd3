//! Rows of a tensor in another order, some of them several times or never: gathering and scattering
//! by indices.
//!
//! Indices are the layer's constants, or a tensor of integers, which count from the end where they
//! are negative. An index of a tensor that is no row's ends the inference with an error before the
//! step runs ([`outside`](super::outside)). The operator itself makes such rows NaN.

use super::gather::{entry, index};
use super::{Call, Elements, LayerError, Operand, Operator, Reads, check, device_for};
use crate::device::{Split, divide};
use crate::pack::{
    Activation, Element, INPUTS, Isa, Layer, NONE, OpKind, TakeParams, Tensor, params,
};
use core::ops::Range;

/// Rows of a tensor.
pub(super) const ROW: Operator = Operator {
    reads: [Reads::Whole, Reads::Rows, Reads::Whole],
    elements: |layer| {
        // A function is of floats.
        let plain = layer.activation.kind == Activation::NONE.kind;
        let rows = if plain { None } else { Some(Element::Float) };
        Elements::of([rows, Some(Element::Word), None], rows)
    },
    outside: Some(outside),
    ..Operator::new(OpKind::Take, 2, validate, run)
};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    isa: Isa,
) -> Result<(), LayerError> {
    check(isa != Isa::Cuda, "operator on a GPU", layer.kind.into(), 0)?;
    let [first, second, third] = layer.inputs;
    check(first != NONE, "number of inputs", 0, 1)?;
    check(third == NONE, "number of inputs", 3, 2)?;
    for input in [first, second] {
        let what = "output tensor, which must not be an input,";
        check(input != layer.output, what, layer.output.into(), input.into())?;
    }
    let TakeParams { entries } = params(layer);
    let rows = inputs[0].rows();
    check(u64::from(entries) == rows, "number of rows to take from", entries.into(), rows)?;
    let (found, limit) = (output.cols().into(), inputs[0].cols().into());
    check(found == limit, "number of columns", found, limit)?;
    let panels = u32::from(second == NONE);
    check(layer.panels == panels, "number of weight panels", layer.panels.into(), panels.into())?;
    if second == NONE {
        let (bytes, limit) = (output.rows().saturating_mul(4), layer.panel_bytes.into());
        return check(bytes <= limit, "bytes of the indices", bytes, limit);
    }
    check(inputs[1].cols() == 1, "number of columns of the indices", inputs[1].cols().into(), 1)?;
    let (found, limit) = (inputs[1].rows(), output.rows());
    check(found == limit, "number of indices", found, limit)
}

/// The first index that a step would look up and that is no row's, and the number of rows.
fn outside(
    layer: &Layer,
    operands: &[Operand<'_>; INPUTS],
    rows: Range<usize>,
) -> Option<(i32, u32)> {
    let Operand::Mat(indices) = &operands[1] else { return None };
    let TakeParams { entries } = params(layer);
    let found = rows.map(|row| index(indices, row)).find(|&index| entry(index, entries).is_none());
    found.map(|index| (index, entries))
}

/// Computes the rows of one step.
pub fn run(mut call: Call<'_>) {
    let Operand::Mat(data) = call.operands[0] else { return };
    let TakeParams { entries } = params(call.layer);
    let (cols, first) = (call.out.cols(), call.rows.start);
    let out = call.out.part_mut(call.rows, 0..cols);
    let device = device_for(call.device, out.rows() * cols);
    let (indices, weights) = (call.operands[1], call.weights.floats());
    divide(device, out, Split::Rows(1), &mut [], 0, |mut share| {
        for row in 0..share.out.rows() {
            let at = first + share.rows.start + row;
            let found = match &indices {
                Operand::Mat(indices) => Some(index(indices, at)),
                _ => weights.get(at).map(|index| index.to_bits() as i32),
            };
            let out = share.out.row_mut(row);
            match found.and_then(|index| entry(index, entries)) {
                Some(entry) => out.copy_from_slice(data.row(entry)),
                None => out.fill(f32::NAN),
            }
        }
        call.kernels.map(&call.layer.activation, share.out);
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, layer};
    use super::*;
    use crate::matrix::MatRef;
    use crate::pack::Activation;
    use std::prelude::rust_2024::*;

    /// Data, indices that are constant or not, and the rows that they name.
    fn case(
        random: &mut Random,
        [entries, count, cols]: [u32; 3],
        flows: bool,
    ) -> (Case, Vec<usize>) {
        let layer = layer(OpKind::Take, Activation::NONE, &TakeParams { entries });
        let shapes = [[1, 1, entries, cols], [1, 1, count, 1]];
        let shapes = if flows { &shapes[..] } else { &shapes[..1] };
        let mut case = Case::new(layer, random, shapes, [1, 1, count, cols]);
        let rows: Vec<usize> = (0..count).map(|_| random.below(entries as usize)).collect();
        // Every third counts from the end.
        let index = |(at, row): (usize, &usize)| match at % 3 {
            0 => f32::from_bits((*row as i32 - entries as i32) as u32),
            _ => f32::from_bits(*row as u32),
        };
        let indices: Vec<f32> = rows.iter().enumerate().map(index).collect();
        if flows {
            let tensor = case.inputs[1];
            for (row, index) in indices.iter().enumerate() {
                case.data[1][tensor.offset as usize + row * tensor.pitch as usize] = *index;
            }
        } else {
            case.weights = indices;
            case.weights.resize(case.weights.len().next_multiple_of(16), 0.0);
            (case.layer.panels, case.layer.panel_bytes) = (1, case.weights.len() as u32 * 4);
        }
        (case, rows)
    }

    #[test]
    fn takes_the_rows_that_indices_name() {
        let mut random = Random::new(1);
        for sizes in [[1, 1, 1], [5, 9, 3], [40, 7, 33], [300, 1000, 8], [64, 64, 1]] {
            for flows in [false, true] {
                let (case, rows) = case(&mut random, sizes, flows);
                let found = case.run_everywhere();
                let cols = sizes[2] as usize;
                case.assert_close(&found, 0.0, |at| {
                    case.input(0, rows[at / cols] * cols + at % cols)
                });
            }
        }
    }

    #[test]
    fn indices_that_are_no_rows_are_found() {
        let mut random = Random::new(2);
        let (mut case, _) = self::case(&mut random, [5, 4, 3], true);
        let tensor = case.inputs[1];
        case.data[1][tensor.offset as usize + 2 * tensor.pitch as usize] = f32::from_bits(5);
        let data = &case.data[1][tensor.offset as usize..];
        let indices = MatRef::new(data, 4, 1, tensor.pitch as usize).unwrap();
        let found = |rows| {
            outside(&case.layer, &[Operand::Absent, Operand::Mat(indices), Operand::Absent], rows)
        };
        assert_eq!([found(0..2), found(0..4)], [None, Some((5, 5))]);
        let made = case.run_everywhere();
        assert!(made[6..9].iter().all(|x| x.is_nan()) && !made[..6].iter().any(|x| x.is_nan()));
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let mut random = Random::new(3);
        let refused = |flows: bool, change: fn(&mut Case)| {
            let (mut case, _) = self::case(&mut random, [5, 4, 3], flows);
            assert_eq!(case.validate(), Ok(()));
            change(&mut case);
            case.validate().is_err()
        };
        let mut refused = refused;
        assert!(refused(false, |case| case.layer.params[0] = 6));
        assert!(refused(false, |case| case.layer.panels = 0));
        assert!(refused(false, |case| case.layer.panel_bytes = 12));
        assert!(refused(false, |case| case.output.dims[3] = 2));
        assert!(refused(false, |case| case.layer.output = case.layer.inputs[0]));
        assert!(refused(true, |case| case.layer.panels = 1));
        assert!(refused(true, |case| case.inputs[1].dims[2] = 3));
        assert!(refused(true, |case| case.layer.output = case.layer.inputs[1]));
    }
}
