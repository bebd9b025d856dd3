//! Computes a step, part by part.

use super::block::{Block, Frequency};
use super::division::{Divide, Division};
use super::inputs::{Frequencies, Inputs, images};
use crate::device::{self, Device, Inline, Share, Split};
use crate::kernels::table::{Finish, Indirection, Product};
use crate::matrix::MatMut;
use crate::ops::Call;
use crate::ops::conv::{addend, clamp, finish};
use crate::pack::ActivationKind;
use core::ops::Range;

/// The least distance in bytes from weights that are used to those that are fetched: products of
/// small groups take less time than memory.
const AHEAD_BYTES: usize = 16 << 10;

/// The part of a step that one thread, or all threads together, work on.
struct Part<'a> {
    call: &'a Call<'a>,
    division: &'a Division,
    device: &'a dyn Device,
    inputs: Inputs<'a>,
    /// Output pixels before the part's first one, in the whole output.
    rows_before: usize,
    /// The part's panels, as the layer counts them.
    panels: Range<usize>,
}

/// Computes one step.
pub fn run(mut call: Call<'_>) {
    if call.rows.is_empty() || call.count == 0 {
        return;
    }
    let device = call.device;
    let division = Division::new(&call.problem());
    let scratch = core::mem::take(&mut call.scratch);
    let division = division.within(scratch.len());
    let panels = call.first..call.first + call.count;
    let cols = division.outputs.cols(call.first, call.count);
    let mut out = core::mem::replace(&mut call.out, empty());
    let mut out = out.part_mut(out.slots(call.rows.clone()), cols.clone());
    for (rows, inputs) in images(&call) {
        let part = |device, before: usize, panels: Range<usize>| Part {
            call: &call,
            division: &division,
            device,
            inputs: inputs.below(before),
            rows_before: rows.start + before * division.output[1],
            panels,
        };
        let here = rows.start - call.rows.start..rows.end - call.rows.start;
        let out = out.part_mut(here, 0..cols.len());
        let split = match division.divide {
            Divide::Panels => None,
            Divide::Lines => Some(Split::Rows(division.each * division.tile * division.output[1])),
            Divide::Groups => Some(Split::Cols(division.each * division.outputs.in_group)),
        };
        match split {
            None => part(device, 0, panels.clone()).run(out, scratch),
            Some(split) => {
                let each = division.each() as usize;
                device::divide(device, out, split, scratch, each, |share: Share<'_>| {
                    let here = cols.start + share.cols.start..cols.start + share.cols.end;
                    let panels = division.outputs.within(panels.clone(), here);
                    let before = share.rows.start / division.output[1];
                    part(&Inline, before, panels).run(share.out, share.scratch);
                });
            }
        }
    }
}

/// No output.
pub(super) fn empty() -> MatMut<'static> {
    MatMut::new(&mut [], 0, 0, 0).unwrap_or_else(|| unreachable!("nothing fits into nothing"))
}

