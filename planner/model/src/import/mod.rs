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
mod builder;
mod compose;
mod context;
mod data;
mod error;
mod external;
mod file;
mod finish;
mod memory;
pub mod onnx;
mod ops;
mod order;
#[cfg(test)]
mod tests;
mod types;

pub use memory::{IMPORT_MEMORY, OverMemory};

pub use blockers::{Blocker, Blockers};
pub use error::{
    ImportError, NEWEST_OPSET, NodeProblem, OLDEST_OPSET, ShapeProblem, TensorProblem,
};
pub use external::external_files;

use crate::graph::{Graph, ValueId};
use builder::{Builder, Operand};
use bytes::Bytes;
use context::{Context, Given};
use data::{Data, External};
use memory::Allowance;
use onnx::{DataType, Dimension, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto};
use prost::Message;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Elements that folding may touch in a model in memory; more with the bytes of the initializers read.
const FOLDING: usize = 1 << 24;
/// The same for a file that its user named: some make their weights by `ConstantOfShape`.
const FOLDING_OF_FILE: usize = 1 << 28;
/// Bytes of constants that import may make for a model in memory.
const MEMORY_OF_BYTES: u64 = 256 << 20;

/// Reads the model in a file.
///
/// The file is mapped into memory for as long as the graph lives; it must not be changed meanwhile.
pub fn import(path: &Path) -> Result<Graph, ImportError> {
    import_within(path, IMPORT_MEMORY)
}

/// Reads the model in a file, and makes constants of at most `memory` bytes.
pub fn import_within(path: &Path, memory: u64) -> Result<Graph, ImportError> {
    let bytes =
        file::map(path).map_err(|source| ImportError::Open { path: path.into(), source })?;
    let folder = |path: &Path| match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    // Of a link first the folder that it is in, then the one that it leads to.
    let mut folders = vec![folder(path)];
    if path.is_symlink() {
        folders.extend(path.canonicalize().ok().as_deref().map(folder));
    }
    decode(bytes, folders, Allowance::new(memory, FOLDING_OF_FILE))
}

/// Reads a model from memory. External data are looked for in `folder`, and refused without one.
///
/// Memory stays proportional to the bytes: constants that the model merely describes are limited.
pub fn import_bytes(bytes: Bytes, folder: Option<&Path>) -> Result<Graph, ImportError> {
    let folders = folder.map(Path::to_path_buf).into_iter().collect();
    decode(bytes, folders, Allowance::new(MEMORY_OF_BYTES, FOLDING))
}

fn decode(bytes: Bytes, folders: Vec<PathBuf>, allowance: Allowance) -> Result<Graph, ImportError> {
    file::check_frame(&bytes)?;
    let length = bytes.len();
    let model = ModelProto::decode(bytes)
        .map_err(|error| ImportError::Damaged { reason: error.to_string() })?;
    let opset = model.opset_import.iter().find(|set| matches!(&set.domain[..], "" | "ai.onnx"));
    let opset = opset.ok_or_else(|| ImportError::OtherOperators {
        sets: model.opset_import.iter().map(|set| format!("`{}`", set.domain)).collect(),
    })?;
    let opset = opset.version;
    if !(OLDEST_OPSET..=NEWEST_OPSET).contains(&opset) {
        return Err(ImportError::Opset { version: opset });
    }
    let incomplete = ImportError::Incomplete { missing: "a graph", bytes: length };
    let graph = model.graph.as_ref().ok_or(incomplete)?;
    Importer::new(graph, opset, folders, allowance).run()
}

/// The name a node goes by.
fn node_name(node: &NodeProto, index: usize) -> String {
    match node.name.is_empty() {
        true => format!("{}_{index}", node.op_type),
        false => node.name.clone(),
    }
}

/// An import in progress.
struct Importer<'a> {
    proto: &'a GraphProto,
    opset: i64,
    initializers: HashMap<&'a str, &'a TensorProto>,
    external: External,
    /// What names stand for: inputs, initializers read so far, outputs of translated nodes.
    names: HashMap<&'a str, Given>,
    /// Outputs of translated nodes that are not computed: node and position.
    not_computed: HashMap<&'a str, (usize, usize)>,
    builder: Builder,
    /// What is in the way so far.
    problems: Vec<ImportError>,
}

