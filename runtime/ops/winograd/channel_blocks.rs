//! The parts of steps that transform their weights: some panels at a time, channel blocks of the
//! input channels, the tiles of some lines at once.
//!
//! Transformed weights should be read as soon as they are made, while a cache holds them. A panel
//! of frequencies of all input channels can be more than that, or than there is scratch for: 2.3
//! MiB for F(4,3), 512 channels and panels of 32. So the inputs of some channels are transformed,
//! and, panel by panel, their weights. The products of a band of tiles continue those of the
//! channels before: each is still one chain, with the bits that it has otherwise. Products stay
//! until all channels are done, band after band. With all lines in one band weights are transformed
//! once, however little scratch there is, inputs once for each group of panels. The cost is shorter
//! products, and reading and writing them once for each channel block. With few tiles (a small map,
//! or the few lines of a step that slides) these are less than the weights of a panel. Where a
//! large map's products leave room for a few channels or panels only, several bands have larger
//! channel blocks and more panels, and inputs are transformed less often; but weights for each band
//! anew.
//!
//! Threads have a panel each at a time; where there are fewer panels, they share the channels of
//! each.
//!
//! Layers of one group, whose products are one chain.

use super::division::GAP;
use super::inputs::Inputs;
use crate::kernels::table::{Chains, Indirection};
use crate::ops::Problem;
use crate::pack::{Isa, WinogradParams, params};
use core::ops::Range;

/// Least channels of a block, whose channels are a multiple of them: a line of the cache.
const UNIT: usize = 16;

/// Bytes that a second-level cache holds, of weights that were just made and of the inputs that
/// they are multiplied with.
const L2_BYTES: u64 = 1 << 20;

/// Cost of the products of a panel and a channel block, of all frequencies, apart from their
/// length: the floats of a frequency that transforms read or write in the time.
const BEGUN: u64 = 140;

/// Floats that come from beyond the second-level cache in the time in which transforms read or
/// write one.
const UNCACHED: u64 = 4;

/// The parts of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelBlocks {
    /// Input channels.
    pub(super) channels: usize,
    /// Output channels in a panel.
    pub(super) nr: usize,
    /// Lines of a tile's outputs, and lines and columns of the layer's.
    pub(super) tile: usize,
    output: [usize; 2],
    /// Threads, and bytes that the transforms of weights of each take for themselves.
    threads: usize,
    filter_bytes: u64,
    /// Lines of tiles of an image that the step makes, at most.
    down: usize,
    /// Lines of tiles of a band, at most.
    lines: usize,
    /// Panels whose products are kept, at most.
    panels: usize,
    /// Input channels of a channel block.
    pub(super) block_channels: usize,
}

