//! Reads ONNX models: protobuf over a memory map, static shapes, folded constants.
//!
//! Weights are never copied: f32 data stay slices of the map of the model's file, or of the file beside
//! it that holds them. Only what an output needs is translated. Everything integer (shapes and what
//! exporters compute from them) is folded away; the graph that remains has floats and fixed shapes.
//!
//! A model is untrusted: whatever its bytes, the answer is a graph or an error, in bounded memory.

mod array;
mod attributes;
mod blockers;
mod body;
mod builder;
mod context;
mod data;
mod dimensions;
mod dynamic;
mod error;
mod external;
mod file;
mod finish;
mod foreign;
mod importer;
mod memory;
mod noise;
pub mod onnx;
mod ops;
mod options;
mod order;
mod ranges;
mod sparse;
#[cfg(test)]
mod tests;
mod types;

pub use memory::{IMPORT_MEMORY, OverMemory};

pub use blockers::Blocker;
pub use dynamic::{Dim, DynamicInput};
pub use error::{
    Blockers, ImportError, NEWEST_OPSET, NodeProblem, OLDEST_OPSET, ShapeProblem, TensorProblem,
};
pub use external::external_files;
pub use options::{OptionProblem, Options};

use crate::darknet;
use crate::graph::Graph;
use crate::open::map;
use bytes::Bytes;
use importer::Importer;
use memory::Allowance;
use onnx::{ModelProto, NodeProto};
use prost::Message;
use std::path::{Path, PathBuf};

/// Elements that folding may touch in a model in memory; more with the bytes of the initializers read.
const FOLDING: usize = 1 << 24;
/// The same for a file that its user named: some make their weights by `ConstantOfShape`.
const FOLDING_OF_FILE: usize = 1 << 28;
/// Bytes by which files of other formats are told.
const HEAD: usize = 1 << 16;
/// Bytes of constants that import may make for a model in memory.
const MEMORY_OF_BYTES: u64 = 256 << 20;

/// Reads the model in a file: a Darknet .cfg if it has that extension, ONNX otherwise.
///
/// The file is mapped into memory for as long as the graph lives; it must not be changed meanwhile.
pub fn import(path: &Path) -> Result<Graph, ImportError> {
    import_with(path, &Options::default())
}

/// Reads the model in a file, of which options fix what the model leaves open.
pub fn import_with(path: &Path, options: &Options) -> Result<Graph, ImportError> {
    options.fit(path)?;
    if darknet::is_config(path) {
        return Ok(darknet::import(path, options.weights.as_deref())?);
    }
    let bytes = map(path).map_err(|source| ImportError::Open { path: path.into(), source })?;
    let folder = |path: &Path| match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    // Of a link first the folder that it is in, then the one that it leads to.
    let mut folders = vec![folder(path)];
    if path.is_symlink() {
        folders.extend(path.canonicalize().ok().as_deref().map(folder));
    }
    let head = bytes.slice(..bytes.len().min(HEAD));
    decode(bytes, folders, options, FOLDING_OF_FILE)
        .map_err(|error| foreign::instead(path, &head, error))
}

/// Reads a model from memory. External data are looked for in `folder`, and refused without one.
///
/// Memory stays proportional to the bytes: constants that the model merely describes are limited.
pub fn import_bytes(bytes: Bytes, folder: Option<&Path>) -> Result<Graph, ImportError> {
    import_bytes_with(bytes, folder, &Options { memory: MEMORY_OF_BYTES, ..Options::default() })
}

/// Reads a model from memory, of which options fix what the model leaves open.
pub fn import_bytes_with(
    bytes: Bytes,
    folder: Option<&Path>,
    options: &Options,
) -> Result<Graph, ImportError> {
    let folders = folder.map(Path::to_path_buf).into_iter().collect();
    decode(bytes, folders, options, FOLDING)
}

fn decode(
    bytes: Bytes,
    folders: Vec<PathBuf>,
    options: &Options,
    folding: usize,
) -> Result<Graph, ImportError> {
    file::check_frame(&bytes)?;
    let length = bytes.len();
    let mut model = ModelProto::decode(bytes)
        .map_err(|error| ImportError::Damaged { reason: error.to_string() })?;
    let opset = model.opset_import.iter().find(|set| ops::is_standard_domain(&set.domain));
    let opset = opset.ok_or_else(|| ImportError::OtherOperators {
        sets: model.opset_import.iter().map(|set| format!("`{}`", set.domain)).collect(),
    })?;
    let opset = opset.version;
    if !(OLDEST_OPSET..=NEWEST_OPSET).contains(&opset) {
        return Err(ImportError::Opset { version: opset });
    }
    let incomplete = || ImportError::Incomplete { missing: "a graph", bytes: length };
    let mut allowance = Allowance::new(options.memory, folding);
    sparse::densify(model.graph.as_mut().ok_or_else(incomplete)?, &mut allowance)?;
    for function in &mut model.functions {
        sparse::nodes(&mut function.node, &mut allowance)?;
    }
    options.apply(model.graph.as_mut().ok_or_else(incomplete)?, &allowance)?;
    let graph = model.graph.as_ref().ok_or_else(incomplete)?;
    let importer = Importer::new(&model, graph, opset, folders, allowance);
    importer.run(!options.until.is_empty())
}

/// The name a node goes by.
fn node_name(node: &NodeProto, index: usize) -> String {
    match node.name.is_empty() {
        true => format!("{}_{index}", node.op_type),
        false => node.name.clone(),
    }
}

/// Says what the model computes in double precision and the graph in single.
fn of_doubles(doubles: &[String]) -> Option<String> {
    let [first, rest @ ..] = doubles else { return None };
    let more = match rest.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(format!(
        "the model computes in double precision ({first}{more}); here it is single precision, \
         and outputs agree to within its rounding"
    ))
}
