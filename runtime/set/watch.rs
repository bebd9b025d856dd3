//! Whether the chunk in flight takes longer than its task says.
//!
//! Ends of chunks are seen between steps. The test of a schedule counts the time until the end of the step in flight. So a
//! chunk that ended in time, and is seen late after a step, is no overrun.

/// Observations of the chunk in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    /// A step has run since the last look.
    hidden: bool,
    /// It was in flight after its time.
    overdue: bool,
}

impl Watch {
    /// A step has run.
    pub fn step_ran(&mut self) {
        self.hidden = true;
    }

    /// It is in flight still, so long after it began.
    pub fn in_flight(&mut self, after_ns: u64, chunk_ns: u64) {
        self.hidden = false;
        self.overdue |= after_ns > chunk_ns;
    }

    /// It has come, seen so long after it began. Returns whether it took longer than it may.
    pub fn has_come(self, after_ns: u64, chunk_ns: u64) -> bool {
        self.overdue || (after_ns > chunk_ns && !self.hidden)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK_NS: u64 = 10;

    #[test]
    fn a_chunk_that_is_seen_late_behind_a_step_is_no_overrun() {
        let mut watch = Watch::default();
        assert!(!watch.has_come(10, CHUNK_NS) && watch.has_come(11, CHUNK_NS));
        watch.step_ran();
        assert!(!watch.has_come(50, CHUNK_NS), "it may have come during the step");
        watch.in_flight(9, CHUNK_NS);
        assert!(watch.has_come(11, CHUNK_NS), "it came after the step");
    }

    #[test]
    fn a_chunk_that_is_in_flight_after_its_time_is_an_overrun() {
        let mut watch = Watch::default();
        watch.step_ran();
        watch.in_flight(11, CHUNK_NS);
        watch.step_ran();
        assert!(watch.has_come(50, CHUNK_NS));
    }
}
