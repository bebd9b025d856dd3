//! Interpolation: for each axis that changes a list of weighted sums, made one axis after the other.
//!
//! Coordinates are computed as onnxruntime does: of the nearest element in single precision, where
//! rounding decides which it is, of others in double precision.

use super::super::builder::Operand;
use super::super::context::{Context, axis};
use super::super::error::NodeProblem;
use crate::graph::{Op, Resampling, ValueId};

/// How elements are weighted.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Nearest(Rounding),
    Linear,
    /// With its coefficient.
    Cubic(f64),
}

/// Which of two elements is nearest.
#[derive(Clone, Copy, PartialEq)]
enum Rounding {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
}

/// Where the elements of the output lie in the input.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    CropAndResize,
}

/// What an interpolation does to each axis.
struct Interpolation {
    mode: Mode,
    place: Place,
    antialias: bool,
    exclude_outside: bool,
    /// Of an element outside of what is cropped.
    extrapolation: f32,
}

/// One axis: its extents, the factor between them, and the part that is cropped.
#[derive(Clone, Copy)]
struct Extent {
    from: usize,
    to: usize,
    scale: f64,
    crop: [f64; 2],
}

pub(super) fn resize(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let shape = cx.shape(x);
    let how = interpolation(cx)?;
    let extents = extents(cx, &shape, how.place)?;
    let mut axes: Vec<usize> = (0..shape.len()).collect();
    // What shrinks goes first, so that least is computed.
    let grows = |axis: usize| extents[axis].to as f64 / extents[axis].from as f64;
    axes.sort_by(|&a, &b| grows(a).total_cmp(&grows(b)));
    let mut sums = vec![];
    for axis in axes {
        cx.charge(&[extents[axis].to])?;
        let resampling = how.along(axis, extents[axis]);
        let all = resampling.starts.iter().copied().eq(0..extents[axis].from);
        if !(all && resampling.taps == 1 && resampling.weights.iter().all(|&weight| weight == 1.0))
        {
            sums.push(resampling);
        }
    }
    if let Some(factors) = whole(&sums, &shape) {
        return enlarged(cx, x, &shape, &factors);
    }
    resampled(cx, x, sums)
}

/// One axis after the other resampled.
pub(super) fn resampled(
    cx: &mut Context<'_, '_>,
    mut x: ValueId,
    mut sums: Vec<Resampling>,
) -> Result<Vec<Operand>, NodeProblem> {
    let Some(last) = sums.pop() else {
        return Ok(vec![Operand::Float(cx.kind(), x)]);
    };
    let mut shape = cx.shape(x);
    for resampling in sums {
        shape[resampling.axis] = resampling.starts.len();
        let suffix = format!("axis{}", resampling.axis);
        x = cx.helper(&suffix, Op::Resample(resampling), vec![Some(x)], shape.clone())?;
    }
    shape[last.axis] = last.starts.len();
    cx.emit(Op::Resample(last), vec![Some(x)], shape)
}

/// The factors of an enlargement that repeats each element as often.
fn whole(sums: &[Resampling], shape: &[usize]) -> Option<Vec<usize>> {
    let mut factors = vec![1; shape.len()];
    for of in sums {
        let (from, to) = (shape[of.axis], of.starts.len());
        let factor = to / from;
        let repeats = of.starts.iter().enumerate().all(|(at, &start)| start == at / factor.max(1));
        let copies = of.taps == 1 && of.weights.iter().all(|&weight| weight == 1.0);
        if factor * from != to || !repeats || !copies {
            return None;
        }
        factors[of.axis] = factor;
    }
    Some(factors)
}

