//! Fusion: from nodes to items.
//!
//! Each node is looked at once, in order. It either joins the item that makes its input (a batch norm
//! into a convolution, an activation or a residual sum into what comes before it) or becomes an item.
//! Joining needs that nobody else reads the value in between.

use super::PassError;
use super::arithmetic::{arithmetic, function};
use super::program::{Builder, Program, Work};
use crate::graph::{Constant, Graph, Node, Op, Resampling, ValueId};
use eyelet::pack::{BinaryOp, IntegerOp, LrnParams, ReduceOp};
use std::sync::Arc;

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
        let allowed = match item.work {
            Work::Binary { .. } | Work::Words { .. } => 1,
            Work::Where => 2,
            _ => 0,
        };
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

/// What to do about what the importer should have refused.
const REPORT: &str = "this is a fault of eyelet, not of the model: please report it";

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

impl Builder {
    fn node(&mut self, node: &Node) -> Result<(), PassError> {
        let (name, y) = (node.name.as_str(), node.outputs[0]);
        if let Op::Fill { value } = node.op {
            self.push(name, Work::Fill { value }, &[], &[y]);
            return Ok(());
        }
        let x = input(node, 0)?;
        if let Some(function) = function(&node.op) {
            self.activation(name, x, y, function);
            return Ok(());
        }
        if let Some(op) = arithmetic(&node.op) {
            self.binary(name, op, x, input(node, 1)?, y);
            return Ok(());
        }
        match &node.op {
            Op::Conv { window, groups } => self.conv(node, window, *groups)?,
            Op::BatchNorm { epsilon } => self.batch_norm(node, *epsilon)?,
            Op::Order { axis, largest, integers } => {
                self.order(node, *axis, [*largest, *integers])?;
            }
            Op::Scatter { op } => {
                let (indices, updates) = (input(node, 1)?, input(node, 2)?);
                let count = self.shape(indices).iter().product();
                let column = self.reshaped(name, indices, &[count, 1]);
                self.push(name, Work::Scatter { op: *op }, &[x, column, updates], &[y]);
            }
            Op::LayerNorm { axis, epsilon } => self.layer_norm(node, *axis, *epsilon, false),
            Op::RmsNorm { axis, epsilon } => self.layer_norm(node, *axis, *epsilon, true),
            Op::GroupNorm { groups, epsilon } => self.group_norm(node, *groups, *epsilon),
            Op::Gather => self.gather(node)?,
            Op::Take { axis } => self.take(node, *axis)?,
            Op::Concat { axis } => self.concat(node, *axis)?,
            Op::MaxPool { window, .. } => self.pool(name, x, y, window, false, false),
            Op::AveragePool { window, count_include_pad, .. } => {
                self.pool(name, x, y, window, true, *count_include_pad);
            }
            Op::GlobalAveragePool => {
                let axes: Vec<usize> = (2..self.shape(x).len()).collect();
                self.reduce(name, ReduceOp::Mean, x, y, axes, true);
            }
            Op::Reduce { op, axes, keep } => self.reduce(name, *op, x, y, axes.clone(), *keep),
            Op::Gemm { alpha, beta, trans_a, trans_b } => {
                self.gemm(node, *alpha, *beta, *trans_a, *trans_b)?;
            }
            Op::MatMul => self.mat_mul(node)?,
            Op::Softmax { axis, flat } => self.softmax(name, x, y, *axis, *flat),
            Op::Lrn { size, alpha, beta, bias } => {
                let params =
                    LrnParams { size: *size as u32, alpha: *alpha, beta: *beta, bias: *bias };
                self.image(name, Work::Lrn { params }, x, y);
            }
            Op::Recurrent(recurrence) => self.recurrent(node, *recurrence)?,
            // Sums are of floats; of words only some are chosen.
            Op::Resample(Resampling { axis, starts, .. }) if self.values[y].kind.is_integer() => {
                self.take_places(name, [x, y], *axis, starts.clone())?;
            }
            Op::Pad { begin, end, value } => self.pad(name, x, y, begin, end, *value),
            op => {
                let Some(work) = work(op) else {
                    return Err(unsupported(node, format!("no layer computes {op:?}"), REPORT));
                };
                let operands: Vec<ValueId> = node.inputs.iter().copied().flatten().collect();
                self.push(name, work, &operands, &node.outputs);
            }
        }
        Ok(())
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
            if self.values[y].kind.is_integer() {
                return self.add_words(&node.name, joined, constants, axis, y);
            }
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

    /// Adds constant words to zeros of a concatenation, which begin there along its axis.
    fn add_words(
        &mut self,
        name: &str,
        joined: ValueId,
        constants: Vec<(ValueId, usize)>,
        axis: usize,
        y: ValueId,
    ) -> Result<(), PassError> {
        let shape = self.shape(y).to_vec();
        let mut data = vec![0; shape.iter().product()];
        let inner: usize = shape[axis + 1..].iter().product();
        for (part, start) in constants {
            let Some(constant) = self.constant(part) else { continue };
            let run = self.shape(part)[axis] * inner;
            for i in 0..constant.len() {
                let at = i / run * shape[axis] * inner + start * inner + i % run;
                data[at] = constant.bits(i) as i32;
            }
        }
        let constant = self.temporary(name, &shape);
        self.values[constant].constant = Some(Constant::Words(Arc::new(data)));
        self.push(name, Work::Words { op: IntegerOp::Add }, &[joined, constant], &[y]);
        Ok(())
    }
}

/// What an operator that joins no other does with all of its inputs.
fn work(op: &Op) -> Option<Work> {
    Some(match op {
        Op::Words(op) => Work::Words { op: *op },
        Op::Where => Work::Where,
        Op::Fold { op, axes, keep, last } => {
            Work::Fold { op: *op, axes: axes.clone(), keep: *keep, last: *last }
        }
        Op::Suppress(suppression) => Work::Suppress(*suppression),
        Op::Split { axis, sizes } => Work::Split { axis: *axis, sizes: sizes.clone() },
        Op::Slice { starts, steps } => Work::Slice { starts: starts.clone(), steps: steps.clone() },
        Op::Reshape => Work::Reshape,
        Op::Expand => Work::Expand,
        Op::Transpose { perm } => Work::Transpose { perm: perm.clone() },
        Op::GridSample(sampling) => Work::GridSample(*sampling),
        Op::Resample(resampling) => Work::Resample(resampling.clone()),
        _ => return None,
    })
}
