//! The plans that other strategies have for a budget, as far as one of them could be faster than a plan at hand.
//!
//! `flexnn`, with and without its parts, `on-demand` and `preload` take the best of a few designs: of all of these each is a
//! rival, placed as its strategy does. That would take longer than all else that is constructed. But none of these strategies begins to read
//! before the inference that it reads for. So before anything is placed it is known of a design that no plan of it takes less than a line of
//! loads, one after the other as if there were room for all, and of steps behind them. Only where
//! that is faster than the plan at hand, the design is placed and simulated. Demand Layering's pipelines read whole layers, each
//! into queues of its own: one such line says what they take at least.

use super::demand;
use super::design::{Built, Design};
use super::flexnn::{self, Parts};
use super::frugal;
use super::place::{Loading, Misfit};
use super::site::Site;
use crate::plan::Plan;
use crate::slice::{Cutting, Slices};
use eyelet::pack::{STRATEGIES, Step};

/// All of FlexNN, and what is left of it without its parts.
const PARTS: [Parts; 4] = [
    Parts { static_plan: true, preload: true },
    Parts { static_plan: false, preload: true },
    Parts { static_plan: true, preload: false },
    Parts { static_plan: false, preload: false },
];

/// `on-demand` and `preload` have neither.
const NONE: [Parts; 1] = [Parts { static_plan: true, preload: false }];

/// How a strategy places a design.
type Place = fn(&Site<'_>, &Design, Parts) -> Result<Plan, Misfit>;

/// The fastest rival, if one is faster than a plan that takes so long.
pub fn faster(site: &Site<'_>, than_ns: u64) -> Option<Built> {
    let loading = PARTS[0].loading();
    let place: Place =
        |site, design, parts| flexnn::place(site, design, site.request.budget, parts);
    let usual = flexnn::designs(site, loading).map(|design| (design, &PARTS[..], place));
    let whole = [Cutting::LAYERS, Cutting::RESIDENT].into_iter().map(|all| {
        (Design::uniform(all, &site.request.network.on_load, loading), &NONE[..], place)
    });
    // What FlexNN falls back on.
    let frugal = frugal::designs(site, loading, true).into_iter();
    let frugal = frugal.map(|design| (design, &PARTS[..], flexnn::place_surely as Place));
    let mut fastest: Option<Built> = None;
    let least_ns = |fastest: &Option<Built>| match fastest {
        Some(built) => built.line.steady_ns,
        None => than_ns,
    };
    let hold = |fastest: &mut Option<Built>, plan: Plan| {
        let than_ns = least_ns(fastest);
        if let Ok(built) = site.predict_within(plan, than_ns)
            && built.line.steady_ns < than_ns
        {
            *fastest = Some(built);
        }
    };
    for (design, parts, place) in usual.chain(whole).chain(frugal) {
        let slices = design.slices(site.request.network, &site.ground);
        let [ahead, in_turn] = bounds_ns(site, &slices);
        for parts in parts {
            let bound_ns = if parts.preload { ahead } else { in_turn };
            if bound_ns >= least_ns(&fastest) {
                continue;
            }
            let design = Design { loading: parts.loading(), ..design.clone() };
            if let Ok(plan) = place(site, &design, *parts) {
                hold(&mut fastest, plan);
            }
        }
    }
    pipelines(site, least_ns(&fastest)).for_each(|plan| hold(&mut fastest, plan));
    fastest
}

/// The plans of Demand Layering's pipelines that fit, unless none can be faster than one that takes so long. Where loads are
/// copied they have buffers of another kind, and are no rivals.
fn pipelines(site: &Site<'_>, than_ns: u64) -> impl Iterator<Item = Plan> {
    let request = site.request;
    let whole = Design::uniform(Cutting::LAYERS, &request.network.on_load, Loading::Inference);
    let [bound_ns, _] = bounds_ns(site, &whole.slices(request.network, &site.ground));
    let rival = bound_ns < than_ns && !request.is_staged();
    let names = STRATEGIES.iter().filter(move |_| rival);
    names.filter_map(move |name| {
        let pipeline = demand::of_name(name)?;
        demand::plan_on(site, name, pipeline, demand::DELTA).ok().map(|made| made.plan)
    })
}

/// No plan of these slices takes less if nothing is read before the inference; and if each load waits for the step before the
/// one that needs it, too. Steps have all the scratch that they can use, and nothing that is read meanwhile slows them down.
fn bounds_ns(site: &Site<'_>, slices: &Slices) -> [u64; 2] {
    let resident = slices.reads.iter().filter(|read| read.resident);
    let arena_bytes = site.least_tables() + resident.map(|read| read.bytes).sum::<u64>();
    let far = bounds_from(site, slices, false);
    match site.costs.is_near(arena_bytes) {
        true => {
            let near = bounds_from(site, slices, true);
            [0, 1].map(|at| near[at].min(far[at]))
        }
        false => far,
    }
}

/// The same with weights in the cache that all share, or not.
fn bounds_from(site: &Site<'_>, slices: &Slices, near: bool) -> [u64; 2] {
    let service = site.costs.service(near);
    let mut last: Option<(Step, i64)> = None;
    // So far: when the line is through, and if loads wait for their turn; when the last read had come in each,
    // and been checked in the line.
    let (mut line, mut in_turn, mut come, mut checked, mut arrived) = (0, 0, 0, 0, 0);
    for (index, step) in slices.steps.iter().enumerate() {
        let load = slices.read_of[index].map(|at| &slices.reads[at]);
        if let Some(load) = load.filter(|load| load.first == index && !load.resident) {
            let parts = service.read(load.bytes);
            // Others under way can hide its latency; and storage that has not rested so long has less.
            come += parts.transfer;
            checked = checked.max(come) + parts.check;
            line = line.max(checked);
            arrived = in_turn + parts.latency.min(in_turn - arrived) + parts.transfer;
            in_turn = arrived + parts.check;
        }
        let step = Step { first: 0, chain: 0, row: 0, scratch_bytes: 0, ..*step };
        let ns = match last {
            Some((like, ns)) if like == step => ns,
            _ => site.costs.least_ns_from(&step, f64::INFINITY, None, near) as i64,
        };
        last = Some((step, ns));
        (line, in_turn) = (line + ns, in_turn + ns);
    }
    [line as u64, in_turn as u64]
}
