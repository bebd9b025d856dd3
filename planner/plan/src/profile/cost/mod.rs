//! The cost of steps.
//!
//! A layer belongs to a [class](Class) of kernels, and has an amount of [work](work) at the rate of its class. Winograd
//! convolutions also have [transforms](winograd), in [blocks](blocks) that depend on scratch. A [layer's cost](layer) is
//! computed once, in parts that a step's rows and panels multiply. [`Costs`] has those of a network. Layers that slide cost
//! [less](bands).

mod bands;
mod blocks;
mod class;
mod fast;
pub(super) mod fitting;
mod launch;
mod layer;
mod levels;
#[cfg(test)]
pub(super) mod testing;
mod winograd;
mod work;

pub use bands::Outside;
pub use class::Class;
use fast::FastCosts;
pub use layer::shorter_ns;
pub use work::Work;

use super::{Contention, Profile, Service, Transfer};
use eyelet::kernels::table::TILES;
use eyelet::pack::Step;
use eyelet_model::network::Network;
use eyelet_model::plan::Plan;
use layer::LayerCost;

/// The costs of a network on a board, ready to be asked often.
#[derive(Clone, Debug)]
pub struct Costs {
    layers: Vec<LayerCost>,
    /// Costs of layers whose steps transform the weights, for each of [`TILES`].
    transformed: [Vec<Option<LayerCost>>; TILES.len()],
    overhead_ns: u64,
    /// Times of loads into an arena that exceeds the last-level cache, and into one that fits it.
    services: [Service; 2],
    transfer: Option<Transfer>,
    contention: Contention,
    cache_bytes: u64,
    shared_cache_bytes: u64,
    /// Whether the cache that all share holds whatever a plan may use.
    in_llc: bool,
    /// Time that steps save if buffers and scratch lie in fast memory.
    fast: Option<FastCosts>,
}

impl Costs {
    /// Costs of all layers with `threads` compute threads.
    pub fn new(network: &Network, profile: &Profile, threads: u32) -> Self {
        let all = |algorithm: u32| {
            let layers = network.layers.iter();
            let (compute, parts) = (&profile.compute, profile.multiprocessors);
            let team = (threads, profile.team(threads));
            let gbs = profile.mapped.map_or(f64::INFINITY, |mapped| mapped.gbs);
            layers.map(move |l| {
                let cost = LayerCost::new(network, l, algorithm, compute, parts, team)?;
                Some(cost.with_mapped(gbs))
            })
        };
        let layers = all(0).map(Option::unwrap_or_default).collect();
        let transformed = TILES.map(|tile| all(tile as u32).collect());
        let overhead_ns = profile.compute.step_overhead_ns;
        Self {
            layers,
            transformed,
            overhead_ns,
            services: [false, true].map(|in_llc| profile.service(in_llc, threads)),
            transfer: profile.transfer,
            contention: profile.contention(threads),
            cache_bytes: profile.compute.cache_bytes,
            shared_cache_bytes: profile.llc_bytes(),
            in_llc: false,
            fast: profile.fast.map(|fast| FastCosts::new(network, fast)),
        }
    }

    /// Costs of plans in an arena of `budget` bytes. Their weights are in the last-level cache if it holds the
    /// arena.
    pub fn within(mut self, budget: u64) -> Self {
        self.in_llc = self.fits_llc(budget);
        self
    }

    /// Whether the cache that all share holds so much.
    pub fn fits_llc(&self, bytes: u64) -> bool {
        bytes <= self.shared_cache_bytes
    }

