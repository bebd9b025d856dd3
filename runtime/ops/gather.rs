//! Rows of a constant table, chosen by the input: embeddings.
//!
//! The table's columns are panels of output channels, as a convolution's are, so that a table that
//! is larger than the memory streams through it like any other weights: each step makes some
//! columns of all rows. The panel's biases are added. An index counts from the end where it is
//! negative. One that is no entry of the table ends the inference with an error before the step
//! runs ([`outside`](super::outside)). The operator itself makes such rows NaN, and so does a GPU,
//! whose indices the processor does not read. If a table is stored in fewer bits, only the entries
//! that are asked for are widened.

use super::conv::check_weights;
use super::{
    Call, Elements, LayerError, Operand, Operator, Panels, check, check_one_input_panels,
    device_for,
};
use crate::device::{Split, divide};
use crate::matrix::MatRef;
use crate::pack::{Element, GatherParams, INPUTS, Isa, Layer, OpKind, Tensor, params};
use core::ops::Range;

/// Output channels of the widest panel.
const MOST_LANES: usize = 32;

/// Rows of a constant table.
pub(super) const ROW: Operator = Operator {
    panels: Panels::Narrow,
    widens: true,
    elements: |_| Elements::of([Some(Element::Word); INPUTS], Some(Element::Float)),
    outside: Some(outside),
    terms: |layer, _| params::<GatherParams>(layer).entries.into(),
    ..Operator::new(OpKind::Gather, 1, validate, run)
};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    isa: Isa,
) -> Result<(), LayerError> {
    check_one_input_panels(layer)?;
    let GatherParams { entries } = params(layer);
    let (found, limit) = (inputs[0].cols().into(), 1);
    check(found == limit, "number of columns of the indices", found, limit)?;
    let (found, limit) = (inputs[0].rows(), output.rows());
    check(found == limit, "number of indices", found, limit)?;
    check(entries > 0, "number of entries", entries.into(), 1)?;
    let width = layer.columns(isa);
    let panels = u64::from(output.cols()).div_ceil(width as u64);
    check_weights(layer, panels, Some(entries.into()), width, isa)
}

