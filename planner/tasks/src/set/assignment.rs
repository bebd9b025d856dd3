//! What was decided for a set: chunk size, swap volumes and preemption levels.

use super::TaskSet;
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
    /// Each task's swappable memory, rounded down.
    pub swappable: Vec<u32>,
}

impl Units {
    pub fn new(set: &TaskSet, chunk_bytes: u64) -> Self {
        let swappable = |bytes: u64| u32::try_from(bytes / chunk_bytes).unwrap_or(u32::MAX);
        Self {
            chunk_bytes,
            memory: set.memory_bytes / chunk_bytes,
            whole: set.tasks.iter().map(|task| task.cost.bytes.div_ceil(chunk_bytes)).collect(),
            swappable: set.tasks.iter().map(|task| swappable(task.cost.swappable_bytes)).collect(),
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
        let stay: u64 = self
            .whole
            .iter()
            .zip(chunks)
            .map(|(&whole, &x)| whole.saturating_sub(u64::from(x)))
            .sum();
        let left = self.memory.checked_sub(stay)?;
        Some(u32::try_from(left).unwrap_or(u32::MAX))
    }
}

impl Assignment {
    /// The tasks as scheduler and test see them. Deadlines count from the release, so that jitter shortens them.
    pub fn tasks(&self, set: &TaskSet) -> Vec<Task> {
        let chunk_ns = set.storage.chunk_ns(self.chunk_bytes);
        let task = |(k, task): (usize, &super::Task)| Task {
            period_ns: task.period_ns,
            deadline_ns: task.deadline_ns.saturating_sub(task.jitter_ns),
            jitter_ns: task.jitter_ns,
            level: self.levels[k],
            chunks: self.chunks[k],
            chunk_ns: if task.cost.streams { 0 } else { chunk_ns },
            compute_ns: task.cost.compute_ns,
            step_ns: task.cost.step_ns,
            streams: task.cost.streams,
            reload_ns: 0,
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

    /// Chunks that swapped chunks share.
    pub fn pool(&self, set: &TaskSet) -> Option<u32> {
        Units::new(set, self.chunk_bytes).pool(&self.chunks)
    }

    /// Bytes of a task that leave memory between its jobs.
    pub fn swapped_bytes(&self, task: usize) -> u64 {
        u64::from(self.chunks[task]) * self.chunk_bytes
    }
}
