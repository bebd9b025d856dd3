//! Quantised tensors: integers of 8 bits (and others) that stand for floats.
//!
//! Constants stay integers of 8 bits, with the scales of their channels. What flows is computed in
//! floats: a quantised tensor is known twice, as integers and as the floats that these stand for, and of
//! the two what nobody reads is dropped. So `DequantizeLinear` of what `QuantizeLinear` made is one
//! function ([`Op::Quantise`]), also where integers were moved in between ([`follow`]).

use super::super::array::Array;
use super::super::builder::{Operand, Quantisation};
use super::super::context::{Context, Given};
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::super::types::limits;
use super::compose::{Steps, int};
use super::flowing::{of_floats, to_floats};
use super::scales::{Numbers, made_kind};
use super::{Translate, pool};
use crate::graph::{Constant, Op, Quantised, ValueId};
use bytes::Bytes;
use eyelet::pack::ReduceOp;
use std::sync::Arc;

pub(super) fn quantize(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let (kind, shape) = (made_kind(cx, 2)?, cx.shape(x));
    let axis = cx.attributes().int_or("axis", 1)?;
    if let Some(made) = by_computed(cx, x, kind)? {
        return Ok(vec![made]);
    }
    let numbers = Numbers::read(cx, 1, kind, &shape, axis)?;
    Ok(vec![quantised(cx, x, &numbers)?])
}

/// Floats as integers by one scale and one zero that are computed; `None` where they are constant or several.
fn by_computed(
    cx: &mut Context<'_, '_>,
    x: ValueId,
    kind: DataType,
) -> Result<Option<Operand>, NodeProblem> {
    let (scale, zero) = (cx.input(1, "scale")?, cx.optional(2)?);
    let flows = |operand: &Operand| match operand {
        Operand::Float(_, value) => cx.builder.graph.values[*value].constant.is_none(),
        Operand::Whole(..) => true,
        Operand::Integer(..) => false,
    };
    let given = || [Some(&scale), zero.as_ref()].into_iter().flatten();
    let single = |operand: &Operand| cx.shape_of(operand).iter().product::<usize>() == 1;
    if !given().any(flows) || !given().all(single) {
        return Ok(None);
    }
    let (of, (low, high)) = (cx.kind(), limits(kind));
    let mut steps = Steps::new(cx);
    let mut numbers = vec![steps.shaped(&scale, &[])?];
    if let Some(zero) = &zero {
        let zero = steps.shaped(zero, &[])?;
        numbers.push(steps.apply("Cast", &[&zero], vec![int("to", of as i64)])?);
    }
    let mut q = steps.apply("Div", &[&Operand::Float(of, x), &numbers[0]], vec![])?;
    q = steps.apply("Round", &[&q], vec![])?;
    if let Some(zero) = numbers.get(1) {
        q = steps.apply("Add", &[&q, zero], vec![])?;
    }
    let [low, high] = [low, high].map(|bound| steps.scalar(of, bound as f64));
    q = steps.apply("Clip", &[&q, &low, &high], vec![])?;
    Ok(Some(steps.apply("Cast", &[&q], vec![int("to", kind as i64)])?))
}

/// A tensor of floats as integers.
pub(super) fn quantised(
    cx: &mut Context<'_, '_>,
    x: ValueId,
    numbers: &Numbers,
) -> Result<Operand, NodeProblem> {
    let (kind, shape) = (numbers.kind, cx.shape(x));
    let (low, high) = limits(kind);
    if let Some(array) = cx.builder.array(x)? {
        cx.charge(&shape)?;
        let place = numbers.places(&shape);
        let whole = array.data.iter().enumerate().map(|(at, &x)| {
            let quotient = x as f32 / numbers.scale.data[place(at)] as f32;
            let whole = quotient.round_ties_even() as i128;
            whole.saturating_add(numbers.zero[place(at)].into()).clamp(low, high) as i64
        });
        let data = whole.collect();
        return Ok(Operand::integers(kind, Array { shape, data }));
    }
    let (mut q, real) = match numbers.bounds() {
        Some((scale, [low, high])) => {
            let op = |fake| Op::Quantise { scale, low, high, fake };
            let real = cx.helper("real", op(true), vec![Some(x)], shape.clone())?;
            (cx.helper("whole", op(false), vec![Some(x)], shape.clone())?, Some(real))
        }
        None => {
            let scale = numbers.aligned(cx, "scale", &shape, false)?;
            let q = cx.helper("quotient", Op::Div, vec![Some(x), Some(scale)], shape.clone())?;
            (cx.helper("whole", Op::Round, vec![Some(q)], shape.clone())?, None)
        }
    };
    if numbers.zero.iter().any(|&zero| zero != 0) {
        let zero = numbers.aligned(cx, "zero", &shape, true)?;
        q = cx.helper("moved", Op::Add, vec![Some(q), Some(zero)], shape.clone())?;
    }
    if real.is_none() {
        let bounds = Op::Clip { min: low as f32, max: high as f32 };
        q = cx.helper("bounded", bounds, vec![Some(q)], shape)?;
    }
    let q = of_floats(cx, "words", kind, q)?;
    if let (Some(real), Some((scale, zero))) = (real, numbers.single()) {
        cx.builder.quantised.insert(q, Quantisation { scale, zero, real });
    }
    Ok(Operand::Whole(kind, q))
}

