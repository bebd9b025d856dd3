//! How a step is divided: its blocks of tiles, what threads share, and the scratch that it takes.

use super::along;
use crate::kernels::table::Indirection;
use crate::ops::Problem;
use crate::ops::conv::{Channels, Sizes, part};
use crate::pack::{Isa, WinogradParams, params};

/// Bytes that a block's transformed inputs and products of a panel may take, unless a few tiles
/// take more.
const BLOCK_BYTES: usize = 2304 * 1024;

/// Rows (tiles times frequencies) of a block: enough for each panel of weights to be worth
/// fetching.
const BLOCK_ROWS: usize = 28 * 36;

/// Panels that are multiplied with a frequency's inputs while these are in the first-level cache,
/// unless all frequencies' inputs stay near.
const GROUP: usize = 4;

/// Bytes of a block's transformed inputs that stay in the second-level cache next to products and
/// weights: to come back to them for each panel costs nothing, and one panel's products are the
/// least scratch.
const L2_BYTES: u64 = 192 << 10;

/// The fewest tiles of a block, unless there are fewer, however little scratch there is.
pub const FEW_TILES: usize = 4;

/// Multiplications of a product with a panel that are worth its call: with few channels and narrow
/// panels a block has more tiles for it, as long as their frequencies stay near.
const WORTH: usize = 28 * 16 * 32;

/// Floats between frequencies beyond what they hold, so that they do not meet in the cache's sets.
pub(super) const GAP: usize = 16;

/// Tiles of a block for `channels` input channels of a group, with all the scratch that a step can
/// use: each panel of weights is read once for each block, from memory where there is one group.
pub fn block_tiles(tile: usize, channels: usize, isa: Isa) -> usize {
    let points = (tile + 2) * (tile + 2);
    let fit = BLOCK_BYTES / (4 * points).saturating_mul(channels.saturating_add(isa.panel()));
    let rows = isa.rows();
    let wanted = (BLOCK_ROWS / points / rows).max(1) * rows;
    let worth = (WORTH / channels.saturating_mul(isa.panel()).max(1)).next_multiple_of(rows);
    let in_l2 = L2_BYTES as usize / (4 * points).saturating_mul(channels).max(1) / rows * rows;
    wanted.max(worth.min(in_l2)).min(fit).max(FEW_TILES)
}

/// The dimension that threads divide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Divide {
    /// Rows of tiles.
    Lines,
    /// Panels; they share a block's transformed inputs.
    Panels,
    /// Groups, with the inputs of each.
    Groups,
}

/// How one step is divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    pub(super) tile: usize,
    /// Input channels of a group.
    pub(super) channels: usize,
    /// How output channels fall into panels.
    pub(super) outputs: Channels,
    /// Groups whose inputs are transformed together, at most.
    pub(super) together: usize,
    /// Output channels in a panel.
    pub(super) nr: usize,
    /// Rows of the matrix kernel.
    pub(super) mr: usize,
    /// Height and width.
    pub(super) output: [usize; 2],
    /// Tiles of an image that a thread makes, at most.
    pub(super) tiles: usize,
    /// Tiles of a block, at most.
    pub(super) block: usize,
    /// Panels whose products with a frequency are computed before the next frequency, at most.
    pub(super) ahead: usize,
    /// Panels of a group that one thread multiplies with a block, at most.
    pub(super) panels: usize,
    pub(super) divide: Divide,
    /// Rows of tiles, panels, or groups, of a part.
    pub(super) each: usize,
    /// Threads that get a share.
    pub(super) shares: usize,
}

