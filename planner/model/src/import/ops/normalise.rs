//! Normalisation by constants, and softmax.

use super::super::attributes::size;
use super::super::builder::Operand;
use super::super::context::{Context, axis};
use super::super::error::NodeProblem;
use crate::graph::{Op, ValueId};

pub(super) fn batch_norm(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let attributes = cx.attributes();
    // Before opset 14 the outputs say it: for inference there is one.
    let more = cx.proto.output.iter().skip(1).any(|output| !output.is_empty());
    if attributes.flag("training_mode", false)? || (cx.opset < 14 && more) {
        return Err(NodeProblem::unsupported(
            "it is in training mode; export the model for inference (model.eval())",
        ));
    }
    let x = cx.float(0, "x")?;
    let shape = cx.shape(x);
    let Some(&channels) = shape.get(1) else {
        return Err(NodeProblem::shape(format!("the input has the shape {shape:?}, no channels")));
    };
    let mut inputs = vec![Some(x)];
    for (at, role) in ["scale", "bias", "mean", "variance"].into_iter().enumerate() {
        let value = cx.float(at + 1, role)?;
        if cx.shape(value) != [channels] {
            return Err(NodeProblem::shape(format!(
                "`{role}` has the shape {:?}, but there are {channels} channels",
                cx.shape(value)
            )));
        }
        inputs.push(Some(value));
    }
    let epsilon = attributes.float_or("epsilon", 1e-5)?;
    let values: Vec<ValueId> = inputs[1..].iter().copied().flatten().collect();
    if values.iter().any(|&value| cx.builder.graph.values[value].constant.is_none()) {
        return super::norms::batch(cx, x, &values, epsilon);
    }
    cx.emit(Op::BatchNorm { epsilon }, inputs, shape)
}

pub(super) fn lrn(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let attributes = cx.attributes();
    let given = attributes.int("size")?;
    let given = given.ok_or_else(|| NodeProblem::attribute("size", "is missing"))?;
    let op = Op::Lrn {
        size: size("size", given, 1)?,
        alpha: attributes.float_or("alpha", 1e-4)?,
        beta: attributes.float_or("beta", 0.75)?,
        bias: attributes.float_or("bias", 1.0)?,
    };
    let x = cx.float(0, "x")?;
    let shape = cx.shape(x);
    if shape.len() < 2 {
        return Err(NodeProblem::shape(format!("the input has the shape {shape:?}, no channels")));
    }
    cx.emit(op, vec![Some(x)], shape)
}

pub(super) fn softmax(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "input")?;
    let shape = cx.shape(x);
    let old = cx.opset < 13;
    let given = cx.attributes().int_or("axis", if old { 1 } else { -1 })?;
    // The old operator may flatten from behind the last axis: one element, whose softmax is 1.
    if old && given == shape.len() as i64 {
        return Err(NodeProblem::attribute("axis", format!("is {given}, behind the last axis")));
    }
    let axis = axis(given, shape.len())?;
    let flat = old && shape[axis + 1..].iter().any(|&extent| extent != 1);
    cx.emit(Op::Softmax { axis, flat }, vec![Some(x)], shape)
}
