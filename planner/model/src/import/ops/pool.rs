//! Pooling over one to three spatial dimensions, and over all of them.
//!
//! The graph has pools over two. One-dimensional ones are widened to height 1. Three-dimensional
//! ones pool each depth's image, then the depths: a maximum of maxima is the maximum, and the
//! positions that a mean counts are a product, too.

use super::super::array::Array;
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::compose::{Steps, int};
use super::conv::{convolved, flattened};
use super::geometry::{Along, add, check_image, cropped, square, windows};
use crate::graph::{Op, ValueId};
use eyelet::pack::ReduceOp;

/// What is made of a window.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Max,
    Average { count_include_pad: bool },
}

/// A pool of some kind.
#[derive(Clone, Copy)]
struct Pool {
    kind: Kind,
    ceil: bool,
}

impl Pool {
    fn op(self, windows: [Along; 2]) -> Op {
        let (window, ceil) = (square(windows), self.ceil);
        match self.kind {
            Kind::Max => Op::MaxPool { window, ceil },
            Kind::Average { count_include_pad } => {
                Op::AveragePool { window, ceil, count_include_pad }
            }
        }
    }
}

pub(super) fn pool(cx: &mut Context<'_, '_>, average: bool) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let shape = cx.shape(x);
    check_image(&shape)?;
    let attributes = cx.attributes();
    let windows = windows(attributes, &shape[2..], None)?;
    let ceil = attributes.flag("ceil_mode", false)?;
    check(&windows, &shape[2..])?;
    let kind = match average {
        true => Kind::Average { count_include_pad: attributes.flag("count_include_pad", false)? },
        false => Kind::Max,
    };
    let places = !average && cx.proto.output.get(1).is_some_and(|output| !output.is_empty());
    let result = pooled(cx, x, windows.clone(), Pool { kind, ceil })?;
    let mut made = vec![Operand::Float(cx.kind(), result)];
    if places {
        let spatial = cx.shape(result)[2..].to_vec();
        made.push(places_of_largest(cx, x, &windows, &spatial)?);
    }
    Ok(made)
}

/// Where in the input the largest element of each window is, as one number. What each tap of the windows sees is laid
/// side by side, and the largest of it found.
fn places_of_largest(
    cx: &mut Context<'_, '_>,
    x: ValueId,
    windows: &[Along],
    made: &[usize],
) -> Result<Operand, NodeProblem> {
    if windows.iter().any(|window| window.begin < 0 || window.end < 0) {
        return Err(NodeProblem::attribute(
            "pads",
            "takes elements away, and places are asked for",
        ));
    }
    let (shape, kind) = (cx.shape(x), cx.kind());
    let columns_first = cx.attributes().flag("storage_order", false)?;
    let (extents, rank) = (&shape[2..], windows.len());
    let mut order: Vec<usize> = (0..rank).collect();
    if columns_first {
        order.reverse();
    }
    // From one element of an axis to the next.
    let mut strides = vec![1; rank];
    for pair in order.windows(2).rev() {
        strides[pair[0]] = strides[pair[1]] * extents[pair[1]];
    }
    let plane: usize = extents.iter().product();
    let mut steps = Steps::new(cx);
    let mut place = first_places(&mut steps, &shape, windows, made, &strides)?;
    let taps: usize = windows.iter().map(|window| window.kernel).product();
    if taps > 1 {
        let seen = taps_of(&mut steps, x, windows, made)?;
        let keep = vec![int("axis", 2), int("keepdims", 0)];
        let tap = steps.apply("ArgMax", &[&Operand::Float(kind, seen)], keep)?;
        let mut inner = taps;
        for (window, stride) in windows.iter().zip(strides) {
            inner /= window.kernel;
            let [by, kernel, step] = [inner, window.kernel, window.dilation * stride]
                .map(|number| steps.scalar(DataType::Int64, number as f64));
            let at = steps.apply("Div", &[&tap, &by], vec![])?;
            let at = steps.apply("Mod", &[&at, &kernel], vec![])?;
            let moved = steps.apply("Mul", &[&at, &step], vec![])?;
            place = steps.apply("Add", &[&moved, &place], vec![])?;
        }
    }
    let planes = (0..shape[0] * shape[1]).map(|at| (at * plane) as i64).collect();
    let mut wide = vec![1; shape.len()];
    wide[..2].copy_from_slice(&shape[..2]);
    let planes = Operand::integers(DataType::Int64, Array { shape: wide, data: planes });
    steps.apply("Add", &[&place, &planes], vec![])
}

