//! Which loads stay in the arena when storage is the bottleneck.
//!
//! FlexNN pins weights first come, from the head of the network on ([`first`]). Better is a leaky bucket
//! ([`choose`]): going once around the inference, every load adds its time to a backlog and every step
//! drains its own. Where the backlog passes a threshold θ, storage has fallen behind, and the load
//! that pushed it there is pinned instead. θ is bisected until the pinned bytes fit the memory set
//! aside. So residents lie in the storage-bound stretch and not at the head of the network, where
//! loads hide behind computing anyway.

/// Marks the reads to pin: `bytes[i]` and `load_ns[i]` per read, `compute_ns[i]` the computing between
/// the use of read `i` and that of the next. At most `capacity` bytes are pinned.
pub fn choose(bytes: &[u64], load_ns: &[u64], compute_ns: &[u64], capacity: u64) -> Vec<bool> {
    let total: u64 = bytes.iter().sum();
    if total <= capacity {
        return vec![true; bytes.len()];
    }
    let pin = |threshold: f64| -> (Vec<bool>, u64) {
        let mut pinned = vec![false; bytes.len()];
        let mut backlog = 0.0f64;
        // Twice around: the second turn starts with the backlog of the first.
        for _ in 0..2 {
            for i in 0..bytes.len() {
                if !pinned[i] {
                    let load = load_ns[i] as f64;
                    if backlog + load > threshold {
                        pinned[i] = true;
                    } else {
                        backlog += load;
                    }
                }
                backlog = (backlog - compute_ns[i] as f64).max(0.0);
            }
        }
        let held = bytes.iter().zip(&pinned).filter(|(_, pin)| **pin).map(|(b, _)| b).sum();
        (pinned, held)
    };
    let (mut low, mut high) = (0.0f64, load_ns.iter().sum::<u64>() as f64 * 2.0 + 1.0);
    let mut best = vec![false; bytes.len()];
    let mut most = 0;
    for _ in 0..48 {
        // A backlog is a whole number: between two of them all thresholds pin the same.
        let known = low.floor() == high.floor();
        let middle = (low + high) / 2.0;
        let (pinned, held) = pin(middle);
        if held <= capacity {
            if held >= most {
                (best, most) = (pinned, held);
            }
            high = middle;
        } else {
            low = middle;
        }
        if known {
            break;
        }
    }
    // What room is left takes the largest reads that fit: each saves its own bytes every time.
    let mut order: Vec<usize> = (0..bytes.len()).filter(|&i| !best[i]).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(bytes[i]));
    for i in order {
        if most + bytes[i] <= capacity && load_ns[i] > 0 {
            best[i] = true;
            most += bytes[i];
        }
    }
    best
}

/// Marks the reads that fit `capacity` together, from the first one on.
pub fn first(bytes: &[u64], capacity: u64) -> Vec<bool> {
    let mut end = 0u64;
    let within = |bytes: &u64| {
        end += bytes;
        end <= capacity
    };
    bytes.iter().map(within).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pins_the_storage_bound_stretch() {
        // Loads hide behind computing in the first half, not in the second.
        let bytes = [10; 8];
        let load = [100; 8];
        let compute = [300, 300, 300, 300, 10, 10, 10, 10];
        let pinned = choose(&bytes, &load, &compute, 20);
        assert_eq!(pinned.iter().filter(|pin| **pin).count(), 2);
        assert!(pinned[..4].iter().all(|pin| !pin), "{pinned:?}");
    }

    proptest! {
        #[test]
        fn never_pins_more_than_fits(
            reads in prop::collection::vec((1u64..1000, 1u64..1000, 0u64..1000), 0..40),
            capacity in 0u64..20_000,
        ) {
            let bytes: Vec<u64> = reads.iter().map(|r| r.0).collect();
            let load: Vec<u64> = reads.iter().map(|r| r.1).collect();
            let compute: Vec<u64> = reads.iter().map(|r| r.2).collect();
            let pinned = choose(&bytes, &load, &compute, capacity);
            let held: u64 = bytes.iter().zip(&pinned).filter(|(_, p)| **p).map(|(b, _)| b).sum();
            prop_assert!(held <= capacity);
        }
    }
}
