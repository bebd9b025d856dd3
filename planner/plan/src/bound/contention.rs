//! How much of what is read slows computing down, at least.
//!
//! All steps of a plan take longer by one share, `D · o / C`: `D` for each of the `o` bytes that
//! are counted as read while steps compute ([`Costs`](crate::profile::Costs)), over all computing.
//! A load counts with the part of the time in which it keeps the busier one of storage and loader
//! that the steps between its release and the step that waits for it could cover. For as much as
//! they do not cover, nothing computes while it is kept so. That is one load at a time: in a
//! nanosecond of stalls no more is left out of the count than the best read brings, `a` bytes. Nor
//! more counts than is brought within all computing; then all that is left out is brought in the
//! rest of the inference, which is stalls. So of `r` bytes that are read at least, and with stalls
//! of `s` in all,
//!
//! ```text
//! o ≥ r − a · s        s = T − C − D · o
//! ```

use super::reading::{LARGEST, Task, least_ns_per_byte};
use crate::profile::Profile;

/// Facts of all plans in a budget.
pub(super) struct Contention {
    ns_per_byte: f64,
    /// `a`: bytes of a nanosecond in which nothing computes.
    waiting: f64,
    /// Computing alone.
    compute: f64,
    /// Bytes that every inference reads.
    read: f64,
}

impl Contention {
    /// For plans that the last-level cache holds (`in_llc`), or for larger ones. Both leave at most `room` bytes to
    /// weights.
    pub(super) fn new(
        (profile, threads): (&Profile, u32),
        in_llc: bool,
        room: u64,
        compute: f64,
        read: f64,
    ) -> Self {
        let service = profile.service(in_llc, threads);
        let busy: Task<'_> = Box::new(|bytes| service.busy_ns(bytes));
        let waiting = 1.0 / least_ns_per_byte(profile, &busy, room.clamp(1, LARGEST));
        Self {
            ns_per_byte: profile.contention_ns_per_byte(in_llc, threads),
            waiting,
            compute,
            read,
        }
    }

    /// All computing, slowed down: what is not counted as read meanwhile is a stall.
    pub(super) fn all_ns(&self) -> f64 {
        let ns_per_byte = self.ns_per_byte.min(1.0 / self.waiting);
        self.compute + self.read * ns_per_byte
    }

    /// An inference in which layers that compute for `inside` are followed by `rest` in which
    /// none of them does.
    pub(super) fn interval_ns(&self, inside: f64, rest: f64) -> f64 {
        let plain = inside + rest;
        let kept = 1.0 - self.waiting * self.ns_per_byte;
        if kept <= 0.0 || self.compute <= 0.0 || plain <= 0.0 {
            return plain;
        }
        // A plan may compute for longer, but no longer than all of the inference.
        let says = |all: f64| {
            let of_least = (self.read - self.waiting * (all - self.compute)) / kept / self.compute;
            let share = self.ns_per_byte * of_least.max(0.0).min(self.read / all);
            inside * (1.0 + share) + rest
        };
        // The longer it takes, the less is said: what takes less than is said of it cannot be.
        let (mut low, mut high) = (plain, says(plain));
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if says(middle) > middle { low = middle } else { high = middle }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Storage;

    #[test]
    fn what_is_not_read_in_stalls_slows_down() {
        let mut profile = crate::board::Board::load("jetson-nano").unwrap().profile;
        profile.storage = Storage::flat(0, 1000.0, f64::INFINITY);
        let slows = crate::profile::Contention { llc_ns_per_byte: 0.25, dram_ns_per_byte: 0.5 };
        profile.storage.contention = Some(slows);
        // A byte takes a nanosecond, and each nanosecond of computing has a byte.
        let of = |in_llc| Contention::new((&profile, 1), in_llc, 1 << 20, 1000.0, 1000.0);
        assert_eq!([of(false).all_ns(), of(true).all_ns()], [1500.0, 1250.0]);
        let is =
            |found: f64, ns: f64| assert!((found - ns).abs() < 1e-3, "{found} instead of {ns}");
        // 500 bytes are read in 500 nanoseconds of stalls. The others slow computing down by 250.
        is(of(false).interval_ns(1000.0, 500.0), 1750.0);
        // A plan may compute for longer than it must, and its layers lose the less of it: t = 1500
        // + 500 · 500 / t.
        is(of(false).interval_ns(500.0, 1000.0), (1500.0 + 3.25e6f64.sqrt()) / 2.0);
        // All are read in stalls.
        is(of(false).interval_ns(1000.0, 1000.0), 2000.0);
    }
}
