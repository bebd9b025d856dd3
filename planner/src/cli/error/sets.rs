//! Errors of task sets: `eyelet schedule` and `eyelet serve`.

use super::exact_sizes;
use eyelet::executor::ChunkedError;
use eyelet::set::{SetFileError, TaskSetError};
use eyelet_planner::size;
use eyelet_tasks::set::decided::Wrong;
use std::path::PathBuf;

/// Why a set was not scheduled, written or served.
#[derive(Debug, thiserror::Error)]
pub enum SetsError {
    #[error("{}: the set is not schedulable; {change}", path.display())]
    NotSchedulable { path: PathBuf, change: String },
    #[error(
        "{}: it has {tasks} tasks, and {most} can be run at most: take some out", path.display()
    )]
    TooMany { path: PathBuf, tasks: usize, most: usize },
    #[error(
        "{option} {}: it is {what}, and no set that `eyelet schedule` wrote: give another name, such as set.pack, or remove it",
        path.display()
    )]
    NoSet { option: &'static str, path: PathBuf, what: &'static str },
    #[error(
        "{}: task {task:?} has neither a pack nor a model, so that there is nothing to run: give it one", path.display()
    )]
    NothingToRun { path: PathBuf, task: String },
    #[error(
        "{}: chunks of {chunk} bytes are no whole pages: give multiples of {page} bytes, such as {}B", path.display(),
        chunk.next_multiple_of(*page)
    )]
    ChunkOfPages { path: PathBuf, chunk: u64, page: u64 },
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: SetFileError },
    #[error("{}: {wrong}", path.display())]
    Decided { path: PathBuf, wrong: Wrong },
    #[error("{}: {reason}", path.display())]
    Serve { path: PathBuf, reason: String },
    #[error(
        "{}: it has no plan for the set's budget of {} exactly; it has plans for {}: decide again with `eyelet schedule \
         -o`", path.display(), size::exact(*budget), exact_sizes(plans)
    )]
    Budget { path: PathBuf, budget: u64, plans: Vec<u64> },
    #[error(
        "{}: task {task:?} was decided for a plan of {}, and its pack's plan takes {}: decide again with `eyelet schedule \
         -o`", path.display(), size::exact(*decided), size::exact(*found)
    )]
    OtherPack { path: PathBuf, task: String, decided: u64, found: u64 },
    #[error(
        "{}: task {task:?} was decided for a plan with streams = {decided}, and its pack's plan is one with streams = \
         {found}: decide again with `eyelet schedule -o`", path.display()
    )]
    OtherStreams { path: PathBuf, task: String, decided: bool, found: bool },
    #[error(
        "{}: task {task:?} was decided for {} chunks that leave memory, {} of them room, and of its pack's plan {} can, {} \
         of them room: decide again with `eyelet schedule -o`", path.display(), decided[0], decided[1], found[0], found[1]
    )]
    OtherChunks { path: PathBuf, task: String, decided: [u32; 2], found: [u32; 2] },
    #[error(
        "{}: its chunks may need {needed} mappings of memory, and the kernel gives a process {most}: raise that by `sysctl \
         vm.max_map_count={}`, or give larger chunks", path.display(), needed.next_multiple_of(1024)
    )]
    Mappings { path: PathBuf, needed: u64, most: u64 },
    #[error("{}: {source}", path.display())]
    Open { path: PathBuf, source: ChunkedError },
    #[error(
        "internal: a memory of {} leaves {found} chunks beside what stays, not {wanted}; please report this",
        size::exact(*memory)
    )]
    Pool { memory: u64, wanted: u32, found: u32 },
    #[error("internal: the set cannot be run: {0}; please report this")]
    Refused(TaskSetError),
    #[error(
        "{}: --rates divides the memory for each number of networks: give the set that this was made from",
        path.display()
    )]
    RatesOfDecided { path: PathBuf },
}
