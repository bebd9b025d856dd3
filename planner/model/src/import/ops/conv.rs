//! Convolution over one to three spatial dimensions.
//!
//! The graph has convolutions over two. One-dimensional ones are widened to height 1, between two
//! reshapes. Of three-dimensional ones the slices of a window's depth become channels of an image
//! of their own for each depth. Weights that flow are multiplied with the windows, laid out as
//! columns.

use super::super::array::Movement;
use super::super::attributes::size;
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use super::geometry::{Along, add, check_image, cropped, square, windows};
use crate::graph::{Op, ValueId};

pub(super) fn conv(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let weight = cx.float(1, "weight")?;
    let bias = cx.optional_float(2, "bias")?;
    let (shape, kernel) = (cx.shape(x), cx.shape(weight));
    check_image(&shape)?;
    let attributes = cx.attributes();
    let groups = size("group", attributes.int_or("group", 1)?, 1)?;
    let agree = kernel.len() == shape.len()
        && kernel[1].checked_mul(groups) == Some(shape[1])
        && kernel[0] % groups == 0
        && kernel[0] > 0;
    if !agree {
        return Err(NodeProblem::shape(format!(
            "weights of shape {kernel:?} in {groups} groups do not fit an input of shape {shape:?}"
        )));
    }
    if let Some(bias) = bias
        && cx.shape(bias) != [kernel[0]]
    {
        return Err(NodeProblem::shape(format!(
            "the bias has the shape {:?}, but there are {} output channels",
            cx.shape(bias),
            kernel[0]
        )));
    }
    let windows = windows(attributes, &shape[2..], Some(&kernel[2..]))?;
    let flows = |value: ValueId| cx.builder.graph.values[value].constant.is_none();
    let bias_flows = bias.is_some_and(flows);
    let product = if bias_flows || flows(weight) { Some("product") } else { None };
    let own = bias.filter(|_| !bias_flows && product.is_none());
    let result = match flows(weight) {
        true => by_products(cx, x, weight, groups, windows)?,
        false => convolved(cx, product, x, [Some(weight), own], groups, windows)?,
    };
    if product.is_none() {
        return Ok(vec![Operand::Float(cx.kind(), result)]);
    }
    let made = cx.shape(result);
    let Some(bias) = bias else { return cx.emit(Op::Reshape, vec![Some(result)], made) };
    let mut wide = vec![1; made.len()];
    wide[1] = kernel[0];
    let bias = cx.helper("bias", Op::Reshape, vec![Some(bias)], wide)?;
    cx.emit(Op::Add, vec![Some(result), Some(bias)], made)
}

/// The extents that windows leave of spatial ones.
fn positions(windows: &[Along], spatial: &[usize]) -> Result<Vec<usize>, NodeProblem> {
    windows.iter().zip(spatial).map(|(window, &extent)| window.positions(extent, false)).collect()
}

