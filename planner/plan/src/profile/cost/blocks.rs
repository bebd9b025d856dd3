//! How the scratch of a step divides a Winograd convolution. With less scratch, blocks have fewer tiles, and a step makes
//! fewer panels at once, or channel blocks.

use eyelet::ops::winograd::{self, ChannelBlocks};
use eyelet::ops::{self, Problem, Slice};
use eyelet::pack::{Layer, Method, Step, WinogradParams, params};
use eyelet_model::network::Network;

/// Derives the blocks of a layer, and the panels that are made at once, from a step's scratch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    /// Tiles of a block, with all the scratch that a step can use.
    most: f64,
    /// Bytes of scratch that a tile takes.
    tile_bytes: f64,
    /// Bytes that a tile takes in addition for each panel of a group.
    product_bytes: f64,
    /// Bytes of scratch that a step takes whatever its tiles.
    bytes: f64,
    /// Bytes of scratch for each panel that a step makes.
    panel_bytes: f64,
    /// Tiles of a row.
    row_tiles: f64,
    channel_blocks: Option<ChannelBlocks>,
}

/// How a step is cut by its scratch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut {
    /// Groups in which its panels are made.
    pub(super) groups: f64,
    /// Panels of a group.
    pub(super) made: u32,
    /// Blocks of tiles, as a multiple of their number with all scratch. Each block has products of its own.
    pub(super) times: f64,
    /// Channel blocks, which have products of all tiles of a band. 0 where whole panels are made.
    pub(super) channel_blocks: f64,
    /// Bands of tiles, for each of which weights are made.
    pub(super) bands: f64,
    /// Floats of each frequency that a thread's cache does not hold ([`ChannelBlocks::uncached`]).
    pub(super) uncached: f64,
}

/// Panels of a group of products, at most.
const PRODUCTS: u32 = 4;

/// Most bytes by which two computations of the same scratch differ.
const ROUNDED: f64 = 64.0;

impl Cut {
    /// `count` panels in groups of `made`, in as few blocks as possible.
    pub(super) fn whole(count: u32, made: u32) -> Self {
        let groups = count.div_ceil(made).into();
        Self { groups, made, times: 1.0, channel_blocks: 0.0, bands: 1.0, uncached: 0.0 }
    }

    /// `count` panels in channel blocks.
    fn by_channels(channel_blocks: ChannelBlocks, count: u32) -> Self {
        Self {
            groups: channel_blocks.groups(count as usize) as f64,
            made: 1,
            times: 1.0,
            channel_blocks: channel_blocks.count() as f64,
            bands: channel_blocks.bands() as f64,
            uncached: channel_blocks.uncached(count as usize) as f64,
        }
    }
}

/// A step's scratch, where 0 is all that it can use.
fn all_or(scratch_bytes: u64) -> u64 {
    if scratch_bytes == 0 { u64::MAX } else { scratch_bytes }
}

impl Blocks {
    pub(super) fn new(
        network: &Network,
        stored: &Layer,
        plain: &Layer,
        algorithm: u32,
        threads: u32,
    ) -> Self {
        let tensor = |id: u32| network.tensors.get(id as usize).copied().unwrap_or_default();
        let (inputs, output) = (stored.inputs.map(tensor), tensor(stored.output));
        let tile = params::<WinogradParams>(plain).tile as usize;
        let tiles = winograd::tiles(plain, &output) as usize;
        let most = winograd::block_tiles(tile, inputs[0].cols() as usize, network.isa);
        let [most, fewest] =
            [most, winograd::FEW_TILES].map(|block| block.min(tiles).max(1) as f64);
        let problem = |layer, slice| {
            let (inputs, output, isa) = (&inputs, &output, network.isa);
            Problem { layer, inputs, output, slice, threads, isa }
        };
        let bytes = |count: u32| {
            let rows = output.rows() as u32;
            let slice = Slice { first: 0, count, row: 0, rows, ..Slice::default() };
            [ops::scratch_bytes, ops::least_scratch_bytes]
                .map(|bytes| bytes(&problem(plain, slice)) as f64)
        };
        let group = PRODUCTS.min(plain.panels).max(1);
        let ([one, least], [several, _]) = (bytes(1), bytes(group));
        let each = (one - least) / (most - fewest).max(1.0);
        let product_bytes = (several - one) / most / f64::from(group - 1).max(1.0);
        let made = algorithm != 0 || stored.encoding != 0;
        let whole = Slice {
            first: 0,
            count: 1,
            row: 0,
            rows: output.rows() as u32,
            method: Method::by(algorithm),
        };
        Self {
            most,
            tile_bytes: each - product_bytes,
            product_bytes,
            bytes: one - most * each,
            panel_bytes: if made { f64::from(plain.panel_bytes) } else { 0.0 },
            row_tiles: tiles as f64 / output.rows().max(1) as f64,
            channel_blocks: ops::channel_blocks(&problem(stored, whole)),
        }
    }

    /// The cut of a step that makes at most `at_once` panels at once, and an upper bound for the scratch that it uses.
    pub(super) fn within(&self, step: &Step, at_once: u32) -> (Cut, f64) {
        let most = Self::most_panels(step.count, at_once);
        let (cut, used) = match self.blocks_within(step, at_once) {
            None => (self.in_panels(step, most), self.fixed(most) + self.most * self.tile(most)),
            Some(channel_blocks) => {
                (Cut::by_channels(channel_blocks, step.count), channel_blocks.bytes() as f64)
            }
        };
        (cut, used.min(all_or(step.scratch_bytes) as f64))
    }

