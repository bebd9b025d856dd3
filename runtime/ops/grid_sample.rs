//! Pixels of an image, or of a volume, at places between them.
//!
//! A place has a few pixels along each axis, with weights; each output is the sum over all of them,
//! axis by axis from the outermost, the last axis innermost. Vectors run over channels. Places are
//! computed in single precision as onnxruntime does; one that is no number is the first pixel.

use super::work::{elements, product};
use super::{Call, LayerError, Operand, Operator, Reads, check, device_for};
use crate::device::{Split, divide};
use crate::pack::{GridSampleParams, INPUTS, Isa, Layer, NONE, OpKind, Tensor, params};

/// Most axes, and most taps of one.
const AXES: usize = 3;
const TAPS: usize = 4;

/// The parameter of cubic weights.
const CUBIC: f32 = -0.75;

/// Places further out are as these.
const FAR: f32 = (1u32 << 31) as f32;

/// Pixels at places between them.
pub(super) const ROW: Operator = Operator {
    reads: [Reads::Whole, Reads::Rows, Reads::Whole],
    // Weights of taps are computed for each pixel.
    macs: |layer, _, output| {
        let sample: GridSampleParams = params(layer);
        let taps = [1, 8, 16][sample.mode.min(2) as usize];
        let [images, height, width, _] = output.dims;
        elements(output).saturating_mul(taps).saturating_add(product([images, height, width, 64]))
    },
    ..Operator::new(OpKind::GridSample, 2, validate, run)
};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    _isa: Isa,
) -> Result<(), LayerError> {
    let p: GridSampleParams = params(layer);
    let [image, grid, _] = inputs;
    let [.., third] = layer.inputs;
    check(third == NONE, "number of inputs", 3, 2)?;
    for &input in &layer.inputs[..2] {
        check(input != NONE, "number of inputs", 1, 2)?;
        let what = "output tensor, which must not be an input,";
        check(input != layer.output, what, layer.output.into(), input.into())?;
    }
    check(layer.panels == 0, "number of weight panels", layer.panels.into(), 0)?;
    check(p.mode <= 2, "mode of sampling", p.mode.into(), 2)?;
    check(p.padding <= 2, "padding of what is sampled", p.padding.into(), 2)?;
    check(p.align_corners <= 1, "whether corners are aligned", p.align_corners.into(), 1)?;
    let lines = image.dims[1];
    let divides = p.depth > 0 && lines % p.depth == 0;
    check(divides, "slices of a volume", p.depth.into(), lines.into())?;
    let axes = grid.cols();
    check(axes == 2 || axes == 3, "numbers of a place", axes.into(), 3)?;
    check(axes == 3 || p.depth == 1, "slices of an image", p.depth.into(), 1)?;
    check(axes == 2 || p.mode < 2, "mode of sampling a volume", p.mode.into(), 1)?;
    for dim in 0..3 {
        let (found, limit) = (grid.dims[dim].into(), output.dims[dim].into());
        check(found == limit, "extent of the places", found, limit)?;
    }
    for dim in [0, 3] {
        let (found, limit) = (output.dims[dim].into(), image.dims[dim].into());
        check(found == limit, "extent of the output", found, limit)?;
    }
    Ok(())
}

/// The largest integer that is not larger.
fn floor(x: f32) -> i64 {
    let whole = x as i64;
    if whole as f32 > x { whole - 1 } else { whole }
}

/// The nearest integer, the even one of two.
fn nearest(x: f32) -> f32 {
    let below = floor(x);
    let part = x - below as f32;
    let up = part > 0.5 || (part == 0.5 && below % 2 != 0);
    (below + i64::from(up)) as f32
}

/// One axis of what is sampled.
#[derive(Clone, Copy)]
struct Axis {
    extent: i64,
    p: GridSampleParams,
}

/// Pixels along an axis, and their weights.
#[derive(Clone, Copy, Default)]
struct Along {
    count: usize,
    /// `None` for zeros beyond the image.
    pixels: [Option<usize>; TAPS],
    weights: [f32; TAPS],
}

