//! Which nodes of the model are needed, and in which order.

use super::onnx::GraphProto;
use super::{ImportError, node_name};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// The nodes that the graph's outputs need, in topological order. Where the model's own order is
/// topological it stays; a model is not trusted to be so, nor to be free of cycles.
pub(super) fn needed(graph: &GraphProto) -> Result<Vec<usize>, ImportError> {
    let producer = producers(graph)?;
    let wanted = wanted(graph, &producer);

    // Forwards, always the first in the file of those that are ready.
    let mut waits = vec![0usize; graph.node.len()];
    let mut readers: Vec<Vec<usize>> = vec![vec![]; graph.node.len()];
    let mut ready = BinaryHeap::new();
    let mut count = 0;
    for index in (0..graph.node.len()).filter(|&index| wanted[index]) {
        count += 1;
        for input in &graph.node[index].input {
            if let Some(&from) = producer.get(input.as_str()) {
                waits[index] += 1;
                readers[from].push(index);
            }
        }
        if waits[index] == 0 {
            ready.push(Reverse(index));
        }
    }
    let mut order = Vec::with_capacity(count);
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for &reader in &readers[index] {
            waits[reader] -= 1;
            if waits[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    if order.len() < count {
        return Err(cycle(graph, &producer, &waits));
    }
    Ok(order)
}

/// The node that makes each value; only one may.
fn producers(graph: &GraphProto) -> Result<HashMap<&str, usize>, ImportError> {
    let named = |index: usize| format!("node `{}`", node_name(&graph.node[index], index));
    let mut producer: HashMap<&str, usize> = HashMap::new();
    for (index, node) in graph.node.iter().enumerate() {
        for output in node.output.iter().filter(|output| !output.is_empty()) {
            if let Some(first) = producer.insert(output, index) {
                return Err(ImportError::TwoProducers {
                    value: output.clone(),
                    first: named(first),
                    second: named(index),
                });
            }
        }
    }
    let inputs = graph.input.iter().map(|input| (&input.name, "an input"));
    let initializers = graph.initializer.iter().map(|tensor| (&tensor.name, "an initializer"));
    for (name, other) in inputs.chain(initializers) {
        if let Some(&node) = producer.get(name.as_str()) {
            return Err(ImportError::TwoProducers {
                value: name.clone(),
                first: other.into(),
                second: named(node),
            });
        }
    }
    Ok(producer)
}

/// Which nodes the outputs need, found backwards from them.
fn wanted(graph: &GraphProto, producer: &HashMap<&str, usize>) -> Vec<bool> {
    let mut wanted = vec![false; graph.node.len()];
    let mut open: Vec<usize> = graph
        .output
        .iter()
        .filter_map(|output| producer.get(output.name.as_str()))
        .copied()
        .collect();
    while let Some(index) = open.pop() {
        if !std::mem::replace(&mut wanted[index], true) {
            let inputs = graph.node[index].input.iter();
            open.extend(inputs.filter_map(|input| producer.get(input.as_str())));
        }
    }
    wanted
}

/// Names a node on a cycle: whoever waits reads from someone who waits, so walking back ends in one.
fn cycle(graph: &GraphProto, producer: &HashMap<&str, usize>, waits: &[usize]) -> ImportError {
    let mut seen = vec![false; graph.node.len()];
    let mut index = waits.iter().position(|&count| count > 0).unwrap_or(0);
    let mut value = String::new();
    while !std::mem::replace(&mut seen[index], true) {
        let inputs = graph.node[index].input.iter();
        let mut waiting = inputs.filter_map(|name| Some((name, *producer.get(name.as_str())?)));
        if let Some((name, from)) = waiting.find(|&(_, from)| waits[from] > 0) {
            value = name.clone();
            index = from;
        }
    }
    ImportError::Cycle { node: node_name(&graph.node[index], index), value }
}
