//! What layers take at least in a budget, and the bound that follows.

use super::Bound;
use super::drag::Drag;
use super::reading::{LARGEST, Reading, channels, coarse, least_ns_per_byte};
use crate::network::Network;
use crate::profile::{Costs, Profile};
use crate::slice::{least_scratch_bytes, whole};
use crate::slide::{least_bytes, slides};
use crate::tables::Tables;
use eyelet::pack::{NONE, PAGE, Step};

/// Nanoseconds below which no plan stays, where layers are computed by some of these algorithms each.
pub(super) fn least_ns(
    network: &Network,
    budget: u64,
    profile: &Profile,
    threads: u32,
    costs: &Costs,
    algorithms: &dyn Fn(usize, &Costs) -> Vec<u32>,
) -> u64 {
    let bound = Bound::within(network, profile, budget);
    let in_rings = in_rings(network, budget);
    let (mut compute, mut weights, mut most) = (Vec::new(), Vec::new(), Vec::new());
    for (index, slides) in slides(network).into_iter().enumerate() {
        let layer = &network.layers[index];
        let bytes = f64::from(layer.panels) * f64::from(layer.panel_bytes);
        let (mut least_ns, mut most_free) = (f64::INFINITY, 0.0f64);
        for algorithm in algorithms(index, costs) {
            let step = |count| Step { count, algorithm, ..whole(network, index) };
            let scratch = |step: Step| least_scratch_bytes(network, &step, threads);
            let least = |step: Step| scratch(Step { count: 1, ..step }).min(scratch(step));
            let all = step(layer.panels);
            let scratch = match (slides, in_rings[index]) {
                // Steps of few rows take little.
                (true, true) => 0,
                (true, false) => least(Step { rows: line(network, index).min(all.rows), ..all }),
                (false, _) => least(all),
            };
            let free = budget as f64 - bound.alive(index) - scratch as f64;
            // Where not even a panel fits there is no plan, and any bound is one.
            let free = free.max(f64::from(layer.panel_bytes)).max(PAGE as f64);
            let steps = (bytes / free).ceil().max(1.0);
            let least = |step: &Step| match slides {
                true => costs.least_ns(step),
                false => costs.step_ns(step),
            };
            let each = least(&step((f64::from(layer.panels) / steps) as u32)) as f64;
            let ns = least(&all) as f64;
            least_ns = least_ns.min(if steps > 1.0 { ns.max(steps * each) } else { ns });
            most_free = most_free.max(free);
        }
        compute.push(least_ns);
        weights.push(bytes);
        most.push((most_free as u64).clamp(PAGE, LARGEST));
    }
    let held = |layer: usize| {
        let held = bound.held(layer, budget);
        [held, (held - f64::from(network.layers[layer].panel_bytes)).max(0.0)]
    };
    let held: Vec<[f64; 2]> = (0..compute.len()).map(held).collect();
    let read = bound.least_read(weights.iter().sum(), budget);
    let near = budget <= profile.near_bytes();
    let room = most.iter().copied().max().unwrap_or(PAGE);
    let drag = Drag::new(profile, near, room, compute.iter().sum(), read);
    let mut least = drag.all_ns();
    for channel in channels(profile, near) {
        let of_layer = |most: &u64| coarse(least_ns_per_byte(profile, &channel.rate, *most));
        let reading = Reading::new(&most.iter().map(of_layer).collect::<Vec<_>>());
        let found = self::most(&compute, &weights, &held, &reading, channel.intervals);
        // With a staging ring, all bytes are read at once with computing; this holds of the others.
        least = least.max(match profile.transfer {
            None => drag.interval_ns(found.inside, found.beside),
            Some(_) => found.inside + found.beside,
        });
    }
    least as u64
}

/// For each layer whether something that it touches can be a ring, where weights of layers that share one have to fit a budget.
fn in_rings(network: &Network, budget: u64) -> Vec<bool> {
    let room = budget.saturating_sub(Tables::of(network).least(0));
    let least = least_bytes(network, room);
    let is_ring = |id: u32| {
        let buffer = network.tensors[id as usize].buffer as usize;
        least[buffer] < network.buffers[buffer].bytes
    };
    let tensors = |layer: &eyelet::pack::Layer| layer.inputs.into_iter().chain([layer.output]);
    let layers = network.layers.iter();
    layers.map(|layer| tensors(layer).any(|id| id != NONE && is_ring(id))).collect()
}

/// Rows of a line of a layer's output.
fn line(network: &Network, layer: usize) -> u32 {
    network.tensors[network.layers[layer].output as usize].dims[2].max(1)
}

/// What an interval says: computing inside it, and reading in the rest of the inference.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Said {
    pub(super) inside: f64,
    pub(super) beside: f64,
}

/// The greatest that an interval says, of all or of the empty ones. At the end of each layer the arena has no more than so many
/// bytes of other weights: of all layers', where the interval is empty, and else of those outside.
pub(super) fn most(
    compute: &[f64],
    weights: &[f64],
    held: &[[f64; 2]],
    reading: &Reading,
    intervals: bool,
) -> Said {
    let layers = compute.len();
    let mut all_weights = vec![0.0; reading.ns_per_byte.len()];
    for (bytes, class) in weights.iter().zip(&reading.class) {
        all_weights[*class] += bytes;
    }
    let mut bound = Said::default();
    for last in 0..layers {
        let mut time = 0.0;
        let mut outside = all_weights.clone();
        // Backwards from `last`, once around at most.
        for length in 0..=if intervals { layers } else { 0 } {
            let held = held[last][usize::from(length > 0)];
            let beside = reading.least_ns(&outside, held);
            if time + beside > bound.inside + bound.beside {
                bound = Said { inside: time, beside };
            }
            if length < layers {
                let layer = if length <= last { last - length } else { last + layers - length };
                time += compute[layer];
                // No less than nothing, for all that sums are rounded.
                let outside = &mut outside[reading.class[layer]];
                *outside = (*outside - weights[layer]).max(0.0);
            }
        }
    }
    bound
}
