//! Computes steps whose weights are expanded: each way divides the work among threads by itself.

use super::panel::Filters;
use super::scratch::Making;
use super::{Expansion, ROW_WEIGHTS};
use crate::device::{self, Device, Inline, Share, Split};
use crate::kernels::Kernels;
use crate::kernels::table::{Addend, Indirection, Packed, Panel, Target};
use crate::matrix::MatMut;
use crate::ops::conv::{self, addend, clamp, finish, part};
use crate::ops::winograd::{ChannelBlocks, by_channels};
use crate::ops::{Call, Operand, Slice, run_operator};
use crate::pack::{Method, Tensor};
use core::ops::Range;

/// Output channels of the widest panel.
const MOST_LANES: usize = 32;

impl Expansion {
    /// For groups of panels, fewer at a time where scratch is short.
    pub(super) fn run_shared(&self, call: Call<'_>, fewest: usize) {
        let scratch = call.scratch.len() as u64;
        match self.making(&call.problem(), fewest, scratch) {
            Making::Panels { groups } => self.run_panels(call, groups),
            Making::ChannelBlocks(channel_blocks) => self.run_blocks(call, channel_blocks),
        }
    }

    fn run_panels(&self, mut call: Call<'_>, groups: usize) {
        let floats = self.plain.panel_bytes as usize / 4;
        let stored = self.stored_bytes / 4;
        let most = self.panels_bytes(call.count.div_ceil(groups));
        let (expanded, scratch) = call.scratch.split_at_mut(most);
        let expanded: &mut [f32] = bytemuck::cast_slice_mut(expanded);
        for panels in (0..groups).map(|index| device::cut(call.count, groups, 1, index)) {
            let expanded = &mut expanded[..panels.len() * floats];
            let weights = call.weights.panels(panels.clone(), stored);
            self.expand(call.kernels, call.device, weights, expanded, scratch);
            let prefetch =
                call.prefetch.behind(call.weights.panels(panels.end..call.count, stored));
            run_operator(Call {
                prefetch,
                layer: &self.plain,
                operands: call.operands,
                out: call.out.reborrow(),
                weights: Packed::new(expanded),
                first: call.first + panels.start,
                count: panels.len(),
                method: Method::default(),
                rows: call.rows.clone(),
                scratch,
                ..call
            });
        }
    }

    /// Expands some panels on all threads.
    fn expand(
        &self,
        kernels: &Kernels,
        device: &dyn Device,
        weights: Packed<'_>,
        expanded: &mut [f32],
        scratch: &mut [u8],
    ) {
        let (floats, stored) = (self.plain.panel_bytes as usize / 4, self.stored_bytes / 4);
        if self.algorithm == 0 {
            let panels = expanded.len() / floats;
            let Some(out) = MatMut::new(expanded, panels, floats, floats) else { return };
            return device::divide(device, out, Split::Rows(1), &mut [], 0, |mut share| {
                for (row, panel) in share.rows.clone().enumerate() {
                    let stored = weights.panels(panel..panel + 1, stored);
                    self.panel(kernels, stored, share.out.row_mut(row));
                }
            });
        }
        let nr = self.isa.panel();
        for (out, stored) in expanded.chunks_exact_mut(floats).zip(weights.chunks(stored)) {
            out[..nr].copy_from_slice(stored.biases(nr));
        }
        let filters = Filters { weights, channels: 0..self.channels(), before: nr };
        self.transform_panels(kernels, device, filters, expanded, scratch);
    }

    fn run_blocks(&self, call: Call<'_>, channel_blocks: ChannelBlocks) {
        let Call { weights, device, kernels, .. } = call;
        let stored = self.stored_bytes / 4;
        let transform =
            |panels: Range<usize>, channels: Range<usize>, out: &mut [f32], scratch: &mut [u8]| {
                let weights = weights.panels(panels, stored);
                let filters = Filters { weights, channels, before: 0 };
                self.transform_panels(kernels, device, filters, out, scratch);
            };
        let making = by_channels::Making { transform: &transform, stored };
        by_channels::run(
            Call { layer: &self.plain, method: Method::default(), ..call },
            channel_blocks,
            &making,
        );
    }