impl Axis {
    /// The ends of what is reflected.
    fn ends(&self) -> [f32; 2] {
        match self.p.align_corners {
            1 => [0.0, (self.extent - 1) as f32],
            _ => [-0.5, self.extent as f32 - 0.5],
        }
    }

    /// A place that is reflected at both ends until it is inside.
    fn reflected(&self, x: f32) -> f32 {
        let [least, most] = self.ends();
        let range = most - least;
        if range <= 0.0 {
            return least;
        }
        let (beyond, from, to) = match () {
            _ if x < least => (least - x, least, most),
            _ if x > most => (x - most, most, least),
            _ => return x,
        };
        let times = (beyond / range) as i64;
        let rest = beyond - times as f32 * range;
        let inwards = if from < to { 1.0 } else { -1.0 };
        if times % 2 == 0 { from + inwards * rest } else { to - inwards * rest }
    }

    /// The pixel at an integer place.
    fn pixel(&self, at: i64) -> Option<usize> {
        let last = self.extent - 1;
        match self.p.padding {
            0 => (0..=last).contains(&at).then_some(at as usize),
            1 => Some(at.clamp(0, last) as usize),
            _ => Some((self.reflected(at as f32) as i64).clamp(0, last) as usize),
        }
    }

    /// The pixels that a place between -1 and 1 is made from.
    fn along(&self, place: f32) -> Along {
        let extent = self.extent as f32;
        let x = match self.p.align_corners {
            1 => (place + 1.0) / 2.0 * (extent - 1.0),
            _ => ((place + 1.0) * extent - 1.0) / 2.0,
        };
        let x = if x.is_nan() { 0.0 } else { x.clamp(-FAR, FAR) };
        let x = if self.p.mode == 0 { nearest(x) } else { x };
        let [least, most] = self.ends();
        let x = match self.p.padding {
            1 if x < least || x > most => x.clamp(0.0, extent - 1.0),
            2 => self.reflected(x),
            _ => x,
        };
        let first = floor(x);
        let part = x - first as f32;
        let mut along = Along::default();
        let mut tap = |at: i64, weight: f32| {
            along.pixels[along.count] = self.pixel(at);
            along.weights[along.count] = weight;
            along.count += 1;
        };
        match self.p.mode {
            0 => tap(first, 1.0),
            1 => {
                tap(first, 1.0 - part);
                tap(first + 1, part);
            }
            _ => {
                for (at, distance) in
                    [1.0 + part, part, 1.0 - part, 2.0 - part].into_iter().enumerate()
                {
                    tap(first - 1 + at as i64, cubic(distance));
                }
            }
        }
        along
    }
}

/// The weight of a pixel so far away.
fn cubic(x: f32) -> f32 {
    match x <= 1.0 {
        true => ((CUBIC + 2.0) * x - (CUBIC + 3.0)) * x * x + 1.0,
        false => ((CUBIC * x - 5.0 * CUBIC) * x + 8.0 * CUBIC) * x - 4.0 * CUBIC,
    }
}

/// Computes the rows of one step.
pub fn run(mut call: Call<'_>) {
    let [Operand::Mat(image), Operand::Mat(grid), _] = call.operands else { return };
    let p: GridSampleParams = params(call.layer);
    let [_, lines, width, _] = call.inputs[0].dims.map(|extent| extent as usize);
    let height = lines / p.depth as usize;
    let extents = [p.depth as usize, height, width].map(|extent| extent as i64);
    let axes = extents.map(|extent| Axis { extent, p });
    let pixels = call.output.dims[1] as usize * call.output.dims[2] as usize;
    let (cols, first) = (call.out.cols(), call.rows.start);
    let out = call.out.part_mut(call.out.slots(call.rows), 0..cols);
    let device = device_for(call.device, out.rows() * (cols + 32));
    let (activation, kernels) = (&call.layer.activation, call.kernels);
    divide(device, out, Split::Rows(1), &mut [], 0, |mut share| {
        for row in 0..share.out.rows() {
            let at = first + share.rows.start + row;
            let place = grid.row(grid.slot(at));
            // The innermost axis comes first.
            let one = Along { count: 1, pixels: [Some(0); TAPS], weights: [1.0; TAPS] };
            let mut along = [one; AXES];
            for (axis, &place) in place.iter().take(AXES).enumerate() {
                along[AXES - 1 - axis] = axes[AXES - 1 - axis].along(place);
            }
            let before = at / pixels * lines;
            let out = share.out.row_mut(row);
            out.fill(0.0);
            sum(&along, |[z, y, x], weight| {
                let from = image.row(image.slot((before + z * height + y) * width + x));
                out.iter_mut().zip(from).for_each(|(out, x)| *out += weight * x);
            });
        }
        kernels.map(activation, share.out);
    });
}