/// The first index that a step would look up and that is no entry of the table, and the number of
/// entries.
pub(super) fn outside(
    layer: &Layer,
    operands: &[Operand<'_>; INPUTS],
    rows: Range<usize>,
) -> Option<(i32, u32)> {
    let Operand::Mat(indices) = &operands[0] else { return None };
    let GatherParams { entries } = params(layer);
    let found = rows.map(|row| index(indices, row)).find(|&index| entry(index, entries).is_none());
    found.map(|index| (index, entries))
}

/// The index in a row.
pub(super) fn index(indices: &MatRef<'_>, row: usize) -> i32 {
    indices.row(row)[0].to_bits() as i32
}

/// Computes one step.
pub fn run(mut call: Call<'_>) {
    let Operand::Mat(indices) = call.operands[0] else { return };
    if call.count == 0 || call.rows.is_empty() {
        return;
    }
    let GatherParams { entries } = params(call.layer);
    let (width, nr) = (call.layer.columns(call.kernels.isa()), call.kernels.nr());
    let first = call.rows.start;
    let columns = call.first * width..call.out.cols().min((call.first + call.count) * width);
    let out = call.out.part_mut(call.rows, columns);
    let device = device_for(call.device, out.rows() * out.cols());
    let panel = call.layer.panel_bytes as usize / 4;
    let encoding = call.layer.encoding().unwrap_or_default();
    divide(device, out, Split::Rows(1), &mut [], 0, |mut share| {
        for row in 0..share.out.rows() {
            let out = share.out.row_mut(row);
            let Some(entry) = entry(index(&indices, first + share.rows.start + row), entries)
            else {
                out.fill(f32::NAN);
                continue;
            };
            for (out, panel) in out.chunks_mut(width).zip(call.weights.chunks(panel)) {
                let mut line = [0.0; MOST_LANES];
                let line = &mut line[..nr];
                call.kernels.widen(encoding, panel, width, entry, line);
                for ((out, x), bias) in out.iter_mut().zip(&*line).zip(panel.biases(nr)) {
                    *out = *x + bias;
                }
            }
        }
        call.kernels.map(&call.layer.activation, share.out);
    });
}

/// The entry of a table that an index stands for.
pub(super) fn entry(index: i32, entries: u32) -> Option<usize> {
    let index = i64::from(index);
    let counted = if index < 0 { index + i64::from(entries) } else { index };
    usize::try_from(counted).ok().filter(|entry| *entry < entries as usize)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, layer};
    use super::*;
    use crate::pack::{Activation, NONE};
    use std::prelude::rust_2024::*;

    fn case(random: &mut Random, count: u32, entries: u32, cols: u32) -> Case {
        let mut layer = layer(OpKind::Gather, Activation::NONE, &GatherParams { entries });
        (layer.panels, layer.panel_bytes) = (cols.div_ceil(8), (1 + entries) * 32);
        let mut case = Case::new(layer, random, &[[1, 1, count, 1]], [1, 1, count, cols]);
        let floats = (layer.panels * layer.panel_bytes / 4) as usize;
        case.weights = (0..floats).map(|_| random.float()).collect();
        let tensor = case.inputs[0];
        for row in 0..count {
            let index: f32 = f32::from_bits(random.below(entries as usize) as u32);
            case.data[0][(tensor.offset + row * tensor.pitch) as usize] = index;
        }
        case
    }

    #[test]
    fn rows_are_those_of_the_table() {
        let mut random = Random::new(1);
        for (count, entries, cols) in [(1, 1, 1), (5, 7, 8), (64, 50, 21), (9, 300, 97)] {
            let case = case(&mut random, count, entries, cols);
            let found = case.run_everywhere();
            let panel = (1 + entries as usize) * 8;
            case.assert_close(&found, 1e-7, |at| {
                let (row, col) = (at / cols as usize, at % cols as usize);
                let entry = (case.input(0, row) as f32).to_bits() as usize;
                let at =
                    |line: usize| f64::from(case.weights[col / 8 * panel + line * 8 + col % 8]);
                at(1 + entry) + at(0)
            });
        }
    }

    #[test]
    fn indices_are_checked_when_they_are_used() {
        assert_eq!(entry(3, 4), Some(3));
        assert_eq!(entry(-1, 4), Some(3));
        assert_eq!(entry(-4, 4), Some(0));
        assert_eq!(entry(i32::MIN, 1 << 31), Some(0));
        for outside in [4, -5, i32::MIN, i32::MAX] {
            assert_eq!(entry(outside, 4), None, "{outside}");
        }
    }

    #[test]
    fn the_first_index_outside_is_found() {
        let mut case = case(&mut Random::new(3), 5, 7, 9);
        let found = |case: &Case, rows: Range<usize>| {
            let tensor = case.inputs[0];
            let data = &case.data[0][tensor.offset as usize..];
            let indices = MatRef::new(data, 5, 1, tensor.pitch as usize).unwrap();
            outside(&case.layer, &[Operand::Mat(indices), Operand::Absent, Operand::Absent], rows)
        };
        assert_eq!(found(&case, 0..5), None);
        let tensor = case.inputs[0];
        for (row, index) in [(2, 7), (4, -8)] {
            case.data[0][(tensor.offset + row * tensor.pitch) as usize] =
                f32::from_bits(index as u32);
        }
        assert_eq!(found(&case, 0..5), Some((7, 7)));
        assert_eq!(found(&case, 0..2), None);
        assert_eq!(found(&case, 3..5), Some((-8, 7)));
        assert_eq!(found(&case, 3..4), None);
    }

    #[test]
    fn refuses_other_tables() {
        let mut random = Random::new(2);
        let good = case(&mut random, 5, 7, 9);
        assert_eq!(good.validate(), Ok(()));
        let refused = |change: fn(&mut Case)| {
            let mut case = good.clone();
            change(&mut case);
            case.validate().is_err()
        };
        assert!(refused(|case| case.layer.params[0] = 0));
        assert!(refused(|case| case.layer.params[0] = 8));
        assert!(refused(|case| case.layer.params[0] = u32::MAX));
        assert!(refused(|case| case.layer.panels = 1));
        assert!(refused(|case| case.layer.panel_bytes = 32));
        assert!(refused(|case| case.layer.inputs[0] = NONE));
        assert!(refused(|case| case.layer.inputs[0] = case.layer.output));
        assert!(refused(|case| case.inputs[0].dims[3] = 2));
        assert!(refused(|case| case.inputs[0].dims[2] = 4));
    }
}
