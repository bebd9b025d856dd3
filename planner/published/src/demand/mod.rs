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

use crate::contest::{Contest, bounds_ns};
use eyelet::pack::{Load, PAGE};
use eyelet_model::plan::{Plan, step_weights};
use eyelet_plan::profile::Profile;
use eyelet_plan::search::parts::{Built, Design, Loading, PlanBuilder};
use eyelet_plan::search::{PlanError, PlanResult, Request, Strategy};
use eyelet_plan::simulate::{Durations, play};
use eyelet_plan::slice::Cutting;
use std::time::Instant;

/// The step by which queues grow by default. (The publication does not state its own.)
pub const DELTA: u64 = 1 << 20;

/// A pipeline as it is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    pub pipeline: Pipeline,
    /// Whether queues grow until the delay is the least.
    pub least_delay: bool,
    /// The step by which they grow.
    pub delta: u64,
}

const fn pipelined(pipeline: Pipeline, least_delay: bool) -> Demand {
    Demand { pipeline, least_delay, delta: DELTA }
}

impl Demand {
    /// All of them, in the order in which they are compared.
    pub const ALL: [Self; 6] = [
        pipelined(Pipeline::Sequential, false),
        pipelined(Pipeline::Synchronous, false),
        pipelined(Pipeline::Asynchronous, false),
        pipelined(Pipeline::Asynchronous, true),
        pipelined(Pipeline::TwoStage, false),
        pipelined(Pipeline::TwoStage, true),
    ];

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

impl Strategy for Demand {
    fn name(&self) -> &'static str {
        match (self.pipeline, self.least_delay) {
            (Pipeline::Sequential, _) => "demand-seq",
            (Pipeline::Synchronous, _) => "demand-sync",
            (Pipeline::Asynchronous, false) => "demand-async",
            (Pipeline::Asynchronous, true) => "demand-async-md",
            (Pipeline::TwoStage, false) => "demand-2s",
            (Pipeline::TwoStage, true) => "demand-2s-md",
        }
    }

    fn about(&self) -> &'static str {
        match (self.pipeline, self.least_delay) {
            (Pipeline::Sequential, _) => "Demand Layering: read, copy and compute in turn",
            (Pipeline::Synchronous, _) => "Demand Layering: stages advance together",
            (Pipeline::Asynchronous, false) => "Demand Layering: stages advance by themselves",
            (Pipeline::Asynchronous, true) => {
                "Demand Layering, asynchronous, with queues for the least delay"
            }
            (Pipeline::TwoStage, false) => "Demand Layering: read and compute, without copies",
            (Pipeline::TwoStage, true) => {
                "Demand Layering, two stages, with queues for the least delay"
            }
        }
    }

    fn plan(&self, request: &Request<'_>) -> Result<PlanResult, PlanError> {
        plan_on(&PlanBuilder::new(request), *self)
    }

    /// Compares with all pipelines. Where loads are copied they have buffers outside the budget, and
    /// are not compared.
    fn faster(&self, builder: &PlanBuilder<'_>, than_ns: u64, may_read: bool) -> Option<Built> {
        let own = &builder.request.network.on_load;
        let layers = Design::uniform(Cutting::LAYERS, own, Loading::Inference);
        let slices = layers.slices(builder.request.network, &builder.activations);
        if bounds_ns(builder, &slices)[0] >= than_ns || builder.request.is_staged() {
            return None;
        }
        let mut contest = Contest::new(builder, than_ns, may_read);
        let made = Self::ALL.into_iter().filter_map(|demand| plan_on(builder, demand).ok());
        made.for_each(|made| contest.consider(made.plan));
        contest.fastest()
    }

    /// Pipelines of two stages need a device that computes in the memory that is read into.
    fn serves(&self, profile: &Profile) -> bool {
        self.pipeline != Pipeline::TwoStage || profile.transfer.is_none()
    }
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

/// The plan for the request of a builder in which no layers slide.
fn plan_on(builder: &PlanBuilder<'_>, demand: Demand) -> Result<PlanResult, PlanError> {
    let Demand { pipeline, least_delay, delta } = demand;
    let start = Instant::now();
    let request = &builder.request;
    let staged = request.is_staged();
    if !demand.serves(request.profile) {
        return Err(PlanError::Unsuited(format!(
            "{} has two stages: it needs a device that computes in the memory that storage is read into, but what is \
             read is copied to the GPU of {}; plan with `demand-async`, which has three",
            demand.name(),
            request.profile.name
        )));
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
