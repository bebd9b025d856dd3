//! What layers take at least in a budget, and the bound that follows.

use super::Bound;
use super::drag::Drag;
use super::groups::Groups;
use super::reading::{LARGEST, Reading, channels, coarse, least_ns_per_byte};
use crate::network::Network;
use crate::profile::{Costs, Profile};
use crate::slice::{least_scratch_bytes, whole};
use crate::slide::slides;
use eyelet::pack::{PAGE, Step};

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
    let (mut compute, mut weights, mut most) = (Vec::new(), Vec::new(), Vec::new());
    for (index, slides) in slides(network).into_iter().enumerate() {
        let layer = &network.layers[index];
        let panel = f64::from(layer.panel_bytes);
        let bytes = f64::from(layer.panels) * panel;
        let (mut least_ns, mut most_free) = (f64::INFINITY, 0.0f64);
        for algorithm in algorithms(index, costs) {
            let step = |count| Step { count, algorithm, ..whole(network, index) };
            let scratch = |step: Step| least_scratch_bytes(network, &step, threads);
            let least = |step: Step| scratch(Step { count: 1, ..step }).min(scratch(step));
            let all = step(layer.panels);
            let scratch = match (slides, bound.in_rings[index]) {
                // Steps of few rows take little.
                (true, true) => 0,
                (true, false) => least(Step { rows: line(network, index).min(all.rows), ..all }),
                (false, _) => least(all),
            };
            let beside = budget as f64 - bound.alive(index);
            let free = beside - scratch as f64;
            // What takes more than there is is no choice, as long as there is another.
            if free < panel && least_ns < f64::INFINITY {
                continue;
            }
            // Where not even a panel fits there is no plan, and any bound is one.
            let free = free.max(panel).max(PAGE as f64);
            // Of steps with so many panels each, with the scratch that these leave.
            let least = |count: u32| {
                let left = (beside - f64::from(count) * panel).max(scratch as f64);
                costs.least_ns(&step(count), left, slides.then_some(bound.outside[index]))
            };
            let (panels, steps) = (f64::from(layer.panels), (bytes / free).ceil().max(1.0));
            let ns = match costs.wants_scratch(&all) {
                true => least_in_steps(layer.panels, (free / panel) as u32, least),
                false => (steps * least((panels / steps) as u32)).max(least(layer.panels)),
            };
            least_ns = least_ns.min(ns);
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
    let free = (0..compute.len()).map(|layer| bound.held(layer, budget) as u64).max().unwrap_or(0);
    let drag = Drag::new(profile, near, room, compute.iter().sum(), read);
    let mut least = drag.all_ns();
    for channel in channels(profile, near) {
        let of_layer = |most: &u64| coarse(least_ns_per_byte(profile, &channel.rate, *most));
        let mut reading = Reading::new(&most.iter().map(of_layer).collect::<Vec<_>>());
        if let (true, Some(dearest)) = (channel.together, reading.ns_per_byte.first()) {
            reading.groups = Groups::new(&profile.service(near), room, free, *dearest);
        }
        let found = self::most(&compute, &weights, &held, &reading, channel.intervals);
        // With a staging ring, all bytes are read at once with computing; this holds of the others.
        least = least.max(match profile.transfer {
            None => drag.interval_ns(found.inside, found.beside),
            Some(_) => found.inside + found.beside,
        });
    }
    least as u64
}

/// The least time for so many panels in steps of up to `most`, by what each takes. More steps have more scratch, which is worth
/// more than they take where little is left.
fn least_in_steps(panels: u32, most: u32, step_ns: impl Fn(u32) -> f64) -> f64 {
    let step_ns: Vec<f64> = (1..=most.min(panels)).map(step_ns).collect();
    let mut least = vec![0.0];
    for count in 1..=panels as usize {
        // The last step, and those before it.
        let with = |(less, ns): (usize, &f64)| ns + least[count - 1 - less];
        let ns = step_ns.iter().take(count).enumerate().map(with).fold(f64::INFINITY, f64::min);
        least.push(ns);
    }
    least[panels as usize]
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

#[cfg(test)]
mod tests {
    use super::least_in_steps;

    #[test]
    fn steps_are_as_long_as_is_best() {
        // A step costs 10, panels 1 each; beyond four there is little scratch for them.
        let step_ns = |count: u32| 10.0 + f64::from(count) * if count > 4 { 5.0 } else { 1.0 };
        let least = |panels, most| least_in_steps(panels, most, step_ns);
        assert_eq!([least(4, 4), least(8, 8), least(8, 3)], [14.0, 28.0, 38.0]);
        assert_eq!([least(5, 8), least(1, 1)], [25.0, 11.0]);
    }
}
