//! Fusion: from nodes to items.
//!
//! Each node is looked at once, in order. It either joins the item that makes its input (a batch norm
//! into a convolution, an activation or a residual sum into what comes before it) or becomes an item.
//! Joining needs that nobody else reads the value in between.

use crate::graph::{Graph, Node, Op, Resampling, ValueId};
use crate::ops::binary::arithmetic;
use crate::ops::builder::{Builder, Program, input, unsupported};
use crate::ops::copy::Fill;
use crate::ops::fold::Fold;
use crate::ops::integer::Words;
use crate::ops::lrn::Lrn;
use crate::ops::unary::function;
use crate::ops::views::{Slice, Split, Transpose};
use crate::ops::{PassError, Work};
use eyelet::pack::{LrnParams, ReduceOp};

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
        if constants > item.work.operation().constants() {
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

impl Builder {
    fn node(&mut self, node: &Node) -> Result<(), PassError> {
        let (name, y) = (node.name.as_str(), node.outputs[0]);
        if let Op::Fill { value } = node.op {
            self.push(name, Work::Fill(Fill { value }), &[], &[y]);
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
            Op::Scatter { op } => self.scatter(node, *op)?,
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
                self.image(name, Work::Lrn(Lrn { params }), x, y);
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
}

/// What an operator that joins no other does with all of its inputs.
fn work(op: &Op) -> Option<Work> {
    Some(match op {
        Op::Words(op) => Work::Words(Words { op: *op }),
        Op::Where => Work::Where,
        Op::Fold { op, axes, keep, last } => {
            Work::Fold(Fold { op: *op, axes: axes.clone(), keep: *keep, last: *last })
        }
        Op::Suppress(suppression) => Work::Suppress(*suppression),
        Op::Split { axis, sizes } => Work::Split(Split { axis: *axis, sizes: sizes.clone() }),
        Op::Slice { starts, steps } => {
            Work::Slice(Slice { starts: starts.clone(), steps: steps.clone() })
        }
        Op::Reshape => Work::Reshape,
        Op::Expand => Work::Expand,
        Op::Transpose { perm } => Work::Transpose(Transpose { perm: perm.clone() }),
        Op::GridSample(sampling) => Work::GridSample(*sampling),
        Op::Resample(resampling) => Work::Resample(resampling.clone()),
        _ => return None,
    })
}
