//! Which loads of a plan stay in the arena: where storage is the bottleneck, or where a pack is used
//! in flash that is slower than memory.
//!
//! FlexNN pins weights from the start of the network on. A leaky bucket does better ([`choose`]): going once around the inference, every load adds its time to a backlog, and every
//! step takes its own time away. If the backlog passes a threshold θ, storage has fallen behind,
//! and the load that caused it is pinned instead. θ is bisected until the pinned bytes fit. So
//! residents lie where storage is the bottleneck, and not at the start of the network, where loads
//! hide behind computing.

use crate::search::place::builder::PlanBuilder;
use crate::search::place::design::Design;
use crate::slice::Slices;
use eyelet::pack::{OpKind, PAGE, Region, Step};
use std::ops::Range;

impl PlanBuilder<'_> {
    /// Keeps the loads of a design that would come too late from storage, up to `capacity` bytes.
    pub(in crate::search) fn pin(&self, design: &mut Design, capacity: u64) {
        let network = self.request.network;
        if network.is_any_in_place() {
            return self.copy_slow(design, capacity);
        }
        let slices = design.slices(network, &self.activations);
        let reads = &slices.reads;
        let bytes: Vec<u64> = reads.iter().map(|read| read.bytes).collect();
        if bytes.iter().all(|bytes| *bytes > capacity) {
            return;
        }
        let mut compute = vec![0; reads.len()];
        let mut current = 0;
        for (step, read) in slices.steps.iter().zip(&slices.read_of) {
            current = read.unwrap_or(current);
            if let Some(sum) = compute.get_mut(current) {
                *sum += self.costs.step_ns(step);
            }
        }
        let load: Vec<u64> =
            bytes.iter().map(|bytes| self.precomputed.costs.each_load_ns(*bytes)).collect();
        self.keep(design, &slices, &choose(&bytes, &load, &compute, capacity));
    }

    /// Keeps the panels of the reads that `stays` marks.
    pub fn keep(&self, design: &mut Design, slices: &Slices, stays: &[bool]) {
        for (step, read) in slices.steps.iter().zip(&slices.read_of) {
            if read.is_some_and(|read| stays[read]) {
                // A panel stays as a whole, or not at all.
                let count = if step.chain() == 0 { step.count } else { 0 };
                let resident = &mut design.layers[step.layer as usize].resident;
                *resident = resident.saturating_add(count);
            }
        }
    }

    /// Keeps weights that are used in the pack, of up to `capacity` bytes together. In flash that is
    /// slower than memory, a step takes longer by a known time. So each layer saves a number of
    /// nanoseconds for each byte of memory that it takes. Layers that save most stay.
    fn copy_slow(&self, design: &mut Design, capacity: u64) {
        let network = self.request.network;
        let slices = design.slices(network, &self.activations);
        let mut gain_ns = vec![0u64; network.layers.len()];
        for step in slices.steps.iter().filter(|step| step.weights_in == Region::Mapped) {
            let copied = Step { weights_in: Region::Arena, ..*step };
            let gain = self.costs.step_ns(step).saturating_sub(self.costs.step_ns(&copied));
            gain_ns[step.layer as usize] += gain;
        }
        let bytes = |layer: usize| {
            let record = &network.layers[layer];
            u64::from(record.panels) * u64::from(record.panel_bytes)
        };
        let worth = |layer: &usize| gain_ns[*layer] as f64 / bytes(*layer) as f64;
        let mut layers: Vec<usize> =
            (0..network.layers.len()).filter(|layer| gain_ns[*layer] > 0).collect();
        layers.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
        let mut free = capacity;
        for layer in layers {
            let record = &network.layers[layer];
            // Both ends may lie in pages that others have, too.
            let room = free.saturating_sub(2 * PAGE);
            let fit = (room / u64::from(record.panel_bytes)).min(record.panels.into()) as u32;
            let has_panels = OpKind::from_code(record.kind).is_some_and(OpKind::has_panels);
            let may_part = has_panels && !self.slides(layer);
            let stay = if may_part || fit == record.panels { fit } else { 0 };
            if stay > 0 {
                design.layers[layer].resident = stay;
                free -= u64::from(stay) * u64::from(record.panel_bytes) + 2 * PAGE;
            }
        }
    }
}

/// Marks the reads to pin: `bytes[i]` and `load_ns[i]` per read, `compute_ns[i]` the computing
/// between the use of read `i` and that of the next. At most `capacity` bytes are pinned.
fn choose(bytes: &[u64], load_ns: &[u64], compute_ns: &[u64], capacity: u64) -> Vec<bool> {
    let total: u64 = bytes.iter().sum();
    if total <= capacity {
        return vec![true; bytes.len()];
    }
    let reads = Reads { bytes, load_ns, compute_ns, capacity };
    let (mut low, mut high) = (0.0f64, load_ns.iter().sum::<u64>() as f64 * 2.0 + 1.0);
    let (mut best, mut pinned) = (vec![false; bytes.len()], Vec::new());
    let mut most = 0;
    // Thresholds like the last one that pinned too much, and like the last one that did not.
    let (mut too_low, mut enough) = (0..0, 0..0);
    for _ in 0..48 {
        // A backlog is a whole number: between two of them all thresholds pin the same.
        let known = low.floor() == high.floor();
        let middle = (low + high) / 2.0;
        let threshold = middle as u64;
        if !too_low.contains(&threshold) && !enough.contains(&threshold) {
            let (held, like) = reads.pin(threshold, &mut pinned);
            match held {
                Some(held) => {
                    enough = like;
                    if held >= most {
                        most = held;
                        std::mem::swap(&mut best, &mut pinned);
                    }
                }
                None => too_low = like,
            }
        }
        if too_low.contains(&threshold) {
            low = middle
        } else {
            high = middle
        }
        if known {
            break;
        }
    }
    reads.fill(most, &mut best);
    best
}

