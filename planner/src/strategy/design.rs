//! What is decided of a plan before addresses are: how finely each layer is cut, how much of it stays, and by what
//! algorithm its steps compute it.
//!
//! Everything else follows. Slices follow from the limits, residents go to the end of the arena, the rest
//! is placed step by step ([`place`](super::place)), thresholds follow from addresses, the latency from
//! the simulator. So strategies differ in the designs that they try, and a search changes designs.

use super::Request;
use super::on_load::Options;
use super::place::{Cut, Ground, Lay, Loading, Misfit};
use super::{residents, staging};
use crate::algorithm::Algorithm;
use crate::bound::least_bound_ns;
use crate::network::Network;
use crate::plan::Plan;
use crate::simulate::{Costs, Timeline, simulate_with};
use crate::slice::{Cutting, Slices, least_scratch_bytes, scratch_bytes, slice};
use crate::slide::Group;
use eyelet::kernels::table::TILES;
use eyelet::pack::{PAGE, Step};
use std::cell::OnceCell;
use std::rc::Rc;

/// Larger reads are no faster on any storage that was measured.
const LARGEST_READ: u64 = 4 << 20;

/// Slices that shall find room beside scratch, where algorithms are chosen by what that leaves.
const ROOM: [f64; 2] = [1.0, 2.0];

/// Fewer slices are preferred if they take no more than so many times as long; the coarsest, if no more than so many times.
const FEW: f64 = 1.1;
const FEWEST: f64 = 1.6;

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
        let mut slices = slice(network, &ground.sliding, |layer| self.layers[layer]);
        let slides = |layer: usize| ground.sliding.group_of(layer).is_some();
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

/// Slices into which a layer by Winograd's algorithm can be cut: of so many panels, which take so much scratch.
#[derive(Clone, Copy)]
struct Shape {
    count: u32,
    slices: u32,
    least: u64,
    all: u64,
}

/// Even slices of a layer: of so many panels; and what one takes, with the scratch that it cannot do without.
#[derive(Clone, Copy, Debug)]
pub struct Slicing {
    pub count: u32,
    pub slices: u32,
    pub bytes: u64,
}

/// What is known of a request, however layers slide and whatever their steps compute by.
pub struct Basis {
    pub costs: Costs,
    /// Scratch of each layer in slices of one panel, by its own algorithm.
    scratch: Vec<u64>,
    /// What each layer that has Winograd's algorithm can be cut into, by its own algorithm and by each of [`TILES`] on load, of
    /// fewest slices first.
    shapes: Vec<[Vec<Shape>; 1 + TILES.len()]>,
    /// What each layer can be cut into, by its own algorithm, once that has been asked for.
    cuts: Vec<OnceCell<Vec<Slicing>>>,
    /// The layers' own algorithms.
    own: Vec<u32>,
    /// No plan is faster.
    pub bound_ns: u64,
}

impl Basis {
    pub fn new(request: &Request<'_>) -> Self {
        let Request { network, threads, .. } = *request;
        let costs = Costs::new(network, request.profile, threads);
        let layers = 0..network.layers.len();
        let scratch = |layer: usize| scratch_bytes(network, &step(network, layer, 1, 0), threads);
        let shapes = |layer: usize| {
            let mut shapes: [Vec<Shape>; 1 + TILES.len()] = Default::default();
            if Algorithm::of(network, layer) != Algorithm::Direct {
                shapes[0] = self::shapes(request, layer, 0);
            }
            for algorithm in costs.on_load(layer) {
                shapes[number(algorithm)] = self::shapes(request, layer, algorithm);
            }
            shapes
        };
        let scratch = layers.clone().map(scratch).collect();
        let shapes = layers.map(shapes).collect();
        let (own, cuts) = (network.on_load.clone(), vec![OnceCell::new(); network.layers.len()]);
        Self { bound_ns: least_bound_ns(request), costs, scratch, shapes, cuts, own }
    }
}

