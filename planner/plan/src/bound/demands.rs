//! Lower bounds for the layers in a budget, and the bound for the inference that follows.

use super::Bound;
use super::contention::Contention;
use super::groups::Groups;
use super::reading::{LARGEST, Reading, channels, coarse, least_ns_per_byte};
use super::steps;
use crate::profile::{Costs, Outside, Profile};
use crate::steps::{least_scratch_bytes, least_slice_bytes, whole};
use eyelet::pack::{Layer, Method, PAGE, Region, Step};
use eyelet_model::network::Network;
use eyelet_model::ops::winograd;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::ops::Range;

/// The algorithms by which a layer may be computed.
pub(super) type Algorithms<'a> = &'a dyn Fn(usize, &Costs) -> Vec<u32>;

/// Lower bounds for each layer in a budget.
pub(super) struct Demands {
    bound: Bound,
    threads: u32,
    /// Nanoseconds to compute all of it, in whatever steps.
    pub(super) compute: Vec<f64>,
    /// Bytes of its weights, without those of an earlier layer that may stay for it.
    weights: Vec<f64>,
    /// Most bytes of a load that brings some of its weights.
    most: Vec<u64>,
    /// Whether there are steps of each that fit: otherwise there is no plan, and any bound is one.
    pub(super) fits: bool,
}

/// Lower bounds for layers, each of which is computed by some of these algorithms.
pub(super) fn demands(
    network: &Network,
    budget: u64,
    profile: &Profile,
    threads: u32,
    costs: &Costs,
    algorithms: Algorithms<'_>,
) -> Demands {
    let bound = Bound::within(network, profile, threads, budget);
    let (mut compute, mut weights, mut most) = (Vec::new(), Vec::new(), Vec::new());
    let (mut fits, mut places) = (true, HashSet::new());
    for (index, layer) in network.layers.iter().enumerate() {
        let of = OfLayer { network, costs, threads, budget, bound: &bound, index };
        // Algorithms that need more than the budget are no choice.
        let found: Vec<_> =
            algorithms(index, costs).into_iter().filter_map(|one| of.least(one)).collect();
        let least_ns = found.iter().map(|(ns, _)| *ns).reduce(f64::min);
        let part = in_arena(network, least_slice_bytes(network, index)) as f64;
        let most_free = found.iter().map(|(_, free)| *free).fold(part, f64::max);
        fits &= least_ns.is_some();
        compute.push(least_ns.unwrap_or(0.0));
        let all = in_arena(network, u64::from(layer.panels) * u64::from(layer.panel_bytes));
        // Weights that are read for another layer may serve this one, if they stay.
        let again = all > 0 && !places.insert((layer.weights, all));
        weights.push(if again { all.saturating_sub(budget) } else { all } as f64);
        most.push((most_free as u64).clamp(PAGE, LARGEST));
    }
    let most = of_loads(&most, &weights);
    Demands { bound, threads, compute, weights, most, fits }
}

/// Bytes of the arena that weights take at least: none of a pack that lies in memory.
fn in_arena(network: &Network, weights: u64) -> u64 {
    if network.mapped.is_some() { 0 } else { weights }
}

/// A layer in a budget.
struct OfLayer<'a> {
    network: &'a Network,
    costs: &'a Costs,
    threads: u32,
    budget: u64,
    bound: &'a Bound,
    index: usize,
}

