//! Arithmetic, logic and comparisons of integers and truth values that flow.

use super::super::array::Array;
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::super::types::is_float;
use super::compose::{Steps, int};
use super::elementwise::common;
use super::flowing::{Node, Translated, bounding, flowing, last, operands};
use crate::graph::{Op, ValueId};
use eyelet::pack::IntegerOp;

/// Arithmetic and logic of integers.
pub(super) fn arithmetic(cx: &mut Context<'_, '_>, operator: &str) -> Translated {
    match operator {
        "Clip" => return clip(cx),
        "Relu" => {
            let operand = cx.input(0, "x")?;
            let value = flowing(cx, 0, &operand)?;
            let zero =
                cx.builder.words(format!("{}/zero", cx.name), operand.kind(), &Array::scalar(0))?;
            return last(cx, operand.kind(), IntegerOp::Max, &[value, zero]);
        }
        "Pow" => {
            let (base, exponent) = (cx.input(0, "base")?, cx.input(1, "exponent")?);
            if is_float(base.kind()) || is_float(exponent.kind()) {
                return mixed_power(cx, [&base, &exponent]);
            }
            let values = [flowing(cx, 0, &base)?, flowing(cx, 1, &exponent)?];
            return last(cx, base.kind(), IntegerOp::Pow, &values);
        }
        _ => {}
    }
    let (kind, values) = operands(cx)?;
    if is_float(kind) {
        return Err(NodeProblem::wrong_type("operand", "integers", kind));
    }
    let signed =
        matches!(kind, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64);
    if operator == "BitShift" && signed && cx.attributes().string("direction")? == Some("RIGHT") {
        return shift_signed(cx, kind, &values);
    }
    let op = of_name(cx, operator, kind)?;
    match (&values[..], op.operands()) {
        ([_], 1) | ([_, _], 2) => last(cx, kind, op, &values),
        ([one], 2) => Ok(vec![Operand::Whole(kind, *one)]),
        ([first, rest @ ..], 2) if matches!(op, IntegerOp::Min | IntegerOp::Max) => {
            let mut total = *first;
            for (at, next) in rest.iter().enumerate() {
                if at + 1 == rest.len() {
                    return last(cx, kind, op, &[total, *next]);
                }
                let (left, right) = (cx.shape(total), cx.shape(*next));
                let shape = common(&left, &right)?;
                let suffix = (at + 1).to_string();
                let node = Node { kind, suffix: Some(&suffix) };
                total = node.add(cx, Op::Words(op), &[total, *next], shape)?;
            }
            Ok(vec![])
        }
        (values, count) => {
            let count = format!("it has {} inputs, expected {count}", values.len());
            Err(NodeProblem::shape(count))
        }
    }
}

/// What an operator computes of integers of a kind, or of truth values.
fn of_name(cx: &Context<'_, '_>, operator: &str, kind: DataType) -> Result<IntegerOp, NodeProblem> {
    let truth = kind == DataType::Bool;
    Ok(match operator {
        "Add" => IntegerOp::Add,
        "Sub" => IntegerOp::Sub,
        "Mul" => IntegerOp::Mul,
        "Div" => IntegerOp::Div,
        "Mod" if cx.attributes().flag("fmod", false)? => IntegerOp::Fmod,
        "Mod" => IntegerOp::Mod,
        "Min" => IntegerOp::Min,
        "Max" => IntegerOp::Max,
        "And" if truth => IntegerOp::And,
        "Or" if truth => IntegerOp::Or,
        "Xor" if truth => IntegerOp::Xor,
        "Not" if truth => IntegerOp::IsZero,
        "BitwiseAnd" => IntegerOp::And,
        "BitwiseOr" => IntegerOp::Or,
        "BitwiseXor" => IntegerOp::Xor,
        "BitwiseNot" => IntegerOp::Not,
        "BitShift" => match cx.attributes().string("direction")? {
            Some("LEFT") => IntegerOp::ShiftLeft,
            Some("RIGHT") => IntegerOp::ShiftRight,
            _ => return Err(NodeProblem::attribute("direction", "is neither LEFT nor RIGHT")),
        },
        "Neg" => IntegerOp::Neg,
        "Abs" => IntegerOp::Abs,
        "Sign" => IntegerOp::Sign,
        _ => return Err(NodeProblem::wrong_type("operand", "truth values", kind)),
    })
}

