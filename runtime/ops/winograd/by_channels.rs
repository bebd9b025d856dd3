//! A step that transforms its weights in [channel blocks](super::channel_blocks): what is made is
//! multiplied at once, and products of all channels are transformed back band by band.

use super::block::{Block, Frequency};
use super::channel_blocks::ChannelBlocks;
use super::inputs::{Frequencies, images};
use super::part::empty;
use crate::device::{self, Share, Split};
use crate::kernels::table::{Finish, Indirection, Product};
use crate::matrix::MatMut;
use crate::ops::Call;
use crate::ops::conv::{Channels, addend, clamp, finish};
use crate::pack::ActivationKind;
use core::ops::Range;

/// Transforms some panels' weights of some channels, one panel after the other as they are stored,
/// but without biases; given scratch that nothing else uses meanwhile.
type Transform<'a> = dyn Fn(Range<usize>, Range<usize>, &mut [f32], &mut [u8]) + 'a;

/// How the stored weights of a step become what is multiplied.
pub(in crate::ops) struct Making<'a> {
    pub(in crate::ops) transform: &'a Transform<'a>,
    /// Floats from one stored panel, which begins with its biases, to the next.
    pub(in crate::ops) stored: usize,
}

/// Computes one step: a call with the record of the transformed layer, and the weights that are
/// stored.
pub(in crate::ops) fn run(mut call: Call<'_>, channel_blocks: ChannelBlocks, making: &Making<'_>) {
    let scratch = core::mem::take(&mut call.scratch);
    let tile = channel_blocks.tile;
    let outputs = Channels::new(call.output.cols(), 1, call.layer.columns(call.kernels.isa()));
    let (groups, width) = (channel_blocks.groups(call.count), call.output.dims[2] as usize);
    let mut out = core::mem::replace(&mut call.out, empty());
    let mut out = out.part_mut(out.slots(call.rows.clone()), outputs.cols(call.first, call.count));
    for (rows, inputs) in images(&call).flat_map(|image| channel_blocks.of_image(image, width)) {
        let extent = [rows.len() / width, width];
        let tiles = extent.map(|extent| extent.div_ceil(tile)).into_iter().product();
        let block = Block::new(tile, extent, 0..tiles);
        for panels in (0..groups).map(|index| device::cut(call.count, groups, 1, index)) {
            let part = Part { call: &call, channel_blocks, block: &block, panels: panels.clone() };
            let floats = panels.len() * channel_blocks.product_floats();
            let (products, bytes) = scratch.split_at_mut(4 * floats);
            let products: &mut [f32] = bytemuck::cast_slice_mut(products);
            let (list, bytes) =
                bytes.split_at_mut(Indirection::rows_bytes(channel_blocks.tiles()) as usize);
            let (inputs_of, bytes) = bytes.split_at_mut(channel_blocks.input_bytes() as usize);
            let floats: &mut [f32] = bytemuck::cast_slice_mut(inputs_of);
            let (zeros, frequencies) = floats.split_at_mut(channel_blocks.block_channels);
            zeros.fill(0.0);
            for start in (0..channel_blocks.channels).step_by(channel_blocks.block_channels) {
                let channels =
                    start..(start + channel_blocks.block_channels).min(channel_blocks.channels);
                let stride = channel_blocks.stride(channels.len());
                let into = Frequencies { zeros, floats: &mut *frequencies, stride };
                inputs.transform(&call, call.device, &block, channels.clone(), into);
                let lists = part.rows(channels.len(), frequencies, list);
                let made = channel_blocks.made();
                let products = products.chunks_mut(made * channel_blocks.product_floats());
                for (first, products) in panels.clone().step_by(made).zip(products) {
                    let these = first..(first + made).min(panels.end);
                    let floats = these.len() * channel_blocks.weight_floats(channels.len());
                    let (weights, bytes) = bytes.split_at_mut(4 * floats);
                    let weights: &mut [f32] = bytemuck::cast_slice_mut(weights);
                    (making.transform)(these.clone(), channels.clone(), weights, bytes);
                    part.multiply(these.len(), channels.clone(), &lists, weights, products);
                }
            }
            part.finish(&mut out, rows.clone(), products, making.stored);
        }
    }
}

/// Some panels of a band, as the step counts them.
struct Part<'a> {
    call: &'a Call<'a>,
    channel_blocks: ChannelBlocks,
    block: &'a Block,
    panels: Range<usize>,
}

