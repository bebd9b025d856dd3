//! State that lasts from scope to scope.

use super::counts::Counts;
use crate::arena::Pool;
use crate::tasks::Scheduler;
use heapless::Vec;

/// State that lasts from scope to scope: the scheduler's, and the chunks in memory.
#[derive(Debug)]
pub(super) struct State<'a, const N: usize> {
    pub scheduler: Scheduler<N>,
    pub pool: Pool<'a>,
    pub tasks: Vec<Status, N>,
}

/// A task's state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Status {
    pub counts: Counts,
    /// The job's inputs have been written: it computes.
    pub computing: bool,
    /// Time of the job's steps.
    pub computed_ns: u64,
    /// No job is released.
    pub stopped: bool,
}
