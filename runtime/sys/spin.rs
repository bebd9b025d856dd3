//! Spinning: looking for something again and again, for as long as that pays.
//!
//! A thread that sleeps is woken tens of microseconds late, so who waits for something that is near
//! spins. That pays on a core that nobody else wants. On one that others want, spinning uses up the
//! thread's share of it, and each time it gives way it waits until all of them have had theirs:
//! milliseconds. It shows when a look at the clock, or giving way, comes back late, and Linux has
//! counted that the thread was stopped for others. Then nobody spins for a while, and every wait
//! sleeps at once ([`restraint`]). A look is also late where a hypervisor takes the core away for a
//! moment. Linux counts nothing then, and to sleep would only add to it.

use super::clock::{give_way, now_ns, times_stopped};
#[cfg(all(feature = "linux", target_os = "linux"))]
use super::restraint;

/// Who spins lets others have the core every so often: one of them may be who is waited for.
const YIELD_NS: u64 = 10_000;

/// Between two looks of a thread that spins lies about a microsecond, and where nobody else wants
/// the core giving way takes less. It takes longer where a thread of this process has something to
/// do, such as a checksum of what was just read; what takes as long as this has let others run, who
/// are stopped after a millisecond or more.
const LATE_NS: u64 = 500_000;

/// One wait that spins before it sleeps.
#[derive(Debug)]
pub(crate) struct Spin {
    start: u64,
    /// The last look at the clock.
    looked: u64,
    /// When others are next let have the core, from the start.
    patience_ns: u64,
    /// How often the thread was stopped for others before it last gave way.
    stopped: Option<u64>,
    /// Nothing is gained by it now.
    over: bool,
}

impl Spin {
    pub(crate) fn new() -> Self {
        let now = now_ns();
        let over = restraint::holds(now);
        Self { start: now, looked: now, patience_ns: YIELD_NS, stopped: None, over }
    }

    /// Whether to look once more, if that is done for up to `spin_ns` nanoseconds. Gives way in
    /// between.
    pub(crate) fn goes_on(&mut self, spin_ns: u64) -> bool {
        if self.over || spin_ns == 0 {
            return false;
        }
        let mut now = now_ns();
        let mut gap = now.wrapping_sub(self.looked);
        let waited = now.wrapping_sub(self.start);
        if waited >= self.patience_ns && waited < spin_ns && gap < LATE_NS {
            self.stopped = Some(times_stopped());
            give_way();
            let before = now;
            now = now_ns();
            gap = now.wrapping_sub(before);
            self.patience_ns = now.wrapping_sub(self.start) + YIELD_NS;
        }
        self.looked = now;
        let wanted = is_wanted(gap, self.stopped, times_stopped);
        if wanted {
            restraint::late(now);
        }
        self.over = wanted || waited >= spin_ns;
        !self.over
    }
}

/// Whether a look that comes `gap` nanoseconds after the last one says that others want the core:
/// it is late, and the thread was stopped for them. A wait that has not given way yet does not know.
/// It will soon.
fn is_wanted(gap: u64, before: Option<u64>, stopped: impl FnOnce() -> u64) -> bool {
    gap >= LATE_NS && before.is_some_and(|before| before != stopped())
}

/// Without a clock nothing is late.
#[cfg(not(all(feature = "linux", target_os = "linux")))]
mod restraint {
    pub(super) fn holds(_: u64) -> bool {
        false
    }

    pub(super) fn late(_: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_look_tells_only_where_the_thread_was_stopped_for_others() {
        assert!(is_wanted(LATE_NS, Some(3), || 4));
        assert!(!is_wanted(LATE_NS - 1, Some(3), || 4), "others took next to nothing");
        assert!(!is_wanted(LATE_NS, Some(3), || 3), "a hypervisor took the core");
        assert!(!is_wanted(LATE_NS, None, || 3), "not known yet");
    }
}
