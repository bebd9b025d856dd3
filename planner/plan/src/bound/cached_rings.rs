//! The activations of a layer that a step can find in a thread's cache, or leave there: those in
//! rings, if these fit it together.
//!
//! A ring has at least the lines that a step touches ([`Touched`]). So with many
//! lines in a step, fewer buffers can be rings that stay in the cache.

use crate::profile::Outside;
use crate::slide::Touched;
use eyelet_model::network::Network;

/// No image has more lines.
const MOST_LINES: u32 = 1 << 24;

/// The shares of a layer's activations that are in no ring that a cache holds, each with the most
/// lines of a step for which that can be.
#[derive(Clone, Debug)]
pub(super) struct CachedRings {
    /// From all rings on down to none of them, which can be whatever the lines.
    choices: Vec<(u32, Outside)>,
}

impl CachedRings {
    /// A layer that touches no ring.
    pub(super) fn none() -> Self {
        Self { choices: vec![(u32::MAX, Outside::ALL)] }
    }

    /// A layer that touches these lines of buffers. Some of the buffers can be rings.
    pub(super) fn new(
        network: &Network,
        layer: usize,
        cache_bytes: u64,
        touched: &[Touched],
        is_ring: &impl Fn(usize) -> bool,
    ) -> Self {
        let mut rings: Vec<usize> = touched.iter().map(|one| one.buffer).collect();
        rings.retain(|buffer| is_ring(*buffer));
        rings.sort_unstable();
        rings.dedup();
        // If two operands touch a buffer, the larger part of both is there.
        let bytes = |buffer: usize, lines: u32| {
            let of = touched.iter().filter(|one| one.buffer == buffer);
            of.map(|one| one.bytes(lines)).max().unwrap_or(0)
        };
        let outside = |chosen: &[usize]| {
            let ring = |buffer: usize| chosen.contains(&buffer).then_some(0);
            Outside::of(network, layer, cache_bytes, ring)
        };
        Self::of_rings(&rings, cache_bytes, bytes, outside)
    }

    /// Finds which of `rings` stay in cache together. `bytes` is the size that a step touches of
    /// each, and `outside` the shares that some of them leave to memory.
    fn of_rings(
        rings: &[usize],
        cache_bytes: u64,
        bytes: impl Fn(usize, u32) -> u64,
        outside: impl Fn(&[usize]) -> Outside,
    ) -> Self {
        let mut choices: Vec<(u32, Outside)> = Vec::new();
        let none = outside(&[]);
        for bits in (0..1u32 << rings.len()).rev() {
            let has = |at: &usize| bits >> at & 1 == 1;
            let chosen: Vec<usize> = (0..rings.len()).filter(has).map(|at| rings[at]).collect();
            let of_chosen = |lines: u32| chosen.iter().map(|ring| bytes(*ring, lines)).sum();
            let this = outside(&chosen);
            // If no ring changes anything, it holds for all numbers of lines.
            let most = match this == none {
                true => u32::MAX,
                false => most_lines(cache_bytes, of_chosen),
            };
            let better = |held: &(u32, Outside)| held.0 >= most && held.1.is_within(this);
            if most > 0 && !choices.iter().any(better) {
                choices.push((most, this));
            }
        }
        Self { choices }
    }

    /// No more is outside with any choice, whatever the lines.
    pub(super) fn best(&self) -> Outside {
        self.choices.iter().fold(Outside::ALL, |least, (_, outside)| least.least(*outside))
    }

    /// The smallest shares outside for steps that make `lines` lines. None of them is within
    /// another.
    pub(super) fn of(&self, lines: u32) -> impl Iterator<Item = Outside> + '_ {
        let there = move |at: &usize| self.choices[*at].0 >= lines;
        let is_best = move |at: &usize| {
            let within = |other: usize| self.choices[other].1.is_within(self.choices[*at].1);
            !(0..*at).filter(there).any(within)
        };
        (0..self.choices.len()).filter(there).filter(is_best).map(|at| self.choices[at].1)
    }
}

/// The most lines of a step that touches no more than a cache has: more touch no less.
fn most_lines(cache_bytes: u64, bytes: impl Fn(u32) -> u64) -> u32 {
    let (mut least, mut beyond) = (0, MOST_LINES);
    while beyond - least > 1 {
        let lines = least + (beyond - least) / 2;
        match bytes(lines) <= cache_bytes {
            true => least = lines,
            false => beyond = lines,
        }
    }
    if beyond == MOST_LINES { u32::MAX } else { least }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_lines_leave_fewer_rings_in_the_cache() {
        // An input, of which two more lines are seen than are made, and an output.
        let bytes = |ring: usize, lines: u32| match ring {
            0 => 10 * u64::from(lines + 2),
            _ => 20 * u64::from(lines),
        };
        let outside = |chosen: &[usize]| {
            let share = |ring| if chosen.contains(&ring) { 0.0 } else { 1.0 };
            Outside::new(share(0), share(1))
        };
        let cached_rings = CachedRings::of_rings(&[0, 1], 110, bytes, outside);
        let of = |lines: u32| cached_rings.of(lines).collect::<Vec<_>>();
        let [input, output] = [Outside::new(0.0, 1.0), Outside::new(1.0, 0.0)];
        assert_eq!(cached_rings.best(), Outside::NONE);
        assert_eq!(of(1), [Outside::NONE]);
        assert_eq!(of(3), [Outside::NONE]);
        assert_eq!(of(4), [output, input]);
        assert_eq!(of(5), [output, input]);
        assert_eq!(of(6), [input]);
        assert_eq!(of(9), [input]);
        assert_eq!(of(10), [Outside::ALL]);
        // No cache holds both, however few lines there are.
        let large = CachedRings::of_rings(&[0, 1], 45, bytes, outside);
        assert_eq!((large.best(), large.of(1).count()), (Outside::NONE, 2));
        // Everything stays in the cache without a ring, or there is no ring.
        let small = CachedRings::of_rings(&[0, 1], 110, bytes, |_| Outside::NONE);
        assert_eq!(small.of(1000).collect::<Vec<_>>(), [Outside::NONE]);
        assert_eq!(CachedRings::none().of(1).collect::<Vec<_>>(), [Outside::ALL]);
    }
}
