//! Normalisation and reduction.

use super::super::array::broadcast;
use super::super::attributes::size;
use super::super::builder::Operand;
use super::super::context::{Context, axis};
use super::super::error::NodeProblem;
use crate::graph::Op;

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
        let value = cx.weights(at + 1, role)?;
        if cx.shape(value) != [channels] {
            return Err(NodeProblem::shape(format!(
                "`{role}` has the shape {:?}, but there are {channels} channels",
                cx.shape(value)
            )));
        }
        inputs.push(Some(value));
    }
    let epsilon = attributes.float_or("epsilon", 1e-5)?;
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

/// Scale and shift may have any shape that broadcasts to the axes that are normalised.
pub(super) fn layer_norm(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let shape = cx.shape(x);
    let attributes = cx.attributes();
    let axis = axis(attributes.int_or("axis", -1)?, shape.len())?;
    let epsilon = attributes.float_or("epsilon", 1e-5)?;
    let mut inputs = vec![Some(x)];
    for (index, role) in [(1, "scale"), (2, "bias")] {
        let Some(value) = cx.optional_weights(index, role)? else {
            inputs.push(None);
            continue;
        };
        let own = cx.shape(value);
        let normalised = &shape[axis..];
        if broadcast(&own, normalised).as_deref() != Some(normalised) {
            return Err(NodeProblem::shape(format!(
                "`{role}` has the shape {own:?}, but normalised are {normalised:?}"
            )));
        }
        let value = match own == normalised {
            true => value,
            false => {
                cx.charge_for(normalised, size_of::<f32>())?;
                let array = cx.builder.array(value)?.ok_or(NodeProblem::Missing { index, role })?;
                let name = format!("{}/{role}", cx.name);
                let kind = cx.kind();
                cx.builder.constant(name, kind, array.expand(normalised.to_vec()))
            }
        };
        inputs.push(Some(value));
    }
    cx.emit(Op::LayerNorm { axis, epsilon }, inputs, shape)
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

pub(super) fn reduce_mean(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "data")?;
    let shape = cx.shape(x);
    let Some(reduction) = super::reduced(cx, cx.opset >= 18, &shape)? else {
        return Ok(vec![cx.input(0, "data")?]);
    };
    let keep = cx.attributes().flag("keepdims", true)?;
    cx.emit(Op::ReduceMean { axes: reduction.axes, keep }, vec![Some(x)], reduction.shape)
}
