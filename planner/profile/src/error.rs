//! Why a machine was not measured.

use crate::files;
use crate::measure::MeasureError;
use eyelet_plan::board::BoardError;
use std::io;
use std::path::PathBuf;

/// Why a machine was not measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("no file for the profile: give -o FILE.toml")]
    NoOutput,
    #[error(transparent)]
    Files(#[from] files::Error),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Board(#[from] BoardError),
    #[error(transparent)]
    Measure(#[from] MeasureError),
    #[error(
        "the board {board} needs kernels for {isa}, which this processor or build does not have; {}", match *isa {
            "cuda" => "only processors are measured",
            _ => "run `eyelet-profile` or `eyelet profile` on the board itself",
        }
    )]
    NotHere { board: String, isa: &'static str },
}
