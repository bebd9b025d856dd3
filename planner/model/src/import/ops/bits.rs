//! Operators on the bits of constant integers, and questions about constant floats.

use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::super::types::wrap;
use super::elementwise::{Operands, common, operands};

/// A function of the bits of two integers of one type.
pub(super) fn binary(
    cx: &mut Context<'_, '_>,
    function: impl Fn(i64, i64) -> i64,
) -> Result<Vec<Operand>, NodeProblem> {
    let (kind, arrays) = match operands(cx, 0, "operand")? {
        Operands::Integers(kind, arrays) => (kind, arrays),
        Operands::Floats(kind, _) => {
            return Err(NodeProblem::wrong_type("operand", "integers", kind));
        }
    };
    let [a, b] = &arrays[..] else {
        return Err(NodeProblem::shape(format!("it has {} inputs, expected 2", arrays.len())));
    };
    let shape = common(&a.shape, &b.shape)?;
    cx.charge(&shape)?;
    let result = a.zip(b, shape, |a, b| wrap(kind, function(a, b).into()));
    Ok(vec![Operand::integers(kind, result)])
}

/// Shifts unsigned integers to the left or to the right.
pub(super) fn shift(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let left = match cx.attributes().string("direction")?.unwrap_or("") {
        "LEFT" => true,
        "RIGHT" => false,
        other => {
            let reason = format!("is `{other}`, expected LEFT or RIGHT");
            return Err(NodeProblem::attribute("direction", reason));
        }
    };
    // What is shifted out of 64 bits is gone. Bits of signed numbers are shifted as their sign says.
    let unsigned = cx.input(0, "operand")?.kind() == DataType::Uint64;
    binary(cx, move |value, by| {
        let by = u32::try_from(by).unwrap_or(u32::MAX);
        match (left, unsigned) {
            (true, _) => value.checked_shl(by).unwrap_or(0),
            (false, true) => (value as u64).checked_shr(by).unwrap_or(0) as i64,
            (false, false) => value >> by.min(63),
        }
    })
}

pub(super) fn not(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    match cx.input(0, "x")? {
        Operand::Integer(kind, array) => {
            cx.charge(&array.shape)?;
            Ok(vec![Operand::integers(kind, array.map(|bits| wrap(kind, (!bits).into())))])
        }
        Operand::Float(kind, _) | Operand::Whole(kind, _) => {
            Err(NodeProblem::wrong_type("x", "integers", kind))
        }
    }
}

/// Whether floats are something: a truth value for each.
pub(super) fn are(
    cx: &mut Context<'_, '_>,
    question: impl Fn(f64) -> bool,
) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.input(0, "x")?;
    let Operand::Float(_, value) = x else {
        return Err(NodeProblem::wrong_type("x", "floats", x.kind()));
    };
    // Floats that flow are asked elsewhere.
    let array = cx.builder.array(value)?.ok_or(NodeProblem::Unknown)?;
    cx.charge(&array.shape)?;
    let truths = array.map(|value| i64::from(question(value)));
    Ok(vec![Operand::integers(DataType::Bool, truths)])
}

pub(super) fn are_infinite(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let attributes = cx.attributes();
    let negative = attributes.flag("detect_negative", true)?;
    let positive = attributes.flag("detect_positive", true)?;
    are(cx, |x| x == f64::INFINITY && positive || x == f64::NEG_INFINITY && negative)
}
