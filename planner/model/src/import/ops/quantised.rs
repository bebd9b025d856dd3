//! Quantised tensors: integers of 8 bits (and others) that stand for floats.
//!
//! Constants stay integers of 8 bits, with the scales of their channels. What flows is computed in
//! floats: a quantised tensor is known twice, as integers and as the floats that these stand for, and of
//! the two what nobody reads is dropped. So `DequantizeLinear` of what `QuantizeLinear` made is one
//! function ([`Op::Quantise`]), also where integers were moved in between ([`follow`]). Operators
//! on integers (`QLinearConv` and the like) become the operators on floats between the two.

use super::super::array::Array;
use super::super::builder::{Operand, Quantisation};
use super::super::context::{Context, Given, axis};
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::super::types::{self, limits};
use super::compose::{Steps, int};
use super::{Translate, conv, elementwise, layout, linear, normalise, pointwise, pool, words};
use crate::graph::{Constant, Op, Quantised, ValueId};
use bytes::Bytes;
use eyelet::pack::ReduceOp;
use std::sync::Arc;

/// The numbers of a quantisation, one of each for every channel or block.
#[derive(Clone, Debug, PartialEq)]
struct Numbers {
    kind: DataType,
    /// The float type of the scales.
    of: DataType,
    scale: Array<f64>,
    zero: Vec<i64>,
    /// Where there are several scales: along which axis, and for how many elements each.
    along: Option<(usize, usize)>,
}

impl Numbers {
    /// Reads them: scales of input `at`, zeros of the next, if it is there.
    fn read(
        cx: &mut Context<'_, '_>,
        at: usize,
        kind: DataType,
        shape: &[usize],
        given_axis: i64,
    ) -> Result<Self, NodeProblem> {
        let value = cx.weights(at, "scale")?;
        let Some(Operand::Float(of, _)) = cx.optional(at)? else {
            unreachable!("it has been read")
        };
        let scale = cx.builder.array(value)?.unwrap_or(Array::vector(vec![]));
        let count = scale.data.len();
        let zero = match cx.optional_integers(at + 1, "zero point")? {
            Some(zero) => zero.data.clone(),
            // An empty list of zeros counts as none given.
            None => vec![0; count],
        };
        let misfit = || {
            NodeProblem::shape(format!(
                "{count} scales and {} zeros of a tensor of shape {shape:?} do not fit",
                zero.len()
            ))
        };
        if zero.len() != count || count == 0 {
            return Err(misfit());
        }
        let along = match (count, scale.shape.len()) {
            (1, 0 | 1) => None,
            (_, 1) => {
                let axis = axis(given_axis, shape.len())?;
                Some((axis, 1)).filter(|_| shape[axis] == count)
            }
            .map_or_else(|| Err(misfit()), |along| Ok(Some(along)))?,
            (_, rank) => {
                let axis = axis(given_axis, shape.len())?;
                let block = cx.attributes().int_or("block_size", 0)?;
                let block = usize::try_from(block).ok().filter(|block| *block > 0);
                let block = block.ok_or_else(misfit)?;
                let fits = |(at, (&extent, &scales)): (usize, (&usize, &usize))| {
                    scales == if at == axis { extent.div_ceil(block) } else { extent }
                };
                let all =
                    rank == shape.len() && shape.iter().zip(&scale.shape).enumerate().all(fits);
                Some(Some((axis, block)).filter(|_| all).ok_or_else(misfit)?)
            }
        };
        Ok(Self { kind, of, scale, zero, along })
    }

    /// Scale and zero, if there is one of each.
    fn single(&self) -> Option<(f32, i64)> {
        self.along.is_none().then(|| (self.scale.data[0] as f32, self.zero[0]))
    }

    /// The bounds of [`Op::Quantise`], for integers of 8 bits.
    fn bounds(&self) -> Option<(f32, [i16; 2])> {
        let (scale, zero) = self.single()?;
        let eight = matches!(self.kind, DataType::Int8 | DataType::Uint8);
        if !eight || self.of != DataType::Float || !scale.is_normal() {
            return None;
        }
        let (low, high) = limits(self.kind);
        let from = |bound: i128| i16::try_from(bound - i128::from(zero)).ok();
        Some((scale, [from(low)?, from(high)?]))
    }

