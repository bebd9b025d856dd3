//! The guarantee that no plan of `joint` is predicted to be slower than one of another strategy.
//!
//! `flexnn`, with and without its parts, `on-demand` and `preload` take the best of a few designs,
//! Demand Layering's pipelines read whole layers into queues, and SwapNet reads blocks of layers.
//! When a plan has been constructed, it is compared with all of these. None of them begins to read
//! before the inference that it reads for. So a design is placed and simulated only where a line of
//! its reads, as if there were room for all, and of steps after them is faster than the plan at
//! hand.

use super::Strategy;
use super::builder::PlanBuilder;
use super::demand;
use super::design::{Built, Design};
use super::flexnn::{self, Parts};
use super::frugal;
use super::place::Loading;
use super::swapnet;
use crate::slice::{Cutting, Slices};
use eyelet::pack::{Method, Step};
use eyelet_model::plan::Plan;

/// All of FlexNN, and what is left of it without its parts.
const PARTS: [Parts; 4] = [
    Parts { static_plan: true, preload: true },
    Parts { static_plan: false, preload: true },
    Parts { static_plan: true, preload: false },
    Parts { static_plan: false, preload: false },
];

/// The fastest plan of other strategies, if one is faster than a plan that takes so long. No layers
/// of the builder slide. Plans that read count only if they `may_read`.
pub fn faster(builder: &PlanBuilder<'_>, than_ns: u64, may_read: bool) -> Option<Built> {
    let mut guard = Guard { builder, least_ns: than_ns, may_read, fastest: None };
    let (own, loading) = (&builder.request.network.on_load, Loading::Inference);
    let layers = Design::uniform(Cutting::LAYERS, own, loading);
    let whole = [layers.clone(), Design::uniform(Cutting::RESIDENT, own, loading)];
    let frugal = frugal::designs(builder, loading, true);
    for design in flexnn::designs(builder, loading).chain(whole).chain(frugal) {
        guard.flexnn(&design);
    }
    guard.pipelines(&layers);
    guard.blocks(&layers);
    guard.fastest
}

/// The fastest plan so far.
struct Guard<'a, 'b> {
    builder: &'a PlanBuilder<'b>,
    least_ns: u64,
    may_read: bool,
    fastest: Option<Built>,
}

impl Guard<'_, '_> {
    /// Compares with the plans that FlexNN makes of a design.
    fn flexnn(&mut self, design: &Design) {
        let (builder, budget) = (self.builder, self.builder.request.budget);
        let slices = design.slices(builder.request.network, &builder.activations);
        let [ahead_ns, in_turn_ns] = bounds_ns(builder, &slices);
        for parts in PARTS {
            let bound_ns = if parts.preload { ahead_ns } else { in_turn_ns };
            if bound_ns < self.least_ns {
                let design = Design { loading: parts.loading(), ..design.clone() };
                let placed = flexnn::place(builder, &design, budget, parts)
                    .or_else(|_| flexnn::place_surely(builder, &design, parts));
                placed.into_iter().for_each(|plan| self.consider(plan));
            }
        }
    }

    /// Compares with the pipelines. Where loads are copied they have buffers outside the budget.
    fn pipelines(&mut self, layers: &Design) {
        let slices = layers.slices(self.builder.request.network, &self.builder.activations);
        if bounds_ns(self.builder, &slices)[0] >= self.least_ns || self.builder.request.is_staged()
        {
            return;
        }
        for strategy in Strategy::ALL {
            if let Strategy::Demand(demand) = strategy
                && let Ok(made) = demand::plan_on(self.builder, demand, demand::DELTA)
            {
                self.consider(made.plan);
            }
        }
    }

    /// Compares with SwapNet's blocks. Unless all weights stay, each inference reads all of them,
    /// with several layers in one read.
    fn blocks(&mut self, layers: &Design) {
        let builder = self.builder;
        let all = Design::uniform(Cutting::RESIDENT, &layers.step_algorithms, layers.loading);
        let stay = builder.least_bytes(&all) <= builder.request.budget;
        let slices = layers.slices(builder.request.network, &builder.activations);
        if (stay || all_read_ns(builder, &slices) < self.least_ns)
            && let Ok(made) = swapnet::plan_on(builder)
        {
            self.consider(made.plan);
        }
    }

    fn consider(&mut self, plan: Plan) {
        let Ok(built) = self.builder.predict_within(plan, self.least_ns) else { return };
        if built.line.steady_ns < self.least_ns && (self.may_read || !built.reads()) {
            (self.least_ns, self.fastest) = (built.line.steady_ns, Some(built));
        }
    }
}

/// No plan of these slices takes less if reads run ahead within an inference, and if each waits for
/// the step before the one that needs it. Steps have all the scratch that they can use, and reads
/// do not slow them down.
fn bounds_ns(builder: &PlanBuilder<'_>, slices: &Slices) -> [u64; 2] {
    let resident = slices.reads.iter().filter(|read| read.resident);
    let arena_bytes = builder.least_tables() + resident.map(|read| read.bytes).sum::<u64>();
    let near = builder.costs.fits_llc(arena_bytes);
    let service = builder.costs.service(near);
    let mut last: Option<(Step, i64)> = None;
    let (mut come, mut ahead, mut in_turn) = (0, 0i64, 0i64);
    for (index, step) in slices.steps.iter().enumerate() {
        let read = slices.read_of[index].map(|at| &slices.reads[at]);
        if let Some(read) = read.filter(|read| read.first == index && !read.resident) {
            // Other reads under way can hide its latency.
            let parts = service.read(read.bytes);
            come += parts.transfer;
            ahead = ahead.max(come + parts.check);
            in_turn += parts.transfer + parts.check;
        }
        let method = match step.method {
            // Wherever they begin.
            Method::Chains { count, .. } => Method::Chains { first: 0, count },
            method => method,
        };
        let step = Step { first: 0, method, row: 0, scratch_bytes: 0, ..*step };
        let ns = match last {
            Some((like, ns)) if like == step => ns,
            _ => builder.costs.least_ns_from(&step, f64::INFINITY, None, near) as i64,
        };
        last = Some((step, ns));
        (ahead, in_turn) = (ahead + ns, in_turn + ns);
    }
    [ahead, in_turn].map(|ns| ns as u64)
}

/// No plan takes less if each inference reads all of these bytes in the order of the steps, in
/// whatever reads.
fn all_read_ns(builder: &PlanBuilder<'_>, slices: &Slices) -> u64 {
    let near = builder.costs.fits_llc(builder.least_tables());
    let ns_per_byte = builder.costs.service(near).least_ns_per_byte();
    let (mut end, mut bytes, mut ns) = (0, 0, 0.0f64);
    for (index, step) in slices.steps.iter().enumerate() {
        let read = slices.read_of[index].map(|at| &slices.reads[at]);
        if let Some(read) = read.filter(|read| read.first == index) {
            // Neighbours can have a page in common.
            let to = read.offset + read.bytes;
            bytes += to.saturating_sub(read.offset.max(end));
            end = end.max(to);
            ns = ns.max(bytes as f64 * ns_per_byte);
        }
        ns += builder.costs.least_ns_from(step, f64::INFINITY, None, near);
    }
    ns as u64
}
