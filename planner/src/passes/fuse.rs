//! Fusion: from nodes to items.
//!
//! Each node is looked at once, in order. It either joins the item that makes its input (a batch norm
//! into a convolution, an activation or a residual sum into what comes before it) or becomes an item.
//! Joining needs that nobody else reads the value in between.

use super::PassError;
use super::program::{Builder, Program, Work};
use crate::graph::{Graph, Node, Op, ValueId};
use eyelet::pack::{Activation, ActivationKind, BinaryOp, LrnParams};

/// Fuses a graph.
pub(super) fn fuse(graph: &Graph) -> Result<Program, PassError> {
    let mut builder = Builder::new(graph);
    for node in &graph.nodes {
        if let Some(&empty) =
            node.outputs.iter().find(|&&value| graph.values[value].elements() == 0)
        {
            let what = format!("output {} has no elements", graph.values[empty].name);
            return Err(unsupported(node, what, "remove it from the model"));
        }
        builder.node(node)?;
    }
    check_constants(&builder)?;
    builder.finish(graph)
}

/// Only arithmetic takes constants as operands.
fn check_constants(builder: &Builder) -> Result<(), PassError> {
    for item in builder.items.iter().flatten() {
        let constants = item.inputs.iter().filter(|&&v| builder.constant(v).is_some()).count();
        let allowed = matches!(item.work, Work::Binary { .. }) as usize;
        if constants > allowed {
            return Err(PassError::Unsupported {
                node: item.name.clone(),
                what: "a constant stands where a tensor that flows is expected".into(),
                hint: "fold constants before export (onnxsim does)",
            });
        }
    }
    Ok(())
}

pub(super) fn unsupported(node: &Node, what: impl Into<String>, hint: &'static str) -> PassError {
    PassError::Unsupported { node: node.name.clone(), what: what.into(), hint }
}

/// Input `index` of a node.
pub(super) fn input(node: &Node, index: usize) -> Result<ValueId, PassError> {
    node.inputs.get(index).copied().flatten().ok_or(PassError::Mismatch {
        node: node.name.clone(),
        what: "the number of inputs",
        found: node.inputs.iter().flatten().count(),
        expected: index + 1,
    })
}

fn activation(kind: ActivationKind, alpha: f32, beta: f32) -> Activation {
    Activation { kind: kind as u32, alpha, beta }
}

/// Whether an activation is this function with parameters equal up to rounding.
fn is(item: Activation, kind: ActivationKind, alpha: f32, beta: f32) -> bool {
    item.kind == kind as u32 && (item.alpha - alpha).abs() < 1e-6 && (item.beta - beta).abs() < 1e-6
}

impl Builder {
    fn node(&mut self, node: &Node) -> Result<(), PassError> {
        use ActivationKind as A;
        let name = node.name.as_str();
        let x = input(node, 0)?;
        let y = node.outputs[0];
        match &node.op {
            Op::Conv { window, groups } => self.conv(node, window, *groups)?,
            Op::BatchNorm { epsilon } => self.batch_norm(node, *epsilon)?,
            Op::Clip { min, max } if *min == f32::NEG_INFINITY && *max == f32::INFINITY => {
                self.push(name, Work::Reshape, &[x], &[y]);
            }
            Op::Clip { min, max } => self.activation(name, x, y, activation(A::Clamp, *min, *max)),
            Op::LeakyRelu { alpha } => {
                self.activation(name, x, y, activation(A::LeakyRelu, *alpha, 0.0));
            }
            Op::Sigmoid => self.activation(name, x, y, activation(A::Sigmoid, 0.0, 0.0)),
            Op::HardSigmoid { alpha, beta } => {
                self.activation(name, x, y, activation(A::HardSigmoid, *alpha, *beta));
            }
            Op::HardSwish => self.activation(name, x, y, activation(A::HardSwish, 0.0, 0.0)),
            Op::Tanh => self.activation(name, x, y, activation(A::Tanh, 0.0, 0.0)),
            Op::Erf => self.activation(name, x, y, activation(A::Erf, 0.0, 0.0)),
            Op::Sqrt => self.activation(name, x, y, activation(A::Sqrt, 0.0, 0.0)),
            Op::Gelu { tanh } => {
                let kind = if *tanh { A::GeluTanh } else { A::Gelu };
                self.activation(name, x, y, activation(kind, 0.0, 0.0));
            }
            Op::Mask => self.binary(name, BinaryOp::Mask, x, input(node, 1)?, y),
            Op::LayerNorm { axis, epsilon } => self.layer_norm(node, *axis, *epsilon),
            Op::Gather => self.gather(node)?,
            Op::PRelu => self.binary(name, BinaryOp::PRelu, x, input(node, 1)?, y),
            Op::Add => self.binary(name, BinaryOp::Add, x, input(node, 1)?, y),
            Op::Sub => self.binary(name, BinaryOp::Sub, x, input(node, 1)?, y),
            Op::Mul => self.binary(name, BinaryOp::Mul, x, input(node, 1)?, y),
            Op::Div => self.binary(name, BinaryOp::Div, x, input(node, 1)?, y),
            Op::Concat { axis } => self.concat(node, *axis)?,
            Op::Split { axis, sizes } => {
                let work = Work::Split { axis: *axis, sizes: sizes.clone() };
                self.push(name, work, &[x], &node.outputs);
            }
            Op::Slice { starts, steps } => {
                let work = Work::Slice { starts: starts.clone(), steps: steps.clone() };
                self.push(name, work, &[x], &[y]);
            }
            Op::MaxPool { window, .. } => self.pool(name, x, y, window, false, false),
            Op::AveragePool { window, count_include_pad, .. } => {
                self.pool(name, x, y, window, true, *count_include_pad);
            }
            Op::GlobalAveragePool => {
                let axes: Vec<usize> = (2..self.shape(x).len()).collect();
                self.mean(name, x, y, axes, true);
            }
            Op::ReduceMean { axes, keep } => self.mean(name, x, y, axes.clone(), *keep),
            Op::Gemm { alpha, beta, trans_a, trans_b } => {
                self.gemm(node, *alpha, *beta, *trans_a, *trans_b)?;
            }
            Op::MatMul => self.mat_mul(node)?,
            Op::Reshape => self.push(name, Work::Reshape, &[x], &[y]),
            Op::Expand => self.push(name, Work::Expand, &[x], &[y]),
            Op::Transpose { perm } => {
                self.push(name, Work::Transpose { perm: perm.clone() }, &[x], &[y]);
            }
            Op::Softmax { axis, flat } => self.softmax(name, x, y, *axis, *flat),
            Op::Lrn { size, alpha, beta, bias } => {
                let params =
                    LrnParams { size: *size as u32, alpha: *alpha, beta: *beta, bias: *bias };
                self.push(name, Work::Lrn { params }, &[x], &[y]);
            }
            Op::Pad { begin, end, value } => self.pad(name, x, y, begin, end, *value),
        }
        Ok(())
    }

