//! Transposed convolution, and what is one.
//!
//! Output o = q·stride + r gets what the inputs q + m give it, by the taps that lead there. So each
//! of the `stride` phases r is an ordinary convolution of stride 1, with few taps: all phases are
//! one convolution with as many times the output channels, whose results are then laid out side by
//! side. It starts at the first output that is kept, so nothing has to be cut away before.

use super::super::attributes::size;
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::data::Floats;
use super::super::error::NodeProblem;
use super::conv::convolved;
use super::geometry::{Along, Padding, add, check_image, padding, pads, unpadded};
use crate::graph::{Constant, Op, ValueId};
use std::sync::Arc;

/// One spatial axis: the window, and the extent of the output.
#[derive(Clone, Copy)]
struct Axis {
    window: Along,
    made: usize,
}

/// The convolution along an axis that makes all phases of it.
#[derive(Clone, Copy)]
struct Phases {
    axis: Axis,
    /// The first of the inputs that output 0's phases see, counted from input 0.
    first: i64,
    /// Taps, and how far they are apart.
    taps: usize,
    apart: usize,
}

impl Phases {
    fn new(axis: Axis) -> Self {
        let Along { kernel, stride, dilation, begin, .. } = axis.window;
        let (stride_of, apart) = (stride as i64, if stride == 1 { dilation } else { 1 });
        // Tap k leads from input (phase + begin - k·dilation) / stride, where that is whole.
        let least =
            (begin - ((kernel - 1) * dilation) as i64 + stride_of - 1).div_euclid(stride_of);
        let most = (stride_of - 1 + begin).div_euclid(stride_of);
        let taps = (most - least).max(0) as usize / apart + 1;
        Self { axis, first: least, taps, apart }
    }

    /// The tap of the convolution that tap `k` is for a phase, if it leads there.
    fn tap(&self, phase: usize, k: usize) -> Option<usize> {
        let Along { stride, dilation, begin, .. } = self.axis.window;
        let from = phase as i64 + begin - (k * dilation) as i64;
        if from.rem_euclid(stride as i64) != 0 {
            return None;
        }
        let distance = from.div_euclid(stride as i64) - self.first;
        Some(distance as usize / self.apart)
    }

    /// Positions of the convolution.
    fn positions(&self) -> usize {
        self.axis.made.div_ceil(self.axis.window.stride)
    }

    /// The window of the convolution over an input of some extent.
    fn window(&self, extent: usize) -> Along {
        let window = Along {
            kernel: self.taps,
            stride: 1,
            dilation: self.apart,
            begin: -self.first,
            end: 0,
        };
        let end = self.positions() as i64 - 1 + window.reach() as i64 - extent as i64 + self.first;
        Along { end, ..window }
    }
}

pub(super) fn conv_transpose(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let weight = cx.weights(1, "weight")?;
    let bias = cx.optional_weights(2, "bias")?;
    let (shape, kernel) = (cx.shape(x), cx.shape(weight));
    check_image(&shape)?;
    let groups = size("group", cx.attributes().int_or("group", 1)?, 1)?;
    let agree = kernel.len() == shape.len()
        && kernel[0] == shape[1]
        && kernel[0].is_multiple_of(groups)
        && kernel[1] > 0;
    if !agree {
        return Err(NodeProblem::shape(format!(
            "weights of shape {kernel:?} in {groups} groups do not fit an input of shape {shape:?}"
        )));
    }
    let channels = kernel[1] * groups;
    if let Some(bias) = bias
        && cx.shape(bias) != [channels]
    {
        return Err(NodeProblem::shape(format!(
            "the bias has the shape {:?}, but there are {channels} output channels",
            cx.shape(bias)
        )));
    }
    let axes = axes(cx, &shape[2..], &kernel[2..])?;
    let data = |cx: &Context<'_, '_>, value: ValueId| {
        cx.builder.graph.values[value].constant.as_ref().map(Constant::to_vec).unwrap_or_default()
    };
    cx.charge(&kernel)?;
    let (weights, bias) = (data(cx, weight), bias.map(|bias| data(cx, bias)));
    transposed(cx, x, &kernel, &weights, bias, groups, &axes)
}

