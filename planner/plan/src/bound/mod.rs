//! A lower bound on the steady-state latency of any plan for a budget.
//!
//! Take any cyclic interval of layers, from `a` to `b`. Computing it takes at least `C_ab`. At its
//! end the arena holds at most `B − act_b` bytes of weights, `act_b` being the activations alive
//! then. `W − w_ab` bytes of weights are *not* used inside the interval. All of these that the
//! arena does not hold then must be read in the rest of the cycle, after the interval's end and
//! before they are used. So
//!
//! ```text
//! T ≥ C_ab + (W − w_ab − (B − act_b)) / bandwidth    for every interval,  and  T ≥ C.
//! ```
//!
//! The bound knows nothing of slices, addresses or load order, and so holds for all of them. The
//! empty interval gives the plain bandwidth bound. `act_b` includes what every plan has: header,
//! skeleton and a step for each layer. `m_l` below also counts the scratch of a slice of one panel.
//!
//! Two things that no plan can escape make it tighter ([`lower_bound_ns`]). The weights of a step
//! are in one load and in the arena together with the activations of its layer. So a load that
//! layer `l` uses is no larger than `m_l = B − act_l`, and each of its bytes takes at least as long
//! as in the best read of that size: the bytes outside the interval that are held at its end are
//! then at best the dearest ones. And a step has room for a limited number of lines, panels and
//! scratch. So a layer takes several steps, each of which has its fixed cost (`steps`).
//!
//! Layers can slide ([`slide`](crate::slide)): images between them need not be there as a whole,
//! and their steps alternate. A buffer that could be a ring counts with the lines that one of its
//! readers sees at once, direct scratch of steps of few rows as 0, and computing as if all
//! activations stayed in the cache. Transforms find only those activations in a cache that can be
//! in rings. A buffer is no ring where lines that have to be somewhere do not fit the budget
//! ([`least_bytes`]). If whole buffers may share bytes, line by line, the larger ones count
//! (`alive`). Weights come from where a plan of that size finds them, and transforms read tiles as
//! far apart, however few rows a step makes ([`Costs::least_ns`]). The interval is then the time
//! from the first step of layer `a` to the last one of `b`, which holds weights itself: a panel, or
//! all. Layers before `a` have begun by then, and layers after `b` are not done when it ends,
//! since those of a group begin and end in their order; so weights outside that are used within
//! that time were there before it or are still there after it, as before.
//!
//! Reads slow computing down at the same time, inside the interval as outside (`contention`).
//!
//! Loads of a GPU with a memory of its own are copied there. All of this then holds for copies.
//! Reads run ahead of them into a staging ring of any size. But a cycle reads as many bytes as it
//! copies, so the bounds of the empty intervals still hold for reads.
//!
//! Several reads may be in flight ([`Service`](crate::profile::Service)). Those that begin after
//! the interval's end are transferred one after the other, and so are their checksums: each of the
//! two is a channel of its own. Latency that passes during other reads is in neither. A read that
//! began before the interval's end has its place in the arena by then, and counts as held. If
//! storage answers all reads in flight together, every group of reads has a latency, too
//! (`groups`).
//!
//! The interval that attains the maximum shows what is scarce: time inside it, bytes outside. The
//! choice of algorithms for a pack is made by that.

mod alive;
mod cached_rings;
mod contention;
mod demands;
mod groups;
mod reading;
mod steps;

use crate::memory::lifetimes;
use crate::profile::{Costs, Profile};
use crate::request::Request;
use crate::slide::{least_bytes, touched};
use crate::steps::whole;
use alive::Alive;
use cached_rings::CachedRings;
use demands::{Algorithms, Demands};
use eyelet::pack::{Layer, NONE};
use eyelet_model::algorithm::transforms_on_load;
use eyelet_model::network::Network;
use eyelet_model::tables::Tables;
use reading::{Channel, Task, channels, least_ns_per_byte};
use std::collections::VecDeque;

/// Facts of a network that do not depend on the algorithms of its layers.
pub struct Bound {
    /// For each layer: bytes of tables and of activations that are alive in each of its steps.
    alive: Vec<f64>,
    /// Bytes of tables.
    tables: u64,
    /// For each layer: the buffers that are alive.
    buffers: Vec<Alive>,
    /// For each layer: whether it slides.
    slides: Vec<bool>,
    /// For each layer: whether something that it touches can be a ring.
    in_rings: Vec<bool>,
    /// For each layer: the shares of its activations that are in no ring, for some choices of
    /// rings.
    cached_rings: Vec<CachedRings>,
    /// Least time of a byte in each channel that brings weights to the arena.
    channels: Vec<Channel<f64>>,
    /// Time by which a byte that is read slows computing down.
    contention_ns_per_byte: f64,
}

