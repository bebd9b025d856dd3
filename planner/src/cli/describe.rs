//! Steps, loads and layers in words, for what draws plans.

use eyelet::pack::{Load, Region, Step};
use eyelet_planner::network::Network;
use eyelet_planner::ops;
use eyelet_planner::plan::{Plan, step_weights};
use std::collections::{BTreeMap, HashMap};

/// The algorithm that computes a step: its layer's, or its own with weights that it transforms.
pub fn algorithm_of(network: &Network, step: &Step) -> String {
    match step.algorithm() {
        0 => ops::algorithm(&network.layers[step.layer as usize]),
        tile => format!("Winograd F({tile},3) on load"),
    }
}

/// What a step computes: its layer's name, and which of its panels, rows and chains of sums where that is not all.
pub fn step(network: &Network, step: &Step) -> String {
    let layer = &network.layers[step.layer as usize];
    let rows = network.tensors[layer.output as usize].rows();
    let part = |what: &str, first: u32, count: u32, all: u64| match count {
        count if u64::from(count) >= all => String::new(),
        1 => format!(", {what} {first}"),
        count => format!(", {what}s {first}–{}", first + count - 1),
    };
    let panels = part("panel", step.first, step.count, layer.panels.into());
    let rows = part("row", step.row, step.rows, rows);
    let chains = match step.chains() {
        0 => String::new(),
        count => part("chain", step.chain(), count, u64::MAX),
    };
    format!("{}{panels}{rows}{chains}", network.names[step.layer as usize])
}

/// Finds the steps that read the weights of some loads of a plan, as indices: of each the load, and where in it they begin. A
/// streamed load serves only steps that wait for it.
fn each_reader(
    network: &Network,
    plan: &Plan,
    loads: &[Load],
    serves: impl Fn(usize, &Step) -> bool,
    mut found: impl FnMut(usize, usize, u64),
) {
    // A step reads loads whose bytes lie where it looks for them: address and offset differ by the same.
    let shift = |address: u64, offset: u64| address.wrapping_sub(offset);
    let mut by_shift = HashMap::<u64, Vec<usize>>::new();
    for (index, load) in loads.iter().enumerate() {
        by_shift.entry(shift(load.address, load.offset)).or_default().push(index);
    }
    // Residents come in an order that plans share, not by what they hold.
    for there in by_shift.values_mut() {
        there.sort_by_key(|&index| (loads[index].offset, index));
    }
    for (number, step) in plan.steps.iter().enumerate() {
        let weights = step_weights(network, step);
        let there = by_shift.get(&shift(step.weights, weights.start));
        let is_loaded = !weights.is_empty() && step.weights_in == Region::Arena;
        let Some(there) = there.filter(|_| is_loaded) else {
            continue;
        };
        // Of several loads of the same bytes the last counts.
        let mut open = weights.end;
        for &index in there.iter().rev().filter(|index| serves(**index, step)) {
            let (start, end) =
                (loads[index].offset, loads[index].offset + u64::from(loads[index].bytes));
            // Pages begin before the weights that are looked for, also those of loads that need not be looked at any more.
            if weights.start < open && start < open && weights.start < end {
                open = start.max(weights.start);
                found(index, number, open - start);
            }
        }
    }
}

/// The first and the last of them; `None` where there is none.
fn readers(
    network: &Network,
    plan: &Plan,
    loads: &[Load],
    serves: impl Fn(usize, &Step) -> bool,
) -> Vec<Option<(usize, usize)>> {
    let mut readers: Vec<Option<(usize, usize)>> = vec![None; loads.len()];
    each_reader(network, plan, loads, serves, |load, step, _| {
        readers[load] = Some((readers[load].map_or(step, |(first, _)| first), step));
    });
    readers
}

/// The parts of each load of an inference that are in use for equally long: where each begins, and the last step that reads it.
pub fn streamed_parts(network: &Network, plan: &Plan) -> Vec<Vec<(u64, usize)>> {
    let mut parts: Vec<BTreeMap<u64, usize>> = vec![BTreeMap::new(); plan.loads.len()];
    each_reader(network, plan, &plan.loads, waits_for, |load, step, at| {
        parts[load].insert(at, step);
    });
    parts.into_iter().map(|parts| parts.into_iter().collect()).collect()
}

/// Whether a step waits for a load.
fn waits_for(load: usize, step: &Step) -> bool {
    load < step.ready as usize
}

/// The first and the last step that read each load of an inference.
pub fn streamed_readers(network: &Network, plan: &Plan) -> Vec<Option<(usize, usize)>> {
    readers(network, plan, &plan.loads, waits_for)
}

/// The first and the last step that read each resident load.
pub fn resident_readers(network: &Network, plan: &Plan) -> Vec<Option<(usize, usize)>> {
    readers(network, plan, &plan.resident, |_, _| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eyelet::kernels::Isa;
    use eyelet::pack::Layer;

    /// The same pages twice, for two steps that read weights in the middle of them.
    #[test]
    fn a_load_that_is_read_again_serves_the_steps_after_it() {
        let layer = Layer { weights: 1000, panels: 2, panel_bytes: 3000, ..Layer::default() };
        let network = Network {
            name: String::new(),
            isa: Isa::Portable,
            buffers: Vec::new(),
            tensors: Vec::new(),
            layers: vec![layer],
            names: Vec::new(),
            weights: Vec::new(),
            on_load: vec![0],
            mapped: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        let load = Load { bytes: 8192, ..Load::default() };
        let step = Step { first: 1, count: 1, weights: 4000, ready: 1, ..Step::default() };
        let steps = vec![step, Step { ready: 2, ..step }];
        let plan = Plan { loads: vec![load; 2], steps, ..Plan::default() };
        assert_eq!(streamed_readers(&network, &plan), [Some((0, 0)), Some((1, 1))]);
    }
}
