//! What is decided of a plan before addresses are: how finely each layer is cut, and how much of it stays.
//!
//! Everything else follows. Slices follow from the limits, residents go to the end of the arena, the rest
//! is placed step by step ([`place`](super::place)), thresholds follow from addresses, the latency from
//! the simulator. So strategies differ in the designs that they try, and a search changes designs.

use super::Request;
use super::place::{self, Cut, Ground, Loading, Misfit};
use super::{residents, staging};
use crate::bound::lower_bound_ns;
use crate::network::Network;
use crate::plan::Plan;
use crate::simulate::{Costs, Timeline, simulate_with};
use crate::slice::{Cutting, Slices, scratch_bytes, slice};
use crate::slide::Group;
use crate::write::table_bytes;
use eyelet::pack::{PAGE, Step};

/// Larger reads are no faster on any storage that was measured.
const LARGEST_READ: u64 = 4 << 20;

/// A decision for every layer, and on how far loads run ahead.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    pub layers: Vec<Cutting>,
    pub loading: Loading,
}

impl Design {
    /// The same for all layers.
    pub fn uniform(network: &Network, cutting: Cutting, loading: Loading) -> Self {
        Self { layers: vec![cutting; network.layers.len()], loading }
    }

    pub fn slices(&self, network: &Network, ground: &Ground) -> Slices {
        slice(network, &ground.groups, |layer| self.layers[layer])
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
    /// Whether it is to be preferred: clearly faster, or as fast (within half a percent, which no
    /// prediction can tell apart) with fewer bytes read, whose storage, energy and first inference it saves.
    pub fn is_better(&self, held: &Self) -> bool {
        let near = |a: u64, b: u64| a <= b + b / 200;
        let (here, there) = (self.line.steady_ns, held.line.steady_ns);
        match (near(here, there), near(there, here)) {
            (true, true) => self.plan.bytes_per_inference() < held.plan.bytes_per_inference(),
            (faster, _) => faster,
        }
    }
}

/// What all designs for a request share.
pub struct Site<'a> {
    pub request: &'a Request<'a>,
    pub costs: Costs,
    pub ground: Ground,
    /// Scratch of each layer in slices of one panel.
    scratch: Vec<u64>,
    pub bound_ns: u64,
}

impl<'a> Site<'a> {
    /// With layers that slide.
    pub fn new(request: &'a Request<'a>, groups: Vec<Group>) -> Self {
        let network = request.network;
        let ground = Ground::new(network, groups);
        let costs = Costs::new(network, request.profile, request.threads);
        let costs = costs.sliding(network, &ground.rings);
        let panel = |layer| scratch_bytes(network, &step(network, layer, 1), request.threads);
        let scratch = (0..network.layers.len()).map(panel).collect();
        let bound_ns = lower_bound_ns(network, request.budget, request.profile, request.threads);
        Self { request, costs, ground, scratch, bound_ns }
    }

    /// Makes a design a plan for so many bytes.
    pub fn place(&self, design: &Design, budget: u64) -> Result<Plan, Misfit> {
        let slices = design.slices(self.request.network, &self.ground);
        let cut = Cut::new(self.request, &self.ground, slices);
        let mut plan = cut.place(self.request, budget, design.loading)?;
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
        built.line.steady_ns <= self.bound_ns + self.bound_ns / 1000
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
    pub fn fitting(&self, residents: u64, grain: Grain, loading: Loading) -> Design {
        let bytes = self.request.budget.saturating_sub(self.least_tables() + residents);
        let layers = 0..self.request.network.layers.len();
        let free = |layer| self.ground.free(layer, bytes).saturating_sub(self.scratch[layer]);
        let free: Vec<u64> = layers.clone().map(free).collect();
        let cutting = |layer: usize| {
            // Loads come while the layers before compute.
            let around = layer.saturating_sub(grain.ahead)..=layer;
            let free = free[around].iter().min().copied().unwrap_or(0) as f64;
            Cutting::equal(((free / grain.slices) as u64 / PAGE * PAGE).clamp(1, grain.most))
        };
        Design { layers: layers.map(cutting).collect(), loading }
    }

    /// The coarsest slices of which each, with its scratch, still fits beside the activations. `join` has
    /// small layers share loads.
    fn coarsest(&self, budget: u64, join: bool, loading: Loading) -> Design {
        let (network, threads) = (self.request.network, self.request.threads);
        let mut tables = self.least_tables();
        let mut design = Design::uniform(network, Cutting::equal(1), loading);
        // Finer slices are more of them, and their tables leave less memory.
        for _ in 0..4 {
            let bytes = budget.saturating_sub(tables);
            for (index, layer) in network.layers.iter().enumerate() {
                let free = self.ground.free(index, bytes);
                let panel = u64::from(layer.panel_bytes);
                let fits = |count: u32| {
                    let weights = (u64::from(count) * panel + PAGE).next_multiple_of(PAGE);
                    weights + scratch_bytes(network, &step(network, index, count), threads) <= free
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
            let needed = place::tables(self.request, &slices);
            if needed <= tables {
                break;
            }
            tables = needed;
        }
        design
    }

    /// The designs that need the least memory, of which one is feasible if any is: the coarsest slices that fit,
    /// which need the fewest tables, and the finest, which need the least memory for weights.
    pub fn frugal(&self, budget: u64, loading: Loading) -> impl Iterator<Item = Design> {
        let network = self.request.network;
        let finest = Cutting { read: 1, ..Cutting::equal(1) };
        let all = [Cutting::RESIDENT, finest].map(|all| Design::uniform(network, all, loading));
        [true, false].into_iter().map(move |join| self.coarsest(budget, join, loading)).chain(all)
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
                let load: Vec<u64> = bytes.iter().map(|bytes| self.costs.load_ns(*bytes)).collect();
                residents::choose(&bytes, &load, &compute, capacity)
            }
        };
        for (step, read) in slices.steps.iter().zip(&slices.read_of) {
            if read.is_some_and(|read| stays[read]) {
                design.layers[step.layer as usize].resident += step.count;
            }
        }
    }
}

/// A step with so many panels of a layer.
fn step(network: &Network, layer: usize, count: u32) -> Step {
    let record = &network.layers[layer];
    let rows = network.tensors[record.output as usize].rows() as u32;
    Step { layer: layer as u32, rows, count: count.min(record.panels), ..Step::default() }
}
