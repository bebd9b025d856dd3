//! Functions of constants, element by element; of computed tensors those that the graph has.

use super::super::array::{Array, broadcast};
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::super::types::{self, limits, truncated, wide, wrap};
use super::Reduction;
use super::compose::Steps;
use crate::graph::{Op, ValueId};
use std::cmp::Ordering;
use std::rc::Rc;

/// The shape two shapes broadcast to, or what is wrong.
pub(super) fn common(a: &[usize], b: &[usize]) -> Result<Vec<usize>, NodeProblem> {
    broadcast(a, b)
        .ok_or_else(|| NodeProblem::shape(format!("shapes {a:?} and {b:?} do not broadcast")))
}

/// The inputs of an operator that takes one type, however many.
pub(super) enum Operands {
    Floats(DataType, Vec<ValueId>),
    Integers(DataType, Vec<Rc<Array<i64>>>),
}

/// Reads the inputs from `first` on: at least one, none absent, all of one type.
pub(super) fn operands(
    cx: &Context<'_, '_>,
    first: usize,
    role: &'static str,
) -> Result<Operands, NodeProblem> {
    let kind = cx.input(first, role)?.kind();
    let (mut floats, mut integers) = (vec![], vec![]);
    for index in first..cx.inputs.len() {
        let operand = cx.input(index, role)?;
        if operand.kind() != kind {
            return Err(NodeProblem::mixed(kind, operand.kind()));
        }
        match operand {
            Operand::Float(_, value) => floats.push(value),
            Operand::Integer(_, array) => integers.push(array),
            Operand::Whole(kind, _) => return Err(super::flowing::refused(kind)),
        }
    }
    Ok(match floats.is_empty() {
        true => Operands::Integers(kind, integers),
        false => Operands::Floats(kind, floats),
    })
}

/// Two operands, neither more nor less.
fn pair(cx: &Context<'_, '_>) -> Result<Operands, NodeProblem> {
    match cx.inputs.len() {
        2 => operands(cx, 0, "operand"),
        count => Err(NodeProblem::shape(format!("it has {count} inputs, expected 2"))),
    }
}

/// Folds a function over integers, from the first operand to the last; each result has the type
/// `kind`.
fn integers(
    cx: &mut Context<'_, '_>,
    (from, kind): (DataType, DataType),
    arrays: &[Rc<Array<i64>>],
    function: impl Fn(i128, i128) -> Option<i128>,
) -> Result<Vec<Operand>, NodeProblem> {
    let mut total = (*arrays[0]).clone();
    for next in &arrays[1..] {
        let shape = common(&total.shape, &next.shape)?;
        cx.charge(&shape)?;
        let result = total.zip(next, shape, |a, b| {
            function(wide(from, a), wide(from, b)).map(|value| wrap(kind, value))
        });
        let data = result.data.into_iter().collect::<Option<_>>();
        let data = data.ok_or_else(|| NodeProblem::shape("an integer is divided by zero"))?;
        total = Array { shape: result.shape, data };
    }
    Ok(vec![Operand::integers(kind, total)])
}

/// Folds a function over constant floats, from the first operand to the last; `None` if one flows.
fn floats(
    cx: &mut Context<'_, '_>,
    values: &[ValueId],
    function: impl Fn(f64, f64) -> f64,
) -> Result<Option<Array<f64>>, NodeProblem> {
    let Some(mut total) = cx.builder.array(values[0])? else { return Ok(None) };
    for &next in &values[1..] {
        let Some(next) = cx.builder.array(next)? else { return Ok(None) };
        let shape = common(&total.shape, &next.shape)?;
        cx.charge_for(&shape, size_of::<f64>() + size_of::<f32>())?;
        total = total.zip(&next, shape, &function);
    }
    Ok(Some(total))
}

