//! Patterns: operators that exporters write out as several nodes become one again.
//!
//! - GELU, `x/2 · (1 + erf(x/√2))`, and its approximation by tanh, whatever the order of the factors;
//! - layer normalisation, `(x - mean) / √(variance + epsilon)`, and without the mean, `x / √(mean square + epsilon)`,
//!   divided or times the reciprocal; scale and shift follow by fusion;
//! - softplus, `ln(1 + eˣ)`; Mish, `x · tanh(softplus(x))`; `x · sigmoid(alpha · x)`;
//! - the hard functions made of a clip, `clip(x + 3, 0, 6) / 6` and x times that.
//!
//! [`group_norm`] has group normalisation by reshaping. Only what the last node reads is looked at; nodes that nobody reads any more go.

use super::group_norm;
use crate::graph::{Graph, Op, ValueId};
use eyelet::pack::ReduceOp;

/// How far apart constants may be that mean the same, relatively.
const ROUNDING: f64 = 1e-5;
/// Factors and products that a product is taken apart into, about: patterns have fewer.
const MOST_FACTORS: usize = 24;
/// √(2/π)
const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;
/// The coefficient of the cube in the approximation of GELU.
const CUBE: f64 = 0.044_715;

/// The graph with its patterns replaced.
pub(super) fn recognise(graph: &Graph) -> Graph {
    let matcher = Matcher::new(graph);
    let mut result = graph.clone();
    for node in &mut result.nodes {
        let y = node.outputs[0];
        let norm = || matcher.layer_norm(y).or_else(|| matcher.rms_norm(y));
        let found = match node.op {
            Op::Mul => {
                let gated = || matcher.gelu(y).or_else(|| matcher.gated(y));
                gated().or_else(|| matcher.hard(y)).or_else(norm)
            }
            Op::Div => norm().or_else(|| matcher.hard(y)),
            Op::Log => matcher.softplus(y),
            _ => None,
        };
        if let Some((op, x)) =
            found.filter(|(_, x)| graph.values[*x].shape == graph.values[y].shape)
        {
            node.op = op;
            node.inputs = vec![Some(x)];
        }
    }
    drop_unread(&mut result);
    group_norm::join(&mut result);
    drop_unread(&mut result);
    result
}

/// Removes nodes whose outputs nobody reads.
fn drop_unread(graph: &mut Graph) {
    let mut read = vec![false; graph.values.len()];
    graph.outputs.iter().for_each(|&value| read[value] = true);
    let mut kept = Vec::with_capacity(graph.nodes.len());
    while let Some(node) = graph.nodes.pop() {
        if node.outputs.iter().any(|&value| read[value]) {
            node.inputs.iter().flatten().for_each(|&value| read[value] = true);
            kept.push(node);
        }
    }
    kept.reverse();
    graph.nodes = kept;
}

/// A product: a number times values.
struct Product {
    factor: f64,
    values: Vec<ValueId>,
}

/// What is over a root: x, and of √(a + epsilon) both.
type Over = (ValueId, ValueId, f64);

struct Matcher<'a> {
    graph: &'a Graph,
    /// The node that makes a value.
    maker: Vec<Option<usize>>,
}

fn is_about(a: f64, b: f64) -> bool {
    (a - b).abs() <= ROUNDING * b.abs()
}

impl<'a> Matcher<'a> {
    fn new(graph: &'a Graph) -> Self {
        let mut maker = vec![None; graph.values.len()];
        for (index, node) in graph.nodes.iter().enumerate() {
            node.outputs.iter().for_each(|&value| maker[value] = Some(index));
        }
        Self { graph, maker }
    }

    /// The operator that makes a value, and its inputs.
    fn made(&self, value: ValueId) -> Option<(&'a Op, Vec<ValueId>)> {
        let node = &self.graph.nodes[self.maker[value]?];
        Some((&node.op, node.inputs.iter().copied().flatten().collect()))
    }

    /// A constant of one number.
    fn number(&self, value: ValueId) -> Option<f64> {
        let constant = self.graph.values[value].constant.as_ref()?;
        (constant.len() == 1).then(|| constant.get(0).into())
    }

    /// A value as a product, down to `x` and what is no product.
    fn product(&self, value: ValueId, x: Option<ValueId>) -> Product {
        let mut product = Product { factor: 1.0, values: Vec::new() };
        let (mut open, mut steps) = (vec![value], 0);
        while let Some(value) = open.pop() {
            steps += 1;
            if let Some(number) = self.number(value) {
                product.factor *= number;
                continue;
            }
            match self.made(value) {
                Some((Op::Mul, inputs)) if x != Some(value) && steps < MOST_FACTORS => {
                    open.extend(inputs);
                }
                Some((Op::Div, inputs))
                    if x != Some(value)
                        && steps < MOST_FACTORS
                        && self.number(inputs[1]).is_some() =>
                {
                    product.factor /= self.number(inputs[1]).unwrap_or(1.0);
                    open.push(inputs[0]);
                }
                _ => product.values.push(value),
            }
        }
        product
    }

