//! Depthwise convolution: each output channel reads the input channel of the same index. With a 1x1
//! kernel it is a per-channel scale and shift (batch normalisation that could not be fused).
//!
//! Also convolution in small groups with equal numbers of input and output channels, of which a
//! panel holds several ([`Isa::spans`]). Each output channel reads the input channels of its group.
//! A depthwise convolution is the case of one channel a group.
//!
//! Input pixels are found through a grid of pointers ([`Grid`]), made for a band of output lines at
//! a time. The loops, from the outside: threads, bands, panels of channels, lines. A kernel gets
//! all lines of a band at once: those for several lines read each line of the input once, others
//! find the lines of taps that an output line shares with the next in the first-level cache.

use super::conv::{
    PART_MACS, Sizes, addend, check_weights, clamp, finish, geometry, lines_seen, macs, part,
    terms, window,
};
use super::{Call, LayerError, Operand, Operator, Panels, Problem, Reads};
use crate::device::{self, Share, Split};
use crate::kernels::table::{CHAIN, Grid, Strip, Target, Window};
use crate::pack::{ConvParams, INPUTS, Isa, Layer, OpKind, Tensor, params};

/// Bytes of pointers for a band of lines, unless one line needs more.
const BAND_POINTERS: u64 = 12 * 1024;

/// Lines that a part has at least, unless there would be fewer parts than threads: a kernel for
/// several lines reads two lines more than it makes.
const PART_LINES: u64 = 4;

/// Input bytes that a band reads, unless one line needs more: what stays in a second-level cache.
const BAND_BYTES: usize = 256 * 1024;

/// Weights of the panels that a line of pixels is computed with at a time, all channels of a few
/// pixels after the other: about half of a first-level cache.
const RUN_BYTES: usize = 16 * 1024;

/// Weights of the panels that a line of pixels is computed with at a time, for groups of several
/// channels: about half of a second-level cache. One such panel is as large as [`RUN_BYTES`].
/// Activations come from further away, and by panels they would come in pieces.
const GROUPED_RUN_BYTES: usize = 512 * 1024;

/// Depthwise convolution.
pub(super) const ROW: Operator = Operator {
    panels: Panels::Full,
    in_place: [false, true, false],
    scratch: |problem, _| scratch_bytes(problem),
    reads: [Reads::Window, Reads::Rows, Reads::Whole],
    window: lines_seen,
    macs,
    terms,
    ..Operator::new(OpKind::Depthwise, 2, validate, run)
};

/// Whether a depthwise convolution's record can be run: everything that [`run`] relies on.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    isa: Isa,
) -> Result<(), LayerError> {
    let group = geometry(layer, inputs, output)?.channels;
    let p: ConvParams = params(layer);
    let channels = output.dims[3] as u64;
    if !isa.spans(group) {
        let limit = isa.panel() as u64 / 2;
        return Err(LayerError::Field("channels of a group in a panel", group as u64, limit));
    }
    if inputs[0].dims[3] as u64 != channels {
        let found = inputs[0].dims[3] as u64;
        return Err(LayerError::Field(
            "input channels of a depthwise convolution",
            found,
            channels,
        ));
    }
    let panels = channels.div_ceil(isa.panel() as u64);
    let taps = p.kernel[0] as u64 * p.kernel[1] as u64;
    // Which groups a panel holds depends on the instruction set; how sums are cut may not.
    let terms = taps.saturating_mul(group as u64);
    if group > 1 && terms > CHAIN as u64 {
        return Err(LayerError::Field("terms of a chain", terms, CHAIN as u64));
    }
    check_weights(layer, panels, taps.checked_mul(group as u64), isa.panel(), isa)
}

/// Bytes of intermediates for one step: enough for every number of threads up to this one.
pub fn scratch_bytes(problem: &Problem<'_>) -> u64 {
    problem.most_shared(|problem| {
        let division = Division::new(problem);
        (division.shares, division.scratch_each)
    })
}

/// How one step is divided.
struct Division {
    window: Window,
    /// Output lines of a band, at most.
    band: usize,
    split: Split,
    /// Threads that get a share.
    shares: usize,
    scratch_each: u64,
}

