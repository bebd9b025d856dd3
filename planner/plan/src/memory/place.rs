//! Offsets of activations, in the order of their sizes.

use super::many::place_in_time;
use super::{Lifetime, Lines};
use std::cmp::Reverse;

/// Addresses of buffers are multiples of this.
const ALIGN: i64 = 64;

/// With more buffers than this, not every pair is compared.
const MANY: usize = 2048;

/// Offsets (from 0) for buffers of these sizes: the largest first, each at the lowest place where
/// it meets no other that lives at the same time. This reaches the peak of live bytes on the
/// networks studied. Buffers of which `lines` are known may share bytes, as long as their lines do
/// not: then the one goes below the other, if all together take less so. Very many go where there
/// is room when they begin.
pub fn place_buffers(
    sizes: &[u64],
    lives: &[Lifetime],
    lines: &[Option<Lines>],
    period: usize,
) -> Vec<u64> {
    if sizes.len() > MANY {
        return place_in_time(sizes, lives, period, ALIGN as u64);
    }
    let buffers = Buffers { sizes, lives, lines, period };
    let used = |buffer: &usize| lives[*buffer].start != usize::MAX;
    let mut order: Vec<usize> = (0..lives.len()).filter(used).collect();
    order.sort_by_key(|&buffer| (Reverse(sizes[buffer]), buffer));
    let (placed, low) = buffers.place(&order);
    let mut offsets = vec![0; lives.len()];
    for buffer in order {
        offsets[buffer] = (placed[buffer] - low) as u64;
    }
    offsets
}

/// The buffers to place.
struct Buffers<'a> {
    sizes: &'a [u64],
    lives: &'a [Lifetime],
    lines: &'a [Option<Lines>],
    period: usize,
}

impl Buffers<'_> {
    /// Where each lies, and the lowest address of all: one after the other, at the lowest place
    /// from 0 on, or below another.
    fn place(&self, order: &[usize]) -> (Vec<i64>, i64) {
        let size = |buffer: usize| self.sizes[buffer] as i64;
        let mut offsets = vec![0i64; self.lives.len()];
        // The extent of the buffers that are placed so far.
        let (mut low, mut high) = (0, 0);
        for (at, &buffer) in order.iter().enumerate() {
            let mut below = Vec::new();
            let mut taken: Vec<(i64, i64)> = Vec::new();
            for &other in &order[..at] {
                if let Some(((least, most), by_lines)) = self.apart(other, buffer) {
                    let [start, end] = [least, most].map(|distance| offsets[other] + distance);
                    taken.push((start, end));
                    if by_lines {
                        below.push(start.div_euclid(ALIGN) * ALIGN);
                    }
                }
            }
            taken.sort_unstable();
            let fits = |at: i64| taken.iter().all(|&(start, end)| at <= start || end <= at);
            let mut at = low;
            for &(start, end) in &taken {
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
            (low, high) = (low.min(at), high.max(at + size(buffer)));
            offsets[buffer] = at;
        }
        (offsets, low)
    }

    /// The distances from one buffer to another that are too small either way; and whether lines
    /// were looked at.
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
