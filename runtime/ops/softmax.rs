//! Softmax over the channels of each row.
//!
//! The largest element is subtracted, the exponentials are summed in the order of [`math::sum`], and
//! multiplied by the reciprocal of the sum.

use super::{
    Call, LayerError, Operand, check_one_input, check_same_extents, device_for, math, unary,
};
use crate::device::{Split, divide};
use crate::kernels::Isa;
use crate::pack::{Layer, Tensor};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; 2],
    output: &Tensor,
    _isa: Isa,
) -> Result<(), LayerError> {
    check_one_input(layer)?;
    check_same_extents(&inputs[0], output)
}

/// Computes the rows of one step.
pub fn run(mut call: Call<'_>) {
    let Operand::Mat(input) = call.operands[0] else { return };
    let (cols, first) = (call.out.cols(), call.rows.start);
    let out = call.out.part_mut(call.rows, 0..cols);
    let device = device_for(call.device, out.rows() * cols);
    divide(device, out, Split::Rows(1), &mut [], 0, |mut share| {
        for row in 0..share.out.rows() {
            let out = share.out.row_mut(row);
            softmax(input.row(first + share.rows.start + row), out);
            unary::apply(&call.layer.activation, out);
        }
    });
}

fn softmax(x: &[f32], out: &mut [f32]) {
    let max = math::max(x);
    for (out, x) in out.iter_mut().zip(x) {
        *out = math::exp(x - max);
    }
    let scale = 1.0 / math::sum(out);
    for out in out {
        *out *= scale;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, layer};
    use super::*;
    use crate::pack::{Activation, OpKind};
    use std::prelude::rust_2024::*;

    #[test]
    fn matches_double_precision() {
        let mut random = Random::new(1);
        for dims in [[1, 1, 1, 1], [1, 1, 1, 1000], [2, 3, 5, 7], [1, 12, 197, 19], [1, 1, 9, 64]] {
            let layer = layer(OpKind::Softmax, Activation::NONE, &());
            let case = Case::new(layer, &mut random, &[dims], dims);
            let found = case.run_everywhere();
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

    #[test]
    fn one_infinity_takes_all_or_nothing() {
        let mut out = [0.0; 3];
        softmax(&[f32::NEG_INFINITY, 2.0, f32::NEG_INFINITY], &mut out);
        assert_eq!(out, [0.0, 1.0, 0.0]);
        softmax(&[f32::NAN, 2.0, 1.0], &mut out);
        assert!(out.iter().all(|x| x.is_nan()));
    }
}