impl Division {
    fn new(problem: &Problem<'_>) -> Self {
        let &Problem { layer, inputs, output, slice, isa, .. } = problem;
        let window = window(layer, &inputs[0], output);
        let (rows, threads) = (slice.rows as usize, problem.threads());
        let [height, width] = window.output;
        let k = window.kernel[0].saturating_mul(window.kernel[1]).saturating_mul(window.channels);
        let cols = (slice.count as usize).saturating_mul(isa.panel());
        let pixels = if rows / width >= threads { width } else { isa.rows() };
        let sizes = Sizes {
            by_rows: rows.div_ceil(pixels),
            by_cols: slice.count as usize,
            input: rows.saturating_mul(cols),
            weights: k.saturating_mul(cols),
        };
        let macs = (rows as u64).saturating_mul(sizes.weights as u64);
        let (unit, units) = match sizes.divide_columns(threads) {
            true => (Split::Cols(isa.panel()), sizes.by_cols),
            false => (Split::Rows(pixels), sizes.by_rows),
        };
        // As many parts as these are worth, at most.
        let most = (rows / width) as u64 / PART_LINES;
        let worth = if window.kernel == [1, 1] { u64::MAX } else { PART_MACS.saturating_mul(most) };
        let each = part(units, macs.min(worth), threads);
        let split = match unit {
            Split::Cols(align) => Split::Cols(each * align),
            Split::Rows(align) => Split::Rows(each * align),
        };
        let line = window.input[1].saturating_mul(window.cols).saturating_mul(4);
        let fit = (BAND_BYTES / line / window.stride[0]).max(1).min(height);
        // The largest number of lines whose pointers fit, by halves: the same on every host.
        let mut band = fit.min(rows.div_ceil(width) + 1);
        while band > 1 && Grid::scratch_bytes(&window, band) > BAND_POINTERS {
            band = band.div_ceil(2);
        }
        // The same number of bands, of about equally many lines.
        let band = height.div_ceil(height.div_ceil(band));
        let scratch_each = Grid::scratch_bytes(&window, band);
        Self { window, band, split, shares: threads.min(units.div_ceil(each)).max(1), scratch_each }
    }
}

/// Computes one step.
pub fn run(call: Call<'_>) {
    if call.rows.is_empty() || call.count == 0 {
        return;
    }
    let division = Division::new(&call.problem());
    let Call { layer, operands, mut out, weights, kernels, device, .. } = call;
    let Operand::Mat(input) = operands[0] else {
        unreachable!("`validate` refuses a convolution without an input of its own");
    };
    let nr = kernels.nr();
    let (window, weights) = (division.window, weights.floats());
    let [height, width] = window.output;
    let panel_floats = (1 + window.kernel[0] * window.kernel[1] * window.channels) * nr;
    let run_bytes = if window.channels > 1 { GROUPED_RUN_BYTES } else { RUN_BYTES };
    let run = (run_bytes / (4 * panel_floats)).max(1);
    let clamp = clamp(&layer.activation);
    let columns = call.first * nr..((call.first + call.count) * nr).min(out.cols());
    assert!(weights.len() >= call.count * panel_floats, "weights of {} floats", weights.len());

    let task = |share: Share<'_>| {
        let Share { rows, cols, mut out, scratch, .. } = share;
        let (mut row, end) = (call.rows.start + rows.start, call.rows.start + rows.end);
        let first_row = row;
        while row < end {
            // The band from this row's line on: up to its last line, the image's, or the share's.
            let (image, y) = (row / width / height, row / width % height);
            let lines =
                y..(y + division.band).min(height).min(y + end.div_ceil(width) - row / width);
            let band_end = ((image * height + lines.end) * width).min(end);
            let grid = Grid::new(&window, input, image, lines.clone(), &mut *scratch);
            for first in (0..cols.len()).step_by(run * nr) {
                let here = first..(first + run * nr).min(cols.len());
                let panels = &weights[(cols.start + first) / nr * panel_floats..]
                    [..here.len().div_ceil(nr) * panel_floats];
                let channels =
                    columns.start + cols.start + here.start..columns.start + cols.start + here.end;
                // A line that is begun, whole lines, a line that is not finished.
                let mut at = row;
                while at < band_end {
                    let (line, x) = (at / width % height - y, at % width);
                    let whole = if x == 0 { (band_end - at) / width } else { 0 };
                    let count = (whole * width).max((width - x).min(band_end - at));
                    let pixels = x..x + count / whole.max(1);
                    let residual = addend(&operands[1], at..at + count, channels.clone());
                    let rows = at - first_row..at - first_row + count;
                    let mut tile = out.part_mut(rows, here.clone());
                    let strip = Strip {
                        lines: line..line + whole.max(1),
                        pixels,
                        channel: channels.start,
                        group: window.channels,
                        panels,
                    };
                    let target = Target { addend: residual, clamp, out: tile.reborrow() };
                    kernels.dwconv(&grid, strip, target);
                    finish(kernels, &layer.activation, tile);
                    at += count;
                }
            }
            row = band_end;
        }
    };
    let part = out.part_mut(out.slots(call.rows.clone()), columns.clone());
    let each = division.scratch_each as usize;
    device::divide(device, part, division.split, call.scratch, each, task);
}

