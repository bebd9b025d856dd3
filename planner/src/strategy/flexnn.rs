//! FlexNN as published (MobiCom '24), by eyelet's kernels and runtime, and without its parts.
//!
//! Every layer is cut so that slices of it fit beside its activations (bottleneck-aware slicing). Then
//! Algorithm 1: activations are placed first; layer by layer, weights are preloaded to the place that has
//! been free the longest, intermediates go to the one that was freed last; where that fails, both are placed
//! anew without preloading; if that fails too, the slices were too large, or there is no plan. Where
//! loading takes longer than computing, weights are pinned, first come from the head of the network
//! on. Inferences are planned one by one: no load starts before the inference that it is for.
//!
//! What the publication leaves open (how many slices, how many bytes are pinned) is taken as the
//! simulator likes it best. What [`joint`](super::joint) adds is the cycle, residents where they pay, limits
//! of each layer's own, and search.
//!
//! The ablation: without preloading, a load waits for the step that needs it to be next; without a
//! static plan, memory is given out and taken back as the inference goes ([`dynamic`](super::dynamic)).

use super::design::{Built, Design, Grain, Pins};
use super::frugal::{self, Fit};
use super::place::{Loading, Misfit};
use super::site::Site;
use super::{Made, PlanError, Request, SLICE, dynamic, refuse, staging};
use crate::plan::Plan;
use crate::slice::Cutting;
use std::time::Instant;

/// What of FlexNN is left.
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

/// Slices of a layer that shall fit beside its activations.
const SLICES: [f64; 4] = [2.0, 3.0, 4.0, 8.0];

/// Shares of the memory left beside activations that are tried for pinned weights.
const SHARES: [f64; 7] = [0.25, 0.5, 0.7, 0.8, 0.87, 0.92, 0.96];

pub fn plan(request: &Request<'_>, parts: Parts) -> Result<Made, PlanError> {
    let start = Instant::now();
    let (site, loading, dynamic) = (Site::new(request), parts.loading(), !parts.static_plan);
    let needs = |design: &Design| needs(&site, design, parts);
    let fits = |design: &Design| needs(design) <= request.budget;
    let Some(frugal) = frugal::within(&site, loading, dynamic, fits) else {
        let Fit { bytes, design } = frugal::least(&site, loading, dynamic, needs);
        return Err(refuse(request, bytes, SLICE, &|budget| match parts.static_plan {
            true => site.place_surely(&design, budget),
            false => place(&site, &design, budget, parts),
        }));
    };
    let plan = match best(&site, parts) {
        Some((_, built)) => built.plan,
        None => place_surely(&site, &frugal, parts).expect("it is sure to fit"),
    };
    Ok(Made { plan, constructive: start.elapsed(), ..Made::default() })
}

/// The budget from which on a design is sure to fit. Without a static plan that is no less than with one.
fn needs(site: &Site<'_>, design: &Design, parts: Parts) -> u64 {
    match parts.static_plan {
        true => site.least_bytes(design),
        false => dynamic::least_bytes(site, design).max(site.least_bytes(design)),
    }
}

/// The best plan of the designs that are tried.
fn best(site: &Site<'_>, parts: Parts) -> Option<(Design, Built)> {
    let loading = parts.loading();
    let (mut best, mut least_ns) = (None, u64::MAX);
    let mut consider = |best: &mut Option<(Design, Built)>, design: Design| {
        let Ok(plan) = place(site, &design, site.request.budget, parts) else { return };
        let built = site.predict(plan);
        least_ns = least_ns.min(built.line.steady_ns);
        if best.as_ref().is_none_or(|(_, held)| built.is_better(held, least_ns)) {
            *best = Some((design, built));
        }
    };
    unpinned(site, loading).for_each(|design| consider(&mut best, design));
    if best.as_ref().is_some_and(|(_, built)| built.line.read_ns > built.line.compute_ns) {
        pinned(site, loading).for_each(|design| consider(&mut best, design));
    }
    best
}

/// All designs that are tried.
pub fn designs(site: &Site<'_>, loading: Loading) -> impl Iterator<Item = Design> {
    unpinned(site, loading).chain(pinned(site, loading))
}

/// So many slices beside each layer's activations, and so many bytes of residents.
fn fitting(site: &Site<'_>, slices: f64, residents: u64, loading: Loading) -> Design {
    let grain = Grain { slices, ahead: 0, most: u64::MAX };
    site.fitting(residents, grain, &site.request.network.on_load, loading)
}

/// The designs that are tried, with nothing pinned.
fn unpinned(site: &Site<'_>, loading: Loading) -> impl Iterator<Item = Design> {
    SLICES.into_iter().map(move |slices| fitting(site, slices, 0, loading))
}

/// The designs that are tried where storage is the bottleneck.
fn pinned(site: &Site<'_>, loading: Loading) -> impl Iterator<Item = Design> {
    let room = site.room(site.request.budget);
    let with = move |slices, share| {
        let pinned = (room as f64 * share) as u64;
        let mut design = fitting(site, slices, pinned, loading);
        site.pin(&mut design, pinned, Pins::Head);
        design
    };
    let all = Design::uniform(Cutting::RESIDENT, &site.request.network.on_load, loading);
    let designs = SLICES.into_iter().flat_map(move |s| SHARES.map(|share| with(s, share)));
    designs.chain([all])
}

pub fn place(site: &Site<'_>, design: &Design, budget: u64, parts: Parts) -> Result<Plan, Misfit> {
    match parts.static_plan {
        true => site.place(design, budget),
        false => {
            let mut plan = dynamic::place(site, design, budget, parts.preload)?;
            if site.request.is_staged() {
                staging::stage(&mut plan, parts.loading());
            }
            Ok(plan)
        }
    }
}

/// The same for the budget of the request, of a design that is sure to fit.
pub fn place_surely(site: &Site<'_>, design: &Design, parts: Parts) -> Result<Plan, Misfit> {
    match parts.static_plan {
        true => site.place_surely(design, site.request.budget),
        // Without running ahead it comes to its end.
        false => place(site, design, site.request.budget, parts),
    }
}
