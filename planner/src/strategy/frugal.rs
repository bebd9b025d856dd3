//! The smallest budget, exactly.
//!
//! Whether a design fits a budget is hard to say: the rules of placing are greedy and depend on the
//! budget, so that one can fail in more memory than it needs. But each design has a budget from
//! which on it is sure to fit: that in which everything finds room at its lowest place
//! ([`SlicedNetwork::least_bytes`](super::place::SlicedNetwork::least_bytes)), which placing falls
//! back on. It does not depend on the budget, and takes no search.
//!
//! So a few *frugal* designs are listed, the same for all budgets, and the smallest budget is what
//! the least of them needs. Slices are weighed against tables: coarser ones take more memory beside
//! the activations, finer ones are more steps and loads. How coarse each layer's slices can be in
//! so many bytes beside the tables is known, and changes only at some numbers of bytes. These are
//! gone through, and those at which bytes and tables are least together give the designs. With them
//! go whole layers, and all weights in the arena: so what `on-demand` and `preload` need is never
//! less.
//!
//! A strategy plans for a budget if and only if one of its frugal designs is sure to fit it. That
//! is what makes the smallest budget exact: below it nothing is planned, whatever luck another
//! design might have there, and from it on there is a plan, if need be the frugal one.

use super::design::Design;
use super::place::Loading;
use super::builder::PlanBuilder;
use crate::slice::Cutting;
use crate::tables::Counts;
use eyelet::pack::PAGE;

/// Numbers of bytes beside the tables of which designs are made.
const MOST: usize = 8;

/// A design, and the budget from which on it is sure to fit.
#[derive(Clone, Debug)]
pub struct Fit {
    pub bytes: u64,
    pub design: Design,
}

/// Where an allocator decides on places, these times as many bytes are tried, too: nobody knows
/// what it will need.
const TIMES: [f64; 4] = [0.5, 0.75, 1.25, 1.5];

/// The frugal designs for one way to slide, by the layers' own algorithms; with those for a plan
/// that is `dynamic`, or without.
pub fn designs(builder: &PlanBuilder<'_>, loading: Loading, dynamic: bool) -> Vec<Design> {
    let on_load = &builder.request.network.on_load;
    let mut designs: Vec<Design> = Vec::new();
    let mut add = |design: Design| {
        if !designs.contains(&design) {
            designs.push(design);
        }
    };
    let mut rooms = rooms(builder);
    if let Some(&least) = rooms.first().filter(|_| dynamic) {
        rooms.extend(TIMES.map(|times| (least as f64 * times) as u64));
    }
    for bytes in rooms {
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

/// A frugal design that `fits` the budget of the request for sure; nothing if none does.
pub fn within(
    builder: &PlanBuilder<'_>,
    loading: Loading,
    dynamic: bool,
    fits: impl Fn(&Design) -> bool,
) -> Option<Design> {
    if !builder.has_room() {
        return None;
    }
    designs(builder, loading, dynamic).into_iter().find(fits)
}

/// The frugal design that needs the least.
pub fn least(
    builder: &PlanBuilder<'_>,
    loading: Loading,
    dynamic: bool,
    needs: impl Fn(&Design) -> u64,
) -> Fit {
    let fits = designs(builder, loading, dynamic).into_iter();
    let fits = fits.map(|design| Fit { bytes: needs(&design), design });
    fits.min_by_key(|fit| fit.bytes).expect("all weights in the arena are a design")
}

/// The bytes beside the tables, of those at which slices become coarser, that take the least with
/// the tables.
fn rooms(builder: &PlanBuilder<'_>) -> Vec<u64> {
    let network = builder.request.network;
    // From how many bytes on a layer is cut into so many slices.
    let mut changes: Vec<(u64, usize, u32)> = Vec::new();
    let mut slices = vec![1u32; network.layers.len()];
    let mut enough = 0;
    for (index, slices) in slices.iter_mut().enumerate().filter(|(index, _)| !builder.slides(*index)) {
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
