//! Depthwise convolution: each output channel reads the input channel of the same index. With a 1x1
//! kernel it is a per-channel scale and shift (batch normalisation that could not be fused).
//!
//! Pixels outside, channels inside: a strip of pixels reads all of its channels at once, in the order
//! in which they lie in memory. There is little arithmetic for every byte, so nothing is blocked.

use super::conv::{addend, check_weights, clamp, divide_columns, finish, geometry, window};
use super::{Call, LayerError, Operand, Slice};
use crate::device::{self, Share, Split};
use crate::kernels::Isa;
use crate::kernels::table::{Indirection, Window};
use crate::pack::{ConvParams, Layer, Tensor, params};

/// Bytes of pointers for the pixels of a block, about.
const BLOCK_POINTERS: usize = 8 * 1024;

/// Whether a depthwise convolution's record can be run: everything that [`run`] relies on.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; 2],
    output: &Tensor,
    isa: Isa,
) -> Result<(), LayerError> {
    geometry(layer, inputs, output)?;
    let p: ConvParams = params(layer);
    let (groups, channels) = (p.groups as u64, output.dims[3] as u64);
    if groups != channels {
        return Err(LayerError::Field("groups of a depthwise convolution", groups, channels));
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
    check_weights(layer, panels, (p.kernel[0] as u64).checked_mul(p.kernel[1] as u64), isa)
}

/// Bytes of intermediates for one step.
pub fn scratch_bytes(
    layer: &Layer,
    inputs: &[Tensor; 2],
    output: &Tensor,
    slice: &Slice,
    threads: u32,
    isa: Isa,
) -> u64 {
    let work = Work::new(layer, inputs, output, slice, threads as usize, isa);
    work.scratch_each.saturating_mul(work.shares as u64)
}

/// How one step is divided.
struct Work {
    window: Window,
    /// Output rows of a block, at most; a multiple of a strip's.
    block: usize,
    split: Split,
    /// Threads that get a share.
    shares: usize,
    scratch_each: u64,
}

impl Work {
    fn new(
        layer: &Layer,
        inputs: &[Tensor; 2],
        output: &Tensor,
        slice: &Slice,
        threads: usize,
        isa: Isa,
    ) -> Self {
        let window = window(layer, &inputs[0], output);
        let (rows, mr, threads) = (slice.rows as usize, isa.rows(), threads.max(1));
        let (by_rows, by_cols) = (rows.div_ceil(mr), slice.count as usize);
        let block = (BLOCK_POINTERS / 8 / window.segments() / mr).max(1).min(by_rows) * mr;
        let (split, units) = match divide_columns(rows, by_rows, by_cols, threads) {
            true => (Split::Cols(isa.panel()), by_cols),
            false => (Split::Rows(mr), by_rows),
        };
        let scratch_each = window.scratch_bytes(block);
        Self { window, block, split, shares: threads.min(units).max(1), scratch_each }
    }
}

/// Computes one step.
pub fn run(call: Call<'_>) {
    let Call { layer, inputs, output, operands, mut out, weights, kernels, device, .. } = call;
    let Operand::Mat(input) = operands[0] else {
        unreachable!("`validate` refuses a convolution without an input of its own");
    };
    if call.rows.is_empty() || call.count == 0 {
        return;
    }
    let slice = Slice {
        first: call.first as u32,
        count: call.count as u32,
        row: call.rows.start as u32,
        rows: call.rows.len() as u32,
    };
    let (mr, nr) = (kernels.mr(), kernels.nr());
    let work = Work::new(layer, &inputs, &output, &slice, device.threads(), kernels.isa());
    let panel_floats = (1 + work.window.segments()) * nr;
    let clamp = clamp(&layer.activation);
    let columns = call.first * nr..((call.first + call.count) * nr).min(out.cols());

    let task = |share: Share<'_>| {
        let Share { rows, cols, mut out, scratch, .. } = share;
        let first_row = call.rows.start + rows.start;
        let channels = columns.start + cols.start..columns.start + cols.end;
        let panels = &weights[cols.start / nr * panel_floats..];
        let blocks = rows.len().div_ceil(work.block);
        for block in (0..blocks).map(|index| device::cut(rows.len(), blocks, mr, index)) {
            let pixels = first_row + block.start..first_row + block.end;
            let lists = Indirection::convolution(&work.window, input, pixels, mr, &mut *scratch);
            for first in (0..cols.len()).step_by(nr) {
                let here = first..(first + nr).min(cols.len());
                let panel = &panels[first / nr * panel_floats..][..panel_floats];
                let channels = channels.start + here.start..channels.start + here.end;
                for strip in lists.strips() {
                    let rows = block.start + strip.start..block.start + strip.start + strip.rows;
                    let residual = addend(
                        &operands[1],
                        first_row + rows.start..first_row + rows.end,
                        channels.clone(),
                    );
                    let mut tile = out.part_mut(rows, here.clone());
                    kernels.dwconv(&strip, channels.start, panel, residual, clamp, tile.reborrow());
                    finish(&layer.activation, tile);
                }
            }
        }
    };
    let part = out.part_mut(call.rows.clone(), columns.clone());
    device::divide(device, part, work.split, call.scratch, work.scratch_each as usize, task);
}

#[cfg(test)]
mod tests {
    use crate::ops::conv::tests::{Residual, case};
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
        case([1, 12, 10, 1], 1, [3, 3]).depthwise().stride([1, 3]).check();
        case([1, 5, 6, 40], 40, [3, 3]).depthwise().pad([1, 1]).output(9, 11).check();
        case([1, 2, 3, 9], 9, [5, 7]).depthwise().pad([4, 5]).check();
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
        for residual in [Residual::None, Residual::InPlace, Residual::Apart] {
            for activation in [Activation::NONE, Activation::RELU, six, leaky] {
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

    /// More rows than a block has.
    #[test]
    fn blocks() {
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
            validate(&layer, &[input, Tensor::default()], &output, isa).is_err()
        };
        assert!(!refuse(|_, _, _, _| ()));
        assert!(refuse(|_, p, _, _| p.groups = 6));
        assert!(refuse(|_, p, _, _| p.groups = 0));
        assert!(refuse(|_, p, i, _| (p.groups, i.dims[3]) = (12, 24)));
        assert!(refuse(|_, _, _, o| o.dims[3] = 24));
        assert!(refuse(|_, p, _, _| p.kernel = [u32::MAX, u32::MAX]));
        assert!(refuse(|l, _, _, _| l.panels = 3));
        assert!(refuse(|l, _, _, _| l.panel_bytes -= 4));
    }
}
