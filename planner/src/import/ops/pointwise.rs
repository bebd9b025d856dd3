//! Elementwise functions and arithmetic.

use super::super::array::broadcast;
use super::super::builder::{Context, Operand};
use super::super::error::NodeProblem;
use super::folded::{common, integers};
use crate::graph::Op;

/// Emits a function of one float tensor.
pub(super) fn unary(cx: &mut Context<'_, '_>, op: Op) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let shape = cx.shape(x);
    cx.emit(op, vec![Some(x)], shape)
}

pub(super) fn gelu(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let tanh = match cx.attributes().string("approximate")?.unwrap_or("none") {
        "none" => false,
        "tanh" => true,
        other => {
            let reason = format!("is `{other}`, expected none or tanh");
            return Err(NodeProblem::attribute("approximate", reason));
        }
    };
    unary(cx, Op::Gelu { tanh })
}

pub(super) fn clip(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let (min, max) = if cx.opset < 11 {
        (cx.attributes().float("min")?, cx.attributes().float("max")?)
    } else {
        (cx.optional_scalar(1, "min")?, cx.optional_scalar(2, "max")?)
    };
    // What is absent is the lowest and the largest float, so that infinities do not stay. A bound that is NaN bounds nothing.
    let (min, max) = (min.unwrap_or(f32::MIN), max.unwrap_or(f32::MAX));
    unary(cx, Op::Clip { min, max })
}

pub(super) fn prelu(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let (x, slope) = (cx.float(0, "x")?, cx.float(1, "slope")?);
    let shape = cx.shape(x);
    if broadcast(&shape, &cx.shape(slope)).as_ref() != Some(&shape) {
        return Err(NodeProblem::shape(format!(
            "a slope of shape {:?} does not broadcast to {shape:?}",
            cx.shape(slope)
        )));
    }
    cx.emit(Op::PRelu, vec![Some(x), Some(slope)], shape)
}

/// Emits arithmetic of two float tensors, or folds that of two integer ones.
pub(super) fn arithmetic(cx: &mut Context<'_, '_>, op: Op) -> Result<Vec<Operand>, NodeProblem> {
    match (cx.input(0, "a")?, cx.input(1, "b")?) {
        (Operand::Float(a), Operand::Float(b)) => {
            let shape = common(&cx.shape(a), &cx.shape(b))?;
            cx.emit(op, vec![Some(a), Some(b)], shape)
        }
        (Operand::Integer(a), Operand::Integer(b)) => {
            let function: fn(i64, i64) -> Option<i64> = match op {
                Op::Add => i64::checked_add,
                Op::Sub => i64::checked_sub,
                Op::Mul => i64::checked_mul,
                _ => i64::checked_div,
            };
            integers(cx, &a, &b, function)
        }
        _ => Err(NodeProblem::Type { role: "b", wanted: "the same kind of", given: "another" }),
    }
}

/// The sum of any number of float tensors, as a chain of additions.
pub(super) fn sum(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let mut total = cx.float(0, "data")?;
    let count = cx.inputs.len();
    if count == 1 {
        return Ok(vec![Operand::Float(total)]);
    }
    for index in 1..count {
        let next = cx.float(index, "data")?;
        let shape = common(&cx.shape(total), &cx.shape(next))?;
        let inputs = vec![Some(total), Some(next)];
        if index + 1 == count {
            return cx.emit(Op::Add, inputs, shape);
        }
        let name = format!("{}/{index}", cx.name);
        total = cx.builder.node(name.clone(), Op::Add, inputs, vec![(name, shape)])?[0];
    }
    Ok(vec![Operand::Float(total)])
}
