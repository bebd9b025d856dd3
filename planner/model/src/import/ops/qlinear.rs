//! Operators on integers with scales (`QLinearConv` and the like): those on floats between a dequantisation and a
//! quantisation. Products of integers without scales.

use super::super::array::Array;
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::compose::int;
use super::flowing::of_floats;
use super::quantised::{quantised, real, with};
use super::scales::{Numbers, made_kind};
use super::{Translate, elementwise, layout, linear, normalise, pointwise, pool};
use crate::graph::Op;

/// Input `at` of an operator on integers, with scale and zero in the two after it, as floats.
fn operand(cx: &mut Context<'_, '_>, at: usize, axis: i64) -> Result<Operand, NodeProblem> {
    let x = cx.input(at, "a quantised operand")?;
    let shape = cx.shape_of(&x);
    let numbers = Numbers::read(cx, at + 1, x.kind(), &shape, axis)?;
    let name = format!("{}/operand_{at}", cx.name);
    Ok(Operand::Float(numbers.of, real(cx, name, &x, &numbers)?))
}

/// Computes with floats, and quantises what is made by the scale of input `at` and the zero of the
/// next.
fn between(
    cx: &mut Context<'_, '_>,
    at: usize,
    operands: &[Operand],
    translate: Translate,
) -> Result<Vec<Operand>, NodeProblem> {
    let made = with(cx, operands, translate)?;
    let Some(&Operand::Float(_, value)) = made.first() else { return Ok(made) };
    let (kind, shape) = (made_kind(cx, at + 1)?, cx.shape(value));
    let numbers = Numbers::read(cx, at, kind, &shape, 1)?;
    Ok(vec![quantised(cx, value, &numbers)?])
}

/// Biases of 32 bits, input `at`, in units of the product of the operands' scales and a factor.
fn bias(cx: &mut Context<'_, '_>, at: usize, factor: f32) -> Result<Option<Operand>, NodeProblem> {
    let Some(bias) = cx.optional_integers(at, "bias")? else { return Ok(None) };
    let scales = |cx: &mut Context<'_, '_>, at| {
        let value = cx.weights(at, "scale")?;
        Ok::<_, NodeProblem>(cx.builder.array(value)?.map_or(vec![], |scale| scale.data))
    };
    let (of_x, of_w) = (scales(cx, 1)?, scales(cx, 4)?);
    let scale = |at: usize| {
        let w = if of_w.len() == 1 { of_w[0] } else { *of_w.get(at % of_w.len().max(1))? };
        Some(factor * *of_x.first()? as f32 * w as f32)
    };
    let real = |(at, &q): (usize, &i64)| Some(f64::from(q as f32 * scale(at)?));
    let data: Option<Vec<f64>> = bias.data.iter().enumerate().map(real).collect();
    let data = data.ok_or_else(|| NodeProblem::shape("the operands have no scales"))?;
    let name = format!("{}/bias", cx.name);
    let array = Array { shape: bias.shape.clone(), data };
    Ok(Some(Operand::Float(DataType::Float, cx.builder.constant(name, DataType::Float, array))))
}

/// x, w, y, each with scale and zero; a bias.
pub(super) fn conv(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let mut operands = vec![operand(cx, 0, 1)?, operand(cx, 3, 0)?];
    operands.extend(bias(cx, 8, 1.0)?);
    between(cx, 6, &operands, super::conv::conv)
}

/// a and b with scale and zero, a bias, and scale and zero of the result, which is of floats without.
pub(super) fn gemm(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let transposed = cx.attributes().flag("transB", false)?;
    let mut operands = vec![operand(cx, 0, 1)?, operand(cx, 3, if transposed { 0 } else { 1 })?];
    let alpha = cx.attributes().float_or("alpha", 1.0)?;
    operands.extend(bias(cx, 6, alpha)?);
    match cx.optional(7)? {
        Some(_) => between(cx, 7, &operands, linear::gemm),
        None => with(cx, &operands, linear::gemm),
    }
}

pub(super) fn matmul(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let operands = [operand(cx, 0, -2)?, operand(cx, 3, -1)?];
    between(cx, 6, &operands, linear::matmul)
}

/// a, b and the result, each with scale and zero.
pub(super) fn arithmetic(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let operands = [operand(cx, 0, 1)?, operand(cx, 3, 1)?];
    match cx.proto.op_type.as_str() {
        "QLinearAdd" => between(cx, 6, &operands, |cx| elementwise::arithmetic(cx, Op::Add)),
        _ => between(cx, 6, &operands, |cx| elementwise::arithmetic(cx, Op::Mul)),
    }
}

