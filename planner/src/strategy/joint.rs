//! The joint search over slices, residents, load times and addresses.
//!
//! First a plan is constructed: for some ways in which layers slide ([`slide`](crate::slide)), some amounts of resident weights, and some numbers of slices that
//! shall find room beside the activations of each layer, what storage would be late with stays, the rest
//! is placed, and the prediction decides ([`construct`]). That takes milliseconds and is near the lower
//! bound in most cases. Then single layers are changed, guided by where the predicted plan stalls, as long
//! as the effort lasts ([`improve`](super::improve)). What is then copied to a device goes through the staging ring
//! that serves the plan best ([`staging`](super::staging)).

use super::design::{Built, Design, Grain, Pins, Site};
use super::improve::improve;
use super::place::{Loading, Misfit};
use super::staging::stage_best;
use super::{Effort, Made, PlanError, Request, SLICE, first_fit, smallest};
use crate::plan::Plan;
use crate::simulate::Costs;
use crate::slice::Cutting;
use crate::slide::Search;
use std::cell::RefCell;
use std::time::Instant;

/// Shares of the memory left beside activations that are tried for residents.
const SHARES: [f64; 9] = [0.0, 0.25, 0.5, 0.7, 0.8, 0.87, 0.92, 0.96, 0.99];

/// Slices that shall find room in each layer, and the most bytes of each.
const GRAINS: [(f64, u64); 14] = [
    (2.0, 4 << 20),
    (3.0, 4 << 20),
    (4.0, 4 << 20),
    (8.0, 4 << 20),
    (2.0, 1 << 40),
    (2.0, 2 << 20),
    (3.0, 1 << 20),
    (4.0, 1 << 20),
    (4.0, 512 << 10),
    (8.0, 512 << 10),
    (4.0, 256 << 10),
    (8.0, 256 << 10),
    (4.0, 128 << 10),
    (8.0, 64 << 10),
];

/// After so many grains that were no better, finer ones are not tried.
const IN_VAIN: usize = 7;

/// Plans that wait for loads for one part in so many are looked at as bound by them.
const WAITS: u64 = 4;

/// The plan with the least predicted latency that the effort finds.
pub fn plan(request: &Request<'_>, effort: Effort) -> Result<Made, PlanError> {
    let start = Instant::now();
    let costs = Costs::new(request.network, request.profile, request.threads);
    let mut search = Search::new(request.network, &costs, request.threads);
    let mut found = Found::default();
    for groups in search.candidates(request.budget) {
        found.consider(Site::new(request, groups), effort);
        if found.is_optimal() {
            break;
        }
    }
    // Where loads are waited for, faster steps only wait longer.
    if found.computes() {
        let groups = search.faster(request.budget);
        if found.sites.iter().all(|site| site.ground.groups != groups) {
            found.consider(Site::new(request, groups), effort);
        }
    }
    if found.best.is_none() {
        for groups in search.smallest() {
            found.consider(Site::new(request, groups), effort);
        }
    }
    let Found { sites, best: Some((at, design, built)) } = found else {
        let plan = least(request, search)?;
        return Ok(Made { plan, constructive: start.elapsed(), ..Made::default() });
    };
    let constructive = start.elapsed();
    let (mut built, tried) = improve(&sites, at, design, built, effort);
    if request.is_staged() {
        built = stage_best(built.plan, Loading::Cyclic, &costs);
    }
    Ok(Made { plan: built.plan, constructive, improvement: start.elapsed() - constructive, tried })
}

/// Ways to slide for which there are plans, and the best plan, with its design and the way it is for.
#[derive(Default)]
struct Found<'a> {
    sites: Vec<Site<'a>>,
    best: Option<(usize, Design, Built)>,
}

impl<'a> Found<'a> {
    fn is_optimal(&self) -> bool {
        self.best.as_ref().is_some_and(|(at, _, built)| self.sites[*at].is_optimal(built))
    }

