//! Pooling over one to three spatial dimensions, and over all of them.
//!
//! The graph has pools over two. One-dimensional ones are widened to height 1. Three-dimensional
//! ones pool each depth's image, then the depths: a maximum of maxima is the maximum, and the
//! positions that a mean counts are a product, too.

use super::super::array::Array;
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
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
    let result = pooled(cx, x, windows, Pool { kind, ceil })?;
    Ok(vec![Operand::Float(cx.kind(), result)])
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