/// x and the result, each with scale and zero.
pub(super) fn unary(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    if cx.attributes().flag("channels_last", false)? {
        return Err(NodeProblem::attribute("channels_last", "is 1; export with channels first"));
    }
    let operands = [operand(cx, 0, 1)?];
    let translate: Translate = match cx.proto.op_type.as_str() {
        "QLinearSigmoid" => |cx| pointwise::unary(cx, Op::Sigmoid),
        "QLinearLeakyRelu" => |cx| {
            let alpha = cx.attributes().float_or("alpha", 0.01)?;
            pointwise::unary(cx, Op::LeakyRelu { alpha })
        },
        "QLinearSoftmax" => normalise::softmax,
        "QLinearGlobalAveragePool" => pool::global_average,
        _ => |cx| pool::pool(cx, true),
    };
    between(cx, 3, &operands, translate)
}

/// Scale and zero of the result, then each operand with its own.
pub(super) fn concat(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let places = (2..cx.inputs.len()).step_by(3);
    let operands = places.map(|at| operand(cx, at, 1)).collect::<Result<Vec<_>, _>>()?;
    between(cx, 0, &operands, layout::concat)
}

/// An operand of integers less its zero, which is input `zero`, or less one for each of its channels: those are rows of
/// a left matrix, columns of a right one, output channels of a convolution.
fn from_zero(cx: &mut Context<'_, '_>, at: usize, zero: usize) -> Result<Operand, NodeProblem> {
    let x = cx.input(at, "an operand of integers")?;
    let own = cx.shape_of(&x);
    let given = cx.optional(zero)?;
    let zeros = given.as_ref().map_or(vec![], |given| cx.shape_of(given));
    let count: usize = zeros.iter().product();
    let first = match &given {
        Some(Operand::Integer(_, zero)) => zero.data.first().copied().unwrap_or(0),
        _ => 0,
    };
    let flows = matches!(given, Some(Operand::Whole(..)));
    let Some(zero) = given.filter(|_| flows || count > 1) else {
        let (kind, scale) = (x.kind(), Array::scalar(1.0));
        let (of, zero) = (DataType::Float, vec![first]);
        let numbers = Numbers { kind, of, scale, zero, along: None, blocked: false };
        let name = format!("{}/operand_{at}", cx.name);
        return Ok(Operand::Float(DataType::Float, real(cx, name, &x, &numbers)?));
    };
    let axis = match (cx.proto.op_type.as_str(), at) {
        ("ConvInteger", 0) => None,
        ("ConvInteger", _) => Some(0),
        (_, 0) => own.len().checked_sub(2),
        _ => own.len().checked_sub(1),
    };
    let shape = match (&zeros[..], axis) {
        _ if count == 1 => vec![],
        (&[several], Some(axis)) if own[axis] == several => {
            let mut shape = vec![1; own.len()];
            shape[axis] = several;
            shape
        }
        (all, Some(_)) if all.len() == own.len() => all.to_vec(),
        _ => {
            return Err(NodeProblem::shape(format!(
                "zeros of shape {zeros:?} do not fit an operand of shape {own:?}"
            )));
        }
    };
    let to = || vec![int("to", DataType::Float as i64)];
    let zero = cx.shaped(&format!("zero{at}"), zero, &shape)?;
    let zero = cx.serve(&format!("zero_float{at}"), "Cast", vec![zero], to())?;
    let x = cx.serve(&format!("float{at}"), "Cast", vec![x], to())?;
    cx.serve(&format!("from_zero{at}"), "Sub", vec![x, zero], vec![])
}

/// Products of integers, whose sums are whole numbers of 32 bits.
pub(super) fn products(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    // Padding stands for the input's zero, which is 0 here.
    let operands = [from_zero(cx, 0, 2)?, from_zero(cx, 1, 3)?];
    let translate: Translate =
        if cx.proto.op_type == "ConvInteger" { super::conv::conv } else { linear::matmul };
    let made = with(cx, &operands, translate)?;
    let Some(&Operand::Float(_, sums)) = made.first() else { return Ok(made) };
    Ok(vec![Operand::Whole(DataType::Int32, of_floats(cx, "words", DataType::Int32, sums)?)])
}
