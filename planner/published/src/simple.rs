//! Simple strategies, with which the joint search is compared.
//!
//! - `preload`: all weights are loaded once, as in every engine that is not short of memory.
//! - `direct`: all weights are loaded once, and every layer uses the algorithm that needs the least
//!   memory.
//! - `on-demand`: a layer's weights are loaded when its turn comes, and dropped after it (FlexNN's
//!   On-Demand baseline, layer streaming). It has no slices, loads nothing ahead and keeps nothing.

use crate::contest::{Contest, bounds_ns};
use eyelet_plan::search::parts::{Built, Design, Loading, PlanBuilder, refuse};
use eyelet_plan::search::{PlanError, PlanResult, Request, Strategy};
use eyelet_plan::slice::Cutting;
use std::time::Instant;

/// All weights stay in memory.
#[derive(Clone, Copy, Debug)]
pub struct Preload;

impl Strategy for Preload {
    fn name(&self) -> &'static str {
        "preload"
    }

    fn about(&self) -> &'static str {
        "all weights stay in memory"
    }

    fn plan(&self, request: &Request<'_>) -> Result<PlanResult, PlanError> {
        plan(request, "all weights stay in memory", Cutting::RESIDENT)
    }

    fn faster(&self, builder: &PlanBuilder<'_>, than_ns: u64, may_read: bool) -> Option<Built> {
        faster(builder, Cutting::RESIDENT, than_ns, may_read)
    }
}

/// All weights stay in memory, with the algorithms that need the least.
#[derive(Clone, Copy, Debug)]
pub struct Direct;

impl Strategy for Direct {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn about(&self) -> &'static str {
        "all weights stay in memory, by the algorithms that need the least"
    }

    fn plan(&self, request: &Request<'_>) -> Result<PlanResult, PlanError> {
        Preload.plan(request)
    }

    fn computes_directly(&self) -> bool {
        true
    }
}

/// Each layer's weights are loaded when its turn comes.
#[derive(Clone, Copy, Debug)]
pub struct OnDemand;

impl Strategy for OnDemand {
    fn name(&self) -> &'static str {
        "on-demand"
    }

    fn about(&self) -> &'static str {
        "each layer's weights are loaded when its turn comes"
    }

    fn plan(&self, request: &Request<'_>) -> Result<PlanResult, PlanError> {
        let reason = "all its weights and its scratch beside the activations";
        plan(request, reason, Cutting::LAYERS)
    }

    fn faster(&self, builder: &PlanBuilder<'_>, than_ns: u64, may_read: bool) -> Option<Built> {
        faster(builder, Cutting::LAYERS, than_ns, may_read)
    }
}

/// The plan for the budget with all layers cut alike. The error names the budget at which there is
/// one.
fn plan(request: &Request<'_>, reason: &str, cutting: Cutting) -> Result<PlanResult, PlanError> {
    let start = Instant::now();
    let builder = PlanBuilder::new(request);
    let design = uniform(&builder, cutting);
    let place = |budget| builder.place(&design, budget);
    let plan = place(request.budget)
        .map_err(|_| refuse(request, builder.least_bytes(&design), reason, &place))?;
    Ok(PlanResult { plan, constructive: start.elapsed(), ..PlanResult::default() })
}

/// The plan with all layers cut alike, if it is faster.
fn faster(
    builder: &PlanBuilder<'_>,
    cutting: Cutting,
    than_ns: u64,
    may_read: bool,
) -> Option<Built> {
    let design = uniform(builder, cutting);
    let slices = design.slices(builder.request.network, &builder.activations);
    let mut contest = Contest::new(builder, than_ns, may_read);
    if bounds_ns(builder, &slices)[1] < than_ns
        && let Ok(plan) = builder.place(&design, builder.request.budget)
    {
        contest.consider(plan);
    }
    contest.fastest()
}

fn uniform(builder: &PlanBuilder<'_>, cutting: Cutting) -> Design {
    Design::uniform(cutting, &builder.request.network.on_load, Loading::OnDemand)
}
