//! Arithmetic of two tensors with broadcasting, and what it is fused into.

use super::broadcast::Broadcast;
use super::builder::{Builder, Item};
use super::emitter::{Draft, Emitter, slots};
use super::exact::{self, each_index, offset};
use super::unary::activation;
use super::{Lines, Operation, Operator, PassError, Work};
use crate::graph::{Op, ValueId};
use eyelet::pack::{
    self, Activation, ActivationKind, BinaryOp, BinaryParams, OpKind, Tensor, params,
};
use std::cmp::Ordering;

/// Row by row, of operands that are not broadcast.
pub(super) const ROW: Operator = Operator {
    lines: |network, layer, slot| {
        let record = |id: u32| &network.tensors[id as usize];
        let p: BinaryParams = params(layer);
        let alike = record(layer.inputs[slot]).dims == record(layer.output).dims;
        (alike || p.constant_operand != 0).then_some(Lines::Own)
    },
    ..Operator::new(OpKind::Binary)
};

/// Arithmetic; one of the inputs may be a constant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binary {
    pub op: BinaryOp,
}

impl Operation for Binary {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let op = self.op;
        let Broadcast { inputs, output, constants, weights } = emitter.broadcast::<2>(item)?;
        let mut params = BinaryParams { op: op as u32, ..BinaryParams::default() };
        if let Some(which) = constants.iter().position(Option::is_some) {
            params.constant_operand = if which == 0 { 2 } else { 1 };
            params.constant = constants[which].unwrap_or_default();
        }
        emitter.layer(item, OpKind::Binary, inputs, output, pack::params_words(&params), weights)
    }

    fn takes_activation(&self) -> bool {
        true
    }

    fn constants(&self) -> usize {
        1
    }

    fn beyond_gpus(&self) -> Option<String> {
        self.op.is_wide().then(|| format!("{:?}", self.op))
    }
}

/// The layer of an item that makes the squares of a tensor.
pub(crate) fn squares(item: &Item, input: Tensor, output: Tensor) -> Draft {
    let params = BinaryParams { op: BinaryOp::Mul as u32, ..BinaryParams::default() };
    let (name, words) = (format!("{}.squares", item.name), pack::params_words(&params));
    Draft::new(name, OpKind::Binary, slots([Some(input); 2]), output, words)
}

/// The arithmetic of two operands that a node computes, if it is such.
pub(crate) fn arithmetic(op: &Op) -> Option<BinaryOp> {
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

impl Builder {
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
        self.push(name, Work::Binary(Binary { op }), &[a, b], &[y]);
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
        let (Work::Binary(Binary { op: BinaryOp::Add }), [a, c]) = (&item.work, &item.inputs[..])
        else {
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
        if !item.work.operation().takes_residual() || item.bare_linear(rank).is_none() {
            return false;
        }
        item.residual = Some(other);
        self.retarget(x, y);
        true
    }
}

/// A function of two elements.
pub(crate) fn of_two(op: &Op) -> fn(f64, f64) -> f64 {
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

/// The larger of two numbers, or the smaller; NaN if one is.
pub(crate) fn outer(a: f64, b: f64, most: bool) -> f64 {
    match a.partial_cmp(&b) {
        None => f64::NAN,
        Some(Ordering::Less) if most => b,
        Some(Ordering::Greater) if !most => b,
        Some(_) => a,
    }
}

/// Combines two tensors, each broadcast where its extent is 1 (or absent, in front).
pub(crate) fn binary(
    a: exact::Tensor<'_>,
    b: exact::Tensor<'_>,
    out: &[usize],
    function: impl Fn(f64, f64) -> f64,
) -> Vec<f64> {
    if a.shape == b.shape {
        return a.data.iter().zip(b.data).map(|(&a, &b)| function(a, b)).collect();
    }
    let pick = |tensor: &exact::Tensor<'_>, index: &[usize]| {
        let own = &index[index.len() - tensor.shape.len()..];
        let clamped = own.iter().zip(tensor.shape);
        tensor.data[offset(tensor.shape, clamped.map(|(&at, &e)| if e == 1 { 0 } else { at }))]
    };
    let mut result = Vec::with_capacity(out.iter().product());
    each_index(out, |index| result.push(function(pick(&a, index), pick(&b, index))));
    result
}
