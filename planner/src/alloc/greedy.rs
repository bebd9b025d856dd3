//! Greedy placements: buffers one after the other, each where it fits. Microseconds, and on the lifetimes
//! that networks have usually as low as anything can be.

use super::{Buffer, Placement};
use std::cmp::Reverse;

/// Which of the gaps that are high enough a buffer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Lowest,
    /// The one that leaves the least, as `malloc` does it.
    Best,
}

/// The lowest of several greedy placements; stops at the first that is no higher than `enough`.
pub fn place(buffers: &[Buffer], enough: u64) -> Placement {
    let life = |b: &Buffer| b.upper.abs_diff(b.lower);
    let area = |b: &Buffer| u128::from(b.size) * u128::from(life(b));
    type Key<'a> = &'a dyn Fn(&Buffer) -> (u128, u128);
    let orders: [Key; 5] = [
        &|b| (u128::MAX - u128::from(b.size), u128::MAX - u128::from(life(b))),
        &|b| (u128::MAX - area(b), 0),
        &|b| (u128::MAX - u128::from(life(b)), u128::MAX - u128::from(b.size)),
        &|b| (u128::from(b.lower.abs_diff(i64::MIN)), u128::MAX - u128::from(b.size)),
        &|b| (u128::MAX - u128::from(b.upper.abs_diff(i64::MIN)), u128::MAX - u128::from(b.size)),
    ];
    let mut best: Option<Placement> = None;
    for key in orders {
        let mut order: Vec<usize> = (0..buffers.len()).collect();
        order.sort_by_cached_key(|&b| (key(&buffers[b]), b));
        for fit in [Fit::Lowest, Fit::Best] {
            let placement = Placement::new(buffers, in_order(buffers, &order, fit));
            if best.as_ref().is_none_or(|best| placement.height < best.height) {
                best = Some(placement);
            }
            if best.as_ref().is_some_and(|best| best.height <= enough) {
                break;
            }
        }
        if best.as_ref().is_some_and(|best| best.height <= enough) {
            break;
        }
    }
    best.unwrap_or(Placement { offsets: Vec::new(), height: 0 })
}

fn in_order(buffers: &[Buffer], order: &[usize], fit: Fit) -> Vec<u64> {
    let mut offsets = vec![0; buffers.len()];
    // By offset.
    let mut placed: Vec<usize> = Vec::with_capacity(order.len());
    for &b in order {
        let buffer = &buffers[b];
        if buffer.size == 0 {
            continue;
        }
        let mut end = 0u64;
        // What a gap leaves, and where it begins.
        let mut gap: Option<(Reverse<u64>, u64)> = None;
        for &other in placed.iter().filter(|&&other| buffers[other].meets(buffer)) {
            let from = end.next_multiple_of(buffer.align);
            if from + buffer.size <= offsets[other] {
                let left = Reverse(offsets[other] - from - buffer.size);
                if gap.is_none_or(|(least, _)| left > least) {
                    gap = Some((left, from));
                }
                if fit == Fit::Lowest {
                    break;
                }
            }
            end = end.max(offsets[other] + buffers[other].size);
        }
        offsets[b] = gap.map_or(end.next_multiple_of(buffer.align), |(_, from)| from);
        let at = placed.partition_point(|&other| offsets[other] <= offsets[b]);
        placed.insert(at, b);
    }
    offsets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits_differ() {
        // Gaps of 3 and 1 below the last: lowest takes the first, best the second.
        let buffers = [
            Buffer::new(0, 9, 2),
            Buffer::new(0, 1, 3),
            Buffer::new(0, 9, 2),
            Buffer::new(0, 1, 1),
            Buffer::new(0, 9, 2),
            Buffer::new(5, 6, 1),
        ];
        let order = [0, 1, 2, 3, 4, 5];
        assert_eq!(in_order(&buffers, &order, Fit::Lowest), [0, 2, 5, 7, 8, 2]);
        assert_eq!(in_order(&buffers, &order, Fit::Best), [0, 2, 5, 7, 8, 7]);
    }

    #[test]
    fn offsets_are_aligned() {
        let aligned = |size| Buffer { align: 64, ..Buffer::new(0, 1, size) };
        let buffers = [aligned(65), Buffer::new(0, 1, 10), aligned(1)];
        let placement = place(&buffers, 0);
        super::super::validate(&buffers, &placement.offsets, placement.height).unwrap();
        assert_eq!(placement.height, 129);
    }

    #[test]
    fn nothing_needs_nothing() {
        assert_eq!(place(&[], 0).height, 0);
        assert_eq!(place(&[Buffer::new(0, 1, 0)], 0).offsets, [0]);
    }
}