    /// Of each element which scale is its own.
    fn places(&self, shape: &[usize]) -> impl Fn(usize) -> usize + use<> {
        let (axis, block) = self.along.unwrap_or((0, 1));
        let inner: usize = shape.get(axis + 1..).map_or(1, |rest| rest.iter().product()).max(1);
        let extent = shape.get(axis).copied().unwrap_or(1).max(1);
        let (several, blocked) = (self.along.is_some(), self.scale.shape.len() > 1);
        let blocks = extent.div_ceil(block);
        move |at: usize| {
            let along = at / inner % extent;
            match (several, blocked) {
                (false, _) => 0,
                (true, false) => along,
                (true, true) => (at / inner / extent * blocks + along / block) * inner + at % inner,
            }
        }
    }

    /// Numbers for each channel as a constant that broadcasts.
    fn beside(
        &self,
        cx: &mut Context<'_, '_>,
        role: &str,
        shape: &[usize],
        zeros: bool,
    ) -> ValueId {
        let data = match zeros {
            true => self.zero.iter().map(|&zero| zero as f64).collect(),
            false => self.scale.data.clone(),
        };
        let shape = match self.along {
            None => vec![],
            Some((axis, _)) if self.scale.shape.len() == 1 => {
                let channels = |at: usize| if at == axis { shape[axis] } else { 1 };
                (0..shape.len()).map(channels).collect()
            }
            Some(_) => self.scale.shape.clone(),
        };
        let name = format!("{}/{role}", cx.name);
        cx.builder.constant(name, self.of, Array { shape, data })
    }
}

