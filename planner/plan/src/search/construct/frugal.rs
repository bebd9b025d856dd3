//! The smallest budget, exactly.
//!
//! Whether a design fits a budget is hard to say: placing is greedy and depends on the budget, so
//! it can fail in more memory than it needs. But each design has a budget from which on it surely
//! fits: the one in which everything has room at its lowest place
//! ([`PlanBuilder::least_bytes`]). Placing falls back on that. It does not depend on the budget, and
//! takes no search.
//!
//! So a few *frugal* designs are listed, the same for all budgets, and the smallest budget is the
//! least that one of them needs. Coarser slices take more memory next to the activations; finer
//! ones are more steps and loads, with larger tables. How coarse each layer's slices can be changes
//! only at some numbers of bytes next to the tables. The designs are those at which bytes and
//! tables together are least. Whole layers, and all weights in the arena, are also among them: so
//! `on-demand` and `preload` never need less.
//!
//! A strategy plans for a budget if and only if one of its frugal designs surely fits. That makes
//! the smallest budget exact: below it nothing is planned, even if another design would fit by
//! luck, and from it on there is a plan.

use crate::request::Request;
use crate::search::place::builder::PlanBuilder;
use crate::search::place::design::Design;
use crate::search::place::precomputed::Precomputed;
use crate::search::place::refusal::{PlanError, SLICE, refuse};
use crate::search::place::sliced_network::Loading;
use crate::slice::Cutting;
use crate::slide::Search;
use eyelet::pack::PAGE;
use eyelet_model::tables::Counts;
use std::sync::Arc;

/// Numbers of bytes next to the tables for which designs are made.
const MOST: usize = 8;

/// A design, and the budget from which on it surely fits.
#[derive(Clone, Debug)]
pub struct Fit {
    pub bytes: u64,
    pub design: Design,
}

/// The frugal designs for one way to slide, with the layers' own algorithms.
pub fn designs(builder: &PlanBuilder<'_>, loading: Loading) -> Vec<Design> {
    designs_in(builder, loading, &rooms(builder))
}

/// The frugal designs for these numbers of bytes next to the tables, and those that do not depend
/// on them.
pub fn designs_in(builder: &PlanBuilder<'_>, loading: Loading, rooms: &[u64]) -> Vec<Design> {
    let on_load = &builder.request.network.on_load;
    let mut designs: Vec<Design> = Vec::new();
    let mut add = |design: Design| {
        if !designs.contains(&design) {
            designs.push(design);
        }
    };
    for &bytes in rooms {
        for join in [false, true] {
            add(builder.coarsest_in(bytes, join, on_load, loading));
        }
    }
    builder.finest(on_load, loading).into_iter().for_each(&mut add);
    for all in [Cutting::LAYERS, Cutting::RESIDENT] {
        add(Design::uniform(all, on_load, loading));
    }
    designs
}

/// A frugal design that surely `fits` the budget of the request, if there is one.
pub fn within(
    builder: &PlanBuilder<'_>,
    loading: Loading,
    fits: impl Fn(&Design) -> bool,
) -> Option<Design> {
    if !builder.has_room() {
        return None;
    }
    designs(builder, loading).into_iter().find(fits)
}

/// The frugal design that needs the least.
pub fn least(builder: &PlanBuilder<'_>, loading: Loading, needs: impl Fn(&Design) -> u64) -> Fit {
    least_of(designs(builder, loading), needs)
}

/// The one of some designs that needs the least. One is all weights in the arena.
pub fn least_of(designs: Vec<Design>, needs: impl Fn(&Design) -> u64) -> Fit {
    let fits = designs.into_iter().map(|design| Fit { bytes: needs(&design), design });
    fits.min_by_key(|fit| fit.bytes).expect("all weights in the arena are a design")
}

/// The numbers of bytes next to the tables that take the least together with the tables. Slices
/// become coarser at each of them.
pub fn rooms(builder: &PlanBuilder<'_>) -> Vec<u64> {
    let network = builder.request.network;
    // The bytes from which on a layer has this many slices.
    let mut changes: Vec<(u64, usize, u32)> = Vec::new();
    let mut slices = vec![1u32; network.layers.len()];
    let mut enough = 0;
    for (index, slices) in
        slices.iter_mut().enumerate().filter(|(index, _)| !builder.slides(*index))
    {
        let needs = |bytes: u64| builder.activations.needs(index, bytes);
        let cuts = builder.cuts(index).iter().map(|cut| (needs(cut.bytes), index, cut.slices));
        let (least, _, most) = cuts.clone().min().unwrap_or_default();
        (enough, *slices) = (enough.max(least), most.max(1));
        changes.extend(cuts);
    }
    changes.sort_unstable();
    let weighs = |index: usize| usize::from(network.layers[index].panels > 0);
    let mut loads: usize =
        slices.iter().enumerate().map(|(index, count)| *count as usize * weighs(index)).sum();
    // One of each layer is counted with the activations.
    let more = slices.iter().map(|count| *count as usize - 1).sum::<usize>();
    let Counts { works, steps, .. } = builder.activations.counts();
    let (mut works, mut steps) = (works + more, steps + more);
    let mut found: Vec<(u64, u64)> = Vec::new();
    let mut changes = changes.into_iter().peekable();
    while let Some((bytes, index, fewer)) = changes.next() {
        let saved = slices[index].saturating_sub(fewer);
        (works, steps) = (works - saved as usize, steps - saved as usize);
        loads -= saved as usize * weighs(index);
        slices[index] -= saved;
        let bytes = bytes.max(enough).next_multiple_of(PAGE);
        if changes.peek().is_none_or(|next| next.0 > bytes) {
            let stages = if builder.request.is_staged() { loads } else { 0 };
            let counts = Counts { loads, works, steps, stages };
            found.push((bytes + builder.activations.tables.bytes(counts), bytes));
        }
    }
    found.sort_unstable();
    found.truncate(MOST);
    found.into_iter().map(|(_, bytes)| bytes).collect()
}

/// The error if construction finds nothing. The smallest budget is
/// the least over [ways to slide](Search::smallest) and over not sliding.
pub fn refusal(request: &Request<'_>) -> PlanError {
    let precomputed = Arc::new(Precomputed::new(request));
    let mut search = Search::new(request.network, &precomputed.costs, request.threads);
    let ways = std::iter::once(Vec::new()).chain(search.smallest(u64::MAX));
    let fit = |groups| {
        let builder = PlanBuilder::with(request, precomputed.clone(), groups);
        let fit = least(&builder, Loading::Cyclic, |design| builder.least_bytes(design));
        (builder, fit)
    };
    let (builder, Fit { bytes, design }) =
        ways.map(fit).min_by_key(|(_, fit)| fit.bytes).expect("not to slide is a way");
    refuse(request, bytes, SLICE, &|budget| builder.place_lowest(&design, budget))
}
