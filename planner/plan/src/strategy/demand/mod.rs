//! Demand Layering as published (RTSS '22), by eyelet's kernels and runtime: whole layers, one load
//! a layer, and no more memory for weights than a pipeline of layers needs.
//!
//! On a device with a memory of its own a layer is read into a staging ring (the paper's CPU
//! buffer), copied from there to the region of weights (its GPU buffer), and computed:
//!
//! - `demand-seq`: one after the other; a buffer of the largest layer each.
//! - `demand-sync`: all three at once, of three layers, in common cycles; two such buffers each.
//! - `demand-async`: each as soon as it can; a circular queue of the largest layer each.
//!
//! Everywhere else a layer is read to where it is used, there is one buffer, and `demand-async` is
//! what the paper calls the two-stage pipeline: `demand-2s`. `demand-async-md` and `demand-2s-md`
//! find the least delay: the queues grow by a step until they hold the network, every delay is
//! recorded, and the smallest queues with the least one are taken.
//!
//! As published, inferences are planned one by one: nothing is read before the host's turn is over.
//! Activations and scratch lie below the weights' region, and share nothing with it.

mod pipeline;

pub use pipeline::{Pipeline, capacities};

use super::builder::PlanBuilder;
use super::design::Design;
use super::place::Loading;
use super::{PlanError, PlanResult, Request, Strategy};
use crate::simulate::{Durations, play};
use crate::slice::Cutting;
use eyelet::pack::{Load, PAGE};
use eyelet_model::plan::{Plan, step_weights};
use std::time::Instant;

/// The step by which queues grow by default. (The publication does not state its own.)
pub const DELTA: u64 = 1 << 20;

/// A pipeline as it is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    pub pipeline: Pipeline,
    /// Whether queues grow until the delay is the least.
    pub least_delay: bool,
}

/// The plan for a request; the error names the smallest budget. `delta` is the step by which queues
/// grow.
pub fn plan(request: &Request<'_>, demand: Demand, delta: u64) -> Result<PlanResult, PlanError> {
    plan_on(&PlanBuilder::new(request), demand, delta)
}

/// The budget has no room for the pipeline, whose largest weights are this layer's.
fn no_room(request: &Request<'_>, smallest: u64, layer: usize) -> PlanError {
    PlanError::Budget {
        network: request.network.name.clone(),
        budget: request.budget,
        smallest,
        layer: request.network.names.get(layer).cloned().unwrap_or_default(),
        reason: "the pipeline's room for the largest layer's weights, beside all activations and scratch"
            .to_owned(),
    }
}

/// Plans with a builder at hand, in which no layers slide.
pub fn plan_on(
    builder: &PlanBuilder<'_>,
    demand: Demand,
    delta: u64,
) -> Result<PlanResult, PlanError> {
    let Demand { pipeline, least_delay } = demand;
    let start = Instant::now();
    let request = &builder.request;
    let staged = request.is_staged();
    if staged && pipeline == Pipeline::TwoStage {
        let board = request.profile.name.clone();
        let strategy = Strategy::Demand(demand).name().to_owned();
        return Err(PlanError::TwoStages { strategy, board });
    }
    let design = Design::uniform(Cutting::LAYERS, &request.network.on_load, Loading::Inference);
    let slices = design.slices(request.network, &builder.activations);
    let (reads, read_of) = (slices.reads.clone(), slices.read_of.clone());
    let mut frame = builder.sliced(slices).frame(request);
    frame.loads = reads
        .iter()
        .map(|read| Load { offset: read.offset, bytes: read.bytes as u32, ..Load::default() })
        .collect();
    let users: Vec<i64> = reads.iter().map(|read| read.first as i64 + 1).collect();
    let base = frame.arena_bytes;
    let lay = |capacity: u64| {
        let mut plan = frame.clone();
        plan.arena_bytes += capacity;
        plan.staging_bytes = if staged { capacity.max(PAGE) } else { 0 };
        pipeline.lay(&mut plan, &users, base, capacity);
        for (step, read) in plan.steps.iter_mut().zip(&read_of) {
            if let Some(read) = *read {
                let first = step_weights(request.network, step).start;
                step.weights = plan.loads[read].address + first - reads[read].offset;
            }
        }
        plan
    };
    let largest = reads.iter().max_by_key(|read| read.bytes);
    let least = pipeline.least_bytes(largest.map_or(0, |read| read.bytes));
    let plan = lay(least);
    if plan.arena_bytes > request.budget {
        let layer = largest.map_or(0, |read| plan.steps[read.first].layer as usize);
        return Err(no_room(request, plan.arena_bytes, layer));
    }
    let mut made = PlanResult { plan, constructive: start.elapsed(), ..PlanResult::default() };
    if least_delay {
        let durations = Durations::new(&made.plan, &builder.precomputed.costs);
        let all: u64 = reads.iter().map(|read| read.bytes).sum();
        let most = all.min((request.budget - base) / PAGE * PAGE);
        let delays = capacities(least, most, delta)
            .map(|capacity| (play(&lay(capacity), &durations).steady_ns, capacity));
        let delays: Vec<(u64, u64)> = delays.collect();
        made.tried = delays.len() as u32;
        if let Some((_, capacity)) = delays.into_iter().min() {
            made.plan = lay(capacity);
            // The queue's last bytes may be too few for any layer.
            let plan = &mut made.plan;
            let ends = plan.loads.iter().map(|load| load.address + u64::from(load.bytes));
            plan.arena_bytes = ends.max().unwrap_or(base);
            plan.staging_bytes = plan.staging_bytes.min((plan.arena_bytes - base).max(PAGE));
        }
        made.improvement = start.elapsed() - made.constructive;
    }
    Ok(made)
}

/// The pipelines as plans of nothing but their loads and steps.
pub fn bare(pipeline: Pipeline, staged: bool, layers: &[u64], capacity: u64) -> Plan {
    let loads = layers.iter().filter(|bytes| **bytes > 0);
    let loads = loads.map(|&bytes| Load { bytes: bytes as u32, ..Load::default() });
    let weighted = layers.iter().zip(1i64..).filter(|(bytes, _)| **bytes > 0);
    let users: Vec<i64> = weighted.map(|(_, step)| step).collect();
    let mut plan = Plan {
        loads: loads.collect(),
        steps: vec![eyelet::pack::Step::default(); layers.len()],
        staging_bytes: if staged { capacity } else { 0 },
        arena_bytes: capacity,
        ..Plan::default()
    };
    pipeline.lay(&mut plan, &users, 0, capacity);
    plan
}