/// Each axis that grows gets another of extent 1 after it, which is repeated and joined to it.
fn enlarged(
    cx: &mut Context<'_, '_>,
    x: ValueId,
    shape: &[usize],
    factors: &[usize],
) -> Result<Vec<Operand>, NodeProblem> {
    if factors.iter().all(|&factor| factor == 1) {
        return Ok(vec![cx.input(0, "x")?]);
    }
    let (mut apart, mut repeated, mut result) = (vec![], vec![], vec![]);
    for (&extent, &factor) in shape.iter().zip(factors) {
        apart.push(extent);
        repeated.push(extent);
        if factor > 1 {
            apart.push(1);
            repeated.push(factor);
        }
        result.push(extent * factor);
    }
    let apart = cx.helper("apart", Op::Reshape, vec![Some(x)], apart)?;
    let repeated = cx.helper("repeated", Op::Expand, vec![Some(apart)], repeated)?;
    cx.emit(Op::Reshape, vec![Some(repeated)], result)
}

/// Reads the attributes.
fn interpolation(cx: &Context<'_, '_>) -> Result<Interpolation, NodeProblem> {
    let attributes = cx.attributes();
    let text = |name, default: &str| -> Result<String, NodeProblem> {
        Ok(attributes.string(name)?.unwrap_or(default).to_string())
    };
    let unknown = |name, found: &str| {
        NodeProblem::attribute(name, format!("is `{found}`, which ONNX does not define"))
    };
    let old = cx.opset < 11;
    let name =
        text("coordinate_transformation_mode", if old { "asymmetric" } else { "half_pixel" })?;
    let place = match name.as_str() {
        "half_pixel" => Place::HalfPixel,
        "half_pixel_symmetric" => Place::HalfPixelSymmetric,
        "pytorch_half_pixel" => Place::PytorchHalfPixel,
        "align_corners" => Place::AlignCorners,
        "asymmetric" => Place::Asymmetric,
        "tf_crop_and_resize" => Place::CropAndResize,
        other => return Err(unknown("coordinate_transformation_mode", other)),
    };
    let name = text("nearest_mode", if old { "floor" } else { "round_prefer_floor" })?;
    let rounding = match name.as_str() {
        "round_prefer_floor" => Rounding::PreferFloor,
        "round_prefer_ceil" => Rounding::PreferCeil,
        "floor" => Rounding::Floor,
        "ceil" => Rounding::Ceil,
        other => return Err(unknown("nearest_mode", other)),
    };
    let mode = match text("mode", "nearest")?.as_str() {
        "nearest" => Mode::Nearest(rounding),
        "linear" | "bilinear" => Mode::Linear,
        "cubic" => Mode::Cubic(attributes.float_or("cubic_coeff_a", -0.75)?.into()),
        other => return Err(unknown("mode", other)),
    };
    Ok(Interpolation {
        mode,
        place,
        antialias: attributes.flag("antialias", false)?,
        exclude_outside: attributes.flag("exclude_outside", false)?,
        extrapolation: attributes.float_or("extrapolation_value", 0.0)?,
    })
}