impl OfLayer<'_> {
    /// The least time by an algorithm, and the bytes that it leaves to a load. `None` if no steps
    /// fit.
    fn least(&self, algorithm: u32) -> Option<(f64, f64)> {
        let &Self { network, costs, threads, budget, bound, index } = self;
        let (layer, slides) = (&network.layers[index], bound.slides[index]);
        let panel = in_arena(network, layer.panel_bytes.into()) as f64;
        let lines = lines(network, index, slides);
        let rows = whole(network, index).rows / lines;
        let step = |lines: u32, count: u32| Step {
            count,
            method: Method::by(algorithm),
            rows: lines * rows,
            // No weights come faster than those that stay.
            weights_in: Region::Arena,
            ..whole(network, index)
        };
        let left = |lines: u32| match slides {
            true => budget as f64 - bound.alive_with(index, lines),
            false => budget as f64 - bound.alive(index),
        };
        let wants_scratch = costs.wants_scratch(&step(lines, layer.panels));
        let tile = tile(layer, algorithm);
        let least = |lines: u32| {
            let of = |count: u32| least_scratch_bytes(network, &step(lines, count), threads);
            of(1).min(of(layer.panels))
        };
        let scratch = match (slides, bound.in_rings[index]) {
            // The scratch of blocks of few tiles: no step has fewer lines or threads.
            _ if wants_scratch => least_scratch_bytes(network, &step(tile.min(lines), 1), 1),
            // Steps of few rows take little.
            (true, true) => 0,
            (true, false) => least(1),
            (false, _) => least(lines),
        };
        let cached_rings = &bound.cached_rings[index];
        let ns_by = |lines: u32, count: u32, scratch: f64, outside: Option<Outside>| {
            costs.least_ns(&step(lines, count), scratch, outside)
        };
        let ns = |lines: u32, count: u32, scratch: f64| match slides {
            // Other layers that slide do not depend on where activations are.
            true if wants_scratch => cached_rings
                .of(lines)
                .map(|outside| ns_by(lines, count, scratch, Some(outside)))
                .fold(f64::INFINITY, f64::min),
            true => ns_by(lines, count, scratch, Some(cached_rings.best())),
            false => ns_by(lines, count, scratch, None),
        };
        let part = in_arena(network, least_slice_bytes(network, index)) as f64;
        let steps = steps::Layer {
            lines,
            tile,
            panels: layer.panels,
            panel_bytes: panel,
            part_bytes: if algorithm == 0 { part } else { panel },
            left: &left,
            scratch: scratch as f64,
            ns: &ns,
            floor: &|lines, count| {
                ns_by(lines, count, f64::INFINITY, slides.then_some(cached_rings.best()))
            },
            wants_scratch,
        };
        Some((steps.least_ns()?, bound.held(index, budget) - scratch as f64))
    }
}

/// The most bytes of loads of each layer's weights, by those of a load that a layer is the first to
/// use. A layer may be another that a load serves: then all between the two is in it, too.
fn of_loads(first: &[u64], weights: &[f64]) -> Vec<u64> {
    // Earlier layers whose load reaches this far, the largest load first. A load that ends here
    // does not reach later layers either.
    let mut loads: BinaryHeap<(u64, Reverse<usize>)> = BinaryHeap::new();
    let mut behind = vec![0.0];
    weights.iter().for_each(|bytes| behind.push(behind[behind.len() - 1] + bytes));
    let reaches =
        |before: usize, layer: usize| behind[layer] - behind[before + 1] <= first[before] as f64;
    let of_layer = |layer: usize| {
        while loads.peek().is_some_and(|&(_, Reverse(before))| !reaches(before, layer)) {
            loads.pop();
        }
        let largest = loads.peek().map_or(0, |(bytes, _)| *bytes);
        loads.push((first[layer], Reverse(layer)));
        largest.max(first[layer])
    };
    (0..first.len()).map(of_layer).collect()
}

/// Nanoseconds below which no plan stays whose layers take no less than that.
pub(super) fn least_ns(
    network: &Network,
    budget: u64,
    profile: &Profile,
    demands: &Demands,
) -> u64 {
    let Demands { bound, threads, compute, weights, most, .. } = demands;
    let held = |layer: usize| {
        let held = bound.held(layer, budget);
        let slice = in_arena(network, least_slice_bytes(network, layer)) as f64;
        [held, (held - slice).max(0.0)]
    };
    let held: Vec<[f64; 2]> = (0..compute.len()).map(held).collect();
    let read = bound.least_read(weights.iter().sum(), budget);
    let in_llc = budget <= profile.llc_bytes();
    let room = most.iter().copied().max().unwrap_or(PAGE);
    let free = (0..compute.len()).map(|layer| bound.held(layer, budget) as u64).max().unwrap_or(0);
    let contention = Contention::new((profile, *threads), in_llc, room, compute.iter().sum(), read);
    let mut least = contention.all_ns();
    for channel in channels(profile, in_llc, *threads) {
        let of_layer = |most: &u64| coarse(least_ns_per_byte(profile, &channel.rate, *most));
        let mut reading = Reading::new(&most.iter().map(of_layer).collect::<Vec<_>>());
        if let (true, Some(dearest)) = (channel.together, reading.ns_per_byte.first()) {
            reading.groups = Groups::new(&profile.service(in_llc, *threads), room, free, *dearest);
        }
        let found = self::most(compute, weights, &held, &reading, channel.intervals);
        // With a staging ring, all bytes are read at once with computing; this holds of the others.
        least = least.max(match profile.transfer {
            None => contention.interval_ns(found.inside, found.rest),
            Some(_) => found.inside + found.rest,
        });
    }
    least as u64
}