impl Part<'_> {
    /// Where the frequencies of `len` channels of each tile are. Each row reaches from a tile's
    /// first frequency to its last.
    fn rows<'a>(&self, len: usize, frequencies: &'a [f32], list: &'a mut [u8]) -> Indirection<'a> {
        let reach = (self.channel_blocks.points() - 1) * self.channel_blocks.stride(len) + len;
        let rows = (0..self.block.count()).map(|tile| &frequencies[tile * len..]);
        Indirection::rows(rows, reach, self.call.kernels.mr(), list).seg_len(len)
    }

    /// Multiplies all tiles' frequencies of some channels with the weights of `panels` panels, and
    /// adds that to the products of the channels before.
    fn multiply(
        &self,
        panels: usize,
        channels: Range<usize>,
        lists: &Indirection<'_>,
        weights: &[f32],
        products: &mut [f32],
    ) {
        let (points, nr) = (self.channel_blocks.points(), self.channel_blocks.nr);
        let kernels = self.call.kernels;
        let stride = self.channel_blocks.stride(channels.len());
        let floats = self.channel_blocks.stride(nr);
        let all = MatMut::new(products, points * panels, floats, floats);
        let all = all.unwrap_or_else(|| unreachable!("a step is no larger than its scratch"));
        // Where the weights of a row of products lie.
        let at = |row: usize| row * channels.len() * nr;
        device::divide(self.call.device, all, Split::Rows(1), &mut [], 0, |share| {
            let Share { rows, mut out, .. } = share;
            let Some(out) = out.contiguous_mut() else { return };
            let gemms = kernels.gemms(lists, weights, out);
            let mut gemms = if channels.start > 0 { gemms.resume() } else { gemms };
            let products = (0..panels).flat_map(|panel| {
                self.block.frequencies().iter().map(move |frequency| (panel, frequency))
            });
            for (panel, Frequency { point, first, tiles }) in products {
                let row = panel * points + point;
                if rows.contains(&row) {
                    gemms.multiply(Product {
                        rows: *first..first + tiles,
                        offset: point * stride,
                        panel: at(row),
                        next: (row + 1 < rows.end).then(|| at(row + 1)),
                        out: (row - rows.start) * floats + first * nr,
                    });
                }
            }
        });
    }

    /// Transforms the products of all channels back, by lines of tiles.
    fn finish(&self, out: &mut MatMut<'_>, rows: Range<usize>, products: &[f32], stored: usize) {
        let Call { layer, weights, kernels, operands, device, output, .. } = self.call;
        let nr = self.channel_blocks.nr;
        let width = output.dims[2] as usize;
        let tile = self.channel_blocks.tile;
        let outputs = Channels::new(output.cols(), 1, layer.columns(kernels.isa()));
        let (clamp, floats) = (clamp(&layer.activation), self.channel_blocks.stride(nr));
        let of_panel = self.channel_blocks.product_floats();
        let first = self.call.first + self.panels.start;
        let cols = outputs.cols(first, self.panels.len());
        let before = outputs.panel(self.call.first).start;
        let from = rows.start - self.call.rows.start;
        let out = out.part_mut(from..from + rows.len(), cols.start - before..cols.end - before);
        device::divide(*device, out, Split::Rows(tile * width), &mut [], 0, |share| {
            let Share { rows: here, mut out, .. } = share;
            let lines = here.start / width..here.end / width;
            for (index, panel) in self.panels.clone().enumerate() {
                let at = outputs.panel(self.call.first + panel);
                let mut out =
                    out.part_mut(0..here.len(), at.start - cols.start..at.end - cols.start);
                // Tiles of these lines are several runs of slots.
                let mut slot = 0;
                let inside = |slot: &usize| lines.contains(&self.block.place(*slot)[0]);
                while slot < self.block.count() {
                    let run = (slot..self.block.count()).take_while(inside).count();
                    let finish = Finish {
                        products: &products[index * of_panel + slot * nr..],
                        stride: floats,
                        bias: weights.panels(panel..panel + 1, stored).biases(nr),
                        addend: addend(
                            &operands[1],
                            rows.start + here.start..rows.start + here.end,
                            at.clone(),
                        ),
                        clamp,
                        width,
                    };
                    let place = |slot: usize| {
                        let [line, col] = self.block.place(slot);
                        [line - lines.start, col]
                    };
                    if run > 0 {
                        let places = (slot..slot + run).map(place);
                        kernels.winograd_outputs(tile, &finish, places, out.reborrow());
                    }
                    slot += run.max(1);
                }
                let function = layer.activation.function();
                if !matches!(function, Some(ActivationKind::None | ActivationKind::Clamp)) {
                    finish(kernels, &layer.activation, out);
                }
            }
        });
    }
}
