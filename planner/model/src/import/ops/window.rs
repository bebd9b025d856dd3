//! Operators with a sliding window: convolution and pooling.
//!
//! One-dimensional ones are widened to height 1, between two reshapes.

use super::super::attributes::{Attributes, size};
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use crate::graph::{Op, ValueId, Window};
use eyelet::pack::ReduceOp;

/// How far a window reaches: `(kernel - 1) · dilation + 1`.
fn reach(window: &Window, axis: usize) -> usize {
    (window.kernel[axis] - 1) * window.dilation[axis] + 1
}

/// Reads a window over `spatial` (one or two extents); the kernel is given where weights decide it.
/// `auto_pad` is resolved into pads.
fn window(
    attributes: Attributes<'_>,
    spatial: &[usize],
    weights: Option<&[usize]>,
) -> Result<Window, NodeProblem> {
    let rank = spatial.len();
    let given = attributes.sizes("kernel_shape", rank, 1)?;
    let kernel = match (given, weights) {
        (Some(given), Some(weights)) if given != weights => {
            return Err(NodeProblem::attribute(
                "kernel_shape",
                format!("is {given:?}, but the weights have {weights:?}"),
            ));
        }
        (_, Some(weights)) => weights
            .iter()
            .map(|&extent| size("kernel_shape", extent.try_into().unwrap_or(i64::MAX), 1))
            .collect::<Result<_, _>>()?,
        (Some(given), None) => given,
        (None, None) => return Err(NodeProblem::attribute("kernel_shape", "is missing")),
    };
    let one = || vec![1; rank];
    let stride = attributes.sizes("strides", rank, 1)?.unwrap_or_else(one);
    let dilation = attributes.sizes("dilations", rank, 1)?.unwrap_or_else(one);
    // One dimension becomes the second of two; the first has extent 1 and a window of 1.
    let widen = |list: &[usize], neutral| match *list {
        [only] => [neutral, only],
        _ => [list[0], list[1]],
    };
    let mut window = Window {
        kernel: widen(&kernel, 1),
        stride: widen(&stride, 1),
        dilation: widen(&dilation, 1),
        pad_begin: [0; 2],
        pad_end: [0; 2],
    };
    let extents = widen(spatial, 1);
    match attributes.string("auto_pad")?.unwrap_or("NOTSET") {
        "NOTSET" | "" => {
            if let Some(pads) = attributes.sizes("pads", 2 * rank, 0)? {
                window.pad_begin = widen(&pads[..rank], 0);
                window.pad_end = widen(&pads[rank..], 0);
            }
        }
        "VALID" => {}
        same @ ("SAME_UPPER" | "SAME_LOWER") => {
            for (axis, extent) in extents.into_iter().enumerate() {
                let stride = window.stride[axis];
                let covered = (extent.div_ceil(stride) - 1) * stride + reach(&window, axis);
                let total = covered.saturating_sub(extent);
                let less = total / 2;
                let (begin, end) = match same {
                    "SAME_UPPER" => (less, total - less),
                    _ => (total - less, less),
                };
                window.pad_begin[axis] = begin;
                window.pad_end[axis] = end;
            }
        }
        other => {
            return Err(NodeProblem::attribute(
                "auto_pad",
                format!("is `{other}`, expected NOTSET, VALID, SAME_UPPER or SAME_LOWER"),
            ));
        }
    }
    Ok(window)
}

/// The number of window positions along an axis. With `ceil` a last, partial position counts, unless
/// it would start in the padding after the input; the only one may be partial, too.
fn positions(
    window: &Window,
    axis: usize,
    extent: usize,
    ceil: bool,
) -> Result<usize, NodeProblem> {
    let padded = extent + window.pad_begin[axis] + window.pad_end[axis];
    let reach = reach(window, axis);
    let stride = window.stride[axis];
    let last = match padded.checked_sub(reach) {
        Some(room) if ceil => room.div_ceil(stride),
        Some(room) => return Ok(room / stride + 1),
        None if ceil && padded + stride > reach => 0,
        None => {
            return Err(NodeProblem::shape(format!(
                "the window reaches over {reach} positions, but the padded input has only {padded}"
            )));
        }
    };
    Ok(if last * stride >= extent + window.pad_begin[axis] { last } else { last + 1 })
}

