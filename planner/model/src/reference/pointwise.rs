//! Elementwise functions and arithmetic.

use super::{Tensor, each_index, offset};
use crate::graph::Op;
use std::cmp::Ordering;

pub(super) fn unary(op: &Op, x: f64) -> f64 {
    match *op {
        // A bound that is NaN bounds nothing; NaN stays.
        Op::Clip { .. } if x.is_nan() => x,
        Op::Clip { min, max } => x.max(f64::from(min)).min(f64::from(max)),
        Op::LeakyRelu { alpha } => {
            if x < 0.0 {
                f64::from(alpha) * x
            } else {
                x
            }
        }
        Op::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Op::HardSigmoid { alpha, beta } => (f64::from(alpha) * x + f64::from(beta)).clamp(0.0, 1.0),
        Op::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        Op::Tanh => x.tanh(),
        Op::Erf => erf(x),
        Op::Sqrt => x.sqrt(),
        Op::Exp => x.exp(),
        Op::Log => x.ln(),
        Op::Abs => x.abs(),
        Op::Floor => x.floor(),
        Op::Ceil => x.ceil(),
        Op::Round => x.round_ties_even(),
        Op::Sign => match x.partial_cmp(&0.0) {
            Some(Ordering::Less) => -1.0,
            Some(Ordering::Greater) => 1.0,
            _ => x,
        },
        Op::Elu { alpha, .. } if x < 0.0 => f64::from(alpha) * x.exp_m1(),
        Op::Elu { beta, .. } => f64::from(beta) * x,
        Op::Softplus => softplus(x),
        Op::Softsign if x.is_infinite() => x.signum(),
        Op::Softsign => x / (1.0 + x.abs()),
        Op::Mish => x * softplus(x).tanh(),
        Op::Swish { alpha } => x / (1.0 + (-f64::from(alpha) * x).exp()),
        Op::Shrink { lambda, bias } if x < -f64::from(lambda) => x + f64::from(bias),
        Op::Shrink { lambda, bias } if x > f64::from(lambda) => x - f64::from(bias),
        Op::ThresholdedRelu { alpha } if x > f64::from(alpha) => x,
        Op::Shrink { .. } | Op::ThresholdedRelu { .. } if x.is_nan() => x,
        Op::Shrink { .. } | Op::ThresholdedRelu { .. } => 0.0,
        Op::Quantise { scale, low, high, fake } => {
            // The quotient is one of floats: the other side of a half would be a whole step off.
            let whole = f64::from(x as f32 / scale).round_ties_even();
            let whole = whole.clamp(low.into(), high.into());
            if fake { whole * f64::from(scale) } else { whole }
        }
        Op::Sin => x.sin(),
        Op::Cos => x.cos(),
        Op::Tan => x.tan(),
        Op::Asin => x.asin(),
        Op::Acos => x.acos(),
        Op::Atan => x.atan(),
        Op::Sinh => x.sinh(),
        Op::Cosh => x.cosh(),
        Op::Asinh => x.asinh(),
        Op::Acosh => x.acosh(),
        Op::Atanh => x.atanh(),
        Op::Gelu { tanh: false } => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
        Op::Gelu { tanh: true } => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }
        _ => unreachable!("not a function of one element: {op:?}"),
    }
}

/// A function of two elements.
pub(super) fn of_two(op: &Op) -> fn(f64, f64) -> f64 {
    match op {
        Op::Add => |a, b| a + b,
        Op::Sub => |a, b| a - b,
        Op::Mul => |a, b| a * b,
        Op::Div => |a, b| a / b,
        Op::Max => |a, b| outer(a, b, true),
        Op::Min => |a, b| outer(a, b, false),
        Op::Pow => f64::powf,
        Op::Mod => |a, b| a % b,
        Op::PRelu => |x, slope| if x < 0.0 { slope * x } else { x },
        Op::Mask => |a, b| if b.is_nan() { a } else { b },
        _ => unreachable!("not a function of two elements: {op:?}"),
    }
}

/// ln(1 + eˣ)
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// The larger of two numbers, or the smaller; NaN if one is.
pub(super) fn outer(a: f64, b: f64, most: bool) -> f64 {
    match a.partial_cmp(&b) {
        None => f64::NAN,
        Some(Ordering::Less) if most => b,
        Some(Ordering::Greater) if !most => b,
        Some(_) => a,
    }
}

/// The error function: its series where that converges fast, the continued fraction of its complement
/// beyond.
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a < 2.5 {
        let (mut term, mut sum) = (x, x);
        for n in 1..100 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        return sum * std::f64::consts::FRAC_2_SQRT_PI;
    }
    let fraction = (1..100).rev().fold(a, |fraction, n| a + f64::from(n) / 2.0 / fraction);
    let rest = (-a * a).exp() / fraction / std::f64::consts::PI.sqrt();
    (1.0 - rest).copysign(x)
}

/// Combines two tensors, each broadcast where its extent is 1 (or absent, in front).
pub(super) fn binary(
    a: Tensor<'_>,
    b: Tensor<'_>,
    out: &[usize],
    function: impl Fn(f64, f64) -> f64,
) -> Vec<f64> {
    if a.shape == b.shape {
        return a.data.iter().zip(b.data).map(|(&a, &b)| function(a, b)).collect();
    }
    let pick = |tensor: &Tensor<'_>, index: &[usize]| {
        let own = &index[index.len() - tensor.shape.len()..];
        let clamped = own.iter().zip(tensor.shape);
        tensor.data[offset(tensor.shape, clamped.map(|(&at, &e)| if e == 1 { 0 } else { at }))]
    };
    let mut result = Vec::with_capacity(out.iter().product());
    each_index(out, |index| result.push(function(pick(&a, index), pick(&b, index))));
    result
}
