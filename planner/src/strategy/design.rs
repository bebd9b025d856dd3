//! What is decided of a plan before addresses are: how finely each layer is cut, how much of it stays, and by what
//! algorithm its steps compute it.
//!
//! Everything else follows. Slices follow from the limits, residents go to the end of the arena, the rest
//! is placed step by step ([`place`](super::place)), thresholds follow from addresses, the latency from
//! the simulator. So strategies differ in the designs that they try, and a search changes designs.

use super::Request;
use super::place::{self, Cut, Ground, Loading, Misfit};
use super::{residents, staging};
use crate::bound::least_bound_ns;
use crate::network::Network;
use crate::plan::Plan;
use crate::simulate::{Costs, Timeline, simulate_with};
use crate::slice::{Cutting, Slices, scratch_bytes, slice};
use crate::slide::Group;
use crate::write::table_bytes;
use eyelet::kernels::table::TILES;
use eyelet::pack::{PAGE, Step};
use std::rc::Rc;

/// Larger reads are no faster on any storage that was measured.
const LARGEST_READ: u64 = 4 << 20;

/// A decision for every layer, and on how far loads run ahead.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    pub layers: Vec<Cutting>,
    /// The algorithm of each layer's steps, as in [`Network::on_load`]; layers that slide have that of their network.
    pub on_load: Vec<u32>,
    pub loading: Loading,
}

impl Design {
    /// The same for all layers.
    pub fn uniform(cutting: Cutting, on_load: &[u32], loading: Loading) -> Self {
        Self { layers: vec![cutting; on_load.len()], on_load: on_load.to_vec(), loading }
    }

    pub fn slices(&self, network: &Network, ground: &Ground) -> Slices {
        let mut slices = slice(network, &ground.groups, |layer| self.layers[layer]);
        let slides = |layer: usize| ground.groups.iter().any(|group| group.layers.contains(&layer));
        for step in &mut slices.steps {
            let layer = step.layer as usize;
            if step.algorithm != self.on_load[layer] && !slides(layer) {
                step.algorithm = self.on_load[layer];
            }
        }
        slices
    }
}

/// Which loads stay, when not all can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pins {
    /// Those that storage would be late with.
    Late,
    /// From the head of the network on, as FlexNN does.
    Head,
}

/// How finely layers are cut, by the memory that they leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grain {
    /// Slices that shall find room beside a layer's activations,
    pub slices: f64,
    /// and beside those of so many layers before it.
    pub ahead: usize,
    /// Most bytes of a slice.
    pub most: u64,
}

/// A design that has become a plan.
pub struct Built {
    pub plan: Plan,
    pub line: Timeline,
}

impl Built {
    /// Whether it is to be preferred to the one that is held, where the fastest of all took `least_ns`: clearly faster,
    /// or no slower than that (within half a percent, which no prediction can tell apart) with fewer bytes read, whose
    /// storage, energy and first inference it saves.
    pub fn is_better(&self, held: &Self, least_ns: u64) -> bool {
        let near = |built: &Self| built.line.steady_ns <= least_ns + least_ns / 200;
        match (near(self), near(held)) {
            (true, true) => self.plan.bytes_per_inference() < held.plan.bytes_per_inference(),
            (faster, held) => faster && !held,
        }
    }
}

/// What is known of a request, however layers slide and whatever their steps compute by.
pub struct Basis {
    pub costs: Costs,
    /// Scratch of each layer in slices of one panel, by its own algorithm, and by each of [`TILES`] on load.
    scratch: Vec<[u64; 1 + TILES.len()]>,
    /// No plan is faster.
    pub bound_ns: u64,
}