pub(super) fn dequantize(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.input(0, "x")?;
    let shape = cx.shape_of(&x);
    let axis = cx.attributes().int_or("axis", 1)?;
    let numbers = Numbers::read(cx, 1, x.kind(), &shape, axis)?;
    let name = cx.output(0);
    let value = real(cx, name, &x, &numbers)?;
    Ok(vec![Operand::Float(numbers.of, value)])
}

/// The floats that integers stand for.
pub(super) fn real(
    cx: &mut Context<'_, '_>,
    name: String,
    x: &Operand,
    numbers: &Numbers,
) -> Result<ValueId, NodeProblem> {
    let array = match x {
        Operand::Integer(_, array) => array,
        Operand::Whole(_, value) => return real_of_flowing(cx, *value, numbers),
        Operand::Float(kind, _) => return Err(NodeProblem::wrong_type("x", "integers", *kind)),
    };
    let eight = matches!(numbers.kind, DataType::Int8 | DataType::Uint8);
    if eight && !numbers.blocked && numbers.of == DataType::Float && !array.data.is_empty() {
        cx.charge_for(&array.shape, 1)?;
        let constant = Constant::Quantised(Arc::new(stored(array, numbers)));
        return Ok(cx.builder.value(name, array.shape.clone(), Some(constant)));
    }
    cx.charge_for(&array.shape, size_of::<f64>() + size_of::<f32>())?;
    let place = numbers.places(&array.shape);
    let value = |(at, &q): (usize, &i64)| {
        let place = place(at);
        f64::from((q - numbers.zero[place]) as f32 * numbers.scale.data[place] as f32)
    };
    let data = array.data.iter().enumerate().map(value).collect();
    let floats = Array { shape: array.shape.clone(), data };
    Ok(cx.builder.constant(name, numbers.of, floats))
}

/// Constant integers of 8 bits with their scales.
fn stored(array: &Array<i64>, numbers: &Numbers) -> Quantised {
    let unsigned = numbers.kind == DataType::Uint8;
    let data: Vec<u8> = array.data.iter().map(|&q| q as u8).collect();
    let shift = if unsigned { 128 } else { 0 };
    let inner = match numbers.along {
        Some((axis, _)) => array.shape[axis + 1..].iter().product(),
        None => 1,
    };
    Quantised {
        data: Bytes::from(data),
        flip: if unsigned { 0x80 } else { 0 },
        scale: numbers.scale.data.iter().map(|&scale| scale as f32).collect(),
        zero: numbers.zero.iter().map(|zero| (zero - shift) as i8).collect(),
        inner,
    }
}

fn real_of_flowing(
    cx: &mut Context<'_, '_>,
    value: ValueId,
    numbers: &Numbers,
) -> Result<ValueId, NodeProblem> {
    if let (Some(known), Some((scale, zero))) = (cx.builder.quantised.get(&value), numbers.single())
        && (known.scale, known.zero) == (scale, zero)
    {
        return Ok(known.real);
    }
    let shape = cx.shape(value);
    let mut x = to_floats(cx, "floats", value)?;
    if numbers.zero.iter().any(|&zero| zero != 0) {
        let zero = numbers.aligned(cx, "zero", &shape, true)?;
        x = cx.helper("from_zero", Op::Sub, vec![Some(x), Some(zero)], shape.clone())?;
    }
    let scale = numbers.aligned(cx, "scale", &shape, false)?;
    cx.helper("real", Op::Mul, vec![Some(x), Some(scale)], shape)
}

