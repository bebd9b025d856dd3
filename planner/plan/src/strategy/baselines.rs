//! Simple strategies with which eyelet is compared, with its own kernels and runtime.
//!
//! - `preload`: all weights are loaded once, as in every engine that is not short of memory.
//! - `direct`: all weights are loaded once, and every layer uses the algorithm that needs the least
//!   memory (see [`Strategy::computes_directly`](super::Strategy::computes_directly)).
//! - `on-demand`: a layer's weights are loaded when its turn comes, and dropped after it (FlexNN's
//!   On-Demand baseline, layer streaming). It has no slices, loads nothing ahead and keeps nothing.

use super::builder::PlanBuilder;
use super::design::Design;
use super::place::Loading;
use super::{PlanError, PlanResult, Request, refuse};
use crate::slice::Cutting;
use std::time::Instant;

pub fn preload(request: &Request<'_>) -> Result<PlanResult, PlanError> {
    plan(request, "all weights stay in memory", Cutting::RESIDENT)
}

pub fn on_demand(request: &Request<'_>) -> Result<PlanResult, PlanError> {
    let reason = "all its weights and its scratch beside the activations";
    plan(request, reason, Cutting::LAYERS)
}

/// The plan for the budget with all layers cut alike. The error names the budget at which there is
/// one.
fn plan(request: &Request<'_>, reason: &str, cutting: Cutting) -> Result<PlanResult, PlanError> {
    let start = Instant::now();
    let builder = PlanBuilder::new(request);
    let design = Design::uniform(cutting, &request.network.on_load, Loading::OnDemand);
    let place = |budget| builder.place(&design, budget);
    let plan = place(request.budget)
        .map_err(|_| refuse(request, builder.least_bytes(&design), reason, &place))?;
    Ok(PlanResult { plan, constructive: start.elapsed(), ..PlanResult::default() })
}
