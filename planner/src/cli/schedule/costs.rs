//! Costs of a task from its packs and models: of each plan, by the simulator.

use crate::cli::Error;
use crate::cli::forecast::costs;
use crate::cli::output::Output;
use crate::cli::pack_file::{PackFile, planner_types};
use crate::cli::plan::{least, lower};
use crate::cli::progress::Progress;
use crate::cli::target::DEFAULT_THREADS;
use eyelet::pack::{Load, PAGE};
use eyelet_planner::board::{self, Board};
use eyelet_planner::import::import;
use eyelet_planner::network::Network;
use eyelet_planner::plan::Plan;
use eyelet_planner::profile::Profile;
use eyelet_planner::simulate::{Span, simulate};
use eyelet_planner::strategy::choose::choose;
use eyelet_planner::strategy::{Effort, PackRequest};
use eyelet_tasks::set::Cost;
use std::path::Path;

/// Budgets for which a model is planned where the set names none, from its smallest on.
const BUDGETS: u32 = 6;
/// More than all weights of a network, next to its largest activations: budgets above are one plan.
const ROOM: u64 = 1 << 40;

/// Costs of each of a pack's plans, on a board, or on this machine.
pub fn of_pack(path: &Path, board: Option<&str>) -> Result<Vec<Cost>, Error> {
    let pack = PackFile::open(path)?;
    if pack.shapes.len() > 1 {
        return Err(Error::OneShape { what: "a task", shapes: pack.shapes.len() });
    }
    let profile = match board {
        Some(name) => Board::load(name)?.profile,
        None => costs(path, pack.isa, None)?,
    };
    let of_plan = |entry| {
        let (network, plan) = planner_types(&pack, &pack.prove(entry)?, entry)?;
        Ok(of_plan(&network, &plan, &profile))
    };
    let found: Vec<Cost> = pack.entries.iter().map(of_plan).collect::<Result<_, Error>>()?;
    match found.is_empty() {
        true => Err(Error::Internal(format!("{} has no plan", path.display()))),
        false => Ok(found),
    }
}

/// Costs of plans of a model for these budgets, or for some from the smallest to one for all of its weights.
pub fn of_model(
    path: &Path,
    budgets: &[u64],
    board: Option<&str>,
    output: Output,
) -> Result<Vec<Cost>, Error> {
    let profile = match board {
        Some(name) => Board::load(name)?.profile,
        None => board::host()?.profile,
    };
    let graph = import(path).map_err(|source| Error::Import {
        path: path.to_owned(),
        source: Box::new(source),
        command: None,
    })?;
    let threads = profile.threads.clamp(1, DEFAULT_THREADS);
    let mut request = PackRequest::new(Vec::new(), profile, threads);
    request.effort = Effort::Fast;
    let network = lower(&request, path, &graph)?;
    let planned = |budget: u64| {
        let request = PackRequest { budgets: vec![budget], ..request.clone() };
        let made = choose(&network, &request)?;
        let plan = made.made.into_iter().next().map(|made| made.plan);
        let plan = plan.ok_or_else(|| Error::Internal("no plan was made".to_owned()))?;
        Ok::<_, Error>(of_plan(&made.network, &plan, &request.profile))
    };
    if !budgets.is_empty() {
        let progress = Progress::count(output, "planning a model", budgets.len() as u64);
        let each = (1u64..).zip(budgets).map(|(n, &budget)| {
            progress.set(n);
            planned(budget)
        });
        return each.collect();
    }
    let progress = Progress::count(output, "planning a model", u64::from(BUDGETS));
    let all = planned(ROOM)?;
    let least = least(&request, path, &graph)?;
    let mut found = vec![all];
    for (n, budget) in (2u64..).zip(between(least.min_budget_bytes, all.bytes)) {
        progress.set(n);
        found.push(planned(budget)?);
    }
    Ok(found)
}

/// Budgets from the smallest to below the largest, evenly spaced on a logarithmic scale.
fn between(least: u64, most: u64) -> Vec<u64> {
    let factor = (most as f64 / least.max(1) as f64).max(1.0).powf(1.0 / f64::from(BUDGETS - 1));
    let budget = |n: u32| (least as f64 * factor.powi(n as i32)) as u64 / PAGE * PAGE;
    let mut budgets: Vec<u64> =
        (0..BUDGETS - 1).map(budget).map(|bytes| bytes.max(least)).collect();
    budgets.dedup();
    budgets.retain(|budget| *budget < most);
    budgets
}

/// Costs of a plan.
///
/// A plan that holds all its weights computes only; its residents may leave memory between jobs. A plan that streams
/// counts from the first read to the last step, and what it does not keep is room that it shares.
fn of_plan(network: &Network, plan: &Plan, profile: &Profile) -> Cost {
    let timeline = simulate(network, plan, profile, plan.threads);
    let longest = |spans: &[Span]| {
        spans.iter().map(|span| (span.end - span.start).unsigned_abs()).max().unwrap_or(0)
    };
    let resident: u64 = plan.resident.iter().map(|load: &Load| u64::from(load.bytes)).sum();
    let streams = !plan.loads.is_empty();
    let (compute_ns, step_ns, swappable_bytes) = match streams {
        true => {
            let step_ns = longest(&timeline.steps) + longest(&timeline.loads);
            (timeline.first_ns, step_ns, plan.arena_bytes.saturating_sub(plan.tables + resident))
        }
        false => (timeline.compute_ns, longest(&timeline.steps), resident),
    };
    let compute_ns = compute_ns.max(1);
    let step_ns = step_ns.clamp(1, compute_ns);
    Cost { compute_ns, step_ns, bytes: plan.arena_bytes, swappable_bytes, streams }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_lie_between_the_smallest_and_all() {
        let found = between(1 << 20, 32 << 20);
        assert_eq!(found, [1u64, 2, 4, 8, 16].map(|mib| mib << 20));
        assert!(between(8 << 20, 8 << 20).is_empty());
        assert!(between(8 << 20, 4 << 20).is_empty());
    }
}