    /// Whether the best plan is not optimal and computes, most of the time.
    fn computes(&self) -> bool {
        let best = self.best.as_ref().filter(|_| !self.is_optimal());
        best.is_some_and(|(_, _, built)| built.line.stall_ns * WAITS < built.line.steady_ns)
    }

    /// Constructs a plan, and keeps it if it is better.
    fn consider(&mut self, site: Site<'a>, effort: Effort) {
        let Some((design, built)) = construct(&site, effort) else { return };
        if self.best.as_ref().is_none_or(|(_, _, held)| built.is_better(held)) {
            self.best = Some((self.sites.len(), design, built));
        }
        self.sites.push(site);
    }
}

/// The error that names the smallest budget of those for which [`plan`] finds something. What slides is chosen
/// for the least memory; and for each budget anew, as it is there.
fn least(request: &Request<'_>, mut search: Search<'_>) -> Result<Plan, PlanError> {
    let fits = |site: &Site<'_>, budget| {
        first_fit(site.frugal(budget, Loading::Cyclic), |design| site.place(design, budget))
    };
    let small = search.smallest();
    let sites: Vec<Site<'_>> =
        small.iter().map(|groups| Site::new(request, groups.clone())).collect();
    let search = RefCell::new(search);
    let any = |budget| {
        let mut found = Err(Misfit { layer: 0, activations: true });
        for site in &sites {
            found = fits(site, budget);
            if found.is_ok() {
                return found;
            }
        }
        let others = search.borrow_mut().candidates(budget);
        for groups in others.into_iter().filter(|groups| !small.contains(groups)) {
            if let Ok(plan) = fits(&Site::new(request, groups), budget) {
                return Ok(plan);
            }
        }
        found
    };
    smallest(request, SLICE, &any)
}

/// A good plan in a short time.
fn construct(site: &Site<'_>, effort: Effort) -> Option<(Design, Built)> {
    let request = site.request;
    let mut best: Option<(Design, Built)> = None;
    let consider = |best: &mut Option<(Design, Built)>, design: Design| -> bool {
        let Ok(built) = site.build(&design) else { return false };
        let better = best.as_ref().is_none_or(|(_, held)| built.is_better(held));
        if better {
            *best = Some((design, built));
        }
        better
    };
    let all = Design::uniform(request.network, Cutting::RESIDENT, Loading::Cyclic);
    if consider(&mut best, all) {
        return best;
    }
    for design in site.frugal(request.budget, Loading::Cyclic) {
        consider(&mut best, design);
    }
    // What cannot be done by the coarsest nor by the finest slices is not a plan for this budget.
    best.as_ref()?;
    let room = site.room(request.budget);
    let make = |share: f64, (slices, most): (f64, u64), loading| {
        let residents = (room as f64 * share) as u64;
        let mut design = site.fitting(residents, Grain { slices, ahead: 0, most }, loading);
        site.pin(&mut design, residents, Pins::Late);
        design
    };
    // In turns the share for the best grain, and the grain for the best share. Where none fits with the first grain, residents
    // are in the way of the others, too.
    let (mut share, mut grain) = (SHARES[0], GRAINS[0]);
    for loading in [Loading::Cyclic, Loading::Around] {
        if best.as_ref().is_some_and(|(_, built)| site.is_optimal(built)) {
            break;
        }
        for other in SHARES {
            if consider(&mut best, make(other, grain, loading)) {
                share = other;
            }
        }
        if loading == Loading::Around || effort == Effort::Glance {
            break;
        }
        let mut in_vain = 0;
        for other in GRAINS.into_iter().skip(1) {
            if in_vain == IN_VAIN || best.as_ref().is_some_and(|(_, built)| site.is_optimal(built))
            {
                break;
            }
            in_vain += 1;
            if consider(&mut best, make(share, other, loading)) {
                (grain, in_vain) = (other, 0);
            }
        }
    }
    best
}
