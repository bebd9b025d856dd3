//! Rows of a constant table, chosen by the input, where the table is the weights of a product.
//!
//! Language models look up what words mean in the table that they end with a product with. The
//! product's panels have entries of the table for output channels, so they are stored once, and both
//! read them. A step has some entries, and makes the rows whose indices are among them. All steps
//! of a row make it once: each index is one entry. The step of the first panel also makes rows whose
//! indices are no entries NaN, as [`gather`](super::gather) does.
//!
//! Entries lie across their panel: of each line of it a row takes one weight.

use super::conv::check_weights;
use super::gather::{entry, index, outside};
use super::{
    Call, Elements, LayerError, Operand, Operator, Panels, check, check_one_input_panels,
    device_for,
};
use crate::device::{Split, divide};
use crate::pack::{Element, INPUTS, Isa, Layer, LookupParams, OpKind, Tensor, params};

/// Rows of a constant table that a product shares.
pub(super) const ROW: Operator = Operator {
    panels: Panels::Narrow,
    widens: true,
    elements: |_| Elements::of([Some(Element::Word); INPUTS], Some(Element::Float)),
    outside: Some(outside),
    ..Operator::new(OpKind::Lookup, 1, validate, run)
};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    isa: Isa,
) -> Result<(), LayerError> {
    check_one_input_panels(layer)?;
    let LookupParams { entries, .. } = params(layer);
    let (found, limit) = (inputs[0].cols().into(), 1);
    check(found == limit, "number of columns of the indices", found, limit)?;
    let (found, limit) = (inputs[0].rows(), output.rows());
    check(found == limit, "number of indices", found, limit)?;
    check(entries > 0, "number of entries", entries.into(), 1)?;
    let width = layer.columns(isa);
    let panels = u64::from(entries).div_ceil(width as u64);
    check_weights(layer, panels, Some(output.cols().into()), width, isa)
}