    /// The other operand of the sum with `of` that makes a value.
    fn sum_with(&self, value: ValueId, of: impl Fn(ValueId) -> bool) -> Option<ValueId> {
        let (Op::Add, inputs) = self.made(value)? else { return None };
        let at = inputs.iter().position(|&input| of(input))?;
        inputs.get(1 - at).copied()
    }

    fn one(&self, value: ValueId) -> bool {
        self.number(value) == Some(1.0)
    }

    /// `y = x/2 · (1 + f)`, where f is the error function or tanh of what it should be.
    fn gelu(&self, y: ValueId) -> Option<(Op, ValueId)> {
        let product = self.product(y, None);
        // what is added to 1, among the factors, tells where x ends
        let gate = |&value: &ValueId| self.sum_with(value, |operand| self.one(operand));
        let function = product.values.iter().find_map(gate)?;
        let (op, inputs) = self.made(function)?;
        let inner = inputs[0];
        let x = match op {
            Op::Erf => self.product(inner, None).values,
            // u = √(2/π) · x · …, or of a sum of which x is the part that is no product
            Op::Tanh => {
                let values = self.product(inner, None).values;
                let parts: Vec<ValueId> = values
                    .iter()
                    .filter_map(|&value| self.made(value))
                    .flat_map(|made| made.1)
                    .collect();
                [values, parts].concat()
            }
            _ => return None,
        };
        let tanh = *op == Op::Tanh;
        let found = x.into_iter().find(|&x| {
            let all = self.product(y, Some(x));
            let gated = all.values.len() == 2
                && all.values.contains(&x)
                && all.values.iter().any(|value| gate(value) == Some(function));
            let inside = if tanh { self.cubic(inner, x) } else { self.scaled(inner, x) };
            is_about(all.factor, 0.5) && gated && inside
        });
        Some((Op::Gelu { tanh }, found?))
    }

    /// Whether `u = x/√2`.
    fn scaled(&self, u: ValueId, x: ValueId) -> bool {
        let product = self.product(u, Some(x));
        is_about(product.factor, std::f64::consts::FRAC_1_SQRT_2) && product.values == [x]
    }

    /// Whether `u = √(2/π) · (x + 0.044715·x³)`, or `√(2/π) · x · (1 + 0.044715·x²)`.
    fn cubic(&self, u: ValueId, x: ValueId) -> bool {
        let outer = self.product(u, Some(x));
        let power = |value: ValueId, n: usize| {
            let product = self.product(value, Some(x));
            is_about(product.factor, CUBE) && product.values == vec![x; n]
        };
        let sum = match outer.values[..] {
            [sum] => self.sum_with(sum, |operand| operand == x).is_some_and(|rest| power(rest, 3)),
            [a, b] if a == x || b == x => {
                let sum = if a == x { b } else { a };
                self.sum_with(sum, |operand| self.one(operand)).is_some_and(|rest| power(rest, 2))
            }
            _ => false,
        };
        is_about(outer.factor, SQRT_2_OVER_PI) && sum
    }

    /// The mean over which axes makes a value, and of what.
    fn mean(&self, value: ValueId) -> Option<(ValueId, &'a [usize])> {
        match self.made(value)? {
            (Op::Reduce { op: ReduceOp::Mean, axes, keep: true }, inputs) => {
                Some((inputs[0], axes))
            }
            _ => None,
        }
    }

    /// `y = (x - mean) / √(mean of squares of that + epsilon)`.
    fn layer_norm(&self, y: ValueId) -> Option<(Op, ValueId)> {
        self.over_roots(y).into_iter().find_map(|over| self.layer_norm_of(over))
    }

    fn layer_norm_of(&self, (difference, variance, epsilon): Over) -> Option<(Op, ValueId)> {
        let (x, axes) = self.difference(difference)?;
        let (square, over) = self.mean(variance)?;
        let (Op::Mul, factors) = self.made(square)? else { return None };
        let same = factors
            .iter()
            .all(|&factor| factor == difference || self.difference(factor) == Some((x, axes)));
        let rank = self.graph.values[x].shape.len();
        let axis = rank.checked_sub(axes.len())?;
        let trailing = !axes.is_empty() && axes.iter().copied().eq(axis..rank);
        (same && over == axes && trailing)
            .then_some((Op::LayerNorm { axis, epsilon: epsilon as f32 }, x))
    }

