//! Tests on models that are built here, message by message.

mod composed;
mod computed;
mod constants;
mod control;
mod errors;
mod integers;
mod layout;
mod memory;
mod mutations;
mod norms;
mod operators;
mod options;
mod quantised;
mod recurrent;
mod resampling;
mod structure;
mod transformers;
mod windows;

use super::onnx::*;
use super::{ImportError, import_bytes};
use crate::graph::{Graph, Op};
use crate::reference;
use bytes::Bytes;
use prost::Message;

/// A model under construction.
#[derive(Clone)]
pub(super) struct Model(ModelProto);

pub(super) fn dimension(extent: i64) -> DimensionProto {
    DimensionProto { value: Some(Dimension::Value(extent)) }
}

pub(super) fn port(name: &str, elem_type: DataType, dim: Vec<DimensionProto>) -> ValueInfoProto {
    let shape = Some(TensorShapeProto { dim });
    let tensor_type = Some(TensorTypeProto { elem_type: elem_type as i32, shape });
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type }) }
}

pub(super) fn float_tensor(name: &str, dims: &[i64], data: &[f32]) -> TensorProto {
    let raw_data = data.iter().flat_map(|value| value.to_le_bytes()).collect();
    let data_type = DataType::Float as i32;
    TensorProto { name: name.into(), dims: dims.into(), data_type, raw_data, ..Default::default() }
}

pub(super) fn integer_tensor(name: &str, dims: &[i64], data: &[i64]) -> TensorProto {
    let data_type = DataType::Int64 as i32;
    let int64_data = data.into();
    TensorProto {
        name: name.into(),
        dims: dims.into(),
        data_type,
        int64_data,
        ..Default::default()
    }
}

fn attribute(name: &str, kind: AttributeType) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: kind as i32, ..Default::default() }
}

pub(super) fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { i, ..attribute(name, AttributeType::Int) }
}

pub(super) fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto { ints: ints.into(), ..attribute(name, AttributeType::Ints) }
}

pub(super) fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { f, ..attribute(name, AttributeType::Float) }
}

pub(super) fn floats(name: &str, floats: &[f32]) -> AttributeProto {
    AttributeProto { floats: floats.into(), ..attribute(name, AttributeType::Floats) }
}

pub(super) fn string(name: &str, text: &str) -> AttributeProto {
    let s = Bytes::copy_from_slice(text.as_bytes());
    AttributeProto { s, ..attribute(name, AttributeType::String) }
}

pub(super) fn tensor(name: &str, t: TensorProto) -> AttributeProto {
    AttributeProto { t: Some(t), ..attribute(name, AttributeType::Tensor) }
}

impl Model {
    pub fn new(opset: i64) -> Self {
        let opset = OperatorSetIdProto { domain: String::new(), version: opset };
        let graph = GraphProto { name: "test".into(), ..Default::default() };
        let (opset_import, graph) = (vec![opset], Some(graph));
        Self(ModelProto { ir_version: 8, opset_import, graph, ..Default::default() })
    }

    pub fn graph(&mut self) -> &mut GraphProto {
        self.0.graph.as_mut().expect("a graph")
    }

    /// A float input.
    pub fn input(mut self, name: &str, shape: &[i64]) -> Self {
        let dims = shape.iter().map(|&extent| dimension(extent)).collect();
        self.graph().input.push(port(name, DataType::Float, dims));
        self
    }

    pub fn initializer(mut self, tensor: TensorProto) -> Self {
        self.graph().initializer.push(tensor);
        self
    }

    /// A float initializer that counts up in steps of a quarter.
    pub fn weights(self, name: &str, dims: &[i64]) -> Self {
        let count = dims.iter().product::<i64>();
        let data: Vec<f32> = (0..count).map(|at| (at % 17) as f32 * 0.25 - 1.0).collect();
        self.initializer(float_tensor(name, dims, &data))
    }

    /// A vector of integers.
    pub fn list(self, name: &str, data: &[i64]) -> Self {
        self.initializer(integer_tensor(name, &[data.len() as i64], data))
    }

    /// A node; inputs and outputs are names divided by spaces, `-` an absent one.
    pub fn node(
        mut self,
        operator: &str,
        inputs: &str,
        outputs: &str,
        attribute: Vec<AttributeProto>,
    ) -> Self {
        let names = |list: &str| {
            list.split_whitespace().map(|name| name.replace('-', "")).collect::<Vec<String>>()
        };
        self.graph().node.push(NodeProto {
            op_type: operator.into(),
            input: names(inputs),
            output: names(outputs),
            attribute,
            ..Default::default()
        });
        self
    }

    pub fn output(mut self, name: &str) -> Self {
        self.graph().output.push(port(name, DataType::Float, vec![]));
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.0.encode_to_vec()
    }

    pub fn try_import(&self) -> Result<Graph, ImportError> {
        import_bytes(self.bytes().into(), None)
    }

    #[track_caller]
    pub fn import(&self) -> Graph {
        match self.try_import() {
            Ok(graph) => graph,
            Err(error) => panic!("{error}"),
        }
    }

    /// The text of the error that the import ends in.
    #[track_caller]
    pub fn error(&self) -> String {
        match self.try_import() {
            Ok(graph) => panic!("imported: {graph:?}"),
            Err(error) => error.to_string(),
        }
    }

    /// The single output for inputs that count up from 1.
    #[track_caller]
    pub fn run(&self) -> Vec<f64> {
        let graph = self.import();
        let counted = |id: &usize| (1..=graph.values[*id].elements()).map(|at| at as f64).collect();
        let inputs: Vec<Vec<f64>> = graph.inputs.iter().map(counted).collect();
        reference::run(&graph, &inputs).swap_remove(0)
    }
}

/// A model of one operator on `x` with output `y`.
pub(super) fn single(
    opset: i64,
    operator: &str,
    shape: &[i64],
    inputs: &str,
    attributes: Vec<AttributeProto>,
) -> Model {
    let model = Model::new(opset).input("x", shape);
    model.node(operator, inputs, "y", attributes).output("y")
}

/// The only node's operator, and its output's shape.
#[track_caller]
pub(super) fn only(model: &Model) -> (Op, Vec<usize>) {
    let graph = model.import();
    assert_eq!(graph.nodes.len(), 1, "{:?}", graph.nodes);
    (graph.nodes[0].op.clone(), graph.values[graph.outputs[0]].shape.clone())
}
