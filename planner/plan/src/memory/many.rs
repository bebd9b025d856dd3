//! Offsets of very many buffers: in the order in which they begin to live, in time that grows
//! little faster than their number.
//!
//! Where thousands live, looking at each pair takes too long. Each buffer goes to one of the first
//! gaps that can hold it, or on top of all; what ceases to live leaves a gap. Where all are of one
//! size that reaches the peak of live bytes.

use super::Lifetime;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Gaps that are looked at for a buffer.
const LOOKED_AT: usize = 64;

/// Offsets for buffers of these sizes, multiples of `align`. Those that live in the host's turn
/// live in that of the next inference, too.
pub(super) fn place_in_time(
    sizes: &[u64],
    lives: &[Lifetime],
    period: usize,
    align: u64,
) -> Vec<u64> {
    let used = |buffer: &usize| lives[*buffer].start != usize::MAX;
    let mut order: Vec<usize> = (0..lives.len()).filter(used).collect();
    order.sort_by_key(|&buffer| (lives[buffer].start, Reverse(sizes[buffer]), buffer));
    let mut gaps = Gaps { gaps: BTreeMap::new(), top: 0 };
    let mut going = BinaryHeap::new();
    let mut offsets = vec![0; lives.len()];
    for buffer in order {
        let Lifetime { start, end } = lives[buffer];
        while let Some(&Reverse((_, other))) = going.peek().filter(|Reverse((end, _))| *end < start)
        {
            going.pop();
            let size: u64 = sizes[other];
            gaps.give(offsets[other], size.next_multiple_of(align));
        }
        offsets[buffer] = gaps.take(sizes[buffer].next_multiple_of(align));
        // The host's turns are one: what it writes lives until what it reads does.
        let end = if start == 0 { end.max(period) } else { end };
        going.push(Reverse((end, buffer)));
    }
    offsets
}

/// The free places below the top.
struct Gaps {
    /// Bytes by the offset.
    gaps: BTreeMap<u64, u64>,
    top: u64,
}

impl Gaps {
    fn take(&mut self, bytes: u64) -> u64 {
        let fits = |gap: &(&u64, &u64)| *gap.1 >= bytes;
        let found = self.gaps.iter().take(LOOKED_AT).find(fits).map(|(at, size)| (*at, *size));
        match found {
            Some((at, size)) => {
                self.gaps.remove(&at);
                if size > bytes {
                    self.gaps.insert(at + bytes, size - bytes);
                }
                at
            }
            None => {
                self.top += bytes;
                self.top - bytes
            }
        }
    }

    /// Joins a gap with those that it meets.
    fn give(&mut self, mut at: u64, mut bytes: u64) {
        if let Some((&before, &size)) = self.gaps.range(..at).next_back()
            && before + size == at
        {
            self.gaps.remove(&before);
            (at, bytes) = (before, bytes + size);
        }
        if let Some(size) = self.gaps.remove(&(at + bytes)) {
            bytes += size;
        }
        match at + bytes == self.top {
            true => self.top = at,
            false => drop(self.gaps.insert(at, bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_lies_over_what_lives(
            buffers in prop::collection::vec((0usize..20, 0usize..20, 1u64..300), 1..60),
        ) {
            let period = 20;
            let life = |(one, other, _): &(usize, usize, u64)| Lifetime {
                start: *one.min(other),
                end: if one.max(other) == &19 { period } else { *one.max(other) },
            };
            let lives: Vec<Lifetime> = buffers.iter().map(life).collect();
            let sizes: Vec<u64> = buffers.iter().map(|buffer| buffer.2).collect();
            let offsets = place_in_time(&sizes, &lives, period, 64);
            for one in 0..sizes.len() {
                prop_assert_eq!(offsets[one] % 64, 0);
                for other in 0..one {
                    let apart = offsets[one] + sizes[one] <= offsets[other]
                        || offsets[other] + sizes[other] <= offsets[one];
                    prop_assert!(apart || !lives[one].meets(lives[other], period));
                }
            }
        }
    }

    #[test]
    fn buffers_of_one_size_take_no_more_than_live() {
        let lives: Vec<Lifetime> =
            (1..1000).map(|at| Lifetime { start: at, end: at + 1 + at % 7 }).collect();
        let offsets = place_in_time(&vec![64; lives.len()], &lives, 2000, 64);
        let live = |time: usize| lives.iter().filter(|l| l.start <= time && time <= l.end).count();
        let peak = (0..1010).map(live).max().unwrap() as u64;
        assert_eq!(offsets.iter().max(), Some(&((peak - 1) * 64)));
    }
}
