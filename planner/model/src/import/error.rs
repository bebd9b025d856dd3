//! What can be wrong with a model, said so that its owner can act on it.

use super::dynamic::{self, DynamicInput};
use super::memory::OverMemory;
use super::onnx::DataType;
use super::options::OptionProblem;
use super::types;
use crate::darknet::DarknetError;
use std::path::PathBuf;
use thiserror::Error;

/// The oldest operator set that is read.
pub const OLDEST_OPSET: i64 = 6;
/// The newest operator set that is read.
pub const NEWEST_OPSET: i64 = 28;

/// Several reasons why a model could not be imported.
#[derive(Debug)]
pub struct Blockers(pub(super) Vec<ImportError>);

/// Why a model could not be imported.
#[derive(Debug, Error)]
pub enum ImportError {
    #[error("cannot read the model {}: {source}", path.display())]
    Open { path: PathBuf, source: std::io::Error },

    #[error("the file is not an ONNX model: {reason}")]
    NotOnnx { reason: String },

    #[error("the file is {format}, not an ONNX model; {advice}")]
    Foreign { format: &'static str, advice: &'static str },

    #[error(
        "the ONNX file is truncated: its {field} at byte {at} needs {needs} bytes, but only {has} are left; \
         copy or export the model again"
    )]
    Truncated { field: &'static str, at: usize, needs: u64, has: usize },

    #[error(
        "the ONNX file is truncated: it ends after {bytes} bytes without {missing}; copy or export the model again"
    )]
    Incomplete { missing: &'static str, bytes: usize },

    #[error(
        "the model uses the operator sets {} alone, and none of ONNX's own, which are supported; \
         export the model with standard ONNX operators", sets.join(", ")
    )]
    OtherOperators { sets: Vec<String> },

    #[error("the ONNX file is damaged: {reason}; copy or export the model again")]
    Damaged { reason: String },

    #[error(
        "the model uses operator set {version}, supported are {OLDEST_OPSET} to {NEWEST_OPSET}; \
         export it with one of these, or convert it with onnx.version_converter"
    )]
    Opset { version: i64 },

    #[error(
        "plans are made for fixed shapes, and {} of the model's {} not fixed: {}; give {}, with your own numbers: {}",
        inputs.len(), if inputs.len() == 1 { "inputs is" } else { "inputs are" }, dynamic::list(inputs),
        if inputs.len() == 1 { "its dimensions" } else { "their dimensions" }, dynamic::options(inputs)
    )]
    Dynamic { inputs: Vec<DynamicInput> },

    #[error("input `{input}` is no tensor; export the model with tensors as inputs")]
    NoTensor { input: String },

    #[error(transparent)]
    Option(#[from] OptionProblem),

    #[error(
        "input `{input}` has the type {given}, but inputs must be floats, integers or truth values; \
         export the model with such an input"
    )]
    InputType { input: String, given: String },

    #[error("{port} `{name}` has the shape {shape:?}: {problem}")]
    PortShape { port: &'static str, name: String, shape: Vec<usize>, problem: ShapeProblem },

    #[error("tensor `{tensor}`: {problem}")]
    Tensor { tensor: String, problem: TensorProblem },

    #[error("node `{node}`: operator `{operator}` (opset {opset}): {problem}")]
    Node { node: String, operator: String, opset: i64, problem: NodeProblem },

    #[error(
        "{first} and {second} both produce `{value}`; a value has one producer: export the model again"
    )]
    TwoProducers { value: String, first: String, second: String },

    #[error(
        "node `{node}` needs its own result: the graph has a cycle through `{value}`; export the model again"
    )]
    Cycle { node: String, value: String },

    #[error(
        "{reader} reads `{value}`, output {index} of node `{node}` (`{operator}`), which is not computed; \
         export the model for inference, or cut it before this node"
    )]
    NotComputed { value: String, reader: String, node: String, operator: String, index: usize },

    #[error(
        "{reader} reads `{value}`, which nothing produces; the model is incomplete: export it again"
    )]
    Undefined { value: String, reader: String },

    #[error("the graph has no outputs; export a model that computes something")]
    NoOutputs,

    #[error(
        "no output has an element: {outputs}; give the inputs other extents (--dim NAME=N, --shape NAME=N,N)"
    )]
    Empty { outputs: String },

    #[error("output `{output}`: {problem}")]
    Output { output: String, problem: NodeProblem },

    #[error(transparent)]
    Darknet(#[from] DarknetError),

    #[error("{0}")]
    Blocked(Blockers),
}

/// What is wrong with a shape.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ShapeProblem {
    #[error("dimension {0} is empty; a tensor that flows needs at least one element")]
    Empty(usize),
    #[error("rank {0} is above 8")]
    Rank(usize),
    #[error("more than 2^40 elements")]
    Large,
}

/// Why a constant tensor cannot be read.
#[derive(Debug, Error)]
pub enum TensorProblem {
    #[error("dimension {dimension} is {given}; the file is damaged")]
    Dimension { dimension: usize, given: i64 },

    #[error("the shape {dims:?} has too many elements")]
    Large { dims: Vec<i64> },

