//! Times of reads by the level of memory that holds what is read.

use eyelet::pack::{Region, Step};

/// Time of one read, for each level of memory that may hold what is read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Levels {
    pub(super) dram: f64,
    /// The last-level cache, which all processors share.
    pub(super) llc: f64,
    /// A pack that the processor addresses like memory.
    pub(super) mapped: f64,
}

impl Levels {
    /// `in_llc`: weights in the arena are in the last-level cache.
    pub(super) fn of_weights(&self, step: &Step, in_llc: bool) -> f64 {
        match (step.weights_in, in_llc) {
            (Region::Mapped, _) => self.mapped,
            (Region::Arena, true) => self.llc,
            (Region::Arena, false) => self.dram,
        }
    }
}
