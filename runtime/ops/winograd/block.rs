//! A block of tiles: a run of them, line of tiles by line, in slots.
//!
//! Tiles of the last column or line may have fewer outputs than the others, and fewer frequencies
//! ([`kept`]). Those with fewer columns come first, then whole ones, then those with fewer lines,
//! last the one with both, so that the tiles that have a frequency are adjacent, whichever it is:
//! their products are one matrix, without gaps.

use crate::kernels::table::{MAX_POINTS, kept};
use core::ops::Range;

/// The products of a frequency.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frequency {
    /// Its place among those of a whole tile.
    pub point: usize,
    /// The first slot of the tiles that have it, at least one.
    pub first: usize,
    /// Their number.
    pub tiles: usize,
}

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
    /// The slot of the tile with fewer lines and columns, or the end.
    corner: usize,
    count: usize,
    frequencies: [Frequency; MAX_POINTS],
    used: usize,
}

impl Block {
    /// The tiles `tiles` of a part of a map with the given lines and columns.
    pub(super) fn new(tile: usize, extent: [usize; 2], tiles: Range<usize>) -> Self {
        let across = extent[1].div_ceil(tile);
        let [down, whole] = extent.map(|extent| extent / tile);
        // Tiles of the first `tiles` that have all columns.
        let wide = |tiles: usize| tiles / across * whole + (tiles % across).min(whole);
        let [before, after] = [tiles.start, tiles.end].map(wide);
        // The first tile that has fewer lines.
        let low = (down * across).clamp(tiles.start, tiles.end);
        let narrow = (low - tiles.start) - (wide(low) - before);
        let mut block = Self {
            tile,
            extent,
            whole,
            before,
            line: tiles.start / across,
            narrow,
            corner: narrow + (after - before),
            count: tiles.len(),
            frequencies: [Frequency::default(); MAX_POINTS],
            used: 0,
        };
        block.list(low - tiles.start);
        block
    }

    /// Lists the frequencies that tiles have, in the order in which their weights are stored: what
    /// the kernels fetch ahead lies there. Tiles with fewer lines begin at slot `low`.
    fn list(&mut self, low: usize) {
        let n = self.tile + 2;
        // Those that tiles with fewer outputs have, down and across.
        let [down, across] = self.extent.map(|extent| match extent % self.tile {
            0 => u32::MAX,
            outputs => kept(self.tile, outputs),
        });
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let (lines, columns) = (down >> i & 1 == 1, across >> j & 1 == 1);
            let first = if columns { 0 } else { self.narrow };
            let end = match (lines, columns) {
                (true, true) => self.count,
                (true, false) => self.corner,
                (false, _) => low,
            };
            if first < end {
                let of = Frequency { point: i * n + j, first, tiles: end - first };
                self.frequencies[self.used] = of;
                self.used += 1;
            }
        }
    }

    /// Tiles of the block.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The frequencies that tiles of the block have.
    pub(super) fn frequencies(&self) -> &[Frequency] {
        &self.frequencies[..self.used]
    }

    /// Line and column of a tile's first output.
    pub(super) fn place(&self, slot: usize) -> [usize; 2] {
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

    /// Outputs, down and across, of the tile with this place.
    pub(super) fn outputs(&self, [line, col]: [usize; 2]) -> [usize; 2] {
        [self.extent[0] - line, self.extent[1] - col].map(|left| left.min(self.tile))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    /// Every run of tiles of maps with every edge: each tile has one slot, and those that have a
    /// frequency, by their own outputs, are the slots of the frequency.
    #[test]
    fn slots_of_a_frequency_are_the_tiles_that_have_it() {
        for tile in [2usize, 4] {
            let extents =
                (1..3 * tile).flat_map(|height| (1..3 * tile).map(move |width| [height, width]));
            for extent in extents {
                let across = extent[1].div_ceil(tile);
                let tiles = extent[0].div_ceil(tile) * across;
                let runs =
                    (0..tiles).flat_map(|start| (start + 1..=tiles).map(move |end| start..end));
                for run in runs {
                    let block = Block::new(tile, extent, run.clone());
                    let places: Vec<_> = (0..block.count()).map(|slot| block.place(slot)).collect();
                    let expected = run.clone().map(|index| [index / across, index % across]);
                    let expected: BTreeSet<_> = expected.map(|at| at.map(|at| at * tile)).collect();
                    assert_eq!(places.len(), run.len());
                    assert_eq!(
                        BTreeSet::from_iter(places.clone()),
                        expected,
                        "{extent:?}, {run:?}"
                    );
                    let n = tile + 2;
                    let mut listed = 0;
                    for point in 0..n * n {
                        let has = |slot: &usize| {
                            let [lines, cols] = block.outputs(places[*slot]);
                            kept(tile, lines) >> (point / n) & kept(tile, cols) >> (point % n) & 1
                                == 1
                        };
                        let with: Vec<_> = (0..block.count()).filter(has).collect();
                        let of = block.frequencies().iter().filter(|of| of.point == point);
                        let slots: Vec<_> =
                            of.flat_map(|of| of.first..of.first + of.tiles).collect();
                        assert_eq!(slots, with, "{extent:?}, {run:?}, {point}");
                        listed += usize::from(!with.is_empty());
                    }
                    assert_eq!(block.frequencies().len(), listed);
                }
            }
        }
    }
}
