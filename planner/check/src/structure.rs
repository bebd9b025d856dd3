//! What can be seen without thinking about time: indices, bounds, alignment, slices, thresholds.

use super::extent::step_weights;
use super::{Found, ScratchBytes, Violation, rings, span};
use eyelet::pack::{FAST, Load, NONE, PAGE, Place, Region};
use eyelet_model::network::Network;
use eyelet_model::plan::Plan;
use std::ops::Range;

/// Alignment of buffers and scratch.
const LINE: u64 = 64;

/// Alignment of panels: eight floats, the narrowest panel's row.
const PANEL_ROW: u64 = 32;

/// Counts, and indices of the network and the plan.
pub fn references(network: &Network, plan: &Plan, weights_bytes: u64, found: &mut Found) {
    let buffers = network.buffers.len();
    let mut index = |of: String, what, index: u32, count: usize| {
        let fits = (index as usize) < count;
        if !fits {
            found.add(Violation::Index { of, what, index: index.into(), count: count as u64 });
        }
        fits
    };
    for (number, tensor) in network.tensors.iter().enumerate() {
        index(format!("tensor {number}"), "buffer", tensor.buffer, buffers);
    }
    for (number, layer) in network.layers.iter().enumerate() {
        let of = || format!("layer {number}");
        for input in layer.inputs.into_iter().filter(|input| *input != NONE) {
            index(of(), "tensor", input, network.tensors.len());
        }
        index(of(), "tensor", layer.output, network.tensors.len());
    }
    for (kind, ports) in [("input", &network.inputs), ("output", &network.outputs)] {
        for (number, port) in ports.iter().enumerate() {
            index(format!("{kind} {number}"), "tensor", port.tensor, network.tensors.len());
        }
    }
    for (number, step) in plan.steps.iter().enumerate() {
        index(format!("step {}", number + 1), "layer", step.layer, network.layers.len());
    }
    tensors(network, found);
    weights(network, weights_bytes, found);
    counts(network, plan, found);
}

/// Tensors lie inside their buffers.
fn tensors(network: &Network, found: &mut Found) {
    for (number, tensor) in network.tensors.iter().enumerate() {
        let Some(buffer) = network.buffers.get(tensor.buffer as usize) else { continue };
        let rows = tensor.dims[..3].iter().map(|&dim| u128::from(dim)).product::<u128>();
        // The product of three u32 times a fourth stays below 2^128.
        let floats = match rows {
            0 => 0,
            rows => (rows - 1) * u128::from(tensor.pitch) + u128::from(tensor.cols()),
        };
        let end = (u128::from(tensor.offset) + floats) * 4;
        if end > buffer.bytes.into() {
            let buffer_index = tensor.buffer as usize;
            found.add(Violation::Tensor {
                tensor: number,
                buffer: buffer_index,
                end,
                bytes: buffer.bytes,
            });
        }
        if tensor.pitch < tensor.cols() {
            let (cols, pitch) = (tensor.cols(), tensor.pitch);
            found.add(Violation::Pitch { tensor: number, cols, pitch });
        }
    }
}

/// Panels lie inside the weights section.
fn weights(network: &Network, weights_bytes: u64, found: &mut Found) {
    for (number, layer) in network.layers.iter().enumerate() {
        let bytes = span(layer.weights, u64::from(layer.panels) * u64::from(layer.panel_bytes));
        if !bytes.is_empty() && bytes.end > weights_bytes {
            let what = format!("the weights of layer {number}");
            found.add(Violation::OutOfBounds { what, bytes, within: 0..weights_bytes });
        }
    }
}

/// There are as many records as others refer to, and no more than can be counted.
fn counts(network: &Network, plan: &Plan, found: &mut Found) {
    let (addresses, buffers) = (plan.places.len(), network.buffers.len());
    let mut count = |what, found_count: u64, expected: u64| {
        if found_count != expected {
            found.add(Violation::Count { what, found: found_count, expected });
        }
    };
    count("addresses of buffers", addresses as u64, buffers as u64);
    if plan.steps.is_empty() {
        found.add(Violation::Empty { what: "the list of steps".into() });
    }
    if plan.threads == 0 {
        found.add(Violation::Empty { what: "the set of threads".into() });
    }
    // Thresholds and steps are counted in 32 bits.
    let most = i32::MAX as u64 / 4;
    for (what, len) in [("steps", plan.steps.len()), ("loads", plan.loads.len())] {
        if len as u64 > most {
            found.add(Violation::Count { what, found: len as u64, expected: most });
        }
    }
}

