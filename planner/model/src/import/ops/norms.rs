//! Normalisations by statistics of the input itself.

use super::super::array::{Array, broadcast};
use super::super::builder::Operand;
use super::super::context::{Context, axes, axis};
use super::super::error::NodeProblem;
use super::compose::Steps;
use super::reduction::log_of_sum;
use crate::graph::{Op, ValueId};
use eyelet::pack::ReduceOp;

/// Checks that an input has one number for each of so many channels, or groups.
fn one_each(
    cx: &Context<'_, '_>,
    index: usize,
    role: &'static str,
    count: usize,
) -> Result<ValueId, NodeProblem> {
    let value = cx.float(index, role)?;
    match cx.shape(value) == [count] {
        true => Ok(value),
        false => Err(NodeProblem::shape(format!(
            "`{role}` has the shape {:?}, expected [{count}]",
            cx.shape(value)
        ))),
    }
}

fn channels(cx: &Context<'_, '_>, x: ValueId) -> Result<usize, NodeProblem> {
    let shape = cx.shape(x);
    shape.get(1).copied().ok_or_else(|| {
        NodeProblem::shape(format!("the input has the shape {shape:?}, no channels"))
    })
}

/// Each channel is a group.
pub(super) fn instance(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "input")?;
    let groups = channels(cx, x)?;
    let (scale, shift) = (one_each(cx, 1, "scale", groups)?, one_each(cx, 2, "bias", groups)?);
    let epsilon = cx.attributes().float_or("epsilon", 1e-5)?;
    let shape = cx.shape(x);
    cx.emit(Op::GroupNorm { groups, epsilon }, vec![Some(x), Some(scale), Some(shift)], shape)
}

/// Scale and shift are one number a group before opset 21, one a channel since.
pub(super) fn group(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let (shape, channels) = (cx.shape(x), channels(cx, x)?);
    let given = cx.attributes().int("num_groups")?;
    let given = given.ok_or_else(|| NodeProblem::attribute("num_groups", "is missing"))?;
    let groups = usize::try_from(given).ok().filter(|&n| n > 0 && channels.is_multiple_of(n));
    let groups = groups.ok_or_else(|| {
        let reason = format!("is {given}, which does not divide {channels} channels");
        NodeProblem::attribute("num_groups", reason)
    })?;
    let epsilon = cx.attributes().float_or("epsilon", 1e-5)?;
    let count = if cx.opset < 21 { groups } else { channels };
    let mut given = [one_each(cx, 1, "scale", count)?, one_each(cx, 2, "bias", count)?];
    if count != channels {
        let mut steps = Steps::new(cx);
        for value in &mut given {
            let column = steps.reshape(*value, &[groups, 1])?;
            let all = steps.expand(column, &[groups, channels / groups])?;
            *value = steps.reshape(all, &[channels])?;
        }
    }
    let [scale, shift] = given;
    cx.emit(Op::GroupNorm { groups, epsilon }, vec![Some(x), Some(scale), Some(shift)], shape)
}

/// Reads scale or shift, which may have any shape that broadcasts to the axes that are normalised.
fn of_axes(
    cx: &Context<'_, '_>,
    index: usize,
    role: &'static str,
    normalised: &[usize],
) -> Result<Option<ValueId>, NodeProblem> {
    let Some(value) = cx.optional_float(index, role)? else { return Ok(None) };
    let own = cx.shape(value);
    match broadcast(&own, normalised).as_deref() == Some(normalised) {
        true => Ok(Some(value)),
        false => Err(NodeProblem::shape(format!(
            "`{role}` has the shape {own:?}, but normalised are {normalised:?}"
        ))),
    }
}