    #[error(
        "its shape {dims:?} needs {needs} bytes, but the file holds {has}; the model is truncated or damaged"
    )]
    Bytes { dims: Vec<i64>, needs: usize, has: usize },

    #[error(
        "its shape {dims:?} needs {needs} values, but the file holds {has}; the model is truncated or damaged"
    )]
    Values { dims: Vec<i64>, needs: usize, has: usize },

    #[error("the type {0} is not supported; export the model with float weights")]
    Type(String),

    #[error("it is sparse, and {0}; the model is invalid: export it again, with dense tensors")]
    Sparse(String),

    #[error("an element does not fit a 64-bit signed integer")]
    Integer,

    #[error(transparent)]
    Memory(#[from] OverMemory),

    #[error("its data are external, but no `location` says where; export the model again")]
    NoLocation,

    #[error(
        "its external data have the {key} `{given}`, which is not a number of bytes; export the model again"
    )]
    Number { key: &'static str, given: String },

    #[error("its external data lie in `{location}`, but the model was not read from a folder")]
    NoFolder { location: String },

    #[error(
        "its external data lie in `{location}`, outside the model's folder; \
         put the file beside the model and save it with a plain file name as location"
    )]
    Outside { location: String },

    #[error("its external data cannot be read from {}: {source}; put the file beside the model", path.display())]
    External { path: PathBuf, source: std::io::Error },

    #[error(
        "its external data are bytes {offset} to {end} of {}, which has only {has} bytes; copy the file again",
        path.display()
    )]
    ExternalShort { path: PathBuf, offset: u64, end: u64, has: usize },
}

/// What is wrong with a node. Printed behind the node's name, operator and opset.
#[derive(Debug, Error)]
pub enum NodeProblem {
    #[error("not supported; {0}")]
    Unsupported(String),

    #[error("attribute `{attribute}` {problem}")]
    Attribute { attribute: String, problem: String },

    #[error("input {index} (`{role}`) is missing; the model is invalid: export it again")]
    Missing { index: usize, role: &'static str },

    #[error(
        "`{role}` must be constant, but `{value}` is computed; if it is or follows from an input, fix that \
         (--constant NAME=VALUE), else export the model with constant folding, or simplify it with onnxsim"
    )]
    NotConstant { role: &'static str, value: String },

    #[error(
        "how many elements it makes follows from `{value}`, which is computed, and {what} must be constant; fix the \
         input that it follows from (--constant NAME=VALUE){}{until}",
        if until.is_empty() { "" } else { ", or cut the model before this node: " }
    )]
    Length {
        what: &'static str,
        value: String,
        /// The options that cut the model at all tensors from which the rest follows; none where these are inputs.
        until: String,
    },

    #[error("`{role}` must be {wanted}, but its type is {given}; {}", match *wanted {
        "floats" => "export the model so that it computes in floats",
        _ => "the model is invalid: export it again",
    })]
    Type { role: &'static str, wanted: &'static str, given: String },

    #[error(
        "its operands have the types {first} and {other}; the model is invalid: export it again"
    )]
    Mixed { first: String, other: String },

    #[error(
        "`{value}` has {given:e} in double precision, which single precision cannot hold; \
         export the model in single precision (model.float())"
    )]
    Range { value: String, given: f64 },

    #[error("{0}")]
    Shape(String),

    #[error("output `{value}`: {problem}")]
    Output { value: String, problem: ShapeProblem },

    #[error(
        "folding this constant takes too much work ({work} elements, {left} left); simplify the model with onnxsim"
    )]
    Folding { work: usize, left: usize },

    #[error(transparent)]
    Memory(#[from] OverMemory),

    #[error(
        "an integer of its constants is {given}, and integers that flow have 32 bits (up to 2147483647); \
         cut the model before it, or fold it"
    )]
    Integer { given: i128 },

    /// It reads what could not be translated: nothing is known of it, and nothing is wrong with it.
    #[error("what it reads is unknown")]
    Unknown,

    #[error("in its constant: {0}")]
    Tensor(#[from] TensorProblem),
}

impl NodeProblem {
    /// An attribute that cannot be what it is.
    pub fn attribute(attribute: &str, problem: impl Into<String>) -> Self {
        NodeProblem::Attribute { attribute: attribute.into(), problem: problem.into() }
    }

    /// Shapes (or an axis, or an index) that do not fit together.
    pub fn shape(problem: impl Into<String>) -> Self {
        NodeProblem::Shape(problem.into())
    }

    /// A tensor of a type that does not fit.
    pub fn wrong_type(role: &'static str, wanted: &'static str, given: DataType) -> Self {
        NodeProblem::Type { role, wanted, given: types::name(given) }
    }

    /// Operands of two types where one is expected.
    pub fn mixed(first: DataType, other: DataType) -> Self {
        NodeProblem::Mixed { first: types::name(first), other: types::name(other) }
    }

    /// A result whose length follows from what is computed.
    pub fn length(what: &'static str, value: String) -> Self {
        NodeProblem::Length { what, value, until: String::new() }
    }

    /// Not supported, with what to do.
    pub fn unsupported(advice: impl Into<String>) -> Self {
        NodeProblem::Unsupported(advice.into())
    }
}
