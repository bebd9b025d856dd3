//! A request and a way to slide, for which designs are made and become plans.

use super::basis::{Basis, Level, Shape, Slicing, number, step};
use super::design::{Built, Design, Grain, Pins};
use super::ground::{Ground, Lay};
use super::on_load::Options;
use super::place::{Cut, Loading, Misfit};
use super::{Request, residents, staging};
use crate::network::Network;
use crate::plan::Plan;
use crate::simulate::{Costs, simulate_with, simulate_within};
use crate::slice::{Cutting, Parts, panel_scratch_bytes};
use crate::slide::Group;
use eyelet::pack::{PAGE, Step};
use std::sync::Arc;

/// Larger reads are no faster on any storage that was measured.
const LARGEST_READ: u64 = 4 << 20;

/// Slices that shall find room beside scratch, where algorithms are chosen by what that leaves.
const ROOM: [f64; 2] = [1.0, 2.0];

/// Fewer slices are preferred if they take no more than so many times as long; the coarsest, if no more than so many times.
const FEW: f64 = 1.1;
const FEWEST: f64 = 1.6;

/// Less scratch is preferred if steps take no more than so many times as long.
const NEARLY: f64 = 1.05;

/// What all designs for a request and a way to slide share.
pub struct Site<'a> {
    pub request: Request<'a>,
    pub basis: Arc<Basis>,
    /// What steps cost where layers slide so.
    pub costs: Costs,
    pub ground: Ground,
    /// For each layer whose weights stay as long as its group the bytes of all of these.
    beside: Vec<Option<u64>>,
    /// Whether steps may have so little scratch that they make their weights in portions.
    pub portions: bool,
    /// Whether steps may be what published strategies have not: parts of a panel, and slices that keep transformed inputs.
    extended: bool,
}

impl<'a> Site<'a> {
    /// Without layers that slide, or steps that published strategies have not.
    pub fn new(request: &Request<'a>) -> Self {
        Self::with(request, Arc::new(Basis::new(request)), Vec::new()).published()
    }

    /// With layers that slide.
    pub fn with(request: &Request<'a>, basis: Arc<Basis>, groups: Vec<Group>) -> Self {
        let ground = Ground::new(request.network, groups, &Lay::default());
        Self::on(request, basis, ground)
    }

    /// With activations that lie so.
    pub fn on(request: &Request<'a>, basis: Arc<Basis>, ground: Ground) -> Self {
        let costs = basis.costs.clone().sliding(request.network, &ground.sliding.rings);
        let layers = &request.network.layers;
        let bytes = |at: usize| u64::from(layers[at].panels) * u64::from(layers[at].panel_bytes);
        let groups: Vec<Option<usize>> =
            (0..layers.len()).map(|layer| ground.sliding.keeps(layer)).collect();
        let of_group = |group: &Option<usize>| {
            let members = (0..layers.len()).filter(|layer| groups[*layer] == *group);
            group.map(|_| members.map(bytes).sum())
        };
        let beside = groups.iter().map(of_group).collect();
        Self { request: *request, basis, costs, ground, beside, portions: false, extended: true }
    }

    /// Whether it is for these groups, with layers that compute by the same algorithms.
    pub fn slides_as(&self, network: &Network, groups: &[Group]) -> bool {
        let mut layers = groups.iter().flat_map(|group| group.layers.clone());
        groups == self.ground.sliding.groups()
            && layers.all(|layer| network.on_load[layer] == self.request.network.on_load[layer])
    }

    /// The same where steps may have so little scratch that they make their weights in portions, or not.
    pub fn in_portions(self, portions: bool) -> Self {
        Self { portions, ..self }
    }

    /// The same where slices are whole panels, and each transforms its inputs.
    pub fn published(self) -> Self {
        Self { extended: false, ..self }
    }

