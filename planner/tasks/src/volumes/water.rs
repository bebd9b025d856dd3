//! Water filling: volumes under a common ceiling.
//!
//! While one task runs, its chunks are all in memory; the others' swapped chunks are not. So Eq. 1c reads: the sum of
//! all volumes without the largest must cover the overflow. For a ceiling z on volumes, Σ min(cap, z) − z is the most
//! that can be covered, and volumes need only add up to overflow + z.

/// The lowest ceiling under which volumes can cover the overflow; 0 if nothing overflows.
pub fn lowest_ceiling(caps: &[u32], overflow: i128) -> Option<u32> {
    if overflow <= 0 {
        return Some(0);
    }
    let most = caps.iter().copied().max()?;
    // What is covered grows with the ceiling as long as two tasks reach it, and never shrinks before `most`.
    let (mut low, mut high) = (0, most);
    if covered(caps, high) < overflow {
        return None;
    }
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        match covered(caps, middle) >= overflow {
            true => high = middle,
            false => low = middle,
        }
    }
    Some(high)
}

fn covered(caps: &[u32], ceiling: u32) -> i128 {
    let sum: i128 = caps.iter().map(|&cap| i128::from(cap.min(ceiling))).sum();
    sum - i128::from(ceiling)
}

/// Fills `total` chunks into tasks in this order, each up to its cap: first all room, which costs nothing.
pub fn fill(caps: &[u32], room: &[u32], order: &[usize], total: i128) -> Option<Vec<u32>> {
    let mut left = u64::try_from(total.max(0)).ok()?;
    let mut chunks = vec![0; caps.len()];
    let rooms = order.iter().map(|&task| (task, room[task]));
    for (task, most) in rooms.chain(order.iter().map(|&task| (task, u32::MAX))) {
        let more = u64::from(most.min(caps[task]).saturating_sub(chunks[task])).min(left);
        chunks[task] += more as u32;
        left -= more;
    }
    (left == 0).then_some(chunks)
}

/// Tasks by period, the longest first: where a swapped chunk costs least time per second.
pub fn longest_period_first(periods_ns: &[u64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..periods_ns.len()).collect();
    order.sort_by_key(|&task| (std::cmp::Reverse(periods_ns[task]), task));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceiling_covers_the_overflow_while_any_task_runs() {
        assert_eq!(lowest_ceiling(&[10, 10, 10], -3), Some(0));
        assert_eq!(lowest_ceiling(&[10, 10, 10], 4), Some(2));
        assert_eq!(lowest_ceiling(&[10, 10, 10], 20), Some(10));
        assert_eq!(lowest_ceiling(&[10, 10, 10], 21), None);
        assert_eq!(lowest_ceiling(&[2, 9], 2), Some(2));
        assert_eq!(lowest_ceiling(&[9], 1), None, "a task cannot make room for itself");
    }

    #[test]
    fn filling_follows_the_order() {
        let no_room = [0, 0, 0];
        assert_eq!(fill(&[4, 3, 5], &no_room, &[2, 0, 1], 7), Some(vec![2, 0, 5]));
        assert_eq!(fill(&[4, 3], &no_room, &[0, 1], 8), None);
        assert_eq!(fill(&[4, 3], &no_room, &[0, 1], -1), Some(vec![0, 0]));
        assert_eq!(fill(&[4, 3, 5], &[2, 9, 0], &[2, 0, 1], 7), Some(vec![2, 3, 2]));
        assert_eq!(fill(&[4, 3, 5], &[2, 9, 0], &[2, 0, 1], 3), Some(vec![2, 1, 0]));
    }
}