/// Reads the windows, and resolves the extents of the output.
fn axes(
    cx: &Context<'_, '_>,
    spatial: &[usize],
    kernel: &[usize],
) -> Result<Vec<Axis>, NodeProblem> {
    let attributes = cx.attributes();
    let rank = spatial.len();
    let mut windows = unpadded(attributes, rank, Some(kernel))?;
    let more = attributes.sizes("output_padding", rank, 0)?.unwrap_or_else(|| vec![0; rank]);
    // Some models give images and channels, too.
    let given = attributes.ints("output_shape")?;
    let given = given.map(|list| &list[list.len().saturating_sub(rank)..]);
    let how = padding(attributes)?;
    if how == Padding::Given {
        pads(attributes, &mut windows)?;
    }
    let mut axes = vec![];
    for (at, window) in windows.iter_mut().enumerate() {
        let whole = (spatial[at] - 1) * window.stride + window.reach() + more[at];
        let same = matches!(how, Padding::SameUpper | Padding::SameLower);
        let wanted = match given {
            Some(list) => Some(size("output_shape", list[at], 1)?),
            None if same => Some(spatial[at] * window.stride),
            None => None,
        };
        let made = match wanted {
            Some(made) => {
                let total = whole.saturating_sub(made) as i64;
                let less = total / 2;
                window.begin = if how == Padding::SameUpper { less } else { total - less };
                made
            }
            None => {
                let made = whole as i64 - window.begin - window.end;
                usize::try_from(made).ok().filter(|&made| made > 0).ok_or_else(|| {
                    NodeProblem::attribute("pads", format!("leaves {made} of {whole} elements"))
                })?
            }
        };
        axes.push(Axis { window: *window, made });
    }
    Ok(axes)
}

/// The transposed convolution with weights `[inputs, outputs of a group, taps…]`, as the node
/// itself.
fn transposed(
    cx: &mut Context<'_, '_>,
    x: ValueId,
    kernel: &[usize],
    weights: &[f32],
    bias: Option<Vec<f32>>,
    groups: usize,
    axes: &[Axis],
) -> Result<Vec<Operand>, NodeProblem> {
    let shape = cx.shape(x);
    let phases: Vec<Phases> = axes.iter().map(|&axis| Phases::new(axis)).collect();
    let count: usize = axes.iter().map(|axis| axis.window.stride).product();
    let weight = phased(cx, kernel, weights, groups, &phases)?;
    let outputs = kernel[1];
    let bias = bias.map(|bias| {
        let of = |at: usize| bias[at / (count * outputs) * outputs + at % outputs];
        let data = (0..groups * count * outputs).map(of).collect();
        let constant = Constant::Owned(Arc::new(data));
        let shape = vec![groups * count * outputs];
        let name = format!("{}/bias", cx.name);
        cx.builder.floats(name, Floats { shape, constant, exact: None })
    });
    let windows =
        phases.iter().zip(&shape[2..]).map(|(phases, &extent)| phases.window(extent)).collect();
    let extents: Vec<usize> = axes.iter().map(|axis| axis.made).collect();
    let made = [&[shape[0], groups * outputs][..], &extents].concat();
    let suffix = if count == 1 { None } else { Some("phases") };
    let all = convolved(cx, suffix, x, [Some(weight), bias], groups, windows)?;
    let result = match count {
        1 => all,
        _ => beside(cx, all, groups, axes, made)?,
    };
    Ok(vec![Operand::Float(cx.kind(), result)])
}

