//! Integers and truth values that flow: operations on words, comparisons, conversions.
//!
//! What is constant is folded elsewhere, in 64 bits. What flows has 32 bits, whatever type the model
//! gives it: sums and products of 64 bits wrap as those of 32 do, and narrower types wrap to their
//! width. Operators that only move elements do not look at them: they are translated as of floats.

use super::super::array::Array;
use super::super::builder::Operand;
use super::super::context::{Context, Given, axis};
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::super::types::{self, is_float, wide};
use super::compose::Steps;
use super::flowing::{Node, Translated, flowing, folded, last};
use super::integers::{arithmetic, compare, is};
use super::{Reduction, Translate, quantised, reduced};
use crate::graph::Op;
use eyelet::pack::{FoldOp, IntegerOp};

/// Translates a node that reads words, or makes words of floats; `None` if that is another's.
pub(super) fn translate(
    cx: &mut Context<'_, '_>,
    other: Translate,
) -> Result<Option<Vec<Operand>>, NodeProblem> {
    let given = |given: &Given, test: fn(&Operand) -> bool| match given {
        Given::Known(operand) => test(operand),
        _ => false,
    };
    let words = cx.inputs.iter().any(|one| given(one, |x| matches!(x, Operand::Whole(..))));
    let floats = (cx.inputs.iter()).any(|one| match one {
        Given::Known(Operand::Float(_, value)) => {
            cx.builder.graph.values[*value].constant.is_none()
        }
        _ => false,
    });
    let operator = cx.proto.op_type.as_str();
    Ok(match operator {
        "Cast" | "CastLike" if words || floats => cast(cx)?,
        "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" if words || floats => {
            Some(compare(cx, operator)?)
        }
        "Where" if words || floats => choose(cx)?,
        "IsNaN" | "IsInf" if floats => Some(is(cx, operator)?),
        "ArgMax" | "ArgMin" => Some(place(cx, operator == "ArgMax")?),
        _ if !words => None,
        "Xor" | "BitwiseAnd" | "BitwiseOr" | "BitwiseXor" | "BitwiseNot" | "BitShift" => {
            Some(arithmetic(cx, operator)?)
        }
        "Add" | "Sub" | "Mul" | "Div" | "Mod" | "Min" | "Max" | "Pow" | "And" | "Or" | "Not"
        | "Neg" | "Abs" | "Sign" | "Relu" | "Clip" => Some(arithmetic(cx, operator)?),
        "ReduceSum" | "ReduceProd" | "ReduceMin" | "ReduceMax" => reduce(cx, operator)?,
        "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Transpose" | "Concat" | "Split"
        | "Expand" | "Tile" | "DepthToSpace" | "SpaceToDepth" => Some(moved(cx, other)?),
        "Pad" if matches!(cx.input(0, "data")?, Operand::Whole(..)) => Some(pad(cx, other)?),
        "Slice" | "Gather" | "GatherElements" | "GatherND" | "Compress" | "ReverseSequence"
            if matches!(cx.input(0, "data")?, Operand::Whole(..)) =>
        {
            Some(moved(cx, other)?)
        }
        "Scatter" | "ScatterElements" | "ScatterND"
            if !is_float(cx.input(0, "data")?.kind())
                && !matches!(cx.input(1, "indices")?, Operand::Whole(..))
                && matches!(cx.attributes().string("reduction")?, None | Some("none")) =>
        {
            Some(moved(cx, other)?)
        }
        _ => None,
    })
}

/// The operators that only this file translates, where an input is unknown: so is the output.
pub(super) fn only_flowing(_: &mut Context<'_, '_>) -> Translated {
    Err(NodeProblem::Unknown)
}

/// `Pad`: with a number other than zero what is padded with zeros are the differences to it.
fn pad(cx: &mut Context<'_, '_>, other: Translate) -> Translated {
    let constant = cx.attributes().string("mode")?.is_none_or(|mode| mode == "constant");
    let given = match cx.opset < 11 {
        true => None,
        false => cx.optional_integers(2, "constant_value")?,
    };
    let number = given.and_then(|given| given.data.first().copied()).unwrap_or(0);
    if number == 0 || !constant {
        return moved(cx, other);
    }
    let data = cx.input(0, "data")?;
    let (kind, number) = (data.kind(), Operand::integers(data.kind(), Array::scalar(number)));
    let truth = kind == DataType::Bool;
    let mut before = Steps::new(cx);
    let apart = match truth {
        true => before.apply("Not", &[&data], vec![])?,
        false => before.apply("Sub", &[&data, &number], vec![])?,
    };
    cx.inputs[0] = Given::Known(apart);
    let made = moved(cx, other)?;
    let [padded] = &made[..] else { return Ok(made) };
    let inputs = if truth { vec![padded.clone()] } else { vec![padded.clone(), number] };
    Ok(vec![cx.serve("back", if truth { "Not" } else { "Add" }, inputs, vec![])?])
}

