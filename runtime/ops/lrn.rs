//! Local response normalisation: `x / (bias + alpha/size · Σ x²)^beta`.
//!
//! The sum runs in ascending order over the channels `c - ⌊(size-1)/2⌋` to `c + ⌈(size-1)/2⌉` that
//! exist. [`Kernels::lrn`](crate::kernels::Kernels::lrn) says how the rest is computed.

use super::work::elements;
use super::{
    Call, LayerError, Operand, Operator, Reads, check, check_one_input, check_same_extents,
    device_for,
};
use crate::device::{Split, divide};
use crate::kernels::Kernels;
use crate::pack::{INPUTS, Isa, Layer, LrnParams, OpKind, Tensor, params};

/// Local response normalisation.
pub(super) const ROW: Operator = Operator {
    reads: [Reads::Rows; INPUTS],
    macs: |layer, _, output| {
        let lrn: LrnParams = params(layer);
        let window = lrn.size.min(output.cols()) as u64;
        elements(output).saturating_mul(window.saturating_add(40))
    },
    ..Operator::new(OpKind::Lrn, 1, validate, run)
};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    _isa: Isa,
) -> Result<(), LayerError> {
    check_one_input(layer)?;
    check_same_extents(&inputs[0], output)?;
    let params: LrnParams = params(layer);
    check(params.size > 0, "number of channels in the window", 0, 1)
}

/// Computes the rows of one step.
pub fn run(mut call: Call<'_>) {
    let Operand::Mat(input) = call.operands[0] else { return };
    let params: LrnParams = params(call.layer);
    let (activation, kernels) = (&call.layer.activation, call.kernels);
    let (cols, first) = (call.out.cols(), call.rows.start);
    let out = call.out.part_mut(call.out.slots(call.rows), 0..cols);
    let device = device_for(call.device, out.rows() * cols);
    divide(device, out, Split::Rows(1), &mut [], 0, |mut share| {
        for row in 0..share.out.rows() {
            let input = input.row(input.slot(first + share.rows.start + row));
            normalise(kernels, &params, input, share.out.row_mut(row));
        }
        kernels.map(activation, share.out);
    });
}

fn normalise(kernels: &Kernels, params: &LrnParams, x: &[f32], out: &mut [f32]) {
    let last = x.len() - 1;
    let before = (params.size as usize - 1) / 2;
    let after = params.size as usize - 1 - before;
    out.fill(0.0);
    // One pass over the row for every place in the window: each output is a chain, the row is
    // vectors.
    for distance in (1..=before.min(last)).rev() {
        add_squares(&mut out[distance..], x);
    }
    for distance in 0..=after.min(last) {
        add_squares(out, &x[distance..]);
    }
    let alpha = params.alpha / params.size as f32;
    kernels.lrn(x, [alpha, params.beta, params.bias], out);
}

fn add_squares(sums: &mut [f32], x: &[f32]) {
    for (sum, x) in sums.iter_mut().zip(x) {
        *sum += x * x;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, layer};
    use super::*;
    use crate::pack::Activation;

    #[test]
    fn matches_double_precision() {
        let mut random = Random::new(1);
        for dims in [[1, 1, 1, 1], [1, 3, 5, 7], [2, 13, 13, 64], [1, 7, 9, 33]] {
            for (size, beta) in [(1, 0.75), (2, 0.5), (3, 1.0), (4, 0.75), (5, 0.75), (99, 0.3)] {
                let params = LrnParams { size, alpha: 1e-2, beta, bias: 1.5 };
                let layer = layer(OpKind::Lrn, Activation::NONE, &params);
                let case = Case::new(layer, &mut random, &[dims], dims);
                let found = case.run_everywhere();
                let (cols, size) = (dims[3] as i64, size as i64);
                case.assert_close(&found, 1e-6, |at| {
                    let (row, c) = (at / cols as usize, (at % cols as usize) as i64);
                    let window = (c - (size - 1) / 2).max(0)..=(c + size / 2).min(cols - 1);
                    let sum: f64 = window
                        .map(|c| case.input(0, row * cols as usize + c as usize).powi(2))
                        .sum();
                    let base = 1.5 + 1e-2f32 as f64 / size as f64 * sum;
                    case.input(0, at) / base.powf(beta as f64)
                });
            }
        }
    }
}