/// Layer normalisation, and its mean and reciprocal deviation where these are asked for.
pub(super) fn layer(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let shape = cx.shape(x);
    let axis = axis(cx.attributes().int_or("axis", -1)?, shape.len())?;
    let epsilon = cx.attributes().float_or("epsilon", 1e-5)?;
    let scale = of_axes(cx, 1, "scale", &shape[axis..])?;
    let shift = of_axes(cx, 2, "bias", &shape[axis..])?;
    let more = cx.proto.output.iter().skip(1).any(|output| !output.is_empty());
    let mut results = normal(cx, Op::LayerNorm { axis, epsilon }, x, axis, [scale, shift])?;
    if more {
        let axes: Vec<usize> = (axis..shape.len()).collect();
        let mut steps = Steps::new(cx);
        let mean = steps.reduce(ReduceOp::Mean, x, &axes)?;
        let difference = steps.pair(Op::Sub, x, mean)?;
        let variance = steps.reduce(ReduceOp::SquareMean, difference, &axes)?;
        let sum = steps.with(Op::Add, variance, epsilon.into())?;
        let root = steps.map(Op::Sqrt, sum)?;
        let one = steps.cx.number("one", 1.0);
        let inverse = steps.pair(Op::Div, one, root)?;
        results.push(steps.output(1, mean));
        results.push(steps.output(2, inverse));
    }
    Ok(results)
}

pub(super) fn rms(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let shape = cx.shape(x);
    let axis = axis(cx.attributes().int_or("axis", -1)?, shape.len())?;
    let epsilon = cx.attributes().float_or("epsilon", 1e-5)?;
    let scale = of_axes(cx, 1, "scale", &shape[axis..])?;
    normal(cx, Op::RmsNorm { axis, epsilon }, x, axis, [scale, None])
}

/// A normalisation with its scale and shift: inputs of it where both are constant, arithmetic after
/// it otherwise.
fn normal(
    cx: &mut Context<'_, '_>,
    op: Op,
    x: ValueId,
    axis: usize,
    given: [Option<ValueId>; 2],
) -> Result<Vec<Operand>, NodeProblem> {
    let shape = cx.shape(x);
    let flows =
        |cx: &Context<'_, '_>, value: ValueId| cx.builder.graph.values[value].constant.is_none();
    if given.into_iter().flatten().any(|value| flows(cx, value)) {
        let mut steps = Steps::new(cx);
        let mut y = steps.map(op, x)?;
        for (op, value) in [Op::Mul, Op::Add].into_iter().zip(given) {
            if let Some(value) = value {
                y = steps.pair(op, y, value)?;
            }
        }
        return steps.done(y);
    }
    let mut inputs = vec![Some(x)];
    for (value, role) in given.into_iter().zip(["scale", "bias"]) {
        let normalised = &shape[axis..];
        let Some(value) = value.filter(|&value| cx.shape(value) != normalised) else {
            inputs.push(value);
            continue;
        };
        cx.charge_for(normalised, size_of::<f32>())?;
        let array = cx.builder.array(value)?.ok_or(NodeProblem::Missing { index: 1, role })?;
        let (name, kind) = (format!("{}/{role}", cx.name), cx.kind());
        let spread = array.expand(normalised.to_vec());
        inputs.push(Some(cx.builder.constant(name, kind, spread)));
    }
    cx.emit(op, inputs, shape)
}

/// Batch normalisation by parameters of which some are computed.
pub(super) fn batch(
    cx: &mut Context<'_, '_>,
    x: ValueId,
    parameters: &[ValueId],
    epsilon: f32,
) -> Result<Vec<Operand>, NodeProblem> {
    let shape = cx.shape(x);
    let mut one = vec![1; shape.len() - 1];
    one[0] = shape[1];
    let mut steps = Steps::new(cx);
    let mut columns = Vec::new();
    for &value in parameters {
        columns.push(steps.reshape(value, &one)?);
    }
    let &[scale, shift, mean, variance] = &columns[..] else { return Ok(vec![]) };
    let sum = steps.with(Op::Add, variance, epsilon.into())?;
    let root = steps.map(Op::Sqrt, sum)?;
    let factor = steps.pair(Op::Div, scale, root)?;
    let difference = steps.pair(Op::Sub, x, mean)?;
    let scaled = steps.pair(Op::Mul, difference, factor)?;
    let y = steps.pair(Op::Add, scaled, shift)?;
    steps.done(y)
}

