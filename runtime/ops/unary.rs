//! Elementwise functions of one tensor.

use super::{
    Call, LayerError, Operand, Operator, Reads, check, check_one_input_or_in_place,
    check_same_extents, device_for, split,
};
use crate::device::divide;
use crate::pack::{ActivationKind, INPUTS, Isa, Layer, OpKind, Tensor};

/// The code of the first function that GPUs do not compute.
const FIRST_WIDE: u64 = ActivationKind::Sin as u64;

/// Elementwise functions.
pub(super) const ROW: Operator = Operator {
    functions: true,
    in_place: [true, false, false],
    reads: [Reads::Rows; INPUTS],
    ..Operator::new(OpKind::Unary, 1, validate, run)
};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    isa: Isa,
) -> Result<(), LayerError> {
    let function = layer.activation.kind;
    let wide = layer.activation.function().is_some_and(ActivationKind::is_wide);
    check(isa != Isa::Cuda || !wide, "function on a GPU", function.into(), FIRST_WIDE - 1)?;
    check_one_input_or_in_place(layer)?;
    check_same_extents(&inputs[0], output)
}

/// Computes the rows of one step.
pub fn run(mut call: Call<'_>) {
    let (activation, kernels) = (&call.layer.activation, call.kernels);
    let (cols, first) = (call.out.cols(), call.rows.start);
    let out = call.out.part_mut(call.out.slots(call.rows), 0..cols);
    let device = device_for(call.device, out.rows() * cols);
    let split = split(out.rows(), cols, device);
    let operand = call.operands[0];
    divide(device, out, split, &mut [], 0, |share| match operand {
        Operand::Mat(input) => {
            let rows = first + share.rows.start..first + share.rows.end;
            kernels.map_from(activation, input.part(input.slots(rows), share.cols), share.out);
        }
        Operand::Output => kernels.map(activation, share.out),
        Operand::Absent => {}
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, layer, relative_error};
    use super::*;
    use crate::kernels::{Kernels, testing::erf};
    use crate::matrix::MatMut;
    use crate::pack::Activation;
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
            ActivationKind::Gelu => 0.5 * x * (1.0 + erf(x / 2f64.sqrt())),
            ActivationKind::GeluTanh => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }
            ActivationKind::Erf => erf(x),
            ActivationKind::Quantise | ActivationKind::FakeQuantise => {
                let low = (beta / 256.0).floor();
                // Half a step off is a step off: the quotient is one of floats.
                let quotient = f64::from(x as f32 / activation.alpha);
                let whole = quotient.clamp(low, low + beta - low * 256.0).round_ties_even();
                let fake = activation.kind == ActivationKind::FakeQuantise as u32;
                if fake { whole * alpha } else { whole }
            }
            ActivationKind::Sqrt => x.sqrt(),
            ActivationKind::Exp => x.exp(),
            ActivationKind::Elu => {
                if x < 0.0 {
                    alpha * x.exp_m1()
                } else {
                    beta * x
                }
            }
            ActivationKind::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
            ActivationKind::Mish => x * x.exp().ln_1p().tanh(),
            ActivationKind::Swish => x * sigmoid(alpha * x),
            ActivationKind::Log => x.ln(),
            ActivationKind::Abs => x.abs(),
            ActivationKind::Floor => x.floor(),
            ActivationKind::Ceil => x.ceil(),
            ActivationKind::Round => x.round_ties_even(),
            ActivationKind::Sign => {
                if x == 0.0 {
                    0.0
                } else {
                    x.signum()
                }
            }
            ActivationKind::Softsign => x / (1.0 + x.abs()),
            ActivationKind::Shrink if x.abs() <= alpha => 0.0,
            ActivationKind::Shrink => {
                if x < 0.0 {
                    x + beta
                } else {
                    x - beta
                }
            }
            ActivationKind::ThresholdedRelu => {
                if x > alpha {
                    x
                } else {
                    0.0
                }
            }
            ActivationKind::Sin => x.sin(),
            ActivationKind::Cos => x.cos(),
            ActivationKind::Tan => x.tan(),
            ActivationKind::Asin => x.asin(),
            ActivationKind::Acos => x.acos(),
            ActivationKind::Atan => x.atan(),
            ActivationKind::Sinh => x.sinh(),
            ActivationKind::Cosh => x.cosh(),
            ActivationKind::Asinh => x.asinh(),
            ActivationKind::Acosh => x.acosh(),
            ActivationKind::Atanh => x.atanh(),
        }
    }

    fn activations() -> impl Iterator<Item = Activation> {
        (0..ActivationKind::ALL.len() as u32).map(|kind| match kind {
            1 => Activation { kind, alpha: -0.5, beta: 6.0 },
            4 => Activation { kind, alpha: 0.2, beta: 0.5 },
            13 => Activation { kind, alpha: 0.7, beta: 1.1 },
            24 => Activation { kind, alpha: 1.5, beta: 0.5 },
            37 => Activation::quantise(0.03, [-17, 21], false),
            38 => Activation::quantise(0.03, [0, 255], true),
            kind => Activation { kind, alpha: 0.1, beta: 0.0 },
        })
    }

    fn apply(activation: &Activation, data: &mut [f32]) {
        let cols = data.len();
        if let Some(mat) = MatMut::new(data, 1, cols, cols) {
            Kernels::PORTABLE.map(activation, mat);
        }
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
                    // Where HardSigmoid and HardSwish cross zero the error is absolute; GELU's is
                    // relative to x.
                    let floor = if activation.kind == 8 { x.abs() as f64 } else { 0.5 };
                    let error = relative_error(*y, truth, floor);
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
            use ActivationKind::{Acos, Acosh, Asin, Atanh, Cos, Log, Sin, Sqrt, Tan};
            let function = activation.function().unwrap();
            let bounded = matches!(function, Sin | Cos | Tan | Asin | Acos | Atanh);
            assert_eq!(data[0].is_nan(), bounded, "{activation:?}: {data:?}");
            let positive = bounded || matches!(function, Sqrt | Log | Acosh);
            assert_eq!(data[1].is_nan(), positive, "{activation:?}: {data:?}");
            assert!(data[2].is_nan(), "{activation:?}");
            if matches!(activation.kind, 5 | 7..=9 | 14..=16) {
                assert_eq!(data[..2], [f32::INFINITY, 0.0], "{activation:?}");
            }
        }
    }

    #[test]
    fn layers_match_in_place_sliced_and_threaded() {
        let mut random = Random::new(2);
        for dims in [[1, 1, 1, 5], [2, 3, 5, 7], [1, 9, 7, 33], [1, 1, 1, 9000], [1, 40, 40, 8]] {
            for activation in activations() {
                let layer = layer(OpKind::Unary, activation, &());
                let mut case = Case::new(layer, &mut random, &[dims], dims);
                if matches!(activation.kind, 26..) {
                    // Where they have values, on average.
                    case.data[0].iter_mut().for_each(|x| *x *= 0.125);
                }
                let found = case.run_everywhere();
                case.assert_close(&found, 1e-6, |at| reference(&activation, case.input(0, at)));
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
