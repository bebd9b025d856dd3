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
//!
//! The interval that attains the maximum tells what is scarce: time inside it, bytes outside. The choice
//! of algorithms ([`strategy::algorithms`](crate::strategy::algorithms)) is made by that.

use crate::memory::lifetimes;
use crate::network::Network;
use crate::profile::{Costs, Profile};
use eyelet::pack::Step;

/// What the bound needs to know of a network, whatever algorithms its layers are computed by.
pub struct Bound {
    /// Bytes of activations that are alive in each layer.
    alive: Vec<f64>,
    ns_per_byte: f64,
}

/// A bound, and the cyclic interval of layers from which it follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binding {
    pub ns: f64,
    /// Its last layer.
    pub last: usize,
    /// Its length: all layers where computing alone binds.
    pub length: usize,
}

impl Binding {
    /// Whether a layer, of so many, is in the interval.
    pub fn holds(&self, layer: usize, layers: usize) -> bool {
        (self.last + layers - layer) % layers < self.length
    }
}

impl Bound {
    pub fn new(network: &Network, profile: &Profile) -> Self {
        let layers = network.layers.len();
        let lives = lifetimes(network, layers + 1, |layer| layer + 1..layer + 2);
        let alive = |layer: usize| -> f64 {
            let here = |life: &crate::memory::Lifetime| {
                life.start != usize::MAX && (life.start..=life.end).contains(&(layer + 1))
            };
            let live = lives.iter().zip(&network.buffers).filter(|(life, _)| here(life));
            live.map(|(_, buffer)| buffer.bytes as f64).sum()
        };
        let ns_per_byte = (12..28)
            .map(|shift| profile.load_ns(1 << shift) as f64 / f64::from(1u32 << shift))
            .fold(f64::INFINITY, f64::min);
        Self { alive: (0..layers).map(alive).collect(), ns_per_byte }
    }

    #[cfg(test)]
    pub(crate) fn of(alive: Vec<f64>, ns_per_byte: f64) -> Self {
        Self { alive, ns_per_byte }
    }

    /// Bytes of activations that are alive in a layer.
    pub fn alive(&self, layer: usize) -> f64 {
        self.alive[layer]
    }

    /// What reading a byte takes.
    pub fn ns_per_byte(&self) -> f64 {
        self.ns_per_byte
    }

    /// The bound, when layers compute for so long and have so many bytes of weights.
    pub fn binding(&self, compute: &[f64], weights: &[f64], budget: u64) -> Binding {
        let layers = compute.len();
        let all_weights: f64 = weights.iter().sum();
        let mut bound =
            Binding { ns: compute.iter().sum(), last: layers.saturating_sub(1), length: layers };
        for last in 0..layers {
            let held = budget as f64 - self.alive[last];
            let (mut time, mut used) = (0.0, 0.0);
            // Backwards from `last`, once around at most.
            for length in 0..=layers {
                let ns = time + (all_weights - used - held) * self.ns_per_byte;
                if ns > bound.ns {
                    bound = Binding { ns, last, length };
                }
                if length < layers {
                    let layer = if length <= last { last - length } else { last + layers - length };
                    time += compute[layer];
                    used += weights[layer];
                }
            }
        }
        bound
    }
}

/// Predicted computing time and bytes of weights of a layer in one step.
pub fn layer_demand(network: &Network, costs: &Costs, index: usize) -> (f64, f64) {
    let layer = &network.layers[index];
    let rows = network.tensors[layer.output as usize].rows() as u32;
    let algorithm = network.on_load[index];
    let step =
        Step { layer: index as u32, count: layer.panels, rows, algorithm, ..Step::default() };
    (costs.step_ns(&step) as f64, f64::from(layer.panels) * f64::from(layer.panel_bytes))
}

/// Nanoseconds below which no steady-state inference in `budget` bytes of arena can stay, by the costs
/// of the profile.
pub fn lower_bound_ns(network: &Network, budget: u64, profile: &Profile, threads: u32) -> u64 {
    let costs = Costs::new(network, profile, threads);
    let layers = 0..network.layers.len();
    let (compute, weights): (Vec<f64>, Vec<f64>) =
        layers.map(|layer| layer_demand(network, &costs, layer)).unzip();
    Bound::new(network, profile).binding(&compute, &weights, budget).ns.max(0.0) as u64
}
