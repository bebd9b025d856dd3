//! Operators that read between the elements of an image, where other tensors say: they are samples of it at places
//! that are computed.

use super::super::array::Array;
use super::super::attributes::size;
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use super::super::onnx::AttributeProto;
use super::compose::{Steps, int, ints, list, string};
use super::geometry::{Along, windows};

/// Linear samples of an image, zeros around it or its edge.
fn samples(padding: &str) -> Vec<AttributeProto> {
    vec![string("mode", "linear"), string("padding_mode", padding), int("align_corners", 0)]
}

/// A constant of floats, of the node's type.
fn constant(
    steps: &mut Steps<'_, '_, '_>,
    role: &str,
    shape: Vec<usize>,
    data: Vec<f64>,
) -> Result<Operand, NodeProblem> {
    steps.cx.charge_for(&shape, size_of::<f64>() + size_of::<f32>())?;
    let (name, kind) = (format!("{}/{role}", steps.cx.name), steps.cx.kind());
    let value = steps.cx.builder.constant(name, kind, Array { shape, data });
    Ok(Operand::Float(kind, value))
}

/// The taps of a deformable convolution.
struct Taps {
    /// Positions of the output.
    made: [usize; 2],
    windows: [Along; 2],
    extent: [usize; 2],
}

impl Taps {
    fn count(&self) -> usize {
        self.windows[0].kernel * self.windows[1].kernel
    }

    /// The places without offsets, as a sample's grid has them: taps, axes (the first one down), positions.
    fn places(&self) -> Vec<f64> {
        let [down, along] = self.windows;
        let mut places = Vec::with_capacity(self.count() * 2 * self.made[0] * self.made[1]);
        for tap in 0..self.count() {
            let tap = [tap / along.kernel, tap % along.kernel];
            for (axis, window) in [down, along].into_iter().enumerate() {
                for at in 0..self.made[0] * self.made[1] {
                    let at = [at / self.made[1], at % self.made[1]][axis];
                    let place = (at * window.stride + tap[axis] * window.dilation) as f64;
                    let place = place - window.begin as f64;
                    places.push((2.0 * place + 1.0) / self.extent[axis] as f64 - 1.0);
                }
            }
        }
        places
    }
}

/// `DeformConv`: a convolution whose taps are moved by offsets. The taps are samples, of which a convolution of
/// one position makes the sums.
pub(super) fn deform_conv(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let (x, weight, offset) = (cx.input(0, "X")?, cx.input(1, "W")?, cx.input(2, "offset")?);
    let (bias, mask) = (cx.optional(3)?, cx.optional(4)?);
    let (shape, kernel) = (cx.shape_of(&x), cx.shape_of(&weight));
    let &[images, channels, height, width] = &shape[..] else {
        return Err(NodeProblem::unsupported(format!(
            "the input has the shape {shape:?}, supported are two spatial dimensions"
        )));
    };
    let attributes = cx.attributes();
    let parts = size("offset_group", attributes.int_or("offset_group", 1)?, 1)?;
    let group = size("group", attributes.int_or("group", 1)?, 1)?;
    let agree = kernel.len() == 4
        && kernel[1].checked_mul(group) == Some(channels)
        && channels.is_multiple_of(parts);
    if !agree {
        return Err(NodeProblem::shape(format!(
            "weights of shape {kernel:?} in {group} groups, {parts} of offsets, do not fit an input of shape {shape:?}"
        )));
    }
    let found = windows(attributes, &shape[2..], Some(&kernel[2..]))?;
    let made = [found[0].positions(height, false)?, found[1].positions(width, false)?];
    let taps = Taps { made, windows: [found[0], found[1]], extent: [height, width] };
    let count = taps.count();
    for (given, role, each) in
        [(Some(&offset), "offset", 2 * count), (mask.as_ref(), "mask", count)]
    {
        let expected = [images, parts * each, made[0], made[1]];
        match given.map(|operand| cx.shape_of(operand)) {
            Some(own) if own != expected => {
                return Err(NodeProblem::shape(format!(
                    "`{role}` has the shape {own:?}, expected {expected:?}"
                )));
            }
            _ => {}
        }
    }
    let mut steps = Steps::new(cx);
    let own = [images * parts, count, 2, made[0], made[1]];
    let offset = steps.shaped(&offset, &own)?;
    let scale = [height, width].map(|extent| 2.0 / extent as f64).to_vec();
    let scale = constant(&mut steps, "scale", vec![1, 1, 2, 1, 1], scale)?;
    let places =
        constant(&mut steps, "places", vec![1, count, 2, made[0], made[1]], taps.places())?;
    let moved = steps.apply("Mul", &[&offset, &scale], vec![])?;
    let moved = steps.apply("Add", &[&moved, &places], vec![])?;
    let moved = steps.apply("Gather", &[&moved, &list(&[1, 0])], vec![int("axis", 2)])?;
    let grid = steps.apply("Transpose", &[&moved], vec![ints("perm", &[0, 1, 3, 4, 2])])?;
    let lines = count * made[0];
    let grid = steps.shaped(&grid, &[images * parts, lines, made[1], 2])?;
    let x = steps.shaped(&x, &[images * parts, channels / parts, height, width])?;
    let mut seen = steps.apply("GridSample", &[&x, &grid], samples("zeros"))?;
    if let Some(mask) = mask {
        let mask = steps.shaped(&mask, &[images * parts, 1, lines, made[1]])?;
        seen = steps.apply("Mul", &[&seen, &mask], vec![])?;
    }
    let seen = steps.shaped(&seen, &[images, channels * count, made[0], made[1]])?;
    let weight = steps.shaped(&weight, &[kernel[0], kernel[1] * count, 1, 1])?;
    let inputs: Vec<&Operand> = [&seen, &weight].into_iter().chain(bias.as_ref()).collect();
    Ok(vec![steps.apply("Conv", &inputs, vec![int("group", group as i64)])?])
}

