//! What can be wrong with a network of Darknet, said so that its owner can act on it.

use std::io;
use std::path::PathBuf;

/// Why a network could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DarknetError {
    #[error("cannot read the model {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },

    #[error("the description has {bytes} bytes, above the limit of {limit}; give a Darknet .cfg")]
    Large { bytes: usize, limit: usize },

    #[error("line {line}: `{text}` {reason}")]
    Line { line: usize, text: String, reason: &'static str },

    #[error("the description has no layers; give a Darknet .cfg, which begins with [net]")]
    Empty,

    #[error("line {line}: [{section}]: {reason}")]
    Section { line: usize, section: String, reason: String },

    #[error("line {line}: [{section}] {key}={value}: {reason}")]
    Key { line: usize, section: String, key: String, value: String, reason: String },

    #[error(
        "cannot read the weights {}: {source}; put them next to the .cfg with the extension .weights, or name them \
         with --weights-file", path.display()
    )]
    Weights { path: PathBuf, source: io::Error },

    #[error("the file of weights has {has} bytes, less than its header of {needs}; copy it again")]
    Header { has: usize, needs: usize },

    #[error(
        "the file of weights is truncated: the layers need {needs} bytes, but it has {has}, which end in [{section}] \
         (line {line}); copy it again, or give the .cfg that belongs to it"
    )]
    Truncated { needs: u64, has: u64, section: String, line: usize },

    #[error(
        "the file of weights has {has} bytes, but the layers need {needs}; give the .cfg that belongs to it"
    )]
    Longer { needs: u64, has: u64 },
}