/// Sum, difference, product or quotient: of floats a node, of integers folded. Quotients are cut.
pub(super) fn arithmetic(cx: &mut Context<'_, '_>, op: Op) -> Result<Vec<Operand>, NodeProblem> {
    match pair(cx)? {
        Operands::Floats(_, values) => {
            let shape = common(&cx.shape(values[0]), &cx.shape(values[1]))?;
            cx.emit(op, values.into_iter().map(Some).collect(), shape)
        }
        Operands::Integers(kind, arrays) => integers(cx, (kind, kind), &arrays, |a, b| match op {
            Op::Add => Some(a + b),
            Op::Sub => Some(a - b),
            Op::Mul => Some(a.wrapping_mul(b)),
            _ => a.checked_div(b),
        }),
    }
}

/// The sum, or mean, of any number of float tensors, as a chain of additions.
pub(super) fn sum(cx: &mut Context<'_, '_>, mean: bool) -> Result<Vec<Operand>, NodeProblem> {
    let Operands::Floats(kind, values) = operands(cx, 0, "data")? else {
        return Err(NodeProblem::wrong_type("data", "floats", cx.input(0, "data")?.kind()));
    };
    let constant = |&value: &ValueId| cx.builder.graph.values[value].constant.is_some();
    if values.iter().all(constant)
        && let Some(total) = floats(cx, &values, |a, b| a + b)?
    {
        let count = if mean { values.len() as f64 } else { 1.0 };
        return Ok(cx.folded(kind, total.map(|total| total / count)));
    }
    let [first, rest @ ..] = &values[..] else { return Ok(vec![]) };
    let mut total = *first;
    for (at, &next) in rest.iter().enumerate() {
        let shape = common(&cx.shape(total), &cx.shape(next))?;
        let inputs = vec![Some(total), Some(next)];
        if at + 1 == rest.len() && !mean {
            return cx.emit(Op::Add, inputs, shape);
        }
        total = cx.helper(&(at + 1).to_string(), Op::Add, inputs, shape)?;
    }
    if rest.is_empty() {
        return Ok(vec![Operand::Float(kind, total)]);
    }
    let count = Array::scalar(values.len() as f64);
    let count = cx.builder.constant(format!("{}/count", cx.name), kind, count);
    let shape = cx.shape(total);
    cx.emit(Op::Div, vec![Some(total), Some(count)], shape)
}

/// `Max` and `Min` of any number of tensors; of one it is that tensor.
pub(super) fn extreme(cx: &mut Context<'_, '_>, most: bool) -> Result<Vec<Operand>, NodeProblem> {
    if cx.inputs.len() == 1 {
        return Ok(vec![cx.input(0, "data")?]);
    }
    match operands(cx, 0, "data")? {
        Operands::Integers(kind, arrays) => {
            integers(cx, (kind, kind), &arrays, |a, b| Some(if most { a.max(b) } else { a.min(b) }))
        }
        Operands::Floats(_, values) => {
            let op = if most { Op::Max } else { Op::Min };
            let [mut total, ref rest @ ..] = values[..] else { return Ok(vec![]) };
            for (at, &next) in rest.iter().enumerate() {
                let (op, inputs, shape) = outer_of(cx, op.clone(), total, next)?;
                if at + 1 == rest.len() {
                    return cx.emit(op, inputs, shape);
                }
                total = cx.helper(&(at + 1).to_string(), op, inputs, shape)?;
            }
            Ok(vec![])
        }
    }
}

/// The larger or the smaller of two tensors; a bound where one is a number.
#[allow(clippy::type_complexity)]
fn outer_of(
    cx: &Context<'_, '_>,
    op: Op,
    a: ValueId,
    b: ValueId,
) -> Result<(Op, Vec<Option<ValueId>>, Vec<usize>), NodeProblem> {
    let shape = common(&cx.shape(a), &cx.shape(b))?;
    for (x, bound) in [(a, b), (b, a)] {
        let flows = cx.builder.graph.values[x].constant.is_none() && cx.shape(x) == shape;
        let constant = cx.builder.graph.values[bound].constant.as_ref();
        let number = constant.filter(|data| data.len() == 1).map(|data| data.get(0));
        if let Some(number) = number.filter(|number| flows && !number.is_nan()) {
            let (min, max) = match op {
                Op::Max => (number, f32::INFINITY),
                _ => (f32::NEG_INFINITY, number),
            };
            return Ok((Op::Clip { min, max }, vec![Some(x)], shape));
        }
    }
    Ok((op, vec![Some(a), Some(b)], shape))
}

