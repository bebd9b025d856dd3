//! What plans of one pack have in common, at one address in all of them.
//!
//! A change of budget goes from one plan of a pack to another. Residents of both need not be read, but those that lie elsewhere
//! have to be moved, at the speed of memory: some milliseconds for a few tens of mebibytes. So when all plans of a pack
//! are made, their residents are laid out anew, together. They lie at the start of the arena, behind the tables, and what
//! comes and goes lies above them, in the order in which it did: nothing else of a plan changes.
//!
//! Residents of different plans are seldom the same loads: a larger budget keeps more panels of a layer. So they are cut into
//! *pieces* ([`pieces`]) that plans of consecutive budgets have in common. From the smallest budget on pieces get the
//! lowest places that are free in all plans that have them ([`slots`]), those first that stay in the most plans. What stays
//! in all larger budgets lies below everything else then, and leaves no holes. Lost are the pages that two pieces share, and what other
//! plans' tables are larger: for these a plan of a pack with several budgets leaves a little of its budget ([`reserve`]).
//!
//! Where a piece ends within a step, the step becomes two ([`rebuild`]). That costs time in each inference, and moving a
//! piece costs it once: so small pieces are not cut off, and a plan that would be slower is left as it was.

mod pieces;
mod rebuild;
mod slots;
#[cfg(test)]
mod tests;

use super::Predicted;
use crate::network::Network;
use crate::plan::Plan;
use crate::tables::Tables;
use eyelet::pack::PAGE;
use pieces::{Holdings, Piece, Sharing};
use rebuild::rebuild;
use slots::Slots;
use std::cmp::Reverse;

/// Of a budget no more than one part in so many is left for pages that are lost.
const PART: u64 = 64;

/// Bytes that are left at most.
const MOST: u64 = 512 << 10;

/// Bytes of the smallest pieces at whose ends others are cut: what is smaller is moved (0.1 ms for the first of these numbers).
const LEAST: [u64; 5] = [512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20];

/// A plan that was laid out, and what is predicted of it.
type LaidOut = Option<(Plan, Predicted)>;

/// Bytes of a budget that its plan shall leave in a pack with others, at most.
pub(super) fn reserve(budget: u64) -> u64 {
    (budget / PART).min(MOST) / PAGE * PAGE
}

/// Lays out the residents of plans, which are for ascending budgets. `accepts` predicts what a plan becomes unless it is too slow. Nothing
/// comes of a plan that is better left as it is.
pub(super) fn lay_out(
    network: &Network,
    plans: Vec<&Plan>,
    accepts: impl Fn(usize, &Plan) -> Option<Predicted>,
) -> Vec<LaidOut> {
    let mut all: Vec<Holdings> = plans.iter().map(|plan| Holdings::of(network, plan)).collect();
    let tables = Tables::of(network);
    // Each turn leaves one plan out, if it is not the last one.
    for _ in 0..plans.len() {
        let ways = LEAST.into_iter().flat_map(|least| [(least, true), (least, false)]);
        let shared = |(least, passing)| pieces::shared(&all, Sharing { least, passing });
        let mut ways: Vec<Vec<Piece>> = ways.map(shared).collect();
        // Those first by which changes of budget find the most bytes where they shall be.
        ways.sort_by_key(|pieces| Reverse(pieces.iter().map(Piece::kept).sum::<u64>()));
        ways.dedup();
        let mut misfits = vec![0; plans.len()];
        for shared in ways {
            match arrange(&plans, &all, &shared, &tables, &accepts) {
                Ok(new) => return new,
                Err(plan) => misfits[plan] += 1,
            }
        }
        let worst = (0..plans.len()).max_by_key(|plan| misfits[*plan]);
        worst.into_iter().for_each(|plan| all[plan] = Holdings::default());
    }
    vec![None; plans.len()]
}

/// What the plans become that have pieces in common with others; or one for which that does not do.
fn arrange(
    old: &[&Plan],
    all: &[Holdings],
    shared: &[Piece],
    tables: &Tables,
    accepts: &dyn Fn(usize, &Plan) -> Option<Predicted>,
) -> Result<Vec<LaidOut>, usize> {
    let has_any = |plan: &usize| shared.iter().any(|piece| piece.plans.contains(plan));
    let changed: Vec<usize> = (0..old.len()).filter(has_any).collect();
    let mut start = changed.iter().map(|&plan| old[plan].tables).max().unwrap_or(0);
    loop {
        let slots = Slots::new(all, shared, start);
        let mut new: Vec<LaidOut> = vec![None; old.len()];
        // With what is cut tables grow.
        let mut needed = start;
        for &at in &changed {
            let plan = rebuild(old[at], &all[at], slots.of_plan(at), tables);
            if plan.arena_bytes > plan.budget {
                return Err(at);
            }
            needed = needed.max(plan.tables);
            new[at] = Some((plan, 0));
        }
        if needed > start {
            start = needed;
            continue;
        }
        for (at, laid_out) in new.iter_mut().enumerate() {
            if let Some((plan, ns)) = laid_out {
                *ns = accepts(at, plan).ok_or(at)?;
            }
        }
        return Ok(new);
    }
}