impl<'a> Importer<'a> {
    fn new(proto: &'a GraphProto, opset: i64, folders: Vec<PathBuf>, allowance: Allowance) -> Self {
        // Of several with one name the last counts, as for onnxruntime.
        let initializers =
            proto.initializer.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
        let graph = Graph { name: proto.name.clone(), ..Graph::default() };
        Self {
            proto,
            opset,
            initializers,
            external: External::new(folders),
            names: HashMap::new(),
            not_computed: HashMap::new(),
            builder: Builder::new(graph, allowance),
            problems: vec![],
        }
    }

    fn run(mut self) -> Result<Graph, ImportError> {
        if self.proto.output.is_empty() {
            return Err(ImportError::NoOutputs);
        }
        let order = order::needed(self.proto)?;
        // Older files list initializers among the inputs.
        for input in &self.proto.input {
            if !self.initializers.contains_key(input.name.as_str()) {
                let operand = self.input(input);
                let given = self.known(operand);
                self.names.insert(&input.name, given);
            }
        }
        for index in order {
            self.node(index);
        }
        let mut outputs = vec![];
        for output in &self.proto.output {
            let value = self.output(&output.name);
            match value {
                Ok(value) => outputs.extend(value.map(|value| (output.name.clone(), value))),
                Err(problem) => self.problems.push(problem),
            }
        }
        if !self.problems.is_empty() {
            return Err(ImportError::of(self.problems));
        }
        let mut graph = finish::finish(self.builder.graph, outputs);
        graph.notes.extend(of_doubles(&self.builder.doubles));
        Ok(graph)
    }

    /// What is found, or a problem and nothing known.
    fn known(&mut self, found: Result<Operand, ImportError>) -> Given {
        match found {
            Ok(operand) => Given::Known(operand),
            Err(problem) => {
                self.problems.push(problem);
                Given::Unknown
            }
        }
    }

    /// The value of an output, unless it is unknown. Integers are given as floats that are equal.
    fn output(&mut self, name: &'a str) -> Result<Option<ValueId>, ImportError> {
        let problem = |problem| ImportError::Output { output: name.into(), problem };
        let value = match self.lookup(name, || format!("output `{name}`")) {
            Given::Absent | Given::Unknown => return Ok(None),
            Given::Known(Operand::Float(_, value) | Operand::Whole(_, value)) => value,
            Given::Known(Operand::Integer(kind, array)) => {
                let floats = array.map(|bits| types::float_of(kind, bits, DataType::Float));
                let integers = array.data.iter().map(|&bits| types::wide(kind, bits));
                let mut pairs = integers.zip(&floats.data);
                if let Some((given, _)) = pairs.find(|&(given, &float)| float as i128 != given) {
                    return Err(problem(NodeProblem::Integer { given }));
                }
                self.builder.constant(name.into(), DataType::Float, floats)
            }
        };
        self.builder.check_range(&[Some(value)]).map_err(problem)?;
        let shape = self.builder.shape(value);
        match builder::check_flowing(shape) {
            Ok(()) => Ok(Some(value)),
            Err(problem) => {
                let (port, name, shape) = ("output", name.into(), shape.to_vec());
                Err(ImportError::PortShape { port, name, shape, problem })
            }
        }
    }

