//! Weighted sums of adjacent lines or pixels: interpolation, and any choice along an axis.
//!
//! The taps and their weights are a table in the layer's weights, which are not there yet when the
//! layer is validated. So the record says which inputs an output's taps are among, and the table
//! where among these they begin: a step reads no others, whatever the table says. Each output is
//! the sum of its products, from the first tap to the last; a product is rounded before it is
//! added. Vectors run over channels, and over the pixels of a line where lines are summed.

use super::work::elements;
use super::{
    Call, LayerError, Operand, Operator, Reads, check, check_one_input_panels, device_for, split,
};
use crate::device::divide;
use crate::matrix::{MatMut, MatRef};
use crate::pack::{INPUTS, Isa, Layer, OpKind, ResampleParams, Tensor, params};
use core::ops::Range;

/// Weighted sums of adjacent lines or pixels.
pub(super) const ROW: Operator = Operator {
    reads: [Reads::Window, Reads::Rows, Reads::Whole],
    window: rows_read,
    macs: |layer, _, output| {
        let resample: ResampleParams = params(layer);
        elements(output).saturating_mul(resample.taps.into())
    },
    ..Operator::new(OpKind::Resample, 1, validate, run)
};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    _isa: Isa,
) -> Result<(), LayerError> {
    let [input, ..] = inputs;
    check_one_input_panels(layer)?;
    let params: ResampleParams = params(layer);
    let axis = params.axis;
    check(axis == 1 || axis == 2, "dimension that is resampled", axis.into(), 2)?;
    for dim in (0..4).filter(|dim| *dim != axis as usize) {
        let (found, limit) = (output.dims[dim], input.dims[dim]);
        check(found == limit, "extent of the output", found.into(), limit.into())?;
    }
    let [extent, made] = [input, output].map(|tensor| u64::from(tensor.dims[axis as usize]));
    let [taps, reach] = [params.taps, params.reach].map(u64::from);
    check(taps > 0, "taps", taps, 1)?;
    check(taps <= reach, "taps", taps, reach)?;
    check(reach <= extent, "inputs in reach", reach, extent)?;
    check(params.step[1] > 0, "denominator of the step", 0, 1)?;
    check(layer.panels == 1, "number of weight panels", layer.panels.into(), 1)?;
    let bytes = (taps + 1).saturating_mul(made).saturating_mul(4);
    let limit = layer.panel_bytes.into();
    check(bytes <= limit, "bytes of the table of taps", bytes, limit)
}

/// The rows of the lines that some rows are made from, in all their images.
fn rows_read(layer: &Layer, [input, output]: [&Tensor; 2], made: &Range<u64>) -> Range<u64> {
    let params: ResampleParams = params(layer);
    let [_, height, width, _] = input.dims.map(u64::from);
    let [_, lines, pixels, _] = output.dims.map(|extent| u64::from(extent.max(1)));
    let (first, last) = (made.start / pixels, (made.end - 1) / pixels);
    if params.axis == 2 {
        return first * width..(last + 1) * width;
    }
    let start = |line: u64| {
        let place = params.first((line % lines) as u32, input.dims[1]);
        line / lines * height + u64::from(place)
    };
    start(first) * width..(start(last) + u64::from(params.reach)) * width
}

/// The quantity that is resampled.
#[derive(Clone, Copy)]
struct Axis<'a> {
    params: ResampleParams,
    extent: u32,
    /// For each output the place of its taps and their weights.
    table: &'a [f32],
}

impl<'a> Axis<'a> {
    /// The first input of an output, and the weights.
    fn taps(&self, output: usize) -> (usize, &'a [f32]) {
        let taps = self.params.taps as usize;
        let (place, weights) = self.table[output * (taps + 1)..][..taps + 1].split_at(1);
        let first = self.params.first(output as u32, self.extent) as usize;
        let within = (place[0] as usize).min(self.params.reach as usize - taps);
        (first + within, weights)
    }
}

