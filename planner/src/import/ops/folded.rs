//! Operators that exist only on constants: integer chains, and what exporters wrap around weights.

use super::super::array::{Array, broadcast, elements};
use super::super::builder::{Context, Operand, axes};
use super::super::data::{self, Data};
use super::super::error::NodeProblem;
use super::super::onnx::{DataType, TensorProto};
use crate::graph::{Constant, Op, ValueId};
use std::sync::Arc;

/// The operator was met where its input is computed, not constant.
fn only_folded() -> NodeProblem {
    NodeProblem::unsupported(
        "it is only folded on constants; rewrite the model without it, or export it with constant folding",
    )
}

/// A float constant.
fn float(cx: &mut Context<'_, '_>, array: Array<f32>) -> Vec<Operand> {
    let value: ValueId = cx.builder.constant(cx.output(0), array);
    vec![Operand::Float(value)]
}

/// The shape two shapes broadcast to, or what is wrong.
pub(super) fn common(a: &[usize], b: &[usize]) -> Result<Vec<usize>, NodeProblem> {
    broadcast(a, b)
        .ok_or_else(|| NodeProblem::shape(format!("shapes {a:?} and {b:?} do not broadcast")))
}

/// Folds a function of two integer tensors.
pub(super) fn integers(
    cx: &mut Context<'_, '_>,
    a: &Array<i64>,
    b: &Array<i64>,
    function: impl Fn(i64, i64) -> Option<i64>,
) -> Result<Vec<Operand>, NodeProblem> {
    let shape = common(&a.shape, &b.shape)?;
    cx.charge(&shape)?;
    let result = a.zip(b, shape, function);
    let data = result
        .data
        .into_iter()
        .collect::<Option<Vec<i64>>>()
        .ok_or_else(|| NodeProblem::shape("the integers overflow, or are divided by zero"))?;
    Ok(vec![Operand::integers(Array { shape: result.shape, data })])
}

/// Folds a comparison or a logical function of two constants.
pub(super) fn compare(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let operator = cx.proto.op_type.as_str();
    let truth = |ordering: Option<std::cmp::Ordering>| match operator {
        "Equal" => ordering == Some(Equal),
        "Less" => ordering == Some(Less),
        "Greater" => ordering == Some(Greater),
        "LessOrEqual" => matches!(ordering, Some(Less | Equal)),
        _ => matches!(ordering, Some(Greater | Equal)),
    };
    match (cx.input(0, "a")?, cx.input(1, "b")?) {
        (Operand::Integer(a), Operand::Integer(b)) => integers(cx, &a, &b, |a, b| {
            Some(match operator {
                "And" => i64::from(a != 0 && b != 0),
                "Or" => i64::from(a != 0 || b != 0),
                "Mod" => return modulo(a, b),
                "Min" => a.min(b),
                "Max" => a.max(b),
                _ => i64::from(truth(a.partial_cmp(&b))),
            })
        }),
        (Operand::Float(a), Operand::Float(b)) => {
            let (Some(a), Some(b)) = (cx.builder.array(a)?, cx.builder.array(b)?) else {
                return Err(only_folded());
            };
            if matches!(operator, "And" | "Or" | "Mod" | "Min" | "Max") {
                return Err(NodeProblem::unsupported("only integer tensors are; rewrite it"));
            }
            let shape = common(&a.shape, &b.shape)?;
            cx.charge(&shape)?;
            let result = a.zip(&b, shape, |a, b| i64::from(truth(a.partial_cmp(&b))));
            Ok(vec![Operand::integers(result)])
        }
        _ => Err(NodeProblem::Type { role: "b", wanted: "the same kind of", given: "another" }),
    }
}

/// Folds a function of one constant: integers stay integers.
pub(super) fn fold_unary(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let operator = cx.proto.op_type.as_str();
    match cx.input(0, "x")? {
        Operand::Integer(array) => {
            cx.charge(&array.shape)?;
            let function: fn(i64) -> i64 = match operator {
                "Neg" => i64::wrapping_neg,
                "Abs" => i64::wrapping_abs,
                "Not" => |value| i64::from(value == 0),
                "Floor" | "Ceil" | "Round" => |value| value,
                _ => {
                    return Err(NodeProblem::Type {
                        role: "x",
                        wanted: "a float",
                        given: "an integer",
                    });
                }
            };
            Ok(vec![Operand::integers(array.map(function))])
        }
        Operand::Float(value) => {
            let Some(array) = cx.builder.array(value)? else { return computed_unary(cx, value) };
            let function: fn(f32) -> f32 = match operator {
                "Neg" => |x| -x,
                "Abs" => f32::abs,
                "Floor" => f32::floor,
                "Ceil" => f32::ceil,
                "Round" => f32::round_ties_even,
                "Sqrt" => f32::sqrt,
                "Reciprocal" => f32::recip,
                "Exp" => |x| f64::from(x).exp() as f32,
                "Log" => |x| f64::from(x).ln() as f32,
                _ => return Err(only_folded()),
            };
            Ok(float(cx, array.map(function)))
        }
        Operand::Whole(_) => Err(only_folded()),
    }
}

