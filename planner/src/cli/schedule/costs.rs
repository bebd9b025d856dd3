//! Costs of a task from its packs and models: of each plan, by the simulator.

use super::swappable::swappable;
use crate::cli::Error;
use crate::cli::calibrate::Calibration;
use crate::cli::forecast::costs;
use crate::cli::output::Output;
use crate::cli::pack_file::{PackFile, planner_types};
use crate::cli::plan::{Forms, least, lower};
use crate::cli::progress::Progress;
use crate::cli::target::DEFAULT_THREADS;
use eyelet::kernels::Isa;
use eyelet::pack::PAGE;
use eyelet_planner::board::{self, Board};
use eyelet_planner::graph::Graph;
use eyelet_planner::import::import;
use eyelet_planner::network::Network;
use eyelet_planner::plan::Plan;
use eyelet_planner::profile::Profile;
use eyelet_planner::published;
use eyelet_planner::search::choose;
use eyelet_planner::search::{Effort, PackRequest};
use eyelet_planner::simulate::{Span, simulate};
use eyelet_tasks::set::Cost;
use std::path::Path;

/// Budgets for which a model is planned where the set names none, from its smallest on.
const BUDGETS: u32 = 6;
/// More than all weights of a network, next to its largest activations: budgets above are one plan.
const ROOM: u64 = 1 << 40;

/// What a plan costs, and the budget that it is for.
#[derive(Clone, Debug)]
pub struct Known {
    pub cost: Cost,
    pub budget: u64,
}

/// What networks are planned for, and what it costs there.
#[derive(Clone, Copy, Debug)]
pub struct Where<'a> {
    /// A board, or this machine.
    pub board: Option<&'a str>,
    pub calibration: Calibration,
    pub output: Output,
}

impl Where<'_> {
    /// Costs of the board, or of this machine for packs that lie where a file is.
    fn profile(self, path: &Path) -> Result<Profile, Error> {
        match self.board {
            Some(name) => Ok(Board::load(name)?.profile),
            None => Ok(self.calibration.costs_here(board::host()?, path, self.output)),
        }
    }

    /// Those of a pack, which may be for other kernels than those of this machine.
    fn profile_of(self, path: &Path, isa: Isa) -> Result<Profile, Error> {
        match self.board.is_some() || board::host()?.profile.isa == isa {
            true => self.profile(path),
            false => costs(path, isa, None),
        }
    }
}

/// Costs of each of a pack's plans, on a board, or on this machine.
pub fn of_pack(path: &Path, place: Where<'_>) -> Result<Vec<Known>, Error> {
    let pack = PackFile::of_task(&path.to_owned().into())?;
    let profile = place.profile_of(path, pack.isa)?;
    let of_plan = |entry| {
        let (network, plan) = planner_types(&pack, &pack.prove(entry)?, entry)?;
        Ok(Known { cost: of_plan(&network, &plan, &profile), budget: entry.budget })
    };
    let found: Vec<Known> = pack.entries.iter().map(of_plan).collect::<Result<_, Error>>()?;
    match found.is_empty() {
        true => Err(Error::Internal(format!("{} has no plan", path.display()))),
        false => Ok(found),
    }
}

/// A model that is planned for a set, and how.
pub struct Model {
    pub graph: Graph,
    /// Without budgets.
    pub request: PackRequest<'static>,
}

impl Model {
    /// Reads a model.
    pub fn read(path: &Path, place: Where<'_>) -> Result<Self, Error> {
        let profile = place.profile(path)?;
        let graph = import(path).map_err(|source| Error::of_import(path, source))?;
        let threads = profile.threads.clamp(1, DEFAULT_THREADS);
        let mut request = PackRequest::new(&published::JOINT, Vec::new(), profile, threads);
        request.effort = Effort::Fast;
        Ok(Self { graph, request })
    }
}

/// Costs of plans of a model for these budgets, or for some from the smallest to one for all of its weights.
pub fn of_model(path: &Path, budgets: &[u64], place: Where<'_>) -> Result<Vec<Known>, Error> {
    let output = place.output;
    let Model { graph, request } = Model::read(path, place)?;
    let forms = Forms::new(&request, path, &graph, budgets.iter().copied().min().unwrap_or(0))?;
    let whole = lower(&request, path, &graph)?;
    let apart = forms.apart().map(|graph| lower(&request, path, graph)).transpose()?;
    let planned = |budget: u64| {
        let request = PackRequest { budgets: vec![budget], ..request.clone() };
        let network = apart.as_ref().filter(|_| forms.is_apart(budget)).unwrap_or(&whole);
        let made = choose(network, &request)?;
        let plan = made.made.into_iter().next().map(|made| made.plan);
        let plan = plan.ok_or_else(|| Error::Internal("no plan was made".to_owned()))?;
        Ok::<_, Error>(Known { cost: of_plan(&made.network, &plan, &request.profile), budget })
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
    // A pack has a budget that can be met: that of the plan for all weights.
    let all = planned(planned(ROOM)?.cost.bytes)?;
    let least = match forms.min_budget_bytes() {
        Some(bytes) => bytes,
        None => least(&request, path, &graph)?.min_budget_bytes,
    };
    let most = all.cost.bytes;
    let mut found = vec![all];
    for (n, budget) in (2u64..).zip(between(least, most)) {
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
/// A plan that holds all its weights computes only; they may leave memory between jobs. A plan that streams counts from
/// the first read to the last step, and what it does not keep is room that it shares.
fn of_plan(network: &Network, plan: &Plan, profile: &Profile) -> Cost {
    let timeline = simulate(network, plan, profile, plan.threads);
    let longest = |spans: &[Span]| {
        spans.iter().map(|span| (span.end - span.start).unsigned_abs()).max().unwrap_or(0)
    };
    let streams = !plan.loads.is_empty();
    let (compute_ns, step_ns) = match streams {
        true => (timeline.first_ns, longest(&timeline.steps) + longest(&timeline.loads)),
        false => (timeline.compute_ns, longest(&timeline.steps)),
    };
    let compute_ns = compute_ns.max(1);
    let [weights, room] = swappable(network, plan);
    Cost {
        compute_ns,
        step_ns: step_ns.clamp(1, compute_ns),
        bytes: plan.arena_bytes,
        weights,
        room,
        streams,
    }
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
