//! A block of tiles: a run of them, line of tiles by line, in slots.
//!
//! Tiles of the last column or line may have fewer outputs than the others, and fewer frequencies ([`kept`]). Those with
//! fewer columns come first, then whole ones, then those with fewer lines, last the one with both, so that the tiles that
//! have a frequency are adjacent, whichever it is: their products are one matrix, without gaps.

use crate::kernels::table::kept;
use core::ops::Range;

/// The tiles of a block, and the order of their slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    tile: usize,
    /// Lines and columns of outputs of the part that the tiles cover.
    extent: [usize; 2],
    /// Tiles of a line, without the last where it has fewer columns.
    whole: usize,
    /// Whole tiles, and those with fewer lines alone, before the block.
    before: usize,
    /// Lines of tiles before the first slot.
    line: usize,
    /// Slots of tiles with fewer columns but all lines: all before this one.
    narrow: usize,
    /// The first slot of tiles with fewer lines.
    low: usize,
    /// The slot of the tile with fewer lines and columns, or the end.
    corner: usize,
    count: usize,
}

impl Block {
    /// Of the tiles of a part of a map, so many lines and columns, those in `tiles`.
    pub(super) fn new(tile: usize, extent: [usize; 2], tiles: Range<usize>) -> Self {
        let across = extent[1].div_ceil(tile);
        let [down, whole] = extent.map(|extent| extent / tile);
        // Tiles of the first `tiles` that have all columns.
        let wide = |tiles: usize| tiles / across * whole + (tiles % across).min(whole);
        let [before, after] = [tiles.start, tiles.end].map(wide);
        // The first tile that has fewer lines.
        let low = (down * across).clamp(tiles.start, tiles.end);
        let narrow = (low - tiles.start) - (wide(low) - before);
        Self {
            tile,
            extent,
            whole,
            before,
            line: tiles.start / across,
            narrow,
            low: low - tiles.start,
            corner: narrow + (after - before),
            count: tiles.len(),
        }
    }

    /// Tiles of the block.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Line and column of a tile's first output.
    pub(super) fn corner(&self, slot: usize) -> [usize; 2] {
        let place = match slot {
            _ if slot < self.narrow => [self.line + slot, self.whole],
            _ if slot < self.corner => {
                let wide = self.before + slot - self.narrow;
                [wide / self.whole, wide % self.whole]
            }
            _ => self.extent.map(|extent| extent / self.tile),
        };
        place.map(|at| at * self.tile)
    }

    /// Outputs of a tile, down and across.
    pub(super) fn outputs(&self, slot: usize) -> [usize; 2] {
        let [line, col] = self.corner(slot);
        [self.extent[0] - line, self.extent[1] - col].map(|left| left.min(self.tile))
    }

    /// Slots of the tiles that have a frequency, by its place in a whole tile.
    pub(super) fn slots(&self, point: usize) -> Range<usize> {
        let n = self.tile + 2;
        let has = |extent: usize, point: usize| {
            let outputs = extent % self.tile;
            outputs == 0 || kept(self.tile, outputs) >> point & 1 == 1
        };
        let (down, across) = (has(self.extent[0], point / n), has(self.extent[1], point % n));
        let start = if across { 0 } else { self.narrow };
        let end = match (down, across) {
            (true, true) => self.count,
            (true, false) => self.corner,
            (false, _) => self.low,
        };
        start..end
    }

    /// The first frequency from `point` on that a tile has, or their number.
    pub(super) fn next(&self, point: usize) -> usize {
        let points = (self.tile + 2) * (self.tile + 2);
        (point..points).find(|point| !self.slots(*point).is_empty()).unwrap_or(points)
    }
}