/// Lines that steps of a layer can make; 1 if it does not slide.
fn lines(network: &Network, layer: usize, slides: bool) -> u32 {
    let output = &network.tensors[network.layers[layer].output as usize];
    if slides { output.dims[1].max(1) } else { 1 }
}

/// Steps of a layer begin at multiples of this many lines.
fn tile(layer: &Layer, algorithm: u32) -> u32 {
    winograd::tile(layer).unwrap_or(algorithm).max(1)
}

/// The bound of an interval: computing inside it, and reading in the rest of the inference.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Said {
    pub(super) inside: f64,
    pub(super) rest: f64,
}

/// The largest bound of all intervals, or of the empty ones. `held` limits the bytes of weights
/// that the arena holds at the end of each layer: of all layers for the empty interval, otherwise
/// of the layers outside.
pub(super) fn most(
    compute: &[f64],
    weights: &[f64],
    held: &[[f64; 2]],
    reading: &Reading,
    intervals: bool,
) -> Said {
    let layers = compute.len();
    // Layers between two ends of intervals.
    let block = layers.div_ceil(ENDS).max(1);
    let blocks: Vec<Block> = (0..layers)
        .step_by(block)
        .map(|first| Block::new(first..layers.min(first + block), compute, weights, reading))
        .collect();
    let mut all_weights = vec![0.0; reading.ns_per_byte.len()];
    for (bytes, class) in weights.iter().zip(&reading.class) {
        all_weights[*class] += bytes;
    }
    let mut bound = Said::default();
    let mut say = |inside: f64, outside: &[f64], held: f64| {
        let rest = reading.least_ns(outside, held);
        if inside + rest > bound.inside + bound.rest {
            bound = Said { inside, rest };
        }
    };
    for (last, held) in held.iter().enumerate().take(layers) {
        say(0.0, &all_weights, held[0]);
        let ends = (last + 1).is_multiple_of(block) || last + 1 == layers;
        if !intervals || !ends {
            continue;
        }
        let mut time = 0.0;
        let mut outside = all_weights.clone();
        // Backwards from the block of `last`, once around.
        let (behind, before) = blocks.split_at(last / block + 1);
        for Block { compute, weights } in behind.iter().rev().chain(before.iter().rev()) {
            time += compute;
            for (class, bytes) in weights {
                // No less than nothing, for all that sums are rounded.
                outside[*class] = (outside[*class] - bytes).max(0.0);
            }
            say(time, &outside, held[1]);
        }
    }
    bound
}

/// Most places where intervals of layers begin and end. The maximum over fewer intervals is a
/// bound, too.
const ENDS: usize = 2048;

/// Layers between two places at which intervals may begin and end.
struct Block {
    compute: f64,
    /// Bytes of weights by class.
    weights: Vec<(usize, f64)>,
}

impl Block {
    fn new(layers: Range<usize>, compute: &[f64], weights: &[f64], reading: &Reading) -> Self {
        let mut found: Vec<(usize, f64)> = Vec::new();
        for layer in layers.clone().filter(|layer| weights[*layer] > 0.0) {
            let class = reading.class[layer];
            match found.iter_mut().find(|(of, _)| *of == class) {
                Some((_, bytes)) => *bytes += weights[layer],
                None => found.push((class, weights[layer])),
            }
        }
        Self { compute: compute[layers].iter().sum(), weights: found }
    }
}
