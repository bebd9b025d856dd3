//! Windows over any number of spatial axes: how they are read, and how many positions they take.

use super::super::attributes::{Attributes, size};
use super::super::context::Context;
use super::super::error::NodeProblem;
use crate::graph::{Op, ValueId, Window};

/// The window along one axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Along {
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
    /// Elements of padding; negative ones are taken away.
    pub begin: i64,
    pub end: i64,
}

impl Along {
    /// A window of one element.
    pub const POINT: Self = Self { kernel: 1, stride: 1, dilation: 1, begin: 0, end: 0 };

    /// How far it reaches.
    pub fn reach(&self) -> usize {
        (self.kernel - 1) * self.dilation + 1
    }

    /// The number of positions. With `ceil` a last, partial one counts, unless it would start in
    /// the padding after the input; the only one may be partial, too.
    pub fn positions(&self, extent: usize, ceil: bool) -> Result<usize, NodeProblem> {
        let (reach, stride) = (self.reach() as i64, self.stride as i64);
        let padded = extent as i64 + self.begin + self.end;
        let room = padded - reach;
        let last = match room {
            0.. if ceil => (room + stride - 1) / stride,
            0.. => return Ok((room / stride) as usize + 1),
            _ if ceil && padded + stride > reach => 0,
            _ => {
                return Err(NodeProblem::shape(format!(
                    "the window reaches over {reach} positions, but the padded input has only {padded}"
                )));
            }
        };
        let beyond = last * stride >= extent as i64 + self.begin;
        Ok((if beyond { last } else { last + 1 }) as usize)
    }
}

/// Strides and dilations, one where there are none.
fn list(attributes: Attributes<'_>, name: &str, rank: usize) -> Result<Vec<usize>, NodeProblem> {
    Ok(attributes.sizes(name, rank, 1)?.unwrap_or_else(|| vec![1; rank]))
}

/// Reads windows over `spatial` extents without padding; the kernel is given where weights decide
/// it.
pub(super) fn unpadded(
    attributes: Attributes<'_>,
    rank: usize,
    weights: Option<&[usize]>,
) -> Result<Vec<Along>, NodeProblem> {
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
    let (stride, dilation) =
        (list(attributes, "strides", rank)?, list(attributes, "dilations", rank)?);
    Ok((0..rank)
        .map(|axis| Along {
            kernel: kernel[axis],
            stride: stride[axis],
            dilation: dilation[axis],
            ..Along::POINT
        })
        .collect())
}

/// How a model states padding.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Padding {
    Given,
    None,
    /// Of an odd number of elements more at the end, or at the beginning.
    SameUpper,
    SameLower,
}

/// Reads `auto_pad`.
pub(super) fn padding(attributes: Attributes<'_>) -> Result<Padding, NodeProblem> {
    Ok(match attributes.string("auto_pad")?.unwrap_or("NOTSET") {
        "NOTSET" | "" => Padding::Given,
        "VALID" => Padding::None,
        "SAME_UPPER" => Padding::SameUpper,
        "SAME_LOWER" => Padding::SameLower,
        other => {
            return Err(NodeProblem::attribute(
                "auto_pad",
                format!("is `{other}`, expected NOTSET, VALID, SAME_UPPER or SAME_LOWER"),
            ));
        }
    })
}

/// Reads `pads`, at the beginning and the end of each axis.
pub(super) fn pads(attributes: Attributes<'_>, windows: &mut [Along]) -> Result<(), NodeProblem> {
    let Some(given) = attributes.ints("pads")? else { return Ok(()) };
    let rank = windows.len();
    if given.len() != 2 * rank {
        let reason = format!("has {} numbers, expected {}", given.len(), 2 * rank);
        return Err(NodeProblem::attribute("pads", reason));
    }
    for &pad in given {
        size("pads", pad.saturating_abs(), 0)?;
    }
    for (axis, window) in windows.iter_mut().enumerate() {
        (window.begin, window.end) = (given[axis], given[rank + axis]);
    }
    Ok(())
}

