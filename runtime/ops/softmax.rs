//! Softmax over the channels of each row.
//!
//! [`Kernels::softmax`](crate::kernels::Kernels::softmax) says how.

use super::work::elements;
use super::{
    Call, LayerError, Operand, Operator, Reads, check_one_input_or_in_place, check_same_extents,
    device_for,
};
use crate::device::{Split, divide};
use crate::pack::{INPUTS, Isa, Layer, OpKind, Tensor};

/// Softmax.
pub(super) const ROW: Operator = Operator {
    in_place: [true, false, false],
    reads: [Reads::Rows; INPUTS],
    // An exponential is about twelve operations.
    macs: |_, _, output| elements(output).saturating_mul(16),
    ..Operator::new(OpKind::Softmax, 1, validate, run)
};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    _isa: Isa,
) -> Result<(), LayerError> {
    check_one_input_or_in_place(layer)?;
    check_same_extents(&inputs[0], output)
}

/// Computes the rows of one step.
pub fn run(mut call: Call<'_>) {
    let (activation, kernels) = (&call.layer.activation, call.kernels);
    let (cols, first) = (call.out.cols(), call.rows.start);
    let out = call.out.part_mut(call.out.slots(call.rows), 0..cols);
    let device = device_for(call.device, out.rows() * cols);
    divide(device, out, Split::Rows(1), &mut [], 0, |mut share| {
        for row in 0..share.out.rows() {
            let input = match call.operands[0] {
                Operand::Mat(input) => Some(input.row(input.slot(first + share.rows.start + row))),
                _ => None,
            };
            kernels.softmax(input, share.out.row_mut(row));
        }
        kernels.map(activation, share.out);
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, layer};
    use crate::pack::{Activation, OpKind};
    use std::prelude::rust_2024::*;

    #[test]
    fn matches_double_precision() {
        let mut random = Random::new(1);
        for dims in [
            [1, 1, 1, 1],
            [1, 1, 1, 1000],
            [2, 3, 5, 7],
            [1, 9, 5, 17],
            [1, 12, 197, 19],
            [1, 1, 9, 64],
        ] {
            let layer = layer(OpKind::Softmax, Activation::NONE, &());
            let case = Case::new(layer, &mut random, &[dims], dims);
            let found = case.run_everywhere();
            assert_eq!(case.in_place(0).run_everywhere(), found);
            let cols = dims[3] as usize;
            for (row, found) in found.chunks(cols).enumerate() {
                let x: Vec<f64> = (0..cols).map(|c| case.input(0, row * cols + c)).collect();
                let max = x.iter().fold(f64::MIN, |a, b| a.max(*b));
                let sum: f64 = x.iter().map(|x| (x - max).exp()).sum();
                for (found, x) in found.iter().zip(&x) {
                    let truth = (x - max).exp() / sum;
                    // x - max is rounded: its error is up to half an ulp of 16.
                    let error = (*found as f64 - truth).abs() / truth;
                    assert!(error < 1.5e-6, "{found}, not {truth}");
                }
            }
        }
    }
}
