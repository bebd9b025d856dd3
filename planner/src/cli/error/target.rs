//! Errors of the options that say for which board to plan, and by which costs.

use eyelet_planner::board::Memory;
use eyelet_planner::size;
use std::path::PathBuf;

/// What is asked for does not go with the board or the costs.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error(
        "{}: the profile is for {profile}, and {other} {isa}; measure or choose another profile, or leave one of the two \
         out", path.display()
    )]
    ProfileOfOther { path: PathBuf, profile: &'static str, other: String, isa: &'static str },
    #[error(
        "{name} names no cores: give a board.toml with [cores], or a profile of a machine whose cores are of two kinds"
    )]
    NoCores { name: String },
    #[error(
        "{threads} threads are asked for, and the GPU of {board} computes in one stream: leave out --threads"
    )]
    ThreadsOfGpu { threads: u32, board: String },
    #[error(
        "the budget of {} is more than the board {board} gives a network, {}: give at most that, or give the regions \
         working and kept of its board.toml more", size::exact(*budget), size::exact(*bytes)
    )]
    BudgetOfBoard { budget: u64, board: String, bytes: u64 },
    #[error(
        "{}: its costs are of {}, and --memory is {}: leave out --memory, or give costs of that", path.display(),
        found.map_or("a processor", Memory::name), wanted.name()
    )]
    MemoryOfProfile { path: PathBuf, wanted: Memory, found: Option<Memory> },
}
