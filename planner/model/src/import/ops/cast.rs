//! `Cast` and `CastLike`: constants take the type's values, computed tensors stay single precision.

use super::super::array::Array;
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::super::types::{self, float_of, is_float, truncated, wide, wrap};
use crate::graph::ValueId;

/// The type that a cast is to.
pub(super) fn target(cx: &Context<'_, '_>) -> Result<DataType, NodeProblem> {
    if cx.proto.op_type == "CastLike" {
        return Ok(cx.input(1, "target_type")?.kind());
    }
    let given = i32::try_from(cx.attributes().int_or("to", 0)?).unwrap_or(0);
    let known = DataType::try_from(given).ok();
    let known = known.filter(|to| !matches!(to, DataType::Undefined | DataType::String));
    known.ok_or_else(|| {
        let reason = format!("is {}; export the model in float", types::type_name(given));
        NodeProblem::attribute("to", reason)
    })
}

pub(super) fn cast(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let to = target(cx)?;
    match cx.input(0, "input")? {
        operand if operand.kind() == to => Ok(vec![operand]),
        Operand::Float(from, value) => {
            if cx.builder.graph.values[value].constant.is_some() {
                return constant(cx, from, value, to);
            }
            match is_float(to) {
                true => Ok(vec![Operand::Float(to, value)]),
                false => Err(NodeProblem::Unknown),
            }
        }
        // What flows to or from integers is another's.
        Operand::Whole(..) => Err(NodeProblem::Unknown),
        Operand::Integer(from, array) => {
            cx.charge_for(&array.shape, size_of::<f64>() + size_of::<f32>())?;
            Ok(match is_float(to) {
                true => cx.folded(to, array.map(|value| float_of(from, value, to))),
                false => {
                    let wrapped = array.map(|value| wrap(to, wide(from, value)));
                    vec![Operand::integers(to, wrapped)]
                }
            })
        }
    }
}

/// A float constant of another type. Among single and double precision and to them the data are
/// shared.
fn constant(
    cx: &mut Context<'_, '_>,
    from: DataType,
    value: ValueId,
    to: DataType,
) -> Result<Vec<Operand>, NodeProblem> {
    if matches!(to, DataType::Float | DataType::Double) {
        debug_assert!(from != to);
        let narrowed = cx.builder.narrowed(value);
        return Ok(vec![Operand::Float(to, narrowed)]);
    }
    let array: Array<f64> = cx.builder.array(value)?.ok_or(NodeProblem::Unknown)?;
    cx.charge_for(&array.shape, size_of::<f64>() + size_of::<f32>())?;
    Ok(match is_float(to) {
        true => cx.folded(to, array),
        false => vec![Operand::integers(to, array.map(|value| truncated(to, value)))],
    })
}
