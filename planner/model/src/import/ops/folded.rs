//! Constants that operators make: tensors of the model, shapes, ranges, and what is chosen among
//! them.

use super::super::array::{Array, Movement, elements};
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::data::{self, Data, Floats};
use super::super::error::NodeProblem;
use super::super::onnx::{DataType, TensorProto};
use super::super::types::{is_float, rounded, wide, wrap};
use super::compose::Steps;
use super::computed::flows;
use super::elementwise::{Operands, common, operands};
use super::flowing::flowing;
use super::offsets;
use crate::graph::{Constant, Op, ValueId};
use std::sync::Arc;

/// A tensor of the file, as an operand.
fn loaded(cx: &mut Context<'_, '_>, tensor: &TensorProto) -> Result<Vec<Operand>, NodeProblem> {
    Ok(vec![match data::read(tensor, cx.external, &cx.builder.allowance)? {
        Data::Integer(kind, array) => Operand::integers(kind, array),
        Data::Float(kind, floats) => {
            let name = cx.output(0);
            Operand::Float(kind, cx.builder.floats(name, floats))
        }
    }])
}

pub(super) fn constant(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let attributes = cx.attributes();
    let integers = |array| vec![Operand::integers(DataType::Int64, array)];
    if let Some(tensor) = attributes.tensor("value")? {
        loaded(cx, tensor)
    } else if let Some(value) = attributes.float("value_float")? {
        Ok(cx.folded(DataType::Float, Array::scalar(value.into())))
    } else if let Some(values) = attributes.floats("value_floats")? {
        let values = values.iter().map(|&value| value.into()).collect();
        Ok(cx.folded(DataType::Float, Array::vector(values)))
    } else if let Some(value) = attributes.int("value_int")? {
        Ok(integers(Array::scalar(value)))
    } else if let Some(values) = attributes.ints("value_ints")? {
        Ok(integers(Array::vector(values.to_vec())))
    } else {
        Err(NodeProblem::unsupported("its value is neither dense numbers nor a tensor of them"))
    }
}

/// Integers as a shape.
fn shape_from(given: &[i64]) -> Result<Vec<usize>, NodeProblem> {
    let shape = given.iter().map(|&extent| usize::try_from(extent).ok()).collect::<Option<_>>();
    shape.ok_or_else(|| NodeProblem::shape(format!("{given:?} is not a shape")))
}

pub(super) fn constant_of_shape(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let shape = shape_from(&cx.few(0, "shape")?.data)?;
    let count = elements(&shape).unwrap_or(0);
    let given = match cx.attributes().tensor("value")? {
        None => {
            let zero = Array::scalar(0.0);
            Data::Float(DataType::Float, Floats::new(DataType::Float, zero))
        }
        Some(tensor) => data::read(tensor, cx.external, &cx.builder.allowance)?,
    };
    match given {
        Data::Integer(kind, Array { data, .. }) if data.len() == 1 => {
            cx.charge(&shape)?;
            Ok(vec![Operand::integers(kind, Array { shape, data: vec![data[0]; count] })])
        }
        Data::Float(kind, Floats { constant, exact, .. }) if constant.len() == 1 => {
            let bytes_each = size_of::<f32>() + exact.as_ref().map_or(0, |_| size_of::<f64>());
            cx.charge_for(&shape, bytes_each)?;
            let exact = exact.map(|exact| Arc::new(vec![exact[0]; count]));
            let constant = Constant::Owned(Arc::new(vec![constant.get(0); count]));
            let name = cx.output(0);
            let value = cx.builder.floats(name, Floats { shape, constant, exact });
            Ok(vec![Operand::Float(kind, value)])
        }
        _ => Err(NodeProblem::attribute("value", "is not one number")),
    }
}