    /// The channel blocks in which a step is computed, if it is, as the step itself chooses.
    pub(super) fn blocks_within(&self, step: &Step, at_once: u32) -> Option<ChannelBlocks> {
        let channel_blocks = self.blocks_of(step)?;
        let count = step.count as usize;
        let channel_blocks = channel_blocks.within(count, all_or(step.scratch_bytes))?;
        let cut = self.in_panels(step, Self::most_panels(step.count, at_once));
        let blocks = (f64::from(step.rows) * self.row_tiles / self.most * cut.times).ceil();
        let work = channel_blocks.work_in_blocks(count, blocks as usize, cut.groups as usize);
        let least = self.fixed(cut.made) + self.tile(cut.made) * winograd::FEW_TILES as f64;
        let fits = all_or(step.scratch_bytes) as f64 + ROUNDED >= least;
        (!fits || work > channel_blocks.work(count)).then_some(channel_blocks)
    }

    /// The channel blocks in which a step could be computed with clearly less scratch than it has.
    pub(super) fn less(&self, step: &Step) -> Option<ChannelBlocks> {
        let less = step.scratch_bytes.checked_sub(64)?;
        self.blocks_of(step)?.within(step.count as usize, less)
    }

    /// The smallest channel blocks of a step, if there are any.
    fn blocks_of(&self, step: &Step) -> Option<ChannelBlocks> {
        self.channel_blocks.map(|channel_blocks| channel_blocks.of_rows(step.rows.into()))
    }

    /// The cut of a step that makes whole panels.
    fn in_panels(&self, step: &Step, most: u32) -> Cut {
        let scratch = all_or(step.scratch_bytes) as f64;
        let panels = match self.panel_bytes == 0.0 || self.has_all(scratch, most) {
            true => most,
            false => ((scratch / 2.0 / self.panel_bytes) as u32).clamp(1, most),
        };
        self.by(scratch, step.count, panels)
    }

    /// Whether a step has all the scratch that it can use, up to rounding.
    fn has_all(&self, scratch: f64, most: u32) -> bool {
        scratch + ROUNDED >= self.fixed(most) + self.most * self.tile(most)
    }

    /// The cuts with the fewest blocks that this much scratch allows, for each number of panels that may be made at once.
    pub(super) fn least_within(
        &self,
        step: &Step,
        scratch: f64,
        at_once: u32,
    ) -> impl Iterator<Item = Cut> {
        let (count, scratch) = (step.count, scratch + ROUNDED);
        let most = Self::most_panels(count, at_once);
        let fewest = if self.panel_bytes == 0.0 { most } else { 1 };
        let all = move |channel_blocks: ChannelBlocks| {
            channel_blocks.all_within(count as usize, scratch as u64)
        };
        let by_channels = self.blocks_of(step).into_iter().flat_map(all);
        (fewest..=most)
            .map(move |panels| self.by(scratch, count, panels))
            .chain(by_channels.map(move |channel_blocks| Cut::by_channels(channel_blocks, count)))
    }

    /// Panels of the largest of the fewest groups, at least 1.
    pub(super) fn most_panels(count: u32, at_once: u32) -> u32 {
        count.div_ceil(count.div_ceil(at_once.max(1)).max(1)).max(1)
    }

    fn by(&self, scratch: f64, count: u32, panels: u32) -> Cut {
        let tiles = (scratch - self.fixed(panels)) / self.tile(panels);
        let times = self.most / tiles.clamp(1.0, self.most);
        Cut { times, ..Cut::whole(count, panels) }
    }

    /// Bytes of a tile if `panels` panels are made at once.
    fn tile(&self, panels: u32) -> f64 {
        (self.tile_bytes + f64::from(panels.min(PRODUCTS)) * self.product_bytes).max(1.0)
    }

    /// Bytes of scratch that no tile takes.
    fn fixed(&self, panels: u32) -> f64 {
        self.bytes + f64::from(panels) * self.panel_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::Costs;
    use super::super::testing::{conv, network, profile, whole};
    use super::*;
    use eyelet::pack::{ConvParams, OpKind, params_words};

    /// Blocks that are smaller come back to weights more often, and panels made one at a time have inputs transformed for
    /// each.
    #[test]
    fn less_scratch_takes_no_less_time() {
        let mut profile = profile();
        profile.compute.cache_bytes = 64 << 10;
        let mut network = network(OpKind::Conv, conv([3, 3]), [784, 256], [784, 256]);
        for tensor in &mut network.tensors {
            tensor.dims = [1, 28, 28, 256];
        }
        network.layers[0].params = params_words(&ConvParams {
            pad: [1; 2],
            ..params::<ConvParams>(&Layer { params: conv([3, 3]), ..network.layers[0] })
        });
        network.layers[0].panel_bytes = 32 * (9 * 256 + 1);
        let costs = Costs::new(&network, &profile, 1);
        for algorithm in [2, 4] {
            let step = Step { method: Method::by(algorithm), ..whole(&network) };
            let [least, all] = [crate::steps::least_scratch_bytes, crate::steps::scratch_bytes]
                .map(|bytes| bytes(&network, &step, 1));
            assert!(2 * least < all, "{least} of {all}");
            let ns = |scratch_bytes: u64| costs.step_ns(&Step { scratch_bytes, ..step });
            let most = ns(0);
            assert!(ns(all).abs_diff(most) <= most / 50, "{} for {most}", ns(all));
            for eighth in 0..8 {
                let less = ns(least + (all - least) / 8 * eighth);
                assert!(less >= most, "{less} below {most}");
            }
            assert!(ns(least) > most + most / 20, "{} for {most}", ns(least));
        }
    }
}
