//! Fusion of arithmetic and elementwise functions, into what comes before them.

use super::program::{Builder, Item, Work};
use crate::graph::{Op, ValueId};
use eyelet::pack::{Activation, ActivationKind, BinaryOp};

pub(super) fn activation(kind: ActivationKind, alpha: f32, beta: f32) -> Activation {
    Activation { kind: kind as u32, alpha, beta }
}

/// The elementwise function that a node computes, if it is one.
pub(super) fn function(op: &Op) -> Option<Activation> {
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

/// The arithmetic of two operands that a node computes, if it is such.
pub(super) fn arithmetic(op: &Op) -> Option<BinaryOp> {
    Some(match op {
        Op::Add => BinaryOp::Add,
        Op::Sub => BinaryOp::Sub,
        Op::Mul => BinaryOp::Mul,
        Op::Div => BinaryOp::Div,
        Op::PRelu => BinaryOp::PRelu,
        Op::Mask => BinaryOp::Mask,
        Op::Max => BinaryOp::Max,
        Op::Min => BinaryOp::Min,
        Op::Pow => BinaryOp::Pow,
        Op::Mod => BinaryOp::Mod,
        _ => return None,
    })
}

/// Whether an activation is this function with parameters equal up to rounding.
fn is(item: Activation, kind: ActivationKind, alpha: f32, beta: f32) -> bool {
    item.kind == kind as u32 && (item.alpha - alpha).abs() < 1e-6 && (item.beta - beta).abs() < 1e-6
}

/// Items at most that are looked at for a quantisation that was done before.
const MOST_LOOKED: usize = 64;

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
            let moves = matches!(
                item.work,
                Work::Pool { average: false, .. }
                    | Work::Reshape
                    | Work::Transpose { .. }
                    | Work::Slice { .. }
                    | Work::Split { .. }
                    | Work::Concat { .. }
            );
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
            && matches!(item.work, Work::Reshape | Work::Transpose { .. })
        {
            value = item.inputs[0];
        }
        value
    }

    /// Arithmetic, after trying what it can be fused into.
    pub fn binary(&mut self, name: &str, op: BinaryOp, a: ValueId, b: ValueId, y: ValueId) {
        if op == BinaryOp::Mul && (self.gated(name, a, b, y) || self.gated(name, b, a, y)) {
            return;
        }
        for (x, c, reversed) in [(a, b, false), (b, a, true)] {
            let flows = self.constant(x).is_none() && self.shape(x) == self.shape(y);
            if flows
                && self.constant(c).is_some()
                && self.with_constant(name, op, x, c, y, reversed)
            {
                return;
            }
        }
        if op == BinaryOp::Add && self.residual(a, b, y) {
            return;
        }
        self.push(name, Work::Binary { op }, &[a, b], &[y]);
    }

    /// `x · sigmoid(x)` and `x · hard_sigmoid(x)`.
    fn gated(&mut self, name: &str, x: ValueId, gate: ValueId, y: ValueId) -> bool {
        let Some(item) = self.sole_maker(gate) else { return false };
        if !matches!(item.work, Work::Unary) || item.inputs[0] != x {
            return false;
        }
        let function = match item.activation {
            f if is(f, ActivationKind::Sigmoid, 0.0, 0.0) => ActivationKind::Silu,
            f if is(f, ActivationKind::HardSigmoid, 1.0 / 6.0, 0.5) => ActivationKind::HardSwish,
            _ => return false,
        };
        self.remove(gate);
        self.activation(name, x, y, activation(function, 0.0, 0.0));
        true
    }

    /// `x op c` (`c op x` if reversed) folded into the linear map before it, into a sum with another
    /// constant, or turned into a scale that later nodes can be folded into.
    fn with_constant(
        &mut self,
        name: &str,
        op: BinaryOp,
        x: ValueId,
        c: ValueId,
        y: ValueId,
        reversed: bool,
    ) -> bool {
        let shape = self.shape(x).to_vec();
        let coefficients = |values: Vec<f64>| {
            let all = |value: f64| vec![value; values.len()];
            Some(match (op, reversed) {
                (BinaryOp::Add, _) => (all(1.0), values),
                (BinaryOp::Sub, false) => (all(1.0), values.iter().map(|c| -c).collect()),
                (BinaryOp::Sub, true) => (all(-1.0), values),
                (BinaryOp::Mul, _) => (values.clone(), all(0.0)),
                (BinaryOp::Div, false) => (values.iter().map(|c| 1.0 / c).collect(), all(0.0)),
                _ => return None,
            })
        };
        if self.fold(x, y, |b, axis| coefficients(b.per_channel(c, &shape, axis)?)) {
            return true;
        }
        let number =
            self.constant(c).filter(|data| data.len() == 1).map(|data| f64::from(data.get(0)));
        let product = match (op, reversed, number) {
            (BinaryOp::Mul, _, Some(number)) => self.scale_product(x, y, number),
            (BinaryOp::Div, false, Some(number)) => self.scale_product(x, y, 1.0 / number),
            _ => false,
        };
        if product {
            return true;
        }
        let last = shape.len().saturating_sub(1);
        if let Some((scale, shift)) = self.per_channel(c, &shape, last).and_then(coefficients)
            && self.fold_norm(x, y, &scale, &shift)
        {
            return true;
        }
        if op == BinaryOp::Add && self.join_sums(x, c, y) {
            return true;
        }
        let scales = matches!((op, reversed), (BinaryOp::Mul, _) | (BinaryOp::Div, false));
        if !scales || shape.len() != 4 || self.constant(c).is_none_or(|data| data.len() == 1) {
            return false;
        }
        match self.per_channel(c, &shape, 1).and_then(coefficients) {
            Some((scale, _)) if scale.iter().all(|value| value.is_finite()) => {
                self.scale_shift(name, x, y, &scale, None);
                true
            }
            _ => false,
        }
    }

    /// `(x + c) + d` with constants of one shape.
    fn join_sums(&mut self, x: ValueId, d: ValueId, y: ValueId) -> bool {
        let Some(item) = self.sole_maker(x).filter(|item| item.takes_activation()) else {
            return false;
        };
        let (Work::Binary { op: BinaryOp::Add }, [a, c]) = (&item.work, &item.inputs[..]) else {
            return false;
        };
        let (a, c) = (*a, *c);
        let own: Vec<usize> = self.shape(c).iter().copied().skip_while(|&e| e == 1).collect();
        let other: Vec<usize> = self.shape(d).iter().copied().skip_while(|&e| e == 1).collect();
        let (Some(first), Some(second)) = (self.constant(c), self.constant(d)) else {
            return false;
        };
        if own != other || self.shape(a) != self.shape(y) {
            return false;
        }
        let sum = |i| (f64::from(first.get(i)) + f64::from(second.get(i))) as f32;
        let sum = (0..first.len()).map(sum).collect();
        let shape = self.shape(c).to_vec();
        let joined = self.new_constant("sum", &shape, sum);
        if let Some(item) = self.sole_maker(x) {
            item.inputs[1] = joined;
        }
        self.retarget(x, y);
        true
    }

    /// A sum with what the later of its operands computes linearly.
    fn residual(&mut self, a: ValueId, b: ValueId, y: ValueId) -> bool {
        let (x, other) = if self.ready(a) > self.ready(b) { (a, b) } else { (b, a) };
        if self.shape(a) != self.shape(b) || a == b || self.constant(other).is_some() {
            return false;
        }
        if self.ready(other) >= self.ready(x) {
            return false;
        }
        let rank = self.shape(x).len();
        let Some(item) = self.sole_maker(x) else { return false };
        let sums = matches!(item.work, Work::Conv { .. } | Work::Rows { .. });
        if !sums || item.bare_linear(rank).is_none() {
            return false;
        }
        item.residual = Some(other);
        self.retarget(x, y);
        true
    }
}