/// `Shape`: all extents, or those from `start` to `end`.
pub(super) fn shape(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let shape = cx.shape_of(&cx.input(0, "data")?);
    let rank = shape.len() as i64;
    let counted =
        |at: i64| (if at < 0 { at.saturating_add(rank) } else { at }).clamp(0, rank) as usize;
    let start = counted(cx.attributes().int_or("start", 0)?);
    let end = counted(cx.attributes().int_or("end", rank)?).max(start);
    let extents = shape[start..end].iter().map(|&extent| extent as i64).collect();
    Ok(vec![Operand::integers(DataType::Int64, Array::vector(extents))])
}

/// `Size`: the number of elements.
pub(super) fn size(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let shape = cx.shape_of(&cx.input(0, "data")?);
    let count = elements(&shape).ok_or_else(|| NodeProblem::shape("too many elements"))?;
    Ok(vec![Operand::integers(DataType::Int64, Array::scalar(count as i64))])
}

/// The number of steps of a range of floats, whose length is rounded to the type before it is
/// divided.
fn float_steps(kind: DataType, [start, limit, delta]: [f64; 3]) -> Result<usize, NodeProblem> {
    let count = (rounded(kind, limit - start) / delta).ceil().max(0.0);
    match count.is_finite() {
        true => Ok(count as usize),
        false => Err(NodeProblem::shape("the step is zero, or the range is endless")),
    }
}

/// `Range` from a start that is computed, over a constant number of elements.
fn computed_range(
    cx: &mut Context<'_, '_>,
    [start, limit, delta]: [Operand; 3],
) -> Result<Vec<Operand>, NodeProblem> {
    let kind = start.kind();
    for other in [&limit, &delta] {
        if other.kind() != kind {
            return Err(NodeProblem::mixed(kind, other.kind()));
        }
        if elements(&cx.shape_of(other)) != Some(1) || elements(&cx.shape_of(&start)) != Some(1) {
            return Err(NodeProblem::shape("start, limit and step are not one number each"));
        }
    }
    let [from, to, by] =
        [flowing(cx, 0, &start)?, flowing(cx, 1, &limit)?, flowing(cx, 2, &delta)?];
    let Some(by) = offsets::known(&cx.builder.graph, (by, 0)) else {
        return Err(NodeProblem::NotConstant { role: "delta", value: cx.name_of(by) });
    };
    let Some(length) = offsets::difference(&cx.builder.graph, (to, 0), (from, 0)) else {
        return Err(NodeProblem::length("limit - start", cx.name_of(to)));
    };
    let count = (length / by).ceil().max(0.0);
    if !count.is_finite() {
        return Err(NodeProblem::shape("the step is zero, or the range is endless"));
    }
    let count = count as usize;
    cx.charge_for(&[count], size_of::<f64>() + size_of::<f32>())?;
    let mut steps = Steps::new(cx);
    let places = match is_float(kind) {
        true => {
            let data = (0..count).map(|at| at as f64 * by).collect();
            let name = format!("{}/steps", steps.cx.name);
            Operand::Float(kind, steps.cx.builder.constant(name, kind, Array::vector(data)))
        }
        false => {
            let data = (0..count).map(|at| wrap(kind, at as i128 * by as i128)).collect();
            Operand::integers(kind, Array::vector(data))
        }
    };
    if count == 0 {
        return Ok(vec![places]);
    }
    let first = steps.shaped(&start, &[1])?;
    Ok(vec![steps.apply("Add", &[&first, &places], vec![])?])
}

