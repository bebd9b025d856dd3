//! How finely layers are cut, which algorithm they use, and how much scratch each step has.
//!
//! A layer's slices and their scratch share the memory that activations leave. More scratch makes
//! steps faster, fewer slices make tables smaller, and finer ones leave room to load ahead.
//! [Construction](super::construct) compares designs in which a number of slices fits in every
//! layer. The coarsest and the finest slices that fit decide the smallest budget
//! ([`frugal`](super::frugal)).

use crate::request::Request;
use crate::search::algorithms::on_load::Options;
use crate::search::place::builder::PlanBuilder;
use crate::search::place::design::{Design, SlicingTarget};
use crate::search::place::precomputed::{Shape, Slicing, number, step};
use crate::search::place::sliced_network::Loading;
use crate::slice::Cutting;
use crate::steps::{Parts, panel_scratch_bytes};
use eyelet::pack::{Method, PAGE, Step};

/// Larger reads are no faster on any storage that was measured.
const LARGEST_READ: u64 = 4 << 20;

/// Fewer slices are preferred if they take at most this many times as long; for the coarsest
/// designs, [`FEWEST`] times.
const FEW: f64 = 1.1;
const FEWEST: f64 = 1.6;

/// Less scratch is preferred if steps take at most this many times as long.
const NEARLY: f64 = 1.05;