impl ChannelBlocks {
    /// A layer (its record as [`transformed`](crate::ops::transformed)) in the smallest channel
    /// blocks, of one panel; `None` where there are none.
    pub(in crate::ops) fn least(plain: &Problem<'_>, filter_bytes: u64) -> Option<Self> {
        let &Problem { layer, inputs: [input, ..], output, isa, .. } = plain;
        let p: WinogradParams = params(layer);
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
            threads: plain.threads(),
            filter_bytes,
            down: 1,
            lines: 1,
            panels: 1,
            block_channels: UNIT,
        };
        there_are.then(|| least.of_rows(output.rows()))
    }

    /// The channel blocks of a step of `rows` rows of the output.
    pub fn of_rows(self, rows: u64) -> Self {
        let [height, width] = self.output;
        let lines = (rows as usize / width.max(1)).clamp(1, height.max(1));
        Self { down: lines.div_ceil(self.tile), lines: 1, ..self }
    }

    /// The channel blocks of a step of `count` panels, with the bands, channel blocks and groups of
    /// panels that take least work in no more than `scratch` bytes; `None` if none do.
    pub fn within(self, count: usize, scratch: u64) -> Option<Self> {
        let mut best: Option<(u64, Self)> = None;
        for of_band in self.in_bands() {
            for one in of_band.in_blocks() {
                // However many panels a group has, and no less in smaller channel blocks.
                let least = one.transformed(1).saturating_add(one.each(count));
                if best.is_some_and(|(work, _)| work <= least) {
                    break;
                }
                let Some(found) = one.in_groups(count, scratch) else { continue };
                let work = found.work(count);
                if best.is_none_or(|(least, _)| work < least) {
                    best = Some((work, found));
                }
            }
        }
        best.map(|(_, found)| found)
    }

    /// All bands and channel blocks that there may be, each in as few groups as fit, and in groups
    /// in which fewer weights are made at once. No others that fit are less work.
    pub fn all_within(self, count: usize, scratch: u64) -> impl Iterator<Item = Self> {
        let all = self.in_bands().flat_map(Self::in_blocks);
        let in_few = all.filter_map(move |one| one.in_groups(count, scratch));
        in_few.flat_map(|few| {
            (1..few.made()).map(move |panels| Self { panels, ..few }).chain(core::iter::once(few))
        })
    }

    /// These bands and channel blocks in as few groups of panels as `scratch` bytes allow.
    fn in_groups(self, count: usize, scratch: u64) -> Option<Self> {
        let room = scratch.saturating_sub(self.shared_bytes());
        let most = self.panels_in(room).min(count as u64) as usize;
        // Groups are even.
        (most > 0).then(|| Self { panels: count.div_ceil(count.div_ceil(most)), ..self })
    }

    /// These bands in all possible channel blocks: of all channels, and then each of half the
    /// channels.
    fn in_blocks(self) -> impl Iterator<Item = Self> {
        halves(self.channels, UNIT).map(move |block_channels| Self {
            panels: 1,
            block_channels,
            ..self
        })
    }

    /// The step in all possible bands: of all lines, and then each of half the lines.
    fn in_bands(self) -> impl Iterator<Item = Self> {
        halves(self.down, 1).map(move |lines| Self { lines, ..self })
    }

    /// The number of bands.
    pub fn bands(&self) -> usize {
        self.down.div_ceil(self.lines)
    }

    /// The number of groups of `count` panels.
    pub fn groups(&self, count: usize) -> usize {
        count.div_ceil(self.panels)
    }

    /// The number of channel blocks.
    pub fn count(&self) -> usize {
        self.channels.div_ceil(self.block_channels)
    }

    /// The work of `count` panels apart from the products themselves, in floats of each frequency
    /// that transforms could read or write meanwhile: inputs once for each group, weights once for
    /// each band, products for each channel block. Less work is faster.
    pub fn work(&self, count: usize) -> u64 {
        self.transformed(self.groups(count))
            .saturating_add(self.each(count))
            .saturating_add(self.uncached(count))
    }

    /// The work of bands and channel blocks.
    fn each(&self, count: usize) -> u64 {
        let channel_blocks = self.count() as u64;
        let begun = (channel_blocks * self.bands() as u64).saturating_mul(count as u64 * BEGUN);
        self.remade(count)
            .saturating_add(channel_blocks.saturating_mul(self.carried(count)))
            .saturating_add(begun)
    }

    /// The work that is due to a channel block's inputs and weights being too large for the
    /// second-level cache: each panel reads all inputs, and its weights after they are written.
    pub fn uncached(&self, count: usize) -> u64 {
        let weights = (self.made() as u64).saturating_mul(self.weight_bytes());
        if self.input_bytes().saturating_add(weights) <= L2_BYTES {
            return 0;
        }
        let inputs = (count as u64).saturating_mul(self.tile_floats(self.channels));
        inputs.saturating_add(2 * self.remade(count)) / UNCACHED
    }

    /// The work with whole panels, made in `groups` groups, in blocks of tiles, for each of which
    /// they are read again.
    pub fn work_in_blocks(&self, count: usize, blocks: usize, groups: usize) -> u64 {
        let whole = Self { block_channels: self.channels, ..*self };
        let made = count.div_ceil(groups.max(1)) as u64;
        let uncached = match made.saturating_mul(whole.weight_bytes()) <= L2_BYTES {
            true => 0,
            false => (blocks as u64 + 1).saturating_mul(self.all_weights(count)) / UNCACHED,
        };
        let begun = (blocks as u64).saturating_mul(count as u64 * BEGUN);
        self.transformed(groups)
            .saturating_add(self.all_weights(count))
            .saturating_add(self.carried(count))
            .saturating_add(begun)
            .saturating_add(uncached)
    }

    /// Weights that are made, for each band anew.
    fn remade(&self, count: usize) -> u64 {
        (self.bands() as u64).saturating_mul(self.all_weights(count))
    }

    /// Products that are read and written: these are near, so that two take as long as one float of
    /// others.
    fn carried(&self, count: usize) -> u64 {
        (count as u64).saturating_mul(self.tile_floats(self.nr))
    }

    /// Floats of a frequency of the weights of `count` panels.
    fn all_weights(&self, count: usize) -> u64 {
        (count as u64).saturating_mul((self.channels * self.nr) as u64)
    }

    /// Floats of a frequency of the inputs, read and written so often.
    fn transformed(&self, times: usize) -> u64 {
        2 * (times as u64).saturating_mul(self.tile_floats(self.channels))
    }

    /// Tiles of a band, at most.
    pub(super) fn tiles(&self) -> usize {
        self.lines.saturating_mul(self.across())
    }

    /// Tiles of a line.
    fn across(&self) -> usize {
        self.output[1].div_ceil(self.tile)
    }

    /// Floats of all tiles, of which each has `floats`.
    fn tile_floats(&self, floats: usize) -> u64 {
        (self.down as u64).saturating_mul(self.across() as u64).saturating_mul(floats as u64)
    }

    /// The bands of what a step makes of an image: the rows of each, and its inputs.
    pub(super) fn of_image<'a>(
        self,
        (rows, inputs): (Range<usize>, Inputs<'a>),
        width: usize,
    ) -> impl Iterator<Item = (Range<usize>, Inputs<'a>)> {
        let lines = self.lines * self.tile;
        (0..rows.len() / width).step_by(lines).map(move |line| {
            let start = rows.start + line * width;
            (start..(start + lines * width).min(rows.end), inputs.below(line))
        })
    }

    /// Bytes that a step takes.
    pub fn bytes(&self) -> u64 {
        let weights = (self.made() as u64).saturating_mul(self.weight_bytes());
        let products = (self.panels as u64).saturating_mul(self.product_bytes());
        self.shared_bytes().saturating_add(weights).saturating_add(products)
    }

    /// Panels whose weights are made at once, at most.
    pub(super) fn made(&self) -> usize {
        self.panels.min(self.threads)
    }

    /// The panels whose products can be kept in `bytes` bytes, next to the weights of those that
    /// are made at once.
    fn panels_in(&self, bytes: u64) -> u64 {
        let [weights, products] = [self.weight_bytes(), self.product_bytes()];
        let all = bytes.saturating_sub(self.threads as u64 * weights) / products;
        let few = (bytes / (weights + products)).min(self.threads as u64);
        all.max(few)
    }

    /// Frequencies of a tile.
    pub(super) fn points(&self) -> usize {
        (self.tile + 2) * (self.tile + 2)
    }

    /// Floats from one frequency to the next, where each has `floats` a tile.
    pub(super) fn stride(&self, floats: usize) -> usize {
        self.tiles().saturating_mul(floats).next_multiple_of(UNIT) + GAP
    }

    /// Floats of a panel's weights of a channel block.
    pub(super) fn weight_floats(&self, channels: usize) -> usize {
        self.points() * channels * self.nr
    }

    /// Bytes of a panel's weights of a channel block.
    fn weight_bytes(&self) -> u64 {
        4 * self.weight_floats(self.block_channels) as u64
    }

    /// Floats of a panel's products: rows of a band's tiles, for each frequency.
    pub(super) fn product_floats(&self) -> usize {
        self.points() * self.stride(self.nr)
    }

    fn product_bytes(&self) -> u64 {
        4 * self.product_floats() as u64
    }

    /// Bytes of pointers, of zeros and a channel block's transformed inputs, and of what transforms
    /// of weights take.
    fn shared_bytes(&self) -> u64 {
        Indirection::rows_bytes(self.tiles())
            + self.input_bytes()
            + self.threads as u64 * self.filter_bytes
    }

    /// Bytes of zeros and of a channel block's transformed inputs.
    pub(super) fn input_bytes(&self) -> u64 {
        let floats = self.block_channels + self.points() * self.stride(self.block_channels);
        (4 * floats as u64).next_multiple_of(64)
    }
}

