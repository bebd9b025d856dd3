//! Costs that only Winograd convolutions have: transforms of inputs, outputs and weights, and reading weights again for
//! each block of tiles.

use super::blocks::{Blocks, Cut};
use super::levels::Levels;
use eyelet::kernels::Isa;
use eyelet::ops::winograd::{self, ChannelBlocks};
use eyelet::pack::{Layer, Step, WinogradParams, params};
use eyelet_model::network::Network;

/// Transforms reach their measured rate while inputs and outputs fit this many caches of a thread.
pub(super) const SPILL_CACHES: u64 = 2;

/// Sizes of the transforms and blocks of a Winograd convolution.
pub(super) struct Transforms {
    /// Frequencies, over all tiles.
    pub(super) points: f64,
    /// Input channels of a group.
    pub(super) channels: f64,
    /// Bytes that the input transforms read and write. With one group every step transforms all inputs, whatever panels
    /// it has.
    pub(super) input_bytes: f64,
    /// Whether there are several groups. Then a step transforms the channels of its groups alone.
    pub(super) grouped: bool,
    /// Bytes that the output transforms read and write.
    pub(super) output_bytes: f64,
    /// How often weights are read: once for each block of tiles, or, with several groups, from a cache.
    pub(super) blocks: f64,
    /// Tiles of the output.
    pub(super) tiles: u64,
    /// Products of a panel in a block.
    pub(super) products: f64,
}

impl Transforms {
    pub(super) fn of(network: &Network, layer: &Layer) -> Self {
        let p: WinogradParams = params(layer);
        let input = &network.tensors[layer.inputs[0] as usize];
        let output = &network.tensors[layer.output as usize];
        let tiles = winograd::tiles(layer, output);
        let points = match network.isa {
            // A GPU computes what juts out.
            Isa::Cuda => tiles * u64::from(p.tile + 2).pow(2),
            _ => winograd::frequencies(layer, output),
        };
        let each = points as f64;
        let channels = input.cols() / p.groups.max(1);
        let block = winograd::block_tiles(p.tile as usize, channels as usize, network.isa) as u64;
        let grouped = p.groups > 1;
        Self {
            points: each,
            channels: f64::from(channels),
            grouped,
            input_bytes: 8.0 * each * f64::from(input.cols()),
            output_bytes: 4.0 * f64::from(output.cols()) * (each + output.rows() as f64),
            blocks: if grouped { 1.0 } else { tiles.div_ceil(block) as f64 },
            tiles,
            products: f64::from(p.tile + 2).powi(2),
        }
    }
}

/// Cost of the transforms and blocks of a Winograd convolution, with all threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct WinogradCost {
    /// Transforms the inputs of a row. Each group of panels does so.
    pub(super) row_ns: f64,
    /// Panels of a group, at most.
    pub(super) group: u32,
    /// Extra time of transforming the inputs of a row that the caches do not hold.
    pub(super) row_spill_ns: f64,
    /// Extra time of transforming a piece that the caches do not hold.
    pub(super) piece_spill_ns: f64,
    /// `None` on a GPU, and for convolutions of several groups.
    pub(super) blocks: Option<BlockCost>,
}

/// Cost of the blocks into which scratch divides a Winograd convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockCost {
    pub(super) blocks: Blocks,
    /// Blocks of tiles in a row, with all scratch that a step can use.
    pub(super) per_row: f64,
    /// Starts the products of a panel with a block.
    pub(super) products_ns: f64,
    /// A thread's cache holds at most this many panels that are made at once.
    pub(super) cached_panels: f64,
    /// Reads a panel for a block from a thread's cache.
    pub(super) cached_ns: f64,
    /// Reads a panel for a block if no thread's cache holds it.
    pub(super) again_ns: Levels,
    /// Blocks that use the step's first read of a panel.
    pub(super) first: f64,
    /// Reads and writes the sums of a row of a panel. Each channel block but the first does so.
    pub(super) carry_ns: f64,
    /// Reads or writes a float of each frequency of a tile outside of a thread's cache.
    pub(super) uncached_ns: f64,
    /// Brings a byte of scratch back into a thread's cache. Other layers displaced about half of it.
    pub(super) scratch_ns: f64,
}

impl WinogradCost {
    /// A convolution that transforms all its inputs at once.
    pub(super) fn unblocked(row_ns: f64) -> Self {
        Self { row_ns, group: u32::MAX, row_spill_ns: 0.0, piece_spill_ns: 0.0, blocks: None }
    }

    /// The cut of a step, and the time that its scratch takes.
    pub(super) fn cut(&self, step: &Step) -> (Cut, f64) {
        match &self.blocks {
            Some(cost) => {
                let (cut, used) = cost.blocks.within(step, self.group);
                (cut, used * cost.scratch_ns)
            }
            None => (Cut::whole(step.count, Blocks::most_panels(step.count, self.group)), 0.0),
        }
    }

    /// Candidates for the fastest cut of a step with at most `scratch` bytes of scratch.
    pub(super) fn least_cuts(
        &self,
        step: &Step,
        scratch: f64,
    ) -> Option<impl Iterator<Item = Cut>> {
        let cost = self.blocks.as_ref()?;
        Some(cost.blocks.least_within(step, scratch, self.group))
    }

    /// The channel blocks in which a step is computed, if it is.
    pub(super) fn channel_blocks(&self, step: &Step) -> Option<ChannelBlocks> {
        self.blocks.as_ref()?.blocks.blocks_within(step, self.group)
    }
}

impl BlockCost {
    /// How often `rows` rows read a panel again outside of a thread's cache, and the time of all else that they take for
    /// a panel.
    pub(super) fn panel(&self, rows: f64, cut: &Cut) -> (f64, f64) {
        let fits_cache = cut.channel_blocks > 0.0 || f64::from(cut.made) <= self.cached_panels;
        let blocks = (rows * self.per_row * cut.times).max(1.0);
        // Channel blocks are parts of a panel, which is read once for each band.
        let (products, reads) = match cut.channel_blocks > 0.0 {
            true => (cut.channel_blocks * cut.bands, cut.bands),
            false => (blocks, blocks),
        };
        let again = if fits_cache { 0.0 } else { (blocks - self.first).max(0.0) };
        let cached_ns = if fits_cache { reads * self.cached_ns } else { 0.0 };
        let carried = (cut.channel_blocks - 1.0).max(0.0) * rows * self.carry_ns;
        (again, products * self.products_ns + cached_ns + carried)
    }

    /// Adds the cost of weights in a mapped pack. Stored panels are read again from there, unless a cache holds them.
    pub(super) fn add_mapped(&mut self, read_ns: &Levels) {
        if self.first > 0.0 && self.again_ns.dram >= read_ns.dram {
            self.again_ns.mapped = read_ns.mapped;
        }
    }
}