    /// `y = x / √(mean of squares of x + epsilon)`.
    fn rms_norm(&self, y: ValueId) -> Option<(Op, ValueId)> {
        self.over_roots(y).into_iter().find_map(|(x, mean, epsilon)| {
            let (square, axes) = self.mean(mean)?;
            let (Op::Mul, factors) = self.made(square)? else { return None };
            let rank = self.graph.values[x].shape.len();
            let axis = rank.checked_sub(axes.len())?;
            let trailing = !axes.is_empty() && axes.iter().copied().eq(axis..rank);
            (factors == [x, x] && trailing)
                .then_some((Op::RmsNorm { axis, epsilon: epsilon as f32 }, x))
        })
    }

    /// What a value may be over a root, divided by it or times its reciprocal.
    fn over_roots(&self, y: ValueId) -> Vec<Over> {
        let over = |x: ValueId, root: ValueId| {
            let (Op::Sqrt, inputs) = self.made(root)? else { return None };
            let mean = self.sum_with(inputs[0], |operand| self.number(operand).is_some())?;
            let (Op::Add, operands) = self.made(inputs[0])? else { return None };
            let epsilon = operands.iter().find_map(|&operand| self.number(operand))?;
            Some((x, mean, epsilon))
        };
        let reciprocal = |value: ValueId| match self.made(value)? {
            (Op::Div, inputs) if self.one(inputs[0]) => Some(inputs[1]),
            _ => None,
        };
        let found = match self.made(y) {
            Some((Op::Div, inputs)) => vec![over(inputs[0], inputs[1])],
            Some((Op::Mul, inputs)) if inputs.len() == 2 => {
                let times = |x, factor| over(x, reciprocal(factor)?);
                vec![times(inputs[0], inputs[1]), times(inputs[1], inputs[0])]
            }
            _ => vec![],
        };
        found.into_iter().flatten().collect()
    }

    /// `y = ln(1 + eˣ)`.
    fn softplus(&self, y: ValueId) -> Option<(Op, ValueId)> {
        let (Op::Log, inputs) = self.made(y)? else { return None };
        let power = self.sum_with(inputs[0], |operand| self.one(operand))?;
        let (Op::Exp, inputs) = self.made(power)? else { return None };
        Some((Op::Softplus, inputs[0]))
    }

    /// `y = x · tanh(softplus(x))`, or `x · sigmoid(alpha · x)`.
    fn gated(&self, y: ValueId) -> Option<(Op, ValueId)> {
        let (Op::Mul, inputs) = self.made(y)? else { return None };
        let &[a, b] = &inputs[..] else { return None };
        [(a, b), (b, a)].into_iter().find_map(|(x, gate)| match self.made(gate)? {
            (Op::Tanh, inputs) => {
                let inner = match self.made(inputs[0])? {
                    (Op::Softplus, inputs) => inputs[0],
                    _ => self.softplus(inputs[0])?.1,
                };
                (inner == x).then_some((Op::Mish, x))
            }
            (Op::Sigmoid, inputs) => {
                let inner = self.product(inputs[0], Some(x));
                // With alpha 1 fusion knows who else reads the gate.
                let scaled = inner.values == [x] && inner.factor != 1.0;
                scaled.then_some((Op::Swish { alpha: inner.factor as f32 }, x))
            }
            _ => None,
        })
    }

    /// `y = clip(x + 3, 0, 6) / 6`, or x times that.
    fn hard(&self, y: ValueId) -> Option<(Op, ValueId)> {
        let product = self.product(y, None);
        let clipped = |value: ValueId| match self.made(value)? {
            (Op::Clip { min: 0.0, max: 6.0 }, inputs) => {
                self.sum_with(inputs[0], |operand| self.number(operand) == Some(3.0))
            }
            _ => None,
        };
        let x = product.values.iter().find_map(|&value| clipped(value))?;
        let product = self.product(y, Some(x));
        let gates = product.values.iter().filter(|&&value| clipped(value) == Some(x)).count();
        let op = match (product.values.len(), product.values.contains(&x)) {
            (1, false) => Op::HardSigmoid { alpha: 1.0 / 6.0, beta: 0.5 },
            (2, true) => Op::HardSwish,
            _ => return None,
        };
        (gates == 1 && is_about(product.factor, 1.0 / 6.0)).then_some((op, x))
    }

    /// `x` and the axes, of a value that is x less its mean over them.
    fn difference(&self, value: ValueId) -> Option<(ValueId, &'a [usize])> {
        let (Op::Sub, inputs) = self.made(value)? else { return None };
        let (of, axes) = self.mean(inputs[1])?;
        (of == inputs[0]).then_some((of, axes))
    }
}
