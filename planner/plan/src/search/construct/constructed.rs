//! The joint search over slices, residents, load times, addresses and the algorithms of steps.
//!
//! First a plan is constructed ([`construct`](super::ways_to_slide)). Every design is placed and
//! simulated, and the prediction decides. Then single layers are changed where the predicted plan
//! stalls, as long as the effort lasts ([`improve`](crate::search::improve::local_search)). Loads that are copied to a
//! device get the staging ring that serves the plan best ([`staging`](crate::search::place::staging)). A plan that
//! reads nothing is placed again in as little memory as it needs ([`compact`](crate::search::place::compact)).
//!
//! Two things hold by construction, for every network, budget and cost:
//!
//! - *No plan is predicted to be slower than one of another strategy.* The constructed plan is
//!   [compared](crate::search::strategy::guard) with all plans of other strategies that could be faster. The
//!   fastest one is taken if the search finds nothing faster.
//! - *There is a plan if and only if the budget is at least the smallest one.* The smallest budget
//!   is no larger than those of other strategies. [`frugal`](super::frugal) designs decide it
//!   before anything else is tried. They do not depend on the budget, and include the designs by
//!   which other strategies decide.
//!
//! A plan whose budget has room for all weights, next to the activations of layers that do not
//! slide, reads nothing. That holds also where a smaller arena that the shared cache holds is
//! predicted to be faster: then the first guarantee is about plans that read nothing.

use super::frugal::{self, Fit};
use crate::request::Request;
use crate::search::Effort;
use crate::search::PlanResult;
use crate::search::algorithms::on_load::Options;
use crate::search::improve::local_search::improve;
use crate::search::place::builder::PlanBuilder;
use crate::search::place::design::{Best, Built};
use crate::search::place::precomputed::Precomputed;
use crate::search::place::refusal::{PlanError, SLICE, refuse};
use crate::search::place::sliced_network::Loading;
use crate::search::place::staging::stage_best;
use crate::search::residents::refit::{Refit, finished};
use crate::slide::Search;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A constructed plan, ready to be [improved](improve).
pub struct Constructed<'a> {
    pub(in crate::search) precomputed: Arc<Precomputed>,
    pub(in crate::search) options: Options,
    /// Ways to slide for which there are plans.
    pub(in crate::search) builders: Vec<PlanBuilder<'a>>,
    pub(in crate::search) best: Best,
    /// The plan of another strategy, if it is faster than the best.
    pub(in crate::search) faster: Option<Built>,
    /// Whether no plan may read, since all weights have room.
    pub(in crate::search) keeps_all: bool,
    pub(in crate::search) constructive: Duration,
}

impl<'a> Constructed<'a> {
    /// Predicted nanoseconds of the plan as it is.
    pub fn predicted_ns(&self) -> u64 {
        let held = self.faster.as_ref().unwrap_or(&self.best.built);
        held.line.steady_ns
    }

    /// The fastest plan that the effort finds. Also returns the design by which its residents can
    /// be changed, which is as fast or hardly slower.
    pub fn improve(self, effort: Effort) -> (PlanResult, Refit<'a>) {
        let start = Instant::now();
        let Self { precomputed, options, mut builders, best, faster, keeps_all, constructive } =
            self;
        let may_read = !keeps_all;
        let (Best { at, design, mut built }, tried) =
            improve(&builders, &options, best, may_read, effort);
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

/// The error if [`construct`](super::ways_to_slide::construct) finds nothing. The smallest budget is
/// the least over [ways to slide](Search::smallest) and over not sliding.
pub fn refusal(request: &Request<'_>) -> PlanError {
    let precomputed = Arc::new(Precomputed::new(request));
    let mut search = Search::new(request.network, &precomputed.costs, request.threads);
    let ways = std::iter::once(Vec::new()).chain(search.smallest(u64::MAX));
    let least = |groups| {
        let builder = PlanBuilder::with(request, precomputed.clone(), groups);
        let fit = frugal::least(&builder, Loading::Cyclic, |design| builder.least_bytes(design));
        (builder, fit)
    };
    let (builder, Fit { bytes, design }) =
        ways.map(least).min_by_key(|(_, fit)| fit.bytes).expect("not to slide is a way");
    refuse(request, bytes, SLICE, &|budget| builder.place_lowest(&design, budget))
}
