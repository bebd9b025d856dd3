//! The demand bound test for earliest deadline first with limited preemption, loading and levels.
//!
//! Theorem (proved in `lab/proofs/task-sets.md`): under [`eyelet::tasks::Policy::Steps`] no job ends late if Σ cost/period
//! ≤ 1 and, for every interval length t, Σ dbf(t) + B(t) ≤ t.
//!
//! - dbf(t) of a task: cost times the most jobs that are released and due within t, ⌊(t − D + J)/T⌋ + 1 for t ≥ D.
//!   The cost is loading plus computing: at any time at least one engine works for the jobs that are due. What a job
//!   pushes out of begun jobs is read again; that counts once jobs of lower levels are due within t.
//! - B(t): for how long jobs that are due later may block (`analysis/blocking.rs`).

use super::blocking::Blocking;
use super::utilization::{cost_ns, job_ns, overloaded, utilization};
use eyelet::tasks::Task;

/// What the test found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Every job of every legal sequence of arrivals ends in time.
    Kept,
    /// The tasks need more than all time.
    Overloaded { utilization: f64 },
    /// In an interval of this length, demand and blocking may exceed the time.
    Exceeded(Point),
    /// The test would take too many points: the load is too close to 1.
    Unknown { utilization: f64, points: u64 },
}

impl Verdict {
    pub fn kept(&self) -> bool {
        matches!(self, Self::Kept)
    }
}

/// The test at one interval length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub at_ns: u64,
    pub demand_ns: u64,
    pub blocking_ns: u64,
}

impl Point {
    /// Time left in the interval; negative where the test fails.
    pub fn slack_ns(&self) -> i128 {
        i128::from(self.at_ns) - i128::from(self.demand_ns) - i128::from(self.blocking_ns)
    }
}

/// Points that the test tries at most, times the tasks.
const MOST_POINTS: u64 = 20_000_000;

/// Runs the test.
///
/// From the longest interval down (quick processor-demand analysis): demand at a length bounds demand at all
/// shorter ones, so that one step skips all lengths that pass by this bound.
pub fn demand_bound(tasks: &[Task]) -> Verdict {
    let blocking = Blocking::new(tasks);
    let Some(last) = blocking.last_ns() else { return Verdict::Kept };
    if overloaded(tasks) {
        return Verdict::Overloaded { utilization: utilization(tasks) };
    }
    let demand = Demand::new(tasks);
    let mut points = 0;
    let mut next = last_deadline_below(tasks, horizon_ns(tasks).max(last).saturating_add(1));
    while let Some(at_ns) = next {
        points += 1;
        if points * tasks.len() as u64 > MOST_POINTS {
            return Verdict::Unknown { utilization: utilization(tasks), points };
        }
        let (demand_ns, blocking_ns) = (demand.at_ns(at_ns), blocking.at_ns(at_ns));
        if demand_ns.saturating_add(blocking_ns) > at_ns {
            return Verdict::Exceeded(Point { at_ns, demand_ns, blocking_ns });
        }
        next = last_deadline_below(tasks, blocking.passes_from(demand_ns, at_ns));
    }
    Verdict::Kept
}

/// Σ dbf.
pub(super) struct Demand<'a> {
    tasks: &'a [Task],
    /// From when on a task's reloading counts: jobs of lower levels are due within the interval.
    reload_from_ns: Vec<u64>,
}

impl<'a> Demand<'a> {
    pub(super) fn new(tasks: &'a [Task]) -> Self {
        let from = |task: &Task| {
            let lower = tasks.iter().filter(|other| other.level < task.level && other.chunks > 0);
            lower.map(|other| other.deadline_ns).min().unwrap_or(u64::MAX)
        };
        let reloads = |task: &Task| if task.reload_ns > 0 { from(task) } else { u64::MAX };
        Self { tasks, reload_from_ns: tasks.iter().map(reloads).collect() }
    }

    pub(super) fn at_ns(&self, at_ns: u64) -> u64 {
        let all = self.tasks.iter().zip(&self.reload_from_ns);
        all.fold(0, |sum: u64, (task, &from_ns)| {
            let cost_ns = if at_ns >= from_ns { cost_ns(task) } else { job_ns(task) };
            sum.saturating_add(jobs(task, at_ns).saturating_mul(cost_ns))
        })
    }
}

/// The most jobs that are released and due within an interval.
pub(super) fn jobs(task: &Task, at_ns: u64) -> u64 {
    let left = at_ns.checked_sub(task.deadline_ns);
    left.map_or(0, |left| left.saturating_add(task.jitter_ns) / task.period_ns + 1)
}

/// The last length below this at which demand grows.
fn last_deadline_below(tasks: &[Task], below_ns: u64) -> Option<u64> {
    tasks.iter().filter_map(|task| task_deadline_below(task, below_ns)).max()
}

/// Demand of a task grows at D and at n·T + D − J for n ≥ 1.
fn task_deadline_below(task: &Task, below_ns: u64) -> Option<u64> {
    let last = below_ns.checked_sub(1)?;
    let past = last.checked_sub(task.deadline_ns)?;
    let jobs = past.saturating_add(task.jitter_ns) / task.period_ns;
    Some(
        (task.deadline_ns + jobs * task.period_ns)
            .saturating_sub(task.jitter_ns)
            .max(task.deadline_ns),
    )
}