/// The reads of one inference, and the bytes that may be pinned.
#[derive(Clone, Copy)]
struct Reads<'a> {
    bytes: &'a [u64],
    load_ns: &'a [u64],
    compute_ns: &'a [u64],
    capacity: u64,
}

impl Reads<'_> {
    /// Pins what passes a threshold. Says how many bytes that is, unless it is too much, and which
    /// thresholds pin the same: those between the same sums.
    fn pin(self, threshold: u64, pinned: &mut Vec<bool>) -> (Option<u64>, Range<u64>) {
        let Self { bytes, load_ns, compute_ns, capacity } = self;
        pinned.clear();
        pinned.resize(bytes.len(), false);
        let (mut backlog, mut held, mut like) = (0u64, 0u64, 0..u64::MAX);
        // Twice around: the second turn starts with the backlog of the first.
        for _ in 0..2 {
            let reads = bytes.iter().zip(load_ns).zip(compute_ns);
            for (pinned, ((bytes, load), compute)) in pinned.iter_mut().zip(reads) {
                if !*pinned {
                    let with = backlog + load;
                    if with > threshold {
                        like.end = like.end.min(with);
                        (*pinned, held) = (true, held + bytes);
                        if held > capacity {
                            return (None, like);
                        }
                    } else {
                        like.start = like.start.max(with);
                        backlog = with;
                    }
                }
                backlog = backlog.saturating_sub(*compute);
            }
        }
        (Some(held), like)
    }

    /// Pins the largest reads that fit next to `held` bytes: each saves its own bytes every time.
    fn fill(self, mut held: u64, pinned: &mut [bool]) {
        let mut order: Vec<usize> = (0..pinned.len()).filter(|&read| !pinned[read]).collect();
        order.sort_by_key(|&read| std::cmp::Reverse(self.bytes[read]));
        for read in order {
            if held + self.bytes[read] <= self.capacity && self.load_ns[read] > 0 {
                pinned[read] = true;
                held += self.bytes[read];
            }
        }
    }
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

    /// Chooses by every threshold of the bisection, one after the other.
    fn by_all(bytes: &[u64], load: &[u64], compute: &[u64], capacity: u64) -> Vec<bool> {
        let (mut low, mut high) = (0.0f64, load.iter().sum::<u64>() as f64 * 2.0 + 1.0);
        let (mut best, mut most) = (vec![false; bytes.len()], 0);
        for _ in 0..48 {
            let middle = (low + high) / 2.0;
            let (mut pinned, mut backlog) = (vec![false; bytes.len()], 0.0f64);
            for at in (0..bytes.len()).chain(0..bytes.len()) {
                let with = backlog + load[at] as f64;
                if !pinned[at] && with > middle {
                    pinned[at] = true;
                } else if !pinned[at] {
                    backlog = with;
                }
                backlog = (backlog - compute[at] as f64).max(0.0);
            }
            let held: u64 =
                bytes.iter().zip(&pinned).filter(|(_, pin)| **pin).map(|(b, _)| b).sum();
            if held <= capacity && held >= most {
                (best, most) = (pinned, held);
            }
            if held <= capacity { high = middle } else { low = middle }
        }
        best
    }

    proptest! {
        #[test]
        fn thresholds_between_the_same_sums_pin_the_same(
            reads in prop::collection::vec((1u64..1000, 1u64..1000, 0u64..1000), 1..40),
            share in 0.0f64..1.0,
        ) {
            let bytes: Vec<u64> = reads.iter().map(|r| r.0).collect();
            let load: Vec<u64> = reads.iter().map(|r| r.1).collect();
            let compute: Vec<u64> = reads.iter().map(|r| r.2).collect();
            let capacity = (bytes.iter().sum::<u64>() as f64 * share) as u64;
            let pinned = choose(&bytes, &load, &compute, capacity);
            // The room that is left is filled afterwards.
            let least = by_all(&bytes, &load, &compute, capacity);
            let held = least.iter().zip(&bytes).filter(|(pin, _)| **pin).map(|(_, b)| b);
            let mut left = capacity - held.sum::<u64>();
            let mut order: Vec<usize> = (0..bytes.len()).filter(|at| !least[*at]).collect();
            order.sort_by_key(|at| std::cmp::Reverse(bytes[*at]));
            let mut expected = least;
            for at in order {
                if bytes[at] <= left {
                    (expected[at], left) = (true, left - bytes[at]);
                }
            }
            prop_assert_eq!(pinned, expected);
        }

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
