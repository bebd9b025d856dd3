//! The last step of an import: outputs get their names, and what is not needed goes.

use crate::graph::{Graph, Node, Op, ValueId};
use eyelet::pack::PortType;

/// Completes the graph with its outputs, given by name.
pub(super) fn finish(mut graph: Graph, outputs: Vec<(String, ValueId, PortType)>) -> Graph {
    for (name, value, kind) in outputs {
        let value = named(&mut graph, name, value);
        if !graph.inputs.contains(&value) {
            graph.values[value].kind = kind;
        }
        graph.outputs.push(value);
    }
    prune(&mut graph);
    graph
}

/// The value as an output of this name. A value that a node computes takes the name (aliases such as
/// `Identity` left it the producer's); an input, a constant, or what is an output already is copied,
/// by a `Reshape` to its own shape.
fn named(graph: &mut Graph, name: String, value: ValueId) -> ValueId {
    if graph.values[value].name == name {
        return value;
    }
    let constant = graph.values[value].constant.is_some();
    let taken = graph.inputs.contains(&value) || graph.outputs.contains(&value);
    if !constant && !taken {
        graph.values[value].name = name;
        return value;
    }
    let mut copy = graph.values[value].clone();
    copy.name.clone_from(&name);
    graph.values.push(copy);
    let output = graph.values.len() - 1;
    if !constant {
        let inputs = vec![Some(value)];
        graph.nodes.push(Node { name, op: Op::Reshape, inputs, outputs: vec![output] });
    }
    output
}

/// Drops nodes whose outputs nobody reads, and values that nothing refers to.
fn prune(graph: &mut Graph) {
    let mut read = vec![false; graph.values.len()];
    graph.outputs.iter().for_each(|&value| read[value] = true);
    let mut keep = vec![false; graph.nodes.len()];
    for (index, node) in graph.nodes.iter().enumerate().rev() {
        keep[index] = node.outputs.iter().any(|&value| read[value]);
        if keep[index] {
            node.inputs.iter().flatten().for_each(|&value| read[value] = true);
        }
    }
    let mut kept = keep.iter();
    graph.nodes.retain(|_| *kept.next().unwrap_or(&false));

    graph.inputs.iter().for_each(|&value| read[value] = true);
    for node in &graph.nodes {
        node.outputs.iter().for_each(|&value| read[value] = true);
    }
    let mut new = vec![0; read.len()];
    let mut count = 0;
    for (value, &read) in read.iter().enumerate() {
        new[value] = count;
        count += usize::from(read);
    }
    let mut kept = read.iter();
    graph.values.retain(|_| *kept.next().unwrap_or(&false));
    let renumber = |value: &mut ValueId| *value = new[*value];
    graph.inputs.iter_mut().chain(&mut graph.outputs).for_each(renumber);
    for node in &mut graph.nodes {
        node.inputs.iter_mut().flatten().chain(&mut node.outputs).for_each(renumber);
    }
}