/// Beyond this length demand cannot exceed the time. No task blocks there.
pub(super) fn horizon_ns(tasks: &[Task]) -> u64 {
    let load = utilization(tasks);
    let ahead: f64 = tasks
        .iter()
        .map(|t| {
            let ahead = (t.period_ns - t.deadline_ns) as f64 + t.jitter_ns as f64;
            ahead * cost_ns(t) as f64 / t.period_ns as f64
        })
        .sum();
    let by_load = match ahead == 0.0 {
        true => 0,
        false if load >= 1.0 - 1e-9 => u64::MAX / 4,
        // One part in a million more than the rounded quotient.
        false => (ahead / (1.0 - load) * 1.000_001) as u64 + 1,
    };
    by_load.min(busy_ns(tasks).unwrap_or(u64::MAX / 4))
}

/// The longest time that the tasks can keep the engines busy without a pause.
fn busy_ns(tasks: &[Task]) -> Option<u64> {
    let mut busy: u64 = tasks.iter().map(cost_ns).fold(0, u64::saturating_add);
    for _ in 0..10_000 {
        let jobs = |t: &Task| busy.saturating_add(t.jitter_ns).div_ceil(t.period_ns);
        let next = tasks
            .iter()
            .fold(0u64, |sum, t| sum.saturating_add(jobs(t).saturating_mul(cost_ns(t))));
        if next == busy {
            return Some(busy);
        }
        busy = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(period_ns: u64, deadline_ns: u64, compute_ns: u64, step_ns: u64) -> Task {
        Task { deadline_ns, chunk_ns: 1, step_ns, ..Task::new(period_ns, compute_ns) }
    }

    #[test]
    fn demand_counts_jobs_released_and_due_within() {
        let t = Task { jitter_ns: 2, ..task(10, 6, 3, 3) };
        let at = |ns| Demand::new(&[t]).at_ns(ns);
        assert_eq!([5, 6, 13, 14, 24].map(at), [0, 3, 3, 6, 9]);
        assert_eq!(last_deadline_below(&[t], 14), Some(6));
        assert_eq!(last_deadline_below(&[t], 15), Some(14));
        assert_eq!(last_deadline_below(&[t], 6), None);
    }

    #[test]
    fn a_long_step_blocks_only_shorter_deadlines() {
        // 2 + 9 > 10, but steps of 8 just fit.
        let short = task(10, 10, 2, 2);
        let fails = Verdict::Exceeded(Point { at_ns: 10, demand_ns: 2, blocking_ns: 9 });
        assert_eq!(demand_bound(&[short, task(100, 100, 30, 9)]), fails);
        assert_eq!(demand_bound(&[short, task(100, 100, 30, 8)]), Verdict::Kept);
    }

    #[test]
    fn a_shared_level_blocks_by_a_whole_task() {
        let swapped =
            |period_ns, level| Task { chunks: 2, level, ..task(period_ns, period_ns, 8, 1) };
        // Its own 10 and the whole other.
        let fails = Verdict::Exceeded(Point { at_ns: 19, demand_ns: 10, blocking_ns: 10 });
        assert_eq!(demand_bound(&[swapped(19, 0), swapped(100, 0)]), fails);
        assert_eq!(demand_bound(&[swapped(20, 0), swapped(100, 0)]), Verdict::Kept);
        assert_eq!(demand_bound(&[swapped(19, 1), swapped(100, 0)]), Verdict::Kept);
        // A step of a third may come before it.
        let three = [swapped(20, 0), swapped(100, 0), task(100, 100, 3, 3)];
        let fails = Verdict::Exceeded(Point { at_ns: 20, demand_ns: 10, blocking_ns: 13 });
        assert_eq!(demand_bound(&three), fails);
    }

    #[test]
    fn a_full_load_is_exact() {
        assert_eq!(demand_bound(&[task(3, 3, 1, 1), task(6, 6, 4, 1)]), Verdict::Kept);
        let more = [task(3, 3, 1, 1), task(6, 6, 4, 1), task(1000, 1000, 1, 1)];
        assert!(matches!(demand_bound(&more), Verdict::Overloaded { .. }));
        assert_eq!(demand_bound(&[]), Verdict::Kept);
    }

    /// Every length up to the longest busy time and deadline, one by one.
    fn exhaustive(tasks: &[Task]) -> bool {
        let blocking = Blocking::new(tasks);
        let last = horizon_ns(tasks).max(blocking.last_ns().unwrap()) + 50;
        !overloaded(tasks)
            && (1..=last).all(|ns| Demand::new(tasks).at_ns(ns) + blocking.at_ns(ns) <= ns)
    }

    #[test]
    fn skipping_finds_what_trying_every_length_finds() {
        use rand::Rng;
        let mut random = crate::generate::random(5, 0);
        let (mut kept, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let tasks: Vec<Task> = (0..random.random_range(1..5u16))
                .map(|_| {
                    let period_ns = random.random_range(3..40);
                    let deadline_ns = random.random_range(2..=period_ns);
                    Task {
                        jitter_ns: random.random_range(0..=(period_ns - deadline_ns).min(2)),
                        chunks: random.random_range(0..3),
                        level: 0,
                        step_ns: random.random_range(1..4),
                        ..task(period_ns, deadline_ns, random.random_range(1..8), 1)
                    }
                })
                .collect();
            let found = demand_bound(&tasks).kept();
            assert_eq!(found, exhaustive(&tasks), "{tasks:#?}");
            if found { kept += 1 } else { refused += 1 }
        }
        assert!(kept > 1000 && refused > 1000, "{kept} {refused}");
    }

    #[test]
    fn ten_thousand_tasks_are_judged() {
        let tasks: Vec<Task> = (0..10_000u64)
            .map(|n| Task { chunks: 2, ..task(1_000_000 + 37 * n, 900_000 + 37 * n, 50, 10) })
            .collect();
        assert!(demand_bound(&tasks).kept());
    }
}
