//! Steps that transform their weights: for some panels at a time, in portions of the input channels, all tiles at once.
//!
//! What a step makes of its weights should be read as soon as it is made, while a cache holds it. A panel of frequencies of
//! all input channels can be more than that, or than there is scratch for: 2.3 MiB for F(4,3), 512 channels and panels
//! of 32. So the inputs of some channels are transformed, and, panel by panel, the weights of these, and the products of all
//! tiles of the step go on from what the channels before have left: each is still one chain, with the bits that it has
//! otherwise. Products stay until all channels are done.
//! Weights are transformed once, however little scratch there is, inputs once for each group of panels; what it costs are
//! shorter products, and reading and writing them once for each portion. With few tiles (a small map, or the few lines
//! of a step that slides) these are less than the weights of a panel.
//!
//! Threads have a panel each at a time; where there are fewer panels, they share the channels of each.
//!
//! Layers of one group, whose products are one chain.

use super::block::{Block, Frequency};
use super::inputs::images;
use super::part::empty;
use super::work::GAP;
use crate::arena::MatMut;
use crate::device::{self, Share, Split};
use crate::kernels::Isa;
use crate::kernels::table::{Chains, Finish, Indirection, Product};
use crate::ops::Call;
use crate::ops::conv::{Channels, addend, clamp, finish};
use crate::pack::{ActivationKind, Layer, Tensor, WinogradParams, params};
use core::ops::Range;

/// Channels of a portion, at least, and a multiple of them: a line of the cache.
const UNIT: usize = 16;

/// Bytes that a second-level cache holds, of weights that were just made and of the inputs that they are multiplied with.
const NEAR_BYTES: u64 = 1 << 20;

/// What a step is cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portions {
    /// Input channels.
    channels: usize,
    /// Output channels in a panel.
    nr: usize,
    /// Lines of a tile's outputs, and lines and columns of the layer's.
    tile: usize,
    output: [usize; 2],
    /// Threads, and bytes that the transforms of weights of each take for themselves.
    threads: usize,
    filter_bytes: u64,
    /// Tiles of an image that the step makes, at most.
    tiles: usize,
    /// Panels whose products are kept, at most,
    panels: usize,
    /// and input channels of a portion.
    portion: usize,
}

/// Transforms some panels' weights of some channels, one panel after the other as they are stored, but without biases; given scratch
/// that nothing else uses meanwhile.
type Transform<'a> = dyn Fn(Range<usize>, Range<usize>, &mut [f32], &mut [u8]) + 'a;

/// How the stored weights of a step become what is multiplied.
pub(in crate::ops) struct Making<'a> {
    pub(in crate::ops) transform: &'a Transform<'a>,
    /// Floats from one stored panel, which begins with its biases, to the next.
    pub(in crate::ops) stored: usize,
}

impl Portions {
    /// A layer (its record as [`transformed`](crate::ops::transformed)) in the smallest portions, of one panel; `None` where
    /// there are none.
    pub(in crate::ops) fn least(
        plain: &Layer,
        input: &Tensor,
        output: &Tensor,
        isa: Isa,
        threads: usize,
        filter_bytes: u64,
    ) -> Option<Self> {
        let p: WinogradParams = params(plain);
        let channels = input.cols() as usize;
        let there_are = p.groups == 1
            && isa != Isa::Cuda
            && channels > UNIT
            && Chains::of_run(channels).count() == 1;
        let least = Self {
            channels,
            nr: isa.panel(),
            tile: p.tile.max(1) as usize,
            output: [output.dims[1] as usize, output.dims[2] as usize],
            threads: threads.max(1),
            filter_bytes,
            tiles: 0,
            panels: 1,
            portion: UNIT,
        };
        there_are.then(|| least.of_rows(output.rows()))
    }

    /// The same for a step of so many rows of the output.
    pub fn of_rows(self, rows: u64) -> Self {
        let [height, width] = self.output;
        let lines = (rows as usize / width.max(1)).clamp(1, height.max(1));
        let tiles = [lines, width].map(|extent| extent.div_ceil(self.tile));
        Self { tiles: tiles[0].saturating_mul(tiles[1]), ..self }
    }