impl Basis {
    pub fn new(request: &Request<'_>) -> Self {
        let network = request.network;
        let costs = Costs::new(network, request.profile, request.threads);
        let scratch = |layer: usize| {
            let of = |algorithm: u32| {
                let step = step(network, layer, 1, algorithm);
                scratch_bytes(network, &step, request.threads)
            };
            let mut bytes = [of(0); 1 + TILES.len()];
            for algorithm in costs.on_load(layer) {
                bytes[number(algorithm)] = of(algorithm);
            }
            bytes
        };
        let scratch = (0..network.layers.len()).map(scratch).collect();
        Self { bound_ns: least_bound_ns(request), costs, scratch }
    }
}

/// An algorithm's place among all of a layer: 0 for its own, then [`TILES`].
fn number(algorithm: u32) -> usize {
    TILES.iter().position(|tile| *tile == algorithm as usize).map_or(0, |tile| tile + 1)
}

/// What all designs for a request and a way to slide share.
pub struct Site<'a> {
    pub request: Request<'a>,
    pub basis: Rc<Basis>,
    /// What steps cost where layers slide so.
    costs: Costs,
    pub ground: Ground,
}

impl<'a> Site<'a> {
    /// Without layers that slide.
    pub fn new(request: &Request<'a>) -> Self {
        Self::with(request, Rc::new(Basis::new(request)), Vec::new())
    }

    /// With layers that slide.
    pub fn with(request: &Request<'a>, basis: Rc<Basis>, groups: Vec<Group>) -> Self {
        let ground = Ground::new(request.network, groups);
        let costs = basis.costs.clone().sliding(request.network, &ground.rings);
        Self { request: *request, basis, costs, ground }
    }

    /// Makes a design a plan for so many bytes.
    pub fn place(&self, design: &Design, budget: u64) -> Result<Plan, Misfit> {
        let slices = design.slices(self.request.network, &self.ground);
        let cut = Cut::new(&self.request, &self.ground, slices);
        let mut plan = cut.place(&self.request, budget, design.loading)?;
        if self.request.is_staged() {
            staging::stage(&mut plan, design.loading);
        }
        Ok(plan)
    }

    /// The same for the budget of the request, and predicts it.
    pub fn build(&self, design: &Design) -> Result<Built, Misfit> {
        let plan = self.place(design, self.request.budget)?;
        let line = simulate_with(&plan, &self.costs);
        Ok(Built { plan, line })
    }

    /// Whether a plan is as fast as the lower bound, but for what nobody can measure.
    pub fn is_optimal(&self, built: &Built) -> bool {
        built.line.steady_ns <= self.basis.bound_ns + self.basis.bound_ns / 1000
    }

    /// Bytes of the tables that no plan is without.
    pub fn least_tables(&self) -> u64 {
        table_bytes(self.request.network, 0, self.request.network.layers.len(), 0)
    }

    /// What activations and tables leave of a budget at their peak.
    pub fn room(&self, budget: u64) -> u64 {
        (budget / PAGE * PAGE).saturating_sub(self.least_tables() + self.ground.peak)
    }

    /// Slices such that some find room in every layer, beside its activations and its scratch, when
    /// `residents` bytes are given to residents.
    pub fn fitting(
        &self,
        residents: u64,
        grain: Grain,
        on_load: &[u32],
        loading: Loading,
    ) -> Design {
        let bytes = self.request.budget.saturating_sub(self.least_tables() + residents);
        let free = |(layer, algorithm): (usize, &u32)| {
            let scratch = self.basis.scratch[layer][number(*algorithm)];
            self.ground.free(layer, bytes).saturating_sub(scratch)
        };
        let free: Vec<u64> = on_load.iter().enumerate().map(free).collect();
        let cutting = |layer: usize| {
            // Loads come while the layers before compute.
            let around = layer.saturating_sub(grain.ahead)..=layer;
            let free = free[around].iter().min().copied().unwrap_or(0) as f64;
            Cutting::equal(((free / grain.slices) as u64 / PAGE * PAGE).clamp(1, grain.most))
        };
        let layers = (0..on_load.len()).map(cutting).collect();
        Design { layers, on_load: on_load.to_vec(), loading }
    }