    /// Adds a graph input, whose shape must be fixed.
    fn input(&mut self, input: &ValueInfoProto) -> Result<Operand, ImportError> {
        let name = || input.name.clone();
        if self.names.contains_key(input.name.as_str()) {
            let (first, second) = ("an input".into(), "another input".into());
            return Err(ImportError::TwoProducers { value: name(), first, second });
        }
        let tensor = input.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
        let tensor = tensor.ok_or_else(|| ImportError::NoShape { input: name() })?;
        let kind = DataType::try_from(tensor.elem_type).unwrap_or(DataType::Undefined);
        let whole = types::is_index(kind);
        if !whole && !types::is_float(kind) {
            let given = types::type_name(tensor.elem_type);
            return Err(ImportError::InputType { input: name(), given });
        }
        let given = tensor.shape.as_ref().ok_or_else(|| ImportError::NoShape { input: name() })?;
        let mut shape = Vec::with_capacity(given.dim.len());
        for (dimension, dim) in given.dim.iter().enumerate() {
            let dynamic = |given| ImportError::DynamicShape { input: name(), dimension, given };
            match &dim.value {
                Some(Dimension::Value(extent)) if *extent > 0 => shape.push(*extent as usize),
                Some(Dimension::Value(extent)) => return Err(dynamic(extent.to_string())),
                Some(Dimension::Param(param)) => return Err(dynamic(format!("`{param}`"))),
                None => return Err(dynamic("unnamed".into())),
            }
        }
        builder::check_flowing(&shape).map_err(|problem| ImportError::PortShape {
            port: "input",
            name: name(),
            shape: shape.clone(),
            problem,
        })?;
        let value = self.builder.value(name(), shape, None);
        self.builder.graph.inputs.push(value);
        if kind == DataType::Double {
            self.builder.doubles.push(format!("input `{}`", input.name));
        }
        Ok(if whole { Operand::Whole(kind, value) } else { Operand::Float(kind, value) })
    }

    /// What a name stands for; an initializer is read when it is first asked for.
    fn lookup(&mut self, name: &'a str, reader: impl Fn() -> String) -> Given {
        if let Some(given) = self.names.get(name) {
            return given.clone();
        }
        let read = self.read(name, reader);
        let given = self.known(read);
        self.names.insert(name, given.clone());
        given
    }

    /// Reads an initializer.
    fn read(&mut self, name: &str, reader: impl Fn() -> String) -> Result<Operand, ImportError> {
        if let Some(&(node, index)) = self.not_computed.get(name) {
            let proto = &self.proto.node[node];
            return Err(ImportError::NotComputed {
                value: name.into(),
                reader: reader(),
                node: node_name(proto, node),
                operator: proto.op_type.clone(),
                index,
            });
        }
        let Some(tensor) = self.initializers.get(name) else {
            return Err(ImportError::Undefined { value: name.into(), reader: reader() });
        };
        let data = data::read(tensor, &mut self.external, &self.builder.allowance)
            .map_err(|problem| ImportError::Tensor { tensor: name.into(), problem })?;
        Ok(match data {
            Data::Float(kind, floats) => {
                self.builder.allowance.more_work(floats.constant.len() * 4);
                Operand::Float(kind, self.builder.floats(name.into(), floats))
            }
            Data::Integer(kind, array) => self.builder.integers(kind, array),
        })
    }

    /// Translates a node. What it makes is unknown if that fails, or if it reads what is unknown.
    fn node(&mut self, index: usize) {
        let proto = &self.proto.node[index];
        let name = node_name(proto, index);
        let made = ops::find(proto).and_then(|translate| self.translate(translate, proto, &name));
        let unknown = made.is_err();
        made.iter().flatten().for_each(|operand| self.builder.hold(operand));
        let mut made = match made {
            Ok(made) => made,
            Err(NodeProblem::Unknown) => vec![],
            Err(problem) => {
                let (operator, opset) = (proto.op_type.clone(), self.opset);
                self.problems.push(ImportError::Node { node: name, operator, opset, problem });
                vec![]
            }
        }
        .into_iter();
        for (at, output) in proto.output.iter().enumerate() {
            let given = match made.next() {
                _ if output.is_empty() => continue,
                Some(operand) => Given::Known(operand),
                None if unknown => Given::Unknown,
                None => {
                    self.not_computed.insert(output, (index, at));
                    continue;
                }
            };
            self.names.insert(output, given);
        }
    }

    fn translate(
        &mut self,
        translate: ops::Translate,
        proto: &'a NodeProto,
        name: &str,
    ) -> Result<Vec<Operand>, NodeProblem> {
        let mut inputs = Vec::with_capacity(proto.input.len());
        for input in &proto.input {
            inputs.push(match input.is_empty() {
                true => Given::Absent,
                false => self.lookup(input, || format!("node `{name}`")),
            });
        }
        let (opset, builder, external) = (self.opset, &mut self.builder, &mut self.external);
        translate(&mut Context { proto, name, opset, inputs, builder, external })
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
