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
//! simulator decides. `joint` adds the cycle, residents where they pay, limits for each layer, and
//! search.
//!
//! In the ablation without preloading, a load waits until the step that needs it is next. Without a
//! static plan, memory is given out and taken back as the inference goes (`dynamic`).

mod dynamic;

use crate::contest::{Contest, bounds_ns};
use eyelet_model::plan::Plan;
use eyelet_plan::search::parts::{
    Built, Design, Fit, Loading, Misfit, PlanBuilder, SLICE, SlicingTarget, designs_in, least_of,
    refuse, rooms, stage,
};
use eyelet_plan::search::{PlanError, PlanResult, Request, Strategy};
use eyelet_plan::slice::{Cutting, Read};
use std::time::Instant;

/// FlexNN with the parts that its plans have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlexNn {
    pub static_plan: bool,
    pub preload: bool,
}

impl FlexNn {
    /// FlexNN as published.
    pub const WHOLE: Self = Self { static_plan: true, preload: true };

    /// FlexNN with and without each of its parts, in the order in which they are compared.
    pub const ALL: [Self; 4] = [
        Self::WHOLE,
        Self { static_plan: false, preload: true },
        Self { static_plan: true, preload: false },
        Self { static_plan: false, preload: false },
    ];

    fn loading(self) -> Loading {
        if self.preload { Loading::Inference } else { Loading::OnDemand }
    }
}

impl Strategy for FlexNn {
    fn name(&self) -> &'static str {
        match (self.static_plan, self.preload) {
            (true, true) => "flexnn",
            (true, false) => "flexnn-no-preload",
            (false, true) => "flexnn-dynamic",
            (false, false) => "flexnn-dynamic-no-preload",
        }
    }

    fn about(&self) -> &'static str {
        match (self.static_plan, self.preload) {
            (true, true) => "FlexNN: slices loaded ahead, memory planned statically",
            (true, false) => "FlexNN without loading ahead",
            (false, true) => "FlexNN with memory given out while the network runs",
            (false, false) => "FlexNN without either",
        }
    }

    fn plan(&self, request: &Request<'_>) -> Result<PlanResult, PlanError> {
        plan(request, *self)
    }

    /// Compares with FlexNN with and without each of its parts: they share designs and bounds.
    fn faster(&self, builder: &PlanBuilder<'_>, than_ns: u64, may_read: bool) -> Option<Built> {
        let mut contest = Contest::new(builder, than_ns, may_read);
        let (own, loading) = (&builder.request.network.on_load, Loading::Inference);
        let whole = [Cutting::LAYERS, Cutting::RESIDENT];
        let whole = whole.map(|cutting| Design::uniform(cutting, own, loading));
        let frugal = frugal_designs(builder, loading, true);
        for design in designs(builder, loading).chain(whole).chain(frugal) {
            compare(&mut contest, &design);
        }
        contest.fastest()
    }
}

/// Compares with the plans that FlexNN makes of a design.
fn compare(contest: &mut Contest<'_, '_>, design: &Design) {
    let (builder, budget) = (contest.builder, contest.builder.request.budget);
    let slices = design.slices(builder.request.network, &builder.activations);
    let [ahead_ns, in_turn_ns] = bounds_ns(builder, &slices);
    for parts in FlexNn::ALL {
        let bound_ns = if parts.preload { ahead_ns } else { in_turn_ns };
        if bound_ns < contest.least_ns {
            let design = Design { loading: parts.loading(), ..design.clone() };
            let placed = place(builder, &design, budget, parts)
                .or_else(|_| place_lowest(builder, &design, parts));
            placed.into_iter().for_each(|plan| contest.consider(plan));
        }
    }
}

/// Slices of a layer that must fit next to its activations.
const SLICES: [f64; 4] = [2.0, 3.0, 4.0, 8.0];

/// Shares of the memory next to the activations that are tried for pinned weights.
const SHARES: [f64; 7] = [0.25, 0.5, 0.7, 0.8, 0.87, 0.92, 0.96];