/// The remainder: with the divisor's sign, or with `fmod` the dividend's.
pub(super) fn modulo(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let fmod = cx.attributes().flag("fmod", false)?;
    match pair(cx)? {
        Operands::Integers(kind, arrays) => integers(cx, (kind, kind), &arrays, |a, b| {
            let rest = a.checked_rem(b)?;
            let other = !fmod && rest != 0 && (rest < 0) != (b < 0);
            Some(if other { rest + b } else { rest })
        }),
        Operands::Floats(_, values) if !fmod => floored(cx, [values[0], values[1]]),
        Operands::Floats(_, values) => {
            let shape = common(&cx.shape(values[0]), &cx.shape(values[1]))?;
            cx.emit(Op::Mod, values.into_iter().map(Some).collect(), shape)
        }
    }
}

/// The remainder of floats with the divisor's sign, which a remainder of zero has, too.
fn floored(cx: &mut Context<'_, '_>, [a, b]: [ValueId; 2]) -> Result<Vec<Operand>, NodeProblem> {
    let kind = cx.kind();
    let mut steps = Steps::new(cx);
    let rest = steps.pair(Op::Mod, a, b)?;
    let [rest, b] = [rest, b].map(|value| Operand::Float(kind, value));
    let [zero, below_zero] = [0.0, -0.0].map(|number| steps.scalar(kind, number));
    let less = steps.apply("Less", &[&rest, &zero], vec![])?;
    let by_less = steps.apply("Less", &[&b, &zero], vec![])?;
    let differ = steps.apply("Xor", &[&less, &by_less], vec![])?;
    let moved = steps.apply("Add", &[&rest, &b], vec![])?;
    let moved = steps.apply("Where", &[&differ, &moved, &rest], vec![])?;
    let none = steps.apply("Equal", &[&rest, &zero], vec![])?;
    let signed = steps.apply("Where", &[&by_less, &below_zero, &zero], vec![])?;
    Ok(vec![steps.apply("Where", &[&none, &signed, &moved], vec![])?])
}

/// Folds a comparison of two constants.
pub(super) fn compare(
    cx: &mut Context<'_, '_>,
    holds: fn(Ordering) -> bool,
) -> Result<Vec<Operand>, NodeProblem> {
    match pair(cx)? {
        Operands::Integers(kind, arrays) => {
            integers(cx, (kind, DataType::Bool), &arrays, |a, b| Some(holds(a.cmp(&b)).into()))
        }
        Operands::Floats(_, values) => {
            let truth = |a: f64, b: f64| f64::from(u8::from(a.partial_cmp(&b).is_some_and(holds)));
            // Floats that flow are compared elsewhere.
            let folded = floats(cx, &values, truth)?.ok_or(NodeProblem::Unknown)?;
            let truths = folded.map(|truth| i64::from(truth != 0.0));
            Ok(vec![Operand::integers(DataType::Bool, truths)])
        }
    }
}

/// Folds a function of two truth values.
pub(super) fn logic(
    cx: &mut Context<'_, '_>,
    function: fn(bool, bool) -> bool,
) -> Result<Vec<Operand>, NodeProblem> {
    match pair(cx)? {
        Operands::Integers(DataType::Bool, arrays) => {
            let bools = (DataType::Bool, DataType::Bool);
            integers(cx, bools, &arrays, |a, b| Some(function(a != 0, b != 0).into()))
        }
        Operands::Integers(kind, _) | Operands::Floats(kind, _) => {
            Err(NodeProblem::wrong_type("operand", "truth values", kind))
        }
    }
}

