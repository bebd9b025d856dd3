//! Elementwise functions: fused into what comes before them, or layers of their own.

use super::builder::{Builder, Item};
use super::emitter::Emitter;
use super::{Lines, Operation, Operator, PassError, Work};
use crate::graph::{Op, ValueId};
use eyelet::pack::{Activation, ActivationKind, OpKind};

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
