//! What the page draws, small: whole numbers in columns, times in tenths of a microsecond, one after the other as
//! differences.

use super::super::describe;
use super::super::output::milliseconds;
use super::graph;
use eyelet::pack::{FAST, NONE, PAGE, Region};
use eyelet_planner::bound::least_bound_ns;
use eyelet_planner::memory::buffer_sizes;
use eyelet_planner::network::Network;
use eyelet_planner::ops;
use eyelet_planner::plan;
use eyelet_planner::published::{self, Preload};
use eyelet_planner::search::{self, Effort, PlanError, Request, Strategy};
use eyelet_planner::simulate::{Span, simulate};
use serde::Serialize;

/// Nanoseconds in a tick.
const TICK: i64 = 100;

fn ticks(ns: i64) -> i64 {
    ns.div_euclid(TICK)
}

#[derive(Debug, Serialize)]
pub struct Data {
    network: String,
    isa: &'static str,
    board: String,
    estimated: bool,
    threads: u32,
    strategy: String,
    weights_bytes: u64,
    layers: Layers,
    /// Not of a run.
    curve: Option<Curve>,
    pub plans: Vec<Plan>,
}

/// In columns.
#[derive(Debug, Serialize)]
struct Layers {
    names: Vec<String>,
    operators: Vec<String>,
    bytes: Vec<u64>,
    /// Those that each reads from.
    sources: Vec<Vec<u32>>,
}

impl Data {
    pub fn new(request: &Request<'_>, plan: &plan::Plan, curve: Option<Curve>) -> Self {
        let Request { network, weights_bytes, profile, .. } = *request;
        let all = 0..network.layers.len();
        let bytes = |l: &eyelet::pack::Layer| u64::from(l.panels) * u64::from(l.panel_bytes);
        Self {
            network: network.name.clone(),
            isa: network.isa.name(),
            board: profile.name.clone(),
            estimated: profile.estimated,
            threads: plan.threads,
            strategy: plan.strategy.clone(),
            weights_bytes,
            layers: Layers {
                names: network.names.clone(),
                operators: all.map(|l| ops::name(&network.layers[l])).collect(),
                bytes: network.layers.iter().map(bytes).collect(),
                sources: graph::sources(network),
            },
            curve,
            plans: Vec::new(),
        }
    }
}

/// Latency over the budget: other plans of the same layers by the same strategy.
#[derive(Debug, Serialize)]
pub struct Curve {
    /// Ascending.
    budgets: Vec<u64>,
    predicted_ms: Vec<f64>,
    bounds_ms: Vec<f64>,
}

impl Curve {
    /// Budgets that are planned beside those of the pack.
    pub const POINTS: usize = 18;

    /// For requests like that of the pack's first plan.
    pub fn new(
        request: &Request<'_>,
        plans: &[(Network, plan::Plan)],
        done: impl Fn(usize),
    ) -> Self {
        let Request { network, profile, threads, .. } = *request;
        let own = plans.first().and_then(|(_, plan)| published::named(&plan.strategy).ok());
        let own: &dyn Strategy = own.unwrap_or(&published::JOINT);
        let plan = |strategy: &dyn Strategy, budget: u64| {
            let in_place = |layers: &Vec<bool>| vec![strategy.uses_in_place(); layers.len()];
            let mapped = network.mapped.as_ref().map(in_place);
            let network = &Network { mapped, ..network.clone() };
            let request = Request { network, budget, ..*request };
            search::make(strategy, &request, Effort::Fast).map(|made| made.plan)
        };
        // What is too little by far is refused with what is enough.
        let least = |strategy: &dyn Strategy| match plan(strategy, PAGE) {
            Err(PlanError::Budget { smallest, .. }) => Some(smallest),
            _ => None,
        };
        let of_pack = || plans.iter().map(|(_, plan)| plan.budget);
        let low = least(own).or(of_pack().min()).unwrap_or(PAGE);
        let high = least(&Preload).into_iter().chain(of_pack()).max().unwrap_or(low).max(low);
        let at = |index: usize| {
            let share = index as f64 / (Self::POINTS - 1) as f64;
            let bytes = low as f64 * (high as f64 / low as f64).powf(share);
            (bytes as u64).next_multiple_of(PAGE).clamp(low, high)
        };
        let mut budgets: Vec<u64> = (0..Self::POINTS).map(at).chain(of_pack()).collect();
        budgets.sort_unstable();
        budgets.dedup();
        let mut curve =
            Self { budgets: Vec::new(), predicted_ms: Vec::new(), bounds_ms: Vec::new() };
        for (index, budget) in budgets.into_iter().enumerate() {
            // The pack's own plans are as they are.
            let known = plans.iter().map(|(_, plan)| plan).find(|plan| plan.budget == budget);
            if let Some(plan) = known.cloned().or_else(|| plan(own, budget).ok()) {
                let bound = least_bound_ns(&Request { budget, ..*request });
                curve.budgets.push(budget);
                let predicted = simulate(network, &plan, profile, threads).steady_ns;
                curve.predicted_ms.push(milliseconds(predicted));
                curve.bounds_ms.push(milliseconds(bound));
            }
            done(index);
        }
        curve
    }
}