/// Shape of `[images, channels, spatial…]` with one spatial dimension made two.
fn widened(shape: &[usize]) -> Vec<usize> {
    match *shape {
        [images, channels, extent] => vec![images, channels, 1, extent],
        _ => shape.to_vec(),
    }
}

/// Emits a window operator on a 2-D view of `x`, the first input, and gives the result `x`'s rank.
fn emit(
    cx: &mut Context<'_, '_>,
    op: Op,
    x: ValueId,
    mut rest: Vec<Option<ValueId>>,
    shape: [usize; 4],
) -> Result<Vec<Operand>, NodeProblem> {
    let own = cx.shape(x);
    if own.len() == 4 {
        rest.insert(0, Some(x));
        return cx.emit(op, rest, shape.to_vec());
    }
    let wide = cx.helper("widen", Op::Reshape, vec![Some(x)], widened(&own))?;
    rest.insert(0, Some(wide));
    let result = cx.helper("wide", op, rest, shape.to_vec())?;
    let narrow = vec![shape[0], shape[1], shape[3]];
    cx.emit(Op::Reshape, vec![Some(result)], narrow)
}

/// Checks the rank of an image: 3 (one spatial dimension) or 4.
fn check_rank(shape: &[usize]) -> Result<(), NodeProblem> {
    match shape.len() {
        _ if shape.contains(&0) => {
            Err(NodeProblem::shape(format!("the input has the shape {shape:?}, no elements")))
        }
        3 | 4 => Ok(()),
        5.. => Err(NodeProblem::unsupported(format!(
            "the input has {} spatial dimensions, supported are 1 and 2",
            shape.len() - 2
        ))),
        _ => Err(NodeProblem::shape(format!(
            "the input has the shape {shape:?}, expected images, channels and spatial dimensions"
        ))),
    }
}

pub(super) fn conv(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let mut weight = cx.weights(1, "weight")?;
    let bias = cx.optional_weights(2, "bias")?;
    let (shape, mut kernel) = (cx.shape(x), cx.shape(weight));
    check_rank(&shape)?;
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
    let window = window(attributes, &shape[2..], Some(&kernel[2..]))?;
    if kernel.len() == 3 {
        kernel = widened(&kernel);
        weight = cx.helper("weight", Op::Reshape, vec![Some(weight)], kernel.clone())?;
    }
    let wide = widened(&shape);
    let height = positions(&window, 0, wide[2], false)?;
    let width = positions(&window, 1, wide[3], false)?;
    let op = Op::Conv { window, groups };
    emit(cx, op, x, vec![Some(weight), bias], [shape[0], kernel[0], height, width])
}

pub(super) fn pool(cx: &mut Context<'_, '_>, average: bool) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let shape = cx.shape(x);
    check_rank(&shape)?;
    let attributes = cx.attributes();
    let window = window(attributes, &shape[2..], None)?;
    let ceil = attributes.flag("ceil_mode", false)?;
    let wide = widened(&shape);
    for axis in 0..2 {
        // A window with no tap on the input would have no maximum and no mean.
        let pad = window.pad_begin[axis].max(window.pad_end[axis]);
        if pad >= reach(&window, axis) {
            return Err(NodeProblem::attribute(
                "pads",
                format!("has {pad}, not less than the window's reach {}", reach(&window, axis)),
            ));
        }
        if pad > 0 && window.dilation[axis] > wide[2 + axis] {
            return Err(NodeProblem::attribute(
                "dilations",
                format!("has {}, above the input's {}", window.dilation[axis], wide[2 + axis]),
            ));
        }
    }
    let height = positions(&window, 0, wide[2], ceil)?;
    let width = positions(&window, 1, wide[3], ceil)?;
    let op = if average {
        let count_include_pad = attributes.flag("count_include_pad", false)?;
        Op::AveragePool { window, ceil, count_include_pad }
    } else {
        Op::MaxPool { window, ceil }
    };
    emit(cx, op, x, vec![], [shape[0], shape[1], height, width])
}

pub(super) fn global_average(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let mut shape = cx.shape(x);
    if shape.len() < 3 {
        return Err(NodeProblem::shape(format!(
            "the input has the shape {shape:?}, not an image's"
        )));
    }
    let op = match shape.len() {
        4 => Op::GlobalAveragePool,
        rank => Op::Reduce { op: ReduceOp::Mean, axes: (2..rank).collect(), keep: true },
    };
    shape[2..].fill(1);
    cx.emit(op, vec![Some(x)], shape)
}
