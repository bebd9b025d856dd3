//! Reads networks of Darknet: the text that describes the layers (`.cfg`), and the file of their
//! numbers (`.weights`).
//!
//! ```text
//! net.cfg ─ config ─▶ sections ─ layers ─▶ layers with shapes ─ emit ─▶ graph
//! net.weights ─ weights ─▶ header, slices of the memory map ───────────────┘
//! ```
//!
//! Weights are never copied: constants are slices of the map of their file. Both files are
//! untrusted: whatever their bytes, the answer is a graph or an error, in memory proportional to
//! the text.
//!
//! Layers compute what Darknet computes for one image in inference. A detector's heads (`[yolo]`,
//! `[region]`) become outputs of the network as they are before decoding; without a head the last
//! layer is the output.

mod activations;
mod config;
mod emit;
mod error;
mod keys;
mod layers;
mod sections;
#[cfg(test)]
mod tests;
mod weights;
mod windows;

pub use error::DarknetError;

use crate::graph::Graph;
use crate::open::map;
use bytes::Bytes;
use std::path::{Path, PathBuf};

/// Longest description that is read. Published ones have less than 100 KB.
const LONGEST: usize = 4 << 20;

/// Whether a path names a description of Darknet, by its extension.
pub fn is_config(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("cfg"))
}

/// Where the weights of a description are, unless its user says otherwise: next to it.
pub fn weights_of(config: &Path) -> PathBuf {
    config.with_extension("weights")
}

/// Reads the network of a description, with weights from the given file or from the one next to it.
///
/// Both files are mapped into memory, the weights for as long as the graph lives; they must not be
/// changed meanwhile.
pub fn import(config: &Path, weights: Option<&Path>) -> Result<Graph, DarknetError> {
    let text = map(config).map_err(|source| DarknetError::Open { path: config.into(), source })?;
    let weights = weights.map_or_else(|| weights_of(config), Path::to_path_buf);
    let numbers = map(&weights).map_err(|source| DarknetError::Weights { path: weights, source });
    let name = config.file_stem().unwrap_or_default().to_string_lossy();
    // What is wrong with the description counts first.
    let layers = described(&text)?;
    Ok(emit::graph(&name, &layers, weights::Numbers::new(numbers?, &layers)?))
}

/// Reads a network from memory.
pub fn import_bytes(name: &str, config: &[u8], weights: Bytes) -> Result<Graph, DarknetError> {
    let layers = described(config)?;
    Ok(emit::graph(name, &layers, weights::Numbers::new(weights, &layers)?))
}

/// Bytes of the weights that a description asks for, with the header that Darknet writes today.
pub fn weights_bytes(config: &[u8]) -> Result<u64, DarknetError> {
    Ok(weights::HEADER as u64 + 4 * described(config)?.numbers() as u64)
}

fn described(text: &[u8]) -> Result<layers::Layers, DarknetError> {
    if text.len() > LONGEST {
        return Err(DarknetError::Large { bytes: text.len(), limit: LONGEST });
    }
    // Comments may be in any encoding.
    sections::layers(&config::sections(&String::from_utf8_lossy(text))?)
}
