//! Reads ONNX models: protobuf over a memory map, static shapes, folded constants.

pub mod onnx;