/// The regions of an image that are read.
struct Regions {
    /// How many.
    count: usize,
    /// Samples of an output along an axis.
    ratio: usize,
    scale: f64,
    half_pixel: bool,
}

impl Regions {
    /// Where samples lie along an axis, [regions, samples] within the image, and 1 where they count, else 0.
    fn along(
        &self,
        steps: &mut Steps<'_, '_, '_>,
        rois: &Operand,
        columns: [usize; 2],
        [made, extent]: [usize; 2],
    ) -> Result<[Operand; 2], NodeProblem> {
        let kind = steps.cx.kind();
        let scale = steps.scalar(kind, self.scale);
        let shift = steps.scalar(kind, if self.half_pixel { -0.5 } else { 0.0 });
        let [start, end] = columns.map(|column| {
            let edge = steps.apply("Gather", &[rois, &list(&[column])], vec![int("axis", 1)])?;
            let edge = steps.apply("Mul", &[&edge, &scale], vec![])?;
            steps.apply("Add", &[&edge, &shift], vec![])
        });
        let (start, end) = (start?, end?);
        let mut length = steps.apply("Sub", &[&end, &start], vec![])?;
        if !self.half_pixel {
            let one = steps.scalar(kind, 1.0);
            length = steps.apply("Max", &[&length, &one], vec![])?;
        }
        let samples = made * self.ratio;
        let shares = (0..samples).map(|at| (at as f64 + 0.5) / samples as f64).collect();
        let role = format!("shares{}", columns[0]);
        let shares = constant(steps, &role, vec![1, samples], shares)?;
        let place = steps.apply("Mul", &[&length, &shares], vec![])?;
        let place = steps.apply("Add", &[&place, &start], vec![])?;
        let [first, last, edge, none, one] = [-1.0, extent as f64, extent as f64 - 1.0, 0.0, 1.0]
            .map(|number| steps.scalar(kind, number));
        let after = steps.apply("GreaterOrEqual", &[&place, &first], vec![])?;
        let before = steps.apply("LessOrEqual", &[&place, &last], vec![])?;
        let within = steps.apply("And", &[&after, &before], vec![])?;
        let counts = steps.apply("Where", &[&within, &one, &none], vec![])?;
        Ok([steps.apply("Clip", &[&place, &none, &edge], vec![])?, counts])
    }
}