/// Computes the rows of one step.
pub fn run(mut call: Call<'_>) {
    let Operand::Mat(input) = call.operands[0] else { return };
    let params: ResampleParams = params(call.layer);
    let extent = call.inputs[0].dims[params.axis as usize];
    let axis = Axis { params, extent, table: call.weights.floats() };
    let [_, lines, width, _] = call.inputs[0].dims.map(|extent| extent as usize);
    let [_, out_lines, out_width, _] = call.output.dims.map(|extent| extent as usize);
    let (cols, first) = (call.out.cols(), call.rows.start);
    let out = call.out.part_mut(call.out.slots(call.rows), 0..cols);
    let device = device_for(call.device, (out.rows() * cols).saturating_mul(params.taps as usize));
    let split = split(out.rows(), cols, device);
    let (activation, kernels) = (&call.layer.activation, call.kernels);
    divide(device, out, split, &mut [], 0, |mut share| {
        let input = input.cut(0..input.rows(), share.cols.clone());
        let mut done = 0;
        while done < share.out.rows() {
            let row = first + share.rows.start + done;
            let (line, pixel) = (row / out_width, row % out_width);
            let (before, y) = (line / out_lines * lines, line % out_lines);
            // The pixels of a line have their taps in the same lines.
            let (count, (place, weights)) = match params.axis {
                1 => ((out_width - pixel).min(share.out.rows() - done), axis.taps(y)),
                _ => (1, axis.taps(pixel)),
            };
            let source = |tap: usize| {
                let row = match params.axis {
                    1 => (before + place + tap) * width + pixel,
                    _ => (before + y) * width + place + tap,
                };
                input.part(input.slots(row..row + count), 0..input.cols())
            };
            let mut out = share.out.part_mut(done..done + count, 0..share.cols.len());
            sum(&mut out, weights, params.outside, source);
            done += count;
        }
        kernels.map(activation, share.out);
    });
}

/// The sum of rows, weighted.
fn sum<'a>(
    out: &mut MatMut<'_>,
    weights: &[f32],
    outside: f32,
    source: impl Fn(usize) -> MatRef<'a>,
) {
    let mut taps = weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0);
    let Some((tap, &weight)) = taps.next() else {
        (0..out.rows()).for_each(|row| out.row_mut(row).fill(outside));
        return;
    };
    each(out, source(tap), |out, x| *out = weight * x);
    for (tap, &weight) in taps {
        each(out, source(tap), |out, x| *out += weight * x);
    }
}

