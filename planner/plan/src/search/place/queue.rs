//! A circular queue of memory: where each of many loads lies, and what must have left it before.

/// Places in a circular queue, each contiguous: from the start where what is left to the end is too
/// small. And for each the number of those before it that must be gone when it comes.
pub fn queue(bytes: &[u64], capacity: u64) -> (Vec<u64>, Vec<usize>) {
    let mut next = 0;
    let mut places: Vec<u64> = Vec::with_capacity(bytes.len());
    let mut frees = Vec::with_capacity(bytes.len());
    for (index, &size) in bytes.iter().enumerate() {
        if next + size > capacity {
            next = 0;
        }
        let meets =
            |other: &usize| places[*other] < next + size && next < places[*other] + bytes[*other];
        frees.push((0..index).rev().find(meets).map_or(0, |last| last + 1));
        places.push(next);
        next += size;
    }
    (places, frees)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// A queue is first in, first out: what a place waits for has left it.
        #[test]
        fn queues_hold_no_two_in_one_place(
            bytes in prop::collection::vec(1u64..9, 1..40), more in 0u64..20,
        ) {
            let capacity = bytes.iter().max().unwrap() + more;
            let (places, frees) = queue(&bytes, capacity);
            for load in 0..bytes.len() {
                prop_assert!(places[load] + bytes[load] <= capacity);
                prop_assert!(frees[load] <= load);
                let here = places[load]..places[load] + bytes[load];
                for other in frees[load]..load {
                    let there = places[other]..places[other] + bytes[other];
                    prop_assert!(here.end <= there.start || there.end <= here.start);
                }
            }
        }
    }
}