    /// The coarsest slices of which each, with its scratch, still fits beside the activations. `join` has
    /// small layers share loads.
    fn coarsest(&self, budget: u64, join: bool, on_load: &[u32], loading: Loading) -> Design {
        let (network, threads) = (self.request.network, self.request.threads);
        let mut tables = self.least_tables();
        let mut design = Design::uniform(Cutting::equal(1), on_load, loading);
        // Finer slices are more of them, and their tables leave less memory.
        for _ in 0..4 {
            let bytes = budget.saturating_sub(tables);
            for (index, layer) in network.layers.iter().enumerate() {
                let free = self.ground.free(index, bytes);
                let panel = u64::from(layer.panel_bytes);
                let fits = |count: u32| {
                    let weights = (u64::from(count) * panel + PAGE).next_multiple_of(PAGE);
                    let step = step(network, index, count, on_load[index]);
                    weights + scratch_bytes(network, &step, threads) <= free
                };
                let (mut count, mut slices) = (layer.panels.max(1), 1);
                while count > 1 && !fits(count) {
                    slices += 1;
                    count = layer.panels.div_ceil(slices);
                }
                let limit = u64::from(count) * panel;
                let read = if join { (limit + PAGE).min(LARGEST_READ) } else { 1 };
                design.layers[index] = Cutting { read, ..Cutting::equal(limit.max(1)) };
            }
            let slices = design.slices(network, &self.ground);
            let needed = place::tables(&self.request, &slices);
            if needed <= tables {
                break;
            }
            tables = needed;
        }
        design
    }

    /// The designs that need the least memory, of which one is feasible if any is: the coarsest slices that fit,
    /// which need the fewest tables, and the finest, which need the least memory for weights.
    pub fn frugal(
        &self,
        budget: u64,
        on_load: &[u32],
        loading: Loading,
    ) -> impl Iterator<Item = Design> {
        let finest = Cutting { read: 1, ..Cutting::equal(1) };
        let all = [Cutting::RESIDENT, finest].map(|all| Design::uniform(all, on_load, loading));
        let coarsest = move |join| self.coarsest(budget, join, on_load, loading);
        [true, false].into_iter().map(coarsest).chain(all)
    }

    /// Has loads of a design stay, of up to `capacity` bytes together.
    pub fn pin(&self, design: &mut Design, capacity: u64, pins: Pins) {
        let network = self.request.network;
        let slices = design.slices(network, &self.ground);
        let reads = &slices.reads;
        let bytes: Vec<u64> = reads.iter().map(|read| read.bytes).collect();
        let stays = match pins {
            Pins::Head => residents::first(&bytes, capacity),
            Pins::Late => {
                let mut compute = vec![0; reads.len()];
                let mut current = 0;
                for (step, read) in slices.steps.iter().zip(&slices.read_of) {
                    current = read.unwrap_or(current);
                    if let Some(sum) = compute.get_mut(current) {
                        *sum += self.costs.step_ns(step);
                    }
                }
                let load: Vec<u64> =
                    bytes.iter().map(|bytes| self.basis.costs.each_load_ns(*bytes)).collect();
                residents::choose(&bytes, &load, &compute, capacity)
            }
        };
        for (step, read) in slices.steps.iter().zip(&slices.read_of) {
            if read.is_some_and(|read| stays[read]) {
                let resident = &mut design.layers[step.layer as usize].resident;
                *resident = resident.saturating_add(step.count);
            }
        }
    }
}

/// A step with so many panels of a layer, by its own algorithm (0) or another.
fn step(network: &Network, layer: usize, count: u32, algorithm: u32) -> Step {
    let record = &network.layers[layer];
    let rows = network.tensors[record.output as usize].rows() as u32;
    let count = count.min(record.panels);
    Step { layer: layer as u32, rows, count, algorithm, ..Step::default() }
}
