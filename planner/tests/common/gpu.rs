//! Plans for GPUs.

use super::Subject;
use eyelet::pack::Stage;
use eyelet_planner::board::Board;
use eyelet_planner::network::Network;
use eyelet_planner::plan::Plan;
use eyelet_planner::tables::{Counts, Tables};
use std::collections::HashSet;
use std::path::Path;

/// A board that computes on its GPU.
pub fn board(name: &str) -> Board {
    let board = Board::load(name).unwrap();
    let profile = board.gpu.as_ref().unwrap().profile.clone();
    Board { profile, ..board }
}

/// A network for GPUs that address the host's memory.
pub fn subject(path: &Path) -> Subject {
    Subject::for_board(path, board("jetson-nano"))
}

/// The same plan for a GPU with a memory of its own: with so many places for the largest load in its staging ring, taken
/// in turn.
pub fn staged(network: &Network, mut plan: Plan, places: usize) -> Plan {
    let count = plan.loads.len();
    let largest = plan.loads.iter().map(|load| u64::from(load.bytes)).max().unwrap_or(0);
    plan.staging_bytes = largest * places as u64;
    let slowest = 1 - plan.steps.len() as i32;
    plan.stages = (0..count)
        .map(|j| Stage {
            address: (j % places) as u64 * largest,
            copies: (j as i32 - places as i32 + 1).max(0),
            steps: if j % 2 == 0 { slowest } else { -1 },
        })
        .collect();
    // Tables with stages are longer: everything moves up.
    let loads = plan.resident.len() + count;
    let works: HashSet<_> = plan.steps.iter().map(|step| step.store().unwrap().1).collect();
    let (works, steps) = (works.len(), plan.steps.len());
    let tables = Tables::of(network).bytes(Counts { loads, works, steps, stages: count });
    let more = tables - plan.tables;
    plan.tables = tables;
    plan.arena_bytes += more;
    plan.budget = plan.budget.max(plan.arena_bytes);
    plan.places.iter_mut().for_each(|place| place.address += more);
    plan.resident.iter_mut().chain(&mut plan.loads).for_each(|load| load.address += more);
    for step in &mut plan.steps {
        step.weights += more;
        step.scratch += more;
    }
    plan
}