/// The weights of all phases, `[groups · phases · outputs, inputs of a group, taps…]`.
fn phased(
    cx: &mut Context<'_, '_>,
    kernel: &[usize],
    weights: &[f32],
    groups: usize,
    phases: &[Phases],
) -> Result<ValueId, NodeProblem> {
    let (inputs, outputs) = (kernel[0] / groups, kernel[1]);
    let strides: Vec<usize> = phases.iter().map(|of| of.axis.window.stride).collect();
    let count: usize = strides.iter().product();
    let taps: Vec<usize> = phases.iter().map(|of| of.taps).collect();
    let (old, new) = (kernel[2..].iter().product::<usize>(), taps.iter().product::<usize>());
    let shape = [&[groups * count * outputs, inputs][..], &taps].concat();
    cx.charge_for(&shape, size_of::<f32>())?;
    let mut data = vec![0.0; shape.iter().product()];
    for phase in 0..count {
        for k in 0..old {
            let (mut phase_left, mut k_left, mut tap, mut unit) = (phase, k, Some(0), 1);
            for axis in (0..phases.len()).rev() {
                let own = phases[axis].tap(phase_left % strides[axis], k_left % kernel[2 + axis]);
                tap = tap.zip(own).map(|(tap, own)| tap + own * unit);
                unit *= taps[axis];
                phase_left /= strides[axis];
                k_left /= kernel[2 + axis];
            }
            let Some(tap) = tap else { continue };
            for input in 0..kernel[0] {
                let (group, within) = (input / inputs, input % inputs);
                for output in 0..outputs {
                    let row = (group * count + phase) * outputs + output;
                    data[(row * inputs + within) * new + tap] =
                        weights[(input * outputs + output) * old + k];
                }
            }
        }
    }
    let constant = Constant::Owned(Arc::new(data));
    let name = format!("{}/weight", cx.name);
    Ok(cx.builder.floats(name, Floats { shape, constant, exact: None }))
}

/// Lays phases, which channels have, side by side along their axes, one axis after the other.
fn beside(
    cx: &mut Context<'_, '_>,
    mut x: ValueId,
    groups: usize,
    axes: &[Axis],
    made: Vec<usize>,
) -> Result<ValueId, NodeProblem> {
    let strided = (0..axes.len()).filter(|&axis| axes[axis].window.stride > 1);
    for axis in strided {
        let shape = cx.shape(x);
        let (stride, rest) =
            (axes[axis].window.stride, shape[1] / groups / axes[axis].window.stride);
        let (before, after) =
            (shape[2..2 + axis].iter().product(), shape[3 + axis..].iter().product());
        let apart = vec![shape[0], groups, stride, rest, before, shape[2 + axis], after];
        let apart = cx.helper(&format!("apart{axis}"), Op::Reshape, vec![Some(x)], apart)?;
        let turned = vec![shape[0], groups, rest, before, shape[2 + axis], stride, after];
        let op = Op::Transpose { perm: vec![0, 1, 3, 4, 5, 2, 6] };
        let turned = cx.helper(&format!("turned{axis}"), op, vec![Some(apart)], turned)?;
        let mut whole = shape.clone();
        (whole[1], whole[2 + axis]) = (groups * rest, shape[2 + axis] * stride);
        let last = whole == made && axes[axis + 1..].iter().all(|axis| axis.window.stride == 1);
        let name = format!("beside{axis}");
        let suffix = if last { None } else { Some(&name[..]) };
        x = add(cx, suffix, Op::Reshape, vec![Some(turned)], whole)?;
    }
    if cx.shape(x) == made {
        return Ok(x);
    }
    let op = Op::Slice { starts: vec![0; made.len()], steps: vec![1; made.len()] };
    add(cx, None, op, vec![Some(x)], made)
}