pub(super) fn range(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let given = [cx.input(0, "start")?, cx.input(1, "limit")?, cx.input(2, "delta")?];
    if given.iter().any(|operand| flows(cx, operand)) {
        return computed_range(cx, given);
    }
    let single = |count| match count {
        1 => Ok(()),
        _ => Err(NodeProblem::shape("start, limit and step are not one number each")),
    };
    match operands(cx, 0, "start, limit and step")? {
        Operands::Floats(kind, values) => {
            let mut ends = [0.0; 3];
            for (end, &value) in ends.iter_mut().zip(&values) {
                let array = cx.builder.array(value)?.ok_or(NodeProblem::Unknown)?;
                single(array.data.len())?;
                *end = array.data[0];
            }
            let count = float_steps(kind, ends)?;
            cx.charge_for(&[count], size_of::<f64>() + size_of::<f32>())?;
            let data = (0..count).map(|at| ends[0] + at as f64 * ends[2]).collect();
            Ok(cx.folded(kind, Array::vector(data)))
        }
        Operands::Integers(kind, arrays) => {
            let mut ends = [0; 3];
            for (end, array) in ends.iter_mut().zip(&arrays) {
                single(array.data.len())?;
                *end = wide(kind, array.data[0]);
            }
            let [start, limit, delta] = ends;
            let count = match delta {
                0 => return Err(NodeProblem::shape("the step is zero")),
                1.. => (limit - start + delta - 1) / delta,
                _ => (start - limit - delta - 1) / -delta,
            };
            let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
            cx.charge(&[count])?;
            let data = (0..count as i128).map(|at| wrap(kind, start + at * delta)).collect();
            Ok(vec![Operand::integers(kind, Array::vector(data))])
        }
    }
}

/// `Where` on constants, or a constant that takes the place of a part of a computed tensor.
pub(super) fn select(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let condition = cx.integers(0, "condition")?;
    match operands(cx, 1, "x and y")? {
        Operands::Integers(kind, arrays) => {
            let [x, y] = &arrays[..] else { return Err(missing_choice()) };
            Ok(vec![Operand::integers(kind, choose(cx, &condition, x, y)?)])
        }
        Operands::Floats(kind, values) => {
            let &[x, y] = &values[..] else { return Err(missing_choice()) };
            match (cx.builder.array(x)?, cx.builder.array(y)?) {
                (Some(x), Some(y)) => {
                    let chosen = choose(cx, &condition, &x, &y)?;
                    Ok(cx.folded(kind, chosen))
                }
                (Some(x), None) => mask(cx, y, &x, &condition),
                (None, Some(y)) => mask(cx, x, &y, &condition.map(|which| i64::from(which == 0))),
                // Two that flow are chosen among elsewhere.
                (None, None) => Err(NodeProblem::Unknown),
            }
        }
    }
}

fn missing_choice() -> NodeProblem {
    NodeProblem::Missing { index: 2, role: "y" }
}

/// The computed tensor `x`, with `constant` where the condition holds.
fn mask(
    cx: &mut Context<'_, '_>,
    x: ValueId,
    constant: &Array<f64>,
    condition: &Array<i64>,
) -> Result<Vec<Operand>, NodeProblem> {
    let mask = choose(cx, condition, constant, &Array::scalar(f64::NAN))?;
    let shape = common(&cx.shape(x), &mask.shape)?;
    let (name, kind) = (format!("{}/mask", cx.name), cx.kind());
    let mask = cx.builder.constant(name, kind, mask);
    cx.emit(Op::Mask, vec![Some(x), Some(mask)], shape)
}

fn choose<T: Copy>(
    cx: &mut Context<'_, '_>,
    condition: &Array<i64>,
    x: &Array<T>,
    y: &Array<T>,
) -> Result<Array<T>, NodeProblem> {
    let shape = common(&condition.shape, &common(&x.shape, &y.shape)?)?;
    // The pairs, and what is chosen of them.
    cx.charge_for(&shape, 3 * size_of::<T>())?;
    let both = x.zip(y, common(&x.shape, &y.shape)?, |x, y| (x, y));
    Ok(condition.zip(&both, shape, |which, (x, y)| if which != 0 { x } else { y }))
}

/// `Expand`: nothing where the shape stays.
pub(super) fn expand(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let input = cx.input(0, "input")?;
    let wanted = shape_from(&cx.few(1, "shape")?.data)?;
    let own = cx.shape_of(&input);
    let shape = common(&own, &wanted)?;
    if shape == own {
        return Ok(vec![input]);
    }
    match cx.moved(0, &input, &Movement::Expand(shape.clone()), &shape)? {
        Some(folded) => Ok(vec![folded]),
        None => {
            let value = cx.float(0, "input")?;
            cx.emit(Op::Expand, vec![Some(value)], shape)
        }
    }
}
