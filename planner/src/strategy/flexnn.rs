//! FlexNN's joint slicing, loading and computing (MobiCom '24, Algorithm 1), made cyclic and exact.
//!
//! Activations are placed first. Then, layer by layer, weights are preloaded: each load takes the place
//! that has been free the longest, and so can start as early as possible; the step's intermediates take
//! the place that was freed last. Where that fails, the step is placed again without preloading: scratch
//! and weights at the lowest addresses that are free at that moment. If that fails too, the slices were
//! too large for the budget, or the budget is infeasible.
//!
//! Around this, two things are searched, each candidate judged by simulation: the size of slices (large
//! ones use storage well, small ones leave memory for preloading), and the memory set aside for
//! residents. The released and ready thresholds follow exactly from the addresses, so that loads run
//! ahead into the next inference without the placement having to know about it.

use super::place::{Cut, Manner, Misfit};
use super::{PlanError, Request, smallest};
use crate::plan::Plan;
use crate::simulate::{Costs, simulate_with};
use crate::slice::Cutting;
use crate::slide::{Group, Search};
use std::cell::RefCell;

/// Limits for slices and loads, largest first. The last one means one panel a slice.
const LIMITS: [u64; 11] = [
    256 << 20,
    64 << 20,
    16 << 20,
    4 << 20,
    2 << 20,
    1 << 20,
    512 << 10,
    256 << 10,
    128 << 10,
    64 << 10,
    1,
];

/// Shares of the memory left beside activations that are tried for residents.
const SHARES: [f64; 7] = [0.0, 0.25, 0.5, 0.7, 0.85, 0.93, 0.97];

/// The plan with the least predicted latency.
pub fn plan(request: &Request<'_>) -> Result<Plan, PlanError> {
    let costs = Costs::new(request.network, request.profile, request.threads);
    let mut search = Search::new(request.network, &costs, request.threads);
    let mut best: Option<(u64, Plan)> = None;
    for groups in search.candidates(request.budget) {
        improve(request, &costs, &groups, &mut best);
        if best.as_ref().is_some_and(|(_, plan)| plan.loads.is_empty()) {
            break;
        }
    }
    match best {
        Some((_, plan)) => Ok(plan),
        None => smallest(
            request,
            "one slice of its weights and its scratch beside the activations",
            &any(request, &costs, search),
        ),
    }
}

/// Looks for a plan with less predicted latency in which these groups of layers slide.
fn improve(request: &Request<'_>, costs: &Costs, groups: &[Group], best: &mut Option<(u64, Plan)>) {
    let mut last: Option<u64> = None;
    for limit in LIMITS {
        if !is_candidate(limit, request.budget) {
            continue;
        }
        let cut = Cut::new(request, costs, Cutting::equal(limit), groups);
        let mut least_here = u64::MAX;
        for share in SHARES {
            let Ok(plan) =
                cut.place(request, request.budget, Manner { residents: share, ahead: true })
            else {
                continue;
            };
            let streams = !plan.loads.is_empty();
            let latency = simulate_with(&plan, costs).steady_ns;
            least_here = least_here.min(latency);
            if best.as_ref().is_none_or(|(least, held)| better(latency, &plan, *least, held)) {
                *best = Some((latency, plan));
            }
            if !streams {
                break;
            }
        }
        // Smaller slices cost more requests; once that outweighs what they free, the rest do not help.
        let worse =
            last.is_some_and(|last| least_here != u64::MAX && least_here > last + last / 50);
        if worse || best.as_ref().is_some_and(|(_, plan)| plan.loads.is_empty()) {
            break;
        }
        last =
            Some(last.map_or(least_here, |last| last.min(least_here))).filter(|ns| *ns != u64::MAX);
    }
}

/// Whether slices of up to `limit` bytes are worth trying: two of them must fit.
fn is_candidate(limit: u64, budget: u64) -> bool {
    limit * 2 <= budget || limit == 1
}

/// Any plan for a budget, of the same candidates as in [`plan`]: one panel a slice needs the least memory
/// for weights, but the most for tables, so that where the network is small, larger slices can need less.
///
/// What slides is chosen once, for the least memory; and for each budget anew, as [`plan`] does.
fn any<'a>(
    request: &'a Request<'_>,
    costs: &'a Costs,
    mut search: Search<'a>,
) -> impl Fn(u64) -> Result<Plan, Misfit> + use<'a> {
    let cuts_of = move |groups: &[Group]| {
        LIMITS.map(|limit| (limit, Cut::new(request, costs, Cutting::equal(limit), groups)))
    };
    let slidings = search.smallest();
    let cuts: Vec<(u64, Cut)> = slidings.iter().flat_map(|groups| cuts_of(groups)).collect();
    let search = RefCell::new(search);
    move |budget| {
        let mut misfit = Misfit { layer: 0, activations: true };
        let mut place = |cuts: &[(u64, Cut)]| {
            for (_, cut) in cuts.iter().filter(|(limit, _)| is_candidate(*limit, budget)) {
                for residents in SHARES {
                    match cut.place(request, budget, Manner { residents, ahead: true }) {
                        Ok(plan) => return Some(plan),
                        Err(found) if residents == 0.0 => misfit = found,
                        Err(_) => {}
                    }
                }
            }
            None
        };
        let found = place(&cuts).or_else(|| {
            let candidates = search.borrow_mut().candidates(budget);
            let mut others = candidates.iter().filter(|groups| !slidings.contains(groups));
            others.find_map(|groups| place(&cuts_of(groups)))
        });
        found.ok_or(misfit)
    }
}

/// Whether a plan is to be preferred: clearly faster, or as fast (within half a percent, which no
/// prediction can tell apart) with fewer bytes read, whose storage, energy and first inference it saves.
fn better(latency: u64, plan: &Plan, least: u64, held: &Plan) -> bool {
    let near = |a: u64, b: u64| a <= b + b / 200;
    match (near(latency, least), near(least, latency)) {
        (true, true) => plan.bytes_per_inference() < held.bytes_per_inference(),
        (faster, _) => faster,
    }
}