    /// The same for a step of so many panels, in the portions and groups of panels that move least where they take no more than
    /// so much scratch; `None` if none do.
    pub fn within(self, count: usize, scratch: u64) -> Option<Self> {
        let mut best: Option<(u64, Self)> = None;
        let halves = core::iter::successors(Some(1usize), |parts| parts.checked_mul(2));
        for parts in halves {
            let portion = self.channels.div_ceil(parts).next_multiple_of(UNIT);
            let one = Self { panels: 1, portion, ..self };
            let room = scratch.saturating_sub(one.shared_bytes());
            let most = one.panels_in(room).min(count as u64) as usize;
            if most > 0 {
                // Groups are even.
                let panels = count.div_ceil(count.div_ceil(most));
                let found = Self { panels, ..one };
                let moved = found.moved(count);
                if best.is_none_or(|(least, _)| moved < least) {
                    best = Some((moved, found));
                }
            }
            if portion == UNIT {
                break;
            }
        }
        best.map(|(_, found)| found)
    }

    /// The bytes of scratch of a step that keeps the products of so many panels, all of whose channels are one portion: what takes all of
    /// it in any case, and what is divided by their number where there are more.
    pub fn panels_bytes(&self, panels: usize) -> [u64; 2] {
        let fixed = Indirection::rows_bytes(self.tiles) + panels as u64 * self.product_bytes();
        let made = panels.min(self.threads);
        let each = 4 * self.points() * self.channels * (self.tiles + made * self.nr);
        [fixed, each as u64]
    }

    /// Groups of so many panels.
    pub fn groups(&self, count: usize) -> usize {
        count.div_ceil(self.panels)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.channels.div_ceil(self.portion)
    }

    /// Floats of each frequency that are read and written for so many panels, from where the second-level cache does not hold them: a
    /// measure for what is faster.
    pub fn moved(&self, count: usize) -> u64 {
        let products = 2 * (count as u64).saturating_mul(self.tile_floats(self.nr));
        self.transformed(self.groups(count))
            .saturating_add((self.count() as u64).saturating_mul(products))
            .saturating_add(self.far(count))
    }

    /// Those of them that a portion's inputs and weights are.
    pub fn far(&self, count: usize) -> u64 {
        let weights = (self.made() as u64).saturating_mul(self.weight_bytes());
        match self.input_bytes().saturating_add(weights) <= NEAR_BYTES {
            true => 0,
            false => self.all_far(count),
        }
    }

    /// Those of them if they are too large for that cache: each panel reads all inputs, and its weights once they are written.
    pub fn all_far(&self, count: usize) -> u64 {
        (count as u64).saturating_mul(self.tile_floats(self.channels)) + 2 * self.all_weights(count)
    }

    /// No fewer than so many are so small that they are not, if so many panels are made at once at most.
    pub fn fewest_near(&self, panels: usize) -> f64 {
        let [_, divided] = self.panels_bytes(panels);
        divided as f64 / NEAR_BYTES as f64
    }

    /// The same with whole panels, made in so many groups, in blocks of tiles, for each of which they are read again.
    pub fn moved_in_blocks(&self, count: usize, blocks: usize, groups: usize) -> u64 {
        let whole = Self { portion: self.channels, ..*self };
        let made = count.div_ceil(groups.max(1)) as u64;
        let times = match made.saturating_mul(whole.weight_bytes()) <= NEAR_BYTES {
            true => 0,
            false => blocks as u64 + 1,
        };
        self.transformed(groups).saturating_add(times.saturating_mul(self.all_weights(count)))
    }

    /// Floats of a frequency of so many panels' weights.
    fn all_weights(&self, count: usize) -> u64 {
        (count as u64).saturating_mul((self.channels * self.nr) as u64)
    }

    /// Floats of a frequency of the inputs, read and written so often.
    fn transformed(&self, times: usize) -> u64 {
        2 * (times as u64).saturating_mul(self.tile_floats(self.channels))
    }

