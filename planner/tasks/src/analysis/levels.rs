//! Preemption levels: which tasks may begin over which.
//!
//! Tasks of one level wait for each other. A task of a higher level begins over a lower one; what does not fit beside
//! its chunks is pushed out and read again, which is part of its cost. Levels fall as deadlines grow, so that a choice is
//! where to cut the tasks, in order of deadlines.

use super::demand_bound;
use eyelet::tasks::{Policy, Scheduler, SetError, Task, set_reloads};

/// Chunks of the pool without which some job could not run.
pub fn least_pool(tasks: &[Task]) -> u32 {
    tasks.iter().map(|task| task.chunks).max().unwrap_or(0)
}

/// Chunks of the pool with which no begun job is pushed out.
pub fn full_pool(tasks: &[Task]) -> u64 {
    let mut largest = std::collections::HashMap::new();
    for task in tasks {
        let most = largest.entry(task.level).or_insert(0);
        *most = task.chunks.max(*most);
    }
    largest.values().map(|&chunks| u64::from(chunks)).sum()
}

/// How many choices of levels are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// One level, two with each cut, and a level for each task.
    Few,
    /// All, for up to [`EXACT`] tasks with chunks.
    All,
}

/// Tasks with chunks for which all choices are tried.
pub const EXACT: usize = 10;

/// More tasks with chunks get one level.
pub const MOST: usize = 32;

/// Tasks that the scheduler is asked about.
const MOST_CHECKED: usize = 64;

/// Sets levels that pass the test in a pool of so many chunks. `false`: none of those that are tried passes.
pub fn choose(tasks: &mut [Task], pool: u32, effort: Effort) -> bool {
    let order = by_deadline(tasks);
    let places = order.len().saturating_sub(1).min(31);
    if order.len() > MOST || !hopeful(tasks, &order) {
        set(tasks, &order, 0, pool);
        return order.len() > MOST && demand_bound(tasks).kept();
    }
    let all = (1u32 << places) - 1;
    let few = || [0].into_iter().chain((0..places).map(|k| 1 << k)).chain([all]).collect();
    let choices: Vec<u32> = match effort {
        Effort::All if order.len() <= EXACT => (0..=all).collect(),
        Effort::All | Effort::Few => few(),
    };
    choices.into_iter().any(|cuts| {
        set(tasks, &order, cuts, pool);
        demand_bound(tasks).kept() && has_room(tasks, pool)
    })
}

/// Every job's chunks fit beside the room of begun jobs of lower levels.
fn has_room(tasks: &[Task], pool: u32) -> bool {
    let refused = Scheduler::<MOST_CHECKED>::new(Policy::Steps, tasks, pool).err();
    !matches!(refused, Some(SetError::Pool { .. }))
}

/// The test passes if nothing is pushed out and nobody waits for a whole job: without this no choice of levels can pass.
fn hopeful(tasks: &mut [Task], order: &[usize]) -> bool {
    set(tasks, order, u32::MAX, u32::MAX);
    demand_bound(tasks).kept()
}

/// Tasks with chunks, the longest deadline first.
fn by_deadline(tasks: &[Task]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tasks.len()).filter(|&i| tasks[i].chunks > 0).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(tasks[i].deadline_ns), i));
    order
}

/// Bit k of `cuts`: a new level begins after the k-th task in order.
fn set(tasks: &mut [Task], order: &[usize], cuts: u32, pool: u32) {
    tasks.iter_mut().for_each(|task| task.level = 0);
    let mut level = 0;
    for (k, &i) in order.iter().enumerate() {
        tasks[i].level = level;
        level += u16::from(cuts.checked_shr(k as u32).unwrap_or(0) & 1 == 1);
    }
    set_reloads(tasks, pool);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(period_ns: u64, chunks: u32, compute_ns: u64) -> Task {
        Task { chunks, chunk_ns: 1, step_ns: 1, ..Task::new(period_ns, compute_ns) }
    }

    #[test]
    fn tasks_share_a_level_where_they_can_wait_for_each_other() {
        let mut tasks = [task(1000, 10, 50), task(800, 10, 50), task(600, 4, 50)];
        assert!(choose(&mut tasks, 10, Effort::All));
        assert_eq!(tasks.map(|task| task.level), [0, 0, 0]);
    }

    #[test]
    fn an_urgent_task_gets_a_level_of_its_own() {
        // It cannot wait 500 ns for the long one. It pushes out two chunks, or has room beside it.
        let mut tasks = [task(5000, 10, 490), task(4000, 8, 100), task(100, 2, 20)];
        assert!(choose(&mut tasks, 10, Effort::Few));
        assert!(tasks[2].level > tasks[0].level);
        assert_eq!(tasks[2].reload_ns, 2);
        assert!(choose(&mut tasks, 12, Effort::Few));
        assert_eq!(tasks[2].reload_ns, 0);
    }

    #[test]
    fn the_room_of_a_begun_job_is_counted() {
        // As above, but the long job's chunks hold what it has computed.
        let long = Task { room: 10, ..task(5000, 10, 490) };
        let mut tasks = [long, task(4000, 8, 100), task(100, 2, 20)];
        assert!(!choose(&mut tasks, 11, Effort::Few));
        assert!(choose(&mut tasks, 12, Effort::Few));
    }

    #[test]
    fn hopeless_sets_are_refused() {
        let mut tasks = [task(100, 10, 80), task(100, 10, 30)];
        assert!(!choose(&mut tasks, 20, Effort::All));
    }
}
