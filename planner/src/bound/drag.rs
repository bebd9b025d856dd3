//! How much of what is read slows computing down, at least.
//!
//! All steps of a plan take longer by one share, `D · o / C`: `D` for each of the `o` bytes that are counted as read while steps
//! compute ([`Costs`](crate::profile::Costs)), over all computing. A load counts with the part of its time that the steps
//! between its release and the step that waits for it could cover. The rest of its time nothing computes, while it is under
//! way: in a nanosecond of that not more is left out of the count than all loads under way bring in a nanosecond by themselves.
//!
//! But no more counts than loads bring, one after the other, within all computing. Then storage and loader are busy for longer than
//! steps are, and what is left out is what they bring in the rest of the inference: `a` is the larger of the two. (Where some
//! loads wait for storage and others for the loader, both are not busy all the time: `missed`, of a nanosecond of the
//! inference.) So of `r` bytes that are read at least, and with stalls of `s` in all,
//!
//! ```text
//! o ≥ r − a · s        s = T − C − D · o
//! ```

use super::reading::{LARGEST, Task, least_ns_per_byte, sizes};
use crate::profile::Profile;

/// What is known of all plans in a budget.
pub(super) struct Drag {
    ns_per_byte: f64,
    /// `a`: bytes of a nanosecond in which nothing computes.
    waiting: f64,
    /// Bytes of a nanosecond of the inference that are not counted though nothing stalls.
    missed: f64,
    /// Computing alone.
    compute: f64,
    /// Bytes that every inference reads.
    read: f64,
}

impl Drag {
    /// Of plans that the cache holds that all share (`near`), or of larger ones, which leave no more than `room` bytes to weights.
    pub(super) fn new(profile: &Profile, near: bool, room: u64, compute: f64, read: f64) -> Self {
        let service = profile.service(near);
        let load: Task<'_> = Box::new(|bytes| service.load_ns(bytes) as f64);
        // Bytes of a nanosecond that one load of up to so many brings at most.
        let rate = |most: u64| 1.0 / least_ns_per_byte(profile, &load, most.clamp(1, LARGEST));
        let (depth, window) = (u64::from(service.depth()), service.window().min(room));
        // Of several that are no more than the window together, the second is no more than a half, the third a third, …
        let several: f64 = (1..=depth).map(|at| rate(window / at)).sum();
        // One more may be under its check by then.
        let checked = if depth > 1 { rate(room) } else { 0.0 };
        let each: Task<'_> = Box::new(|bytes| service.each_ns(bytes) as f64);
        let brought = 1.0 / least_ns_per_byte(profile, &each, room.clamp(1, LARGEST));
        let waiting = (several.max(rate(room)) + checked).max(brought);
        // How much more the longer one of the two takes, of all loads, than the one that takes more of all.
        let longer = |part: usize| {
            let of = |size| each(size) / service.parts_ns(size)[part];
            sizes(profile, LARGEST).map(of).fold(1.0, f64::max)
        };
        let missed = brought * (longer(0).min(longer(1)) - 1.0);
        Self { ns_per_byte: profile.drag_ns_per_byte(near), waiting, missed, compute, read }
    }

    /// All computing, slowed down: what is not counted as read meanwhile is a stall.
    pub(super) fn all_ns(&self) -> f64 {
        let ns_per_byte = self.ns_per_byte.min(1.0 / self.waiting);
        (self.compute + self.read * ns_per_byte) / (1.0 + self.missed * ns_per_byte)
    }

    /// An inference in which layers that compute for `inside` are followed by `beside` in which none of them does.
    pub(super) fn interval_ns(&self, inside: f64, beside: f64) -> f64 {
        let plain = inside + beside;
        let kept = 1.0 - self.waiting * self.ns_per_byte;
        if kept <= 0.0 || self.compute <= 0.0 || plain <= 0.0 {
            return plain;
        }
        // A plan may compute for longer, but no longer than all of the inference.
        let says = |all: f64| {
            let read = (self.read - self.missed * all).max(0.0);
            let of_least = (read - self.waiting * (all - self.compute)) / kept / self.compute;
            let share = self.ns_per_byte * of_least.max(0.0).min(read / all);
            inside * (1.0 + share) + beside
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
        let slows = crate::profile::Drag { near_ns_per_byte: 0.25, far_ns_per_byte: 0.5 };
        profile.storage.drag = Some(slows);
        // A nanosecond a byte, of as many bytes as nanoseconds of computing.
        let of = |near| Drag::new(&profile, near, 1 << 20, 1000.0, 1000.0);
        assert_eq!([of(false).all_ns(), of(true).all_ns()], [1500.0, 1250.0]);
        let is =
            |found: f64, ns: f64| assert!((found - ns).abs() < 1e-3, "{found} instead of {ns}");
        // 500 bytes are read in as many nanoseconds of stalls, the others slow computing down by 250.
        is(of(false).interval_ns(1000.0, 500.0), 1750.0);
        // A plan may compute for longer than it must, and its layers lose the less of it: t = 1500 + 500 · 500 / t.
        is(of(false).interval_ns(500.0, 1000.0), (1500.0 + 3.25e6f64.sqrt()) / 2.0);
        // All are read in stalls.
        is(of(false).interval_ns(1000.0, 1000.0), 2000.0);
    }
}