/// Operands as another node of this name would read them.
pub(super) fn with(
    cx: &mut Context<'_, '_>,
    operands: &[Operand],
    translate: Translate,
) -> Result<Vec<Operand>, NodeProblem> {
    let inputs = operands.iter().cloned().map(Given::Known).collect();
    let (proto, name, prefix, opset) = (cx.proto, cx.name, cx.prefix, cx.opset);
    let (builder, external) = (&mut *cx.builder, &mut *cx.external);
    translate(&mut Context { proto, name, prefix, opset, inputs, builder, external })
}

/// Lets what an operator has made of quantised tensors, by only moving their elements, stand for what
/// it makes of the floats that these stand for.
pub(super) fn follow(
    cx: &mut Context<'_, '_>,
    moved: &[ValueId],
    made: &[Operand],
    translate: Translate,
) -> Result<(), NodeProblem> {
    let found: Option<Vec<Quantisation>> =
        moved.iter().map(|value| cx.builder.quantised.get(value).copied()).collect();
    let Some([first, rest @ ..]) = found.as_deref() else { return Ok(()) };
    let Quantisation { scale, zero, .. } = *first;
    if rest.iter().any(|other| (other.scale, other.zero) != (scale, zero)) {
        return Ok(());
    }
    for (index, found) in found.iter().flatten().enumerate() {
        cx.inputs[index] = Given::Known(Operand::Float(DataType::Float, found.real));
    }
    for (made, real) in made.iter().zip(translate(cx)?) {
        if let (&Operand::Whole(_, value), Operand::Float(_, real)) = (made, real) {
            cx.builder.quantised.insert(value, Quantisation { scale, zero, real });
        }
    }
    Ok(())
}

/// The largest elements in windows, also of integers of 8 bits.
pub(super) fn max_pool(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let translate: Translate = |cx| pool::pool(cx, false);
    let Operand::Whole(kind @ (DataType::Int8 | DataType::Uint8), value) = cx.input(0, "x")? else {
        return translate(cx);
    };
    let floats = to_floats(cx, "floats", value)?;
    let made = with(cx, &[Operand::Float(DataType::Float, floats)], translate)?;
    let Some(&Operand::Float(_, largest)) = made.first() else { return Ok(made) };
    let made = vec![Operand::Whole(kind, of_floats(cx, "words", kind, largest)?)];
    follow(cx, &[value], &made, translate)?;
    Ok(made)
}

/// Unsigned integers of 8 bits from zero and scale of the tensor's own extremes, and these.
pub(super) fn dynamic(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let axes: Vec<usize> = (0..cx.shape(x).len()).collect();
    let clip = |min: f32, max: f32| Op::Clip { min, max };
    let mut steps = Steps::new(cx);
    let most = steps.reduce(ReduceOp::Max, x, &axes)?;
    let most = steps.map(clip(0.0, f32::INFINITY), most)?;
    let least = steps.reduce(ReduceOp::Min, x, &axes)?;
    let least = steps.map(clip(f32::NEG_INFINITY, 0.0), least)?;
    let range = steps.pair(Op::Sub, most, least)?;
    let scale = steps.with(Op::Div, range, 255.0)?;
    // Of nothing but zeros the scale is one.
    let some = steps.map(Op::Sign, range)?;
    let none = steps.with(Op::Mul, some, -1.0)?;
    let none = steps.with(Op::Add, none, 1.0)?;
    let scale = steps.pair(Op::Add, scale, none)?;
    let scale = steps.map(clip(f32::MIN_POSITIVE, f32::INFINITY), scale)?;
    let below = steps.pair(Op::Div, least, scale)?;
    let zero = steps.with(Op::Mul, below, -1.0)?;
    let zero = steps.map(Op::Round, zero)?;
    let zero = steps.map(clip(0.0, 255.0), zero)?;
    let quotient = steps.pair(Op::Div, x, scale)?;
    let whole = steps.map(Op::Round, quotient)?;
    let moved = steps.pair(Op::Add, whole, zero)?;
    let q = steps.map(clip(0.0, 255.0), moved)?;
    let (scale, zero) = (steps.reshape(scale, &[])?, steps.reshape(zero, &[])?);
    let q = of_floats(cx, "words", DataType::Uint8, q)?;
    let zero = of_floats(cx, "zero_words", DataType::Uint8, zero)?;
    Ok(vec![
        Operand::Whole(DataType::Uint8, q),
        Operand::Float(DataType::Float, scale),
        Operand::Whole(DataType::Uint8, zero),
    ])
}