/// The place of each window's first tap in its plane; of one in the padding it may be below zero.
fn first_places(
    steps: &mut Steps<'_, '_, '_>,
    shape: &[usize],
    windows: &[Along],
    made: &[usize],
    strides: &[usize],
) -> Result<Operand, NodeProblem> {
    let count = made.iter().product::<usize>();
    steps.cx.charge(made)?;
    let mut data = vec![0; count];
    for (at, place) in data.iter_mut().enumerate() {
        let mut rest = at;
        for axis in (0..windows.len()).rev() {
            let window = windows[axis];
            let along = (rest % made[axis] * window.stride) as i64 - window.begin;
            *place += along * strides[axis] as i64;
            rest /= made[axis];
        }
    }
    let mut wide = vec![1; shape.len()];
    wide[2..].copy_from_slice(made);
    Ok(Operand::integers(DataType::Int64, Array { shape: wide, data }))
}

/// What the taps of windows see, one after the other along a new third axis; in the padding less than anything.
fn taps_of(
    steps: &mut Steps<'_, '_, '_>,
    x: ValueId,
    windows: &[Along],
    made: &[usize],
) -> Result<ValueId, NodeProblem> {
    let mut shape = steps.shape(x);
    let part = [&shape[..2], made].concat();
    let apart = [&shape[..2], &[1], made].concat();
    let (mut begin, mut end) = (vec![0; shape.len()], vec![0; shape.len()]);
    for (axis, window) in windows.iter().enumerate() {
        let reached = (made[axis] - 1) * window.stride + window.reach();
        begin[2 + axis] = window.begin as usize;
        end[2 + axis] = reached.saturating_sub(shape[2 + axis] + begin[2 + axis]);
        shape[2 + axis] += begin[2 + axis] + end[2 + axis];
    }
    let x = match begin.iter().chain(&end).any(|&pad| pad > 0) {
        false => x,
        true => {
            steps.node(Op::Pad { begin, end, value: f32::NEG_INFINITY }, &[x], shape.clone())?
        }
    };
    let taps: usize = windows.iter().map(|window| window.kernel).product();
    let mut parts = vec![];
    for tap in 0..taps {
        let (mut starts, mut by) = (vec![0; shape.len()], vec![1; shape.len()]);
        let mut rest = tap;
        for (axis, window) in windows.iter().enumerate().rev() {
            starts[2 + axis] = rest % window.kernel * window.dilation;
            by[2 + axis] = window.stride;
            rest /= window.kernel;
        }
        let slice = steps.node(Op::Slice { starts, steps: by }, &[x], part.clone())?;
        parts.push(steps.reshape(slice, &apart)?);
    }
    steps.concat(&parts, 2)
}

/// A window with no tap on the input would have no maximum and no mean.
fn check(windows: &[Along], spatial: &[usize]) -> Result<(), NodeProblem> {
    for (window, &extent) in windows.iter().zip(spatial) {
        let pad = window.begin.max(window.end);
        if pad >= window.reach() as i64 {
            return Err(NodeProblem::attribute(
                "pads",
                format!("has {pad}, not less than the window's reach {}", window.reach()),
            ));
        }
        if pad > 0 && window.dilation > extent {
            return Err(NodeProblem::attribute(
                "dilations",
                format!("has {}, above the input's {extent}", window.dilation),
            ));
        }
    }
    Ok(())
}

/// The pool of an image, as the node itself.
fn pooled(
    cx: &mut Context<'_, '_>,
    x: ValueId,
    mut windows: Vec<Along>,
    pool: Pool,
) -> Result<ValueId, NodeProblem> {
    let spatial = cx.shape(x)[2..].to_vec();
    let mut made = windows
        .iter()
        .zip(&spatial)
        .map(|(window, &extent)| window.positions(extent, pool.ceil))
        .collect::<Result<Vec<usize>, _>>()?;
    let x = cropped(cx, x, &mut windows)?;
    let shape = cx.shape(x);
    made.splice(0..0, [shape[0], shape[1]]);
    match windows[..] {
        [along] => {
            let wide = vec![shape[0], shape[1], 1, shape[2]];
            let x = cx.helper("widen", Op::Reshape, vec![Some(x)], wide)?;
            let across = vec![made[0], made[1], 1, made[2]];
            let x = cx.helper("wide", pool.op([Along::POINT, along]), vec![Some(x)], across)?;
            add(cx, None, Op::Reshape, vec![Some(x)], made)
        }
        [down, along] => add(cx, None, pool.op([down, along]), vec![Some(x)], made),
        [deep, down, along] => {
            let [images, channels, depth, height, width] = made[..] else { unreachable!("five") };
            let x = flattened(cx, x)?;
            let flat = vec![images * shape[2], channels, height, width];
            let x = cx.helper("flat", pool.op([down, along]), vec![Some(x)], flat)?;
            let apart = vec![images, shape[2], channels, height, width];
            let x = cx.helper("apart", Op::Reshape, vec![Some(x)], apart)?;
            let turned = vec![images, channels, shape[2], height, width];
            let op = Op::Transpose { perm: vec![0, 2, 1, 3, 4] };
            let x = cx.helper("turned", op, vec![Some(x)], turned)?;
            let lines = vec![images, channels, shape[2], height * width];
            let x = cx.helper("lines", Op::Reshape, vec![Some(x)], lines)?;
            let lines = vec![images, channels, depth, height * width];
            let x = cx.helper("deep", pool.op([deep, Along::POINT]), vec![Some(x)], lines)?;
            add(cx, None, Op::Reshape, vec![Some(x)], made)
        }
        _ => Err(NodeProblem::unsupported("supported are 1 to 3 spatial dimensions")),
    }
}