impl Division {
    pub(super) fn new(problem: &Problem<'_>) -> Self {
        let &Problem { layer, inputs: [input, ..], output, slice, isa, .. } = problem;
        let threads = problem.threads();
        let p: WinogradParams = params(layer);
        let pair = |pair: [u32; 2]| pair.map(|x| x as usize);
        let tile = p.tile as usize;
        let channels = (input.cols() / p.groups.max(1)) as usize;
        let outputs = Channels::new(output.cols(), p.groups, layer.columns(isa));
        let extent = pair([output.dims[1], output.dims[2]]);
        let panels = slice.count as usize;
        // The fewest groups that have them: scratch is the same wherever a slice begins.
        let groups = panels.div_ceil(outputs.panels.max(1));
        // The lines that the step makes of one image.
        let lines = (slice.rows as usize / extent[1]).min(extent[0]);
        let [down, across] = [lines, extent[1]].map(|extent| extent.div_ceil(tile));
        let points = (tile + 2) * (tile + 2);
        // Those who divide groups have nothing in common; in one group, panels have the inputs.
        let (by_cols, divide) = match p.groups {
            0 | 1 => (panels, Divide::Panels),
            _ => (groups, Divide::Groups),
        };
        let sizes = Sizes {
            by_rows: down,
            by_cols,
            input: lines.saturating_mul(extent[1]).saturating_mul(channels).saturating_mul(groups),
            weights: panels.saturating_mul(isa.panel()).saturating_mul(points * channels),
        };
        let frequencies = [lines, extent[1]].map(|outputs| along(tile as u64, outputs as u64));
        let pairs = panels.saturating_mul(isa.panel()).saturating_mul(channels) as u64;
        let macs = frequencies[0].saturating_mul(frequencies[1]).saturating_mul(pairs);
        let (divide, units) = match sizes.divide_columns(threads) {
            true => (divide, by_cols),
            false => (Divide::Lines, down),
        };
        let each = part(units, macs, threads);
        let shares = threads.min(units.div_ceil(each)).max(1);
        let mut division = Self {
            tile,
            channels,
            outputs,
            together: 1,
            nr: isa.panel(),
            mr: isa.rows(),
            output: extent,
            tiles: across.saturating_mul(down).max(1),
            block: 1,
            ahead: 1,
            panels: if divide == Divide::Panels { each } else { panels }.min(outputs.panels),
            each,
            divide,
            shares,
        };
        // So many whatever the threads: with more of them a part then takes no more memory.
        division.block = block_tiles(tile, channels, isa).min(division.tiles);
        division.together =
            ((L2_BYTES / division.frequency_bytes()) as usize).clamp(1, groups.max(1));
        if divide == Divide::Lines {
            // Tiles of the largest part.
            division.tiles = division.tiles.min(across.saturating_mul(each)).max(1);
        }
        division.in_blocks_of(division.block.min(division.tiles))
    }

    /// The division in blocks of `tiles` tiles.
    fn in_blocks_of(mut self, tiles: usize) -> Self {
        self.block = tiles;
        self.ahead = match self.frequency_bytes() > L2_BYTES {
            true => GROUP.min(self.panels).max(1),
            false => 1,
        };
        self
    }

    /// The division in the smallest blocks.
    pub(super) fn least(self) -> Self {
        self.in_blocks_of(self.block.min(FEW_TILES))
    }

    /// The division in the largest blocks that `scratch` bytes of scratch suffice for, or in the
    /// smallest ones.
    pub(super) fn within(self, scratch: usize) -> Self {
        let fits = |division: &Self| division.bytes() <= scratch as u64;
        if fits(&self) {
            return self;
        }
        let smaller = (FEW_TILES..self.block).rev().map(|tiles| self.in_blocks_of(tiles));
        smaller.into_iter().find(fits).unwrap_or(self.least())
    }

    pub(super) fn points(&self) -> usize {
        (self.tile + 2) * (self.tile + 2)
    }

    /// Input channels that are transformed together.
    pub(super) fn width(&self) -> usize {
        self.channels.saturating_mul(self.together)
    }

    /// Floats of zeros, for pixels outside the image.
    pub(super) fn zeros(&self) -> usize {
        self.width().next_multiple_of(16)
    }

    /// Floats from one frequency to the next, where each has `floats` floats a tile.
    pub(super) fn stride(&self, floats: usize) -> usize {
        (self.block.saturating_mul(floats)).next_multiple_of(16) + GAP
    }

    /// Floats of a block's transformed inputs.
    pub(super) fn frequencies(&self) -> usize {
        self.points().saturating_mul(self.stride(self.width()))
    }

    /// Bytes of zeros and of a block's transformed inputs.
    pub(super) fn frequency_bytes(&self) -> u64 {
        4 * (self.zeros() as u64 + self.frequencies() as u64)
    }

    /// Floats of a block's products with one panel.
    pub(super) fn product_floats(&self) -> usize {
        self.points().saturating_mul(self.stride(self.nr))
    }

    /// Bytes of a block's products with a group of panels, and of the kernel's pointers.
    pub(super) fn product_bytes(&self) -> u64 {
        4 * self.ahead as u64 * self.product_floats() as u64 + Indirection::rows_bytes(self.block)
    }

    /// Bytes of a thread's own scratch.
    pub(super) fn each(&self) -> u64 {
        match self.divide {
            Divide::Panels => self.product_bytes(),
            _ => self.product_bytes() + self.frequency_bytes(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        let shared = if self.divide == Divide::Panels { self.frequency_bytes() } else { 0 };
        shared.saturating_add(self.each().saturating_mul(self.shares as u64))
    }
}