    /// Divides a convolution's panels among threads, each with scratch of its own. `task` is given
    /// the first of a part's panels and how many they are, as the step counts them, and a call with
    /// the part's columns as if these were the whole output.
    fn divide(&self, call: Call<'_>, each: usize, bytes: usize, task: impl Fn(Call<'_>) + Sync) {
        let Call { layer, inputs, output, operands, mut out, weights, kernels, device, .. } = call;
        let (width, stored) = (self.plain.columns(self.isa), self.stored_bytes / 4);
        let cols = call.first * width..((call.first + call.count) * width).min(out.cols());
        let part = out.cut_mut(0..out.rows(), cols.clone());
        device::divide(device, part, Split::Cols(each * width), call.scratch, bytes, |share| {
            let Share { cols: here, out, scratch, .. } = share;
            let panels = here.start / width..here.end.div_ceil(width);
            let residual = match operands[1] {
                Operand::Mat(mat) => {
                    let at = cols.start + here.start..cols.start + here.end;
                    Operand::Mat(mat.cut(0..mat.rows(), at))
                }
                other => other,
            };
            let [a, b, c, _] = output.dims;
            task(Call {
                layer,
                inputs,
                output: Tensor { dims: [a, b, c, here.len() as u32], ..output },
                operands: [operands[0], residual, Operand::Absent],
                out,
                weights: weights.panels(panels.clone(), stored),
                prefetch: call.prefetch,
                first: 0,
                count: panels.len(),
                method: Method::default(),
                rows: call.rows.clone(),
                scratch,
                device: &Inline,
                kernels,
            });
        });
    }

    pub(super) fn run_own(&self, call: Call<'_>, chunk: usize, each: usize) {
        let floats = self.plain.panel_bytes as usize / 4;
        let stored = self.stored_bytes / 4;
        let slice = Slice { first: 0, count: 1, ..call.slice().by_own() };
        let bytes = self.own_bytes(&call.problem().of(slice), chunk) as usize;
        self.divide(call, each, bytes, |mut part| {
            let (expanded, scratch) = part.scratch.split_at_mut(self.panels_bytes(chunk));
            let expanded: &mut [f32] = bytemuck::cast_slice_mut(expanded);
            for first in (0..part.count).step_by(chunk) {
                let count = chunk.min(part.count - first);
                let weights = part.weights.panels(first..first + count, stored).chunks(stored);
                for (out, stored) in expanded.chunks_exact_mut(floats).zip(weights) {
                    self.panel(part.kernels, stored, out);
                }
                let prefetch =
                    part.prefetch.behind(part.weights.panels(first + count..part.count, stored));
                run_operator(Call {
                    prefetch,
                    layer: &self.plain,
                    operands: part.operands,
                    out: part.out.reborrow(),
                    weights: Packed::new(&expanded[..count * floats]),
                    first,
                    count,
                    rows: part.rows.clone(),
                    scratch,
                    ..part
                });
            }
        });
    }

    pub(super) fn run_rows_of_one(&self, call: Call<'_>) {
        let (nr, width) = (self.isa.panel(), self.plain.columns(self.isa));
        let stored = self.stored_bytes / 4;
        let window = conv::window(&self.plain, &call.inputs[0], &call.output);
        let (piece, k) = (self.piece_bytes(), call.inputs[0].cols() as usize);
        let bytes = self.row_bytes(&call.inputs, &call.output) as usize;
        let each = part(call.count, (call.count * nr * k) as u64, call.device.threads());
        self.divide(call, each, bytes, |mut part| {
            let Operand::Mat(input) = part.operands[0] else {
                unreachable!("`validate` refuses a convolution without an input of its own");
            };
            let (kernels, row) = (part.kernels, part.rows.clone());
            let (piece, scratch) = part.scratch.split_at_mut(piece);
            let piece: &mut [f32] = bytemuck::cast_slice_mut(piece);
            let lists = Indirection::convolution(&window, input, row.clone(), 1, scratch);
            let (chains, unbounded) = (lists.chains(), [f32::NEG_INFINITY, f32::INFINITY]);
            let limits = clamp(&part.layer.activation);
            for (panel, stored) in part.weights.chunks(stored).enumerate() {
                let cols = panel * width..((panel + 1) * width).min(part.out.cols());
                let mut out = part.out.part_mut(row.clone(), cols.clone());
                for chain in 0..chains.count() {
                    let terms = chains.terms(chain);
                    let mut sums = [0.0; MOST_LANES];
                    // As `Chains` has it.
                    let residual = if chain == 0 {
                        sums[..nr].copy_from_slice(stored.biases(nr));
                        addend(&part.operands[1], row.clone(), cols.clone())
                    } else {
                        Addend::Output
                    };
                    let limits = if chain + 1 == chains.count() { limits } else { unbounded };
                    // For the last k of a piece, a weight for each channel of the kernels is read.
                    let (beyond, most) = (nr - width, (ROW_WEIGHTS - (nr - width)) / width);
                    for from in terms.clone().step_by(most) {
                        let len = most.min(terms.end - from);
                        let piece = &mut piece[..nr + len * width + beyond];
                        let (bias, body) = piece.split_at_mut(nr);
                        bias.copy_from_slice(&sums[..nr]);
                        kernels.widen(self.encoding, stored, width, from, body);
                        let lists = lists.seg_len(len);
                        let piece = Panel::cached(piece).width(width);
                        if from + len < terms.end {
                            let Some(to) = MatMut::new(&mut sums[..nr], 1, nr, nr) else {
                                continue;
                            };
                            let target = Target { addend: Addend::None, clamp: unbounded, out: to };
                            kernels.igemm(&lists, from, piece, target);
                        } else {
                            let out = out.reborrow();
                            let target = Target { addend: residual, clamp: limits, out };
                            kernels.igemm(&lists, from, piece, target);
                        }
                    }
                }
                finish(kernels, &part.layer.activation, out);
            }
        });
    }
}
