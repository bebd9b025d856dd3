//! Why a board cannot be planned for.

use super::{Device, Memory};
use crate::profile::ProfileError;
use std::path::PathBuf;
use thiserror::Error;

/// Why there is no such board.
#[derive(Debug, Error)]
pub enum BoardError {
    #[error(
        "{variable} names the board that stands for this machine: {error}; correct it or unset it"
    )]
    Host { variable: &'static str, error: Box<BoardError> },
    #[error(
        "there is no board `{name}` and no such file; the boards are: {known}; or give the path of a \
         board.toml"
    )]
    Unknown { name: String, known: String },
    #[error("the board {path} cannot be read: {error}")]
    Read { path: PathBuf, error: std::io::Error },
    #[error("the board {name} is not as it should be: {error}")]
    Toml { name: String, error: toml::de::Error },
    #[error("the board {name}: {field} is missing or of another type; it must be {expected}")]
    Field { name: String, field: &'static str, expected: &'static str },
    #[error("the board {name}: page is {page}; it must be a power of two and at most {largest}")]
    Page { name: String, page: i64, largest: u64 },
    #[error("the board {name}: {error}")]
    Profile { name: String, error: ProfileError },
    #[error(
        "the board {name}: `{found}` is of a processor, and there is no [profile] of one; add it, or leave that out"
    )]
    Processor { name: String, found: String },
    #[error("the board {name}: gpu.{field} is `{found}`; it must be {expected}")]
    Gpu { name: String, field: &'static str, found: String, expected: &'static str },
    #[error(
        "the board {name}: costs of {} {} a transfer table: copies have a cost if, and only if, memory is staged \
         ([gpu.profile.transfer], or [gpu.staged.transfer] of a GPU that can do with both)",
        memory.name(), if *memory == Memory::Staged { "without" } else { "with" }
    )]
    Transfer { name: String, memory: Memory },
    #[error(
        "the board {name}: [gpu.profile] has costs of copies, and there is [gpu.staged]: that is what is different of costs \
         without copies; leave out one of them"
    )]
    Staged { name: String },
    #[error(
        "the board {name} has no costs of {}, its GPU's memory is {}: leave out --memory, or describe them in a board.toml",
        wanted.name(), memory.name()
    )]
    Memory { name: String, wanted: Memory, memory: Memory },
    #[error("--memory {} is for a GPU, and on the board {name} the processor computes: add --device cuda, or leave it out",
        memory.name())]
    NotOnProcessor { name: String, memory: Memory },
    #[error(
        "the board {name} has no {}; those that have one are: {known}; choose one of these with --board, or leave out \
         --device {}", device.noun(), device.name()
    )]
    Device { name: String, device: Device, known: String },
}
