//! Any bytes as a model: a graph or an error, in memory proportional to the bytes.

use bytes::Bytes;
use eyelet_planner::import::import_bytes;
use eyelet_planner::reference;

/// Returns whether the bytes are a model.
pub fn run(data: &[u8]) -> bool {
    let Ok(graph) = import_bytes(Bytes::copy_from_slice(data), None) else { return false };
    // A graph that was imported is consistent: it can be run, if it is small.
    if graph.values.iter().all(|value| value.elements() < 1 << 12) {
        let input = |id: &usize| vec![1.0; graph.values[*id].elements()];
        reference::run(&graph, &graph.inputs.iter().map(input).collect::<Vec<_>>());
    }
    true
}
