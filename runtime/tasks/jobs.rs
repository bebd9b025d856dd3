//! The state of each task's job.

use super::task::Task;

/// A task's current job, and the chunks of it that are in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// Released and not finished.
    pub pending: bool,
    /// Its chunks stay in memory until it ends.
    pub begun: bool,
    pub released_ns: u64,
    pub deadline_ns: u64,
    /// Before this time no further job can arrive.
    pub next_ns: u64,
    /// Time that its finished steps took.
    pub computed_ns: u64,
    /// Chunks in memory: a contiguous run, in a circle, from `first`.
    pub present: u32,
    pub first: u32,
}

impl Job {
    pub const NONE: Self = Self {
        pending: false,
        begun: false,
        released_ns: 0,
        deadline_ns: 0,
        next_ns: 0,
        computed_ns: 0,
        present: 0,
        first: 0,
    };

    /// The job lacks chunks.
    pub fn loads(&self, task: &Task) -> bool {
        self.present < task.chunks
    }

    /// Which chunk comes next into memory.
    pub fn next_chunk(&self, task: &Task) -> u32 {
        let at = u64::from(self.first) + u64::from(self.present);
        u32::try_from(at % u64::from(task.chunks.max(1))).unwrap_or(0)
    }
}

/// Which engine a job needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    Processor,
    Loader,
}

/// An operation in flight: a step or a chunk's load.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub task: usize,
    pub started_ns: u64,
    /// For a chunk: the job that was first and computes meanwhile. `None`: no promise was needed.
    pub voucher: Option<Voucher>,
}

/// A job that vouched for a less urgent job's chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Voucher {
    pub task: usize,
    pub released_ns: u64,
}
