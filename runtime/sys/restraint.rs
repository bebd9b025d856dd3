//! For how long nobody spins: cores that others want are left to them.
//!
//! After a look that comes late nobody spins for [`FIRST_NS`]. The next spin finds out whether the
//! core is still wanted by others. If it is, that has cost another turn of theirs, so the time
//! doubles, up to [`MOST_NS`]. Finding out then costs less than a hundredth of the time. The first
//! time holds again after a period without late looks that is as long as the last restraint.
//!
//! Others want cores from all threads of the process alike, so there is one restraint for the
//! process.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A time without spinning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Restraint {
    /// Until when, in nanoseconds of the clock.
    until_ns: u64,
    /// How long it was the last time.
    hold_ns: u64,
}

/// How long nobody spins after the first late look.
const FIRST_NS: u64 = 10_000_000;

/// How long nobody spins at most.
const MOST_NS: u64 = 2_560_000_000;

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

// Two words that may be from different writers: either is one that was right a moment ago.
static UNTIL_NS: AtomicU64 = AtomicU64::new(Restraint::NONE.until_ns);
static HOLD_NS: AtomicU64 = AtomicU64::new(Restraint::NONE.hold_ns);

fn current() -> Restraint {
    Restraint { until_ns: UNTIL_NS.load(Relaxed), hold_ns: HOLD_NS.load(Relaxed) }
}

/// Whether nobody shall spin now.
pub(super) fn holds(now_ns: u64) -> bool {
    current().holds(now_ns)
}

/// A look came late: begins or prolongs the restraint.
pub(super) fn late(now_ns: u64) {
    let next = current().after_late(now_ns);
    HOLD_NS.store(next.hold_ns, Relaxed);
    UNTIL_NS.store(next.until_ns, Relaxed);
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