impl Part<'_> {
    /// Computes the part: `out` has its lines of pixels and its panels' channels. Weights of some
    /// groups stay in the cache for all blocks.
    fn run(&self, mut out: MatMut<'_>, scratch: &mut [u8]) {
        let Division { tile, output, block, channels, outputs, together, .. } = *self.division;
        // The part ends where tiles do, or the map does.
        let extent = [out.rows() / output[1], output[1]];
        let [down, across] = extent.map(|extent| extent.div_ceil(tile));
        let tiles = down * across;
        let blocks = tiles.div_ceil(block);
        let (shared, own) = scratch.split_at_mut(self.division.frequency_bytes() as usize);
        let shared: &mut [f32] = bytemuck::cast_slice_mut(shared);
        let (zeros, frequencies) = shared.split_at_mut(self.division.zeros());
        zeros.fill(0.0);
        let all = outputs.groups(self.panels.clone());
        let before = outputs.panel(self.panels.start).start;
        for first in all.clone().step_by(together) {
            let groups = first..(first + together).min(all.end);
            let panels = self.panels.start.max(groups.start * outputs.panels)
                ..self.panels.end.min(groups.end * outputs.panels);
            let cols = outputs.cols(panels.start, panels.len());
            let all = 0..out.rows();
            let mut out = out.part_mut(all, cols.start - before..cols.end - before);
            for index in 0..blocks {
                let block = Block::new(tile, extent, device::cut(tiles, blocks, 1, index));
                let channels = groups.start * channels..groups.end * channels;
                let stride = self.division.stride(self.division.width());
                let into = Frequencies { zeros, floats: &mut *frequencies, stride };
                self.inputs.transform(self.call, self.device, &block, channels, into);
                self.multiply(&block, panels.clone(), frequencies, out.reborrow(), own);
            }
        }
    }

    /// Multiplies the frequencies of a block, those of some groups, with panels of these and
    /// transforms the products back.
    fn multiply(
        &self,
        block: &Block,
        panels: Range<usize>,
        frequencies: &[f32],
        out: MatMut<'_>,
        scratch: &mut [u8],
    ) {
        let Division { outputs, .. } = *self.division;
        let each = self.division.product_bytes() as usize;
        let before = outputs.panel(panels.start).start;
        let groups = outputs.groups(panels.clone());
        // Other than in one group these are all columns.
        let split = Split::Cols(self.division.each * outputs.width);
        device::divide(self.device, out, split, scratch, each, |share| {
            let Share { cols, mut out, scratch, .. } = share;
            let cols = before + cols.start..before + cols.end;
            let panels = outputs.within(panels.clone(), cols.clone());
            let (list, products) =
                scratch.split_at_mut(Indirection::rows_bytes(self.division.block) as usize);
            let products: &mut [f32] = bytemuck::cast_slice_mut(products);
            let lists = self.lists(block, &groups, frequencies, list);
            for run in panels.clone().step_by(self.division.ahead) {
                let run = run..(run + self.division.ahead).min(panels.end);
                // A thread's panels of one group, or those of all groups.
                let last = match self.division.divide {
                    Divide::Panels => panels.end,
                    _ => self.panels.end,
                };
                self.products(block, &lists, &groups, (run.clone(), last), products);
                self.outputs(block, run, products, cols.start, &mut out);
            }
        });
    }

    /// Where the frequencies of each tile of a block are, those of some groups. Each row reaches
    /// from a tile's first frequency to its last.
    fn lists<'a>(
        &self,
        block: &Block,
        groups: &Range<usize>,
        frequencies: &'a [f32],
        list: &'a mut [u8],
    ) -> Indirection<'a> {
        let Division { channels, mr, .. } = *self.division;
        let width = groups.len() * channels;
        let stride = self.division.stride(self.division.width());
        let reach = (self.division.points() - 1) * stride + width;
        let rows = (0..block.count()).map(|tile| &frequencies[tile * width..]);
        Indirection::rows(rows, reach, mr, list).seg_len(channels)
    }

    /// Multiplies the frequencies of a block with a run of panels, which others follow up to
    /// `last`.
    fn products(
        &self,
        block: &Block,
        lists: &Indirection<'_>,
        groups: &Range<usize>,
        (run, last): (Range<usize>, usize),
        products: &mut [f32],
    ) {
        let Division { channels, outputs, nr, .. } = *self.division;
        let Call { weights, kernels, .. } = self.call;
        let stride = self.division.stride(self.division.width());
        let (product_stride, product_floats) =
            (self.division.stride(nr), self.division.product_floats());
        let present = block.frequencies();
        // Products between the one that fetches weights and the one that uses them.
        let distance = match self.division.ahead {
            1 => (AHEAD_BYTES / (4 * channels * nr)).clamp(1, present.len()),
            _ => 1,
        };
        let panel_floats = self.panel_floats();
        // Where the weights of a panel for one frequency lie.
        let at = |panel: usize, point: usize| {
            (panel - self.call.first) * panel_floats + nr + point * channels * nr
        };
        let mut gemms = kernels.gemms(lists, weights.floats(), products).then(self.call.prefetch);
        for (index, frequency) in present.iter().enumerate() {
            let Frequency { point, first, tiles } = *frequency;
            // After the run's last panel.
            let following = match present.get(index + distance) {
                Some(following) => Some(at(run.start, following.point)),
                None => (run.end < last)
                    .then(|| at(run.end, present[index + distance - present.len()].point)),
            };
            for panel in run.clone() {
                let another = panel + 1 < run.end;
                let group = panel / outputs.panels - groups.start;
                gemms.multiply(Product {
                    rows: first..first + tiles,
                    offset: point * stride + group * channels,
                    panel: at(panel, point),
                    next: if another { Some(at(panel + 1, point)) } else { following },
                    out: (panel - run.start) * product_floats + point * product_stride + first * nr,
                });
            }
        }
    }

    /// Transforms a block's products with a run of panels back. The output's first column is
    /// channel `before`.
    fn outputs(
        &self,
        block: &Block,
        run: Range<usize>,
        products: &[f32],
        before: usize,
        out: &mut MatMut<'_>,
    ) {
        let Division { tile, outputs, nr, .. } = *self.division;
        let Call { layer, weights, kernels, operands, .. } = self.call;
        let clamp = clamp(&layer.activation);
        let panel_floats = self.panel_floats();
        for (panel, products) in run.zip(products.chunks_exact(self.division.product_floats())) {
            let at = outputs.panel(panel);
            let bias = &weights.floats()[(panel - self.call.first) * panel_floats..][..nr];
            let rows = 0..out.rows();
            let mut panel_out = out.part_mut(rows, at.start - before..at.end - before);
            let rows = self.rows_before..self.rows_before + panel_out.rows();
            let finish = Finish {
                products,
                stride: self.division.stride(nr),
                bias,
                addend: addend(&operands[1], rows, at),
                clamp,
                width: self.division.output[1],
            };
            let places = (0..block.count()).map(|slot| block.place(slot));
            kernels.winograd_outputs(tile, &finish, places, panel_out.reborrow());
            self.finish(block, panel_out);
        }
    }

    /// Floats of a panel: its biases and its weights for each frequency.
    fn panel_floats(&self) -> usize {
        (1 + self.division.points() * self.division.channels) * self.division.nr
    }

    /// Applies what is more than a clamp to a block's outputs.
    fn finish(&self, block: &Block, mut out: MatMut<'_>) {
        let function = self.call.layer.activation.function();
        if matches!(function, Some(ActivationKind::None | ActivationKind::Clamp)) {
            return;
        }
        let width = self.division.output[1];
        let cols = 0..out.cols();
        for slot in 0..block.count() {
            let [line, col] = block.place(slot);
            let [lines, pixels] = block.outputs([line, col]);
            for line in line..line + lines {
                let pixels = line * width + col..line * width + col + pixels;
                finish(
                    self.call.kernels,
                    &self.call.layer.activation,
                    out.part_mut(pixels, cols.clone()),
                );
            }
        }
    }
}
