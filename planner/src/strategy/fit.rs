//! How finely the layers of a builder are cut, what they are computed by, and how much scratch each
//! step has.
//!
//! What activations leave beside a layer is shared by its slices and their scratch. More scratch
//! makes steps faster, fewer slices make tables smaller, and finer ones leave loads room to come
//! ahead. Designs that give so many slices room in every layer are what
//! [construction](super::construct) compares; the coarsest and the finest that fit decide what the
//! smallest budget is ([`frugal`](super::frugal)).

use super::Request;
use super::precomputed::{Level, Shape, Slicing, number, step};
use super::design::{Design, SlicingTarget};
use super::on_load::Options;
use super::place::Loading;
use super::builder::PlanBuilder;
use crate::slice::Cutting;
use crate::steps::{Parts, panel_scratch_bytes};
use eyelet::pack::{PAGE, Step};

/// Larger reads are no faster on any storage that was measured.
const LARGEST_READ: u64 = 4 << 20;

/// Slices that shall find room beside scratch, where algorithms are chosen by what that leaves.
const ROOM: [f64; 2] = [1.0, 2.0];

/// Fewer slices are preferred if they take no more than so many times as long; the coarsest, if no
/// more than so many times.
const FEW: f64 = 1.1;
const FEWEST: f64 = 1.6;

/// Less scratch is preferred if steps take no more than so many times as long.
const NEARLY: f64 = 1.05;

