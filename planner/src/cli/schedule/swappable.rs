//! Which bytes of a plan's arena may leave memory between two inferences, by the planner's own types.
//!
//! Activations and scratch are room, which holds nothing then. A plan that streams nothing can read all its weights again.
//! A plan that streams reads most weights anew anyway: what it does not keep is room, too. Tables always stay. The runtime
//! finds the same ([`chunks`](eyelet::proof::Proven::chunks)), and a pack that is written is compared with it.

use eyelet::pack::{PAGE, ring_bytes};
use eyelet_planner::network::Network;
use eyelet_planner::plan::Plan;
use eyelet_tasks::set::Swappable;
use std::ops::Range;

/// The most runs of weights: what lies in further ones stays in memory.
const MOST_RUNS: usize = 32;

/// Weights, and room.
pub fn swappable(network: &Network, plan: &Plan) -> [Swappable; 2] {
    let weights = match plan.loads.is_empty() {
        true => runs(plan, buffers(network, plan).chain(scratch(plan))),
        false => Vec::new(),
    };
    let weights = &weights[..weights.len().min(MOST_RUNS)];
    let room = runs(plan, residents(plan).chain(weights.iter().cloned()));
    let of = |runs: &[Range<u64>]| {
        Swappable::in_runs(runs.iter().map(|run| run.end - run.start).collect())
    };
    [of(weights), of(&room)]
}

/// The longest runs of whole pages in which nothing lies that is kept, in order of addresses.
fn runs(plan: &Plan, kept: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut kept: Vec<Range<u64>> = kept.filter(|range| !range.is_empty()).collect();
    kept.sort_by_key(|range| range.start);
    let end = plan.arena_bytes / PAGE * PAGE;
    let mut at = plan.tables.next_multiple_of(PAGE);
    let mut found = Vec::new();
    for range in kept {
        let until = (range.start / PAGE * PAGE).min(end);
        found.extend((at < until).then_some(at..until));
        at = at.max(range.end.next_multiple_of(PAGE));
    }
    found.extend((at < end).then_some(at..end));
    found
}

/// Where activations lie.
fn buffers<'a>(network: &'a Network, plan: &'a Plan) -> impl Iterator<Item = Range<u64>> + 'a {
    network.tensors.iter().map(|tensor| {
        let buffer = tensor.buffer as usize;
        let place = plan.places[buffer];
        let bytes = match place.lines {
            0 => network.buffers[buffer].bytes,
            lines => ring_bytes(lines, tensor.dims[2], tensor.pitch),
        };
        place.address..place.address + bytes
    })
}

fn scratch(plan: &Plan) -> impl Iterator<Item = Range<u64>> + '_ {
    plan.steps.iter().map(|step| step.scratch..step.scratch + step.scratch_bytes)
}

fn residents(plan: &Plan) -> impl Iterator<Item = Range<u64>> + '_ {
    plan.resident.iter().map(|load| load.address..load.address + u64::from(load.bytes))
}
