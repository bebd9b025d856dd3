//! How reductions are cut into chains of fused multiply-adds.
//!
//! The rounding error of a chain grows with its length, so long reductions are several: each output
//! is the sum of chains of up to [`CHAIN`] terms, added in order. The first one begins with the
//! bias and is followed by the residual; the others begin with zero:
//!
//! `clamp((((bias ⊕ chain 0) + residual) + chain 1) + …)`
//!
//! There are as few as that allows, about equally long. Where chains end is a function of taps and
//! channels alone, so that every kernel, slice and thread computes the same bits. They end between
//! taps, unless the channels of one are too many; with few channels, whose rows of taps may be one
//! run of memory ([`Window::merged`](super::Window::merged)), between rows. A cut also serves the
//! caches: a tile's reads for one chain fit into the first level.

use core::ops::Range;

/// Terms of a chain, at most.
pub const CHAIN: usize = 1024;

/// Runs at least this long are not merged: the kernel's cost for changing segments has vanished.
pub(super) const LONG_RUN: usize = 32;

/// Channels that are not cut.
const UNIT: usize = 16;

/// The chains of one reduction: `count` in all, `parts` for each `whole` terms, of `step` terms but
/// for the last one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chains {
    count: usize,
    parts: usize,
    whole: usize,
    step: usize,
}

impl Chains {
    /// The chains of a convolution with `height` times `width` taps of `channels` channels, all at
    /// least one.
    pub fn new([height, width]: [usize; 2], channels: usize) -> Self {
        let (taps, row) = (height.saturating_mul(width), width.saturating_mul(channels));
        // How many times, what is cut, and what of it is not.
        let (times, whole, unit) = match () {
            _ if channels > CHAIN => (taps, channels, UNIT),
            _ if channels >= LONG_RUN => (1, taps.saturating_mul(channels), channels),
            _ if row <= CHAIN => (1, height.saturating_mul(row), row),
            _ => (height, row, channels),
        };
        let unit = unit.max(1);
        let units = whole.div_ceil(unit).max(1);
        let each = units.div_ceil(units.div_ceil(CHAIN / unit));
        let parts = units.div_ceil(each);
        Self {
            count: times.saturating_mul(parts).max(1),
            parts,
            whole,
            step: each.saturating_mul(unit),
        }
    }

    /// The chains of a product of matrices with `k` terms.
    pub fn of_run(k: usize) -> Self {
        Self::new([1; 2], k)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Terms of the longest one.
    pub fn longest(&self) -> usize {
        self.step.min(self.whole)
    }

    /// The terms of chain `index`.
    pub fn terms(&self, index: usize) -> Range<usize> {
        let start = |index: usize| {
            let whole = (index / self.parts).saturating_mul(self.whole);
            whole.saturating_add((index % self.parts).saturating_mul(self.step).min(self.whole))
        };
        start(index)..start(index + 1)
    }

    /// The runs of `seg_len` terms that chain `index` has, or the one that it has some of.
    pub(super) fn segments(&self, index: usize, seg_len: usize) -> Range<usize> {
        let terms = self.terms(index);
        let first = terms.start / seg_len;
        first..first + (terms.len() / seg_len).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn ends(kernel: [usize; 2], channels: usize) -> Vec<usize> {
        let chains = Chains::new(kernel, channels);
        (0..chains.count()).map(|index| chains.terms(index).end).collect()
    }

    #[test]
    fn borders() {
        assert_eq!(ends([1, 1], 1024), [1024]);
        assert_eq!(ends([1, 1], 1025), [528, 1025]);
        assert_eq!(ends([1, 1], 3072), [1024, 2048, 3072]);
        assert_eq!(ends([3, 3], 113), [113 * 9]);
        assert_eq!(ends([3, 3], 512), [1024, 2048, 3072, 4096, 4608]);
        assert_eq!(ends([1, 2], 1030), [528, 1030, 1030 + 528, 2060]);
        // Rows of taps, and taps of a row that is long.
        assert_eq!(ends([7, 7], 31), [4 * 217, 7 * 217]);
        assert_eq!(ends([2, 500], 3), [750, 1500, 2250, 3000]);
    }

    /// Every term is in one chain, none is longer than it may be or empty, and none ends inside a
    /// run, unless it is part of one.
    #[test]
    fn all_reductions() {
        for height in [1, 2, 3, 5, 7, 40] {
            for width in [1, 2, 3, 7, 11, 300] {
                for channels in [1, 2, 3, 4, 16, 31, 32, 33, 48, 100, 512, 1023, 1024, 1025, 5000] {
                    let chains = Chains::new([height, width], channels);
                    let row = width * channels;
                    let merged = (channels < LONG_RUN).then_some(row);
                    let mut end = 0;
                    for index in 0..chains.count() {
                        let terms = chains.terms(index);
                        assert!(terms.start == end && !terms.is_empty(), "{chains:?}");
                        assert!(terms.len() <= chains.longest() && terms.len() <= CHAIN);
                        end = terms.end;
                        for run in [channels].into_iter().chain(merged) {
                            let whole =
                                terms.start.is_multiple_of(run) && terms.end.is_multiple_of(run);
                            let inside = terms.start / run == (terms.end - 1) / run;
                            assert!(whole || inside, "{terms:?} of runs of {run}: {chains:?}");
                        }
                    }
                    assert_eq!(end, height * row, "{chains:?}");
                    assert!(chains.count() == 1 || end > CHAIN, "{chains:?}");
                }
            }
        }
    }

    #[test]
    fn absurd_reductions() {
        for n in [0, 1, u32::MAX as usize, usize::MAX] {
            for m in [0, 1, u32::MAX as usize, usize::MAX] {
                let chains = Chains::new([n, m], m);
                assert!(chains.terms(0).start == 0 && chains.longest() <= CHAIN);
            }
        }
    }
}
