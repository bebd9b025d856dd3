//! What eyelet is measured against, with its own kernels and runtime: strategies without ideas.
//!
//! - `preload`: all weights are loaded once, as every engine does that is not short of memory.
//! - `on-demand`: a layer's weights are loaded when its turn comes, it runs, they are dropped (FlexNN's
//!   On-Demand baseline, layer streaming). No slices, no loading ahead, nothing kept.

use super::place::{Cut, Manner};
use super::{PlanError, Request, smallest};
use crate::plan::Plan;
use crate::simulate::Costs;
use crate::slice::Cutting;

/// Reads of the residents, once: large ones use storage well.
const RESIDENT: Cutting = Cutting { slice: u64::MAX, read: 4 << 20 };

pub fn preload(request: &Request<'_>) -> Result<Plan, PlanError> {
    by(request, RESIDENT, Manner { residents: 1.0, ahead: true })
}

pub fn on_demand(request: &Request<'_>) -> Result<Plan, PlanError> {
    by(request, Cutting::LAYERS, Manner { residents: 0.0, ahead: false })
}

/// The one plan of this kind, or the budget at which there is one. With all memory set aside for
/// residents that is one that holds them all.
fn by(request: &Request<'_>, cutting: Cutting, manner: Manner) -> Result<Plan, PlanError> {
    let costs = Costs::new(request.network, request.profile, request.threads);
    let cut = Cut::new(request, &costs, cutting);
    match cut.place(request, request.budget, manner) {
        Ok(plan) if manner.residents < 1.0 || plan.loads.is_empty() => Ok(plan),
        _ => smallest(request, &costs, cutting, manner),
    }
}