/// What was measured of a plan, in milliseconds of an inference.
#[derive(Debug, Serialize)]
pub struct Measured {
    pub runs: u32,
    /// The median, the least and the most.
    pub latency_ms: f64,
    pub least_ms: f64,
    pub most_ms: f64,
    pub compute_ms: f64,
    pub stall_ms: f64,
    /// Of each layer.
    pub layer_compute_ms: Vec<f64>,
    pub layer_stall_ms: Vec<f64>,
}

/// A plan and its predicted steady inference.
#[derive(Debug, Serialize)]
pub struct Plan {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    budget: u64,
    arena: u64,
    tables: u64,
    strategy: String,
    period: i64,
    first_ms: f64,
    steady_ms: f64,
    bound_ms: f64,
    compute_ms: f64,
    stall_ms: f64,
    /// What the loads of an inference take at least.
    read_ms: f64,
    read_bytes: u64,
    /// Sum of the copies of an inference, and the ring that they come from; 0 where loads are not staged.
    copy_ms: f64,
    staging_bytes: u64,
    resident_bytes: u64,
    steps: Steps,
    loads: Loads,
    copies: Copies,
    residents: Residents,
    buffers: Buffers,
    /// For each layer the loads that it reads from, and the bytes of its weights that stay.
    layer_loads: Vec<u32>,
    layer_resident: Vec<u64>,
    layer_algorithms: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
struct Steps {
    /// As differences.
    layer: Vec<i64>,
    wait: Vec<i64>,
    time: Vec<i64>,
    first: Vec<u32>,
    count: Vec<u32>,
    row: Vec<u32>,
    rows: Vec<u32>,
    /// Address and bytes, as they are: they repeat, or are few.
    scratch: Vec<u64>,
    scratch_bytes: Vec<u64>,
}

#[derive(Debug, Default, Serialize)]
struct Loads {
    wait: Vec<i64>,
    time: Vec<i64>,
    /// In pages.
    address: Vec<u64>,
    pages: Vec<u64>,
    /// First and last step that read it; -1 for none. The last as a difference from the first.
    first: Vec<i64>,
    more: Vec<i64>,
    /// The page where each part begins of which others are read for longer, or less long, and the last step that reads it.
    parts: Vec<Vec<(u64, usize)>>,
}

/// The copies of loads that are staged, in the order of loads; empty where none are.
#[derive(Debug, Default, Serialize)]
struct Copies {
    wait: Vec<i64>,
    time: Vec<i64>,
}

#[derive(Debug, Default, Serialize)]
struct Residents {
    address: Vec<u64>,
    pages: Vec<u64>,
    first: Vec<i64>,
    more: Vec<i64>,
}

#[derive(Debug, Default, Serialize)]
struct Buffers {
    address: Vec<u64>,
    bytes: Vec<u64>,
    /// Image lines of a ring; 0 if it is whole.
    lines: Vec<u32>,
    /// First and last step that touch it; 0 is the host's turn before the first, the period the one after.
    first: Vec<usize>,
    last: Vec<usize>,
    /// The layer that writes it first; -1 for an input.
    layer: Vec<i64>,
}

impl Plan {
    pub fn new(request: &Request<'_>, plan: &plan::Plan) -> Self {
        let network = request.network;
        let timeline = simulate(network, plan, request.profile, plan.threads);
        let streamed = describe::streamed_readers(network, plan);
        let resident = describe::resident_readers(network, plan);
        let layers = network.layers.len();
        let mut layer_loads = vec![0; layers];
        for (first, last) in streamed.iter().flatten() {
            let of_step = |step: usize| plan.steps[step].layer as usize;
            (of_step(*first)..=of_step(*last)).for_each(|layer| layer_loads[layer] += 1);
        }
        Self {
            measured: None,
            budget: plan.budget,
            arena: plan.arena_bytes,
            tables: plan.tables,
            strategy: plan.strategy.clone(),
            period: ticks(timeline.steady_ns as i64),
            first_ms: milliseconds(timeline.first_ns),
            steady_ms: milliseconds(timeline.steady_ns),
            bound_ms: milliseconds(least_bound_ns(request)),
            compute_ms: milliseconds(timeline.compute_ns),
            stall_ms: milliseconds(timeline.stall_ns),
            read_ms: milliseconds(timeline.read_ns),
            read_bytes: plan.bytes_per_inference(),
            copy_ms: milliseconds(timeline.copy_ns),
            staging_bytes: plan.staging_bytes,
            resident_bytes: plan.resident_bytes(),
            steps: Steps::new(plan, &timeline.steps),
            loads: Loads::new(network, plan, &timeline.loads),
            copies: Copies::new(&timeline.copies),
            residents: Residents::new(plan, &resident),
            buffers: Buffers::new(network, plan),
            layer_loads,
            layer_resident: layer_resident(network, plan),
            layer_algorithms: layer_algorithms(network, plan),
        }
    }
}

/// For each layer the bytes of weights that no load brings: those a resident covers.
fn layer_resident(network: &Network, plan: &plan::Plan) -> Vec<u64> {
    let mut bytes = vec![0; network.layers.len()];
    for step in &plan.steps {
        let weights = plan::step_weights(network, step);
        let stays = plan.resident.iter().any(|load| {
            let range = load.address..load.address + u64::from(load.bytes);
            step.weights_in == Region::Arena && range.contains(&step.weights)
        });
        // Rows of a layer that are computed apart share their weights.
        if stays && step.row == 0 {
            bytes[step.layer as usize] += weights.end - weights.start;
        }
    }
    bytes
}

/// The algorithm of each layer, which all of its steps have in common.
fn layer_algorithms(network: &Network, plan: &plan::Plan) -> Vec<String> {
    let mut algorithms = vec![String::new(); network.layers.len()];
    for step in &plan.steps {
        let algorithm = &mut algorithms[step.layer as usize];
        if algorithm.is_empty() {
            *algorithm = describe::algorithm_of(network, step);
        }
    }
    algorithms
}

/// Spans as waits and times, the ends rounded and not their differences, which would add up.
fn spans(spans: &[Span]) -> (Vec<i64>, Vec<i64>) {
    let mut before = 0;
    let pair = |span: &Span| {
        let (start, end) = (ticks(span.start), ticks(span.end));
        let wait = start - before;
        before = end;
        (wait, end - start)
    };
    spans.iter().map(pair).unzip()
}

fn first_and_more(readers: &[Option<(usize, usize)>]) -> (Vec<i64>, Vec<i64>) {
    let pair = |found: &Option<(usize, usize)>| {
        found.map_or((-1, 0), |(first, last)| (first as i64, (last - first) as i64))
    };
    readers.iter().map(pair).unzip()
}

impl Steps {
    fn new(plan: &plan::Plan, times: &[Span]) -> Self {
        let (wait, time) = spans(times);
        let mut before = 0;
        let layer = |step: &eyelet::pack::Step| {
            let layer = i64::from(step.layer);
            layer - std::mem::replace(&mut before, layer)
        };
        let steps = || plan.steps.iter();
        let in_arena =
            |step: &eyelet::pack::Step| if step.scratch < FAST { step.scratch_bytes } else { 0 };
        Self {
            layer: steps().map(layer).collect(),
            wait,
            time,
            first: steps().map(|step| step.first).collect(),
            count: steps().map(|step| step.count).collect(),
            row: steps().map(|step| step.row).collect(),
            rows: steps().map(|step| step.rows).collect(),
            // The page shows the arena, and no fast memory.
            scratch: steps().map(|step| step.scratch % FAST).collect(),
            scratch_bytes: steps().map(in_arena).collect(),
        }
    }
}

impl Loads {
    fn new(network: &Network, plan: &plan::Plan, times: &[Span]) -> Self {
        let (wait, time) = spans(times);
        let (first, more) = first_and_more(&describe::streamed_readers(network, plan));
        let pages = |parts: Vec<(u64, usize)>| match parts.len() {
            0 | 1 => Vec::new(),
            _ => parts.into_iter().map(|(at, last)| (at / PAGE, last)).collect(),
        };
        let parts = describe::streamed_parts(network, plan).into_iter().map(pages).collect();
        let address = plan.loads.iter().map(|load| load.address / PAGE).collect();
        let pages = plan.loads.iter().map(|load| u64::from(load.bytes) / PAGE).collect();
        Self { wait, time, address, pages, first, more, parts }
    }
}

impl Copies {
    fn new(times: &[Span]) -> Self {
        let (wait, time) = spans(times);
        Self { wait, time }
    }
}

impl Residents {
    fn new(plan: &plan::Plan, readers: &[Option<(usize, usize)>]) -> Self {
        let (first, more) = first_and_more(readers);
        let address = plan.resident.iter().map(|load| load.address / PAGE).collect();
        let pages = plan.resident.iter().map(|load| u64::from(load.bytes) / PAGE).collect();
        Self { address, pages, first, more }
    }
}

impl Buffers {
    fn new(network: &Network, plan: &plan::Plan) -> Self {
        /// First and last step, and the layer of the first.
        #[derive(Clone, Copy)]
        struct Life(usize, usize, i64);
        let mut lives: Vec<Option<Life>> = vec![None; network.buffers.len()];
        let mut touch = |tensor: u32, time: usize, layer: i64| {
            let buffer = network.tensors[tensor as usize].buffer as usize;
            let life = lives[buffer].get_or_insert(Life(time, time, layer));
            if time < life.0 {
                (life.0, life.2) = (time, layer);
            }
            life.1 = life.1.max(time);
        };
        for (index, step) in plan.steps.iter().enumerate() {
            let layer = &network.layers[step.layer as usize];
            let mut touch = |tensor| touch(tensor, index + 1, i64::from(step.layer));
            touch(layer.output);
            layer.inputs.iter().filter(|tensor| **tensor != NONE).for_each(|tensor| touch(*tensor));
        }
        let period = plan.period() as usize;
        network.inputs.iter().for_each(|port| touch(port.tensor, 0, -1));
        network.outputs.iter().for_each(|port| touch(port.tensor, period, -1));
        let rings: Vec<u32> = plan.places.iter().map(|place| place.lines).collect();
        let sizes = buffer_sizes(network, &rings);
        let mut all = Self::default();
        // The page shows the arena.
        let in_arena = |buffer: &usize| plan.places[*buffer].address < FAST;
        for buffer in (0..lives.len()).filter(in_arena) {
            if let Some(Life(first, last, layer)) = lives[buffer] {
                all.address.push(plan.places[buffer].address);
                all.bytes.push(sizes[buffer]);
                all.lines.push(rings[buffer]);
                all.first.push(first);
                all.last.push(last);
                all.layer.push(layer);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_does_not_add_up() {
        let all: Vec<Span> =
            (0..1000).map(|i| Span { start: 170 * i, end: 170 * i + 165 }).collect();
        let (wait, time) = spans(&all);
        let sum: i64 = wait.iter().chain(&time).sum();
        assert_eq!(sum, ticks(all[999].end));
        assert!(time.iter().all(|time| (1..=2).contains(time)));
        // What runs ahead begins before the host's turn.
        assert_eq!(spans(&[Span { start: -250, end: 130 }]), (vec![-3], vec![4]));
    }
}