/// `RoiAlign`: means of samples of regions. The images lie one below the other, and all samples are one image.
pub(super) fn roi_align(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let (x, rois, batch) = (cx.input(0, "X")?, cx.input(1, "rois")?, cx.input(2, "batch_indices")?);
    let (shape, own) = (cx.shape_of(&x), cx.shape_of(&rois));
    let (&[images, channels, height, width], &[count, 4]) = (&shape[..], &own[..]) else {
        return Err(NodeProblem::shape(format!(
            "regions of shape {own:?} do not fit an input of shape {shape:?}"
        )));
    };
    let attributes = cx.attributes();
    let [down, across] = [("output_height", 1), ("output_width", 1)]
        .map(|(name, least)| size(name, attributes.int_or(name, 1)?, least));
    let (down, across) = (down?, across?);
    let ratio = size("sampling_ratio", attributes.int_or("sampling_ratio", 0)?, 0)?;
    if ratio == 0 {
        return Err(NodeProblem::unsupported(
            "`sampling_ratio` is 0: the regions decide how many samples there are; export it with 1 or more",
        ));
    }
    if attributes.string("mode")?.unwrap_or("avg") != "avg" {
        return Err(NodeProblem::unsupported(
            "runtimes disagree on its maximum, which is of weighted elements; export it with the mode avg",
        ));
    }
    let given = attributes.string("coordinate_transformation_mode")?;
    let half_pixel = match given {
        None => cx.opset >= 16,
        Some("half_pixel") => true,
        Some("output_half_pixel") => false,
        Some(other) => {
            let reason = format!("is `{other}`, expected half_pixel or output_half_pixel");
            return Err(NodeProblem::attribute("coordinate_transformation_mode", reason));
        }
    };
    let scale = attributes.float_or("spatial_scale", 1.0)?.into();
    let regions = Regions { count, ratio, scale, half_pixel };
    let kind = cx.kind();
    let mut steps = Steps::new(cx);
    let [mut y, rows] = regions.along(&mut steps, &rois, [1, 3], [down, height])?;
    let [x_at, columns] = regions.along(&mut steps, &rois, [0, 2], [across, width])?;
    let mut image = x;
    if images > 1 {
        let turned = steps.apply("Transpose", &[&image], vec![ints("perm", &[1, 0, 2, 3])])?;
        image = steps.shaped(&turned, &[1, channels, images * height, width])?;
        let batch = steps.shaped(&batch, &[count, 1])?;
        let first = steps.apply("Cast", &[&batch], vec![int("to", kind as i64)])?;
        let lines = steps.scalar(kind, height as f64);
        let first = steps.apply("Mul", &[&first, &lines], vec![])?;
        y = steps.apply("Add", &[&y, &first], vec![])?;
    }
    let grid = regions.grid(&mut steps, [&y, &x_at], [images * height, width], [down, across])?;
    let seen = steps.apply("GridSample", &[&image, &grid], samples("border"))?;
    let (lines, across_all) = (down * ratio, across * ratio);
    let rows = steps.shaped(&rows, &[count, lines, 1])?;
    let columns = steps.shaped(&columns, &[count, 1, across_all])?;
    let counts = steps.apply("Mul", &[&rows, &columns], vec![])?;
    let counts = steps.shaped(&counts, &[1, 1, count * lines, across_all])?;
    let mut seen = steps.apply("Mul", &[&seen, &counts], vec![])?;
    if ratio > 1 {
        let window = ["kernel_shape", "strides"].map(|name| ints(name, &[ratio, ratio]));
        seen = steps.apply("AveragePool", &[&seen], window.into())?;
    }
    let apart = steps.shaped(&seen, &[channels, count, down, across])?;
    Ok(vec![steps.apply("Transpose", &[&apart], vec![ints("perm", &[1, 0, 2, 3])])?])
}

impl Regions {
    /// Places [regions, samples] of both axes as a sample's grid: the regions one below the other.
    fn grid(
        &self,
        steps: &mut Steps<'_, '_, '_>,
        places: [&Operand; 2],
        extents: [usize; 2],
        made: [usize; 2],
    ) -> Result<Operand, NodeProblem> {
        let [lines, across] = made.map(|made| made * self.ratio);
        let all = list(&[self.count, lines, across, 1]);
        let shapes = [[self.count, lines, 1, 1], [self.count, 1, across, 1]];
        let mut parts = vec![];
        for ((place, extent), shape) in places.into_iter().zip(extents).zip(shapes) {
            let kind = steps.cx.kind();
            let scale = steps.scalar(kind, 2.0 / extent as f64);
            let shift = steps.scalar(kind, 1.0 / extent as f64 - 1.0);
            let place = steps.apply("Mul", &[place, &scale], vec![])?;
            let place = steps.apply("Add", &[&place, &shift], vec![])?;
            let place = steps.shaped(&place, &shape)?;
            parts.push(steps.apply("Expand", &[&place, &all], vec![])?);
        }
        let grid = steps.apply("Concat", &[&parts[1], &parts[0]], vec![int("axis", 3)])?;
        steps.shaped(&grid, &[1, self.count * lines, across, 2])
    }
}
