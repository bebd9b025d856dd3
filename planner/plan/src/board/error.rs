//! Why a board cannot be planned for.

use super::{Device, Memory};
use thiserror::Error;

/// Why there is no such board.
#[derive(Debug, Error)]
pub enum BoardError {
    #[error(
        "{variable} names the board that stands for this machine: {error}; correct it or unset it"
    )]
    Host { variable: &'static str, error: Box<BoardError> },
    #[error(transparent)]
    Find(#[from] eyelet_board::FindError),
    /// A fault in the description: file, line, key and reason.
    #[error(transparent)]
    File(#[from] eyelet_board::Error),
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
