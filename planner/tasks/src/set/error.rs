//! What is wrong with a set's file, and where.

use super::units::{human_bytes, human_ns};
use std::path::PathBuf;

/// A fault in a set: file, line, key and reason.
#[derive(Debug, thiserror::Error)]
#[error("{}:{line}: {key}: {reason}", file.display())]
pub struct SetError {
    pub file: PathBuf,
    pub line: usize,
    pub key: String,
    pub reason: Reason,
}

/// Why a value is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    #[error("{0}")]
    Syntax(String),
    #[error("{0}")]
    Quantity(String),
    #[error("it is zero: give a positive value")]
    Zero,
    #[error("{what}: {found} is too large: the most is {most}")]
    TooLarge { what: &'static str, found: u64, most: u64 },
    #[error(
        "the deadline of {} exceeds the period of {}: a job must end before the next may come",
        human_ns(*deadline_ns), human_ns(*period_ns)
    )]
    DeadlineBeyondPeriod { deadline_ns: u64, period_ns: u64 },
    #[error(
        "the jitter of {} leaves no time before the deadline of {}: give less jitter or a longer deadline",
        human_ns(*jitter_ns), human_ns(*deadline_ns)
    )]
    JitterBeyondDeadline { jitter_ns: u64, deadline_ns: u64 },
    #[error(
        "the longest step of {} exceeds all computing, {}: a step is a part of it",
        human_ns(*step_ns), human_ns(*compute_ns)
    )]
    StepBeyondComputing { step_ns: u64, compute_ns: u64 },
    #[error(
        "{} are swappable of {} in all: only what a network has can leave memory",
        human_bytes(*swappable), human_bytes(*bytes)
    )]
    SwappableBeyondBytes { swappable: u64, bytes: u64 },
    #[error(
        "the network alone needs {}, the memory has {}: plan it for a smaller budget or give more memory",
        human_bytes(*bytes), human_bytes(*memory)
    )]
    AloneTooLarge { bytes: u64, memory: u64 },
    #[error("{tasks} tasks with all instances: a set has 1 to {most}")]
    Tasks { tasks: u64, most: u64 },
    #[error("task {name:?} occurs twice: give each a name of its own")]
    Name { name: String },
    #[error(
        "give a table (at least compute and bytes), or pack, measured or model: {given} of these four are given"
    )]
    Source { given: usize },
    #[error("budgets are of a model: give model, or leave them out")]
    BudgetsWithoutModel,
    #[error(
        "the list has 0 sizes, and at least 1 is needed: give one such as 4MiB, or leave the key out"
    )]
    NoChunkSize,
    #[error(
        "a chunk of {} is more than the memory, {}: give smaller chunks, or more memory",
        human_bytes(*chunk), human_bytes(*memory)
    )]
    ChunkBeyondMemory { chunk: u64, memory: u64 },
    #[error(
        "what stays in memory takes {stay} bytes, and the memory has {memory}: give more memory, or decide again with \
         `eyelet schedule`"
    )]
    Stay { stay: u64, memory: u64 },
    #[error(
        "its level is lower than that of a task with a longer deadline: levels fall as deadlines grow, so decide again \
         with `eyelet schedule`"
    )]
    Level,
    #[error(
        "it has no place in an order by classes: there tasks with chunks share one level, the others have another one, and \
         none streams; decide again with `eyelet schedule`"
    )]
    Class,
    #[error(
        "with those of lower tasks that stream, {needed} chunks are needed at once, and the pool has {pool}: give more \
         memory, or decide again with `eyelet schedule`"
    )]
    ChunksBeyondPool { needed: u64, pool: u32 },
    #[error("{room} of its {chunks} chunks are room: all of a network that streams have to be")]
    Streams { room: u32, chunks: u32 },
    #[error("the task's chunks cannot be read in their order: {0}")]
    Unscheduled(eyelet::tasks::SetError),
    #[error("a task needs a name: give it one")]
    NoName,
    #[error("{path}: {error}", path = path.display())]
    Cost { path: PathBuf, error: String },
}
