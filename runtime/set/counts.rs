//! Counts of each task.

use crate::tasks::{Finished, Task};

/// Counts of one task, since the set was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Jobs that ended.
    pub jobs: u64,
    /// Jobs that ended late, or could not be released because their predecessor had not ended.
    pub misses: u64,
    /// Jobs that were given up.
    pub failed: u64,
    /// Jobs whose steps together took longer than the task says.
    pub compute_overruns: u64,
    /// Steps that took longer than the task says.
    pub step_overruns: u64,
    /// Chunks that took longer than the task says. A chunk that came in time, and is seen late after a step, is not one.
    pub chunk_overruns: u64,
    /// Chunks that came into memory.
    pub chunks: u64,
    /// The longest time from a job's release to its end.
    pub worst_response_ns: u64,
}

impl Counts {
    /// A job has ended, after steps of so much time.
    pub(super) fn job(&mut self, job: &Finished, computed_ns: u64, task: &Task) {
        self.jobs += 1;
        self.misses += u64::from(job.missed);
        self.compute_overruns += u64::from(computed_ns > task.compute_ns);
        self.worst_response_ns = self.worst_response_ns.max(job.response_ns);
    }
}
