//! Greedy placements: buffers one after the other, each where it fits. Microseconds, and on the lifetimes
//! that networks have usually as low as anything can be.

use super::{Buffer, Placement};
use std::cmp::Reverse;
use std::time::Instant;

/// Which of the gaps that are high enough a buffer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Lowest,
    /// The one that leaves the least, as `malloc` does it.
    Best,
}

/// The lowest of several greedy placements; stops at the first that is no higher than `enough`, and at the deadline.
pub fn place(buffers: &[Buffer], enough: u64, deadline: Option<Instant>) -> Placement {
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
    'orders: for key in orders {
        let mut order: Vec<usize> = (0..buffers.len()).collect();
        order.sort_by_cached_key(|&b| (key(&buffers[b]), b));
        for fit in [Fit::Lowest, Fit::Best] {
            let Some(offsets) = in_order(buffers, &order, fit, deadline) else { break 'orders };
            let placement = Placement::new(buffers, offsets);
            if best.as_ref().is_none_or(|best| placement.height < best.height) {
                best = Some(placement);
            }
            if best.as_ref().is_some_and(|best| best.height <= enough) {
                break 'orders;
            }
        }
    }
    best.unwrap_or_else(|| Placement::new(buffers, stacked(buffers)))
}

/// One on top of the other: a placement that takes no time to find.
fn stacked(buffers: &[Buffer]) -> Vec<u64> {
    let mut end = 0u64;
    let place = |buffer: &Buffer| {
        let offset = end.next_multiple_of(buffer.align);
        end = offset + buffer.size;
        offset
    };
    buffers.iter().map(place).collect()
}

/// Buffers placed between two looks at the clock.
const BETWEEN_LOOKS: usize = 64;

/// A greedy placement; `None` if it takes longer than until the deadline.
fn in_order(
    buffers: &[Buffer],
    order: &[usize],
    fit: Fit,
    deadline: Option<Instant>,
) -> Option<Vec<u64>> {
    let mut offsets = vec![0; buffers.len()];
    // By offset.
    let mut placed: Vec<usize> = Vec::with_capacity(order.len());
    for (count, &b) in order.iter().enumerate() {
        let late = || deadline.is_some_and(|deadline| deadline <= Instant::now());
        if count.is_multiple_of(BETWEEN_LOOKS) && late() {
            return None;
        }
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
    Some(offsets)
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
        let placed = |fit| in_order(&buffers, &order, fit, None).unwrap();
        assert_eq!(placed(Fit::Lowest), [0, 2, 5, 7, 8, 2]);
        assert_eq!(placed(Fit::Best), [0, 2, 5, 7, 8, 7]);
    }

    #[test]
    fn offsets_are_aligned() {
        let aligned = |size| Buffer { align: 64, ..Buffer::new(0, 1, size) };
        let buffers = [aligned(65), Buffer::new(0, 1, 10), aligned(1)];
        let placement = place(&buffers, 0, None);
        super::super::validate(&buffers, &placement.offsets, placement.height).unwrap();
        assert_eq!(placement.height, 129);
    }

    #[test]
    fn nothing_needs_nothing() {
        assert_eq!(place(&[], 0, None).height, 0);
        assert_eq!(place(&[Buffer::new(0, 1, 0)], 0, None).offsets, [0]);
    }

    #[test]
    fn a_deadline_that_has_passed_leaves_a_placement() {
        let aligned = |size| Buffer { align: 64, ..Buffer::new(0, 1, size) };
        let buffers = [aligned(65), Buffer::new(0, 1, 10), aligned(1), Buffer::new(7, 9, 3)];
        let placement = place(&buffers, 0, Some(Instant::now()));
        super::super::validate(&buffers, &placement.offsets, placement.height).unwrap();
        assert_eq!(placement.offsets, [0, 65, 128, 129]);
    }
}