#[cfg(test)]
mod tests {
    use crate::ops::conv::testing::case;
    use crate::ops::testing::Residual;
    use crate::pack::{Activation, ActivationKind};

    #[test]
    fn kernels_strides_and_dilations() {
        for channels in [1, 4, 7, 8, 13, 32, 48, 75] {
            case([1, 9, 10, channels], channels, [3, 3]).depthwise().pad([1, 1]).check();
        }
        case([2, 9, 10, 33], 33, [3, 3]).depthwise().stride([2, 2]).pad([1, 1]).check();
        case([1, 12, 10, 20], 20, [5, 5]).depthwise().pad([2, 2]).gaps(3, 5).check();
        case([1, 12, 10, 20], 20, [7, 1]).depthwise().pad([3, 0]).check();
        case([1, 12, 10, 20], 20, [3, 3]).depthwise().dilation([2, 3]).pad([2, 3]).check();
        case([1, 6, 23, 9], 9, [3, 3]).depthwise().stride([1, 2]).pad([1, 1]).check();
        case([1, 6, 23, 9], 9, [2, 3]).depthwise().stride([3, 3]).pad([0, 1]).check();
        case([1, 12, 10, 1], 1, [3, 3]).depthwise().stride([1, 3]).check();
        case([1, 5, 6, 40], 40, [3, 3]).depthwise().pad([1, 1]).output(9, 11).check();
        case([1, 2, 3, 9], 9, [5, 7]).depthwise().pad([4, 5]).check();
    }

    /// Few lines and many, of every width of a tile and of what is left of one, some of them cut by
    /// threads and slices.
    #[test]
    fn several_lines() {
        let relu6 = Activation { kind: ActivationKind::Clamp as u32, alpha: 0.0, beta: 0.7 };
        for taps in [3, 5] {
            for stride in [1, 2] {
                for (height, width) in
                    (1..=9).map(|n| (n, 10 - n)).chain([(12, 13), (7, 7), (14, 6)])
                {
                    let channels = 1 + 11 * height % 37;
                    let pad = [height % 3 * (taps / 2) / 2, width % 3 * (taps / 2) / 2];
                    let activation =
                        [Activation::NONE, Activation::RELU, relu6][width as usize % 3];
                    let (height, width) = (height * stride + taps - 1, width * stride + taps - 1);
                    case([1, height, width, channels], channels, [taps; 2])
                        .depthwise()
                        .stride([stride; 2])
                        .pad(pad)
                        .gaps(width % 2 * 3, height % 2 * 5)
                        .activation(activation)
                        .check();
                }
            }
        }
        // Lines further apart than the taps of one, and the other way round.
        case([1, 19, 12, 24], 24, [3, 3]).depthwise().dilation([2, 1]).stride([2, 1]).check();
        case([1, 19, 12, 24], 24, [3, 3]).depthwise().dilation([2, 1]).stride([4, 2]).check();
        case([1, 19, 12, 24], 24, [3, 3]).depthwise().dilation([2, 1]).pad([2, 1]).check();
        // An upper bound that is not above zero.
        let below = Activation { kind: ActivationKind::Clamp as u32, alpha: -0.5, beta: -0.1 };
        case([1, 9, 9, 24], 24, [3, 3]).depthwise().pad([1, 1]).activation(below).check();
    }

    #[test]
    fn small_groups() {
        for group in [2, 4, 8, 16] {
            for groups in [1, 2, 3, 5, 9] {
                let channels = group * groups;
                case([1, 9, 10, channels], channels, [3, 3]).spanned(group).pad([1, 1]).check();
            }
            let channels = 5 * group;
            let case = |image: [u32; 3], kernel| {
                case([image[0], image[1], image[2], channels], channels, kernel).spanned(group)
            };
            case([2, 9, 10], [3, 3]).stride([2, 2]).pad([1, 1]).check();
            case([1, 9, 20], [3, 3]).stride([1, 2]).pad([1, 1]).gaps(3, 5).check();
            case([1, 9, 10], [3, 3]).dilation([2, 3]).pad([2, 3]).check();
            case([1, 9, 10], [5, 4]).stride([1, 3]).pad([2, 1]).gaps(3, 5).check();
            case([1, 9, 10], [1, 1]).check();
            case([1, 2, 3], [5, 7]).pad([4, 5]).check();
            case([1, 5, 6], [3, 3]).pad([1, 1]).output(9, 11).check();
            let six = Activation { kind: ActivationKind::Clamp as u32, alpha: 0.0, beta: 2.5 };
            for residual in [Residual::None, Residual::InPlace, Residual::Apart] {
                for activation in [Activation::NONE, six] {
                    case([1, 6, 7], [3, 3])
                        .pad([1, 1])
                        .gaps(2, 5)
                        .residual(residual)
                        .activation(activation)
                        .check();
                }
            }
        }
        // More lines than a band has.
        case([2, 90, 41, 16], 16, [3, 3]).spanned(4).pad([1, 1]).check();
    }