    fn batch_norm(&mut self, node: &Node, epsilon: f32) -> Result<(), PassError> {
        let (x, y) = (input(node, 0)?, node.outputs[0]);
        let mut constants = Vec::new();
        for index in 1..5 {
            let Some(data) = self.constant(input(node, index)?) else {
                return Err(unsupported(
                    node,
                    "its statistics are not constant",
                    "export in eval mode",
                ));
            };
            constants.push(data.to_vec());
        }
        let [gamma, beta, mean, variance] = &constants[..] else { return Ok(()) };
        let channels = self.shape(x).get(1).copied().unwrap_or(1);
        for data in &constants {
            if data.len() != channels {
                return Err(PassError::Mismatch {
                    node: node.name.clone(),
                    what: "the number of statistics",
                    found: data.len(),
                    expected: channels,
                });
            }
        }
        let scale: Vec<f64> = (gamma.iter().zip(variance))
            .map(|(&gamma, &var)| f64::from(gamma) / (f64::from(var) + f64::from(epsilon)).sqrt())
            .collect();
        let shift: Vec<f64> = (beta.iter().zip(mean).zip(&scale))
            .map(|((&beta, &mean), scale)| f64::from(beta) - f64::from(mean) * scale)
            .collect();
        if !self.fold(x, y, |_, axis| (axis == 1).then(|| (scale.clone(), shift.clone()))) {
            self.scale_shift(&node.name, x, y, &scale, Some(shift));
        }
        Ok(())
    }

