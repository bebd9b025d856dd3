//! Elementwise functions of one tensor, and the same as the epilogue of other operators.

use super::{
    Call, LayerError, Operand, check_one_input_or_in_place, check_same_extents, device_for, math,
    split,
};
use crate::arena::MatMut;
use crate::device::divide;
use crate::kernels::Isa;
use crate::pack::{Activation, ActivationKind, Layer, Tensor};

/// Floats that are copied before they are worked on: well inside the first cache.
const CHUNK: usize = 2048;

/// Applies an activation to every element.
///
/// The order of operations is as written here on every target. NaN stays NaN; Silu, Gelu and HardSwish of
/// minus infinity are their limit, -0.
#[inline]
pub fn apply(activation: &Activation, data: &mut [f32]) {
    let Activation { alpha, beta, .. } = *activation;
    match activation.function() {
        None | Some(ActivationKind::None) => {}
        Some(ActivationKind::Clamp) => map(data, |x| math::clamp(x, alpha, beta)),
        Some(ActivationKind::LeakyRelu) => map(data, |x| if x >= 0.0 { x } else { alpha * x }),
        Some(ActivationKind::Sigmoid) => map(data, math::sigmoid),
        Some(ActivationKind::HardSigmoid) => {
            map(data, |x| math::clamp(alpha * x + beta, 0.0, 1.0));
        }
        Some(ActivationKind::HardSwish) => map(data, |x| {
            let bounded = if x < -3.0 { -3.0 } else { x };
            bounded * math::clamp(bounded * (1.0 / 6.0) + 0.5, 0.0, 1.0)
        }),
        Some(ActivationKind::Tanh) => map(data, math::tanh),
        Some(ActivationKind::Silu) => map(data, |x| {
            let bounded = if x < -128.0 { -128.0 } else { x };
            bounded * math::sigmoid(bounded)
        }),
        Some(ActivationKind::Gelu) => map(data, math::gelu),
        Some(ActivationKind::GeluTanh) => map(data, math::gelu_tanh),
        Some(ActivationKind::Erf) => map(data, math::erf),
        Some(ActivationKind::Sqrt) => map(data, math::sqrt),
    }
}

#[inline(always)]
fn map(data: &mut [f32], f: impl Fn(f32) -> f32) {
    for x in data {
        *x = f(*x);
    }
}

/// Applies an activation to a matrix.
pub fn apply_mat(activation: &Activation, mut mat: MatMut<'_>) {
    if let Some(all) = mat.contiguous_mut() {
        return apply(activation, all);
    }
    for row in 0..mat.rows() {
        apply(activation, mat.row_mut(row));
    }
}

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; 2],
    output: &Tensor,
    _isa: Isa,
) -> Result<(), LayerError> {
    check_one_input_or_in_place(layer)?;
    check_same_extents(&inputs[0], output)
}

/// Computes the rows of one step.
pub fn run(mut call: Call<'_>) {
    let activation = &call.layer.activation;
    let (cols, first) = (call.out.cols(), call.rows.start);
    let out = call.out.part_mut(call.rows, 0..cols);
    let device = device_for(call.device, out.rows() * cols);
    let split = split(out.rows(), cols, device);
    let input = match call.operands[0] {
        Operand::Mat(input) => input,
        Operand::Output => {
            return divide(device, out, split, &mut [], 0, |share| {
                apply_mat(activation, share.out);
            });
        }
        Operand::Absent => return,
    };
    divide(device, out, split, &mut [], 0, |mut share| {
        let rows = first + share.rows.start..first + share.rows.end;
        let input = input.part(rows, share.cols);
        if let (Some(from), Some(to)) = (input.contiguous(), share.out.contiguous_mut()) {
            return copy_and_apply(activation, from, to);
        }
        for row in 0..input.rows() {
            copy_and_apply(activation, input.row(row), share.out.row_mut(row));
        }
    });
}