    /// Results have the bits of a convolution that is packed group by group.
    #[test]
    fn small_groups_are_what_conv_makes() {
        for group in [2, 4, 8, 16] {
            let small = case([1, 9, 10, 48], 48, [3, 3]).pad([1, 1]).groups(48 / group);
            small.check();
            small.spanned(group).check();
        }
    }

    #[test]
    fn scale_and_shift() {
        case([1, 6, 7, 20], 20, [1, 1]).depthwise().gaps(2, 1).check();
        case([1, 1, 1, 100], 100, [1, 1]).depthwise().check();
    }

    #[test]
    fn residual_and_activation() {
        let leaky = Activation { kind: ActivationKind::LeakyRelu as u32, alpha: 0.1, beta: 0.0 };
        let six = Activation { kind: ActivationKind::Clamp as u32, alpha: 0.0, beta: 0.5 };
        // The lower bound does nothing.
        let upper = Activation { alpha: f32::NAN, ..six };
        for residual in [Residual::None, Residual::InPlace, Residual::Apart] {
            for activation in [Activation::NONE, Activation::RELU, six, upper, leaky] {
                case([1, 6, 7, 45], 45, [3, 3])
                    .depthwise()
                    .pad([1, 1])
                    .gaps(2, 5)
                    .residual(residual)
                    .activation(activation)
                    .check();
            }
        }
    }

    /// More lines than a band has; lines that are cut.
    #[test]
    fn bands() {
        case([2, 90, 41, 5], 5, [3, 3]).depthwise().pad([1, 1]).check();
        case([1, 40, 41, 5], 5, [3, 3]).depthwise().pad([1, 1]).check();
    }

    #[test]
    fn hostile_records() {
        use super::*;
        use crate::pack::params_words;
        let good = case([1, 6, 7, 12], 12, [3, 3]).depthwise().pad([1, 1]);
        let isa = Isa::Neon;
        let refuse = |change: fn(&mut Layer, &mut ConvParams, &mut Tensor, &mut Tensor)| {
            let (mut layer, mut params) = (good.layer(isa), good.params);
            let (mut input, mut output) = (good.input, good.output);
            change(&mut layer, &mut params, &mut input, &mut output);
            layer.params = params_words(&params);
            validate(&layer, &[input, Tensor::default(), Tensor::default()], &output, isa).is_err()
        };
        assert!(!refuse(|_, _, _, _| ()));
        assert!(refuse(|_, p, _, _| p.groups = 6));
        assert!(refuse(|_, p, _, _| p.groups = 4));
        assert!(refuse(|_, p, _, _| p.groups = 1));
        assert!(refuse(|_, p, _, _| p.groups = 0));
        // Whole groups, with weights to match, but of a size that does not divide a panel.
        assert!(!refuse(|l, p, _, _| (p.groups, l.panel_bytes) = (6, (1 + 9 * 2) * 32)));
        assert!(refuse(|l, p, _, _| (p.groups, l.panel_bytes) = (4, (1 + 9 * 3) * 32)));
        assert!(refuse(|l, p, _, _| (p.groups, l.panel_bytes) = (2, (1 + 9 * 6) * 32)));
        assert!(refuse(|l, p, i, _| {
            (p.groups, i.dims[3], l.panel_bytes) = (12, 24, (1 + 9 * 2) * 32)
        }));
        assert!(refuse(|_, p, i, _| (p.groups, i.dims[3]) = (12, 24)));
        assert!(refuse(|_, _, _, o| o.dims[3] = 24));
        assert!(refuse(|_, p, _, _| p.kernel = [u32::MAX, u32::MAX]));
        assert!(refuse(|l, _, _, _| l.panels = 3));
        assert!(refuse(|l, _, _, _| l.panel_bytes -= 4));
    }
}