/// What becomes of each axis, from the scales or the sizes.
fn extents(
    cx: &mut Context<'_, '_>,
    shape: &[usize],
    place: Place,
) -> Result<Vec<Extent>, NodeProblem> {
    let on = match cx.attributes().ints("axes")? {
        Some(given) => given.iter().map(|&one| axis(one, shape.len())).collect::<Result<_, _>>()?,
        None => (0..shape.len()).collect::<Vec<usize>>(),
    };
    let mut extents: Vec<Extent> = (shape.iter())
        .map(|&extent| Extent { from: extent, to: extent, scale: 1.0, crop: [0.0, 1.0] })
        .collect();
    let fitting = |count: usize, what: &str| match count == on.len() {
        true => Ok(()),
        false => Err(NodeProblem::shape(format!("{count} {what} do not fit {} axes", on.len()))),
    };
    if place == Place::CropAndResize {
        let roi = numbers(cx, 1, "roi")?.ok_or(NodeProblem::Missing { index: 1, role: "roi" })?;
        if roi.len() != 2 * on.len() {
            let what =
                format!("{} ends of what is cropped do not fit {} axes", roi.len(), on.len());
            return Err(NodeProblem::shape(what));
        }
        for (at, &axis) in on.iter().enumerate() {
            extents[axis].crop = [roi[at], roi[on.len() + at]];
        }
    }
    let at = if cx.opset < 11 { 1 } else { 2 };
    let scales = match (cx.attributes().floats("scales")?, cx.opset < 9) {
        (Some(given), true) => Some(given.iter().map(|&scale| scale.into()).collect()),
        _ => numbers(cx, at, "scales")?,
    };
    match (scales, cx.optional_integers(3, "sizes")?) {
        (Some(scales), _) => {
            fitting(scales.len(), "factors")?;
            for (&axis, &scale) in on.iter().zip(&scales) {
                check_corners(place, shape[axis] as f64 * scale)?;
                let to = (shape[axis] as f64 * scale).floor();
                extents[axis] = Extent { to: counted(to)?, scale, ..extents[axis] };
            }
        }
        (None, Some(sizes)) => {
            fitting(sizes.data.len(), "sizes")?;
            for (&axis, &size) in on.iter().zip(&sizes.data) {
                let scale = size as f64 / shape[axis] as f64;
                extents[axis] = Extent { to: counted(size as f64)?, scale, ..extents[axis] };
            }
            keep_ratio(cx, &on, &mut extents)?;
        }
        (None, None) => return Err(NodeProblem::Missing { index: at, role: "scales" }),
    }
    Ok(extents)
}

/// Where the last element lies, if corners are aligned to an extent that is not whole, is one thing
/// to ONNX's own reference and another to onnxruntime and PyTorch.
fn check_corners(place: Place, extent: f64) -> Result<(), NodeProblem> {
    let whole = (extent - extent.round()).abs() < 1e-3;
    match place == Place::AlignCorners && !whole {
        true => Err(NodeProblem::unsupported(format!(
            "corners are aligned, but the factors give the extent {extent}, on which runtimes disagree; export it with sizes"
        ))),
        false => Ok(()),
    }
}

/// Constant floats, unless there are none.
fn numbers(
    cx: &mut Context<'_, '_>,
    index: usize,
    role: &'static str,
) -> Result<Option<Vec<f64>>, NodeProblem> {
    let Some(value) = cx.optional_weights(index, role)? else { return Ok(None) };
    let array = cx.builder.array(value)?;
    Ok(array.map(|array| array.data).filter(|data| !data.is_empty()))
}

/// An extent that is computed.
fn counted(extent: f64) -> Result<usize, NodeProblem> {
    match (1.0..1e9).contains(&extent) {
        true => Ok(extent as usize),
        false => Err(NodeProblem::shape(format!("an axis would have the extent {extent}"))),
    }
}

/// With a policy all axes have one factor, the least of them or the largest.
fn keep_ratio(
    cx: &Context<'_, '_>,
    on: &[usize],
    extents: &mut [Extent],
) -> Result<(), NodeProblem> {
    let scales = on.iter().map(|&axis| extents[axis].scale);
    let scale = match cx.attributes().string("keep_aspect_ratio_policy")?.unwrap_or("stretch") {
        "stretch" => return Ok(()),
        "not_larger" => scales.fold(f64::INFINITY, f64::min),
        "not_smaller" => scales.fold(0.0, f64::max),
        other => {
            let reason = format!("is `{other}`, expected stretch, not_larger or not_smaller");
            return Err(NodeProblem::attribute("keep_aspect_ratio_policy", reason));
        }
    };
    for &axis in on {
        let to = counted((extents[axis].from as f64 * scale + 0.5).floor())?;
        extents[axis] = Extent { to, scale, ..extents[axis] };
    }
    Ok(())
}

impl Interpolation {
    /// The sums along an axis.
    fn along(&self, axis: usize, extent: Extent) -> Resampling {
        let sums: Vec<Vec<(usize, f64)>> = (0..extent.to).map(|at| self.sum(at, extent)).collect();
        Resampling::new(axis, extent.from, &sums, self.extrapolation)
    }