/// Reads windows over `spatial` extents, with their padding.
pub(super) fn windows(
    attributes: Attributes<'_>,
    spatial: &[usize],
    weights: Option<&[usize]>,
) -> Result<Vec<Along>, NodeProblem> {
    let mut windows = unpadded(attributes, spatial.len(), weights)?;
    match padding(attributes)? {
        Padding::Given => pads(attributes, &mut windows)?,
        Padding::None => {}
        same => {
            for (window, &extent) in windows.iter_mut().zip(spatial) {
                let covered = (extent.div_ceil(window.stride) - 1) * window.stride + window.reach();
                let total = covered.saturating_sub(extent) as i64;
                let less = total / 2;
                (window.begin, window.end) = match same {
                    Padding::SameUpper => (less, total - less),
                    _ => (total - less, less),
                };
            }
        }
    }
    Ok(windows)
}

/// Two windows as the graph has them; their padding is not negative.
pub(super) fn square([down, along]: [Along; 2]) -> Window {
    let pad = |pad: i64| pad.max(0) as usize;
    Window {
        kernel: [down.kernel, along.kernel],
        stride: [down.stride, along.stride],
        dilation: [down.dilation, along.dilation],
        pad_begin: [pad(down.begin), pad(along.begin)],
        pad_end: [pad(down.end), pad(along.end)],
    }
}

/// Takes away from the spatial axes what negative padding does, and leaves the rest of the padding.
pub(super) fn cropped(
    cx: &mut Context<'_, '_>,
    x: ValueId,
    windows: &mut [Along],
) -> Result<ValueId, NodeProblem> {
    let mut shape = cx.shape(x);
    let mut starts = vec![0; shape.len()];
    let whole = shape.clone();
    for (axis, window) in windows.iter_mut().enumerate() {
        let [before, after] =
            [window.begin, window.end].map(|pad| pad.min(0).unsigned_abs() as usize);
        let left = shape[2 + axis].checked_sub(before + after).filter(|&left| left > 0);
        shape[2 + axis] = left.ok_or_else(|| {
            NodeProblem::attribute(
                "pads",
                format!("takes away all of an extent of {}", shape[2 + axis]),
            )
        })?;
        starts[2 + axis] = before;
        (window.begin, window.end) = (window.begin.max(0), window.end.max(0));
    }
    if shape == whole {
        return Ok(x);
    }
    let op = Op::Slice { starts, steps: vec![1; shape.len()] };
    cx.helper("cropped", op, vec![Some(x)], shape)
}

/// Adds the node itself, or one that serves it and has a name of its own.
pub(super) fn add(
    cx: &mut Context<'_, '_>,
    suffix: Option<&str>,
    op: Op,
    inputs: Vec<Option<ValueId>>,
    shape: Vec<usize>,
) -> Result<ValueId, NodeProblem> {
    match suffix {
        Some(suffix) => cx.helper(suffix, op, inputs, shape),
        None => {
            let output = (cx.output(0), shape);
            Ok(cx.node(cx.name.into(), op, inputs, vec![output])?[0])
        }
    }
}

/// Checks the shape of an image: images, channels, and one to three spatial dimensions, none empty.
pub(super) fn check_image(shape: &[usize]) -> Result<(), NodeProblem> {
    match shape.len() {
        _ if shape.contains(&0) => {
            Err(NodeProblem::shape(format!("the input has the shape {shape:?}, no elements")))
        }
        3..=5 => Ok(()),
        6.. => Err(NodeProblem::unsupported(format!(
            "the input has {} spatial dimensions, supported are 1 to 3",
            shape.len() - 2
        ))),
        _ => Err(NodeProblem::shape(format!(
            "the input has the shape {shape:?}, expected images, channels and spatial dimensions"
        ))),
    }
}
