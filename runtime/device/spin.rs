//! Spinning: looking for something again and again, for as long as that pays.
//!
//! A thread that sleeps is woken tens of microseconds late, so who waits for something that is near spins. That
//! pays on a core that nobody else wants. On one that others want, spinning uses up the thread's share of it, and
//! each time it gives way it waits until all of them have had theirs: milliseconds. Linux does not say which it
//! is, but it shows: a look at the clock, or giving way, comes back late. Then nobody spins for a while, and every
//! wait sleeps at once ([`Restraint`]).

use super::futex::{give_way, now_ns};

/// Who spins lets others have the core every so often: one of them may be who is waited for.
const YIELD_NS: u64 = 10_000;

/// Between two looks of a thread that spins lies about a microsecond, and where nobody else wants the core giving way
/// takes less. It takes longer where a thread of this process has something to do, such as a checksum of what was just read; what takes as
/// long as this has let others run, who are stopped after a millisecond or more.
const LATE_NS: u64 = 500_000;

/// One wait that spins before it sleeps.
#[derive(Debug)]
pub(crate) struct Spin {
    start: u64,
    /// The last look at the clock.
    looked: u64,
    /// When others are next let have the core, from the start.
    patience_ns: u64,
    /// Nothing is gained by it now.
    over: bool,
}

impl Spin {
    pub(crate) fn new() -> Self {
        let now = now_ns();
        Self { start: now, looked: now, patience_ns: YIELD_NS, over: restraint::holds(now) }
    }

    /// Whether to look once more, if that is done for up to `spin_ns` nanoseconds. Gives way in between.
    pub(crate) fn goes_on(&mut self, spin_ns: u64) -> bool {
        if self.over || spin_ns == 0 {
            return false;
        }
        let mut now = now_ns();
        let mut gap = now.wrapping_sub(self.looked);
        let waited = now.wrapping_sub(self.start);
        if waited >= self.patience_ns && waited < spin_ns && gap < LATE_NS {
            give_way();
            let before = now;
            now = now_ns();
            gap = now.wrapping_sub(before);
            self.patience_ns = now.wrapping_sub(self.start) + YIELD_NS;
        }
        self.looked = now;
        if gap >= LATE_NS {
            restraint::late(now);
        }
        self.over = gap >= LATE_NS || waited >= spin_ns;
        !self.over
    }
}

/// For how long nobody spins.
///
/// After a look that comes late nobody spins for [`FIRST_NS`]. The next spin finds out whether the core is still
/// wanted by others. If it is, that has cost another turn of theirs, so the time doubles, up to [`MOST_NS`]: what
/// finding out costs becomes less than a hundredth. If for as long as the last time nothing was late, it
/// begins again.
#[cfg(any(test, all(feature = "linux", target_os = "linux")))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Restraint {
    /// Until when, in nanoseconds of the clock.
    until_ns: u64,
    /// How long it was the last time.
    hold_ns: u64,
}

/// How long nobody spins after one late look,
#[cfg(any(test, all(feature = "linux", target_os = "linux")))]
const FIRST_NS: u64 = 10_000_000;

/// and at most.
#[cfg(any(test, all(feature = "linux", target_os = "linux")))]
const MOST_NS: u64 = 2_560_000_000;

#[cfg(any(test, all(feature = "linux", target_os = "linux")))]
impl Restraint {
    const NONE: Self = Self { until_ns: 0, hold_ns: 0 };

    /// Whether nobody shall spin now.
    fn holds(self, now_ns: u64) -> bool {
        now_ns < self.until_ns
    }

    /// After a look that came late.
    fn after_late(self, now_ns: u64) -> Self {
        if self.holds(now_ns) {
            // Another thread has found out at the same time.
            return self;
        }
        let calm_ns = now_ns - self.until_ns;
        let again = self.hold_ns > 0 && calm_ns < self.hold_ns;
        let hold_ns = if again { (2 * self.hold_ns).min(MOST_NS) } else { FIRST_NS };
        Self { until_ns: now_ns.saturating_add(hold_ns), hold_ns }
    }
}

/// The process's: cores are wanted by others for all of its threads alike.
#[cfg(all(feature = "linux", target_os = "linux"))]
mod restraint {
    use super::Restraint;
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

    // Two words that may be from different writers: either is one that was right a moment ago.
    static UNTIL_NS: AtomicU64 = AtomicU64::new(Restraint::NONE.until_ns);
    static HOLD_NS: AtomicU64 = AtomicU64::new(Restraint::NONE.hold_ns);

    fn now() -> Restraint {
        Restraint { until_ns: UNTIL_NS.load(Relaxed), hold_ns: HOLD_NS.load(Relaxed) }
    }

    pub(super) fn holds(now_ns: u64) -> bool {
        now().holds(now_ns)
    }

    pub(super) fn late(now_ns: u64) {
        let next = now().after_late(now_ns);
        HOLD_NS.store(next.hold_ns, Relaxed);
        UNTIL_NS.store(next.until_ns, Relaxed);
    }
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
    fn nobody_spins_for_a_while_after_a_late_look() {
        let calm = Restraint::NONE;
        assert!(!calm.holds(0) && !calm.holds(u64::MAX));
        let late = calm.after_late(5);
        assert!(late.holds(5) && late.holds(4 + FIRST_NS) && !late.holds(5 + FIRST_NS));
        // Another thread's look that was late in the meantime is the same news.
        assert_eq!(late.after_late(6), late);
    }

    #[test]
    fn it_takes_longer_each_time_that_spinning_does_not_pay() {
        let mut restraint = Restraint::NONE.after_late(1);
        let mut held = FIRST_NS;
        for _ in 0..12 {
            // As soon as it may, a thread spins, and is late again.
            restraint = restraint.after_late(restraint.until_ns + 1);
            held = (2 * held).min(MOST_NS);
            assert_eq!(restraint.hold_ns, held);
        }
        assert_eq!(held, MOST_NS);
        // A turn of eight threads on two cores, 3 ms for each, is below a hundredth.
        assert!(4 * 3_000_000 * 100 < held);
        let calm = restraint.until_ns + held;
        assert_eq!(restraint.after_late(calm).hold_ns, FIRST_NS);
    }
}