/// Checks that there is something spatial, and gives the shape of what is left of it.
fn all(cx: &Context<'_, '_>, x: ValueId) -> Result<(Vec<usize>, Vec<usize>), NodeProblem> {
    let shape = cx.shape(x);
    if shape.len() < 3 || shape.contains(&0) {
        return Err(NodeProblem::shape(format!(
            "the input has the shape {shape:?}, not an image's"
        )));
    }
    let mut left = shape.clone();
    left[2..].fill(1);
    Ok((shape, left))
}

pub(super) fn global_average(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let (shape, left) = all(cx, x)?;
    let op = match shape.len() {
        4 => Op::GlobalAveragePool,
        rank => Op::Reduce { op: ReduceOp::Mean, axes: (2..rank).collect(), keep: true },
    };
    cx.emit(op, vec![Some(x)], left)
}

/// The maximum over all that is spatial: of one window as large as the image.
pub(super) fn global_max(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let (shape, left) = all(cx, x)?;
    let over = |kernel| Along { kernel, ..Along::POINT };
    let pool = Pool { kind: Kind::Max, ceil: false };
    if let [_, _, height, width] = shape[..] {
        return cx.emit(pool.op([over(height), over(width)]), vec![Some(x)], left);
    }
    let places: usize = shape[2..].iter().product();
    let line = vec![shape[0], shape[1], 1, places];
    let line = cx.helper("line", Op::Reshape, vec![Some(x)], line)?;
    let one = vec![shape[0], shape[1], 1, 1];
    let one = cx.helper("max", pool.op([Along::POINT, over(places)]), vec![Some(line)], one)?;
    cx.emit(Op::Reshape, vec![Some(one)], left)
}

/// The root of the sum of powers over windows: with p 2 of squares.
pub(super) fn lp(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let shape = cx.shape(x);
    check_image(&shape)?;
    let attributes = cx.attributes();
    let p = match cx.opset < 2 {
        true => f64::from(attributes.float_or("p", 2.0)?),
        false => attributes.int_or("p", 2)? as f64,
    };
    if p < 1.0 {
        return Err(NodeProblem::attribute("p", format!("is {p}, less than 1")));
    }
    let mut around = windows(attributes, &shape[2..], None)?;
    if attributes.flag("ceil_mode", false)? {
        for (window, &extent) in around.iter_mut().zip(&shape[2..]) {
            let made = window.positions(extent, true)?;
            let seen = ((made - 1) * window.stride + window.reach()) as i64;
            window.end = window.end.max(seen - extent as i64 - window.begin);
        }
    }
    let number = |cx: &mut Context<'_, '_>, value: f64| {
        let (name, kind) = (format!("{}/constant{value}", cx.name), cx.kind());
        Some(cx.builder.constant(name, kind, Array::scalar(value)))
    };
    let powers = match p {
        2.0 => cx.helper("squares", Op::Mul, vec![Some(x), Some(x)], shape.clone())?,
        _ => {
            let size = cx.helper("sizes", Op::Abs, vec![Some(x)], shape.clone())?;
            let exponent = number(cx, p);
            match p {
                1.0 => size,
                _ => cx.helper("powers", Op::Pow, vec![Some(size), exponent], shape.clone())?,
            }
        }
    };
    let kernel: Vec<usize> =
        [shape[1], 1].into_iter().chain(around.iter().map(|window| window.kernel)).collect();
    cx.charge(&kernel)?;
    let ones = Array { data: vec![1.0; kernel.iter().product()], shape: kernel };
    let (name, kind) = (format!("{}/ones", cx.name), cx.kind());
    let ones = cx.builder.constant(name, kind, ones);
    let suffix = if p == 1.0 { None } else { Some("sums") };
    let sums = convolved(cx, suffix, powers, [Some(ones), None], shape[1], around)?;
    let made = cx.shape(sums);
    match p {
        1.0 => Ok(vec![Operand::Float(cx.kind(), sums)]),
        2.0 => cx.emit(Op::Sqrt, vec![Some(sums)], made),
        _ => {
            let root = number(cx, 1.0 / p);
            cx.emit(Op::Pow, vec![Some(sums), root], made)
        }
    }
}
