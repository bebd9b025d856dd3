//! FlexNN as published (MobiCom '24), with eyelet's kernels and runtime, and without some of its
//! parts.
//!
//! Every layer is cut so that slices of it fit next to its activations (bottleneck-aware slicing).
//! Then Algorithm 1 places activations first. Layer by layer, weights are preloaded to the place
//! that has been free the longest, and intermediates go to the one that was freed last. If that
//! fails, both are placed again without preloading. If that fails too, the slices were too large,
//! or there is no plan. If loading takes longer than computing, weights are pinned from the start
//! of the network on. Inferences are planned one by one: no load starts before its inference.
//!
//! The publication leaves open how many slices there are and how many bytes are pinned: the
//! simulator decides. [`joint`](super::joint) adds the cycle, residents where they pay, limits for
//! each layer, and search.
//!
//! In the ablation without preloading, a load waits until the step that needs it is next. Without a
//! static plan, memory is given out and taken back as the inference goes
//! ([`dynamic`](super::dynamic)).

use super::builder::PlanBuilder;
use super::design::{Built, Design, Pins, SlicingTarget};
use super::frugal::{self, Fit};
use super::place::{Loading, Misfit};
use super::{PlanError, PlanResult, Request, SLICE, dynamic, refuse, staging};
use crate::slice::Cutting;
use eyelet_model::plan::Plan;
use std::time::Instant;

/// The parts of FlexNN that a plan has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    pub static_plan: bool,
    pub preload: bool,
}

impl Parts {
    pub fn loading(self) -> Loading {
        if self.preload { Loading::Inference } else { Loading::OnDemand }
    }
}

/// Slices of a layer that must fit next to its activations.
const SLICES: [f64; 4] = [2.0, 3.0, 4.0, 8.0];

/// Shares of the memory next to the activations that are tried for pinned weights.
const SHARES: [f64; 7] = [0.25, 0.5, 0.7, 0.8, 0.87, 0.92, 0.96];

pub fn plan(request: &Request<'_>, parts: Parts) -> Result<PlanResult, PlanError> {
    let start = Instant::now();
    let (builder, loading, dynamic) =
        (PlanBuilder::new(request), parts.loading(), !parts.static_plan);
    let needs = |design: &Design| needs(&builder, design, parts);
    let fits = |design: &Design| needs(design) <= request.budget;
    let Some(frugal) = frugal::within(&builder, loading, dynamic, fits) else {
        let Fit { bytes, design } = frugal::least(&builder, loading, dynamic, needs);
        return Err(refuse(request, bytes, SLICE, &|budget| match parts.static_plan {
            true => builder.place_surely(&design, budget),
            false => place(&builder, &design, budget, parts),
        }));
    };
    let plan = match best(&builder, parts) {
        Some((_, built)) => built.plan,
        None => place_surely(&builder, &frugal, parts).expect("it is sure to fit"),
    };
    Ok(PlanResult { plan, constructive: start.elapsed(), ..PlanResult::default() })
}

/// The budget from which on a design surely fits. Without a static plan that is no less than with
/// one.
fn needs(builder: &PlanBuilder<'_>, design: &Design, parts: Parts) -> u64 {
    match parts.static_plan {
        true => builder.least_bytes(design),
        false => dynamic::least_bytes(builder, design).max(builder.least_bytes(design)),
    }
}

/// The best plan of the designs that are tried.
fn best(builder: &PlanBuilder<'_>, parts: Parts) -> Option<(Design, Built)> {
    let loading = parts.loading();
    let (mut best, mut least_ns) = (None, u64::MAX);
    let mut consider = |best: &mut Option<(Design, Built)>, design: Design| {
        let Ok(plan) = place(builder, &design, builder.request.budget, parts) else { return };
        let built = builder.predict(plan);
        least_ns = least_ns.min(built.line.steady_ns);
        if best.as_ref().is_none_or(|(_, held)| built.is_better(held, least_ns)) {
            *best = Some((design, built));
        }
    };
    unpinned(builder, loading).for_each(|design| consider(&mut best, design));
    if best.as_ref().is_some_and(|(_, built)| built.line.read_ns > built.line.compute_ns) {
        pinned(builder, loading).for_each(|design| consider(&mut best, design));
    }
    best
}

/// All designs that are tried.
pub fn designs(builder: &PlanBuilder<'_>, loading: Loading) -> impl Iterator<Item = Design> {
    unpinned(builder, loading).chain(pinned(builder, loading))
}

/// A design with `slices` slices next to each layer's activations, and `residents` bytes set aside.
fn fitting(builder: &PlanBuilder<'_>, slices: f64, residents: u64, loading: Loading) -> Design {
    let target = SlicingTarget { slices, ahead: 0, most: u64::MAX };
    builder.fitting(residents, target, &builder.request.network.on_load, loading)
}

/// The designs that are tried, with nothing pinned.
fn unpinned(builder: &PlanBuilder<'_>, loading: Loading) -> impl Iterator<Item = Design> {
    SLICES.into_iter().map(move |slices| fitting(builder, slices, 0, loading))
}

/// The designs that are tried if storage is the bottleneck.
fn pinned(builder: &PlanBuilder<'_>, loading: Loading) -> impl Iterator<Item = Design> {
    let room = builder.room(builder.request.budget);
    let with = move |slices, share| {
        let pinned = (room as f64 * share) as u64;
        let mut design = fitting(builder, slices, pinned, loading);
        builder.pin(&mut design, pinned, Pins::Head);
        design
    };
    let all = Design::uniform(Cutting::RESIDENT, &builder.request.network.on_load, loading);
    let designs = SLICES.into_iter().flat_map(move |s| SHARES.map(|share| with(s, share)));
    designs.chain([all])
}

pub fn place(
    builder: &PlanBuilder<'_>,
    design: &Design,
    budget: u64,
    parts: Parts,
) -> Result<Plan, Misfit> {
    match parts.static_plan {
        true => builder.place(design, budget),
        false => {
            let mut plan = dynamic::place(builder, design, budget, parts.preload)?;
            if builder.request.is_staged() {
                staging::stage(&mut plan, parts.loading());
            }
            Ok(plan)
        }
    }
}

/// Places a design that surely fits the budget of the request.
pub fn place_surely(
    builder: &PlanBuilder<'_>,
    design: &Design,
    parts: Parts,
) -> Result<Plan, Misfit> {
    match parts.static_plan {
        true => builder.place_surely(design, builder.request.budget),
        // Without loads that run ahead it comes to its end.
        false => place(builder, design, builder.request.budget, parts),
    }
}