fn copy_and_apply(activation: &Activation, from: &[f32], to: &mut [f32]) {
    for (from, to) in from.chunks(CHUNK).zip(to.chunks_mut(CHUNK)) {
        to.copy_from_slice(from);
        apply(activation, to);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, layer, relative_error};
    use super::*;
    use crate::pack::OpKind;
    use std::prelude::rust_2024::*;

    pub fn reference(activation: &Activation, x: f64) -> f64 {
        let (alpha, beta) = (activation.alpha as f64, activation.beta as f64);
        let sigmoid =
            |x: f64| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) };
        match activation.function().unwrap() {
            ActivationKind::None => x,
            ActivationKind::Clamp => x.max(alpha).min(beta),
            ActivationKind::LeakyRelu => x * if x >= 0.0 { 1.0 } else { alpha },
            ActivationKind::Sigmoid => sigmoid(x),
            ActivationKind::HardSigmoid => (alpha * x + beta).clamp(0.0, 1.0),
            ActivationKind::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
            ActivationKind::Tanh => x.tanh(),
            ActivationKind::Silu => x * sigmoid(x),
            ActivationKind::Gelu => 0.5 * x * (1.0 + erf(x * core::f64::consts::FRAC_1_SQRT_2)),
            ActivationKind::GeluTanh => {
                let inner = (2.0 / core::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
                0.5 * x * (1.0 + inner.tanh())
            }
            ActivationKind::Erf => erf(x),
            ActivationKind::Sqrt => x.sqrt(),
        }
    }

    /// The series, which is good for |x| < 6 here: its terms cancel to 1e-16 times the largest, 1e12.
    fn erf(x: f64) -> f64 {
        if x.abs() > 4.0 {
            return 1f64.copysign(x);
        }
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / n as f64;
            sum += term / (2 * n + 1) as f64;
        }
        sum * core::f64::consts::FRAC_2_SQRT_PI
    }

    fn activations() -> impl Iterator<Item = Activation> {
        (0..12).map(|kind| match kind {
            1 => Activation { kind, alpha: -0.5, beta: 6.0 },
            4 => Activation { kind, alpha: 0.2, beta: 0.5 },
            kind => Activation { kind, alpha: 0.1, beta: 0.0 },
        })
    }

    #[test]
    fn functions_match_double_precision() {
        let mut random = Random::new(1);
        for activation in activations() {
            for len in [0, 1, 3, 7, 8, 9, 100, 1000] {
                let data: Vec<f32> = (0..len).map(|_| random.float() * 8.0).collect();
                let mut found = data.clone();
                apply(&activation, &mut found);
                for (x, y) in data.iter().zip(&found) {
                    let truth = reference(&activation, *x as f64);
                    // Where HardSigmoid and HardSwish cross zero the error is absolute.
                    let error = relative_error(*y, truth, 0.5);
                    assert!(error < 4e-7, "{activation:?} of {x}: {y}, not {truth}");
                }
            }
        }
    }

    #[test]
    fn infinities_saturate_and_nan_stays() {
        for activation in activations() {
            let mut data = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
            apply(&activation, &mut data);
            let root = activation.function() == Some(ActivationKind::Sqrt);
            assert!(!data[0].is_nan() && data[1].is_nan() == root, "{activation:?}: {data:?}");
            assert!(data[2].is_nan(), "{activation:?}");
        }
    }

    #[test]
    fn layers_match_in_place_sliced_and_threaded() {
        let mut random = Random::new(2);
        for dims in [[1, 1, 1, 5], [2, 3, 5, 7], [1, 9, 7, 33], [1, 1, 1, 9000], [1, 40, 40, 8]] {
            for activation in activations() {
                let layer = layer(OpKind::Unary, activation, &());
                let case = Case::new(layer, &mut random, &[dims], dims);
                let found = case.run_everywhere();
                case.assert_close(&found, 4e-7, |at| reference(&activation, case.input(0, at)));
                let in_place = case.in_place(0).run_everywhere();
                let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&found), bits(&in_place), "{activation:?} of {dims:?}");
            }
        }
    }

    #[test]
    fn refuses_other_extents_and_second_inputs() {
        let mut random = Random::new(3);
        let layer = layer(OpKind::Unary, Activation::RELU, &());
        let case = Case::new(layer, &mut random, &[[1, 2, 3, 4]], [1, 2, 3, 5]);
        assert_eq!(case.validate(), Err(LayerError::Field("extent of the output", 5, 4)));
        let case = Case::new(layer, &mut random, &[[1, 2, 3, 4]; 2], [1, 2, 3, 4]);
        assert_eq!(case.validate(), Err(LayerError::Field("number of inputs", 2, 1)));
    }
}