impl PlanBuilder<'_> {
    /// Slices such that some find room in every layer, beside its activations and its scratch, when
    /// `residents` bytes are given to residents.
    pub fn fitting(
        &self,
        residents: u64,
        target: SlicingTarget,
        on_load: &[u32],
        loading: Loading,
    ) -> Design {
        let bytes = self.request.budget.saturating_sub(self.usual_tables() + residents);
        let free: Vec<u64> =
            (0..on_load.len()).map(|layer| self.activations.free(layer, bytes)).collect();
        let mut design = Design::uniform(Cutting::LAYERS, on_load, loading);
        for (layer, cutting) in design.layers.iter_mut().enumerate() {
            // Loads come while the layers before compute.
            let around = layer.saturating_sub(target.ahead)..=layer;
            let free = free[around].iter().min().copied().unwrap_or(0);
            let of =
                |algorithm| self.cutting(layer, algorithm, free, target.slices, target.most, FEW);
            let [algorithm, without_room] = self.algorithms(layer, on_load[layer]);
            let (found, ns) = of(algorithm);
            (design.step_algorithms[layer], *cutting) = (algorithm, found);
            if ns == f64::INFINITY {
                (design.step_algorithms[layer], *cutting) = (without_room, of(without_room).0);
            }
        }
        design
    }

    /// By what a layer is computed that was to be computed by an algorithm, and by what where that
    /// has no room: a group that reads anew is there for what its layers transform.
    fn algorithms(&self, layer: usize, wanted: u32) -> [u32; 2] {
        match self.activations.sliding.anew(layer) {
            true => [self.request.network.on_load[layer]; 2],
            false => [wanted, self.precomputed.own[layer]],
        }
    }

    /// Bytes of the tables that a plan has at least where steps are few.
    fn usual_tables(&self) -> u64 {
        self.activations.usual_tables(self.request.network)
    }

    /// The slices of a layer, of which so many and one's scratch find room in so many bytes, and
    /// what computing them takes. Where scratch is worth memory, they are the fewest that take no
    /// more than `few` times the least.
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
        let shapes = &self.precomputed.shapes[layer][number(algorithm)];
        let step = |count: u32| step(self.request.network, layer, count, algorithm);
        if let Some(weights) = self.beside[layer] {
            let all = step(self.request.network.layers[layer].panels);
            return (sliding(weights, free, most), self.costs.step_ns(&all) as f64);
        }
        if shapes.is_empty() {
            let free = free.saturating_sub(self.precomputed.scratch[layer]) as f64;
            let limit = ((free / slices) as u64 / PAGE * PAGE).clamp(1, most);
            return self.equal(layer, algorithm, limit);
        }
        let fitting = |shape: &Shape| {
            let limit = u64::from(shape.count) * panel;
            // Weights begin with a page.
            let weights = (slices * (limit + PAGE) as f64) as u64 + PAGE;
            if weights + shape.scratch.least > free
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

    /// The same for a share of what there is beside tables and a layer's activations.
    pub fn fitting_one(
        &self,
        layer: usize,
        algorithm: u32,
        slices: f64,
        share: f64,
    ) -> (Cutting, f64) {
        let bytes = self.request.budget.saturating_sub(self.usual_tables());
        let free = (self.activations.free(layer, bytes) as f64 * share) as u64;
        self.cutting(layer, algorithm, free, slices, u64::MAX, FEW)
    }

    /// The scratch of a slice that may have so much: the least with which it is nearly as fast,
    /// since loads have the rest. And what it takes then.
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

    /// Slices of at most so many bytes, or of one panel where they cannot be parts of it, and what
    /// computing them takes.
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

    /// Slices of one panel, and the smallest parts of panels: what needs the fewest tables, or the
    /// least memory for weights.
    pub fn finest(&self, on_load: &[u32], loading: Loading) -> Vec<Design> {
        let finest = Cutting { read: 1, scratch: 1, ..Cutting::equal(1) };
        let parts = Design::uniform(finest, on_load, loading);
        let mut panels = parts.clone();
        for (cutting, layer) in panels.layers.iter_mut().zip(&self.request.network.layers) {
            cutting.slice = u64::from(layer.panel_bytes).max(1);
        }
        if self.extended { vec![panels, parts] } else { vec![panels] }
    }

    /// For each layer the algorithm by which it takes the least time where so many of its slices
    /// shall find room; its own where it slides.
    pub fn quickest(&self, options: &Options, slices: f64) -> Vec<u32> {
        let quickest = |layer: usize| {
            let own = options.own(layer);
            if self.activations.sliding.group_of(layer).is_some() {
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
        let of = |(layer, algorithm): (usize, &u32)| match self.activations.sliding.group_of(layer) {
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

    /// The coarsest slices of which each, with its scratch, still fits beside the activations in a
    /// budget. `join` has small layers share loads.
    fn coarsest(&self, budget: u64, join: bool, on_load: &[u32], loading: Loading) -> Design {
        let mut tables = self.least_tables();
        let mut design = self.coarsest_in(budget.saturating_sub(tables), join, on_load, loading);
        // Finer slices are more of them, and their tables leave less memory.
        for _ in 0..3 {
            let slices = design.slices(self.request.network, &self.activations);
            let needed = self.activations.tables_for(&self.request, &slices, |_| 0);
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
            let free = self.activations.free(index, bytes);
            let panel = u64::from(layer.panel_bytes);
            let share = |limit: u64| if join { (limit + PAGE).min(LARGEST_READ) } else { 1 };
            if let Some(weights) = self.beside[index] {
                design.layers[index] = sliding(weights, free, if join { u64::MAX } else { 1 });
                continue;
            }
            let [algorithm, without_room] = self.algorithms(index, on_load[index]);
            design.step_algorithms[index] = algorithm;
            if !self.precomputed.shapes[index][number(algorithm)].is_empty() {
                let (cutting, ns) = self.cutting(index, algorithm, free, 1.0, u64::MAX, FEWEST);
                if ns < f64::INFINITY {
                    let read = share(cutting.slice);
                    design.layers[index] = Cutting { read, ..cutting };
                    continue;
                }
                design.step_algorithms[index] = without_room;
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
        let all = self.precomputed.cuts[layer].get_or_init(|| {
            let record = &network.layers[layer];
            let (panels, panel) = (record.panels.max(1), u64::from(record.panel_bytes));
            let cut = |slices: u32| {
                let count = panels.div_ceil(slices);
                let step = step(network, layer, count, self.precomputed.own[layer]);
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
            let own = self.precomputed.own[layer] == 0;
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

    /// The designs that need the least memory while weights come and go, of which one is feasible
    /// if any is: the coarsest slices that fit, which need the fewest tables, and the finest, which
    /// need the least memory for weights.
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
}

/// Whole pages that so many bytes of weights take at most.
fn weights_bytes(bytes: u64) -> u64 {
    (bytes + PAGE).next_multiple_of(PAGE)
}

/// A layer that slides, beside whose weights so many bytes are free: its steps have less scratch
/// where there is little, and small layers share reads of up to `most`.
fn sliding(weights: u64, free: u64, most: u64) -> Cutting {
    let scratch = free.saturating_sub(weights + 2 * PAGE).max(1);
    Cutting { scratch, read: (weights + PAGE).min(most).min(LARGEST_READ), ..Cutting::LAYERS }
}