    /// Cuts the network as a design has it.
    pub fn cut(&self, design: &Design) -> Cut<'_> {
        let slices = design.slices(self.request.network, &self.ground);
        Cut::new(self, slices)
    }

    /// Whether a layer slides, and is not cut.
    pub fn slides(&self, layer: usize) -> bool {
        self.beside[layer].is_some()
    }

    /// The budget from which on everything fits at its lowest place.
    pub fn least_bytes(&self, design: &Design) -> u64 {
        self.cut(design).least_bytes(&self.request)
    }

    /// Whether that is no more than the budget of the request: placing ends where something finds no room.
    pub fn surely_fits(&self, design: &Design) -> bool {
        self.cut(design).place_surely(&self.request, self.request.budget, design.loading).is_ok()
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

    /// The same, and what placing took, in segments of memory that were looked at for places.
    pub fn build_counting(&self, design: &Design) -> (Result<Built, Misfit>, usize) {
        let cut = self.cut(design);
        let placed = cut.place(&self.request, self.request.budget, design.loading);
        let built = placed.map(|plan| self.predict(self.staged(plan, design)));
        (built, cut.looked())
    }

    /// The same with everything at the lowest place.
    pub fn build_surely(&self, design: &Design) -> Result<Built, Misfit> {
        Ok(self.predict(self.place_surely(design, self.request.budget)?))
    }

    /// As the one, if there is room for that, or as the other; and whether there was.
    pub fn build_somehow(&self, design: &Design) -> Result<(Built, bool), Misfit> {
        let (cut, request) = (self.cut(design), &self.request);
        let placed = cut.place(request, request.budget, design.loading).map(|plan| (plan, true));
        let (plan, has_room) = match placed {
            Ok(placed) => placed,
            Err(_) => (cut.place_surely(request, request.budget, design.loading)?, false),
        };
        Ok((self.predict(self.staged(plan, design)), has_room))
    }

    pub fn predict(&self, plan: Plan) -> Built {
        Built { line: simulate_with(&plan, &self.costs), plan }
    }

    /// The same, unless it is seen to take more than so long: then what it takes at least.
    pub fn predict_within(&self, plan: Plan, most_ns: u64) -> Result<Built, u64> {
        Ok(Built { line: simulate_within(&plan, &self.costs, most_ns)?, plan })
    }

    /// Whether a plan is as fast as the lower bound, but for what nobody can measure.
    pub fn is_optimal(&self, built: &Built) -> bool {
        built.line.steady_ns <= self.basis.bound_ns + self.basis.bound_ns / 1000
    }

    /// Bytes of the tables that no plan is without.
    pub fn least_tables(&self) -> u64 {
        self.ground.tables.least(0)
    }

    /// Whether tables and activations fit the budget of the request.
    pub fn has_room(&self) -> bool {
        self.least_tables() + self.ground.peak <= self.request.budget
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
            let [algorithm, without_room] = self.algorithms(layer, on_load[layer]);
            let (found, ns) = of(algorithm);
            (design.on_load[layer], *cutting) = (algorithm, found);
            if ns == f64::INFINITY {
                (design.on_load[layer], *cutting) = (without_room, of(without_room).0);
            }
        }
        design
    }

    /// By what a layer is computed that was to be computed by an algorithm, and by what where that has no room: a group that reads
    /// anew is there for what its layers transform.
    fn algorithms(&self, layer: usize, wanted: u32) -> [u32; 2] {
        match self.ground.sliding.anew(layer) {
            true => [self.request.network.on_load[layer]; 2],
            false => [wanted, self.basis.own[layer]],
        }
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
            return self.equal(layer, algorithm, limit);
        }
        let fitting = |shape: &Shape| {
            let limit = u64::from(shape.count) * panel;
            // Weights begin with a page.
            let weights = (slices * (limit + PAGE) as f64) as u64 + PAGE;
            if weights + shape.scratch.least(self.portions) > free
                || (limit > most && shape.count > 1)
            {
                return None;
            }
            let room = free - weights;
            let (scratch, ns) = self.scratch(shape, room, step(shape.count));
            let ns = ns as f64 * f64::from(shape.slices);
            let keeps = |kept: &&Level| {
                let (bytes, kept_ns) = (kept.bytes, kept.ns as f64);
                bytes <= room && kept_ns * (if bytes <= scratch { 1.0 } else { NEARLY }) < ns
            };
            Some(match shape.kept.as_ref().filter(|_| self.extended).filter(keeps) {
                Some(kept) => {
                    let scratch = kept.bytes;
                    let cutting = Cutting { scratch, keep: true, ..Cutting::equal(limit) };
                    (cutting, kept.ns as f64)
                }
                None => (Cutting { scratch, ..Cutting::equal(limit) }, ns),
            })
        };
        let all = || shapes.iter().filter_map(fitting);
        let least = all().map(|(_, ns)| ns).fold(f64::INFINITY, f64::min);
        // Fewer slices are smaller tables and larger reads.
        let found = all().find(|(_, ns)| *ns <= least * few);
        found.unwrap_or((Cutting { scratch: 1, ..Cutting::equal(1) }, f64::INFINITY))
    }

    /// The scratch of a slice that may have so much: the least with which it is nearly as fast, since loads have the rest. And what it
    /// takes then.
    fn scratch(&self, shape: &Shape, room: u64, step: Step) -> (u64, u64) {
        let most = shape.scratch.all.min(room);
        let ns = |bytes: u64| {
            let scratch_bytes = if bytes == shape.scratch.all { 0 } else { bytes };
            self.costs.step_ns(&Step { scratch_bytes, ..step })
        };
        let with_most = ns(most);
        let levels = shape.levels.iter().filter(|level| level.bytes < most);
        let least = levels.clone().map(|level| level.ns).min().unwrap_or(u64::MAX);
        let nearly = least.min(with_most) as f64 * NEARLY;
        let level = levels.rev().find(|level| level.ns as f64 <= nearly);
        level.map_or((most, with_most), |level| (level.bytes, ns(level.bytes)))
    }

    /// Slices of at most so many bytes, or of one panel where they cannot be parts of it, and what computing them takes.
    fn equal(&self, layer: usize, algorithm: u32, limit: u64) -> (Cutting, f64) {
        let network = self.request.network;
        let all = step(network, layer, network.layers[layer].panels, algorithm);
        let panel = u64::from(network.layers[layer].panel_bytes);
        let parts = Parts::of(network, layer, limit).filter(|_| self.extended && algorithm == 0);
        let ns = match parts {
            Some(parts) => {
                let part = Step { count: 1, chains: parts.each, ..all };
                self.costs.step_ns(&part) * u64::from(parts.count) * u64::from(all.count)
            }
            None => self.costs.step_ns(&all),
        };
        (Cutting::equal(if self.extended { limit } else { limit.max(panel) }), ns as f64)
    }

    /// Slices of one panel, and the smallest parts of panels: what needs the fewest tables, or the least memory for weights.
    pub fn finest(&self, on_load: &[u32], loading: Loading) -> Vec<Design> {
        let finest = Cutting { read: 1, scratch: 1, ..Cutting::equal(1) };
        let parts = Design::uniform(finest, on_load, loading);
        let mut panels = parts.clone();
        for (cutting, layer) in panels.layers.iter_mut().zip(&self.request.network.layers) {
            cutting.slice = u64::from(layer.panel_bytes).max(1);
        }
        if self.extended { vec![panels, parts] } else { vec![panels] }
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
            let keep = fitting.keep && cutting.keep;
            let Cutting { resident, resident_slice, .. } = *cutting;
            *cutting = match slides {
                true => Cutting { resident, resident_slice, ..fitting },
                false => Cutting { slice, scratch, keep, ..*cutting },
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

    /// What of such a choice is one here: layers that slide compute as their group was priced.
    pub fn chosen(&self, options: &Options, on_load: &[u32]) -> Vec<u32> {
        let layers = on_load.iter().enumerate();
        let of = |(layer, algorithm): (usize, &u32)| match self.ground.sliding.group_of(layer) {
            Some(_) => options.own(layer),
            None => *algorithm,
        };
        layers.map(of).collect()
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
            let [algorithm, without_room] = self.algorithms(index, on_load[index]);
            design.on_load[index] = algorithm;
            if !self.basis.shapes[index][number(algorithm)].is_empty() {
                let (cutting, ns) = self.cutting(index, algorithm, free, 1.0, u64::MAX, FEWEST);
                if ns < f64::INFINITY {
                    let read = share(cutting.slice);
                    design.layers[index] = Cutting { read, ..cutting };
                    continue;
                }
                design.on_load[index] = without_room;
            }
            let cuts = self.cuts(index);
            let cut = cuts.iter().find(|cut| cut.bytes <= free).or(cuts.last());
            let limit = cut.map_or(panel, |cut| cut.weights);
            let read = share(limit);
            let scratch = free.saturating_sub(weights_bytes(limit) + PAGE).max(1);
            design.layers[index] = Cutting { read, scratch, ..Cutting::equal(limit.max(1)) };
        }
        design
    }

    /// The slices that a layer can be cut into, by its own algorithm: of fewest first.
    pub fn cuts(&self, layer: usize) -> &[Slicing] {
        let Request { network, threads, .. } = self.request;
        let all = self.basis.cuts[layer].get_or_init(|| {
            let record = &network.layers[layer];
            let (panels, panel) = (record.panels.max(1), u64::from(record.panel_bytes));
            let cut = |slices: u32| {
                let count = panels.div_ceil(slices);
                let step = step(network, layer, count, self.basis.own[layer]);
                let scratch = panel_scratch_bytes(network, &step, threads);
                let weights = u64::from(count) * panel;
                Slicing { count, slices, weights, bytes: weights_bytes(weights) + scratch }
            };
            let mut cuts = vec![cut(1)];
            while let Some(Slicing { count: count @ 2.., slices, .. }) = cuts.last().copied() {
                // The fewest that are smaller.
                cuts.push(cut((slices + 1).max(panels.div_ceil(count - 1))));
            }
            // Then parts of a panel, each of half as much as the ones before.
            let scratch = cuts.last().map_or(0, |cut| cut.bytes - weights_bytes(cut.weights));
            let mut most = panel;
            let own = self.basis.own[layer] == 0;
            while let Some(parts) = Parts::of(network, layer, most / 2).filter(|_| own) {
                let (slices, weights) = (panels * parts.count, parts.bytes);
                cuts.push(Slicing {
                    count: 1,
                    slices,
                    weights,
                    bytes: weights_bytes(weights) + scratch,
                });
                if parts.each == 1 {
                    break;
                }
                most = weights;
            }
            cuts
        });
        let panels = network.layers[layer].panels.max(1);
        let whole = all.partition_point(|cut| cut.slices <= panels);
        if self.extended { all } else { &all[..whole] }
    }

    /// The designs that need the least memory while weights come and go, of which one is feasible if any is: the coarsest slices
    /// that fit, which need the fewest tables, and the finest, which need the least memory for weights.
    pub fn frugal(
        &self,
        budget: u64,
        on_load: &[u32],
        loading: Loading,
    ) -> impl Iterator<Item = Design> {
        let finest = self.finest(on_load, loading);
        let coarsest = move |join| self.coarsest(budget, join, on_load, loading);
        [true, false].into_iter().map(coarsest).chain(finest)
    }

    /// Has loads of a design stay, of up to `capacity` bytes together.
    pub fn pin(&self, design: &mut Design, capacity: u64, pins: Pins) {
        let network = self.request.network;
        let slices = design.slices(network, &self.ground);
        let reads = &slices.reads;
        let bytes: Vec<u64> = reads.iter().map(|read| read.bytes).collect();
        if bytes.iter().all(|bytes| *bytes > capacity) {
            return;
        }
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
                // A panel stays as a whole, or not at all.
                let count = if step.chain == 0 { step.count } else { 0 };
                let resident = &mut design.layers[step.layer as usize].resident;
                *resident = resident.saturating_add(count);
            }
        }
    }
}

/// Whole pages that so many bytes of weights take at most.
fn weights_bytes(bytes: u64) -> u64 {
    (bytes + PAGE).next_multiple_of(PAGE)
}

/// A layer that slides, beside whose weights so many bytes are free: its steps have less scratch where there is little, and
/// small layers share reads of up to `most`.
fn sliding(weights: u64, free: u64, most: u64) -> Cutting {
    let scratch = free.saturating_sub(weights + 2 * PAGE).max(1);
    Cutting { scratch, read: (weights + PAGE).min(most).min(LARGEST_READ), ..Cutting::LAYERS }
}