    /// Applies an elementwise function.
    pub fn activation(&mut self, name: &str, x: ValueId, y: ValueId, function: Activation) {
        let source = self.behind_views(x);
        match self.sole_maker(source) {
            Some(item) if item.takes_activation() => {
                item.activation = function;
                self.retarget(x, y);
            }
            _ => self.push_active(name, Work::Unary, &[x], &[y], function),
        }
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
                (BinaryOp::Div, true)
                | (BinaryOp::PRelu | BinaryOp::Mask | BinaryOp::Max | BinaryOp::Min, _) => {
                    return None;
                }
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

    /// Layer normalisation, over the last axis of a matrix where it is over several.
    fn layer_norm(&mut self, node: &Node, axis: usize, epsilon: f32) {
        let name = node.name.as_str();
        let (x, y) = (node.inputs[0].unwrap_or_default(), node.outputs[0]);
        let shape = self.shape(x).to_vec();
        let length: usize = shape[axis..].iter().product();
        let all = |builder: &Self, index: usize, neutral| {
            let constant = node.inputs.get(index).copied().flatten();
            match constant.and_then(|constant| builder.constant(constant)) {
                Some(data) => data.to_vec().into_iter().map(f64::from).collect(),
                None => vec![neutral; length],
            }
        };
        let work = Work::LayerNorm { epsilon, scale: all(self, 1, 1.0), shift: all(self, 2, 0.0) };
        if axis + 1 == shape.len() {
            return self.push(name, work, &[x], &[y]);
        }
        let folded = [shape[..axis].iter().product(), length];
        let (rows, result) = (self.temporary(name, &folded), self.temporary(name, &folded));
        self.push(name, Work::Reshape, &[x], &[rows]);
        self.push(name, work, &[rows], &[result]);
        self.push(name, Work::Reshape, &[result], &[y]);
    }

    /// Follows the normalisation that makes `x`, for the node at hand alone, by `· scale + shift`.
    fn fold_norm(&mut self, x: ValueId, y: ValueId, by: &[f64], to: &[f64]) -> bool {
        let width = self.shape(x).last().copied();
        let Some(item) = self.sole_maker(x).filter(|item| item.takes_activation()) else {
            return false;
        };
        let Work::LayerNorm { scale, shift, .. } = &mut item.work else { return false };
        if Some(scale.len()) != width || by.len() != scale.len() {
            return false;
        }
        for ((shift, by), to) in shift.iter_mut().zip(by).zip(to) {
            *shift = *shift * by + to;
        }
        scale.iter_mut().zip(by).for_each(|(scale, by)| *scale *= by);
        self.retarget(x, y);
        true
    }

    fn softmax(&mut self, name: &str, x: ValueId, y: ValueId, axis: usize, flat: bool) {
        let shape = self.shape(x).to_vec();
        let inner: usize = shape[axis..].iter().product();
        if !flat || inner == shape[axis] {
            return self.push(name, Work::Softmax { axis }, &[x], &[y]);
        }
        let folded = [shape[..axis].iter().product(), inner];
        let (rows, result) = (self.temporary(name, &folded), self.temporary(name, &folded));
        self.push(name, Work::Reshape, &[x], &[rows]);
        self.push(name, Work::Softmax { axis: 1 }, &[rows], &[result]);
        self.push(name, Work::Reshape, &[result], &[y]);
    }

    fn pad(
        &mut self,
        name: &str,
        x: ValueId,
        y: ValueId,
        begin: &[usize],
        end: &[usize],
        value: f32,
    ) {
        let work = match begin.iter().chain(end).all(|&extent| extent == 0) {
            true => Work::Reshape,
            false => Work::Pad { begin: begin.to_vec(), end: end.to_vec(), value },
        };
        self.push(name, work, &[x], &[y]);
    }

    /// Concatenation. Constant parts (a class token) become zero padding of a neighbour, and are then
    /// added.
    fn concat(&mut self, node: &Node, axis: usize) -> Result<(), PassError> {
        let y = node.outputs[0];
        let shape = self.shape(y).to_vec();
        let parts: Vec<ValueId> = node.inputs.iter().copied().flatten().collect();
        let mut flowing: Vec<(ValueId, usize, usize)> = Vec::new();
        let mut pending = 0;
        let mut constants = Vec::new();
        let mut start = 0;
        for &part in &parts {
            let extent = self.shape(part)[axis];
            match (self.constant(part).is_some(), flowing.last_mut()) {
                (true, last) => {
                    constants.push((part, start));
                    match last {
                        Some((_, _, end)) => *end += extent,
                        None => pending += extent,
                    }
                }
                (false, _) => flowing.push((part, std::mem::take(&mut pending), 0)),
            }
            start += extent;
        }
        if flowing.is_empty() {
            return Err(unsupported(
                node,
                "all its inputs are constant",
                "fold constants before export",
            ));
        }
        let joined = if constants.is_empty() { y } else { self.temporary(&node.name, &shape) };
        let count = flowing.len();
        let mut operands = Vec::new();
        for (part, before, after) in flowing {
            if before + after == 0 {
                operands.push(part);
                continue;
            }
            let (mut begin, mut end) = (vec![0; shape.len()], vec![0; shape.len()]);
            (begin[axis], end[axis]) = (before, after);
            let mut padded = self.shape(part).to_vec();
            padded[axis] += before + after;
            let target = if count == 1 { joined } else { self.temporary(&node.name, &padded) };
            self.pad(&node.name, part, target, &begin, &end, 0.0);
            operands.push(target);
        }
        if operands != [joined] {
            self.push(&node.name, Work::Concat { axis }, &operands, &[joined]);
        }
        if !constants.is_empty() {
            let mut data = vec![0.0; shape.iter().product()];
            let inner: usize = shape[axis + 1..].iter().product();
            for (part, start) in constants {
                let Some(constant) = self.constant(part) else { continue };
                let run = self.shape(part)[axis] * inner;
                for i in 0..constant.len() {
                    data[i / run * shape[axis] * inner + start * inner + i % run] = constant.get(i);
                }
            }
            let constant = self.new_constant(&node.name, &shape, data);
            self.binary(&node.name, BinaryOp::Add, joined, constant, y);
        }
        Ok(())
    }
}
