//! The joint search over slices, residents, load times, addresses and what steps compute by.
//!
//! First a plan is constructed ([`construct`](super::construct)). Every design is placed and
//! simulated, and the prediction decides. Then single layers are changed, guided by where the
//! predicted plan stalls, as long as the effort lasts ([`improve`](super::improve)). What is then
//! copied to a device goes through the staging ring that serves the plan best
//! ([`staging`](super::staging)), and a plan that reads nothing is placed anew, in as little memory
//! as it needs ([`compact`](super::compact)).
//!
//! Two things hold by construction, whatever the network, the budget and the costs, for what layers
//! are stored by:
//!
//! - *No plan is predicted to be slower than one of another strategy.* All plans that these can
//!   have are [compared](super::baseline_guard) with what is constructed, unless a bound says that
//!   they are slower, and the fastest one is taken if the search finds nothing faster.
//! - *There is a plan if and only if the budget is at least the smallest one*, and that is no more
//!   than those of other strategies. The designs that the smallest budget is looked for with
//!   ([`frugal`](super::frugal)) decide that before anything else is tried, and do not depend on
//!   the budget; those that others decide by are among them.

use super::precomputed::Precomputed;
use super::design::{Built, Design};
use super::frugal::{self, Fit};
use super::improve::improve;
use super::on_load::Options;
use super::place::Loading;
use super::refit::Refit;
use super::compact::compact;
use super::builder::PlanBuilder;
use super::staging::stage_best;
use super::{Effort, PlanResult, PlanError, Request, SLICE, Strategy, refuse};
use crate::plan::Plan;
use crate::slide::Search;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What [`improve`] starts from.
pub struct Constructed<'a> {
    pub(super) precomputed: Arc<Precomputed>,
    pub(super) options: Options,
    /// Ways to slide for which there are plans.
    pub(super) builders: Vec<PlanBuilder<'a>>,
    pub(super) best: Best,
    /// A faster one, if another strategy has one that is faster than the best.
    pub(super) faster: Option<Built>,
    pub(super) constructive: Duration,
}

/// The best plan, with its design and the way to slide that it is for.
pub struct Best {
    pub at: usize,
    pub design: Design,
    pub built: Built,
}

impl<'a> Constructed<'a> {
    /// What is predicted of the plan as it is.
    pub fn predicted_ns(&self) -> u64 {
        let held = self.faster.as_ref().unwrap_or(&self.best.built);
        held.line.steady_ns
    }

    /// The plan with the least predicted latency that the effort finds, and the design by which
    /// its residents can be changed, which is as fast or hardly slower.
    pub fn improve(self, effort: Effort) -> (PlanResult, Refit<'a>) {
        let start = Instant::now();
        let Self { precomputed, options, mut builders, best, faster, constructive } = self;
        let (Best { at, design, mut built }, tried) = improve(&builders, &options, best, effort);
        let builder = builders.swap_remove(at);
        let request = builder.request;
        if let Some(faster) = faster.filter(|faster| faster.line.steady_ns < built.line.steady_ns) {
            built = faster;
        }
        if request.is_staged() {
            built = stage_best(built, Loading::Cyclic, &precomputed.costs);
        }
        let plan = finished(&request, built);
        let refit = Refit::new(builder, design);
        (PlanResult { plan, constructive, improvement: start.elapsed(), tried }, refit)
    }
}

/// A plan as it leaves the strategy.
pub(super) fn finished(request: &Request<'_>, built: Built) -> Plan {
    let mut plan = built.plan;
    compact(request.network, &mut plan);
    (plan.strategy, plan.budget) = (Strategy::Joint.name().to_owned(), request.budget);
    plan
}

/// Why [`construct`](super::construct::construct) finds nothing: below the smallest budget of
/// [these ways to slide](Search::smallest) and of none.
pub fn refusal(request: &Request<'_>) -> PlanError {
    let precomputed = Arc::new(Precomputed::new(request));
    let mut search = Search::new(request.network, &precomputed.costs, request.threads);
    let ways = std::iter::once(Vec::new()).chain(search.smallest(u64::MAX));
    let least = |groups| {
        let builder = PlanBuilder::with(request, precomputed.clone(), groups);
        let fit = frugal::least(&builder, Loading::Cyclic, false, |design| builder.least_bytes(design));
        (builder, fit)
    };
    let (builder, Fit { bytes, design }) =
        ways.map(least).min_by_key(|(_, fit)| fit.bytes).expect("not to slide is a way");
    refuse(request, bytes, SLICE, &|budget| builder.place_surely(&design, budget))
}
