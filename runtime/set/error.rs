//! Why there is no set, and why a job is given up.

use crate::executor::{ChunkError, InferError};
use crate::tasks::SetError;

/// Why tasks and networks make no set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskSetError {
    /// The scheduler refuses the tasks.
    Set(SetError),
    /// The task has another number of chunks than its network.
    Chunks {
        /// Which task.
        task: usize,
        /// Chunks of the task.
        asked: u32,
        /// Chunks of the network.
        has: u32,
    },
    /// Another number of the task's chunks is room than of its network's.
    Room {
        /// Which task.
        task: usize,
        /// Chunks of room that the task has.
        asked: u32,
        /// Chunks of room that the network has.
        has: u32,
    },
    /// The network's plan streams, and the task does not say so, or the other way round.
    Streams {
        /// Which task.
        task: usize,
    },
    /// The pool is another arena's than the network, which has chunks.
    Pool {
        /// Which task.
        task: usize,
    },
    /// The order by classes is for two engines, and the storage of this network, which has chunks, has no queue.
    OneEngine {
        /// Which task.
        task: usize,
    },
    /// The network is a GPU's: its steps are not done when they have been issued.
    Accelerator {
        /// Which task.
        task: usize,
    },
}

impl core::fmt::Display for TaskSetError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Set(error) => error.fmt(f),
            Self::Chunks { task, asked, has } => write!(
                f,
                "task {task}: it swaps {asked} chunks, its network was opened with {has}: open it with as many"
            ),
            Self::Room { task, asked, has } => write!(
                f,
                "task {task}: {asked} of its chunks are room, and {has} of its network's: take them from the network \
                 (`Task::of`)"
            ),
            Self::Streams { task } => write!(
                f,
                "task {task}: `streams` says otherwise than its network's plan: use the schedule of this plan"
            ),
            Self::Pool { task } => write!(
                f,
                "task {task}: the pool is not of the arena that its network was opened in: open all networks in one arena, \
                 and take its pool"
            ),
            Self::OneEngine { task } => write!(
                f,
                "task {task}: its storage has no queue, so that nothing computes while its chunks are read: use the order by \
                 steps instead of that by classes, or a storage with a queue"
            ),
            Self::Accelerator { task } => {
                write!(f, "task {task}: its network is a GPU's: a set computes on the processor")
            }
        }
    }
}

impl core::error::Error for TaskSetError {}

impl From<SetError> for TaskSetError {
    fn from(error: SetError) -> Self {
        Self::Set(error)
    }
}

/// Why a job is given up.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum JobError {
    /// A chunk did not come into memory.
    Chunk {
        /// Which chunk of the task.
        chunk: u32,
        /// The cause.
        error: ChunkError,
    },
    /// A step failed.
    Infer(InferError),
    /// The task was stopped, or the scope was left.
    Stopped,
}

impl core::fmt::Display for JobError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Chunk { chunk, error } => write!(f, "chunk {chunk}: {error}"),
            Self::Infer(error) => error.fmt(f),
            Self::Stopped => f.write_str("the task was stopped before its job had ended"),
        }
    }
}

impl core::error::Error for JobError {}
