//! What was decided for a set: chunk size, swap volumes and preemption levels.

use super::TaskSet;
use crate::analysis::slack::responses;
use crate::analysis::{Verdict, classes, demand_bound};
use eyelet::tasks::{Policy, Task, set_reloads};

/// A chunk size, an order, and for each task how many chunks leave memory between jobs and which level it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub chunk_bytes: u64,
    pub chunks: Vec<u32>,
    pub levels: Vec<u16>,
    pub policy: Policy,
}

/// A set measured in chunks of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Units {
    pub chunk_bytes: u64,
    /// Whole chunks in memory.
    pub memory: u64,
    /// Each task's memory, rounded up.
    pub whole: Vec<u64>,
    /// Each task's chunks that may leave memory.
    pub swappable: Vec<u32>,
    /// Those of them that are room.
    pub room: Vec<u32>,
}

impl Units {
    pub fn new(set: &TaskSet, chunk_bytes: u64) -> Self {
        Self {
            chunk_bytes,
            memory: set.memory_bytes.saturating_sub(records(set, chunk_bytes)) / chunk_bytes,
            whole: set.tasks.iter().map(|task| task.cost.bytes.div_ceil(chunk_bytes)).collect(),
            swappable: set.tasks.iter().map(|task| task.cost.chunks(chunk_bytes)).collect(),
            room: set.tasks.iter().map(|task| task.cost.room.chunks(chunk_bytes)).collect(),
        }
    }

    /// Chunks by which the tasks exceed the memory.
    pub fn overflow(&self) -> i128 {
        let whole: i128 = self.whole.iter().map(|&chunks| i128::from(chunks)).sum();
        whole - i128::from(self.memory)
    }

    /// Chunks of memory that swapped chunks share: what is left beside the parts that stay. `None`: those alone do not
    /// fit.
    pub fn pool(&self, chunks: &[u32]) -> Option<u32> {
        let left = self.memory.checked_sub(self.stay(chunks))?;
        Some(u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// Chunks of memory that never leave it.
    fn stay(&self, chunks: &[u32]) -> u64 {
        let whole = self.whole.iter().zip(chunks);
        whole.map(|(&whole, &x)| whole.saturating_sub(u64::from(x))).sum()
    }
}

/// Bytes of a network's record of one chunk, and of the pool's.
const RECORD: u64 = 16;
const POOL_RECORD: u64 = 4;

/// Bytes of memory that records of chunks take, with all that networks may have.
fn records(set: &TaskSet, chunk_bytes: u64) -> u64 {
    let page = set.page_bytes;
    if page == 0 {
        return 0;
    }
    let pages = |bytes: u64| bytes.next_multiple_of(page);
    let pool = pages(set.memory_bytes / chunk_bytes * POOL_RECORD);
    let of_network = |task: &super::Task| pages(u64::from(task.cost.chunks(chunk_bytes)) * RECORD);
    pool + set.tasks.iter().map(of_network).sum::<u64>()
}

impl Assignment {
    /// The tasks as scheduler and test see them. Deadlines count from the release, so that jitter shortens them.
    pub fn tasks(&self, set: &TaskSet) -> Vec<Task> {
        let chunk_ns = set.storage.chunk_ns(self.chunk_bytes);
        let task = |(k, task): (usize, &super::Task)| Task {
            deadline_ns: task.deadline_ns.saturating_sub(task.jitter_ns),
            jitter_ns: task.jitter_ns,
            level: self.levels[k],
            chunks: self.chunks[k],
            room: task.cost.room_of(self.chunks[k], self.chunk_bytes),
            chunk_ns: if task.cost.streams { 0 } else { chunk_ns },
            step_ns: task.cost.step_ns,
            streams: task.cost.streams,
            ..Task::new(task.period_ns, task.cost.compute_ns)
        };
        let mut tasks: Vec<Task> = set.tasks.iter().enumerate().map(task).collect();
        set_reloads(&mut tasks, self.pool(set).unwrap_or(0));
        tasks
    }

    /// Whether the test for the order admits the set.
    pub fn verdict(&self, set: &TaskSet) -> Verdict {
        match self.policy {
            Policy::Classes => classes(&self.tasks(set)),
            Policy::Steps | Policy::Regions => demand_bound(&self.tasks(set)),
        }
    }

    /// Bounds for the responses of each task's jobs, from arrival to end, if the test admits the set. Without a better one, in
    /// other orders than by steps, that is the deadline.
    pub fn bounds(&self, set: &TaskSet) -> Option<Vec<u64>> {
        if !self.verdict(set).kept() {
            return None;
        }
        let deadlines = || set.tasks.iter().map(|task| task.deadline_ns).collect();
        let found = match self.policy {
            Policy::Steps => responses(&self.tasks(set)),
            Policy::Regions | Policy::Classes => None,
        };
        let late = |(ns, task): (u64, &super::Task)| ns.saturating_add(task.jitter_ns);
        Some(
            found.map_or_else(deadlines, |all| all.into_iter().zip(&set.tasks).map(late).collect()),
        )
    }

    /// Chunks that swapped chunks share.
    pub fn pool(&self, set: &TaskSet) -> Option<u32> {
        Units::new(set, self.chunk_bytes).pool(&self.chunks)
    }

    /// Bytes of memory that never leave it, with the records of chunks: a memory of fewer has no pool.
    pub fn stay_bytes(&self, set: &TaskSet) -> u64 {
        let stay = Units::new(set, self.chunk_bytes).stay(&self.chunks);
        stay.saturating_mul(self.chunk_bytes).saturating_add(records(set, self.chunk_bytes))
    }

    /// Bytes of a task that leave memory between its jobs.
    pub fn swapped_bytes(&self, task: usize) -> u64 {
        u64::from(self.chunks[task]) * self.chunk_bytes
    }
}
