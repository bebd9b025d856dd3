//! Which plan each network follows, chosen together with residents, swap volumes and levels.
//!
//! A network has a plan for each budget: a larger one reads less, a smaller one leaves memory to
//! the others. The search begins with the largest plans. Where these are not admitted it changes
//! one network's plan at a time, the one after which the set has the least load, until the test
//! admits the set or no change lowers the load.

use super::search::{Freedom, least_load, search};
use crate::analysis::utilization::utilization;
use crate::set::file::Declared;
use crate::set::{Assignment, Cost, TaskSet};

/// Larger sets keep their largest plans.
const MOST_TASKS: usize = 32;

/// The set with the plans that were chosen, and the assignment that the test admits. Without one,
/// the plans with the least load.
pub fn choose(declared: &Declared, freedom: Freedom) -> (TaskSet, Option<Assignment>) {
    let Declared { set, plans, chunk_sizes, .. } = declared;
    let mut set = set.clone();
    let mut load = load_of(&set, chunk_sizes);
    loop {
        if let Some(found) = search(&set, chunk_sizes, freedom) {
            return (set, Some(found));
        }
        let next = match set.tasks.len() <= MOST_TASKS {
            true => best_change(&set, plans, chunk_sizes),
            false => None,
        };
        match next {
            Some((less, changed)) if less < load => (load, set) = (less, changed),
            _ => return (set, None),
        }
    }
}

/// The change of one plan after which the set has the least load, and that load.
fn best_change(set: &TaskSet, plans: &[Vec<Cost>], chunk_sizes: &[u64]) -> Option<(f64, TaskSet)> {
    let changes = plans.iter().enumerate().flat_map(|(k, plans)| plans.iter().map(move |p| (k, p)));
    let fit = changes.filter(|(_, cost)| cost.bytes <= set.memory_bytes);
    let others = fit.filter(|(k, cost)| set.tasks[*k].cost != **cost);
    let changed = others.map(|(k, cost)| {
        let mut set = set.clone();
        set.tasks[k].cost = cost.clone();
        (load_of(&set, chunk_sizes), set)
    });
    changed.min_by(|a, b| a.0.total_cmp(&b.0))
}

/// More than any load of a set that fits its memory.
const DOES_NOT_FIT: f64 = 1e9;

/// Time that the set needs of each second, with the best volumes. Where nothing fits the memory: above
/// [`DOES_NOT_FIT`], by the bytes that the set needs if all that can leave memory does.
fn load_of(set: &TaskSet, chunk_sizes: &[u64]) -> f64 {
    if let Some(assignment) = least_load(set, chunk_sizes) {
        return utilization(&assignment.tasks(set));
    }
    let costs = || set.tasks.iter().map(|task| &task.cost);
    // What is smaller than a chunk stays.
    let needed = |chunk_bytes: &u64| {
        let leaves = |cost: &Cost| u64::from(cost.chunks(*chunk_bytes)) * chunk_bytes;
        let stay: u64 = costs().map(|cost| cost.bytes.saturating_sub(leaves(cost))).sum();
        stay + costs().map(leaves).max().unwrap_or(0)
    };
    DOES_NOT_FIT + chunk_sizes.iter().map(needed).min().unwrap_or(0) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::{Storage, Swappable, Task, Transfer};

    const MS: u64 = 1_000_000;
    const MIB: u64 = 1 << 20;

    fn plan(compute_ms: u64, mib: u64, streams: bool) -> Cost {
        let bytes = mib * MIB;
        let half = Swappable::of(bytes / 2);
        let (weights, room) = match streams {
            true => (Swappable::default(), half),
            false => (half, Swappable::default()),
        };
        Cost { compute_ns: compute_ms * MS, step_ns: MS, bytes, weights, room, streams }
    }

    fn declared(memory_mib: u64, period_ms: u64, plans: &[Vec<Cost>]) -> Declared {
        let read = Transfer { per_chunk_ns: 0, bytes_per_second: 100 * MIB };
        let task = |(k, plans): (usize, &Vec<Cost>)| Task {
            name: format!("task {k}"),
            period_ns: period_ms * MS,
            deadline_ns: period_ms * MS,
            jitter_ns: 0,
            cost: plans[0].clone(),
        };
        let tasks = plans.iter().enumerate().map(task).collect();
        let storage = Storage { chunk_bytes: MIB, read, write: None };
        let set = TaskSet { memory_bytes: memory_mib * MIB, page_bytes: 0, storage, tasks };
        let sources = vec![None; plans.len()];
        Declared { set, plans: plans.to_vec(), sources, chunk_sizes: vec![MIB], board: None }
    }

    #[test]
    fn largest_plans_stay_where_they_are_admitted() {
        let plans = vec![vec![plan(10, 40, false), plan(20, 10, true)]; 2];
        let (set, found) = choose(&declared(80, 100, &plans), Freedom::Subsets);
        assert!(found.is_some());
        assert!(set.tasks.iter().all(|task| task.cost == plans[0][0]));
    }

    /// Together the largest plans neither fit nor leave time to swap: one network streams.
    #[test]
    fn a_smaller_plan_admits_what_largest_plans_do_not() {
        let large = vec![vec![plan(10, 40, false)]; 3];
        let declared_large = declared(64, 100, &large);
        assert!(choose(&declared_large, Freedom::Subsets).1.is_none());
        let plans = vec![vec![plan(10, 40, false), plan(20, 10, true)]; 3];
        let (set, found) = choose(&declared(64, 100, &plans), Freedom::Subsets);
        let found = found.expect("admitted");
        assert!(found.verdict(&set).kept());
        let streaming = set.tasks.iter().filter(|task| task.cost.streams).count();
        assert!((1..3).contains(&streaming), "{streaming} of 3 stream");
    }

    /// Half of each large plan may leave memory, in runs that are smaller than a chunk.
    #[test]
    fn what_no_chunk_holds_counts_as_staying() {
        let mut large = plan(10, 8, false);
        large.weights = Swappable::in_runs(vec![MIB / 2; 8].into());
        let plans = vec![vec![large, plan(20, 2, true)]; 8];
        let (set, found) = choose(&declared(32, 1000, &plans), Freedom::Subsets);
        assert!(found.is_some(), "{:?}", set.tasks);
    }

    #[test]
    fn without_an_admitted_choice_the_least_load_is_left() {
        let plans = vec![vec![plan(90, 40, false), plan(95, 10, true)]; 2];
        let (set, found) = choose(&declared(45, 100, &plans), Freedom::Subsets);
        assert!(found.is_none());
        assert_eq!(set.tasks.len(), 2);
    }
}