/// What a layer can be cut into: even slices, of which each is no longer than half of the one before it.
fn shapes(request: &Request<'_>, layer: usize, algorithm: u32) -> Vec<Shape> {
    let Request { network, threads, .. } = *request;
    let (panels, mut slices) = (network.layers[layer].panels.max(1), 1);
    let mut found = Vec::new();
    loop {
        let count = panels.div_ceil(slices);
        let step = step(network, layer, count, algorithm);
        let [least, all] =
            [least_scratch_bytes, scratch_bytes].map(|bytes| bytes(network, &step, threads));
        found.push(Shape { count, slices, least, all });
        if count == 1 {
            return found;
        }
        slices = panels.div_ceil(count / 2);
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
    pub costs: Costs,
    pub ground: Ground,
    /// For each layer that slides the bytes of the weights of its group.
    beside: Vec<Option<u64>>,
}

impl<'a> Site<'a> {
    /// Without layers that slide.
    pub fn new(request: &Request<'a>) -> Self {
        Self::with(request, Rc::new(Basis::new(request)), Vec::new())
    }

    /// With layers that slide.
    pub fn with(request: &Request<'a>, basis: Rc<Basis>, groups: Vec<Group>) -> Self {
        let ground = Ground::new(request.network, groups, &Lay::default());
        Self::on(request, basis, ground)
    }

    /// With activations that lie so.
    pub fn on(request: &Request<'a>, basis: Rc<Basis>, ground: Ground) -> Self {
        let costs = basis.costs.clone().sliding(request.network, &ground.sliding.rings);
        let layers = &request.network.layers;
        let bytes = |at: usize| u64::from(layers[at].panels) * u64::from(layers[at].panel_bytes);
        let groups: Vec<Option<usize>> =
            (0..layers.len()).map(|layer| ground.sliding.group_of(layer)).collect();
        let of_group = |group: &Option<usize>| {
            let members = (0..layers.len()).filter(|layer| groups[*layer] == *group);
            group.map(|_| members.map(bytes).sum())
        };
        let beside = groups.iter().map(of_group).collect();
        Self { request: *request, basis, costs, ground, beside }
    }

    /// Cuts the network as a design has it.
    pub fn cut(&self, design: &Design) -> Cut<'_> {
        let slices = design.slices(self.request.network, &self.ground);
        Cut::new(&self.request, &self.ground, slices)
    }

    /// Whether a layer slides.
    pub fn slides(&self, layer: usize) -> bool {
        self.beside[layer].is_some()
    }

    /// The budget from which on everything fits at its lowest place.
    pub fn least_bytes(&self, design: &Design) -> u64 {
        self.cut(design).least_bytes(&self.request)
    }

    /// Makes a design a plan for so many bytes.
    pub fn place(&self, design: &Design, budget: u64) -> Result<Plan, Misfit> {
        let plan = self.cut(design).place(&self.request, budget, design.loading)?;
        Ok(self.staged(plan, design))
    }

    /// The same with everything at the lowest place, which succeeds from [`least_bytes`](Self::least_bytes) on.
    pub fn place_surely(&self, design: &Design, budget: u64) -> Result<Plan, Misfit> {
        let plan = self.cut(design).place_surely(&self.request, budget, design.loading)?;
        Ok(self.staged(plan, design))
    }

    fn staged(&self, mut plan: Plan, design: &Design) -> Plan {
        if self.request.is_staged() {
            staging::stage(&mut plan, design.loading);
        }
        plan
    }

    /// Makes a design a plan for the budget of the request, and predicts it.
    pub fn build(&self, design: &Design) -> Result<Built, Misfit> {
        Ok(self.predict(self.place(design, self.request.budget)?))
    }

    pub fn predict(&self, plan: Plan) -> Built {
        Built { line: simulate_with(&plan, &self.costs), plan }
    }

    /// Whether a plan is as fast as the lower bound, but for what nobody can measure.
    pub fn is_optimal(&self, built: &Built) -> bool {
        built.line.steady_ns <= self.basis.bound_ns + self.basis.bound_ns / 1000
    }

    /// Bytes of the tables that no plan is without.
    pub fn least_tables(&self) -> u64 {
        self.ground.tables.least(0)
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
        let bytes = self.request.budget.saturating_sub(self.usual_tables() + residents);
        let free: Vec<u64> =
            (0..on_load.len()).map(|layer| self.ground.free(layer, bytes)).collect();
        let mut design = Design::uniform(Cutting::LAYERS, on_load, loading);
        for (layer, cutting) in design.layers.iter_mut().enumerate() {
            // Loads come while the layers before compute.
            let around = layer.saturating_sub(grain.ahead)..=layer;
            let free = free[around].iter().min().copied().unwrap_or(0);
            let of =
                |algorithm| self.cutting(layer, algorithm, free, grain.slices, grain.most, FEW);
            let (found, ns) = of(on_load[layer]);
            *cutting = found;
            if ns == f64::INFINITY {
                design.on_load[layer] = self.basis.own[layer];
                *cutting = of(design.on_load[layer]).0;
            }
        }
        design
    }

    /// Bytes of the tables that a plan has at least where steps are few.
    fn usual_tables(&self) -> u64 {
        self.ground.usual_tables(self.request.network)
    }

    /// The slices of a layer, of which so many and one's scratch find room in so many bytes, and what computing them
    /// takes. Where scratch is worth memory, they are the fewest that take no more than `few` times the least.
    pub fn cutting(
        &self,
        layer: usize,
        algorithm: u32,
        free: u64,
        slices: f64,
        most: u64,
        few: f64,
    ) -> (Cutting, f64) {
        let panel = u64::from(self.request.network.layers[layer].panel_bytes);
        let shapes = &self.basis.shapes[layer][number(algorithm)];
        let step = |count: u32| step(self.request.network, layer, count, algorithm);
        if let Some(weights) = self.beside[layer] {
            let all = step(self.request.network.layers[layer].panels);
            return (sliding(weights, free, most), self.costs.step_ns(&all) as f64);
        }
        if shapes.is_empty() {
            let free = free.saturating_sub(self.basis.scratch[layer]) as f64;
            let limit = ((free / slices) as u64 / PAGE * PAGE).clamp(1, most);
            let all = self.request.network.layers[layer].panels;
            return (Cutting::equal(limit), self.costs.step_ns(&step(all)) as f64);
        }
        let fitting = |shape: &Shape| {
            let limit = u64::from(shape.count) * panel;
            // Weights begin with a page.
            let weights = (slices * (limit + PAGE) as f64) as u64 + PAGE;
            if weights + shape.least > free || (limit > most && shape.count > 1) {
                return None;
            }
            let scratch = shape.all.min(free - weights);
            let scratch_bytes = if scratch == shape.all { 0 } else { scratch };
            let step = Step { scratch_bytes, ..step(shape.count) };
            let ns = self.costs.step_ns(&step) as f64 * f64::from(shape.slices);
            Some((Cutting { scratch, ..Cutting::equal(limit) }, ns))
        };
        let all = || shapes.iter().filter_map(fitting);
        let least = all().map(|(_, ns)| ns).fold(f64::INFINITY, f64::min);
        // Fewer slices are smaller tables and larger reads.
        let found = all().find(|(_, ns)| *ns <= least * few);
        found.unwrap_or((Cutting { scratch: 1, ..Cutting::equal(1) }, f64::INFINITY))
    }

    /// Fits a design that was made for another site with the same groups: layers that slide, and those that have less memory.
    /// Tables take so many bytes.
    pub fn adapt(&self, design: &mut Design, made_for: &Self, tables: u64) {
        let bytes = self.request.budget.saturating_sub(tables);
        for (layer, cutting) in design.layers.iter_mut().enumerate() {
            let slides = self.slides(layer);
            let [free, was] = [self, made_for].map(|site| site.ground.free(layer, bytes));
            if !slides && free >= was {
                continue;
            }
            let most = if slides { cutting.read } else { cutting.slice };
            let (fitting, ns) = self.cutting(layer, design.on_load[layer], free, 1.0, most, FEW);
            if ns == f64::INFINITY {
                continue;
            }
            let slice = fitting.slice.min(cutting.slice);
            let scratch = fitting.scratch.min(cutting.scratch);
            let Cutting { resident, resident_slice, .. } = *cutting;
            *cutting = match slides {
                true => Cutting { resident, resident_slice, ..fitting },
                false => Cutting { slice, scratch, ..*cutting },
            };
        }
    }

    /// The same for a share of what there is beside tables and a layer's activations.
    pub fn fitting_one(
        &self,
        layer: usize,
        algorithm: u32,
        slices: f64,
        share: f64,
    ) -> (Cutting, f64) {
        let bytes = self.request.budget.saturating_sub(self.usual_tables());
        let free = (self.ground.free(layer, bytes) as f64 * share) as u64;
        self.cutting(layer, algorithm, free, slices, u64::MAX, FEW)
    }

    /// For each layer the algorithm by which it takes the least time where so many of its slices shall find room; its own
    /// where it slides.
    pub fn quickest(&self, options: &Options, slices: f64) -> Vec<u32> {
        let quickest = |layer: usize| {
            let own = options.own(layer);
            if self.ground.sliding.group_of(layer).is_some() {
                return own;
            }
            let ns = |algorithm: u32| self.fitting_one(layer, algorithm, slices, 1.0).1;
            let all = std::iter::once(own).chain(options.of(layer));
            all.map(|algorithm| (ns(algorithm), algorithm))
                .min_by(|a, b| a.0.total_cmp(&b.0))
                .map_or(own, |(_, algorithm)| algorithm)
        };
        (0..self.request.network.layers.len()).map(quickest).collect()
    }

    /// Adds these, for some numbers of slices, to what all layers are to be computed by.
    pub fn add_quickest(&self, options: &Options, choices: &mut Vec<Vec<u32>>) {
        for slices in ROOM {
            let choice = self.quickest(options, slices);
            if !choices.contains(&choice) {
                choices.push(choice);
            }
        }
    }

    /// The coarsest slices of which each, with its scratch, still fits beside the activations in a budget. `join` has
    /// small layers share loads.
    fn coarsest(&self, budget: u64, join: bool, on_load: &[u32], loading: Loading) -> Design {
        let mut tables = self.least_tables();
        let mut design = self.coarsest_in(budget.saturating_sub(tables), join, on_load, loading);
        // Finer slices are more of them, and their tables leave less memory.
        for _ in 0..3 {
            let slices = design.slices(self.request.network, &self.ground);
            let needed = self.ground.tables_for(&self.request, &slices, |_| 0);
            if needed <= tables {
                break;
            }
            tables = needed;
            design = self.coarsest_in(budget.saturating_sub(tables), join, on_load, loading);
        }
        design
    }

    /// The same in so many bytes beside the tables.
    pub fn coarsest_in(&self, bytes: u64, join: bool, on_load: &[u32], loading: Loading) -> Design {
        let mut design = Design::uniform(Cutting::equal(1), on_load, loading);
        for (index, layer) in self.request.network.layers.iter().enumerate() {
            let free = self.ground.free(index, bytes);
            let panel = u64::from(layer.panel_bytes);
            let share = |limit: u64| if join { (limit + PAGE).min(LARGEST_READ) } else { 1 };
            if let Some(weights) = self.beside[index] {
                design.layers[index] = sliding(weights, free, if join { u64::MAX } else { 1 });
                continue;
            }
            let algorithm = &mut design.on_load[index];
            if !self.basis.shapes[index][number(*algorithm)].is_empty() {
                let (cutting, ns) = self.cutting(index, *algorithm, free, 1.0, u64::MAX, FEWEST);
                if ns < f64::INFINITY {
                    let read = share(cutting.slice);
                    design.layers[index] = Cutting { read, ..cutting };
                    continue;
                }
                *algorithm = self.basis.own[index];
            }
            let cuts = self.cuts(index);
            let cut = cuts.iter().find(|cut| cut.bytes <= free).or(cuts.last());
            let count = cut.map_or(1, |cut| cut.count);
            let limit = u64::from(count) * panel;
            let read = share(limit);
            let scratch = free.saturating_sub(weights_bytes(count, panel) + PAGE).max(1);
            design.layers[index] = Cutting { read, scratch, ..Cutting::equal(limit.max(1)) };
        }
        design
    }

    /// The slices that a layer can be cut into, by its own algorithm: of fewest first.
    pub fn cuts(&self, layer: usize) -> &[Slicing] {
        let Request { network, threads, .. } = self.request;
        self.basis.cuts[layer].get_or_init(|| {
            let record = &network.layers[layer];
            let (panels, panel) = (record.panels.max(1), u64::from(record.panel_bytes));
            let cut = |slices: u32| {
                let count = panels.div_ceil(slices);
                let step = step(network, layer, count, self.basis.own[layer]);
                let scratch = least_scratch_bytes(network, &step, threads);
                Slicing { count, slices, bytes: weights_bytes(count, panel) + scratch }
            };
            let mut cuts = vec![cut(1)];
            while let Some(Slicing { count: count @ 2.., slices, .. }) = cuts.last().copied() {
                // The fewest that are smaller.
                cuts.push(cut((slices + 1).max(panels.div_ceil(count - 1))));
            }
            cuts
        })
    }

    /// The designs that need the least memory, of which one is feasible if any is: the coarsest slices that fit,
    /// which need the fewest tables, and the finest, which need the least memory for weights.
    pub fn frugal(
        &self,
        budget: u64,
        on_load: &[u32],
        loading: Loading,
    ) -> impl Iterator<Item = Design> {
        let finest = Cutting { read: 1, scratch: 1, ..Cutting::equal(1) };
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

/// Bytes that so many panels of a layer take at most, in whole pages.
fn weights_bytes(count: u32, panel_bytes: u64) -> u64 {
    (u64::from(count) * panel_bytes + PAGE).next_multiple_of(PAGE)
}

/// A layer that slides, beside whose weights so many bytes are free: its steps have less scratch where there is little, and
/// small layers share reads of up to `most`.
fn sliding(weights: u64, free: u64, most: u64) -> Cutting {
    let scratch = free.saturating_sub(weights + 2 * PAGE).max(1);
    Cutting { scratch, read: (weights + PAGE).min(most).min(LARGEST_READ), ..Cutting::LAYERS }
}

/// A step with so many panels of a layer, by its own algorithm (0) or another.
fn step(network: &Network, layer: usize, count: u32, algorithm: u32) -> Step {
    let record = &network.layers[layer];
    let rows = network.tensors[record.output as usize].rows() as u32;
    let count = count.min(record.panels);
    Step { layer: layer as u32, rows, count, algorithm, ..Step::default() }
}
