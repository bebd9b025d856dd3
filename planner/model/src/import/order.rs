//! Which nodes of the model are needed, and in which order.

use super::body::{Body, reads};
use super::{ImportError, node_name};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// The nodes that a body's outputs need, in topological order. Where the model's own order is
/// topological it stays; a model is not trusted to be so, nor to be free of cycles.
pub(super) fn needed(body: &Body<'_>) -> Result<Vec<usize>, ImportError> {
    let producer = producers(body)?;
    let wanted = wanted(body, &producer);

    // Forwards, always the first in the file of those that are ready.
    let mut waits = vec![0usize; body.nodes.len()];
    let mut readers: Vec<Vec<usize>> = vec![vec![]; body.nodes.len()];
    let mut ready = BinaryHeap::new();
    let mut count = 0;
    for index in (0..body.nodes.len()).filter(|&index| wanted[index]) {
        count += 1;
        for input in reads(&body.nodes[index]) {
            if let Some(&from) = producer.get(input) {
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
        return Err(cycle(body, &producer, &waits));
    }
    Ok(order)
}

/// The node that makes each value; only one may.
fn producers<'a>(body: &Body<'a>) -> Result<HashMap<&'a str, usize>, ImportError> {
    let named = |index: usize| format!("node `{}`", node_name(&body.nodes[index], index));
    let mut producer: HashMap<&str, usize> = HashMap::new();
    for (index, node) in body.nodes.iter().enumerate() {
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
    let inputs = body.inputs.iter().map(|&input| (input, "an input"));
    let initializers = body.initializers.iter().map(|one| (one.name.as_str(), "an initializer"));
    for (name, other) in inputs.chain(initializers) {
        if let Some(&node) = producer.get(name) {
            return Err(ImportError::TwoProducers {
                value: name.into(),
                first: other.into(),
                second: named(node),
            });
        }
    }
    Ok(producer)
}

/// Which nodes the outputs need, found backwards from them.
fn wanted(body: &Body<'_>, producer: &HashMap<&str, usize>) -> Vec<bool> {
    let mut wanted = vec![false; body.nodes.len()];
    let mut open: Vec<usize> =
        body.outputs.iter().filter_map(|output| producer.get(output)).copied().collect();
    while let Some(index) = open.pop() {
        if !std::mem::replace(&mut wanted[index], true) {
            let inputs = reads(&body.nodes[index]).into_iter();
            open.extend(inputs.filter_map(|input| producer.get(input)));
        }
    }
    wanted
}

/// Names a node on a cycle: whoever waits reads from someone who waits, so walking back ends in one.
fn cycle(body: &Body<'_>, producer: &HashMap<&str, usize>, waits: &[usize]) -> ImportError {
    let mut seen = vec![false; body.nodes.len()];
    let mut index = waits.iter().position(|&count| count > 0).unwrap_or(0);
    let mut value = String::new();
    while !std::mem::replace(&mut seen[index], true) {
        let inputs = reads(&body.nodes[index]).into_iter();
        let mut waiting = inputs.filter_map(|name| Some((name, *producer.get(name)?)));
        if let Some((name, from)) = waiting.find(|&(_, from)| waits[from] > 0) {
            value = name.into();
            index = from;
        }
    }
    ImportError::Cycle { node: node_name(&body.nodes[index], index), value }
}
