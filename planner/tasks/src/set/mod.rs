//! A task set: memory, storage, and tasks with their costs.
//!
//! [`file`](mod@file) reads it from TOML, [`Assignment`] says what was decided for it.

mod assignment;
mod error;
pub mod file;
mod measured;
pub mod units;

pub use assignment::{Assignment, Units};
pub use error::{Reason, SetError};
pub use measured::measured;

/// Networks that share one memory and one storage.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSet {
    /// Bytes of memory for all networks together.
    pub memory_bytes: u64,
    pub storage: Storage,
    pub tasks: Vec<Task>,
}

/// Where swapped bytes come from, and how fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Storage {
    /// Bytes that enter or leave memory at once. A read is one chunk.
    pub chunk_bytes: u64,
    pub read: Transfer,
    /// What leaving memory costs. `None`: weights are read-only, leaving writes nothing.
    pub write: Option<Transfer>,
}

/// How long a transfer takes: a time per chunk and a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    pub per_chunk_ns: u64,
    pub bytes_per_second: u64,
}

/// A network that runs again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub name: String,
    /// Least time between two arrivals.
    pub period_ns: u64,
    /// From a job's arrival to its latest end.
    pub deadline_ns: u64,
    /// A job is released at most this long after its arrival.
    pub jitter_ns: u64,
    /// Weight in the division of memory (SwapNet's Eq. 1).
    pub urgency: f64,
    pub cost: Cost,
}

/// What one job of a task needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Computing with all weights in memory.
    pub compute_ns: u64,
    /// The longest part of it that nothing interrupts.
    pub step_ns: u64,
    /// Bytes of memory with everything in it.
    pub bytes: u64,
    /// Those of them that may leave memory between two jobs.
    pub swappable_bytes: u64,
    /// Steps read weights while they compute, which is part of their time. Swappable bytes are then room that the
    /// network fills itself: they leave memory for nothing, and nothing is read before a job computes.
    pub streams: bool,
}

impl Storage {
    /// One chunk's way into memory, at worst, with another's way out.
    pub fn chunk_ns(&self, chunk_bytes: u64) -> u64 {
        let out_ns = self.write.map_or(0, |write| write.time_ns(chunk_bytes));
        self.read.time_ns(chunk_bytes).saturating_add(out_ns)
    }
}

impl Transfer {
    /// Time for one transfer of these bytes.
    pub fn time_ns(&self, bytes: u64) -> u64 {
        let moving =
            (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.bytes_per_second.max(1)));
        u64::try_from(moving).unwrap_or(u64::MAX).saturating_add(self.per_chunk_ns)
    }
}
