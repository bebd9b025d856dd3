//! Residents that plans of one pack share, at one address in all of them.
//!
//! A change of budget goes from one plan of a pack to another. Residents that both keep at the same
//! address stay where they are. Others are moved at the speed of memory: some milliseconds for a
//! few tens of mebibytes. So the residents of all plans of a pack are laid out together, in one
//! order, from one address on:
//!
//! ```text
//! smallest  tables │ A │ own │ everything else
//! larger    tables │ A │ B │ own │ everything else
//! largest   tables │ A │ B │ C │ everything else
//! ```
//!
//! All plans keep A, all but the smallest keep B, and so on ([`pieces`]). So a plan's share with
//! the larger ones is the beginning of their own share, without a hole. Then come the plan's own
//! residents, then all else, in the order in which it lay. Nothing else of a plan changes
//! ([`rebuild`]).
//!
//! Two things can stand in the way. A plan may keep little of what a smaller one keeps: then it is
//! made to keep that ([`nest`]). The common start is after the largest tables, and cut residents
//! take more pages. A plan that has no room for these keeps less ([`Refit`]). Both may make it
//! slower by [`SLOWER`] at most. A plan with which that cannot be done stays as it is.

mod pieces;
mod rebuild;
#[cfg(test)]
mod tests;

use super::refit::Refit;
use eyelet_model::network::Network;
use eyelet_model::plan::Plan;
use eyelet_model::tables::Tables;
use pieces::{Holdings, in_order, shared};
use rebuild::rebuild;
use std::cmp::Reverse;

/// Accepted slowdown: 1/40.
const SLOWER: u64 = 40;

/// Steps are cut only for pieces of at least this fraction of the smallest residents of all plans;
/// `None` cuts no step. Each step that is cut takes time in each inference, and moving a piece
/// takes time once.
const PARTS: [Option<u64>; 3] = [Some(64), Some(8), None];

/// Share of a smaller plan's residents that is enough in a larger plan.
const ENOUGH: (u64, u64) = (2, 3);

/// Bytes of the smallest pieces for which steps are cut: they are moved in some microseconds.
const LEAST: u64 = 16 << 10;

/// So often plans are made to keep less, for one way to cut.
const TURNS: usize = 12;

/// A plan of a pack, before it is laid out.
pub(in crate::search) struct PlanToLayOut<'a> {
    pub(in crate::search) plan: &'a Plan,
    pub(in crate::search) predicted_ns: u64,
    /// The builder and the design of the plan, if known.
    pub(in crate::search) refit: Option<&'a Refit<'a>>,
}

/// A plan that was laid out, and what is predicted of it.
type LaidOut = Option<(Plan, u64)>;

/// A plan that takes part.
struct Member<'a> {
    guest: &'a PlanToLayOut<'a>,
    index: usize,
    plan: Plan,
    /// Panels of each layer that it shall keep.
    keeps: Vec<u32>,
    /// Bytes of its budget that it leaves.
    left: u64,
}

impl Member<'_> {
    fn most_ns(&self) -> u64 {
        self.guest.predicted_ns + self.guest.predicted_ns / SLOWER
    }

    /// Makes the plan leave `more` bytes more and keep at least [`keeps`](Self::keeps). Returns
    /// whether it could.
    fn refit(&mut self, more: u64) -> bool {
        self.left += more;
        let Some(refit) = self.guest.refit else { return false };
        let budget = self.guest.plan.budget;
        let Some(bytes) = budget.checked_sub(self.left) else { return false };
        match refit.plan(bytes, self.left, &self.keeps, self.most_ns()) {
            Some(plan) => {
                self.plan = Plan { budget, ..plan };
                true
            }
            None => false,
        }
    }
}