/// A bound, and the cyclic interval of layers from which it follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binding {
    pub ns: f64,
    /// Its last layer.
    pub last: usize,
    /// Its length: all layers where computing alone binds.
    pub length: usize,
    /// Time that a byte outside the interval takes.
    pub ns_per_byte: f64,
    /// Time that a byte inside the interval takes, if all layers are inside.
    pub contention_ns_per_byte: f64,
}

impl Binding {
    /// The interval of all layers, with computing alone.
    fn computing(compute: &[f64]) -> Self {
        let length = compute.len();
        let (last, ns) = (length.saturating_sub(1), compute.iter().sum());
        Self { ns, last, length, ns_per_byte: 0.0, contention_ns_per_byte: 0.0 }
    }

    /// The interval of all layers, slowed down by `bytes` that are read meanwhile. Bytes that are
    /// read while nothing computes take no less.
    fn dragged(compute: &[f64], bytes: f64, contention_ns_per_byte: f64) -> Self {
        let plain = Self::computing(compute);
        match bytes > 0.0 && contention_ns_per_byte > 0.0 {
            true => Self {
                ns: plain.ns + bytes * contention_ns_per_byte,
                contention_ns_per_byte,
                ..plain
            },
            false => plain,
        }
    }

    /// The effect of a nanosecond and of a byte of a layer on the bound. `layers` is the number of
    /// all layers.
    pub fn worth(&self, layer: usize, layers: usize) -> (f64, f64) {
        match self.holds(layer, layers) {
            true => (1.0, self.contention_ns_per_byte),
            false => (0.0, self.ns_per_byte),
        }
    }

    /// Whether a layer is in the interval, of `layers` in all.
    pub fn holds(&self, layer: usize, layers: usize) -> bool {
        (self.last + layers - layer) % layers < self.length
    }
}

impl Bound {
    /// Facts that hold for all budgets, with `threads` threads.
    pub fn new(network: &Network, profile: &Profile, threads: u32) -> Self {
        Self::within(network, profile, threads, u64::MAX)
    }

