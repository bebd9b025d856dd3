//! Operators in terms of others: nodes of the graph, or nodes of ONNX's operator set 13. They are named after the
//! node that they serve. What is constant is folded on the way.

use super::super::array::{Array, broadcast};
use super::super::builder::Operand;
use super::super::context::{Context, Given};
use super::super::error::NodeProblem;
use super::super::onnx::{AttributeProto, AttributeType, DataType};
use super::super::types::is_float;
use super::{applied, apply};
use crate::graph::{Op, ValueId};
use bytes::Bytes;
use eyelet::pack::ReduceOp;

type Made = Result<ValueId, NodeProblem>;

/// Extents, axes or indices as a constant of the model.
pub(super) fn list(values: &[usize]) -> Operand {
    let values = values.iter().map(|&value| value as i64).collect();
    Operand::integers(DataType::Int64, Array::vector(values))
}

pub(super) fn int(name: &str, value: i64) -> AttributeProto {
    let kind = AttributeType::Int as i32;
    AttributeProto { name: name.into(), r#type: kind, i: value, ..AttributeProto::default() }
}

pub(super) fn ints(name: &str, values: &[usize]) -> AttributeProto {
    let ints = values.iter().map(|&value| value as i64).collect();
    let kind = AttributeType::Ints as i32;
    AttributeProto { name: name.into(), r#type: kind, ints, ..AttributeProto::default() }
}

pub(super) fn float(name: &str, value: f32) -> AttributeProto {
    let kind = AttributeType::Float as i32;
    AttributeProto { name: name.into(), r#type: kind, f: value, ..AttributeProto::default() }
}

pub(super) fn string(name: &str, text: &str) -> AttributeProto {
    let (kind, s) = (AttributeType::String as i32, Bytes::copy_from_slice(text.as_bytes()));
    AttributeProto { name: name.into(), r#type: kind, s, ..AttributeProto::default() }
}

impl Context<'_, '_> {
    /// The first output of a node that serves this one.
    pub fn serve(
        &mut self,
        suffix: &str,
        operator: &str,
        inputs: Vec<Operand>,
        attributes: Vec<AttributeProto>,
    ) -> Result<Operand, NodeProblem> {
        let name = format!("{}/{suffix}", self.name);
        let inputs = inputs.into_iter().map(Given::Known).collect();
        apply((self.builder, self.external), (operator, &name), inputs, attributes)
    }

    /// An operand in another shape of as many elements.
    pub fn shaped(
        &mut self,
        suffix: &str,
        operand: Operand,
        shape: &[usize],
    ) -> Result<Operand, NodeProblem> {
        match self.shape_of(&operand) == shape {
            true => Ok(operand),
            false => {
                self.serve(suffix, "Reshape", vec![operand, list(shape)], vec![int("allowzero", 1)])
            }
        }
    }

    /// The entries of an axis at these places.
    pub fn chosen(
        &mut self,
        suffix: &str,
        operand: Operand,
        axis: usize,
        places: &[usize],
    ) -> Result<Operand, NodeProblem> {
        let inputs = vec![operand, list(places)];
        self.serve(suffix, "Gather", inputs, vec![int("axis", axis as i64)])
    }
}

/// Nodes that together compute what one node of the model does.
pub(super) struct Steps<'c, 'a, 'b> {
    pub cx: &'c mut Context<'a, 'b>,
    count: usize,
}

impl<'c, 'a, 'b> Steps<'c, 'a, 'b> {
    pub fn new(cx: &'c mut Context<'a, 'b>) -> Self {
        Self { cx, count: 0 }
    }

    /// The first output of a node of operator set 13, whether its inputs flow or are constant.
    pub fn apply(
        &mut self,
        operator: &str,
        inputs: &[&Operand],
        attributes: Vec<AttributeProto>,
    ) -> Result<Operand, NodeProblem> {
        self.count += 1;
        let inputs = inputs.iter().map(|&operand| operand.clone()).collect();
        self.cx.serve(&self.count.to_string(), operator, inputs, attributes)
    }

    /// All outputs of such a node, some of whose inputs may be absent.
    pub fn apply_all(
        &mut self,
        operator: &str,
        inputs: Vec<Option<Operand>>,
        attributes: Vec<AttributeProto>,
    ) -> Result<Vec<Operand>, NodeProblem> {
        self.count += 1;
        let name = format!("{}/{}", self.cx.name, self.count);
        let given = |input: Option<Operand>| input.map_or(Given::Absent, Given::Known);
        let inputs = inputs.into_iter().map(given).collect();
        let parts = (&mut *self.cx.builder, &mut *self.cx.external);
        applied(parts, (operator, &name), inputs, attributes)
    }

    /// A node of words, or of floats that it only moves, which is not folded.
    pub fn words(&mut self, kind: DataType, op: Op, inputs: &[ValueId], shape: Vec<usize>) -> Made {
        self.count += 1;
        let name = format!("{}/{}", self.cx.name, self.count);
        self.cx.builder.words_node(kind, name.clone(), op, inputs, (name, shape))
    }

    /// A number of a type, floats or integers.
    pub fn scalar(&mut self, kind: DataType, number: f64) -> Operand {
        if !is_float(kind) {
            return Operand::integers(kind, Array::scalar(number as i64));
        }
        self.count += 1;
        let name = format!("{}/{}", self.cx.name, self.count);
        Operand::Float(kind, self.cx.builder.constant(name, kind, Array::scalar(number)))
    }

    /// An operand in another shape of as many elements.
    pub fn shaped(&mut self, operand: &Operand, shape: &[usize]) -> Result<Operand, NodeProblem> {
        self.count += 1;
        self.cx.shaped(&self.count.to_string(), operand.clone(), shape)
    }

    /// The axes in another order.
    pub fn turned(&mut self, operand: &Operand, perm: &[usize]) -> Result<Operand, NodeProblem> {
        self.apply("Transpose", &[operand], vec![ints("perm", perm)])
    }

    /// The sum over axes, which stay with extent 1 if they are kept.
    pub fn summed(
        &mut self,
        operand: &Operand,
        axes: &[usize],
        keep: bool,
    ) -> Result<Operand, NodeProblem> {
        self.apply("ReduceSum", &[operand, &list(axes)], vec![int("keepdims", keep.into())])
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