/// `(x - mean) / deviation` over axes.
pub(super) fn mean_variance(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let given = cx.attributes().ints("axes")?.map_or(vec![0, 2, 3], <[i64]>::to_vec);
    let axes = axes(&given, cx.shape(x).len())?;
    let mut steps = Steps::new(cx);
    let mean = steps.reduce(ReduceOp::Mean, x, &axes)?;
    let difference = steps.pair(Op::Sub, x, mean)?;
    let variance = steps.reduce(ReduceOp::SquareMean, difference, &axes)?;
    let deviation = steps.map(Op::Sqrt, variance)?;
    let deviation = steps.with(Op::Add, deviation, 1e-9)?;
    let y = steps.pair(Op::Div, difference, deviation)?;
    steps.done(y)
}

/// The logarithm of softmax, which no small element makes infinite. All of a row is NaN that has an infinity or NaN, or
/// negative infinities alone. Before opset 13 it is over all
/// axes from one on.
pub(super) fn log_softmax(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "input")?;
    let shape = cx.shape(x);
    let old = cx.opset < 13;
    let axis = axis(cx.attributes().int_or("axis", if old { 1 } else { -1 })?, shape.len())?;
    let axes: Vec<usize> = if old { (axis..shape.len()).collect() } else { vec![axis] };
    let mut steps = Steps::new(cx);
    let largest = steps.reduce(ReduceOp::Max, x, &axes)?;
    let sum = log_of_sum(&mut steps, [x, largest], &axes)?;
    let difference = steps.pair(Op::Sub, x, largest)?;
    let y = steps.pair(Op::Sub, difference, sum)?;
    steps.done(y)
}

/// One at the first of the largest elements of an axis, zero elsewhere. Before opset 13 it is over
/// all axes from one on.
pub(super) fn hardmax(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "input")?;
    let shape = cx.shape(x);
    let old = cx.opset < 13;
    let axis = axis(cx.attributes().int_or("axis", if old { 1 } else { -1 })?, shape.len())?;
    let length: usize = if old { shape[axis..].iter().product() } else { shape[axis] };
    if length > 1 << 24 {
        return Err(NodeProblem::shape(format!(
            "{length} elements are compared, at most 2^24 are"
        )));
    }
    let mut steps = Steps::new(cx);
    let (folded, axis) = match old {
        true => (steps.reshape(x, &[shape[..axis].iter().product(), length])?, 1),
        false => (x, axis),
    };
    let largest = steps.reduce(ReduceOp::Max, folded, &[axis])?;
    let difference = steps.pair(Op::Sub, folded, largest)?;
    // One for the largest, zero for others; then more for those that come first.
    let sign = steps.map(Op::Sign, difference)?;
    let equal = steps.with(Op::Add, sign, 1.0)?;
    let mut column = vec![1; steps.shape(folded).len() - axis];
    column[0] = length;
    steps.cx.charge_for(&column, size_of::<f64>() + size_of::<f32>())?;
    let ranks = Array { shape: column, data: (0..length).map(|at| (length - at) as f64).collect() };
    let (name, kind) = (format!("{}/ranks", steps.cx.name), steps.cx.kind());
    let ranks = steps.cx.builder.constant(name, kind, ranks);
    let ranked = steps.pair(Op::Mul, equal, ranks)?;
    let first = steps.reduce(ReduceOp::Max, ranked, &[axis])?;
    let difference = steps.pair(Op::Sub, ranked, first)?;
    let sign = steps.map(Op::Sign, difference)?;
    let y = steps.with(Op::Add, sign, 1.0)?;
    let y = steps.reshape(y, &shape)?;
    steps.done(y)
}
