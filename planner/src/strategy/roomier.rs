//! A plan that leaves some of its budget: less of one layer stays.
//!
//! Budgets are used to the last page. Where a plan shall leave some pages, for residents that it has in common with others
//! ([`common`](super::common)), that is best done to the plan that is there: one that is searched for in a smaller budget is another
//! one, faster or slower by up to a percent. What stays less is read in each inference, which takes some hundredths of a
//! millisecond.

use super::design::{Built, Design};
use super::site::Site;
use eyelet::pack::PAGE;
use std::cmp::Reverse;

/// Layers of which some is tried to be read, those with the smallest panels.
const MOST: usize = 16;

/// A plan with that part of the time more is hardly slower.
const SLOWER: u64 = 300;

/// A plan that leaves up to so many bytes of a budget because less of one layer stays: as many as are left without it being more than
/// hardly slower.
pub fn roomier(site: &Site<'_>, design: &Design, built: &Built, left: u64) -> Option<Built> {
    let halves = std::iter::successors(Some(left), |left| Some(left / 2 / PAGE * PAGE));
    let mut halves = halves.take_while(|left| *left > 0);
    halves.find_map(|left| leaving(site, design, built, left))
}

/// The fastest plan that leaves so many bytes of a budget because less of one layer stays, if that is hardly slower.
fn leaving(site: &Site<'_>, design: &Design, built: &Built, left: u64) -> Option<Built> {
    let budget = site.request.budget.checked_sub(left)?;
    if built.plan.arena_bytes <= budget {
        return None;
    }
    let most_ns = built.line.steady_ns + built.line.steady_ns / SLOWER;
    let layers = site.request.network.layers.iter().enumerate();
    let mut fewer: Vec<(u64, usize, u32)> = Vec::new();
    for (index, layer) in layers.filter(|(index, layer)| layer.panels > 0 && !site.slides(*index)) {
        let panel = u64::from(layer.panel_bytes).max(1);
        let stay = design.layers[index].resident.min(layer.panels);
        let panels = left.div_ceil(panel);
        if panels <= stay.into() {
            fewer.push((panels * panel, index, stay - panels as u32));
        }
    }
    fewer.sort_unstable();
    fewer.truncate(MOST);
    let plans = fewer.into_iter().filter_map(|(_, layer, resident)| {
        let mut design = design.clone();
        design.layers[layer].resident = resident;
        let plan = site.place(&design, budget).ok()?;
        let built = site.predict_within(plan, most_ns).ok()?;
        (built.line.steady_ns <= most_ns).then_some(built)
    });
    plans.min_by_key(|built| (built.line.steady_ns, Reverse(built.plan.resident_bytes())))
}

/// What a plan may take that has residents in common with others, where the fastest one takes `ns`: no prediction can tell
/// the two apart.
pub fn hardly_slower(ns: u64) -> u64 {
    ns + ns / 200
}
