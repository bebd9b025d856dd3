//! What eyelet is measured against, with its own kernels and runtime: strategies without ideas.
//!
//! - `preload`: all weights are loaded once, as every engine does that is not short of memory.
//! - `on-demand`: a layer's weights are loaded when its turn comes, it runs, they are dropped (FlexNN's
//!   On-Demand baseline, layer streaming). No slices, no loading ahead, nothing kept.

use super::place::{Cut, Manner, Misfit};
use super::{PlanError, Request, smallest};
use crate::plan::Plan;
use crate::simulate::Costs;
use crate::slice::Cutting;

/// Reads of the residents, once: large ones use storage well.
const RESIDENT: Cutting = Cutting { slice: u64::MAX, read: 4 << 20 };

pub fn preload(request: &Request<'_>) -> Result<Plan, PlanError> {
    let costs = Costs::new(request.network, request.profile, request.threads);
    let cut = Cut::new(request, &costs, RESIDENT, &[]);
    plan(request, "all weights stay in memory", &|budget| {
        // With all memory set aside for residents, all stay if they can.
        let plan = cut.place(request, budget, Manner { residents: 1.0, ahead: true })?;
        match plan.loads.is_empty() {
            true => Ok(plan),
            false => Err(Misfit { layer: plan.steps[0].layer, activations: false }),
        }
    })
}

pub fn on_demand(request: &Request<'_>) -> Result<Plan, PlanError> {
    let costs = Costs::new(request.network, request.profile, request.threads);
    let cut = Cut::new(request, &costs, Cutting::LAYERS, &[]);
    plan(request, "all its weights and its scratch beside the activations", &|budget| {
        cut.place(request, budget, Manner { residents: 0.0, ahead: false })
    })
}

/// The plan for the budget, or the budget at which there is one.
fn plan(
    request: &Request<'_>,
    reason: &str,
    place: &dyn Fn(u64) -> Result<Plan, Misfit>,
) -> Result<Plan, PlanError> {
    place(request.budget).or_else(|_| smallest(request, reason, place))
}
