//! Latencies of groups of reads, if storage answers all reads in flight together.
//!
//! A read that begins while none is in flight begins a group. Reads that begin before it arrives
//! join the group. All arrive a latency and all their transfers after the first began. So a group
//! has no more reads than the depth, and no more bytes than the window. All of it is in the arena
//! when it arrives, next to the activations of the current or the next step, since only later steps
//! use it. So it has at most `A` bytes, the budget less the smallest activations. Let `R` bytes
//! begin after an interval's end. At most one group of them had its latency before that. With
//! groups of up to `G` bytes
//!
//! ```text
//! T ≥ C_ab + R · transfer + (⌈R / G⌉ − 1) · latency        G = min(A, window, depth · largest load)
//! ```
//!
//! The latency is that of the first read, so the least over all whole pages that a load may have.
//! The transfer of a small read takes longer than its bytes are counted with. The difference
//! counts, too.
//!
//! One group has less. A read that exceeds the window together with the one before begins only when
//! that one has arrived. Its latency is no more than storage has rested since. If `A` is at most
//! the window, the one before is no longer there: it has been checked and used. Storage has rested
//! for that check at least, and as much latency follows. Otherwise there is no bound, unless the
//! window holds two of the largest loads.

use crate::profile::Service;
use eyelet::pack::PAGE;

/// Reads that come together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Groups {
    /// Bytes of one, at most.
    most: f64,
    /// The least time of each group beyond the transfers of its bytes.
    ns: f64,
}

impl Groups {
    /// Groups of loads of up to `largest` bytes, of at most `free` bytes together. A byte counts
    /// with its least time in a load of up to this size, or with `dearest` if that is less.
    pub(super) fn new(service: &Service, largest: u64, free: u64, dearest: f64) -> Option<Self> {
        let (window, depth) = (service.window(), u64::from(service.depth()));
        let both = largest.saturating_mul(2);
        if largest < PAGE || (free > window && both > window) {
            return None;
        }
        let mut ns_per_byte = dearest;
        let ns = (PAGE..=largest).step_by(PAGE as usize).map(|bytes| {
            let read = service.read(bytes);
            ns_per_byte = ns_per_byte.min(read.transfer as f64 / bytes as f64);
            let latency = if bytes.saturating_add(largest) <= window {
                read.latency
            } else {
                // The least that is more than the window with it.
                let before = (window.saturating_sub(bytes) / PAGE + 1) * PAGE;
                read.latency.min(2 * service.read(before).check)
            };
            (latency + read.transfer) as f64 - ns_per_byte * bytes as f64
        });
        let ns = ns.fold(f64::INFINITY, f64::min);
        let most = free.min(window).min(largest.saturating_mul(depth)) / PAGE * PAGE;
        Some(Self { most: most.max(PAGE) as f64, ns: ns.max(0.0) })
    }

    /// The least time of all groups but one for `bytes` bytes.
    pub(super) fn least_ns(&self, bytes: f64) -> f64 {
        ((bytes / self.most).ceil() - 1.0).max(0.0) * self.ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{QueuedRead, Reads, Storage};

    /// A read waits for 20 us; a byte of it takes a nanosecond, and its check a tenth of that.
    fn service(depth: u32, window: u64) -> Service {
        let mbs = |bytes: u64, reads: u64| {
            let transfers = (reads * bytes) as f64;
            transfers * 1e3 / (2e4 + transfers)
        };
        let sizes = [PAGE, 16 << 20];
        let group = |bytes: u64| (window / bytes).clamp(1, depth.into());
        let queued_reads = |bytes: u64| QueuedRead { depth, bytes, mbs: mbs(bytes, group(bytes)) };
        Service::new(&Storage {
            depth,
            window: Some(window),
            together: true,
            reads: sizes.map(|bytes| Reads { bytes, mbs: mbs(bytes, 1) }).to_vec(),
            queued_reads: sizes.map(queued_reads).to_vec(),
            ..Storage::flat(0, 1000.0, 10.0)
        })
    }

    #[test]
    fn all_groups_but_one_wait() {
        let service = service(4, 8 << 20);
        let of = |largest, free| Groups::new(&service, largest, free, 1.0).unwrap();
        // As many bytes as are free, or four loads; of more bytes than the window only where two
        // loads are within it.
        assert_eq!(of(1 << 20, 3 << 20).most, 3e6 * 1.048576);
        assert_eq!(of(64 << 10, 3 << 20).most, 4.0 * 65_536.0);
        assert_eq!(of(1 << 20, 64 << 20).most, 4.0 * 1_048_576.0);
        assert_eq!(of(4 << 20, 64 << 20).most, 8.0 * 1_048_576.0);
        assert_eq!(Groups::new(&service, 5 << 20, 64 << 20, 1.0), None);
        let groups = of(1 << 20, 3 << 20);
        assert!((groups.ns - 2e4).abs() < 10.0, "{}", groups.ns);
        let of = |bytes| groups.least_ns(bytes * groups.most) / groups.ns;
        assert_eq!([0.0, 0.5, 1.0, 1.5, 2.0, 4.1].map(of), [0.0, 0.0, 0.0, 1.0, 1.0, 4.0]);
    }

    #[test]
    fn what_follows_a_large_load_waits_while_that_is_checked() {
        let of = |largest| Groups::new(&service(2, 1 << 20), largest, 1 << 20, 1.0).unwrap().ns;
        // A page and the largest load exceed the window. Twice the check of a page, 410 ns, passes.
        // A sixteenth of the latency is in the transfer of loads as large as a group.
        assert!((of(1 << 20) - 820.0 - 2e4 / 16.0).abs() < 100.0, "{}", of(1 << 20));
        // No load has more than three quarters of it, so that 256 KiB are checked before.
        assert!((of(768 << 10) - 2e4).abs() < 10.0, "{}", of(768 << 10));
    }
}