    fn tile_floats(&self, floats: usize) -> u64 {
        (self.tiles as u64).saturating_mul(floats as u64)
    }

    /// Bytes that a step takes.
    pub fn bytes(&self) -> u64 {
        let weights = (self.made() as u64).saturating_mul(self.weight_bytes());
        let products = (self.panels as u64).saturating_mul(self.product_bytes());
        self.shared_bytes().saturating_add(weights).saturating_add(products)
    }

    /// Panels whose weights are made at once, at most.
    fn made(&self) -> usize {
        self.panels.min(self.threads)
    }

    /// The panels whose products can be kept in so many bytes, beside weights of those that are made at once.
    fn panels_in(&self, bytes: u64) -> u64 {
        let [weights, products] = [self.weight_bytes(), self.product_bytes()];
        let all = bytes.saturating_sub(self.threads as u64 * weights) / products;
        let few = (bytes / (weights + products)).min(self.threads as u64);
        all.max(few)
    }

    /// Frequencies of a tile.
    fn points(&self) -> usize {
        (self.tile + 2) * (self.tile + 2)
    }

    /// Floats from one frequency to the next, where each has so many a tile.
    fn stride(&self, floats: usize) -> usize {
        self.tiles.saturating_mul(floats).next_multiple_of(UNIT) + GAP
    }

    /// Floats of a panel's weights of a portion's channels.
    fn weight_floats(&self, channels: usize) -> usize {
        self.points() * channels * self.nr
    }

    /// Bytes of a panel's weights of a portion.
    fn weight_bytes(&self) -> u64 {
        4 * self.weight_floats(self.portion) as u64
    }

    /// Floats of a panel's products: rows of all tiles, for each frequency.
    fn product_floats(&self) -> usize {
        self.points() * self.stride(self.nr)
    }

    fn product_bytes(&self) -> u64 {
        4 * self.product_floats() as u64
    }

    /// Bytes of pointers, of zeros and a portion's transformed inputs, and of what transforms of weights take.
    fn shared_bytes(&self) -> u64 {
        Indirection::rows_bytes(self.tiles)
            + self.input_bytes()
            + self.threads as u64 * self.filter_bytes
    }

    /// Bytes of zeros and of a portion's transformed inputs.
    fn input_bytes(&self) -> u64 {
        let floats = self.portion + self.points() * self.stride(self.portion);
        (4 * floats as u64).next_multiple_of(64)
    }
}