/// Folds a function of one constant: integers stay integers.
pub(super) fn unary(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let operator = cx.proto.op_type.as_str();
    match cx.input(0, "x")? {
        Operand::Integer(kind, array) => {
            cx.charge(&array.shape)?;
            let function: fn(i128) -> i128 = match operator {
                "Neg" => |value| -value,
                "Abs" => i128::abs,
                "Sign" => i128::signum,
                "Not" if kind == DataType::Bool => |value| i128::from(value == 0),
                _ => return Err(NodeProblem::wrong_type("x", "floats", kind)),
            };
            let result = array.map(|value| wrap(kind, function(wide(kind, value))));
            Ok(vec![Operand::integers(kind, result)])
        }
        Operand::Float(kind, value) => {
            let Some(array) = cx.builder.array(value)? else { return computed(cx, value) };
            cx.charge_for(&array.shape, size_of::<f64>() + size_of::<f32>())?;
            let function: fn(f64) -> f64 = match operator {
                "Neg" => |x| -x,
                "Abs" => f64::abs,
                "Floor" => f64::floor,
                "Ceil" => f64::ceil,
                "Round" => f64::round_ties_even,
                "Sqrt" => f64::sqrt,
                "Reciprocal" => f64::recip,
                "Exp" => f64::exp,
                "Log" => f64::ln,
                "Sign" => |x| if x == 0.0 { x } else { x.signum() },
                _ => return Err(NodeProblem::wrong_type("x", "truth values", kind)),
            };
            Ok(cx.folded(kind, array.map(function)))
        }
        Operand::Whole(kind, _) => Err(super::flowing::refused(kind)),
    }
}

/// The functions of one tensor that computed ones may have, too.
fn computed(cx: &mut Context<'_, '_>, x: ValueId) -> Result<Vec<Operand>, NodeProblem> {
    let shape = cx.shape(x);
    let op = match cx.proto.op_type.as_str() {
        "Sqrt" => Op::Sqrt,
        "Exp" => Op::Exp,
        "Log" => Op::Log,
        "Abs" => Op::Abs,
        "Floor" => Op::Floor,
        "Ceil" => Op::Ceil,
        "Round" => Op::Round,
        "Sign" => Op::Sign,
        "Neg" => {
            let minus = cx.number("constant", -1.0);
            return cx.emit(Op::Mul, vec![Some(x), Some(minus)], shape);
        }
        "Reciprocal" => {
            let one = cx.number("constant", 1.0);
            return cx.emit(Op::Div, vec![Some(one), Some(x)], shape);
        }
        _ => return Err(NodeProblem::wrong_type("x", "truth values", cx.kind())),
    };
    cx.emit(op, vec![Some(x)], shape)
}

/// `a` to the power `b`: folded of constants, by products and roots where these make it. The result
/// has the base's type.
pub(super) fn power(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let exponent = match cx.input(1, "exponent")? {
        Operand::Float(_, value) => match cx.builder.array(value)? {
            Some(exponent) => exponent,
            None => return computed_exponent(cx, value),
        },
        Operand::Integer(kind, array) => {
            array.map(|value| types::float_of(kind, value, DataType::Double))
        }
        Operand::Whole(kind, _) => return Err(super::flowing::refused(kind)),
    };
    let (kind, base) = match cx.input(0, "base")? {
        Operand::Float(kind, value) => match cx.builder.array(value)? {
            Some(base) => (kind, base),
            None => return computed_power(cx, value, &exponent),
        },
        Operand::Integer(kind, array) => {
            (kind, array.map(|value| types::float_of(kind, value, DataType::Double)))
        }
        Operand::Whole(kind, _) => return Err(super::flowing::refused(kind)),
    };
    let shape = common(&base.shape, &exponent.shape)?;
    cx.charge_for(&shape, size_of::<f64>() + size_of::<f32>())?;
    let result = base.zip(&exponent, shape, f64::powf);
    Ok(match types::is_float(kind) {
        true => cx.folded(kind, result),
        false => vec![Operand::integers(kind, result.map(|value| truncated(kind, value)))],
    })
}