/// The functions of one tensor that computed ones may have, too.
fn computed_unary(cx: &mut Context<'_, '_>, x: ValueId) -> Result<Vec<Operand>, NodeProblem> {
    let shape = cx.shape(x);
    let number = |cx: &mut Context<'_, '_>, value| {
        let name = format!("{}/constant", cx.name);
        cx.builder.constant(name, Array::scalar(value))
    };
    match cx.proto.op_type.as_str() {
        "Sqrt" => cx.emit(Op::Sqrt, vec![Some(x)], shape),
        "Neg" => {
            let minus = number(cx, -1.0);
            cx.emit(Op::Mul, vec![Some(x), Some(minus)], shape)
        }
        "Reciprocal" => {
            let one = number(cx, 1.0);
            cx.emit(Op::Div, vec![Some(one), Some(x)], shape)
        }
        _ => Err(only_folded()),
    }
}

/// `a` to the power `b`, both constant, or a computed tensor to a power that products and roots make.
pub(super) fn power(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let base = cx.float(0, "base")?;
    let exponent = match cx.input(1, "exponent")? {
        Operand::Float(value) => cx.builder.array(value)?,
        Operand::Integer(array) => Some(array.map(|value| value as f32)),
        Operand::Whole(_) => None,
    };
    let Some(exponent) = exponent else { return Err(only_folded()) };
    let shape = common(&cx.shape(base), &exponent.shape)?;
    if cx.builder.graph.values[base].constant.is_none() && shape == cx.shape(base) {
        let twice = vec![Some(base), Some(base)];
        return match exponent.data[..] {
            [0.5] => cx.emit(Op::Sqrt, vec![Some(base)], shape),
            [1.0] => Ok(vec![Operand::Float(base)]),
            [2.0] => cx.emit(Op::Mul, twice, shape),
            [3.0] => {
                let name = format!("{}/square", cx.name);
                let outputs = vec![(name.clone(), shape.clone())];
                let square = cx.builder.node(name, Op::Mul, twice, outputs)?[0];
                cx.emit(Op::Mul, vec![Some(square), Some(base)], shape)
            }
            _ => Err(NodeProblem::unsupported(
                "of a computed tensor only the powers 1/2, 1, 2 and 3 are; rewrite it as products",
            )),
        };
    }
    let Some(base) = cx.builder.array(base)? else { return Err(only_folded()) };
    cx.charge_for(&shape, size_of::<f32>())?;
    let power = |x: f32, y: f32| f64::from(x).powf(f64::from(y)) as f32;
    Ok(float(cx, base.zip(&exponent, shape, power)))
}

/// The remainder with the divisor's sign.
fn modulo(a: i64, b: i64) -> Option<i64> {
    let rest = a.checked_rem(b)?;
    Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
}

/// A tensor of the file, as an operand.
fn loaded(cx: &mut Context<'_, '_>, tensor: &TensorProto) -> Result<Vec<Operand>, NodeProblem> {
    Ok(vec![match data::read(tensor, cx.external, &cx.builder.allowance)? {
        Data::Integer(array) => Operand::integers(array),
        Data::Float { shape, constant } => {
            Operand::Float(cx.builder.value(cx.output(0), shape, Some(constant)))
        }
    }])
}

