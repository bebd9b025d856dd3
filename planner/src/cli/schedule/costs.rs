//! Costs of a task from its pack: by its plan and the simulator.

use crate::cli::Error;
use crate::cli::forecast::costs;
use crate::cli::pack_file::{PackFile, planner_types};
use eyelet::pack::Load;
use eyelet_planner::board::Board;
use eyelet_planner::simulate::{Span, simulate};
use eyelet_tasks::set::Cost;
use std::path::Path;

/// Costs of the pack's plan with the largest budget, on a board, or on this machine.
///
/// A plan that holds all its weights computes only; its residents may leave memory between jobs. A plan that streams
/// counts from the first read to the last step, and what it does not keep is room that it shares.
pub fn of_pack(path: &Path, board: Option<&str>) -> Result<Cost, Error> {
    let pack = PackFile::open(path)?;
    let entry = pack.entries.iter().max_by_key(|entry| entry.budget);
    let entry = entry.ok_or_else(|| Error::Internal(format!("{} has no plan", path.display())))?;
    let (network, plan) = planner_types(&pack, &pack.prove(entry)?, entry)?;
    let profile = match board {
        Some(name) => Board::load(name)?.profile,
        None => costs(path, pack.isa, None)?,
    };
    let timeline = simulate(&network, &plan, &profile, plan.threads);
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
    Ok(Cost { compute_ns, step_ns, bytes: plan.arena_bytes, swappable_bytes, streams })
}