    /// Facts that hold for plans in at most `budget` bytes.
    pub fn within(network: &Network, profile: &Profile, threads: u32, budget: u64) -> Self {
        let layers = network.layers.len();
        let tables = Tables::of(network).least(0);
        let lives = lifetimes(network, layers + 1, |layer| layer + 1..layer + 2);
        let least = least_bytes(network, budget.saturating_sub(tables));
        let touched = touched(network);
        let buffers = alive::alive(network, &lives, &least, &touched);
        let alive = buffers.iter().map(|alive| (tables + alive.bytes(None)) as f64).collect();
        let is_ring = |buffer: usize| least[buffer] < network.buffers[buffer].bytes;
        let buffer = |id: u32| network.tensors[id as usize].buffer as usize;
        let tensors = |layer: &Layer| layer.inputs.into_iter().chain([layer.output]);
        let in_ring = |layer: &Layer| tensors(layer).any(|id| id != NONE && is_ring(buffer(id)));
        let in_rings: Vec<bool> = network.layers.iter().map(in_ring).collect();
        let cache_bytes = profile.compute.cache_bytes;
        let cached_rings = |layer: usize| match &touched[layer] {
            Some(touched) if in_rings[layer] => {
                CachedRings::new(network, layer, cache_bytes, touched, &is_ring)
            }
            _ => CachedRings::none(),
        };
        let cached_rings = (0..layers).map(cached_rings).collect();
        let least = |channel: Channel<Task<'_>>| Channel {
            rate: least_ns_per_byte(profile, &channel.rate, 1 << 27),
            intervals: channel.intervals,
            together: channel.together,
        };
        // The arena may be one that a cache holds.
        let channels: Vec<Channel<f64>> =
            channels(profile, true, threads).into_iter().map(least).collect();
        let reading = channels.iter().map(|channel| channel.rate).fold(0.0, f64::max);
        Self {
            alive,
            tables,
            buffers,
            slides: touched.iter().map(Option::is_some).collect(),
            in_rings,
            cached_rings,
            contention_ns_per_byte: profile.least_drag_ns_per_byte(threads).min(reading),
            channels,
        }
    }

    #[cfg(test)]
    pub(crate) fn of(alive: Vec<f64>, rate: f64) -> Self {
        Self {
            in_rings: vec![false; alive.len()],
            cached_rings: vec![CachedRings::none(); alive.len()],
            slides: vec![false; alive.len()],
            buffers: Vec::new(),
            tables: 0,
            alive,
            channels: vec![Channel { rate, intervals: true, together: false }],
            contention_ns_per_byte: rate / 8.0,
        }
    }

    /// How many layers there are.
    pub fn layers(&self) -> usize {
        self.alive.len()
    }

    /// Bytes of activations that are alive in a layer.
    pub fn alive(&self, layer: usize) -> f64 {
        self.alive[layer]
    }

    /// Bytes of activations that are alive in a step that makes `lines` lines of a layer that
    /// slides.
    pub fn alive_with(&self, layer: usize, lines: u32) -> f64 {
        (self.tables + self.buffers[layer].bytes(Some(lines))) as f64
    }

    /// Bytes of weights that the arena holds at most at the end of a layer.
    fn held(&self, layer: usize, budget: u64) -> f64 {
        (budget as f64 - self.alive[layer]).max(0.0)
    }

    /// Bytes of `weights` that every inference reads at least: what it does not read stays through
    /// all layers.
    fn least_read(&self, weights: f64, budget: u64) -> f64 {
        let held = (0..self.layers()).map(|layer| self.held(layer, budget));
        (weights - held.fold(f64::INFINITY, f64::min)).max(0.0)
    }

    /// The bound for layers with these computing times and bytes of weights.
    pub fn binding(&self, compute: &[f64], weights: &[f64], budget: u64) -> Binding {
        let read = self.least_read(weights.iter().sum(), budget);
        let mut binding = Binding::dragged(compute, read, self.contention_ns_per_byte);
        for Channel { rate, intervals, .. } in &self.channels {
            let found = self.most_even(compute, weights, budget, *rate, *intervals);
            if found.ns > binding.ns {
                binding = found;
            }
        }
        binding
    }

    /// The bound over all intervals, or over the empty ones, if all bytes take the same time. One
    /// turn suffices, since an interval's value is a sum over its two ends.
    fn most_even(
        &self,
        compute: &[f64],
        weights: &[f64],
        budget: u64,
        ns_per_byte: f64,
        intervals: bool,
    ) -> Binding {
        let layers = compute.len();
        let all_weights: f64 = weights.iter().sum();
        let mut bound = Binding::computing(compute);
        // Sums of computing and of bytes over the first layers, twice around.
        let (mut time, mut bytes) = (vec![0.0; 2 * layers + 1], vec![0.0; 2 * layers + 1]);
        for index in 0..2 * layers {
            time[index + 1] = time[index] + compute[index % layers];
            bytes[index + 1] = bytes[index] + weights[index % layers];
        }
        let start_says = |start: usize| ns_per_byte * bytes[start] - time[start];
        // Starts, none of which is worse than a later one, for ends that move to the right.
        let mut starts: VecDeque<usize> = VecDeque::new();
        for end in 0..=2 * layers {
            while starts.back().is_some_and(|&before| start_says(before) <= start_says(end)) {
                starts.pop_back();
            }
            starts.push_back(end);
            if end <= layers {
                continue;
            }
            while starts.front().is_some_and(|&first| first + layers < end) {
                starts.pop_front();
            }
            let last = end - 1 - layers;
            let start = if intervals { starts.front().copied().unwrap_or(end) } else { end };
            let outside = all_weights - (bytes[end] - bytes[start]);
            let read = (outside - self.held(last, budget)).max(0.0);
            let ns = time[end] - time[start] + ns_per_byte * read;
            if ns > bound.ns {
                let length = end - start;
                bound = Binding { ns, last, length, ns_per_byte, contention_ns_per_byte: 0.0 };
            }
        }
        bound
    }
}

/// The algorithms by which the steps of a layer can compute it, besides its own: they transform the
/// stored weights.
pub fn step_algorithms(
    network: &Network,
    costs: &Costs,
    layer: usize,
) -> impl Iterator<Item = u32> {
    costs.on_load(layer).filter(move |tile| transforms_on_load(network, layer, *tile))
}

/// Predicted computing time and bytes of weights of a layer in one step.
pub fn layer_demand(network: &Network, costs: &Costs, index: usize) -> (f64, f64) {
    let layer = &network.layers[index];
    (
        costs.step_ns(&whole(network, index)) as f64,
        f64::from(layer.panels) * f64::from(layer.panel_bytes),
    )
}

