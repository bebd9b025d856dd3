//! Operators that the graph has no node for, as several nodes of it: they are named after the node
//! and numbered. What is constant is folded on the way.

use super::array::broadcast;
use super::builder::Operand;
use super::context::Context;
use super::error::NodeProblem;
use crate::graph::{Op, ValueId};
use eyelet::pack::ReduceOp;

type Made = Result<ValueId, NodeProblem>;

/// Nodes that together compute what one node of the model does.
pub(super) struct Steps<'c, 'a, 'b> {
    pub cx: &'c mut Context<'a, 'b>,
    count: usize,
}

impl<'c, 'a, 'b> Steps<'c, 'a, 'b> {
    pub fn new(cx: &'c mut Context<'a, 'b>) -> Self {
        Self { cx, count: 0 }
    }

    /// A node with one output of this shape.
    pub fn node(&mut self, op: Op, inputs: &[ValueId], shape: Vec<usize>) -> Made {
        self.count += 1;
        let inputs = inputs.iter().copied().map(Some).collect();
        self.cx.helper(&self.count.to_string(), op, inputs, shape)
    }

    pub fn shape(&self, x: ValueId) -> Vec<usize> {
        self.cx.shape(x)
    }

    /// A function of each element.
    pub fn map(&mut self, op: Op, x: ValueId) -> Made {
        let shape = self.shape(x);
        self.node(op, &[x], shape)
    }

    /// Arithmetic of two tensors that broadcast.
    pub fn pair(&mut self, op: Op, a: ValueId, b: ValueId) -> Made {
        let (left, right) = (self.shape(a), self.shape(b));
        let shape = broadcast(&left, &right).ok_or_else(|| {
            NodeProblem::shape(format!("shapes {left:?} and {right:?} do not broadcast"))
        })?;
        self.node(op, &[a, b], shape)
    }

    /// Arithmetic of a tensor and a number.
    pub fn with(&mut self, op: Op, x: ValueId, number: f64) -> Made {
        self.count += 1;
        let number = self.cx.number(&self.count.to_string(), number);
        self.pair(op, x, number)
    }

    /// A reduction over axes, which stay with extent 1.
    pub fn reduce(&mut self, op: ReduceOp, x: ValueId, axes: &[usize]) -> Made {
        let mut shape = self.shape(x);
        axes.iter().for_each(|&axis| shape[axis] = 1);
        self.node(Op::Reduce { op, axes: axes.into(), keep: true }, &[x], shape)
    }

    /// The same elements in another shape.
    pub fn reshape(&mut self, x: ValueId, shape: &[usize]) -> Made {
        if self.shape(x) == shape { Ok(x) } else { self.node(Op::Reshape, &[x], shape.into()) }
    }

    /// Repeated to a shape that it broadcasts to.
    pub fn expand(&mut self, x: ValueId, shape: &[usize]) -> Made {
        if self.shape(x) == shape { Ok(x) } else { self.node(Op::Expand, &[x], shape.into()) }
    }

    pub fn transpose(&mut self, x: ValueId, perm: &[usize]) -> Made {
        let own = self.shape(x);
        let shape = perm.iter().map(|&axis| own[axis]).collect();
        self.node(Op::Transpose { perm: perm.into() }, &[x], shape)
    }

    /// Every `step`-th of `count` elements of an axis from `start` on.
    pub fn slice(&mut self, x: ValueId, axis: usize, [start, step, count]: [usize; 3]) -> Made {
        let mut shape = self.shape(x);
        let (mut starts, mut steps) = (vec![0; shape.len()], vec![1; shape.len()]);
        (starts[axis], steps[axis], shape[axis]) = (start, step, count);
        self.node(Op::Slice { starts, steps }, &[x], shape)
    }

    pub fn concat(&mut self, parts: &[ValueId], axis: usize) -> Made {
        let mut shape = self.shape(parts[0]);
        shape[axis] = parts.iter().map(|&part| self.shape(part)[axis]).sum();
        self.node(Op::Concat { axis }, parts, shape)
    }

    /// Products of stacks of matrices of equal extents.
    pub fn matmul(&mut self, a: ValueId, b: ValueId) -> Made {
        let (mut shape, right) = (self.shape(a), self.shape(b));
        if let (Some(to), Some(columns)) = (shape.last_mut(), right.last()) {
            *to = *columns;
        }
        self.node(Op::MatMul, &[a, b], shape)
    }

    /// A value that was made here as output `index` of the node.
    pub fn output(&mut self, index: usize, x: ValueId) -> Operand {
        self.cx.builder.graph.values[x].name = self.cx.output(index);
        Operand::Float(self.cx.kind(), x)
    }

    /// A value that was made here as the node's only output.
    pub fn done(mut self, x: ValueId) -> Result<Vec<Operand>, NodeProblem> {
        Ok(vec![self.output(0, x)])
    }
}
