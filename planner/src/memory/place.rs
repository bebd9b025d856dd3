//! Offsets of activations, in the order of their sizes.

use super::Lifetime;
use super::many::place_in_time;
use crate::slide::Lines;
use std::cmp::Reverse;

/// Addresses of buffers are multiples of this.
const ALIGN: i64 = 64;

/// Of more buffers than these not every pair is looked at.
const MANY: usize = 2048;

/// Offsets (from 0) for buffers of these sizes: those of the highest rank first, of these the largest, each at the lowest
/// place where it meets no other that lives at the same time. With one rank for all this reaches the peak of live bytes
/// on the networks studied. Buffers of which `lines` are known may share bytes, as long as their lines do not: then the
/// one goes below the other, if all together take less so. Very many go where there is [room](super::many) when they begin.
pub fn place_buffers(
    sizes: &[u64],
    lives: &[Lifetime],
    lines: &[Option<Lines>],
    period: usize,
    rank: impl Fn(usize) -> u64,
) -> Vec<u64> {
    if sizes.len() > MANY {
        return place_in_time(sizes, lives, period, ALIGN as u64);
    }
    let buffers = Buffers { sizes, lives, lines, period };
    let largest = |rank: &dyn Fn(usize) -> u64| {
        let used = |buffer: &usize| lives[*buffer].start != usize::MAX;
        let mut order: Vec<usize> = (0..lives.len()).filter(used).collect();
        order.sort_by_key(|&b| (Reverse(rank(b)), Reverse(sizes[b]), b));
        order
    };
    let order = largest(&rank);
    let mut placed = buffers.place(&order, 0, |_| None);
    if placed.low < 0 && order.iter().any(|&buffer| rank(buffer) != rank(order[0])) {
        // What went below the first ones took the lowest addresses from them. Where it goes is known, without any rank.
        let known = buffers.place(&largest(&|_| 0), 0, |_| None);
        let rest = |buffer: usize| (rank(buffer) == 0).then(|| known.offsets[buffer]);
        placed = buffers.place(&order, known.low, rest);
    }
    let mut offsets = vec![0; lives.len()];
    for buffer in order {
        offsets[buffer] = (placed.offsets[buffer] - placed.low) as u64;
    }
    offsets
}

/// What is placed.
struct Buffers<'a> {
    sizes: &'a [u64],
    lives: &'a [Lifetime],
    lines: &'a [Option<Lines>],
    period: usize,
}

/// Where it was placed, and the lowest address of all.
struct Places {
    offsets: Vec<i64>,
    low: i64,
}

impl Buffers<'_> {
    /// One after the other: where they are `known` to lie, if they fit there, or else at the lowest place from `low` on, or below
    /// another.
    fn place(&self, order: &[usize], low: i64, known: impl Fn(usize) -> Option<i64>) -> Places {
        let size = |buffer: usize| self.sizes[buffer] as i64;
        let mut offsets = vec![0i64; self.lives.len()];
        // What is placed so far reaches from here to there.
        let (mut low, mut high) = (low, low);
        for (at, &buffer) in order.iter().enumerate() {
            let mut below = Vec::new();
            let mut rivals: Vec<(i64, i64)> = Vec::new();
            for &other in &order[..at] {
                if let Some(((least, most), by_lines)) = self.apart(other, buffer) {
                    let [start, end] = [least, most].map(|distance| offsets[other] + distance);
                    rivals.push((start, end));
                    if by_lines {
                        below.push(start.div_euclid(ALIGN) * ALIGN);
                    }
                }
            }
            rivals.sort_unstable();
            let fits = |at: i64| rivals.iter().all(|&(start, end)| at <= start || end <= at);
            let lowest = || {
                let mut at = low;
                for &(start, end) in &rivals {
                    if at <= start {
                        break;
                    }
                    at = at.max(end + (-end).rem_euclid(ALIGN));
                }
                let extent = |at: i64| high.max(at + size(buffer)) - low.min(at);
                for other in below {
                    if extent(other) < extent(at) && fits(other) {
                        at = other;
                    }
                }
                at
            };
            let at = known(buffer).filter(|at| fits(*at)).unwrap_or_else(lowest);
            (low, high) = (low.min(at), high.max(at + size(buffer)));
            offsets[buffer] = at;
        }
        Places { offsets, low }
    }

    /// The distances from one buffer to another that are too small either way; and whether lines were looked at.
    fn apart(&self, one: usize, other: usize) -> Option<((i64, i64), bool)> {
        if !self.lives[one].meets(self.lives[other], self.period) {
            return None;
        }
        match self.lines[one].as_ref().zip(self.lines[other].as_ref()) {
            Some((of_one, of_other)) => of_one.forbidden(of_other).map(|apart| (apart, true)),
            None => Some(((-(self.sizes[other] as i64), self.sizes[one] as i64), false)),
        }
    }
}
