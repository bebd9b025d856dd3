//! Better plans, as long as the effort lasts: single layers are changed where the predicted plan
//! stalls.

pub mod effort;
mod local_search;

use super::construct::{Best, Constructed};
use super::place::sliced_network::Loading;
use super::place::staging::stage_best;
use super::residents::refit::{Refit, finished};
use effort::Effort;
use eyelet_model::plan::Plan;
use std::time::{Duration, Instant};

/// A plan, and the time that it took.
#[derive(Clone, Debug, Default)]
pub struct PlanResult {
    pub plan: Plan,
    /// Time until there was a good plan.
    pub constructive: Duration,
    /// Time for improving it.
    pub improvement: Duration,
    /// Changes that were tried while improving it.
    pub tried: u32,
}

impl<'a> Constructed<'a> {
    /// The fastest plan that the effort finds. Also returns the design by which its residents can
    /// be changed, which is as fast or hardly slower.
    pub fn improve(self, effort: Effort) -> (PlanResult, Refit<'a>) {
        let start = Instant::now();
        let Self { precomputed, options, mut builders, best, faster, keeps_all, constructive } =
            self;
        let may_read = !keeps_all;
        let (Best { at, design, mut built }, tried) =
            local_search::improve(&builders, &options, best, may_read, effort);
        let builder = builders.swap_remove(at);
        let request = builder.request;
        if let Some(faster) = faster.filter(|faster| faster.line.steady_ns < built.line.steady_ns) {
            built = faster;
        }
        if request.is_staged() {
            built = stage_best(built, Loading::Cyclic, &precomputed.costs);
        }
        let plan = finished(&request, built);
        let refit = Refit::new(builder, design, may_read);
        (PlanResult { plan, constructive, improvement: start.elapsed(), tried }, refit)
    }
}
