//! What holds bytes of the arena for a time.

use super::{Holder, Occupant};
use std::ops::Range;

/// A range of bytes held during a range of half steps.
pub(super) struct Held {
    pub holder: Holder,
    pub bytes: Range<u64>,
    /// Half steps; never empty.
    pub time: Range<i64>,
}

impl Held {
    pub fn occupant(&self) -> Box<Occupant> {
        let (bytes, steps) = (self.bytes.clone(), Some(self.steps()));
        Box::new(Occupant { holder: self.holder, bytes, steps })
    }

    /// The steps during which it is held. Half step 2t + 1 is step t; a load runs from gap to gap.
    pub fn steps(&self) -> Range<i64> {
        steps(&self.time)
    }

    /// Whether both are held at some moment, any number of periods apart.
    pub fn meets(&self, other: &Held, period: i64) -> bool {
        let apart = (other.time.start - self.time.start).rem_euclid(period);
        apart < self.time.end - self.time.start
            || apart + (other.time.end - other.time.start) > period
    }
}

/// The steps of a range of half steps.
pub(super) fn steps(time: &Range<i64>) -> Range<i64> {
    time.start.div_euclid(2)..time.end.div_euclid(2)
}