/// Nanoseconds below which no steady-state inference in `budget` bytes of arena can stay, by the
/// costs of the profile and the algorithms of the layers.
pub fn lower_bound_ns(network: &Network, budget: u64, profile: &Profile, threads: u32) -> u64 {
    let demands =
        all_demands(network, budget, profile, threads, &|layer, _| vec![network.on_load[layer]]);
    least_ns(network, profile, &demands)
}

/// The bound for all algorithms of steps: the layers' own, and those for which steps transform
/// weights, unless results must be exact. They read the same bytes, so the least time of each layer
/// counts.
pub fn least_bound_ns(request: &Request<'_>) -> u64 {
    least_ns(request.network, request.profile, &demands_of(request))
}

/// The least time of all steps of each layer together, in nanoseconds.
pub fn least_steps_ns(request: &Request<'_>) -> Vec<f64> {
    let all = demands_of(request);
    let least =
        |layer: usize| all.iter().map(|(_, demands)| demands.compute[layer]).reduce(f64::min);
    (0..request.network.layers.len()).filter_map(least).collect()
}

fn demands_of(request: &Request<'_>) -> Vec<(u64, Demands)> {
    let Request { network, budget, profile, threads, exact, .. } = *request;
    all_demands(network, budget, profile, threads, &|layer, costs| {
        let own = network.on_load[layer];
        match exact {
            true => vec![own],
            false => [0, own].into_iter().chain(step_algorithms(network, costs, layer)).collect(),
        }
    })
}

/// The demands of layers in a budget. If the budget is larger than the last-level cache, also the
/// demands in the cache's size: a plan may leave the rest.
fn all_demands(
    network: &Network,
    budget: u64,
    profile: &Profile,
    threads: u32,
    algorithms: Algorithms<'_>,
) -> Vec<(u64, Demands)> {
    let costs = Costs::new(network, profile, threads);
    let llc = Some(profile.llc_bytes()).filter(|llc| *llc > 0 && budget > *llc);
    let of = |budget: u64| {
        let costs = costs.clone().within(budget);
        // Data in fast memory takes no place in the arena.
        let budget = budget.saturating_add(profile.fast_bytes());
        (budget, demands::demands(network, budget, profile, threads, &costs, algorithms))
    };
    let llc = llc.map(of).filter(|(_, demands)| demands.fits);
    [of(budget)].into_iter().chain(llc).collect()
}

/// The least of these bounds.
fn least_ns(network: &Network, profile: &Profile, all: &[(u64, Demands)]) -> u64 {
    let least =
        all.iter().map(|(budget, demands)| demands::least_ns(network, *budget, profile, demands));
    least.min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::reading::Reading;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// In a single turn as by all pairs of ends.
        #[test]
        fn the_interval_that_binds_is_found(
            layers in prop::collection::vec((0.0..1e6f64, 0.0..1e6f64, 0.0..1e5f64), 1..12),
            budget in 0u64..4_000_000,
            rate in 0.01..10.0f64,
        ) {
            let compute: Vec<f64> = layers.iter().map(|layer| layer.0).collect();
            let weights: Vec<f64> = layers.iter().map(|layer| layer.1).collect();
            let bound = Bound::of(layers.iter().map(|layer| layer.2).collect(), rate);
            for intervals in [false, true] {
                let reading = Reading::new(&vec![rate; layers.len()]);
                let held = |layer| [bound.held(layer, budget); 2];
                let held: Vec<_> = (0..layers.len()).map(held).collect();
                let all = demands::most(&compute, &weights, &held, &reading, intervals);
                let all = all.inside + all.rest;
                let found = bound.most_even(&compute, &weights, budget, rate, intervals);
                let all = all.max(compute.iter().sum());
                prop_assert!((found.ns - all).abs() <= 1e-9 * all, "{} and {all}", found.ns);
                // The interval is the one whose bound it is.
                let is_inside = |layer: &usize| found.holds(*layer, layers.len());
                let inside: f64 = (0..layers.len()).filter(is_inside).map(|l| compute[l]).sum();
                let outside: f64 =
                    (0..layers.len()).filter(|l| !is_inside(l)).map(|l| weights[l]).sum();
                let read = (outside - bound.held(found.last, budget)).max(0.0);
                let ns = inside + found.ns_per_byte * read;
                prop_assert!((ns - found.ns).abs() <= 1e-9 * ns + 1e-3, "{ns} and {}", found.ns);
            }
        }
    }
}