/// Every range inside the arena or the weights section, and aligned.
pub fn bounds(network: &Network, plan: &Plan, weights_bytes: u64, found: &mut Found) {
    if plan.arena_bytes > plan.budget {
        let (arena_bytes, budget) = (plan.arena_bytes, plan.budget);
        found.add(Violation::Budget { arena_bytes, budget });
    }
    let mut aligned = |what: &dyn Fn() -> String, value: u64, multiple: u64| {
        if !value.is_multiple_of(multiple) {
            found.add(Violation::Misaligned { what: what(), value, multiple });
        }
    };
    aligned(&|| "the end of the arena".into(), plan.arena_bytes, PAGE);
    aligned(&|| "the end of fast memory".into(), plan.fast_bytes, PAGE);
    for (number, (buffer, Place { address, .. })) in
        network.buffers.iter().zip(&plan.places).enumerate()
    {
        aligned(&|| format!("the address of buffer {number}"), *address, LINE);
        aligned(&|| format!("the size of buffer {number}"), buffer.bytes, LINE);
    }
    for (number, step) in plan.steps.iter().enumerate() {
        aligned(&|| format!("the scratch of step {}", number + 1), step.scratch, LINE);
        if step.count > 0 {
            aligned(&|| format!("the weights of step {}", number + 1), step.weights, PANEL_ROW);
        }
    }
    for (name, load) in named_loads(plan) {
        aligned(&|| format!("the offset of {}", name()), load.offset, PAGE);
        aligned(&|| format!("the address of {}", name()), load.address, PAGE);
        aligned(&|| format!("the size of {}", name()), load.bytes.into(), PAGE);
    }

    let arena = plan.tables..plan.arena_bytes;
    let mut inside = |what: &dyn Fn() -> String, bytes: Range<u64>, within: &Range<u64>| {
        // Of an empty range only the address has to exist.
        let fits = bytes.end <= within.end && (bytes.is_empty() || bytes.start >= within.start);
        if !fits {
            found.add(Violation::OutOfBounds { what: what(), bytes, within: within.clone() });
        }
    };
    inside(&|| "the area of tables".into(), 0..plan.tables, &(0..plan.arena_bytes));
    let fast = FAST..FAST + plan.fast_bytes;
    let region = |address: u64| if address < FAST { &arena } else { &fast };
    for (number, Place { address, .. }) in plan.places.iter().enumerate() {
        let bytes = rings::bytes(network, plan, number);
        inside(&|| format!("buffer {number}"), span(*address, bytes), region(*address));
    }
    for (number, step) in plan.steps.iter().enumerate() {
        let name = || format!("the scratch of step {}", number + 1);
        inside(&name, span(step.scratch, step.scratch_bytes), region(step.scratch));
        let weights = step_weights(network, step);
        let name = || format!("the weights of step {}", number + 1);
        let within = match step.weights_in {
            Region::Arena => &arena,
            Region::Mapped => &(0..weights_bytes),
        };
        inside(&name, span(step.weights, weights.end - weights.start), within);
    }
    for (name, load) in named_loads(plan) {
        inside(&name, image(load), &arena);
        let name = || format!("the source of {}", name());
        inside(&name, span(load.offset, load.bytes.into()), &(0..weights_bytes));
    }
    for (name, load) in named_loads(plan) {
        if load.bytes == 0 {
            found.add(Violation::Empty { what: name() });
        }
    }
}

fn named_loads(plan: &Plan) -> impl Iterator<Item = (impl Fn() -> String, &Load)> {
    let resident = plan.resident.iter().enumerate().map(|(number, load)| (true, number, load));
    let loads = plan.loads.iter().enumerate().map(|(number, load)| (false, number, load));
    resident.chain(loads).map(|(resident, number, load)| {
        let kind = if resident { "resident load" } else { "load" };
        (move || format!("{kind} {number}"), load)
    })
}

/// Where a load puts its bytes.
pub fn image(load: &Load) -> Range<u64> {
    span(load.address, load.bytes.into())
}

/// Every step has the scratch that its kernel needs.
pub fn scratch(network: &Network, plan: &Plan, needed: ScratchBytes<'_>, found: &mut Found) {
    for (number, step) in plan.steps.iter().enumerate() {
        let needed = needed(network, step, plan.threads);
        if step.scratch_bytes < needed {
            found.add(Violation::Scratch {
                step: number + 1,
                found: step.scratch_bytes,
                needed,
                threads: plan.threads,
            });
        }
    }
}

/// Thresholds in range, and none that waits for what waits for it.
///
/// If every load that a step waits for may start when the steps before are done, then by induction
/// over the order of loads and steps nothing stops: loads of the inference before have `release ≤ S`,
/// so they may start before this inference's first step.
pub fn thresholds(plan: &Plan, found: &mut Found) {
    let period = plan.period();
    for (load, record) in plan.loads.iter().enumerate() {
        let release = i64::from(record.release);
        if release <= -period || release > period {
            let (above, at_most) = (-period, period);
            found.add(Violation::ReleaseRange { load, release, above, at_most });
        }
    }
    // The load of the largest release among the first so many.
    let mut latest: Vec<usize> = Vec::with_capacity(plan.loads.len());
    for (load, record) in plan.loads.iter().enumerate() {
        let before = latest.last().copied().unwrap_or(load);
        latest.push(if record.release > plan.loads[before].release { load } else { before });
    }
    for (number, step) in plan.steps.iter().enumerate() {
        let (number, ready) = (number + 1, step.ready as usize);
        if ready > plan.loads.len() {
            let loads = plan.loads.len();
            found.add(Violation::ReadyRange { step: number, ready: step.ready, loads });
        } else if ready > 0 {
            let load = latest[ready - 1];
            let release = i64::from(plan.loads[load].release);
            if release > number as i64 {
                found.add(Violation::Deadlock { step: number, load, release });
            }
        }
    }
}