/// Lays out the residents of plans, which are for ascending budgets. Nothing comes of a plan that
/// stays as it is.
pub(in crate::search) fn lay_out(
    network: &Network,
    guests: &[PlanToLayOut<'_>],
    predict: &dyn Fn(&Plan) -> u64,
) -> Vec<LaidOut> {
    let members = guests.iter().enumerate().map(|(index, guest)| Member {
        plan: guest.plan.clone(),
        keeps: Vec::new(),
        left: 0,
        index,
        guest,
    });
    let mut members: Vec<Member<'_>> = members.collect();
    let mut all = vec![None; guests.len()];
    nest(network, &mut members);
    members.retain(|member| !Holdings::of(network, &member.plan).items.is_empty());
    while members.len() > 1 {
        let mut misfits = vec![0; members.len()];
        for parts in PARTS {
            match arrange(network, &mut members, parts, predict) {
                Ok(new) => {
                    for (member, new) in members.iter().zip(new) {
                        all[member.index] = new;
                    }
                    return all;
                }
                Err(member) => misfits[member] += 1,
            }
        }
        let worst = (0..members.len()).max_by_key(|member| misfits[*member]);
        worst.into_iter().for_each(|worst| drop(members.remove(worst)));
    }
    all
}

/// Makes a plan keep its residents together if more of them lie among everything else: the same
/// number of panels of the same layers.
fn gather(network: &Network, member: &mut Member<'_>) {
    let held = Holdings::of(network, &member.plan);
    if held.bytes() * 2 >= member.plan.resident_bytes() {
        return;
    }
    member.keeps = held.panels(network);
    for (layer, panels) in held.apart {
        let keeps = &mut member.keeps[layer as usize];
        *keeps = (*keeps + panels).min(network.layers[layer as usize].panels);
    }
    member.refit(0);
}

/// Has each plan keep what all smaller ones keep, if it keeps less than [`ENOUGH`] of that of one of
/// them and hardly gets slower: all of it, or what the layers keep that keep the most.
fn nest(network: &Network, members: &mut [Member<'_>]) {
    let bytes = |layer: usize, panels: u32| {
        u64::from(network.layers[layer].panel_bytes) * u64::from(panels)
    };
    let sum = |panels: &[u32]| -> u64 {
        panels.iter().enumerate().map(|(layer, panels)| bytes(layer, *panels)).sum()
    };
    let by = |a: &[u32], b: &[u32], choose: fn(u32, u32) -> u32| -> Vec<u32> {
        a.iter().zip(b).map(|(a, b)| choose(*a, *b)).collect()
    };
    // For each smaller plan: the bytes that it keeps, and the panels of these in all plans so far.
    let mut chains: Vec<(u64, Vec<u32>)> = Vec::new();
    let none = vec![0; network.layers.len()];
    for member in members {
        gather(network, member);
        let own = Holdings::of(network, &member.plan).panels(network);
        let (enough, of) = ENOUGH;
        let lacks =
            |(all, panels): &&(u64, Vec<u32>)| sum(&by(panels, &own, u32::min)) * of < all * enough;
        let wanted = chains
            .iter()
            .filter(lacks)
            .fold(none.clone(), |wanted, (_, panels)| by(&wanted, panels, u32::max));
        let both = by(&wanted, &own, u32::min);
        let mut layers: Vec<usize> = (0..wanted.len()).filter(|at| wanted[*at] > 0).collect();
        layers.sort_by_key(|layer| Reverse(bytes(*layer, wanted[*layer])));
        while !layers.is_empty() {
            member.keeps = both.clone();
            layers.iter().for_each(|layer| member.keeps[*layer] = wanted[*layer]);
            if member.refit(0) {
                break;
            }
            layers.truncate(layers.len() / 2);
        }
        let own = Holdings::of(network, &member.plan).panels(network);
        chains.iter_mut().for_each(|(_, panels)| *panels = by(panels, &own, u32::min));
        member.keeps =
            chains.iter().fold(none.clone(), |keeps, (_, panels)| by(&keeps, panels, u32::max));
        chains.push((sum(&own), own));
    }
}

/// The plans with shared residents, or the plan that does not allow it.
fn arrange(
    network: &Network,
    members: &mut [Member<'_>],
    parts: Option<u64>,
    predict: &dyn Fn(&Plan) -> u64,
) -> Result<Vec<LaidOut>, usize> {
    let last = members.len() - 1;
    for _ in 0..TURNS {
        let holdings = members.iter().map(|member| Holdings::of(network, &member.plan));
        let all: Vec<Holdings> = holdings.collect();
        let fewest = all.iter().map(Holdings::bytes).min().unwrap_or(0);
        let least = parts.map_or(u64::MAX, |parts| (fewest / parts).max(LEAST));
        let pieces = shared(&all, least);
        if pieces.is_empty() {
            // The largest plan does not have the residents that the others share.
            return Err(last);
        }
        let new = rebuilt(network, members, &all, &pieces);
        let over = |plan: &Plan| plan.arena_bytes.saturating_sub(plan.budget);
        let misfit = (0..=last).find(|at| new[*at].as_ref().is_some_and(|plan| over(plan) > 0));
        if let Some(at) = misfit {
            let more = new[at].as_ref().map_or(0, over);
            if !members[at].refit(more) {
                return Err(at);
            }
            continue;
        }
        let predicted = new.into_iter().enumerate().map(|(at, plan)| {
            let Some(plan) = plan else { return Ok(None) };
            let ns = predict(&plan);
            if ns <= members[at].most_ns() { Ok(Some((plan, ns))) } else { Err(at) }
        });
        return predicted.collect();
    }
    Err(last)
}

/// The plans with their residents in order, of those that share any; they may be larger than their
/// budgets.
fn rebuilt(
    network: &Network,
    members: &[Member<'_>],
    all: &[Holdings],
    pieces: &[pieces::Piece],
) -> Vec<Option<Plan>> {
    let tables = Tables::of(network);
    let first = pieces.iter().map(|piece| piece.from).min().unwrap_or(members.len());
    let mut start = members[first..].iter().map(|member| member.plan.tables).max().unwrap_or(0);
    loop {
        let plan = |at: usize| {
            (at >= first).then(|| {
                let places = in_order(&all[at], pieces, at, start);
                rebuild(&members[at].plan, &all[at], places.into_iter(), &tables)
            })
        };
        let new: Vec<Option<Plan>> = (0..members.len()).map(plan).collect();
        // With what is cut tables grow.
        let needed = new.iter().flatten().map(|plan| plan.tables).max().unwrap_or(start);
        if needed <= start {
            return new;
        }
        start = needed;
    }
}
