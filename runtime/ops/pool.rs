//! Maximum and average pooling, global pooling included.
//!
//! Vectors run over channels; each channel takes its taps one after the other, row by row. Taps
//! outside of the image are never visited: a window is clipped by arithmetic, so that its cost is
//! that of the pixels it covers. The maximum is NaN where a tap is, minus infinity where a window
//! covers nothing; a maximum of zero is positive, so that the order of taps does not matter to it.
//! The average is the sum divided by the number of positions that count; 0 where none does. Sums of
//! more than 256 taps are made in blocks (`kernels::portable::sums`).

use super::reads::seen;
use super::work::{elements, product};
use super::{
    Call, LayerError, Operand, Operator, Reads, check, check_one_input, device_for, split,
};
use crate::device::divide;
use crate::kernels::table::{self, Pooling, Positions};
use crate::pack::{INPUTS, Isa, Layer, OpKind, PoolParams, Tensor, params};
use core::ops::Range;

/// Pooling.
pub(super) const ROW: Operator = Operator {
    reads: [Reads::Window, Reads::Rows, Reads::Whole],
    window: |layer, tensors, made| {
        let p: PoolParams = params(layer);
        seen([p.kernel, p.stride, p.dilation, p.pad], tensors, made)
    },
    macs: |layer, _, output| {
        let pool: PoolParams = params(layer);
        elements(output).saturating_mul(product(pool.kernel))
    },
    ..Operator::new(OpKind::Pool, 1, validate, run)
};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    _isa: Isa,
) -> Result<(), LayerError> {
    let [input, ..] = inputs;
    check_one_input(layer)?;
    for dim in [0, 3] {
        let (found, limit) = (output.dims[dim], input.dims[dim]);
        check(found == limit, "extent of the output", found.into(), limit.into())?;
    }
    let params: PoolParams = params(layer);
    check(params.average <= 1, "kind of pooling", params.average.into(), 1)?;
    let count = params.count_include_pad;
    check(count <= 1, "count_include_pad", count.into(), 1)?;
    for axis in 0..2 {
        let size = output.dims[1 + axis] as u64;
        let (kernel, stride) = (params.kernel[axis] as u64, params.stride[axis] as u64);
        let dilation = params.dilation[axis] as u64;
        check(kernel > 0, "window", kernel, 1)?;
        check(stride > 0, "stride", stride, 1)?;
        check(dilation > 0, "dilation", dilation, 1)?;
        // Positions are computed as i32 values in i64: these bounds leave room for every sum of
        // two.
        let limit = i32::MAX as u64;
        let covered = ((size - 1) * stride).saturating_add((kernel - 1) * dilation);
        check(covered <= limit, "extent of all windows", covered, limit)?;
        let extent = input.dims[1 + axis] as u64;
        check(extent <= limit, "extent of the input", extent, limit)?;
        for pad in [params.pad[axis], params.pad_end[axis]] {
            check(pad as u64 <= limit, "padding", pad.into(), limit)?;
        }
    }
    Ok(())
}

/// Windows along the height or the width.
#[derive(Clone, Copy)]
struct Axis {
    extent: i64,
    kernel: i64,
    stride: i64,
    dilation: i64,
    pad: i64,
    pad_end: i64,
}

/// The part of one window along one axis that lies inside the image.
#[derive(Clone, Copy)]
struct Taps {
    positions: Positions,
    /// Positions that count in an average with `count_include_pad`.
    padded: usize,
}

impl Axis {
    fn new(params: &PoolParams, input: &Tensor, axis: usize) -> Self {
        Self {
            extent: input.dims[1 + axis].into(),
            kernel: params.kernel[axis].into(),
            stride: params.stride[axis].into(),
            dilation: params.dilation[axis].into(),
            pad: params.pad[axis].into(),
            pad_end: params.pad_end[axis].into(),
        }
    }

    /// The outputs whose windows lie inside the image. They are adjacent.
    fn inside(&self, outputs: usize) -> Range<usize> {
        let reach = (self.kernel - 1) * self.dilation;
        let start = (self.pad + self.stride - 1) / self.stride;
        let last = self.extent - 1 - reach + self.pad;
        let end = if last < 0 { 0 } else { last / self.stride + 1 };
        let [start, end] = [start, end].map(|at| at.min(outputs as i64) as usize);
        start..end.max(start)
    }

