//! Arbitrary bytes as a model: the answer is a graph or an error, in memory proportional to the bytes.
//!
//! `cargo +nightly fuzz run import`, best with a few small models in `fuzz/corpus/import`.

#![no_main]

use bytes::Bytes;
use eyelet_planner::import::import_bytes;
use eyelet_planner::reference;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(graph) = import_bytes(Bytes::copy_from_slice(data), None) else { return };
    // What was imported is consistent: it can be run, if it is small.
    if graph.values.iter().all(|value| value.elements() < 1 << 12) {
        let input = |id: &usize| vec![1.0; graph.values[*id].elements()];
        reference::run(&graph, &graph.inputs.iter().map(input).collect::<Vec<_>>());
    }
});
