//! How much of a measurement is done, for a progress bar.

use std::ops::Range;

/// The parts of a measurement, as shares of the time that it takes on most machines.
pub const LAYERS: Range<f64> = 0.0..0.4;
pub const FILE: Range<f64> = 0.4..0.5;
pub const READS: Range<f64> = 0.5..0.85;
pub const CONTENTION: Range<f64> = 0.85..1.0;

/// Reports the progress of one part.
#[derive(Clone)]
pub struct Done<'a> {
    report: &'a dyn Fn(f64),
    part: Range<f64>,
}

impl<'a> Done<'a> {
    /// Progress of the whole measurement. The function gets 0 to 1, and is never called while
    /// something is timed.
    pub fn new(report: &'a dyn Fn(f64)) -> Self {
        Self { report, part: 0.0..1.0 }
    }

    /// Progress of a part of it.
    pub fn of(&self, part: Range<f64>) -> Self {
        Self { report: self.report, part }
    }

    /// So much of the part is done.
    pub fn set(&self, share: f64) {
        let Range { start, end } = self.part;
        (self.report)(start + share.clamp(0.0, 1.0) * (end - start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_part_is_a_share_of_the_whole() {
        let last = Cell::new(0.0);
        let report = |share| last.set(share);
        let part = Done::new(&report).of(0.5..0.75);
        for (share, whole) in [(0.0, 0.5), (0.5, 0.625), (7.0, 0.75)] {
            part.set(share);
            assert_eq!(last.get(), whole);
        }
        assert_eq!([LAYERS.end, FILE.end, READS.end], [FILE.start, READS.start, CONTENTION.start]);
    }
}
