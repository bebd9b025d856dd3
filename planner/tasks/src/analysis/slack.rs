//! What the demand bound test leaves: its tightest interval, and bounds for responses that are less than deadlines.

use super::blocking::Blocking;
use super::demand_bound::{Demand, Point, horizon_ns};
use super::utilization::{cost_ns, overloaded, utilization};
use eyelet::tasks::Task;

/// Lengths that are tried for bounds at most, times the tasks.
const MOST_POINTS: u64 = 2_000_000;

/// The point with the least slack among all deadlines up to `most` points; for reports.
pub fn tightest(tasks: &[Task], most: usize) -> Option<Point> {
    let last = Blocking::new(tasks).last_ns()?;
    let last = last.saturating_mul(2).max(horizon_ns(tasks).min(1 << 50));
    points(tasks, &lengths(tasks, last, most)).into_iter().min_by_key(Point::slack_ns)
}

/// The longest response of each task's jobs, from release to end, under [`eyelet::tasks::Policy::Steps`]. `None` if a job may
/// be late, or where the load is so high that too many lengths count.
///
/// A job of task i that is due at d ends by the time that its deadline leaves unused: R = D − min slack(t) over t ≥ D. The
/// proof is in `lab/proofs/task-sets.md`.
pub fn responses(tasks: &[Task]) -> Option<Vec<u64>> {
    if overloaded(tasks) {
        return None;
    }
    let last = last_ns(tasks)?;
    let jobs = |task: &Task| last / task.period_ns.max(1) + 1;
    let count = tasks.iter().map(jobs).fold(0, u64::saturating_add);
    if count.saturating_mul(tasks.len() as u64) > MOST_POINTS {
        return None;
    }
    let points = points(tasks, &lengths(tasks, last, count as usize));
    // From each length on, the least slack of all.
    let mut least = i128::MAX;
    let mut from: Vec<(u64, i128)> = Vec::with_capacity(points.len());
    for point in points.iter().rev() {
        least = point.slack_ns().min(least);
        from.push((point.at_ns, least));
    }
    from.reverse();
    let response = |task: &Task| {
        let at = from.partition_point(|(ns, _)| *ns < task.deadline_ns);
        let slack_ns = u64::try_from(from.get(at)?.1).ok()?;
        task.deadline_ns.checked_sub(slack_ns)
    };
    tasks.iter().map(response).collect()
}

/// No interval longer than this has less slack than that of the longest deadline.
fn last_ns(tasks: &[Task]) -> Option<u64> {
    let blocking = Blocking::new(tasks);
    let longest = blocking.last_ns()?;
    // slack(t) is at least (1 - U)·t - Σ (T - D + J)·C/T from there on, and at the longest deadline less than that.
    let ahead: f64 = tasks
        .iter()
        .map(|t| {
            let ahead = (t.period_ns - t.deadline_ns) as f64 + t.jitter_ns as f64;
            ahead * cost_ns(t) as f64 / t.period_ns as f64
        })
        .sum();
    let last = (longest as f64 + ahead) / (1.0 - utilization(tasks)) * 1.000_001;
    // A load next to 1, or rounded to more, has no last length.
    let known = (0.0..(1u64 << 60) as f64).contains(&last);
    known.then(|| (last as u64 + 1).max(longest))
}

/// Lengths up to the last at which demand grows, of each task and of all at most so many.
fn lengths(tasks: &[Task], last: u64, most: usize) -> Vec<u64> {
    let mut lengths: Vec<u64> = Vec::new();
    for task in tasks {
        let first = task.deadline_ns;
        let times =
            (0..most as u64).map(|n| first.saturating_add(n.saturating_mul(task.period_ns)));
        let times = times.map(|ns| ns.saturating_sub(task.jitter_ns).max(first));
        lengths.extend(times.take_while(|&ns| ns <= last));
    }
    lengths.sort_unstable();
    lengths.dedup();
    lengths.truncate(most);
    lengths
}