/// A power of which one operand is floats: it is computed of floats, and has the base's type.
fn mixed_power(cx: &mut Context<'_, '_>, [base, exponent]: [&Operand; 2]) -> Translated {
    let to = |kind: DataType| vec![int("to", kind as i64)];
    let float = if is_float(base.kind()) { base.kind() } else { exponent.kind() };
    let mut steps = Steps::new(cx);
    let a = steps.apply("Cast", &[base], to(float))?;
    let b = steps.apply("Cast", &[exponent], to(float))?;
    let power = steps.apply("Pow", &[&a, &b], vec![])?;
    Ok(vec![steps.apply("Cast", &[&power], to(base.kind()))?])
}

/// Signed integers shifted to the right: of one below zero the bits that it has not are.
fn shift_signed(cx: &mut Context<'_, '_>, kind: DataType, values: &[ValueId]) -> Translated {
    let &[x, by] = values else {
        return Err(NodeProblem::shape(format!("it has {} inputs, expected 2", values.len())));
    };
    let zero = cx.builder.words(format!("{}/zero", cx.name), kind, &Array::scalar(0))?;
    let (own, shifts) = (cx.shape(x), cx.shape(by));
    let shape = common(&own, &shifts)?;
    let mut add = |suffix, op, inputs: &[ValueId], shape: &[usize]| {
        let node = Node { kind, suffix: Some(suffix) };
        node.add(cx, Op::Words(op), inputs, shape.to_vec())
    };
    let below = add("below", IntegerOp::Less, &[x, zero], &own)?;
    let sign = add("sign", IntegerOp::Neg, &[below], &own)?;
    let bits = add("bits", IntegerOp::Xor, &[x, sign], &own)?;
    let shifted = add("shifted", IntegerOp::ShiftRight, &[bits, by], &shape)?;
    last(cx, kind, IntegerOp::Xor, &[shifted, sign])
}

/// Bounds of integers, of which one may be absent.
fn clip(cx: &mut Context<'_, '_>) -> Translated {
    let operand = cx.input(0, "input")?;
    let (kind, mut value) = (operand.kind(), flowing(cx, 0, &operand)?);
    let mut made = vec![operand];
    let bounds = [(1, IntegerOp::Max), (2, IntegerOp::Min)];
    let both = cx.optional(1)?.is_some() && cx.optional(2)?.is_some();
    for (index, op) in bounds {
        let Some(bound) = cx.optional(index)? else { continue };
        let bound = bounding(cx, index, &bound)?;
        if both && index == 1 {
            let node = Node { kind, suffix: Some("lower") };
            let shape = cx.shape(value);
            value = node.add(cx, Op::Words(op), &[value, bound], shape)?;
        } else {
            made = last(cx, kind, op, &[value, bound])?;
        }
    }
    Ok(made)
}

pub(super) fn compare(cx: &mut Context<'_, '_>, operator: &str) -> Translated {
    let (kind, values) = operands(cx)?;
    let &[a, b] = &values[..] else {
        return Err(NodeProblem::shape(format!("it has {} inputs, expected 2", values.len())));
    };
    let (op, pair) = match operator {
        "Equal" => (IntegerOp::Equal, [a, b]),
        "Less" => (IntegerOp::Less, [a, b]),
        "LessOrEqual" => (IntegerOp::LessOrEqual, [a, b]),
        "Greater" => (IntegerOp::Less, [b, a]),
        _ => (IntegerOp::LessOrEqual, [b, a]),
    };
    let op = match (is_float(kind), op) {
        (false, op) => op,
        (true, IntegerOp::Equal) => IntegerOp::EqualFloats,
        (true, IntegerOp::Less) => IntegerOp::LessFloats,
        (true, _) => IntegerOp::LessOrEqualFloats,
    };
    last(cx, DataType::Bool, op, &pair)
}

/// A function of floats that makes truth values.
pub(super) fn is(cx: &mut Context<'_, '_>, operator: &str) -> Translated {
    let value = cx.float(0, "x")?;
    let side = |name| cx.attributes().flag(name, true);
    let op = match (operator, side("detect_negative")?, side("detect_positive")?) {
        ("IsNaN", ..) => IntegerOp::IsNan,
        (_, true, true) => IntegerOp::IsInfinite,
        (_, true, false) => IntegerOp::IsNegativeInfinity,
        (_, false, true) => IntegerOp::IsPositiveInfinity,
        (_, false, false) => {
            return Err(NodeProblem::attribute("detect_negative", "is 0, as is the other one"));
        }
    };
    last(cx, DataType::Bool, op, &[value])
}