/// Operators that move elements, as if these were floats.
fn moved(cx: &mut Context<'_, '_>, other: Translate) -> Translated {
    let pads = cx.proto.op_type == "Pad";
    let kind = cx.input(0, "data")?.kind();
    let moving: Vec<usize> = match cx.proto.op_type.as_str() {
        "Concat" => (0..cx.inputs.len()).collect(),
        "Scatter" | "ScatterElements" | "ScatterND" => vec![0, 2],
        _ => vec![0],
    };
    let mut values = vec![];
    for index in moving {
        let operand = cx.input(index, "data")?;
        if operand.kind() != kind {
            return Err(NodeProblem::mixed(kind, operand.kind()));
        }
        let value = flowing(cx, index, &operand)?;
        values.push(value);
        cx.inputs[index] = Given::Known(Operand::Float(DataType::Float, value));
    }
    if pads && let Some(given) = cx.inputs.get_mut(2) {
        *given = Given::Absent;
    }
    let before = cx.builder.graph.values.len();
    let made = other(cx)?;
    for value in &mut cx.builder.graph.values[before..] {
        value.kind = types::port_type(kind);
    }
    let whole = |operand| match operand {
        Operand::Float(_, value) => Operand::Whole(kind, value),
        other => other,
    };
    let made: Vec<Operand> = made.into_iter().map(whole).collect();
    quantised::follow(cx, &values, &made, other)?;
    Ok(made)
}

/// A conversion of what flows; `None` among floats.
fn cast(cx: &mut Context<'_, '_>) -> Result<Option<Vec<Operand>>, NodeProblem> {
    let to = super::cast::target(cx)?;
    let operand = cx.input(0, "input")?;
    let (from, value) = match operand {
        _ if operand.kind() == to => return Ok(Some(vec![operand])),
        Operand::Integer(..) => return Ok(None),
        Operand::Float(from, value) => match cx.builder.graph.values[value].constant {
            Some(_) => return Ok(None),
            None if is_float(to) => return Ok(None),
            None => (from, value),
        },
        Operand::Whole(from, value) => (from, value),
    };
    let unary = |cx: &mut Context<'_, '_>, op| last(cx, to, op, &[value]);
    Ok(Some(match (is_float(from), to) {
        (true, DataType::Bool) => unary(cx, IntegerOp::IsNotZeroFloat)?,
        (true, _) => unary(cx, IntegerOp::Cut)?,
        (false, to) if is_float(to) => {
            let shape = cx.shape(value);
            let made = Node { kind: to, suffix: None };
            let made = made.add(cx, Op::Words(IntegerOp::Float), &[value], shape)?;
            vec![Operand::Float(to, made)]
        }
        (false, DataType::Bool) => unary(cx, IntegerOp::IsNotZero)?,
        (false, to) => {
            let op = match to {
                DataType::Int8 => Some(IntegerOp::Int8),
                DataType::Uint8 => Some(IntegerOp::Uint8),
                DataType::Int16 => Some(IntegerOp::Int16),
                DataType::Uint16 => Some(IntegerOp::Uint16),
                _ => None,
            };
            match op {
                Some(op) => unary(cx, op)?,
                None => vec![Operand::Whole(to, value)],
            }
        }
    }))
}

