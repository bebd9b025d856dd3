//! Elementwise functions: fused into what comes before them, or layers of their own.

use super::builder::{Builder, Item};
use super::emitter::Emitter;
use super::{Lines, Operation, Operator, PassError, Work};
use crate::graph::{Op, ValueId};
use eyelet::pack::{Activation, ActivationKind, OpKind};
use std::cmp::Ordering;

/// Items at most that are looked at for a quantisation that was done before.
const MOST_LOOKED: usize = 64;

/// Row by row.
pub(super) const ROW: Operator =
    Operator { lines: |_, _, _| Some(Lines::Own), ..Operator::new(OpKind::Unary) };

/// The activation alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unary;

impl Operation for Unary {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let order = emitter.view(&item.name, item.inputs[0])?.order();
        emitter.simple(item, OpKind::Unary, &order, [0; 24])
    }
}

/// A function by its kind and parameters.
pub(crate) fn activation(kind: ActivationKind, alpha: f32, beta: f32) -> Activation {
    Activation { kind: kind as u32, alpha, beta }
}

/// The elementwise function that a node computes, if it is one.
pub(crate) fn function(op: &Op) -> Option<Activation> {
    use ActivationKind as A;
    let (kind, alpha, beta) = match *op {
        // Only NaN has nothing to do with these bounds, and it stays.
        Op::Clip { min: f32::NEG_INFINITY, max: f32::INFINITY } => (A::None, 0.0, 0.0),
        Op::Clip { min, max } => (A::Clamp, min, max),
        Op::LeakyRelu { alpha } => (A::LeakyRelu, alpha, 0.0),
        Op::HardSigmoid { alpha, beta } => (A::HardSigmoid, alpha, beta),
        Op::Elu { alpha, beta } => (A::Elu, alpha, beta),
        Op::Swish { alpha: 1.0 } => (A::Silu, 0.0, 0.0),
        Op::Swish { alpha } => (A::Swish, alpha, 0.0),
        Op::Shrink { lambda, bias } => (A::Shrink, lambda, bias),
        Op::ThresholdedRelu { alpha } => (A::ThresholdedRelu, alpha, 0.0),
        Op::Quantise { scale, low, high, fake } => {
            return Some(Activation::quantise(scale, [low, high], fake));
        }
        ref plain => (plain_function(plain)?, 0.0, 0.0),
    };
    Some(activation(kind, alpha, beta))
}

/// An elementwise function without parameters.
fn plain_function(op: &Op) -> Option<ActivationKind> {
    use ActivationKind as A;
    Some(match op {
        Op::Sigmoid => A::Sigmoid,
        Op::HardSwish => A::HardSwish,
        Op::Tanh => A::Tanh,
        Op::Erf => A::Erf,
        Op::Sqrt => A::Sqrt,
        Op::Exp => A::Exp,
        Op::Log => A::Log,
        Op::Abs => A::Abs,
        Op::Floor => A::Floor,
        Op::Ceil => A::Ceil,
        Op::Round => A::Round,
        Op::Sign => A::Sign,
        Op::Softplus => A::Softplus,
        Op::Softsign => A::Softsign,
        Op::Mish => A::Mish,
        Op::Gelu { tanh: false } => A::Gelu,
        Op::Gelu { tanh: true } => A::GeluTanh,
        Op::Sin => A::Sin,
        Op::Cos => A::Cos,
        Op::Tan => A::Tan,
        Op::Asin => A::Asin,
        Op::Acos => A::Acos,
        Op::Atan => A::Atan,
        Op::Sinh => A::Sinh,
        Op::Cosh => A::Cosh,
        Op::Asinh => A::Asinh,
        Op::Acosh => A::Acosh,
        Op::Atanh => A::Atanh,
        _ => return None,
    })
}

/// A clamp followed by quantisation, as one function: the steps nearest to the clamp's bounds bound the others, since
/// rounding keeps the order.
fn clamped(first: Activation, then: Activation) -> Option<Activation> {
    use ActivationKind::{Clamp, FakeQuantise, Quantise};
    let (Some(Clamp), Some(Quantise | FakeQuantise)) = (first.function(), then.function()) else {
        return None;
    };
    let low = (then.beta / 256.0).floor();
    let high = low + then.beta - low * 256.0;
    if [first.alpha, first.beta].iter().any(|bound| bound.is_nan()) || first.alpha > first.beta {
        return None;
    }
    let [least, most] = [first.alpha, first.beta]
        .map(|bound| (bound / then.alpha).clamp(low, high).round_ties_even());
    let bounds = [least as i16, most as i16];
    Some(Activation::quantise(then.alpha, bounds, then.function() == Some(FakeQuantise)))
}

impl Builder {
    /// Applies an elementwise function.
    pub fn activation(&mut self, name: &str, x: ValueId, y: ValueId, function: Activation) {
        if function == Activation::NONE {
            return self.push(name, Work::Reshape, &[x], &[y]);
        }
        if self.is_settled(x, function) {
            return self.push(name, Work::Reshape, &[x], &[y]);
        }
        let fuses = function.function().is_some_and(ActivationKind::fuses);
        let source = self.behind_views(x);
        match self.sole_maker(source) {
            Some(item) if fuses && item.takes_activation() => {
                item.activation = function;
                self.retarget(x, y);
            }
            Some(Item { activation, .. }) if let Some(both) = clamped(*activation, function) => {
                *activation = both;
                self.retarget(x, y);
            }
            _ => self.push_active(name, Work::Unary, &[x], &[y], function),
        }
    }

    /// Whether a value has been quantised so, and then only moved: `x · scale / scale` is rounded to x for whole x
    /// of 8 bits.
    fn is_settled(&self, value: ValueId, function: Activation) -> bool {
        let mut left = vec![value];
        let mut looked = 0;
        while let Some(value) = left.pop() {
            looked += 1;
            let Some(item) = self.maker(value) else { return false };
            let moves = item.work.operation().moves();
            match function.function() {
                Some(ActivationKind::FakeQuantise) if item.activation == function => {}
                Some(ActivationKind::FakeQuantise)
                    if moves && item.activation == Activation::NONE && looked < MOST_LOOKED =>
                {
                    left.extend_from_slice(&item.inputs);
                }
                _ => return false,
            }
        }
        true
    }

    /// What a value is only another view of, as long as nobody else reads either.
    fn behind_views(&mut self, mut value: ValueId) -> ValueId {
        while let Some(item) = self.sole_maker(value)
            && matches!(item.work, Work::Reshape | Work::Transpose(_))
        {
            value = item.inputs[0];
        }
        value
    }
}

/// A function in double precision.
pub(crate) fn unary(op: &Op, x: f64) -> f64 {
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

/// ln(1 + eˣ)
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
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
