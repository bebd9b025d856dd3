//! Operators that make a tensor part of a larger one: padding, in each mode, and cropping.

use super::super::builder::Operand;
use super::super::context::{Context, axes, axis};
use super::super::error::NodeProblem;
use super::resize::resampled;
use crate::graph::{Op, Resampling, ValueId};

/// The largest padding that is read, in elements.
const MOST: i64 = i32::MAX as i64;

/// What stands in the place of padding.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Constant(f32),
    Reflect,
    Edge,
    Wrap,
}

/// Elements added before and after each axis; negative ones are taken away.
type Pads = Vec<[i64; 2]>;

pub(super) fn pad(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let data = cx.float(0, "data")?;
    let rank = cx.shape(data).len();
    let attributes = cx.attributes();
    let (given, value, on) = if cx.opset < 11 {
        let name = if cx.opset < 2 { "paddings" } else { "pads" };
        let pads =
            attributes.ints(name)?.ok_or_else(|| NodeProblem::attribute(name, "is missing"))?;
        (pads.to_vec(), attributes.float_or("value", 0.0)?, None)
    } else {
        let pads = cx.few(1, "pads")?.data.clone();
        let value = cx.optional_scalar(2, "constant_value")?.unwrap_or(0.0);
        (pads, value, cx.optional_integers(3, "axes")?)
    };
    let mode = match attributes.string("mode")?.unwrap_or("constant") {
        "constant" => Mode::Constant(value),
        "reflect" => Mode::Reflect,
        "edge" => Mode::Edge,
        "wrap" => Mode::Wrap,
        other => {
            let reason = format!("is `{other}`, expected constant, reflect, edge or wrap");
            return Err(NodeProblem::attribute("mode", reason));
        }
    };
    let on = on.map_or_else(|| (0..rank as i64).collect(), |axes| axes.data.clone());
    axes(&on, rank)?;
    if given.len() != 2 * on.len() {
        return Err(NodeProblem::shape(format!(
            "{} pads do not fit {} axes: two are needed for each",
            given.len(),
            on.len()
        )));
    }
    if let Some(pad) = given.iter().find(|pad| pad.unsigned_abs() > MOST as u64) {
        return Err(NodeProblem::attribute("pads", format!("has {pad}, beyond {MOST}")));
    }
    let mut pads = vec![[0; 2]; rank];
    for (at, &axis_of) in on.iter().enumerate() {
        pads[axis(axis_of, rank)?] = [given[at], given[on.len() + at]];
    }
    padded(cx, data, &pads, mode)
}

/// Crops what is negative, then pads.
fn padded(
    cx: &mut Context<'_, '_>,
    data: ValueId,
    pads: &Pads,
    mode: Mode,
) -> Result<Vec<Operand>, NodeProblem> {
    let shape = cx.shape(data);
    let mut kept = shape.clone();
    let mut starts = vec![0; shape.len()];
    for (axis, pad) in pads.iter().enumerate() {
        let [before, after] = pad.map(|pad| pad.min(0).unsigned_abs() as usize);
        let Some(left) = shape[axis].checked_sub(before + after) else {
            return Err(NodeProblem::shape(format!(
                "axis {axis} of extent {} loses {} elements",
                shape[axis],
                before + after
            )));
        };
        (kept[axis], starts[axis]) = (left, before);
    }
    let grows = pads.iter().flatten().any(|&pad| pad > 0);
    let mut value = data;
    if kept != shape {
        let op = Op::Slice { starts, steps: vec![1; shape.len()] };
        if !grows {
            return cx.emit(op, vec![Some(data)], kept);
        }
        value = cx.helper("cropped", op, vec![Some(data)], kept.clone())?;
    }
    if !grows {
        return Ok(vec![cx.input(0, "data")?]);
    }
    let added =
        |end: usize| pads.iter().map(|pad| pad[end].max(0) as usize).collect::<Vec<usize>>();
    let (begin, end) = (added(0), added(1));
    if let Mode::Constant(value_of) = mode {
        let whole = (0..shape.len()).map(|axis| begin[axis] + kept[axis] + end[axis]).collect();
        return cx.emit(Op::Pad { begin, end, value: value_of }, vec![Some(value)], whole);
    }
    let mut sums = vec![];
    for axis in (0..shape.len()).filter(|&axis| begin[axis] + end[axis] > 0) {
        let extent = kept[axis];
        if extent == 0 {
            return Err(NodeProblem::shape(format!("axis {axis} has nothing to pad with")));
        }
        cx.charge(&[begin[axis] + extent + end[axis]])?;
        let places = -(begin[axis] as i64)..(extent + end[axis]) as i64;
        let places = places.map(|place| source(place, extent as i64, mode)).collect();
        sums.push(Resampling::choice(axis, places));
    }
    resampled(cx, value, sums)
}

/// The element of an axis that stands at a place before, in or after it.
fn source(place: i64, extent: i64, mode: Mode) -> usize {
    let found = match mode {
        Mode::Wrap => place.rem_euclid(extent),
        Mode::Reflect if extent > 1 => {
            let period = 2 * (extent - 1);
            let place = place.rem_euclid(period);
            place.min(period - place)
        }
        _ => place.clamp(0, extent - 1),
    };
    found as usize
}

/// The middle of each axis, or the whole in the middle of what is added.
pub(super) fn center_crop_pad(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let data = cx.float(0, "input")?;
    let wanted = cx.few(1, "shape")?.data.clone();
    let shape = cx.shape(data);
    let rank = shape.len();
    let on = match cx.attributes().ints("axes")? {
        Some(given) => given.iter().map(|&one| axis(one, rank)).collect::<Result<_, _>>()?,
        None => (0..rank).collect::<Vec<usize>>(),
    };
    if on.len() != wanted.len() {
        let what = format!("{} extents do not fit {} axes", wanted.len(), on.len());
        return Err(NodeProblem::shape(what));
    }
    let mut pads = vec![[0; 2]; rank];
    for (&axis, &extent) in on.iter().zip(&wanted) {
        let more = extent.clamp(0, MOST) - shape[axis] as i64;
        let before = if more < 0 { -(-more / 2) } else { more / 2 };
        pads[axis] = [before, more - before];
    }
    padded(cx, data, &pads, Mode::Constant(0.0))
}