/// Computes one step.
pub fn run(mut call: Call<'_>) {
    let Operand::Mat(indices) = call.operands[0] else { return };
    if call.count == 0 || call.rows.is_empty() {
        return;
    }
    let LookupParams { entries, scale } = params(call.layer);
    let width = call.layer.columns(call.kernels.isa());
    let (first, cols) = (call.rows.start, call.out.cols());
    let panels = call.first..call.first + call.count;
    let out = call.out.part_mut(call.rows, 0..cols);
    let device = device_for(call.device, out.rows() * out.cols());
    let panel = call.layer.panel_bytes as usize / 4;
    let encoding = call.layer.encoding().unwrap_or_default();
    divide(device, out, Split::Rows(1), &mut [], 0, |mut share| {
        for row in 0..share.out.rows() {
            let entry = entry(index(&indices, first + share.rows.start + row), entries);
            let holder = entry.map_or(0, |entry| entry / width);
            if !panels.contains(&holder) {
                continue;
            }
            let out = share.out.row_mut(row);
            match entry {
                None => out.fill(f32::NAN),
                Some(entry) => {
                    let at = holder - panels.start;
                    let panel = call.weights.panels(at..at + 1, panel);
                    let channel = [width, entry % width];
                    call.kernels.widen_channel(encoding, panel, channel, out);
                    out.iter_mut().for_each(|x| *x *= scale);
                }
            }
            call.kernels.map(&call.layer.activation, share.out.part_mut(row..row + 1, 0..cols));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::Slice;
    use super::super::testing::{Case, Random, layer};
    use super::*;
    use crate::kernels::Kernels;
    use crate::matrix::MatRef;
    use crate::pack::{Activation, Encoding, NONE};
    use std::prelude::rust_2024::*;

    fn case(random: &mut Random, count: u32, entries: u32, cols: u32, width: u32) -> Case {
        let params = LookupParams { entries, scale: 0.5 };
        let mut layer = layer(OpKind::Lookup, Activation::RELU, &params);
        layer.width = if width == 8 { 0 } else { width };
        layer.panels = entries.div_ceil(width);
        let bytes = Encoding::F32.panel_bytes(cols.into(), width as usize, 8).unwrap();
        layer.panel_bytes = bytes as u32;
        let mut case = Case::new(layer, random, &[[1, 1, count, 1]], [1, 1, count, cols]);
        let floats = (layer.panels * layer.panel_bytes / 4) as usize;
        case.weights = (0..floats).map(|_| random.float()).collect();
        let tensor = case.inputs[0];
        for row in 0..count {
            let below = random.below(2) as u32 * entries;
            let index = random.below(entries as usize) as u32;
            case.data[0][(tensor.offset + row * tensor.pitch) as usize] =
                f32::from_bits(index.wrapping_sub(below));
        }
        case
    }

    /// By any panels at a time, of whole panels and of narrow ones, and by indices that count from
    /// the end.
    #[test]
    fn rows_are_those_of_the_table() {
        let mut random = Random::new(1);
        for (count, entries, cols, width) in
            [(1, 1, 1, 8), (5, 7, 8, 4), (64, 50, 21, 8), (9, 300, 97, 7), (40, 17, 130, 8)]
        {
            let case = case(&mut random, count, entries, cols, width);
            let wanted: Vec<f32> = (0..count * cols)
                .map(|at| {
                    let (row, col) = (at / cols, (at % cols) as usize);
                    let index = (case.input(0, row as usize) as f32).to_bits() as i32;
                    let entry = index.rem_euclid(entries as i32) as usize;
                    let panel = entry / width as usize * case.layer.panel_bytes as usize / 4;
                    let lane = entry % width as usize;
                    (case.weights[panel + 8 + col * width as usize + lane] * 0.5).max(0.0)
                })
                .collect();
            assert_eq!(case.run_everywhere(), wanted);
            let whole = case.run(1, count);
            for at_once in 1..case.layer.panels {
                let slices: Vec<Slice> = (0..case.layer.panels)
                    .step_by(at_once as usize)
                    .map(|first| {
                        let count = at_once.min(case.layer.panels - first);
                        Slice { first, count, row: 0, rows: count_of(&case), ..Slice::default() }
                    })
                    .rev()
                    .collect();
                assert_eq!(case.run_sliced(Kernels::PORTABLE, 2, &slices, 1.0), whole);
            }
        }
    }

    fn count_of(case: &Case) -> u32 {
        case.output.rows() as u32
    }

    #[test]
    fn indices_outside_of_the_table_are_found_and_make_nan() {
        let mut case = case(&mut Random::new(3), 5, 17, 9, 8);
        let tensor = case.inputs[0];
        for (row, index) in [(2, 17), (4, -18)] {
            case.data[0][(tensor.offset + row * tensor.pitch) as usize] =
                f32::from_bits(index as u32);
        }
        let indices =
            MatRef::new(&case.data[0][tensor.offset as usize..], 5, 1, tensor.pitch as usize);
        let operands = [Operand::Mat(indices.unwrap()), Operand::Absent, Operand::Absent];
        assert_eq!(outside(&case.layer, &operands, 0..5), Some((17, 17)));
        assert_eq!(outside(&case.layer, &operands, 3..5), Some((-18, 17)));
        assert_eq!(outside(&case.layer, &operands, 3..4), None);
        case.layer.activation = Activation::NONE;
        let out = case.run(1, 5);
        for row in 0..5 {
            let at = (case.output.offset + row * case.output.pitch) as usize;
            let nan = out[at..at + 9].iter().all(|x| x.is_nan());
            assert_eq!(nan, row == 2 || row == 4, "row {row}");
        }
    }

    #[test]
    fn refuses_other_tables() {
        let good = case(&mut Random::new(2), 5, 17, 9, 8);
        assert_eq!(good.validate(), Ok(()));
        let refused = |change: fn(&mut Case)| {
            let mut case = good.clone();
            change(&mut case);
            case.validate().is_err()
        };
        for entries in [0, 16, 25, u32::MAX] {
            let mut case = good.clone();
            case.layer.params[0] = entries;
            assert!(case.validate().is_err(), "{entries}");
        }
        assert!(refused(|case| case.layer.panels = 2));
        assert!(refused(|case| case.layer.panel_bytes = 32));
        assert!(refused(|case| case.layer.width = 7));
        assert!(refused(|case| case.layer.inputs[0] = NONE));
        assert!(refused(|case| case.layer.inputs[0] = case.layer.output));
        assert!(refused(|case| case.inputs[0].dims[3] = 2));
        assert!(refused(|case| case.inputs[0].dims[2] = 4));
        assert!(refused(|case| case.output.dims[3] = 8));
    }
}