    fn taps(&self, output: usize) -> Taps {
        let start = output as i64 * self.stride - self.pad;
        // Taps before position `end`.
        let before = |end: i64| match end - start {
            distance if distance <= 0 => 0,
            distance => ((distance - 1) / self.dilation + 1).min(self.kernel),
        };
        let (first, last) = (before(0), before(self.extent));
        Taps {
            positions: Positions {
                // Without taps it may be anywhere: here it is inside, so that all that is counted
                // from there is inside.
                first: (start + first * self.dilation).clamp(0, self.extent) as usize,
                count: (last - first) as usize,
                step: self.dilation as usize,
            },
            padded: before(self.extent + self.pad_end) as usize,
        }
    }
}

/// Computes the rows of one step.
pub fn run(mut call: Call<'_>) {
    let Operand::Mat(input) = call.operands[0] else { return };
    let params: PoolParams = params(call.layer);
    let [image, ..] = &call.inputs;
    let [down, along] = [0, 1].map(|axis| Axis::new(&params, image, axis));
    let [_, lines, width, _] = image.dims.map(|extent| extent as usize);
    let [_, out_lines, out_width, _] = call.output.dims.map(|extent| extent as usize);
    let (cols, first) = (call.out.cols(), call.rows.start);
    let out = call.out.part_mut(call.out.slots(call.rows), 0..cols);
    let taps = (params.kernel[0].min(image.dims[1]) as usize)
        .saturating_mul(params.kernel[1].min(image.dims[2]) as usize);
    let device = device_for(call.device, (out.rows() * cols).saturating_mul(taps));
    let split = split(out.rows(), cols, device);
    let (activation, kernels) = (&call.layer.activation, call.kernels);
    let inside = along.inside(out_width);
    divide(device, out, split, &mut [], 0, |mut share| {
        let input = input.cut(0..input.rows(), share.cols.clone());
        let mut done = 0;
        while done < share.out.rows() {
            let pixel = first + share.rows.start + done;
            let (line, col) = (pixel / out_width, pixel % out_width);
            // One kernel call for all whose windows are whole from side to side, one for each of
            // the others.
            let count = match inside.contains(&col) {
                true => (inside.end - col).min(share.out.rows() - done),
                false => 1,
            };
            let (y, x) = (down.taps(line % out_lines), along.taps(col));
            let inside = y.positions.count * x.positions.count;
            let pooling = match (params.average, params.count_include_pad) {
                (0, _) => Pooling::Max,
                (_, 0) => Pooling::Average(inside.max(1) as f32),
                _ => Pooling::Average(y.padded.saturating_mul(x.padded).max(1) as f32),
            };
            let before = line / out_lines * lines;
            let taps = table::Taps {
                width,
                lines: Positions { first: before + y.positions.first, ..y.positions },
                cols: x.positions,
                pixel_step: along.stride as usize,
            };
            let out = share.out.part_mut(done..done + count, 0..share.cols.len());
            kernels.pool(pooling, input, taps, out);
            done += count;
        }
        kernels.map(activation, share.out);
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, index, layer};
    use super::*;
    use crate::pack::Activation;

    /// By the definition, over every position of the window.
    fn reference(case: &Case, params: &PoolParams, at: usize) -> f64 {
        let [n, y, x, c] = index(case.output.dims, at);
        let [_, height, width, channels] = case.inputs[0].dims.map(|extent| extent as i64);
        let (mut max, mut sum, mut inside, mut padded) = (f64::NEG_INFINITY, 0.0, 0, 0);
        for i in 0..params.kernel[0] {
            for j in 0..params.kernel[1] {
                let position = |axis: usize, output: usize, tap: u32| {
                    output as i64 * params.stride[axis] as i64 - params.pad[axis] as i64
                        + tap as i64 * params.dilation[axis] as i64
                };
                let (y, x) = (position(0, y, i), position(1, x, j));
                if y < height + params.pad_end[0] as i64 && x < width + params.pad_end[1] as i64 {
                    padded += 1;
                }
                if y < 0 || x < 0 || y >= height || x >= width {
                    continue;
                }
                inside += 1;
                let at = ((n as i64 * height + y) * width + x) * channels + c as i64;
                let value = case.input(0, at as usize);
                max = if max > value || max.is_nan() { max } else { value };
                sum += value;
            }
        }
        match (params.average, params.count_include_pad) {
            (0, _) => max,
            (_, 0) => sum / f64::max(inside as f64, 1.0),
            _ => sum / f64::max(padded as f64, 1.0),
        }
    }

    #[test]
    fn matches_double_precision() {
        let mut random = Random::new(1);
        for channels in [1, 3, 32, 41, 100] {
            for image in [[1, 1], [5, 7], [9, 6]] {
                for round in 0..30 {
                    let mut pair = |limit| [(); 2].map(|()| random.below(limit) as u32);
                    let params = PoolParams {
                        average: pair(2)[0],
                        kernel: pair(4).map(|x| x + 1),
                        stride: pair(3).map(|x| x + 1),
                        dilation: pair(2).map(|x| x + 1),
                        pad: pair(3),
                        pad_end: pair(3),
                        count_include_pad: pair(2)[0],
                    };
                    let [height, width] = [0, 1].map(|axis| {
                        // As with ceil_mode: windows may go beyond the padding.
                        let padded = image[axis] + params.pad[axis] + params.pad_end[axis];
                        padded.div_ceil(params.stride[axis])
                    });
                    let layer = layer(OpKind::Pool, Activation::NONE, &params);
                    let images = 1 + round % 2;
                    let input = [images, image[0], image[1], channels];
                    let output = [images, height, width, channels];
                    let case = Case::new(layer, &mut random, &[input], output);
                    let found = case.run_everywhere();
                    case.assert_close(&found, 2e-6, |at| reference(&case, &params, at));
                }
            }
        }
    }

    #[test]
    fn global_pooling() {
        let mut random = Random::new(2);
        for (image, channels) in [([7, 7], 2048), ([13, 11], 1001), ([1, 1], 5), ([40, 3], 65)] {
            for average in [0, 1] {
                let params = PoolParams {
                    average,
                    kernel: image,
                    stride: [1, 1],
                    dilation: [1, 1],
                    ..Default::default()
                };
                let layer = layer(OpKind::Pool, Activation::RELU, &params);
                let images = 1 + average;
                let input = [images, image[0], image[1], channels];
                let case = Case::new(layer, &mut random, &[input], [images, 1, 1, channels]);
                let found = case.run_everywhere();
                case.assert_close(&found, 4e-6, |at| reference(&case, &params, at).max(0.0));
            }
        }
    }

    #[test]
    fn windows_that_cover_nothing() {
        let mut random = Random::new(4);
        for (average, count_include_pad, truth) in
            [(0, 0, f32::NEG_INFINITY), (1, 0, 0.0), (1, 1, 0.0)]
        {
            let params = PoolParams {
                average,
                kernel: [2, 2],
                stride: [1, 1],
                dilation: [1, 1],
                pad: [5, 5],
                pad_end: [0, 0],
                count_include_pad,
            };
            let layer = layer(OpKind::Pool, Activation::NONE, &params);
            let case = Case::new(layer, &mut random, &[[1, 2, 2, 3]], [1, 2, 2, 3]);
            assert_eq!(case.run_everywhere(), [truth; 12]);
        }
    }

    #[test]
    fn refuses_positions_that_overflow() {
        let mut random = Random::new(5);
        for (stride, kernel, dilation) in
            [(u32::MAX, 1, 1), (1, u32::MAX, u32::MAX), (1 << 31, 2, 1), (1, 0, 1), (0, 1, 1)]
        {
            let params = PoolParams {
                kernel: [kernel; 2],
                stride: [stride; 2],
                dilation: [dilation; 2],
                ..Default::default()
            };
            let layer = layer(OpKind::Pool, Activation::NONE, &params);
            let case = Case::new(layer, &mut random, &[[1, 5, 5, 1]], [1, 3, 3, 1]);
            assert!(matches!(case.validate(), Err(LayerError::Field(..))));
        }
    }
}
