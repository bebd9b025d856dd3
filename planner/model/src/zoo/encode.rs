//! The ONNX file, written front to back; or Darknet's file of weights.
//!
//! Everything but the weights is a prost message. The weights, up to half a gigabyte, never exist in
//! memory: protobuf fields may come in any order, so the graph's initializers are appended to its
//! encoded rest, and each tensor's raw data to its encoded header, as they are generated.

use super::fill;
use super::model::{Initializer, Model};
use crate::import::onnx::{
    DataType, Dimension, DimensionProto, GraphProto, ModelProto, OperatorSetIdProto, TensorProto,
    TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use std::io::{self, Write};

const IR_VERSION: i64 = 8;
/// What a Darknet file of weights begins with: version 0.2.0, and 64 bits that count the images of its training.
const DARKNET: [u32; 5] = [0, 2, 0, 0, 0];

/// Field numbers of `onnx.proto`.
const MODEL_GRAPH: u32 = 7;
const GRAPH_INITIALIZER: u32 = 5;
const TENSOR_RAW_DATA: u32 = 9;

/// Writes `model` as ONNX, its weights drawn from `seed`; of a network of Darknet its file of weights.
pub fn encode(model: &Model, seed: u64, out: &mut impl Write) -> io::Result<()> {
    out.write_all(&head(model))?;
    for (stream, initializer) in model.initializers().iter().enumerate() {
        out.write_all(&tensor_head(model, initializer))?;
        let place = (seed, stream as u64);
        fill::write(initializer.fill, initializer.rows(), place, out)?;
    }
    Ok(())
}

impl Model {
    /// Length of the encoded file.
    pub fn encoded_bytes(&self) -> u64 {
        (head(self).len() + initializers_bytes(self)) as u64
    }
}

/// All up to the first initializer.
fn head(model: &Model) -> Vec<u8> {
    if model.config().is_some() {
        return DARKNET.iter().flat_map(|word| word.to_le_bytes()).collect();
    }
    let value = |name: &str, elem_type: DataType, shape: &[usize]| {
        let dim = |&extent: &usize| DimensionProto { value: Some(Dimension::Value(extent as i64)) };
        let shape = TensorShapeProto { dim: shape.iter().map(dim).collect() };
        let tensor = TensorTypeProto { elem_type: elem_type as i32, shape: Some(shape) };
        let r#type = Some(TypeProto { tensor_type: Some(tensor) });
        ValueInfoProto { name: name.to_string(), r#type }
    };
    let outputs = model.output_shapes().iter();
    let graph = GraphProto {
        node: model.nodes().to_vec(),
        name: model.name().to_string(),
        input: vec![value(model.input_name(), model.input_type(), model.input_shape())],
        output: outputs.map(|shape| value("output", DataType::Float, shape)).collect(),
        ..GraphProto::default()
    };
    let mut bytes = ModelProto {
        ir_version: IR_VERSION,
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: model.opset() }],
        producer_name: "eyelet zoo".to_string(),
        producer_version: env!("CARGO_PKG_VERSION").to_string(),
        ..ModelProto::default()
    }
    .encode_to_vec();
    length_delimited(MODEL_GRAPH, graph.encoded_len() + initializers_bytes(model), &mut bytes);
    bytes.extend(graph.encode_to_vec());
    bytes
}

fn initializers_bytes(model: &Model) -> usize {
    let bytes = |one: &Initializer| tensor_head(model, one).len() + one.elements() * 4;
    model.initializers().iter().map(bytes).sum()
}

/// An initializer up to its raw data. Those of Darknet have nothing else.
fn tensor_head(model: &Model, initializer: &Initializer) -> Vec<u8> {
    if model.config().is_some() {
        return Vec::new();
    }
    let tensor = TensorProto {
        dims: initializer.dims.iter().map(|&extent| extent as i64).collect(),
        data_type: DataType::Float as i32,
        name: initializer.name.clone(),
        ..Default::default()
    };
    let raw = initializer.elements() * 4;
    let raw_head = key_len(TENSOR_RAW_DATA) + encoded_len_varint(raw as u64);
    let mut bytes = Vec::new();
    length_delimited(GRAPH_INITIALIZER, tensor.encoded_len() + raw_head + raw, &mut bytes);
    bytes.extend(tensor.encode_to_vec());
    length_delimited(TENSOR_RAW_DATA, raw, &mut bytes);
    bytes
}

/// The key and length of a field whose content follows.
fn length_delimited(field: u32, length: usize, out: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(length as u64, out);
}
