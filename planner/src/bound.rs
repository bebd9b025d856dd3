//! A lower bound on the steady-state latency of any plan for a budget.
//!
//! Take any cyclic interval of layers, from `a` to `b`. Computing it takes at least `C_ab`. At its end
//! the arena holds at most `B − act_b` bytes of weights, `act_b` being the activations alive then. Of
//! the weights that are *not* used inside the interval, `W − w_ab` bytes, every other byte has to be
//! read in the rest of the cycle: before it is used, and after the interval's end (what was read earlier
//! is among those `B − act_b`). So
//!
//! ```text
//! T ≥ C_ab + (W − w_ab − (B − act_b)) / bandwidth    for every interval,  and  T ≥ C.
//! ```
//!
//! The bound knows nothing of slices, addresses or load order, and so holds for all of them. The empty
//! interval gives the plain bandwidth bound. Bandwidth is the profile's best at any read size.

use crate::memory::lifetimes;
use crate::network::Network;
use crate::profile::{Costs, Profile};
use eyelet::pack::Step;

/// Nanoseconds below which no steady-state inference in `budget` bytes of arena can stay, by the costs
/// of the profile.
pub fn lower_bound_ns(network: &Network, budget: u64, profile: &Profile, threads: u32) -> u64 {
    let costs = Costs::new(network, profile, threads);
    let layers = network.layers.len();
    let compute: Vec<f64> =
        (0..layers).map(|layer| costs.step_ns(&whole(network, layer)) as f64).collect();
    let weights: Vec<f64> = network
        .layers
        .iter()
        .map(|layer| f64::from(layer.panels) * f64::from(layer.panel_bytes))
        .collect();
    let lives = lifetimes(network, layers + 1, |layer| layer + 1..layer + 2);
    let alive = |layer: usize| -> f64 {
        let here = |life: &crate::memory::Lifetime| {
            life.start != usize::MAX && (life.start..=life.end).contains(&(layer + 1))
        };
        let live = lives.iter().zip(&network.buffers).filter(|(life, _)| here(life));
        live.map(|(_, buffer)| buffer.bytes as f64).sum()
    };
    let all_compute: f64 = compute.iter().sum();
    let all_weights: f64 = weights.iter().sum();
    let ns_per_byte = (12..28)
        .map(|shift| profile.load_ns(1 << shift) as f64 / f64::from(1u32 << shift))
        .fold(f64::INFINITY, f64::min);
    let budget = budget as f64;
    let mut bound = all_compute;
    for last in 0..layers {
        let held = budget - alive(last);
        let (mut time, mut used) = (0.0, 0.0);
        // Backwards from `last`, once around at most.
        for back in 0..=layers {
            bound = bound.max(time + (all_weights - used - held) * ns_per_byte);
            if back < layers {
                let layer = (last + layers - back) % layers;
                time += compute[layer];
                used += weights[layer];
            }
        }
    }
    bound.max(0.0) as u64
}

/// A layer in one step.
fn whole(network: &Network, index: usize) -> Step {
    let layer = &network.layers[index];
    let output = &network.tensors[layer.output as usize];
    Step { layer: index as u32, count: layer.panels, rows: output.rows() as u32, ..Step::default() }
}
