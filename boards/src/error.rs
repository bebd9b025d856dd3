//! Errors of descriptions, with their places.

use std::fmt;
use std::path::PathBuf;

/// A fault in a description: file, line, key and reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub file: String,
    /// From 1 on.
    pub line: usize,
    /// As in `memory[0].bytes`; empty where the file is no TOML.
    pub key: String,
    pub reason: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, key, reason } = self;
        match key.is_empty() {
            true => write!(f, "{file}:{line}: {reason}"),
            false => write!(f, "{file}:{line}: {key}: {reason}"),
        }
    }
}

impl std::error::Error for Error {}

/// Why there is no description.
#[derive(Debug)]
pub enum FindError {
    Unknown { name: String },
    NoFile { path: PathBuf, found: &'static str },
    TooLarge { path: PathBuf, bytes: u64, most: u64 },
    Read { path: PathBuf, error: std::io::Error },
}

impl fmt::Display for FindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name } => {
                let known: Vec<&str> = super::names().collect();
                write!(
                    f,
                    "there is no board `{name}` and no such file; the boards are: {}; or give the path of a board.toml",
                    known.join(", ")
                )
            }
            Self::NoFile { path, found } => {
                write!(f, "the board {} is {found}: give the path of a board.toml", path.display())
            }
            Self::TooLarge { path, bytes, most } => write!(
                f,
                "{} has {bytes} bytes, and a board.toml has at most {most}: give the path of a board.toml",
                path.display()
            ),
            Self::Read { path, error } => {
                write!(f, "the board {} cannot be read: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for FindError {}