impl PlanBuilder<'_> {
    /// Cuts every layer so that the slices of the target fit next to its activations and its
    /// scratch, with `residents` bytes set aside for residents.
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
            // Loads come while earlier layers compute.
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

    /// The algorithm of a layer for which one is wanted, and the one to use if that has no room.
    /// Layers of a group that reads weights again keep the algorithm that the group is made for.
    fn algorithms(&self, layer: usize, wanted: u32) -> [u32; 2] {
        match self.activations.sliding.reloads_weights(layer) {
            true => [self.request.network.on_load[layer]; 2],
            false => [wanted, self.precomputed.own[layer]],
        }
    }

    /// Bytes of the tables of a plan with few steps.
    fn usual_tables(&self) -> u64 {
        self.activations.usual_tables(self.request.network)
    }

    /// The slices of a layer of which `slices` fit in `free` bytes together with the scratch of
    /// one, and the time of the layer. If scratch is worth memory, these are the fewest slices that
    /// take at most `few` times the least.
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
        if let Some(weights) = self.group_weights[layer] {
            let all = step(self.request.network.layers[layer].panels);
            return (sliding(weights, free, most), self.costs.step_ns(&all) as f64);
        }
        if shapes.is_empty() && self.request.network.is_in_place(layer) {
            let cutting = self.coarsest_cut(layer, free);
            let all = step(self.request.network.layers[layer].panels);
            return (cutting, self.costs.step_ns(&all) as f64);
        }
        if shapes.is_empty() {
            let free = free.saturating_sub(self.precomputed.scratch[layer]) as f64;
            let limit = ((free / slices) as u64 / PAGE * PAGE).clamp(1, most);
            return self.equal(layer, algorithm, limit);
        }
        let fitting = |shape: &Shape| {
            let limit = u64::from(shape.count) * panel;
            // Weights start at a page.
            let weights = (slices * (limit + PAGE) as f64) as u64 + PAGE;
            let weights = self.request.network.bytes_in_arena(layer, weights);
            if weights + shape.scratch.least > free || (limit > most && shape.count > 1) {
                return None;
            }
            let (scratch, ns) = self.scratch(shape, free - weights, step(shape.count));
            let ns = ns as f64 * f64::from(shape.slices);
            Some((Cutting { scratch, ..Cutting::equal(limit) }, ns))
        };
        let all = || shapes.iter().filter_map(fitting);
        let least = all().map(|(_, ns)| ns).fold(f64::INFINITY, f64::min);
        // Fewer slices mean smaller tables and larger reads.
        let found = all().find(|(_, ns)| *ns <= least * few);
        found.unwrap_or((Cutting { scratch: 1, ..Cutting::equal(1) }, f64::INFINITY))
    }

    /// Cuts a layer as [`cutting`](Self::cutting) does, in a share of the memory next to tables and
    /// its activations.
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

    /// The scratch of a slice, and its time with it. It is the least scratch of at most `room`
    /// bytes with which the slice is nearly as fast: loads have the rest.
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

    /// Slices of at most `limit` bytes, or of one panel if they cannot be parts of it, and the time
    /// of the layer.
    fn equal(&self, layer: usize, algorithm: u32, limit: u64) -> (Cutting, f64) {
        let network = self.request.network;
        let all = step(network, layer, network.layers[layer].panels, algorithm);
        let panel = u64::from(network.layers[layer].panel_bytes);
        let parts = Parts::of(network, layer, limit).filter(|_| self.extended && algorithm == 0);
        let ns = match parts {
            Some(parts) => {
                let part = Step {
                    count: 1,
                    method: Method::Chains { first: 0, count: parts.each },
                    ..all
                };
                self.costs.step_ns(&part) * u64::from(parts.count) * u64::from(all.count)
            }
            None => self.costs.step_ns(&all),
        };
        (Cutting::equal(if self.extended { limit } else { limit.max(panel) }), ns as f64)
    }

    /// Designs with slices of one panel, which need the fewest tables, and with the smallest parts
    /// of panels, which need the least memory for weights.
    pub fn finest(&self, on_load: &[u32], loading: Loading) -> Vec<Design> {
        let finest = Cutting { read: 1, scratch: 1, ..Cutting::equal(1) };
        let parts = Design::uniform(finest, on_load, loading);
        let mut panels = parts.clone();
        for (cutting, layer) in panels.layers.iter_mut().zip(&self.request.network.layers) {
            cutting.slice = u64::from(layer.panel_bytes).max(1);
        }
        if self.extended { vec![panels, parts] } else { vec![panels] }
    }

    /// The fastest algorithm of each layer of which a slice fits with its scratch. Layers that slide
    /// keep their own.
    pub fn quickest(&self, options: &Options) -> Vec<u32> {
        let quickest = |layer: usize| {
            let own = options.own(layer);
            if self.activations.sliding.group_of(layer).is_some() {
                return own;
            }
            let ns = |algorithm: u32| self.fitting_one(layer, algorithm, 1.0, 1.0).1;
            let all = std::iter::once(own).chain(options.of(layer));
            all.map(|algorithm| (ns(algorithm), algorithm))
                .min_by(|a, b| a.0.total_cmp(&b.0))
                .map_or(own, |(_, algorithm)| algorithm)
        };
        (0..self.request.network.layers.len()).map(quickest).collect()
    }

    /// A choice of algorithms for this way to slide: layers that slide use those that their group
    /// was priced with.
    pub fn chosen(&self, options: &Options, on_load: &[u32]) -> Vec<u32> {
        let layers = on_load.iter().enumerate();
        let of = |(layer, algorithm): (usize, &u32)| match self.activations.sliding.group_of(layer)
        {
            Some(_) => options.own(layer),
            None => *algorithm,
        };
        layers.map(of).collect()
    }

    /// The coarsest slices of which each fits next to the activations in a budget, with its
    /// scratch. `join` has small layers share loads.
    fn coarsest(&self, budget: u64, join: bool, on_load: &[u32], loading: Loading) -> Design {
        let mut tables = self.least_tables();
        let mut design = self.coarsest_in(budget.saturating_sub(tables), join, on_load, loading);
        // Finer slices need larger tables, which leave less memory.
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

    /// The coarsest slices that fit in `bytes` next to the tables.
    pub fn coarsest_in(&self, bytes: u64, join: bool, on_load: &[u32], loading: Loading) -> Design {
        let mut design = Design::uniform(Cutting::equal(1), on_load, loading);
        for (index, &stored) in on_load.iter().enumerate() {
            let free = self.activations.free(index, bytes);
            let share = |limit: u64| if join { (limit + PAGE).min(LARGEST_READ) } else { 1 };
            if let Some(weights) = self.group_weights[index] {
                design.layers[index] = sliding(weights, free, if join { u64::MAX } else { 1 });
                continue;
            }
            let [algorithm, without_room] = self.algorithms(index, stored);
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
            let cutting = self.coarsest_cut(index, free);
            design.layers[index] = Cutting { read: share(cutting.slice), ..cutting };
        }
        design
    }

    /// The coarsest slices of a layer of which one fits in `free` bytes, by its own algorithm, with
    /// the scratch that is left.
    fn coarsest_cut(&self, layer: usize, free: u64) -> Cutting {
        let network = self.request.network;
        let cuts = self.cuts(layer);
        let cut = cuts.iter().find(|cut| cut.bytes <= free).or(cuts.last());
        let panel = u64::from(network.layers[layer].panel_bytes);
        let limit = cut.map_or(panel, |cut| cut.weights);
        let weights = network.bytes_in_arena(layer, weights_bytes(limit) + PAGE);
        let scratch = free.saturating_sub(weights).max(1);
        Cutting { scratch, ..Cutting::equal(limit.max(1)) }
    }

    /// How a layer can be cut with its own algorithm, fewest slices first.
    pub fn cuts(&self, layer: usize) -> &[Slicing] {
        let Request { network, threads, .. } = self.request;
        let all = self.precomputed.cuts[layer].get_or_init(|| {
            let record = &network.layers[layer];
            let (panels, panel) = (record.panels.max(1), u64::from(record.panel_bytes));
            let in_arena = |weights: u64| network.bytes_in_arena(layer, weights_bytes(weights));
            let cut = |slices: u32| {
                let count = panels.div_ceil(slices);
                let step = step(network, layer, count, self.precomputed.own[layer]);
                let scratch = panel_scratch_bytes(network, &step, threads);
                let weights = u64::from(count) * panel;
                Slicing { count, slices, weights, bytes: in_arena(weights) + scratch }
            };
            let mut cuts = vec![cut(1)];
            while let Some(Slicing { count: count @ 2.., slices, .. }) = cuts.last().copied() {
                // The fewest slices that are smaller.
                cuts.push(cut((slices + 1).max(panels.div_ceil(count - 1))));
            }
            // Then parts of a panel, each half as large as those before.
            let scratch = cuts.last().map_or(0, |cut| cut.bytes - in_arena(cut.weights));
            let mut most = panel;
            // They save nothing where weights are used in the pack.
            let own = self.precomputed.own[layer] == 0 && !network.is_in_place(layer);
            while let Some(parts) = Parts::of(network, layer, most / 2).filter(|_| own) {
                let (slices, weights) = (panels * parts.count, parts.bytes);
                cuts.push(Slicing {
                    count: 1,
                    slices,
                    weights,
                    bytes: in_arena(weights) + scratch,
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

    /// The designs that need the least memory while weights come and go. If any design is feasible,
    /// one of these is: the coarsest slices that fit need the fewest tables, and the finest need
    /// the least memory for weights.
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

/// Whole pages that weights of `bytes` take at most.
fn weights_bytes(bytes: u64) -> u64 {
    (bytes + PAGE).next_multiple_of(PAGE)
}

/// The cutting of a layer that slides, with `free` bytes for its group's weights and its scratch.
/// Small layers share reads of up to `most`.
fn sliding(weights: u64, free: u64, most: u64) -> Cutting {
    let scratch = free.saturating_sub(weights + 2 * PAGE).max(1);
    Cutting { scratch, read: (weights + PAGE).min(most).min(LARGEST_READ), ..Cutting::LAYERS }
}
