//! Any bytes as a network of Darknet: a graph or an error, in memory proportional to the bytes.
//!
//! Two bytes give the length of the description; the weights follow it.

use bytes::Bytes;
use eyelet_planner::darknet::import_bytes;
use eyelet_planner::reference;

/// Returns whether the bytes are a network.
pub fn run(data: &[u8]) -> bool {
    let Some((length, rest)) = data.split_first_chunk() else { return false };
    let (config, weights) = rest.split_at(rest.len().min(u16::from_le_bytes(*length).into()));
    let Ok(graph) = import_bytes("net", config, Bytes::copy_from_slice(weights)) else {
        return false;
    };
    // A graph that was imported is consistent: it can be run, if it is small.
    if graph.values.iter().all(|value| value.elements() < 1 << 12) {
        let input = |id: &usize| vec![1.0; graph.values[*id].elements()];
        reference::run(&graph, &graph.inputs.iter().map(input).collect::<Vec<_>>());
    }
    true
}