    /// The algorithms by which steps can compute a layer instead of its own.
    pub fn on_load(&self, layer: usize) -> impl Iterator<Item = u32> + '_ {
        let tiles = TILES.into_iter().zip(&self.transformed);
        tiles.filter(move |(_, costs)| costs[layer].is_some()).map(|(tile, _)| tile as u32)
    }

    /// The class of kernels that decides a layer's cost.
    pub fn class(network: &Network, layer: usize) -> Class {
        Class::of(network, &network.layers[layer])
    }

    /// Predicted time of a step.
    pub fn step_ns(&self, step: &Step) -> u64 {
        self.step_ns_from(step, self.in_llc)
    }

    /// Predicted time of a step whose weights are in the last-level cache (`in_llc`), or not.
    pub fn step_ns_from(&self, step: &Step, in_llc: bool) -> u64 {
        self.cost(step).ns(step, self.overhead_ns, in_llc)
    }

    /// Lower bound over all ways to split these rows into steps of the same panels, each with at most `scratch` bytes of
    /// scratch. If the layer slides, it is the time of one step whose activations are in a thread's cache, apart from the
    /// shares that are `outside` for transforms. Weights are where those of a whole step are, and transforms read tiles as
    /// far apart.
    pub fn least_ns(&self, step: &Step, scratch: f64, outside: Option<Outside>) -> f64 {
        self.least_ns_from(step, scratch, outside, self.in_llc)
    }

    /// The bound of [`least_ns`](Self::least_ns) with weights in the last-level cache (`in_llc`), or not.
    pub fn least_ns_from(
        &self,
        step: &Step,
        scratch: f64,
        outside: Option<Outside>,
        in_llc: bool,
    ) -> f64 {
        let cost = outside.map(|outside| self.cost(step).in_few_rows(outside));
        let cost = cost.as_ref().unwrap_or(self.cost(step));
        let ns = cost.least_ns(step, scratch, self.overhead_ns, in_llc);
        // All that it touches may be in fast memory.
        ns * self.fast.as_ref().map_or(1.0, FastCosts::least_share)
    }

    /// Nanoseconds that fast memory saves in a step of `ns`.
    pub(super) fn saved_ns(&self, plan: &Plan, step: &Step, ns: u64) -> u64 {
        self.fast.as_ref().map_or(0, |fast| fast.saved_ns(plan, step, ns))
    }

    /// Whether a step takes the longer the less scratch it has.
    pub fn wants_scratch(&self, step: &Step) -> bool {
        self.cost(step).wants_scratch()
    }

    /// Bytes of its scratch that a step uses.
    pub fn scratch_used(&self, step: &Step) -> u64 {
        self.cost(step).scratch_used(step)
    }

    /// The most scratch below its own with which a step is computed in other channel blocks.
    pub fn less_scratch(&self, step: &Step) -> Option<u64> {
        self.cost(step).less_scratch(step)
    }

    fn cost(&self, step: &Step) -> &LayerCost {
        let layer = step.layer as usize;
        let tile = TILES.iter().position(|tile| *tile == step.algorithm() as usize);
        let transformed = tile.and_then(|tile| self.transformed[tile][layer].as_ref());
        transformed.unwrap_or(&self.layers[layer])
    }

    /// Predicted time of a load of `bytes` bytes by itself, checksum included.
    pub fn load_ns(&self, bytes: u64) -> u64 {
        self.service(self.in_llc).load_ns(bytes)
    }

    /// Time that a load of `bytes` bytes adds to a run of loads without pauses.
    pub fn each_load_ns(&self, bytes: u64) -> u64 {
        self.service(self.in_llc).each_ns(bytes)
    }

    /// Times of loads into an arena that the last-level cache holds, or a larger one.
    pub fn service(&self, in_llc: bool) -> &Service {
        &self.services[usize::from(in_llc)]
    }

    /// Times of a plan's loads.
    pub fn service_of(&self, plan: &Plan) -> &Service {
        self.service(self.fits_llc(plan.arena_bytes))
    }

    /// Predicted time of a copy of `bytes` bytes to the GPU's memory; 0 without such a memory.
    pub fn copy_ns(&self, bytes: u64) -> u64 {
        self.transfer.map_or(0, |transfer| transfer.copy_ns(bytes))
    }

    /// Slowdown of computing for each byte that is read meanwhile.
    pub(super) fn contention_ns_per_byte(&self, in_llc: bool) -> f64 {
        self.contention.ns_per_byte(in_llc)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{conv, network, profile, step_ns, whole};
    use super::*;
    use eyelet::pack::OpKind;

    #[test]
    fn slices_add_up_and_threads_divide() {
        let profile = profile();
        let network = network(OpKind::Conv, conv([3, 3]), [196, 256], [196, 64]);
        let whole = whole(&network);
        let all = step_ns(&profile, &network, &whole, 1);
        let costs = Costs::new(&network, &profile, 1);
        assert_eq!(costs.step_ns(&whole), all);
        let half = |step: Step| 2 * step_ns(&profile, &network, &step, 1);
        assert!(half(Step { count: 4, ..whole }).abs_diff(all) <= 2);
        assert!(half(Step { rows: 98, ..whole }).abs_diff(all) <= 2);
        assert!((4 * step_ns(&profile, &network, &whole, 4)).abs_diff(all) <= 4);
    }

    #[test]
    fn copies_cost_only_where_there_is_somewhere_to_copy_to() {
        let mut profile = profile();
        let network = network(OpKind::Conv, conv([3, 3]), [196, 256], [196, 64]);
        assert_eq!(Costs::new(&network, &profile, 1).copy_ns(1 << 20), 0);
        profile.transfer = Some(Transfer { latency_ns: 10_000, gbs: 16.0 });
        assert_eq!(Costs::new(&network, &profile, 1).copy_ns(1 << 20), 10_000 + 65_536);
    }
}
