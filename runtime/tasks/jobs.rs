//! The state of each task's job.

use super::task::Task;

/// A task's current job, and the chunks of it that are in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// Released and not finished.
    pub pending: bool,
    /// Its room stays in memory until it ends.
    pub begun: bool,
    pub released_ns: u64,
    pub deadline_ns: u64,
    /// Before this time no further job can arrive.
    pub next_ns: u64,
    /// Time that its finished steps took.
    pub computed_ns: u64,
    /// Chunks of weights in memory: a contiguous run, in a circle, from `first`.
    pub present: u32,
    pub first: u32,
    /// Number of chunks of room in memory. These are the first ones.
    pub room: u32,
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
        room: 0,
    };

    /// It has computed nothing yet, and has none of its chunks.
    pub fn start_over(&mut self) {
        (self.begun, self.computed_ns) = (false, 0);
        self.all_out();
    }

    /// None of its chunks is in memory any more.
    pub fn all_out(&mut self) {
        (self.present, self.first, self.room) = (0, 0, 0);
    }

    /// The job lacks chunks.
    pub fn loads(&self, task: &Task) -> bool {
        self.in_memory() < task.chunks
    }

    /// Chunks in memory.
    pub fn in_memory(&self) -> u32 {
        self.present.saturating_add(self.room)
    }

    /// Which chunk comes next into memory: room first, which takes no time.
    pub fn next_chunk(&self, task: &Task) -> u32 {
        let weights = task.weights();
        if self.room < task.room {
            return weights.saturating_add(self.room);
        }
        let at = u64::from(self.first) + u64::from(self.present);
        u32::try_from(at % u64::from(weights.max(1))).unwrap_or(0)
    }

    /// The chunk that was next has come.
    pub fn comes(&mut self, task: &Task) {
        match self.room < task.room {
            true => self.room += 1,
            false => self.present = self.present.saturating_add(1),
        }
    }

    /// A chunk leaves memory. Which one: room first, unless the job is begun.
    pub fn leaves(&mut self, task: &Task) -> u32 {
        let weights = task.weights();
        if !self.begun && self.room > 0 {
            self.room -= 1;
            return weights.saturating_add(self.room);
        }
        let chunk = self.first;
        self.present = self.present.saturating_sub(1);
        self.first = if chunk.saturating_add(1) < weights { chunk.saturating_add(1) } else { 0 };
        chunk
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