fn plan(request: &Request<'_>, parts: FlexNn) -> Result<PlanResult, PlanError> {
    let start = Instant::now();
    let (builder, loading, dynamic) =
        (PlanBuilder::new(request), parts.loading(), !parts.static_plan);
    let needs = |design: &Design| needs(&builder, design, parts);
    let fits = |design: &Design| needs(design) <= request.budget;
    let designs = || frugal_designs(&builder, loading, dynamic);
    let frugal = if builder.has_room() { designs().into_iter().find(fits) } else { None };
    let Some(frugal) = frugal else {
        let Fit { bytes, design } = least_of(designs(), needs);
        return Err(refuse(request, bytes, SLICE, &|budget| match parts.static_plan {
            true => builder.place_lowest(&design, budget),
            false => place(&builder, &design, budget, parts),
        }));
    };
    let plan = match best(&builder, parts) {
        Some((_, built)) => built.plan,
        None => place_lowest(&builder, &frugal, parts).expect("it is sure to fit"),
    };
    Ok(PlanResult { plan, constructive: start.elapsed(), ..PlanResult::default() })
}

/// If an allocator decides on places, frugal designs for these multiples of the bytes are also
/// tried: what it needs is not known before.
const TIMES: [f64; 4] = [0.5, 0.75, 1.25, 1.5];

/// The frugal designs. A `dynamic` plan has some more.
fn frugal_designs(builder: &PlanBuilder<'_>, loading: Loading, dynamic: bool) -> Vec<Design> {
    let mut bytes = rooms(builder);
    if let Some(&least) = bytes.first().filter(|_| dynamic) {
        bytes.extend(TIMES.map(|times| (least as f64 * times) as u64));
    }
    designs_in(builder, loading, &bytes)
}

/// The budget from which on a design surely fits. Without a static plan that is no less than with
/// one.
fn needs(builder: &PlanBuilder<'_>, design: &Design, parts: FlexNn) -> u64 {
    match parts.static_plan {
        true => builder.least_bytes(design),
        false => dynamic::least_bytes(builder, design).max(builder.least_bytes(design)),
    }
}

/// The best plan of the designs that are tried.
fn best(builder: &PlanBuilder<'_>, parts: FlexNn) -> Option<(Design, Built)> {
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
fn designs(builder: &PlanBuilder<'_>, loading: Loading) -> impl Iterator<Item = Design> {
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
        pin_head(builder, &mut design, pinned);
        design
    };
    let all = Design::uniform(Cutting::RESIDENT, &builder.request.network.on_load, loading);
    let designs = SLICES.into_iter().flat_map(move |s| SHARES.map(|share| with(s, share)));
    designs.chain([all])
}

/// Pins the first loads that fit `capacity` bytes together.
fn pin_head(builder: &PlanBuilder<'_>, design: &mut Design, capacity: u64) {
    let slices = design.slices(builder.request.network, &builder.activations);
    let mut end = 0;
    let fits = |read: &Read| {
        end += read.bytes;
        end <= capacity
    };
    let stays: Vec<bool> = slices.reads.iter().map(fits).collect();
    builder.keep(design, &slices, &stays);
}

fn place(
    builder: &PlanBuilder<'_>,
    design: &Design,
    budget: u64,
    parts: FlexNn,
) -> Result<Plan, Misfit> {
    match parts.static_plan {
        true => builder.place(design, budget),
        false => {
            let mut plan = dynamic::place(builder, design, budget, parts.preload)?;
            if builder.request.is_staged() {
                stage(&mut plan, parts.loading());
            }
            Ok(plan)
        }
    }
}

/// Places a design that surely fits the budget of the request.
fn place_lowest(builder: &PlanBuilder<'_>, design: &Design, parts: FlexNn) -> Result<Plan, Misfit> {
    match parts.static_plan {
        true => builder.place_lowest(design, builder.request.budget),
        // Without loads that run ahead it comes to its end.
        false => place(builder, design, builder.request.budget, parts),
    }
}
