//! Reads ONNX models: protobuf over a memory map, static shapes, folded constants.
//!
//! Weights are never copied: f32 data stay slices of the map of the model's file, or of the file beside
//! it that holds them. Only what an output needs is translated. Everything integer (shapes and what
//! exporters compute from them) is folded away; the graph that remains has floats and fixed shapes.
//!
//! A model is untrusted: whatever its bytes, the answer is a graph or an error, in bounded memory.

mod array;
mod attributes;
mod builder;
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

pub use memory::{IMPORT_MEMORY, OverMemory};

pub use error::{
    ImportError, NEWEST_OPSET, NodeProblem, OLDEST_OPSET, ShapeProblem, TensorProblem,
};
pub use external::external_files;

use crate::graph::{Graph, ValueId};
use builder::{Builder, Context, Operand};
use bytes::Bytes;
use data::{Data, External};
use memory::Allowance;
use onnx::{Dimension, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto};
use prost::Message;
use std::collections::HashMap;
use std::path::Path;

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
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    decode(bytes, Some(folder), Allowance::new(memory, FOLDING_OF_FILE))
}

/// Reads a model from memory. External data are looked for in `folder`, and refused without one.
///
/// Memory stays proportional to the bytes: constants that the model merely describes are limited.
pub fn import_bytes(bytes: Bytes, folder: Option<&Path>) -> Result<Graph, ImportError> {
    decode(bytes, folder, Allowance::new(MEMORY_OF_BYTES, FOLDING))
}

fn decode(bytes: Bytes, folder: Option<&Path>, allowance: Allowance) -> Result<Graph, ImportError> {
    file::check_frame(&bytes)?;
    let length = bytes.len();
    let model = ModelProto::decode(bytes)
        .map_err(|error| ImportError::Damaged { reason: error.to_string() })?;
    let opset = model.opset_import.iter().find(|set| matches!(&set.domain[..], "" | "ai.onnx"));
    let missing = |missing| ImportError::Incomplete { missing, bytes: length };
    let opset = opset.ok_or(missing("an operator set of ONNX itself"))?.version;
    if !(OLDEST_OPSET..=NEWEST_OPSET).contains(&opset) {
        return Err(ImportError::Opset { version: opset });
    }
    let graph = model.graph.as_ref().ok_or(missing("a graph"))?;
    Importer::new(graph, opset, folder, allowance).run()
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
    external: External<'a>,
    /// What names stand for: inputs, initializers read so far, outputs of translated nodes.
    names: HashMap<&'a str, Operand>,
    /// Outputs of translated nodes that are not computed: node and position.
    not_computed: HashMap<&'a str, (usize, usize)>,
    builder: Builder,
}

impl<'a> Importer<'a> {
    fn new(
        proto: &'a GraphProto,
        opset: i64,
        folder: Option<&'a Path>,
        allowance: Allowance,
    ) -> Self {
        let initializers =
            proto.initializer.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
        let graph = Graph { name: proto.name.clone(), ..Graph::default() };
        Self {
            proto,
            opset,
            initializers,
            external: External::new(folder),
            names: HashMap::new(),
            not_computed: HashMap::new(),
            builder: Builder { graph, allowance },
        }
    }

    fn run(mut self) -> Result<Graph, ImportError> {
        if self.proto.output.is_empty() {
            return Err(ImportError::NoOutputs);
        }
        // Older files list initializers among the inputs.
        for input in &self.proto.input {
            if !self.initializers.contains_key(input.name.as_str()) {
                let (value, operand) = self.input(input)?;
                self.builder.graph.inputs.push(value);
                self.names.insert(&input.name, operand);
            }
        }
        for index in order::needed(self.proto)? {
            self.node(index)?;
        }
        let mut outputs = vec![];
        for output in &self.proto.output {
            let reader = || format!("output `{}`", output.name);
            match self.lookup(&output.name, reader)? {
                Operand::Float(value) => outputs.push((output.name.clone(), value)),
                Operand::Integer(_) | Operand::Whole(_) => {
                    return Err(ImportError::IntegerOutput { output: output.name.clone() });
                }
            }
        }
        finish::finish(self.builder.graph, outputs)
    }

    /// Adds a graph input, whose shape must be fixed.
    fn input(&mut self, input: &ValueInfoProto) -> Result<(ValueId, Operand), ImportError> {
        let name = || input.name.clone();
        let tensor = input.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
        let tensor = tensor.ok_or_else(|| ImportError::NoShape { input: name() })?;
        let whole = data::is_index(tensor.elem_type);
        if !whole && !data::is_float(tensor.elem_type) {
            let given = data::type_name(tensor.elem_type);
            let quantized = matches!(&given[..], "INT8" | "UINT8");
            return Err(ImportError::InputType { input: name(), given, quantized });
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
        Ok((value, if whole { Operand::Whole(value) } else { Operand::Float(value) }))
    }

    /// What a name stands for; an initializer is read when it is first asked for.
    fn lookup(
        &mut self,
        name: &'a str,
        reader: impl Fn() -> String,
    ) -> Result<Operand, ImportError> {
        if let Some(operand) = self.names.get(name) {
            return Ok(operand.clone());
        }
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
        let operand = match data {
            Data::Float { shape, constant } => {
                self.builder.allowance.more_work(constant.len() * 4);
                Operand::Float(self.builder.value(name.into(), shape, Some(constant)))
            }
            Data::Integer(array) => self.builder.integers(array),
        };
        self.names.insert(name, operand.clone());
        Ok(operand)
    }

    /// Translates a node.
    fn node(&mut self, index: usize) -> Result<(), ImportError> {
        let proto = &self.proto.node[index];
        let name = node_name(proto, index);
        let mut inputs = Vec::with_capacity(proto.input.len());
        for input in &proto.input {
            inputs.push(match input.is_empty() {
                true => None,
                false => Some(self.lookup(input, || format!("node `{name}`"))?),
            });
        }
        let mut context = Context {
            proto,
            name: &name,
            opset: self.opset,
            inputs,
            builder: &mut self.builder,
            external: &mut self.external,
        };
        let made = ops::translate(&mut context).map_err(|problem| ImportError::Node {
            node: name.clone(),
            operator: proto.op_type.clone(),
            opset: self.opset,
            problem,
        })?;
        made.iter().for_each(|operand| self.builder.hold(operand));
        let mut made = made.into_iter();
        for (at, output) in proto.output.iter().enumerate() {
            match made.next() {
                _ if output.is_empty() => {}
                Some(operand) => drop(self.names.insert(output, operand)),
                None => drop(self.not_computed.insert(output, (index, at))),
            }
        }
        Ok(())
    }
}