pub(super) fn constant(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let attributes = cx.attributes();
    if let Some(tensor) = attributes.tensor("value")? {
        loaded(cx, tensor)
    } else if let Some(value) = attributes.float("value_float")? {
        Ok(float(cx, Array::scalar(value)))
    } else if let Some(values) = attributes.floats("value_floats")? {
        Ok(float(cx, Array::vector(values.to_vec())))
    } else if let Some(value) = attributes.int("value_int")? {
        Ok(vec![Operand::integers(Array::scalar(value))])
    } else if let Some(values) = attributes.ints("value_ints")? {
        Ok(vec![Operand::integers(Array::vector(values.to_vec()))])
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
    let value = match cx.attributes().tensor("value")? {
        None => Data::Float { shape: vec![], constant: Constant::Owned(Arc::new(vec![0.0])) },
        Some(tensor) => data::read(tensor, cx.external, &cx.builder.allowance)?,
    };
    match value {
        Data::Float { constant, .. } if constant.len() == 1 => {
            cx.charge_for(&shape, size_of::<f32>())?;
            Ok(float(cx, Array { shape, data: vec![constant.get(0); count] }))
        }
        Data::Integer(array) if array.data.len() == 1 => {
            cx.charge(&shape)?;
            Ok(vec![Operand::integers(Array { shape, data: vec![array.data[0]; count] })])
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
    Ok(vec![Operand::integers(Array::vector(extents))])
}

/// `Size`: the number of elements.
pub(super) fn size(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let shape = cx.shape_of(&cx.input(0, "data")?);
    let count = elements(&shape).ok_or_else(|| NodeProblem::shape("too many elements"))?;
    Ok(vec![Operand::integers(Array::scalar(count as i64))])
}

/// `Cast` and `CastLike`: all floats are one type here, so among them nothing happens.
pub(super) fn cast(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let to = if cx.proto.op_type == "CastLike" {
        match cx.input(1, "target_type")? {
            Operand::Float(_) => DataType::Float as i32,
            Operand::Integer(_) | Operand::Whole(_) => DataType::Int64 as i32,
        }
    } else {
        let to = cx.attributes().int_or("to", 0)?;
        i32::try_from(to).unwrap_or(0)
    };
    let known = DataType::try_from(to).unwrap_or(DataType::Undefined);
    if matches!(known, DataType::Undefined | DataType::String) {
        return Err(NodeProblem::attribute(
            "to",
            format!("is {}; export the model in float", data::type_name(to)),
        ));
    }
    let input = cx.input(0, "input")?;
    match (input, data::is_float(to)) {
        (Operand::Float(value), true) => Ok(vec![Operand::Float(value)]),
        (Operand::Float(value), false) => {
            let Some(array) = cx.builder.array(value)? else {
                return Err(NodeProblem::unsupported(format!(
                    "a computed tensor cannot become {}; only floats are computed",
                    data::type_name(to)
                )));
            };
            cx.charge(&array.shape)?;
            Ok(vec![Operand::integers(match known {
                DataType::Bool => array.map(|value| i64::from(value != 0.0)),
                _ => array.map(|value| value as i64),
            })])
        }
        // exact up to 2²⁴
        (Operand::Whole(value), true) => Ok(vec![Operand::Float(value)]),
        (Operand::Whole(value), false) if data::is_index(to) => Ok(vec![Operand::Whole(value)]),
        (Operand::Whole(_), false) => Err(only_folded()),
        (Operand::Integer(array), true) => {
            cx.charge_for(&array.shape, size_of::<f32>())?;
            Ok(float(cx, array.map(|value| value as f32)))
        }
        (Operand::Integer(array), false) => {
            cx.charge(&array.shape)?;
            Ok(vec![Operand::integers(match known {
                DataType::Bool => array.map(|value| i64::from(value != 0)),
                DataType::Int32 => array.map(|value| i64::from(value as i32)),
                _ => (*array).clone(),
            })])
        }
    }
}

pub(super) fn range(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    if let Operand::Float(_) = cx.input(0, "start")? {
        let mut ends = [0f32; 3];
        for (index, role) in ["start", "limit", "delta"].into_iter().enumerate() {
            let value = cx.optional_scalar(index, role)?;
            ends[index] = value.ok_or(NodeProblem::Missing { index, role })?;
        }
        let [start, limit, delta] = ends.map(f64::from);
        let count = ((limit - start) / delta).ceil().max(0.0);
        if count.is_nan() {
            return Err(NodeProblem::shape("the step is zero"));
        }
        cx.charge_for(&[count as usize], size_of::<f32>())?;
        let data = (0..count as usize).map(|at| (start + at as f64 * delta) as f32).collect();
        return Ok(float(cx, Array::vector(data)));
    }
    let mut ends = [0i128; 3];
    for (index, role) in ["start", "limit", "delta"].into_iter().enumerate() {
        match cx.integers(index, role)?.data[..] {
            [value] => ends[index] = i128::from(value),
            _ => return Err(NodeProblem::shape(format!("`{role}` is not one number"))),
        }
    }
    let [start, limit, delta] = ends;
    let count = match delta {
        0 => return Err(NodeProblem::shape("the step is zero")),
        1.. => (limit - start + delta - 1) / delta,
        _ => (start - limit - delta - 1) / -delta,
    };
    let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
    cx.charge(&[count])?;
    let data = (0..count as i128).map(|at| (start + at * delta) as i64).collect();
    Ok(vec![Operand::integers(Array::vector(data))])
}

/// `Where` on constants, or a constant that takes the place of a part of a computed tensor.
pub(super) fn select(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let condition = cx.integers(0, "condition")?;
    match (cx.input(1, "x")?, cx.input(2, "y")?) {
        (Operand::Integer(x), Operand::Integer(y)) => {
            Ok(vec![Operand::integers(choose(cx, &condition, &x, &y)?)])
        }
        (Operand::Float(x), Operand::Float(y)) => {
            match (cx.builder.array(x)?, cx.builder.array(y)?) {
                (Some(x), Some(y)) => {
                    let chosen = choose(cx, &condition, &x, &y)?;
                    Ok(float(cx, chosen))
                }
                (Some(x), None) => mask(cx, y, &x, &condition),
                (None, Some(y)) => mask(cx, x, &y, &condition.map(|which| i64::from(which == 0))),
                (None, None) => Err(NodeProblem::unsupported(
                    "one of the tensors that it chooses from must be constant; rewrite it as arithmetic",
                )),
            }
        }
        _ => Err(NodeProblem::Type { role: "y", wanted: "the same kind of", given: "another" }),
    }
}

/// The computed tensor `x`, with `constant` where the condition holds.
fn mask(
    cx: &mut Context<'_, '_>,
    x: ValueId,
    constant: &Array<f32>,
    condition: &Array<i64>,
) -> Result<Vec<Operand>, NodeProblem> {
    if constant.data.iter().any(|value| value.is_nan()) {
        return Err(NodeProblem::unsupported("its constant is no number; use another value"));
    }
    let mask = choose(cx, condition, constant, &Array::scalar(f32::NAN))?;
    let shape = common(&cx.shape(x), &mask.shape)?;
    let name = format!("{}/mask", cx.name);
    let mask = cx.builder.constant(name, mask);
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
    match input {
        Operand::Integer(array) => {
            cx.charge(&shape)?;
            Ok(vec![Operand::integers(array.expand(shape))])
        }
        Operand::Whole(_) => Err(only_folded()),
        Operand::Float(value) => {
            let Some(array) = cx.builder.array(value)? else {
                return cx.emit(Op::Expand, vec![Some(value)], shape);
            };
            cx.charge_for(&shape, size_of::<f32>())?;
            Ok(float(cx, array.expand(shape)))
        }
    }
}

/// Folds the reduction of integers to a product, sum, minimum or maximum.
pub(super) fn reduce(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let Operand::Integer(array) = cx.input(0, "data")? else { return Err(only_folded()) };
    let from_input = cx.opset >= 18 || (cx.proto.op_type == "ReduceSum" && cx.opset >= 13);
    let given = match from_input {
        true => cx.optional_integers(1, "axes")?.map(|axes| axes.data.clone()),
        false => cx.attributes().ints("axes")?.map(<[i64]>::to_vec),
    };
    let rank = array.shape.len();
    let reduced: Vec<usize> = match given {
        Some(given) if !given.is_empty() => axes(&given, rank)?,
        _ if cx.attributes().flag("noop_with_empty_axes", false)? => {
            return Ok(vec![Operand::Integer(array)]);
        }
        _ => (0..rank).collect(),
    };
    cx.charge(&array.shape)?;
    let (start, function): (i64, fn(i64, i64) -> i64) = match cx.proto.op_type.as_str() {
        "ReduceProd" => (1, i64::wrapping_mul),
        "ReduceSum" => (0, i64::wrapping_add),
        "ReduceMin" => (i64::MAX, i64::min),
        _ => (i64::MIN, i64::max),
    };
    let kept = array.reduce(&reduced, start, function);
    if cx.attributes().flag("keepdims", true)? {
        return Ok(vec![Operand::integers(kept)]);
    }
    let left = (0..rank).filter(|axis| !reduced.contains(axis));
    let shape = left.map(|axis| kept.shape[axis]).collect();
    Ok(vec![Operand::integers(kept.reshape(shape))])
}