/// Calls a function with each pixel inside, and its weight.
fn sum(along: &[Along; AXES], mut each: impl FnMut([usize; AXES], f32)) {
    let [deep, down, across] = along;
    for z in 0..deep.count {
        for y in 0..down.count {
            for x in 0..across.count {
                let pixels = (deep.pixels[z], down.pixels[y], across.pixels[x]);
                let (Some(at_z), Some(at_y), Some(at_x)) = pixels else { continue };
                let weight = deep.weights[z] * down.weights[y] * across.weights[x];
                each([at_z, at_y, at_x], weight);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, layer};
    use super::*;
    use crate::pack::Activation;
    use std::prelude::rust_2024::*;

    fn case(random: &mut Random, p: GridSampleParams, image: [u32; 4], made: [u32; 3]) -> Case {
        let layer = layer(OpKind::GridSample, Activation::NONE, &p);
        let [images, height, width] = made;
        let axes = if p.depth > 1 { 3 } else { 2 };
        let grid = [images, height, width, axes];
        let mut case = Case::new(layer, random, &[image, grid], [images, height, width, image[3]]);
        for row in 0..images * height * width {
            for axis in 0..axes {
                let at = case.inputs[1].offset + row * case.inputs[1].pitch + axis;
                case.data[1][at as usize] = random.float() * 2.5;
            }
        }
        case
    }

    /// A pixel at an integer place, in double precision.
    fn pixel(p: &GridSampleParams, at: f64, extent: f64) -> Option<f64> {
        match p.padding {
            0 => (at >= 0.0 && at < extent).then_some(at),
            1 => Some(at.clamp(0.0, extent - 1.0)),
            _ => Some(reflected(p, at, extent).trunc().clamp(0.0, extent - 1.0)),
        }
    }

    /// Where what is reflected ends.
    fn ends(p: &GridSampleParams, extent: f64) -> [f64; 2] {
        if p.align_corners == 1 { [0.0, extent - 1.0] } else { [-0.5, extent - 0.5] }
    }

    /// By folding the line at each end, as often as needed.
    fn reflected(p: &GridSampleParams, mut at: f64, extent: f64) -> f64 {
        let [least, most] = ends(p, extent);
        if most <= least {
            return least;
        }
        while at < least || at > most {
            at = if at < least { 2.0 * least - at } else { 2.0 * most - at };
        }
        at
    }

    fn taps(p: &GridSampleParams, place: f64, extent: f64) -> Vec<(Option<f64>, f64)> {
        let mut at = match p.align_corners {
            1 => (place + 1.0) / 2.0 * (extent - 1.0),
            _ => ((place + 1.0) * extent - 1.0) / 2.0,
        };
        if p.mode == 0 {
            at = at.round_ties_even();
        }
        let [least, most] = ends(p, extent);
        match p.padding {
            1 if at < least || at > most => at = at.clamp(0.0, extent - 1.0),
            2 => at = reflected(p, at, extent),
            _ => {}
        }
        let around = match p.mode {
            0 => 0..1,
            1 => 0..2,
            _ => -1..3,
        };
        let weight = |x: f64| match p.mode {
            0 => 1.0,
            1 => 1.0 - x,
            _ if x <= 1.0 => 1.25 * x * x * x - 2.25 * x * x + 1.0,
            _ => -0.75 * x * x * x + 3.75 * x * x - 6.0 * x + 3.0,
        };
        let tap = |tap: i32| {
            let to = at.floor() + f64::from(tap);
            (pixel(p, to, extent), weight((to - at).abs()))
        };
        around.map(tap).collect()
    }

    #[test]
    fn matches_double_precision() {
        let mut random = Random::new(1);
        for (depth, image, made) in [
            (1, [1, 5, 7, 3], [1, 4, 6]),
            (1, [2, 6, 4, 17], [2, 3, 5]),
            (1, [1, 1, 3, 9], [1, 2, 9]),
            (3, [1, 12, 5, 8], [1, 6, 4]),
        ] {
            for mode in 0..if depth > 1 { 2 } else { 3 } {
                for (padding, align_corners) in [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)] {
                    let p = GridSampleParams { mode, padding, align_corners, depth };
                    let case = case(&mut random, p, image, made);
                    let found = case.run_everywhere();
                    let axes = case.inputs[1].dims[3] as usize;
                    let [_, lines, width, cols] = image.map(f64::from);
                    let extents = [width, lines / f64::from(depth), f64::from(depth)];
                    case.assert_close(&found, 1e-3, |at| {
                        let (row, col) = (at / cols as usize, at % cols as usize);
                        let mut all = vec![(0.0, 1.0)];
                        for axis in (0..axes).rev() {
                            let place = case.input(1, row * axes + axis);
                            let taps = taps(&p, place, extents[axis]);
                            let mut next = vec![];
                            for &(index, weight) in &all {
                                for &(pixel, own) in &taps {
                                    if let Some(pixel) = pixel {
                                        next.push((index * extents[axis] + pixel, weight * own));
                                    }
                                }
                            }
                            all = next;
                        }
                        let image = row as u32 / made[1] / made[2];
                        let before = f64::from(image) * lines * width;
                        let value =
                            |index: f64| case.input(0, ((before + index) * cols) as usize + col);
                        all.iter().map(|&(index, weight)| weight * value(index)).sum()
                    });
                }
            }
        }
    }

    #[test]
    fn odd_places_are_harmless() {
        let mut random = Random::new(2);
        for mode in 0..3 {
            for padding in 0..3 {
                let p = GridSampleParams { mode, padding, align_corners: mode % 2, depth: 1 };
                let mut case = case(&mut random, p, [1, 3, 1, 2], [1, 1, 5]);
                let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -1e30];
                for (row, place) in odd.into_iter().enumerate() {
                    let at = case.inputs[1].offset as usize + row * case.inputs[1].pitch as usize;
                    case.data[1][at..at + 2].fill(place);
                }
                assert!(case.run(1, 5).len() >= 10);
            }
        }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let mut random = Random::new(3);
        let p = GridSampleParams { mode: 1, padding: 0, align_corners: 0, depth: 1 };
        let good = case(&mut random, p, [1, 4, 5, 3], [1, 2, 2]);
        assert_eq!(good.validate(), Ok(()));
        let refused = |change: fn(&mut Case)| {
            let mut case = good.clone();
            change(&mut case);
            case.validate().is_err()
        };
        for word in 0..4 {
            let mut case = good.clone();
            case.layer.params[word] = 3;
            assert!(case.validate().is_err(), "{word}");
        }
        assert!(refused(|case| case.layer.params[3] = 2));
        assert!(refused(|case| case.layer.params[3] = 0));
        assert!(refused(|case| case.layer.inputs[1] = NONE));
        assert!(refused(|case| case.layer.inputs[0] = case.layer.output));
        assert!(refused(|case| case.inputs[1].dims[3] = 1));
        assert!(refused(|case| case.inputs[1].dims[2] = 3));
        assert!(refused(|case| case.output.dims[3] = 2));
        assert!(refused(|case| case.layer.panels = 1));
    }
}