/// Blocks put back where they were taken from, and added up: a transposed convolution whose weights
/// are 1 for the place that a channel of a block has.
pub(super) fn col2im(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "input")?;
    let shape = cx.shape(x);
    let (image, block) =
        (cx.few(1, "image_shape")?.data.clone(), cx.few(2, "block_shape")?.data.clone());
    let rank = image.len();
    let sizes = |list: &[i64], name: &str| -> Result<Vec<usize>, NodeProblem> {
        list.iter().map(|&extent| size(name, extent, 1)).collect()
    };
    let (image, block) = (sizes(&image, "image_shape")?, sizes(&block, "block_shape")?);
    let taps: usize = block.iter().product();
    let fits = shape.len() == 3 && block.len() == rank && shape[1].is_multiple_of(taps);
    if !fits || !(1..=3).contains(&rank) {
        return Err(NodeProblem::shape(format!(
            "blocks {block:?} of an image {image:?} do not fit an input of shape {shape:?}"
        )));
    }
    let mut windows = unpadded(cx.attributes(), rank, Some(&block))?;
    pads(cx.attributes(), &mut windows)?;
    let places = windows
        .iter()
        .zip(&image)
        .map(|(window, &extent)| window.positions(extent, false))
        .collect::<Result<Vec<usize>, _>>()?;
    if places.iter().product::<usize>() != shape[2] {
        return Err(NodeProblem::shape(format!(
            "there are {places:?} places for blocks, but {} blocks",
            shape[2]
        )));
    }
    let grid = [&[shape[0], shape[1]][..], &places].concat();
    let x = cx.helper("grid", Op::Reshape, vec![Some(x)], grid)?;
    let groups = shape[1] / taps;
    let kernel = [&[shape[1], 1][..], &block].concat();
    cx.charge(&kernel)?;
    let weights: Vec<f32> = (0..shape[1] * taps)
        .map(|at| if at / taps % taps == at % taps { 1.0 } else { 0.0 })
        .collect();
    let axes: Vec<Axis> =
        windows.into_iter().zip(image).map(|(window, made)| Axis { window, made }).collect();
    transposed(cx, x, &kernel, &weights, None, groups, &axes)
}

/// Channels to blocks of pixels, or blocks of pixels to channels.
pub(super) fn blocks(
    cx: &mut Context<'_, '_>,
    to_space: bool,
) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "input")?;
    let [images, channels, height, width] = cx.shape(x)[..] else {
        return Err(NodeProblem::shape(format!("the input has the shape {:?}", cx.shape(x))));
    };
    let attributes = cx.attributes();
    let b = size("blocksize", attributes.int_or("blocksize", 0)?, 1)?;
    let mode = attributes.string("mode")?.unwrap_or("DCR");
    let divides = match to_space {
        true => channels.is_multiple_of(b.saturating_mul(b)),
        false => height.is_multiple_of(b) && width.is_multiple_of(b),
    };
    if !divides {
        return Err(NodeProblem::attribute("blocksize", format!("{b} does not divide the input")));
    }
    let (apart, perm, made) = match (to_space, mode) {
        (false, "DCR" | "CRD") => (
            vec![images, channels, height / b, b, width / b, b],
            if mode == "DCR" { vec![0, 3, 5, 1, 2, 4] } else { vec![0, 1, 3, 5, 2, 4] },
            vec![images, channels * b * b, height / b, width / b],
        ),
        (true, "CRD") => (
            vec![images, channels / b / b, b, b, height, width],
            vec![0, 1, 4, 2, 5, 3],
            vec![images, channels / b / b, height * b, width * b],
        ),
        (true, "DCR") => (
            vec![images, b, b, channels / b / b, height, width],
            vec![0, 3, 4, 1, 5, 2],
            vec![images, channels / b / b, height * b, width * b],
        ),
        (_, other) => {
            let reason = format!("is `{other}`, expected DCR or CRD");
            return Err(NodeProblem::attribute("mode", reason));
        }
    };
    let turned = perm.iter().map(|&axis: &usize| apart[axis]).collect();
    let apart = cx.helper("apart", Op::Reshape, vec![Some(x)], apart)?;
    let turned = cx.helper("turned", Op::Transpose { perm }, vec![Some(apart)], turned)?;
    cx.emit(Op::Reshape, vec![Some(turned)], made)
}
