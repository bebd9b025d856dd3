//! Elementwise functions of floats.

use super::super::array::broadcast;
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::compose::Steps;
use super::computed::flows;
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

/// `SwiGLU`: a gate, and what it lets through.
pub(super) fn swiglu(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let (a, b) = (cx.float(0, "A")?, cx.float(1, "B")?);
    let alpha = cx.attributes().float_or("alpha", 1.0)?;
    let (gate, value) = (cx.shape(a), cx.shape(b));
    if gate != value {
        return Err(NodeProblem::shape(format!("shapes {gate:?} and {value:?} are not the same")));
    }
    let gate = cx.helper("gate", Op::Swish { alpha }, vec![Some(a)], value.clone())?;
    cx.emit(Op::Mul, vec![Some(gate), Some(b)], value)
}

pub(super) fn selu(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let alpha = cx.attributes().float_or("alpha", 1.673_263_2)?;
    let gamma = cx.attributes().float_or("gamma", 1.050_701)?;
    unary(cx, Op::Elu { alpha: gamma * alpha, beta: gamma })
}

/// `max(0, x) + min(0, alpha · (exp(x/alpha) - 1))`, which is alpha times the ELU of x/alpha.
pub(super) fn celu(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let alpha = cx.attributes().float_or("alpha", 1.0)?;
    let elu = Op::Elu { alpha: 1.0, beta: 1.0 };
    if alpha == 1.0 {
        return unary(cx, elu);
    }
    if alpha <= 0.0 || !alpha.is_finite() {
        return Err(NodeProblem::attribute("alpha", format!("is {alpha}, expected above 0")));
    }
    let x = cx.float(0, "x")?;
    let shape = cx.shape(x);
    let alpha = cx.number("alpha", alpha.into());
    let scaled = cx.helper("scaled", Op::Div, vec![Some(x), Some(alpha)], shape.clone())?;
    let bent = cx.helper("elu", elu, vec![Some(scaled)], shape.clone())?;
    cx.emit(Op::Mul, vec![Some(bent), Some(alpha)], shape)
}

/// The largest finite number of a type; of double precision none is known.
fn largest(kind: DataType) -> f32 {
    match kind {
        DataType::Float16 => 65504.0,
        DataType::Bfloat16 => f32::from_bits(0x7f7f_0000),
        DataType::Double => f32::INFINITY,
        _ => f32::MAX,
    }
}

/// Bounds of which one is computed; `None` where both are constant.
fn computed_bounds(cx: &mut Context<'_, '_>) -> Result<Option<Vec<Operand>>, NodeProblem> {
    let bounds = [cx.optional(1)?, cx.optional(2)?];
    if !bounds.iter().flatten().any(|bound| flows(cx, bound)) {
        return Ok(None);
    }
    let mut made = cx.input(0, "x")?;
    let (kind, most, shape) = (cx.kind(), largest(cx.kind()), cx.shape_of(&made));
    let mut steps = Steps::new(cx);
    for (operator, bound, absent) in [("Max", &bounds[0], -most), ("Min", &bounds[1], most)] {
        let bound = match bound {
            Some(bound) => steps.shaped(bound, &[])?,
            None => steps.scalar(kind, absent.into()),
        };
        made = steps.apply(operator, &[&made, &bound], vec![])?;
    }
    Ok(Some(vec![steps.shaped(&made, &shape)?]))
}

pub(super) fn clip(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let (min, max) = if cx.opset < 11 {
        (cx.attributes().float("min")?, cx.attributes().float("max")?)
    } else if let Some(made) = computed_bounds(cx)? {
        return Ok(made);
    } else {
        (cx.optional_scalar(1, "min")?, cx.optional_scalar(2, "max")?)
    };
    // What is absent is the type's largest finite number, so that infinities do not stay. A bound that is NaN bounds nothing.
    let most = largest(cx.kind());
    let (min, max) = (min.unwrap_or(-most), max.unwrap_or(most));
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