/// All of something, and half of it until there is no more than `least`, in multiples of `least`.
fn halves(all: usize, least: usize) -> impl Iterator<Item = usize> {
    let halves = core::iter::successors(Some(all), move |n| (*n > least).then(|| n.div_ceil(2)));
    halves.map(move |n| n.next_multiple_of(least))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Slice;
    use crate::pack::INPUTS;
    use crate::pack::{Layer, OpKind, Tensor, params_words};

    fn least(channels: u32, lines: u64, threads: u32) -> Option<ChannelBlocks> {
        let tensor = |channels| Tensor { dims: [1, 14, 9, channels], ..Tensor::default() };
        let params = WinogradParams { tile: 4, pad: [1; 2], groups: 1 };
        let layer = Layer {
            kind: OpKind::Winograd as u32,
            params: params_words(&params),
            ..Layer::default()
        };
        let problem = Problem {
            layer: &layer,
            inputs: &[tensor(channels); INPUTS],
            output: &tensor(64),
            slice: Slice::default(),
            threads,
            isa: Isa::Portable,
        };
        let least = ChannelBlocks::least(&problem, 1024);
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
                    let found = least.within(count, least.bytes()).unwrap();
                    assert_eq!(
                        (found.bands(), found.panels, found.block_channels),
                        (least.down, 1, UNIT)
                    );
                    let mut work = u64::MAX;
                    for scratch in (least.bytes()..16 << 20).step_by(40_000) {
                        let found = least.within(count, scratch).unwrap();
                        assert!(found.bytes() <= scratch);
                        assert!(found.block_channels * (found.count() - 1) < channels as usize);
                        assert!(found.panels * found.groups(count) >= count);
                        assert!(found.lines * (found.bands() - 1) < found.down);
                        // None that fit are less work, in whatever groups; the bound looks at the
                        // least; and more scratch serves.
                        let others = least.in_bands().flat_map(ChannelBlocks::in_blocks);
                        let others = others.flat_map(|one| {
                            (1..=count).map(move |panels| ChannelBlocks { panels, ..one })
                        });
                        let fit = others.filter(|other| other.bytes() <= scratch);
                        let fit = fit.map(|other| other.work(count)).min();
                        assert_eq!(fit, Some(found.work(count)));
                        let all = least.all_within(count, scratch).map(|one| one.work(count));
                        assert_eq!(fit, all.min());
                        assert!(found.work(count) <= work);
                        work = found.work(count);
                    }
                }
            }
        }
    }
}