/// Calls a function with the elements of two matrices of one size.
fn each(out: &mut MatMut<'_>, x: MatRef<'_>, function: impl Fn(&mut f32, f32)) {
    if let (Some(out), Some(x)) = (out.contiguous_mut(), x.contiguous()) {
        out.iter_mut().zip(x).for_each(|(out, x)| function(out, *x));
        return;
    }
    for row in 0..out.rows() {
        out.row_mut(row).iter_mut().zip(x.row(row)).for_each(|(out, x)| function(out, *x));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, index, layer};
    use super::*;
    use crate::pack::Activation;
    use std::prelude::rust_2024::*;
    use std::vec;

    /// A layer with a table of chance.
    fn case(random: &mut Random, dims: [u32; 4], made: u32, params: ResampleParams) -> Case {
        let mut output = dims;
        output[params.axis as usize] = made;
        let mut layer = layer(OpKind::Resample, Activation::NONE, &params);
        let floats = (made * (params.taps + 1)) as usize;
        (layer.panels, layer.panel_bytes) = (1, (floats as u32 * 4).next_multiple_of(32));
        let mut case = Case::new(layer, random, &[dims], output);
        case.weights = vec![0.0; floats.next_multiple_of(8)];
        for at in 0..floats {
            case.weights[at] = match at % (params.taps as usize + 1) {
                0 => random.below((params.reach - params.taps) as usize + 1) as f32,
                _ if random.below(5) == 0 => 0.0,
                _ => random.float(),
            };
        }
        case
    }

    fn reference(case: &Case, params: &ResampleParams, at: usize) -> f64 {
        let place = index(case.output.dims, at);
        let axis = params.axis as usize;
        let [_, height, width, channels] = case.inputs[0].dims.map(|extent| extent as usize);
        let taps = params.taps as usize;
        let table = &case.weights[place[axis] * (taps + 1)..][..taps + 1];
        let [up, down] = params.step.map(f64::from);
        let first = ((place[axis] as f64 * up + f64::from(params.shift)) / down).floor();
        let last = f64::from(case.inputs[0].dims[axis] - params.reach);
        let first = first.clamp(0.0, last) as usize + table[0] as usize;
        let mut sum = None;
        for (tap, &weight) in table[1..].iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
            let mut from = place;
            from[axis] = first + tap;
            let [n, y, x, c] = from;
            let value = case.input(0, ((n * height + y) * width + x) * channels + c);
            *sum.get_or_insert(0.0) += f64::from(weight) * value;
        }
        sum.unwrap_or(params.outside.into())
    }

    #[test]
    fn matches_double_precision() {
        let mut random = Random::new(1);
        for (dims, axis, made, taps, reach, step, shift) in [
            ([1, 5, 4, 3], 1, 9, 2, 3, [1, 2], -1),
            ([1, 5, 4, 3], 2, 7, 2, 2, [3, 7], -2),
            ([2, 6, 7, 21], 1, 3, 4, 6, [2, 1], 0),
            ([2, 6, 7, 21], 2, 20, 1, 7, [0, 1], 0),
            ([1, 13, 1, 1], 1, 29, 3, 5, [13, 29], -9),
            ([1, 1, 9, 40], 2, 4, 5, 5, [9, 4], 1),
            ([3, 4, 5, 17], 1, 8, 1, 2, [1, 1], -2),
            ([1, 40, 3, 33], 1, 80, 2, 3, [1, 2], -1),
        ] {
            let params = ResampleParams { axis, taps, reach, step, shift, outside: 2.5 };
            let case = case(&mut random, dims, made, params);
            let found = case.run_everywhere();
            case.assert_close(&found, 4e-6, |at| reference(&case, &params, at));
        }
    }

    /// A table is read when the layer has been accepted: whatever it says, no row that is not lent
    /// is touched.
    #[test]
    fn tables_cannot_reach_further() {
        let mut random = Random::new(2);
        let params =
            ResampleParams { axis: 1, taps: 1, reach: 2, step: [1, 2], ..Default::default() };
        let mut case = case(&mut random, [1, 4, 2, 3], 8, params);
        for (place, like) in [(1e30, 1.0), (f32::NAN, 0.0), (-1.0, 0.0), (f32::INFINITY, 1.0)] {
            let mut fill = |place: f32| {
                case.weights
                    .chunks_exact_mut(2)
                    .for_each(|taps| taps.copy_from_slice(&[place, 1.0]));
                case.run_everywhere()
            };
            assert_eq!(fill(place), fill(like), "{place}");
        }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let mut random = Random::new(3);
        let params =
            ResampleParams { axis: 1, taps: 2, reach: 3, step: [1, 2], shift: -1, outside: 0.0 };
        let good = case(&mut random, [1, 5, 4, 3], 9, params);
        assert_eq!(good.validate(), Ok(()));
        let refused = |change: fn(&mut Case)| {
            let mut case = good.clone();
            change(&mut case);
            case.validate().is_err()
        };
        assert!(refused(|case| case.layer.params[0] = 0));
        assert!(refused(|case| case.layer.params[0] = 3));
        assert!(refused(|case| case.layer.params[1] = 0));
        assert!(refused(|case| case.layer.params[1] = 4));
        assert!(refused(|case| case.layer.params[2] = 6));
        assert!(refused(|case| case.layer.params[4] = 0));
        assert!(refused(|case| case.layer.panels = 0));
        assert!(refused(|case| case.layer.panel_bytes = 96));
        assert!(refused(|case| case.output.dims[3] = 2));
        assert!(refused(|case| case.inputs[0].dims[2] = 3));
        assert!(refused(|case| case.layer.inputs[0] = case.layer.output));
    }
}