/// The type of a quantised tensor that a node makes.
fn made_kind(cx: &Context<'_, '_>, zero: usize) -> Result<DataType, NodeProblem> {
    if let Some(zero) = cx.optional(zero)? {
        return Ok(zero.kind());
    }
    let given = cx.attributes().int_or("output_dtype", 0)?;
    let kind = i32::try_from(given).ok().and_then(|given| DataType::try_from(given).ok());
    match kind {
        Some(DataType::Undefined) => Ok(DataType::Uint8),
        Some(kind) if !types::is_float(kind) => Ok(kind),
        _ => {
            Err(NodeProblem::attribute("output_dtype", format!("is {given}, which is no integer")))
        }
    }
}

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
fn quantised(
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
            if numbers.scale.shape.len() > 1 {
                return Err(NodeProblem::unsupported(
                    "a tensor that is computed is quantised in blocks; quantise it by channel",
                ));
            }
            let scale = numbers.beside(cx, "scale", &shape, false);
            let q = cx.helper("quotient", Op::Div, vec![Some(x), Some(scale)], shape.clone())?;
            (cx.helper("whole", Op::Round, vec![Some(q)], shape.clone())?, None)
        }
    };
    if numbers.zero.iter().any(|&zero| zero != 0) {
        let zero = numbers.beside(cx, "zero", &shape, true);
        q = cx.helper("moved", Op::Add, vec![Some(q), Some(zero)], shape.clone())?;
    }
    if real.is_none() {
        let bounds = Op::Clip { min: low as f32, max: high as f32 };
        q = cx.helper("bounded", bounds, vec![Some(q)], shape)?;
    }
    let q = words::of_floats(cx, "words", kind, q)?;
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
fn real(
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
    let blocked = numbers.scale.shape.len() > 1;
    if eight && !blocked && numbers.of == DataType::Float && !array.data.is_empty() {
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
    if numbers.scale.shape.len() > 1 {
        return Err(NodeProblem::unsupported("a tensor that is computed has scales by block"));
    }
    let mut x = words::to_floats(cx, "floats", value)?;
    if numbers.zero.iter().any(|&zero| zero != 0) {
        let zero = numbers.beside(cx, "zero", &shape, true);
        x = cx.helper("from_zero", Op::Sub, vec![Some(x), Some(zero)], shape.clone())?;
    }
    let scale = numbers.beside(cx, "scale", &shape, false);
    cx.helper("real", Op::Mul, vec![Some(x), Some(scale)], shape)
}

/// Operands as another node of this name would read them.
fn with(
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
    let floats = words::to_floats(cx, "floats", value)?;
    let made = with(cx, &[Operand::Float(DataType::Float, floats)], translate)?;
    let Some(&Operand::Float(_, largest)) = made.first() else { return Ok(made) };
    let made = vec![Operand::Whole(kind, words::of_floats(cx, "words", kind, largest)?)];
    follow(cx, &[value], &made, translate)?;
    Ok(made)
}

/// Input `at` of an operator on integers, with scale and zero in the two after it, as floats.
fn operand(cx: &mut Context<'_, '_>, at: usize, axis: i64) -> Result<Operand, NodeProblem> {
    let x = cx.input(at, "a quantised operand")?;
    let shape = cx.shape_of(&x);
    let numbers = Numbers::read(cx, at + 1, x.kind(), &shape, axis)?;
    let name = format!("{}/operand_{at}", cx.name);
    Ok(Operand::Float(numbers.of, real(cx, name, &x, &numbers)?))
}

/// Computes with floats, and quantises what is made by the scale of input `at` and the zero of the
/// next.
fn between(
    cx: &mut Context<'_, '_>,
    at: usize,
    operands: &[Operand],
    translate: Translate,
) -> Result<Vec<Operand>, NodeProblem> {
    let made = with(cx, operands, translate)?;
    let Some(&Operand::Float(_, value)) = made.first() else { return Ok(made) };
    let (kind, shape) = (made_kind(cx, at + 1)?, cx.shape(value));
    let numbers = Numbers::read(cx, at, kind, &shape, 1)?;
    Ok(vec![quantised(cx, value, &numbers)?])
}

/// Biases of 32 bits, input `at`, in units of the product of the operands' scales and a factor.
fn bias(cx: &mut Context<'_, '_>, at: usize, factor: f32) -> Result<Option<Operand>, NodeProblem> {
    let Some(bias) = cx.optional_integers(at, "bias")? else { return Ok(None) };
    let scales = |cx: &mut Context<'_, '_>, at| {
        let value = cx.weights(at, "scale")?;
        Ok::<_, NodeProblem>(cx.builder.array(value)?.map_or(vec![], |scale| scale.data))
    };
    let (of_x, of_w) = (scales(cx, 1)?, scales(cx, 4)?);
    let scale = |at: usize| {
        let w = if of_w.len() == 1 { of_w[0] } else { *of_w.get(at % of_w.len().max(1))? };
        Some(factor * *of_x.first()? as f32 * w as f32)
    };
    let real = |(at, &q): (usize, &i64)| Some(f64::from(q as f32 * scale(at)?));
    let data: Option<Vec<f64>> = bias.data.iter().enumerate().map(real).collect();
    let data = data.ok_or_else(|| NodeProblem::shape("the operands have no scales"))?;
    let name = format!("{}/bias", cx.name);
    let array = Array { shape: bias.shape.clone(), data };
    Ok(Some(Operand::Float(DataType::Float, cx.builder.constant(name, DataType::Float, array))))
}

/// x, w, y, each with scale and zero; a bias.
pub(super) fn conv(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let mut operands = vec![operand(cx, 0, 1)?, operand(cx, 3, 0)?];
    operands.extend(bias(cx, 8, 1.0)?);
    between(cx, 6, &operands, conv::conv)
}

/// a and b with scale and zero, a bias, and scale and zero of the result, which is of floats without.
pub(super) fn gemm(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let transposed = cx.attributes().flag("transB", false)?;
    let mut operands = vec![operand(cx, 0, 1)?, operand(cx, 3, if transposed { 0 } else { 1 })?];
    let alpha = cx.attributes().float_or("alpha", 1.0)?;
    operands.extend(bias(cx, 6, alpha)?);
    match cx.optional(7)? {
        Some(_) => between(cx, 7, &operands, linear::gemm),
        None => with(cx, &operands, linear::gemm),
    }
}

pub(super) fn matmul(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let operands = [operand(cx, 0, -2)?, operand(cx, 3, -1)?];
    between(cx, 6, &operands, linear::matmul)
}

/// a, b and the result, each with scale and zero.
pub(super) fn arithmetic(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let operands = [operand(cx, 0, 1)?, operand(cx, 3, 1)?];
    match cx.proto.op_type.as_str() {
        "QLinearAdd" => between(cx, 6, &operands, |cx| elementwise::arithmetic(cx, Op::Add)),
        _ => between(cx, 6, &operands, |cx| elementwise::arithmetic(cx, Op::Mul)),
    }
}

/// x and the result, each with scale and zero.
pub(super) fn unary(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    if cx.attributes().flag("channels_last", false)? {
        return Err(NodeProblem::attribute("channels_last", "is 1; export with channels first"));
    }
    let operands = [operand(cx, 0, 1)?];
    let translate: Translate = match cx.proto.op_type.as_str() {
        "QLinearSigmoid" => |cx| pointwise::unary(cx, Op::Sigmoid),
        "QLinearLeakyRelu" => |cx| {
            let alpha = cx.attributes().float_or("alpha", 0.01)?;
            pointwise::unary(cx, Op::LeakyRelu { alpha })
        },
        "QLinearSoftmax" => normalise::softmax,
        "QLinearGlobalAveragePool" => pool::global_average,
        _ => |cx| pool::pool(cx, true),
    };
    between(cx, 3, &operands, translate)
}

/// Scale and zero of the result, then each operand with its own.
pub(super) fn concat(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let places = (2..cx.inputs.len()).step_by(3);
    let operands = places.map(|at| operand(cx, at, 1)).collect::<Result<Vec<_>, _>>()?;
    between(cx, 0, &operands, layout::concat)
}

/// An operand of integers less its zero, which is input `zero`, or less one for each of its channels: those are rows of
/// a left matrix, columns of a right one, output channels of a convolution.
fn from_zero(cx: &mut Context<'_, '_>, at: usize, zero: usize) -> Result<Operand, NodeProblem> {
    let x = cx.input(at, "an operand of integers")?;
    let own = cx.shape_of(&x);
    let given = cx.optional(zero)?;
    let zeros = given.as_ref().map_or(vec![], |given| cx.shape_of(given));
    let count: usize = zeros.iter().product();
    let first = match &given {
        Some(Operand::Integer(_, zero)) => zero.data.first().copied().unwrap_or(0),
        _ => 0,
    };
    let flows = matches!(given, Some(Operand::Whole(..)));
    let Some(zero) = given.filter(|_| flows || count > 1) else {
        let (kind, scale) = (x.kind(), Array::scalar(1.0));
        let numbers = Numbers { kind, of: DataType::Float, scale, zero: vec![first], along: None };
        let name = format!("{}/operand_{at}", cx.name);
        return Ok(Operand::Float(DataType::Float, real(cx, name, &x, &numbers)?));
    };
    let axis = match (cx.proto.op_type.as_str(), at) {
        ("ConvInteger", 0) => None,
        ("ConvInteger", _) => Some(0),
        (_, 0) => own.len().checked_sub(2),
        _ => own.len().checked_sub(1),
    };
    let shape = match (&zeros[..], axis) {
        _ if count == 1 => vec![],
        (&[several], Some(axis)) if own[axis] == several => {
            let mut shape = vec![1; own.len()];
            shape[axis] = several;
            shape
        }
        (all, Some(_)) if all.len() == own.len() => all.to_vec(),
        _ => {
            return Err(NodeProblem::shape(format!(
                "zeros of shape {zeros:?} do not fit an operand of shape {own:?}"
            )));
        }
    };
    let to = || vec![int("to", DataType::Float as i64)];
    let zero = cx.shaped(&format!("zero{at}"), zero, &shape)?;
    let zero = cx.serve(&format!("zero_float{at}"), "Cast", vec![zero], to())?;
    let x = cx.serve(&format!("float{at}"), "Cast", vec![x], to())?;
    cx.serve(&format!("from_zero{at}"), "Sub", vec![x, zero], vec![])
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
    // Of nothing but zeros any scale will do.
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
    let q = words::of_floats(cx, "words", DataType::Uint8, q)?;
    let zero = words::of_floats(cx, "zero_words", DataType::Uint8, zero)?;
    Ok(vec![
        Operand::Whole(DataType::Uint8, q),
        Operand::Float(DataType::Float, scale),
        Operand::Whole(DataType::Uint8, zero),
    ])
}

/// Products of integers, whose sums are whole numbers of 32 bits.
pub(super) fn products(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    // Padding stands for the input's zero, which is 0 here.
    let operands = [from_zero(cx, 0, 2)?, from_zero(cx, 1, 3)?];
    let translate: Translate =
        if cx.proto.op_type == "ConvInteger" { conv::conv } else { linear::matmul };
    let made = with(cx, &operands, translate)?;
    let Some(&Operand::Float(_, sums)) = made.first() else { return Ok(made) };
    Ok(vec![Operand::Whole(DataType::Int32, words::of_floats(cx, "words", DataType::Int32, sums)?)])
}
