//! Values of words: how integers, constant or not, become nodes of the graph.
//!
//! What flows has 32 bits, whatever type the model gives it. Narrower types wrap to their width.

use super::super::array::{Array, broadcast};
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::super::types::{self, name};
use crate::graph::{Constant, Op, ValueId};
use crate::reference;
use eyelet::pack::IntegerOp;

pub(super) type Translated = Result<Vec<Operand>, NodeProblem>;

/// A node of words, of this type in the model.
pub(super) struct Node<'n> {
    pub kind: DataType,
    pub suffix: Option<&'n str>,
}

impl Node<'_> {
    pub fn add(
        &self,
        cx: &mut Context<'_, '_>,
        op: Op,
        inputs: &[ValueId],
        shape: Vec<usize>,
    ) -> Result<ValueId, NodeProblem> {
        let (name, output) = match self.suffix {
            None => (cx.name.to_string(), cx.output(0)),
            Some(suffix) => (format!("{}/{suffix}", cx.name), format!("{}/{suffix}", cx.name)),
        };
        cx.builder.words_node(self.kind, name, op, inputs, (output, shape))
    }
}

/// Floats that are whole numbers of a type, as such.
pub(super) fn of_floats(
    cx: &mut Context<'_, '_>,
    suffix: &str,
    kind: DataType,
    value: ValueId,
) -> Result<ValueId, NodeProblem> {
    let shape = cx.shape(value);
    Node { kind, suffix: Some(suffix) }.add(cx, Op::Words(IntegerOp::Cut), &[value], shape)
}

/// Words as floats, which are equal up to 2²⁴.
pub(super) fn to_floats(
    cx: &mut Context<'_, '_>,
    suffix: &str,
    value: ValueId,
) -> Result<ValueId, NodeProblem> {
    let (kind, shape) = (DataType::Float, cx.shape(value));
    Node { kind, suffix: Some(suffix) }.add(cx, Op::Words(IntegerOp::Float), &[value], shape)
}

/// An operand as a value of the graph: constants take their 32 bits.
pub(super) fn flowing(
    cx: &mut Context<'_, '_>,
    index: usize,
    operand: &Operand,
) -> Result<ValueId, NodeProblem> {
    match operand {
        Operand::Float(_, value) | Operand::Whole(_, value) => Ok(*value),
        Operand::Integer(kind, array) => {
            let name = format!("{}/{index}", cx.name);
            cx.builder.words(name, *kind, array)
        }
    }
}

/// An operand that only bounds others, as a value: of a constant beyond 32 bits the nearest number that they have.
pub(super) fn bounding(
    cx: &mut Context<'_, '_>,
    index: usize,
    operand: &Operand,
) -> Result<ValueId, NodeProblem> {
    let Operand::Integer(kind, array) = operand else { return flowing(cx, index, operand) };
    let nearest = |bits| types::wide(*kind, bits).clamp(i32::MIN.into(), i32::MAX.into()) as i64;
    cx.charge(&array.shape)?;
    flowing(cx, index, &Operand::integers(*kind, array.map(nearest)))
}

/// The last of an operator's nodes, narrowed to its type where arithmetic may have left that.
pub(super) fn last(
    cx: &mut Context<'_, '_>,
    kind: DataType,
    op: IntegerOp,
    inputs: &[ValueId],
) -> Translated {
    let mut shape = cx.shape(inputs[0]);
    for input in &inputs[1..] {
        let other = cx.shape(*input);
        shape = broadcast(&shape, &other).ok_or_else(|| {
            NodeProblem::shape(format!("shapes {shape:?} and {other:?} do not broadcast"))
        })?;
    }
    if let Some(folded) = folded(cx, kind, &Op::Words(op), inputs, &shape)? {
        return Ok(vec![folded]);
    }
    let narrow = match kind {
        DataType::Int8 => Some(IntegerOp::Int8),
        DataType::Uint8 => Some(IntegerOp::Uint8),
        DataType::Int16 => Some(IntegerOp::Int16),
        DataType::Uint16 => Some(IntegerOp::Uint16),
        _ => None,
    };
    use IntegerOp::{Abs, Add, Cut, Div, Mul, Neg, Not, Pow, ShiftLeft, Sub};
    let grows = [Add, Sub, Mul, Div, Pow, Neg, Abs, Not, ShiftLeft, Cut].contains(&op);
    let narrow = narrow.filter(|_| grows);
    let suffix = narrow.map(|_| "wide");
    let mut made = Node { kind, suffix }.add(cx, Op::Words(op), inputs, shape.clone())?;
    if let Some(narrow) = narrow {
        made = Node { kind, suffix: None }.add(cx, Op::Words(narrow), &[made], shape)?;
    }
    Ok(vec![Operand::Whole(kind, made)])
}

/// The result of an operation whose operands are all constant.
pub(super) fn folded(
    cx: &mut Context<'_, '_>,
    kind: DataType,
    op: &Op,
    inputs: &[ValueId],
    shape: &[usize],
) -> Result<Option<Operand>, NodeProblem> {
    let values = &cx.builder.graph.values;
    let constants: Option<Vec<Constant>> =
        inputs.iter().map(|&input| values[input].constant.clone()).collect();
    let Some(constants) = constants else { return Ok(None) };
    cx.charge_for(shape, 2 * size_of::<i64>())?;
    let data: Vec<Vec<f64>> = constants.iter().map(reference::widen).collect();
    let tensor = |(&input, data)| Some(reference::Tensor { shape: cx.builder.shape(input), data });
    let tensors: Vec<_> =
        inputs.iter().zip(data.iter().map(|data| &data[..])).map(tensor).collect();
    let made = reference::evaluate(op, &tensors, &[shape]);
    let numbers = made[0].iter().map(|&number| types::wrap(kind, number as i128)).collect();
    Ok(Some(Operand::integers(kind, Array { shape: shape.to_vec(), data: numbers })))
}

/// All operands, of one type, as values.
pub(super) fn operands(cx: &mut Context<'_, '_>) -> Result<(DataType, Vec<ValueId>), NodeProblem> {
    let bounds = matches!(&cx.proto.op_type[..], "Min" | "Max");
    let kind = cx.input(0, "operand")?.kind();
    let mut values = vec![];
    for index in 0..cx.inputs.len() {
        let Some(operand) = cx.optional(index)? else { continue };
        if operand.kind() != kind {
            return Err(NodeProblem::mixed(kind, operand.kind()));
        }
        values.push(match bounds {
            true => bounding(cx, index, &operand)?,
            false => flowing(cx, index, &operand)?,
        });
    }
    Ok((kind, values))
}

/// Words are taken by many operators, but not by this one.
pub(super) fn refused(kind: DataType) -> NodeProblem {
    NodeProblem::unsupported(format!(
        "it is not computed of {} that flows; cast it to a float before this node",
        name(kind)
    ))
}
