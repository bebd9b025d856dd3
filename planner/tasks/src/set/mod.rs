//! A task set: memory, storage, and tasks with their costs.
//!
//! [`file`](mod@file) reads it from TOML. [`Assignment`] says what was decided for it, and [`decided`] has both with the
//! packs that run it. [`packed`] writes and reads them.

mod assignment;
pub mod decided;
mod error;
pub mod file;
mod measured;
pub mod packed;
pub mod units;

pub use assignment::{Assignment, Units};
pub use error::{Reason, SetError};
pub use measured::measured;

use std::sync::Arc;

/// Networks that share one memory and one storage.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSet {
    /// Bytes of memory for all networks together.
    pub memory_bytes: u64,
    /// The runtime's records of chunks take whole pages of this size of the memory. 0: they lie elsewhere.
    pub page_bytes: u64,
    pub storage: Storage,
    pub tasks: Vec<Task>,
}

impl TaskSet {
    /// Memory in which everything fits, with each task's last chunk rounded up.
    pub(crate) fn all_bytes(&self) -> u64 {
        let all: u64 = self.tasks.iter().map(|task| task.cost.bytes).sum();
        all + all / 64 + (64 << 20) * self.tasks.len() as u64
    }
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
    pub cost: Cost,
}

/// What one job of a task needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Computing with all weights in memory.
    pub compute_ns: u64,
    /// The longest part of it that nothing interrupts.
    pub step_ns: u64,
    /// Bytes of memory with everything in it.
    pub bytes: u64,
    /// Weights that may leave memory between two jobs, and are read again.
    pub weights: Swappable,
    /// Room for activations and scratch, which holds nothing between two jobs: it leaves memory for nothing.
    pub room: Swappable,
    /// Steps read weights while they compute, which is part of their time. Only room leaves memory then.
    pub streams: bool,
}

impl Cost {
    /// Chunks of this size that may leave memory between two jobs.
    pub fn chunks(&self, chunk_bytes: u64) -> u32 {
        self.weights.chunks(chunk_bytes).saturating_add(self.room.chunks(chunk_bytes))
    }

    /// How many of so many chunks are room. Room leaves memory before weights do.
    pub fn room_of(&self, chunks: u32, chunk_bytes: u64) -> u32 {
        self.room.chunks(chunk_bytes).min(chunks)
    }

    /// Bytes that may leave memory between two jobs.
    pub fn swappable_bytes(&self) -> u64 {
        self.weights.bytes.saturating_add(self.room.bytes)
    }
}

/// Bytes that may leave memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Swappable {
    pub bytes: u64,
    /// Lengths of the runs of addresses that they lie in: a chunk lies in one run. None: one run.
    pub runs: Arc<[u64]>,
}

impl Swappable {
    /// Bytes in one run.
    pub fn of(bytes: u64) -> Self {
        Self { bytes, runs: [].into() }
    }

    /// Bytes in these runs.
    pub fn in_runs(runs: Arc<[u64]>) -> Self {
        Self { bytes: runs.iter().sum(), runs }
    }

    /// Whole chunks of this size in them.
    pub fn chunks(&self, chunk_bytes: u64) -> u32 {
        let in_run = |bytes: &u64| bytes / chunk_bytes.max(1);
        let all = match self.runs.is_empty() {
            true => in_run(&self.bytes),
            false => self.runs.iter().map(in_run).sum(),
        };
        u32::try_from(all).unwrap_or(u32::MAX)
    }
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