    /// The elements that one is made from, weighted.
    fn sum(&self, at: usize, extent: Extent) -> Vec<(usize, f64)> {
        let x = self.coordinate(at, extent);
        let last = extent.from as i64 - 1;
        if self.place == Place::CropAndResize && !(0.0..=last as f64).contains(&x) {
            return vec![];
        }
        let inside = |place: i64| place.clamp(0, last) as usize;
        if let Mode::Nearest(rounding) = self.mode {
            return vec![(inside(nearest(x, rounding)), 1.0)];
        }
        let floor = x.ceil() - 1.0;
        let ratio = x - floor;
        let (first, mut weights) = self.weights(ratio, extent.scale);
        let places = || (0..).map(|tap| floor as i64 + first + tap);
        if self.exclude_outside {
            for (weight, place) in weights.iter_mut().zip(places()) {
                if !(0..=last).contains(&place) {
                    *weight = 0.0;
                }
            }
            let total: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|weight| *weight /= total);
        }
        places().map(inside).zip(weights).collect()
    }

    /// The place of the first tap, from the element before on, and all weights.
    fn weights(&self, ratio: f64, scale: f64) -> (i64, Vec<f64>) {
        let shrink = if self.antialias { scale.min(1.0) } else { 1.0 };
        let (half, kernel): (f64, Box<dyn Fn(f64) -> f64>) = match self.mode {
            Mode::Cubic(a) => (2.0, Box::new(move |x| cubic(x, a))),
            _ => (1.0, Box::new(|x: f64| (1.0 - x.abs()).max(0.0))),
        };
        let first = (-half / shrink).floor() as i64 + 1;
        let taps = first..2 - first;
        let mut weights: Vec<f64> = taps.map(|tap| kernel((tap as f64 - ratio) * shrink)).collect();
        if self.antialias {
            let total: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|weight| *weight /= total);
        }
        (first, weights)
    }

    /// Where an element lies in the input.
    fn coordinate(&self, at: usize, extent: Extent) -> f64 {
        let round = |value: f64| match self.mode {
            Mode::Nearest(_) => f64::from(value as f32),
            _ => value,
        };
        let (at, from, to) = (at as f64, extent.from as f64, extent.to as f64);
        let scale = f64::from(extent.scale as f32);
        let scale = if matches!(self.mode, Mode::Nearest(_)) { scale } else { extent.scale };
        let half = |at: f64| round(round(round(at + 0.5) / scale) - 0.5);
        match self.place {
            Place::HalfPixel => half(at),
            Place::PytorchHalfPixel if extent.to > 1 => half(at),
            Place::PytorchHalfPixel => 0.0,
            Place::HalfPixelSymmetric => {
                let adjustment = to / (extent.scale * from);
                round(from / 2.0 * (1.0 - adjustment) + half(at))
            }
            Place::Asymmetric => round(at / scale),
            Place::AlignCorners if extent.to > 1 => round(round(at * (from - 1.0)) / (to - 1.0)),
            Place::AlignCorners => 0.0,
            Place::CropAndResize => {
                let [start, end] = extent.crop;
                let last = from - 1.0;
                match extent.to {
                    1 => round(0.5 * (start + end) * last),
                    _ => round(start * last + round(at * (end - start) * last / (to - 1.0))),
                }
            }
        }
    }
}

/// What a place in single precision may be off a half, which it is all the same.
const HALF: f64 = 1e-6;

/// The element that is nearest. Halves are those that onnxruntime takes for halves.
fn nearest(x: f64, rounding: Rounding) -> i64 {
    let floor = x.floor();
    let over = x - floor - 0.5;
    let up = match rounding {
        Rounding::Floor => false,
        Rounding::Ceil => x > floor,
        Rounding::PreferFloor => over > HALF,
        Rounding::PreferCeil => over >= -HALF,
    };
    floor as i64 + i64::from(up)
}

/// The weight of an element at some distance.
fn cubic(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}