fn computed_power(
    cx: &mut Context<'_, '_>,
    base: ValueId,
    exponent: &Array<f64>,
) -> Result<Vec<Operand>, NodeProblem> {
    let shape = cx.shape(base);
    let twice = vec![Some(base), Some(base)];
    let all = common(&shape, &exponent.shape)?;
    let single = all == shape;
    match exponent.data[..] {
        [0.5] if single => cx.emit(Op::Sqrt, vec![Some(base)], shape),
        [1.0] if single => Ok(vec![cx.input(0, "base")?]),
        [2.0] if single => cx.emit(Op::Mul, twice, shape),
        [3.0] if single => {
            let square = cx.helper("square", Op::Mul, twice, shape.clone())?;
            cx.emit(Op::Mul, vec![Some(square), Some(base)], shape)
        }
        [4.0] if single => {
            let square = cx.helper("square", Op::Mul, twice, shape.clone())?;
            cx.emit(Op::Mul, vec![Some(square), Some(square)], shape)
        }
        [-1.0] if single => {
            let one = cx.number("one", 1.0);
            cx.emit(Op::Div, vec![Some(one), Some(base)], shape)
        }
        [-0.5] if single => {
            let root = cx.helper("root", Op::Sqrt, vec![Some(base)], shape.clone())?;
            let one = cx.number("one", 1.0);
            cx.emit(Op::Div, vec![Some(one), Some(root)], shape)
        }
        _ => {
            let (name, kind) = (format!("{}/exponent", cx.name), cx.kind());
            let exponent = cx.builder.constant(name, kind, exponent.clone());
            cx.emit(Op::Pow, vec![Some(base), Some(exponent)], all)
        }
    }
}

/// Powers whose exponent is computed.
fn computed_exponent(
    cx: &mut Context<'_, '_>,
    exponent: ValueId,
) -> Result<Vec<Operand>, NodeProblem> {
    let base = match cx.input(0, "base")? {
        Operand::Float(_, value) => value,
        operand => return Err(NodeProblem::wrong_type("base", "floats", operand.kind())),
    };
    let shape = common(&cx.shape(base), &cx.shape(exponent))?;
    cx.emit(Op::Pow, vec![Some(base), Some(exponent)], shape)
}

/// The reduction to a product, sum, minimum or maximum; of integers it is folded.
pub(super) fn reduce(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let data = cx.input(0, "data")?;
    if matches!(data, Operand::Float(..)) {
        return super::reduction::reduce(cx);
    }
    let shape = cx.shape_of(&data);
    let from_input = cx.opset >= 18 || (cx.proto.op_type == "ReduceSum" && cx.opset >= 13);
    let Some(Reduction { axes, shape: reduced }) = super::reduced(cx, from_input, &shape)? else {
        return Ok(vec![data]);
    };
    cx.charge(&shape)?;
    let operator = cx.proto.op_type.as_str();
    Ok(match data {
        Operand::Integer(kind, array) => {
            let numbers = array.map(|value| wide(kind, value));
            let (least, most) = limits(kind);
            let (start, function): (i128, fn(i128, i128) -> i128) = match operator {
                "ReduceProd" => (1, i128::wrapping_mul),
                "ReduceSum" => (0, i128::wrapping_add),
                "ReduceMin" => (most, i128::min),
                _ => (least, i128::max),
            };
            let result = numbers.reduce(&axes, start, function).map(|value| wrap(kind, value));
            vec![Operand::integers(kind, result.reshape(reduced))]
        }
        Operand::Float(kind, _) | Operand::Whole(kind, _) => {
            return Err(super::flowing::refused(kind));
        }
    })
}