/// Computes one step: a call with the record of the transformed layer, and the weights that are stored.
pub(in crate::ops) fn run(mut call: Call<'_>, portions: Portions, making: &Making<'_>) {
    let scratch = core::mem::take(&mut call.scratch);
    let tile = portions.tile;
    let outputs = Channels::new(call.output.cols(), 1, call.kernels.isa());
    let (groups, width) = (portions.groups(call.count), call.output.dims[2] as usize);
    let mut out = core::mem::replace(&mut call.out, empty());
    let mut out = out.part_mut(out.slots(call.rows.clone()), outputs.cols(call.first, call.count));
    for (rows, inputs) in images(&call) {
        let extent = [rows.len() / width, width];
        let tiles = extent.map(|extent| extent.div_ceil(tile)).into_iter().product();
        let block = Block::new(tile, extent, 0..tiles);
        for panels in (0..groups).map(|index| device::cut(call.count, groups, 1, index)) {
            let part = Part { call: &call, portions, block: &block, panels: panels.clone() };
            let floats = panels.len() * portions.product_floats();
            let (products, bytes) = scratch.split_at_mut(4 * floats);
            let products: &mut [f32] = bytemuck::cast_slice_mut(products);
            let (list, bytes) =
                bytes.split_at_mut(Indirection::rows_bytes(portions.tiles) as usize);
            let (inputs_of, bytes) = bytes.split_at_mut(portions.input_bytes() as usize);
            let floats: &mut [f32] = bytemuck::cast_slice_mut(inputs_of);
            let (zeros, frequencies) = floats.split_at_mut(portions.portion);
            zeros.fill(0.0);
            for start in (0..portions.channels).step_by(portions.portion) {
                let channels = start..(start + portions.portion).min(portions.channels);
                let stride = portions.stride(channels.len());
                inputs.transform(
                    &call,
                    call.device,
                    &block,
                    channels.clone(),
                    zeros,
                    frequencies,
                    stride,
                );
                let lists = part.rows(channels.len(), frequencies, list);
                let made = portions.made();
                let products = products.chunks_mut(made * portions.product_floats());
                for (first, products) in panels.clone().step_by(made).zip(products) {
                    let these = first..(first + made).min(panels.end);
                    let floats = these.len() * portions.weight_floats(channels.len());
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

/// Some panels of an image, as the step counts them.
struct Part<'a> {
    call: &'a Call<'a>,
    portions: Portions,
    block: &'a Block,
    panels: Range<usize>,
}

impl Part<'_> {
    /// Where the frequencies of so many channels of each tile are. Each row reaches from a tile's first frequency to its last.
    fn rows<'a>(&self, len: usize, frequencies: &'a [f32], list: &'a mut [u8]) -> Indirection<'a> {
        let reach = (self.portions.points() - 1) * self.portions.stride(len) + len;
        let rows = (0..self.block.count()).map(|tile| &frequencies[tile * len..]);
        Indirection::rows(rows, reach, self.call.kernels.mr(), list).seg_len(len)
    }

    /// Multiplies all tiles' frequencies of some channels with so many panels' weights of these, and adds that to the products of
    /// the channels before.
    fn multiply(
        &self,
        panels: usize,
        channels: Range<usize>,
        lists: &Indirection<'_>,
        weights: &[f32],
        products: &mut [f32],
    ) {
        let (points, nr) = (self.portions.points(), self.portions.nr);
        let kernels = self.call.kernels;
        let stride = self.portions.stride(channels.len());
        let floats = self.portions.stride(nr);
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
        let nr = self.portions.nr;
        let width = output.dims[2] as usize;
        let tile = self.portions.tile;
        let outputs = Channels::new(output.cols(), 1, kernels.isa());
        let (clamp, floats) = (clamp(&layer.activation), self.portions.stride(nr));
        let of_panel = self.portions.product_floats();
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
                        bias: &weights[panel * stored..][..nr],
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{OpKind, params_words};

    fn least(channels: u32, lines: u64, threads: usize) -> Option<Portions> {
        let tensor = |channels| Tensor { dims: [1, 14, 9, channels], ..Tensor::default() };
        let params = WinogradParams { tile: 4, pad: [1; 2], groups: 1 };
        let layer = Layer {
            kind: OpKind::Winograd as u32,
            params: params_words(&params),
            ..Layer::default()
        };
        let least =
            Portions::least(&layer, &tensor(channels), &tensor(64), Isa::Portable, threads, 1024);
        least.map(|least| least.of_rows(9 * lines))
    }

    #[test]
    fn any_scratch_from_the_least_on_will_do() {
        assert_eq!([least(16, 14, 1), least(1025, 14, 1)], [None; 2]);
        for channels in [17, 32, 33, 100, 512, 1024] {
            for (lines, threads) in [(1, 1), (4, 1), (14, 1), (4, 2), (14, 3)] {
                let least = least(channels, lines, threads).unwrap();
                for count in [1, 2, 5, 64] {
                    assert_eq!(least.within(count, least.bytes() - 1), None);
                    let mut moved = u64::MAX;
                    for scratch in (least.bytes()..16 << 20).step_by(40_000) {
                        let found = least.within(count, scratch).unwrap();
                        assert!(found.bytes() <= scratch);
                        assert!(found.portion * (found.count() - 1) < channels as usize);
                        assert!(found.panels * found.groups(count) >= count);
                        // More scratch serves.
                        assert!(found.moved(count) <= moved);
                        moved = found.moved(count);
                        let [fixed, divided] = found.panels_bytes(found.panels);
                        let no_less = fixed as f64 + divided as f64 / found.count() as f64;
                        assert!(no_less <= found.bytes() as f64);
                    }
                }
            }
        }
    }
}
