//! Plans for tests: everything in its own place, groups as they are given.

use crate::slice::{Cutting, slice};
use crate::slide::{Group, Sliding};
use eyelet::ops::{self, Problem, Slice};
use eyelet::pack::{Load, PAGE, Place, ring_bytes};
use eyelet_model::layout::place_weights;
use eyelet_model::network::Network;
use eyelet_model::plan::{Plan, step_weights};

/// A plan with everything in its own place, all weights resident.
pub fn plan(network: &mut Network, groups: &[Group]) -> (Plan, u64) {
    let weights_bytes = place_weights(network);
    let sliding = Sliding::new(network, groups.to_vec());
    // Layers that read their weights again are cut.
    let cutting =
        |layer| if sliding.reloads_weights(layer) { Cutting::equal(1) } else { Cutting::LAYERS };
    let slices = slice(network, &sliding, &network.on_load, cutting);
    let mut plan = Plan { steps: slices.steps, threads: 2, ..Plan::default() };
    let mut end = PAGE;
    let mut fresh = |bytes: u64| {
        end += bytes.next_multiple_of(PAGE);
        end - bytes.next_multiple_of(PAGE)
    };
    for (buffer, &lines) in sliding.rings.iter().enumerate() {
        let view = network.tensors.iter().find(|tensor| tensor.buffer as usize == buffer);
        let bytes = match view {
            Some(view) if lines > 0 => ring_bytes(lines, view.dims[2], view.pitch),
            _ => network.buffers[buffer].bytes,
        };
        plan.places.push(Place { address: fresh(bytes), lines });
    }
    let weights = fresh(weights_bytes);
    if weights_bytes > 0 {
        let bytes = weights_bytes as u32;
        plan.resident.push(Load { address: weights, bytes, ..Load::default() });
    }
    for step in &mut plan.steps {
        let layer = &network.layers[step.layer as usize];
        let record = |id: u32| network.tensors.get(id as usize).copied().unwrap_or_default();
        let (inputs, output) = (layer.inputs.map(record), record(layer.output));
        let bytes = ops::scratch_bytes(&Problem {
            layer,
            inputs: &inputs,
            output: &output,
            slice: Slice::from(&*step),
            threads: 2,
            isa: network.isa,
        });
        step.scratch_bytes = bytes.next_multiple_of(64);
        step.scratch = if bytes > 0 { fresh(step.scratch_bytes) } else { 0 };
        if step.count > 0 {
            step.weights = weights + step_weights(network, step).start;
        }
    }
    plan.arena_bytes = fresh(0);
    plan.budget = plan.arena_bytes;
    (plan, weights_bytes)
}
