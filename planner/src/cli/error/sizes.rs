//! Errors of `eyelet sizes`.

use std::path::PathBuf;

/// Why an image could not be counted, or is too large.
#[derive(Debug, thiserror::Error)]
pub enum SizesError {
    #[error("{}: {reason}", path.display())]
    Image { path: PathBuf, reason: String },
    #[error(
        "the board {board} has no memories to compare an image with: describe them as [[memory]] in a board.toml"
    )]
    NoMemories { board: String },
    #[error("{}: {}", path.display(), over.join("; "))]
    Over { path: PathBuf, over: Vec<String> },
}