/// A choice; `None` where the condition is constant and constant numbers take a part's place.
fn choose(cx: &mut Context<'_, '_>) -> Result<Option<Vec<Operand>>, NodeProblem> {
    let given = [cx.input(0, "condition")?, cx.input(1, "x")?, cx.input(2, "y")?];
    let [condition, x, y] = &given;
    if x.kind() != y.kind() {
        return Err(NodeProblem::mixed(x.kind(), y.kind()));
    }
    if condition.kind() != DataType::Bool {
        return Err(NodeProblem::wrong_type("condition", "truth values", condition.kind()));
    }
    let flows = |operand: &Operand| match operand {
        Operand::Float(_, value) => cx.builder.graph.values[*value].constant.is_none(),
        Operand::Integer(..) => false,
        Operand::Whole(..) => true,
    };
    // In a mask NaN stands for what flows.
    let is_nan = |operand: &Operand| match operand {
        Operand::Float(_, value) => {
            let constant = cx.builder.graph.values[*value].constant.as_ref();
            constant.is_some_and(|of| (0..of.len()).any(|at| of.get(at).is_nan()))
        }
        _ => false,
    };
    let one_flows = flows(x) != flows(y);
    let masks =
        is_float(x.kind()) && !(flows(x) && flows(y)) && !(one_flows && (is_nan(x) || is_nan(y)));
    if !flows(condition) && masks {
        return Ok(None);
    }
    let kind = x.kind();
    let mut values = vec![];
    for (index, operand) in given.iter().enumerate() {
        values.push(flowing(cx, index, operand)?);
    }
    let [condition, x, y] = [cx.shape(values[0]), cx.shape(values[1]), cx.shape(values[2])];
    let shape = super::elementwise::common(&condition, &super::elementwise::common(&x, &y)?)?;
    let made = Node { kind, suffix: None }.add(cx, Op::Where, &values, shape)?;
    Ok(Some(vec![match is_float(kind) {
        true => Operand::Float(kind, made),
        false => Operand::Whole(kind, made),
    }]))
}

/// Reductions of integers.
fn reduce(cx: &mut Context<'_, '_>, operator: &str) -> Result<Option<Vec<Operand>>, NodeProblem> {
    let operand = cx.input(0, "data")?;
    let shape = cx.shape_of(&operand);
    let from_input = cx.opset >= 18 || (operator == "ReduceSum" && cx.opset >= 13);
    let keep = cx.attributes().flag("keepdims", true)?;
    let Some(Reduction { axes, shape }) = reduced(cx, from_input, &shape)? else {
        return Ok(Some(vec![operand]));
    };
    let (kind, value) = (operand.kind(), flowing(cx, 0, &operand)?);
    let op = match operator {
        "ReduceSum" => FoldOp::Sum,
        "ReduceProd" => FoldOp::Product,
        "ReduceMin" => FoldOp::Min,
        _ => FoldOp::Max,
    };
    let fold = Op::Fold { op, axes, keep, last: false };
    let made = Node { kind, suffix: None }.add(cx, fold, &[value], shape)?;
    Ok(Some(vec![Operand::Whole(kind, made)]))
}

/// The place of the largest element along an axis, or of the smallest.
fn place(cx: &mut Context<'_, '_>, largest: bool) -> Translated {
    let operand = cx.input(0, "data")?;
    let mut shape = cx.shape_of(&operand);
    let axis = axis(cx.attributes().int_or("axis", 0)?, shape.len())?;
    let keep = cx.attributes().flag("keepdims", true)?;
    let last = cx.attributes().flag("select_last_index", false)?;
    let operand = match operand {
        // Constants of any width: their order is all that counts.
        Operand::Integer(kind, array) => {
            cx.charge_for(&array.shape, 2 * size_of::<i64>())?;
            let mut sorted = array.data.clone();
            sorted.sort_unstable_by_key(|&bits| wide(kind, bits));
            sorted.dedup();
            let rank = |bits| sorted.partition_point(|&other| wide(kind, other) < wide(kind, bits));
            Operand::integers(DataType::Int64, array.map(|bits| rank(bits) as i64))
        }
        flowing => flowing,
    };
    let value = flowing(cx, 0, &operand)?;
    let op = match (is_float(operand.kind()), largest) {
        (true, true) => FoldOp::ArgMax,
        (true, false) => FoldOp::ArgMin,
        (false, true) => FoldOp::ArgMaxWord,
        (false, false) => FoldOp::ArgMinWord,
    };
    match keep {
        true => shape[axis] = 1,
        false => drop(shape.remove(axis)),
    }
    let fold = Op::Fold { op, axes: vec![axis], keep, last };
    let kind = DataType::Int64;
    if let Some(folded) = folded(cx, kind, &fold, &[value], &shape)? {
        return Ok(vec![folded]);
    }
    let made = Node { kind, suffix: None }.add(cx, fold, &[value], shape)?;
    Ok(vec![Operand::Whole(kind, made)])
}
