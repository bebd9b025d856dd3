//! Facts of a request before its plan is decided: costs, the bound, and how each layer can be cut.

use crate::bound::least_bound_ns;
use crate::request::Request;
use crate::simulate::Costs;
use crate::steps::{panel_scratch_bytes, scratch_bytes};
use eyelet::kernels::table::TILES;
use eyelet::pack::{Method, Step};
use eyelet_model::algorithm::Algorithm;
use eyelet_model::network::Network;
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Even slices of a layer that is computed by Winograd's algorithm.
pub(in crate::search) struct Shape {
    pub(in crate::search) count: u32,
    pub(in crate::search) slices: u32,
    pub(in crate::search) scratch: Scratch,
    /// The time of one slice, by scratch, from the most that it can use downwards.
    pub(in crate::search) levels: Vec<Level>,
}

/// An amount of scratch, and the time of a step that has it.
#[derive(Clone, Copy, Debug)]
pub(in crate::search) struct Level {
    pub(in crate::search) bytes: u64,
    pub(in crate::search) ns: u64,
}

/// Even slices of a layer: whole panels, or parts of one. `weights` is the most bytes of weights of
/// a slice. `bytes` adds the scratch that it cannot do without.
#[derive(Clone, Copy, Debug)]
pub struct Slicing {
    pub count: u32,
    pub slices: u32,
    pub weights: u64,
    pub bytes: u64,
}

/// Facts of a request for all ways to slide and all algorithms of steps.
pub struct Precomputed {
    pub costs: Costs,
    /// Scratch of each layer in slices of one panel, with its own algorithm.
    pub(in crate::search) scratch: Vec<u64>,
    /// How each layer with Winograd's algorithm can be cut, fewest slices first: with its own
    /// algorithm, then with each of [`TILES`] on load.
    pub(in crate::search) shapes: Vec<[Vec<Shape>; 1 + TILES.len()]>,
    /// How each layer can be cut with its own algorithm, filled when first asked for.
    pub(in crate::search) cuts: Vec<OnceLock<Vec<Slicing>>>,
    /// Scratch of steps that was asked for so far.
    taken: Mutex<HashMap<Taker, Scratch>>,
    /// The layers' own algorithms.
    pub(in crate::search) own: Vec<u32>,
    /// No plan takes less.
    pub bound_ns: u64,
}

impl Precomputed {
    pub fn new(request: &Request<'_>) -> Self {
        let Request { network, threads, .. } = *request;
        let costs = Costs::new(network, request.profile, threads);
        let layers = 0..network.layers.len();
        let scratch = |layer: usize| scratch_bytes(network, &step(network, layer, 1, 0), threads);
        let shapes = |layer: usize| {
            let mut shapes: [Vec<Shape>; 1 + TILES.len()] = Default::default();
            if Algorithm::of(network, layer) != Algorithm::Direct {
                shapes[0] = self::shapes(request, &costs, layer, 0);
            }
            for algorithm in costs.on_load(layer) {
                shapes[number(algorithm)] = self::shapes(request, &costs, layer, algorithm);
            }
            shapes
        };
        let scratch = layers.clone().map(scratch).collect();
        let shapes = layers.map(shapes).collect();
        let (own, cuts) = (network.on_load.clone(), vec![OnceLock::new(); network.layers.len()]);
        let (bound_ns, taken) = (least_bound_ns(request), Mutex::default());
        Self { bound_ns, costs, scratch, shapes, cuts, taken, own }
    }

    /// The scratch of a step, computed once for all steps that are alike.
    pub fn scratch_of(&self, request: &Request<'_>, step: &Step) -> Scratch {
        let Step { layer, count, rows, .. } = *step;
        // The last panel may be narrower than the others.
        let last = step.first + count == request.network.layers[layer as usize].panels;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let known = taken.entry([layer, step.algorithm(), count, rows, last.into()]);
        *known.or_insert_with(|| Scratch::of(request, step))
    }
}

/// The properties of a step that decide its scratch: layer, algorithm, panels, rows, and whether it
/// has the last panel.
type Taker = [u32; 5];

/// The scratch with which a step can make whole panels, and all that it can use.
#[derive(Clone, Copy)]
pub struct Scratch {
    pub least: u64,
    pub all: u64,
}

impl Scratch {
    fn of(request: &Request<'_>, step: &Step) -> Self {
        let Request { network, threads, .. } = *request;
        Self {
            least: panel_scratch_bytes(network, step, threads),
            all: scratch_bytes(network, step, threads),
        }
    }
}

/// How a layer can be cut into even slices, each at most half as long as those before it.
fn shapes(request: &Request<'_>, costs: &Costs, layer: usize, algorithm: u32) -> Vec<Shape> {
    let network = request.network;
    let (panels, mut slices) = (network.layers[layer].panels.max(1), 1);
    let mut found = Vec::new();
    loop {
        let count = panels.div_ceil(slices);
        let step = step(network, layer, count, algorithm);
        let scratch = Scratch::of(request, &step);
        let with = |scratch_bytes: u64| Step { scratch_bytes, ..step };
        let less = |bytes: &u64| costs.less_scratch(&with(*bytes));
        let levels = std::iter::successors(Some(scratch.all), less)
            .map(|bytes| Level { bytes, ns: costs.step_ns(&with(bytes)) });
        found.push(Shape { count, slices, scratch, levels: levels.collect() });
        if count == 1 {
            return found;
        }
        slices = panels.div_ceil(count / 2);
    }
}

/// The index of an algorithm: 0 for the layer's own, then those of [`TILES`].
pub(in crate::search) fn number(algorithm: u32) -> usize {
    TILES.iter().position(|tile| *tile == algorithm as usize).map_or(0, |tile| tile + 1)
}

/// A step with `count` panels of a layer, by its own algorithm (0) or another.
pub(in crate::search) fn step(network: &Network, layer: usize, count: u32, algorithm: u32) -> Step {
    let record = &network.layers[layer];
    let rows = network.tensors[record.output as usize].rows() as u32;
    let count = count.min(record.panels);
    let (method, weights_in) = (Method::by(algorithm), network.region(layer));
    Step { layer: layer as u32, rows, count, method, weights_in, ..Step::default() }
}
