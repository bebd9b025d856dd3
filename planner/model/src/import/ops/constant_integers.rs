//! Constant integers and truth values, for operators that are written for floats.
//!
//! An operator that only moves elements is folded on their places: whatever the type, each element arrives as it is.
//! One that computes is folded in double precision, and its results are cut to the type.

use super::super::array::{Array, elements};
use super::super::builder::Operand;
use super::super::context::{Context, Given};
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::super::types::{wide, wrap};
use super::Translate;
use super::compose::Steps;
use super::flowing::Translated;
use crate::graph::ValueId;
use std::rc::Rc;

/// Beyond it, double precision does not have all integers.
const MOST_EXACT: u128 = 1 << 53;

/// How an operator is folded on integers.
enum Way {
    /// It moves the elements of its first input; what it adds is zero, or its third input.
    Moves,
    /// It computes, of so many inputs.
    Computes(usize),
}

fn way(cx: &Context<'_, '_>) -> Result<Option<Way>, NodeProblem> {
    Ok(Some(match cx.proto.op_type.as_str() {
        "Pad" | "CenterCropPad" | "DepthToSpace" | "SpaceToDepth" => Way::Moves,
        "Resize" | "Upsample" => match cx.attributes().string("mode")?.unwrap_or("nearest") {
            "nearest" => Way::Moves,
            _ => Way::Computes(1),
        },
        "MatMul" | "PRelu" => Way::Computes(2),
        "Einsum" => Way::Computes(cx.inputs.len()),
        "Gemm" => Way::Computes(3),
        "Relu" | "Shrink" | "Col2Im" | "MaxPool" | "GlobalMaxPool" | "ReduceMean" | "ReduceL1"
        | "ReduceL2" | "ReduceSumSquare" | "ReduceLogSum" | "ReduceLogSumExp" => Way::Computes(1),
        _ => return Ok(None),
    }))
}

/// Folds a node whose first input is constant integers; `None` where that is another's.
pub(super) fn translate(
    cx: &mut Context<'_, '_>,
    other: Translate,
) -> Result<Option<Vec<Operand>>, NodeProblem> {
    let Some(Given::Known(Operand::Integer(kind, data))) = cx.inputs.first() else {
        return Ok(None);
    };
    let (kind, data) = (*kind, Rc::clone(data));
    if cx.proto.op_type == "Clip" && cx.opset >= 11 {
        return clipped(cx).map(Some);
    }
    match way(cx)? {
        None => Ok(None),
        Some(Way::Moves) => moved(cx, kind, &data, other).map(Some),
        Some(Way::Computes(count)) => computed(cx, kind, count, other).map(Some),
    }
}

/// Integers within bounds of which one may be absent.
fn clipped(cx: &mut Context<'_, '_>) -> Translated {
    let mut made = cx.input(0, "input")?;
    let shape = cx.shape_of(&made);
    let bounds = [("Max", cx.optional(1)?), ("Min", cx.optional(2)?)];
    let mut steps = Steps::new(cx);
    for (operator, bound) in bounds {
        if let Some(bound) = bound {
            made = steps.apply(operator, &[&made, &bound], vec![])?;
        }
    }
    Ok(vec![steps.shaped(&made, &shape)?])
}

/// Numbers as constants of double precision that take the place of an input.
fn doubles(cx: &mut Context<'_, '_>, index: usize, array: Array<f64>) {
    let name = format!("{}/{index}", cx.name);
    let value = cx.builder.constant(name, DataType::Double, array);
    cx.inputs[index] = Given::Known(Operand::Float(DataType::Double, value));
}

/// The numbers of a value that has been folded.
fn folded(cx: &mut Context<'_, '_>, value: ValueId) -> Result<Array<f64>, NodeProblem> {
    let found = cx.builder.array(value)?;
    found.ok_or_else(|| {
        NodeProblem::unsupported(
            "folding its constant integers takes too much work; simplify the model with onnxsim",
        )
    })
}

/// Elements moved: their places are, counted from 1, and what has none is added.
fn moved(
    cx: &mut Context<'_, '_>,
    kind: DataType,
    data: &Array<i64>,
    other: Translate,
) -> Translated {
    let mut added = 0;
    if cx.proto.op_type == "Pad" {
        added = match cx.opset < 11 {
            true => cx.attributes().float_or("value", 0.0)? as i64,
            false => match cx.optional_integers(2, "constant_value")? {
                Some(given) => given.data.first().copied().unwrap_or(0),
                None => 0,
            },
        };
        if let Some(given) = cx.inputs.get_mut(2) {
            *given = Given::Absent;
        }
    }
    cx.charge(&data.shape)?;
    let count = elements(&data.shape).unwrap_or(0);
    let places = (1..=count).map(|place| place as f64).collect();
    doubles(cx, 0, Array { shape: data.shape.clone(), data: places });
    let mut made = vec![];
    for operand in other(cx)? {
        let Operand::Float(_, value) = operand else { continue };
        let places = folded(cx, value)?;
        let of = |place: f64| match (place as usize).checked_sub(1) {
            Some(place) => data.data[place],
            None => added,
        };
        made.push(Operand::integers(kind, places.map(of)));
    }
    Ok(made)
}

/// What is computed of integers in double precision.
fn computed(
    cx: &mut Context<'_, '_>,
    kind: DataType,
    count: usize,
    other: Translate,
) -> Translated {
    for index in 0..count.min(cx.inputs.len()) {
        let Some(operand) = cx.optional(index)? else { continue };
        let Operand::Integer(own, array) = operand else {
            let name = cx.proto.input.get(index).cloned().unwrap_or_default();
            return Err(NodeProblem::NotConstant { role: "input", value: name });
        };
        if own != kind {
            return Err(NodeProblem::mixed(kind, own));
        }
        cx.charge(&array.shape)?;
        let far = |bits: &&i64| wide(own, **bits).unsigned_abs() > MOST_EXACT;
        if let Some(&given) = array.data.iter().find(far) {
            return Err(NodeProblem::unsupported(format!(
                "it is folded in double precision, and {} of its constants is beyond 2^53; cut the model before it",
                wide(own, given)
            )));
        }
        doubles(cx, index, array.map(|bits| wide(own, bits) as f64));
    }
    let mut made = vec![];
    for operand in other(cx)? {
        made.push(match operand {
            Operand::Float(DataType::Double, value) => {
                let array = folded(cx, value)?;
                Operand::integers(kind, array.map(|number| wrap(kind, number as i128)))
            }
            // Places of the largest elements.
            other => other,
        });
    }
    Ok(made)
}
