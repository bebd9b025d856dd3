//! Nodes with names of their own: the model's graph, a graph that a node has as its attribute, a function.

use super::onnx::{FunctionProto, GraphProto, NodeProto, TensorProto};
use std::collections::HashSet;

/// Nodes, and what they read and make by name.
#[derive(Clone, Debug)]
pub(super) struct Body<'a> {
    pub nodes: &'a [NodeProto],
    pub inputs: Vec<&'a str>,
    pub outputs: Vec<&'a str>,
    pub initializers: &'a [TensorProto],
}

impl<'a> Body<'a> {
    pub fn of_graph(graph: &'a GraphProto) -> Self {
        Self {
            nodes: &graph.node,
            inputs: graph.input.iter().map(|input| input.name.as_str()).collect(),
            outputs: graph.output.iter().map(|output| output.name.as_str()).collect(),
            initializers: &graph.initializer,
        }
    }

    pub fn of_function(function: &'a FunctionProto) -> Self {
        Self {
            nodes: &function.node,
            inputs: function.input.iter().map(String::as_str).collect(),
            outputs: function.output.iter().map(String::as_str).collect(),
            initializers: &[],
        }
    }
}

/// All names that a node reads: its inputs, and what the graphs that it has read from outside.
pub(super) fn reads(node: &NodeProto) -> Vec<&str> {
    let mut names: Vec<&str> = node.input.iter().map(String::as_str).collect();
    names.extend(graphs(node).flat_map(captured));
    names.retain(|name| !name.is_empty());
    names
}

fn graphs(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    node.attribute.iter().filter_map(|attribute| attribute.g.as_deref())
}

/// The names that a graph reads and does not define itself. How deep graphs are in one another is limited by the decoder.
fn captured(graph: &GraphProto) -> Vec<&str> {
    let mut own: HashSet<&str> = graph.input.iter().map(|input| input.name.as_str()).collect();
    own.extend(graph.initializer.iter().map(|tensor| tensor.name.as_str()));
    own.extend(graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str)));
    let mut names: Vec<&str> = graph.node.iter().flat_map(reads).collect();
    names.extend(graph.output.iter().map(|output| output.name.as_str()));
    names.retain(|name| !own.contains(name));
    names
}