/// The convolution with constant weights, as the node itself or with a name of its own.
pub(super) fn convolved(
    cx: &mut Context<'_, '_>,
    suffix: Option<&str>,
    x: ValueId,
    [weight, bias]: [Option<ValueId>; 2],
    groups: usize,
    mut windows: Vec<Along>,
) -> Result<ValueId, NodeProblem> {
    let Some(weight) = weight else {
        return Err(NodeProblem::Missing { index: 1, role: "weight" });
    };
    let mut made = positions(&windows, &cx.shape(x)[2..])?;
    let x = cropped(cx, x, &mut windows)?;
    let (shape, kernel) = (cx.shape(x), cx.shape(weight));
    made.splice(0..0, [shape[0], kernel[0]]);
    match windows[..] {
        [along] => {
            let widen = |shape: &[usize]| vec![shape[0], shape[1], 1, shape[2]];
            let [wide, kernel, across] = [&shape, &kernel, &made].map(|shape| widen(shape));
            let x = cx.helper("widen", Op::Reshape, vec![Some(x)], wide)?;
            let weight = cx.helper("weight", Op::Reshape, vec![Some(weight)], kernel)?;
            let op = Op::Conv { window: square([Along::POINT, along]), groups };
            let result = cx.helper("wide", op, vec![Some(x), Some(weight), bias], across)?;
            add(cx, suffix, Op::Reshape, vec![Some(result)], made)
        }
        [down, along] => {
            let op = Op::Conv { window: square([down, along]), groups };
            add(cx, suffix, op, vec![Some(x), Some(weight), bias], made)
        }
        [deep, down, along] => {
            let x = gathered(cx, x, groups, deep, made[2])?;
            let weight = deepened(cx, weight)?;
            let op = Op::Conv { window: square([down, along]), groups };
            let [images, channels, depth, height, width] = made[..] else { unreachable!("five") };
            let flat = vec![images * depth, channels, height, width];
            let result = cx.helper("flat", op, vec![Some(x), Some(weight), bias], flat)?;
            let apart = vec![images, depth, channels, height, width];
            let result = cx.helper("apart", Op::Reshape, vec![Some(result)], apart)?;
            let op = Op::Transpose { perm: vec![0, 2, 1, 3, 4] };
            add(cx, suffix, op, vec![Some(result)], made)
        }
        _ => Err(NodeProblem::unsupported("supported are 1 to 3 spatial dimensions")),
    }
}

/// Weights of which the depth is part of the channels.
fn deepened(cx: &mut Context<'_, '_>, weight: ValueId) -> Result<ValueId, NodeProblem> {
    let shape = cx.shape(weight);
    let name = format!("{}/deep", cx.name);
    let moved = cx.builder.moved(name, weight, &Movement::Transpose(&[0, 2, 1, 3, 4]))?;
    let flat = vec![shape[0], shape[1] * shape[2], shape[3], shape[4]];
    cx.helper("weight", Op::Reshape, vec![moved], flat)
}

/// An image for each depth: its channels are, by group, those of the slices that a window sees.
fn gathered(
    cx: &mut Context<'_, '_>,
    x: ValueId,
    groups: usize,
    deep: Along,
    depth: usize,
) -> Result<ValueId, NodeProblem> {
    let (x, shape) = padded(cx, x, &[(2, deep)])?;
    let [images, channels, _, height, width] = shape[..] else { unreachable!("five") };
    let mut part = vec![images, channels, depth, height, width];
    let mut parts = vec![];
    for tap in 0..deep.kernel {
        let slice = tapped(&shape, &[(2, deep, tap)]);
        let slice = cx.helper(&format!("depth{tap}"), slice, vec![Some(x)], part.clone())?;
        let apart = vec![images, groups, channels / groups, depth, height, width];
        parts.push(Some(cx.helper(
            &format!("group{tap}"),
            Op::Reshape,
            vec![Some(slice)],
            apart,
        )?));
    }
    part[1] *= deep.kernel;
    let joined = vec![images, groups, part[1] / groups, depth, height, width];
    let all = match parts[..] {
        [Some(only)] => only,
        _ => cx.helper("depths", Op::Concat { axis: 2 }, parts, joined)?,
    };
    let all = cx.helper("channels", Op::Reshape, vec![Some(all)], part.clone())?;
    flattened(cx, all)
}

/// The slices of a depth as images of their own.
pub(super) fn flattened(cx: &mut Context<'_, '_>, x: ValueId) -> Result<ValueId, NodeProblem> {
    let [images, channels, depth, height, width] = cx.shape(x)[..] else {
        return Err(NodeProblem::shape("three spatial dimensions are expected"));
    };
    let turned = vec![images, depth, channels, height, width];
    let op = Op::Transpose { perm: vec![0, 2, 1, 3, 4] };
    let turned = cx.helper("depth", op, vec![Some(x)], turned)?;
    let flat = vec![images * depth, channels, height, width];
    cx.helper("images", Op::Reshape, vec![Some(turned)], flat)
}