/// The test at these lengths.
fn points(tasks: &[Task], lengths: &[u64]) -> Vec<Point> {
    let (demand, blocking) = (Demand::new(tasks), Blocking::new(tasks));
    let point = |&at_ns: &u64| Point {
        at_ns,
        demand_ns: demand.at_ns(at_ns),
        blocking_ns: blocking.at_ns(at_ns),
    };
    lengths.iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::demand_bound;
    use crate::simulate::{Arrivals, Mode, Options, Times, simulate};
    use eyelet::tasks::Policy;
    use rand::Rng;

    fn task(period_ns: u64, deadline_ns: u64, compute_ns: u64, step_ns: u64) -> Task {
        Task { deadline_ns, chunk_ns: 1, step_ns, ..Task::new(period_ns, compute_ns) }
    }

    #[test]
    fn bounds_are_demand_and_blocking() {
        // Of the first: its 2 and a step of 3. Of the second: both, at 20 two jobs of the first.
        let tasks = [task(10, 10, 2, 2), task(20, 20, 6, 3)];
        assert_eq!(responses(&tasks), Some(vec![5, 10]));
        assert_eq!(responses(&[task(10, 10, 6, 2), task(20, 20, 12, 3)]), None, "overloaded");
        assert_eq!(responses(&[task(10, 4, 2, 2), task(20, 20, 6, 3)]), None, "a job may be late");
    }

    /// Random small sets of whole numbers, with the worst times and with shorter ones.
    #[test]
    fn no_simulated_response_exceeds_its_bound() {
        let mut random = crate::generate::random(11, 0);
        let (mut less, mut reached) = (0, 0);
        for seed in 0..3000 {
            // One level for all, or the higher the shorter the deadline.
            let levels = random.random_bool(0.5);
            let mut tasks: Vec<Task> = (0..random.random_range(1..5u16))
                .map(|_| {
                    let period_ns = random.random_range(4..60);
                    let deadline_ns = random.random_range(3..=period_ns);
                    let compute_ns = random.random_range(1..6);
                    let step_ns = random.random_range(1..=compute_ns.min(3));
                    let chunks = random.random_range(0..3);
                    Task {
                        jitter_ns: random.random_range(0..=(period_ns - deadline_ns).min(2)),
                        chunks,
                        room: random.random_range(0..=chunks.min(1)),
                        level: if levels { 60 - deadline_ns as u16 } else { 0 },
                        ..task(period_ns, deadline_ns, compute_ns, step_ns)
                    }
                })
                .collect();
            let room: u32 = tasks.iter().map(|task| task.room).sum();
            let pool = tasks.iter().map(|task| task.chunks).max().unwrap_or(0) + room;
            eyelet::tasks::set_reloads(&mut tasks, pool);
            let Some(bounds) = responses(&tasks).filter(|_| demand_bound(&tasks).kept()) else {
                continue;
            };
            for (arrivals, least) in [
                (Arrivals::Periodic { offsets_ns: vec![0; tasks.len()] }, 1.0),
                (Arrivals::Sporadic { most_pause: 0.3 }, 0.5),
            ] {
                let options = Options {
                    policy: Policy::Steps,
                    arrivals,
                    mode: Mode::BetweenSteps,
                    times: Times::Share(least),
                    jobs: 200,
                    until_miss: false,
                    trace: false,
                    seed,
                };
                let found = simulate(&tasks, pool, &options).unwrap();
                for ((worst, bound), task) in
                    found.worst_response_ns.iter().zip(&bounds).zip(&tasks)
                {
                    assert!(worst <= bound, "{worst} > {bound}: {tasks:#?}");
                    less += u32::from(*bound < task.deadline_ns);
                    reached += u32::from(worst == bound);
                }
            }
        }
        assert!(less > 1000 && reached > 100, "{less} {reached}");
    }
}