/// Axes with the zeros around them that windows see.
fn padded(
    cx: &mut Context<'_, '_>,
    x: ValueId,
    windows: &[(usize, Along)],
) -> Result<(ValueId, Vec<usize>), NodeProblem> {
    let mut shape = cx.shape(x);
    let (mut begin, mut end) = (vec![0; shape.len()], vec![0; shape.len()]);
    for &(axis, window) in windows {
        (begin[axis], end[axis]) = (window.begin.max(0) as usize, window.end.max(0) as usize);
        shape[axis] += begin[axis] + end[axis];
    }
    if begin.iter().chain(&end).all(|&pad| pad == 0) {
        return Ok((x, shape));
    }
    let op = Op::Pad { begin, end, value: 0.0 };
    Ok((cx.helper("padded", op, vec![Some(x)], shape.clone())?, shape))
}

/// What one tap of windows along axes sees.
fn tapped(shape: &[usize], taps: &[(usize, Along, usize)]) -> Op {
    let (mut starts, mut steps) = (vec![0; shape.len()], vec![1; shape.len()]);
    for &(axis, window, tap) in taps {
        (starts[axis], steps[axis]) = (tap * window.dilation, window.stride);
    }
    Op::Slice { starts, steps }
}

/// The convolution with weights that flow: their product with the windows as columns.
fn by_products(
    cx: &mut Context<'_, '_>,
    x: ValueId,
    weight: ValueId,
    groups: usize,
    mut windows: Vec<Along>,
) -> Result<ValueId, NodeProblem> {
    let spatial = positions(&windows, &cx.shape(x)[2..])?;
    let x = cropped(cx, x, &mut windows)?;
    let around: Vec<(usize, Along)> = (2..).zip(windows.iter().copied()).collect();
    let (x, shape) = padded(cx, x, &around)?;
    let kernel = cx.shape(weight);
    let (images, channels, depth) = (shape[0], kernel[0], kernel[1]);
    let taps: usize = kernel[2..].iter().product();
    let places: usize = spatial.iter().product();
    let mut parts = vec![];
    for tap in 0..taps {
        let mut rest = tap;
        let mut along: Vec<(usize, Along, usize)> =
            around.iter().map(|&(axis, window)| (axis, window, 0)).collect();
        for (_, window, at) in along.iter_mut().rev() {
            (*at, rest) = (rest % window.kernel, rest / window.kernel);
        }
        let seen = [&[images, shape[1]][..], &spatial].concat();
        let slice = tapped(&shape, &along);
        let slice = cx.helper(&format!("tap{tap}"), slice, vec![Some(x)], seen)?;
        let column = vec![images, groups, depth, places];
        let column = cx.helper(&format!("column{tap}"), Op::Reshape, vec![Some(slice)], column)?;
        parts.push(Some(column));
    }
    let columns = match parts[..] {
        [Some(only)] => only,
        _ => {
            let all = vec![images, groups, taps * depth, places];
            cx.helper("columns", Op::Concat { axis: 2 }, parts, all)?
        }
    };
    // Taps before channels, as the columns are.
    let flat = vec![channels, depth, taps];
    let flat = cx.helper("taps", Op::Reshape, vec![Some(weight)], flat)?;
    let op = Op::Transpose { perm: vec![0, 2, 1] };
    let turned = cx.helper("turned", op, vec![Some(flat)], vec![channels, taps, depth])?;
    let rows = vec![groups, channels / groups, taps * depth];
    let rows = cx.helper("rows", Op::Reshape, vec![Some(turned)], rows)?;
    let made = vec![images, groups, channels / groups, places];
    let made = cx.helper("products", Op::MatMul, vec![Some(rows), Some(columns)], made)?;
    let whole = [&[images, channels][..], &spatial].concat();
    cx.helper("product", Op::Reshape, vec![Some(made)], whole)
}
