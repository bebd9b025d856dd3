//! Attacks the schedulability tests: draws sets that they just admit, and tries to make a job late.
//!
//! The simulation drives the device's scheduler in each [`Mode`]. Jobs are released right after operations begin, in
//! bursts that jitter permits, and operations take less than their worst times.

mod draw;

pub use draw::draw;

use crate::analysis::slack::responses;
use crate::analysis::{classes, demand_bound, regions};
use crate::simulate::{Arrivals, Mode, Options, Outcome, Times, simulate};
use eyelet::tasks::{Policy, Task};
use rayon::prelude::*;

/// The test that an order promises by.
pub fn admits(policy: Policy, tasks: &[Task]) -> bool {
    match policy {
        Policy::Steps => demand_bound(tasks).kept(),
        Policy::Classes => classes(tasks).kept(),
        Policy::Regions => regions(tasks),
    }
}

/// The modes in which an order runs.
pub fn modes(policy: Policy) -> &'static [Mode] {
    match policy {
        Policy::Steps | Policy::Regions => &Mode::ALL,
        // Its point is that one engine works while the other does.
        Policy::Classes => &[Mode::AtOnce, Mode::BetweenSteps],
    }
}

/// A set that was attacked.
#[derive(Clone, Debug)]
pub struct Attacked {
    pub tasks: Vec<Task>,
    pub pool: u32,
    pub seed: u64,
    pub outcome: Outcome,
}

/// What came of an attack.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub sets: u64,
    pub jobs: u64,
    pub misses: u64,
    /// Tasks with a response that exceeds the bound of the test.
    pub beyond: u64,
    /// The largest response, as a share of its bound.
    pub closest: f64,
    /// The set with the fewest tasks that has a miss, or a response beyond its bound.
    pub miss: Option<Attacked>,
}

impl Found {
    fn of(attacked: Attacked, bounds: &[u64]) -> Self {
        let Attacked { outcome, .. } = &attacked;
        let responses = || outcome.worst_response_ns.iter().zip(bounds);
        let shares = responses().map(|(ns, bound)| *ns as f64 / *bound as f64);
        let beyond = responses().filter(|(ns, bound)| ns > bound).count() as u64;
        Self {
            sets: 1,
            jobs: outcome.jobs,
            misses: outcome.misses,
            beyond,
            closest: shares.fold(0.0, f64::max),
            miss: (outcome.misses > 0 || beyond > 0).then_some(attacked),
        }
    }

    /// Both together.
    pub fn and(self, other: Self) -> Self {
        let misses = [self.miss, other.miss].into_iter().flatten();
        Self {
            sets: self.sets + other.sets,
            jobs: self.jobs + other.jobs,
            misses: self.misses + other.misses,
            beyond: self.beyond + other.beyond,
            closest: self.closest.max(other.closest),
            miss: misses.min_by_key(|attacked| attacked.tasks.len()),
        }
    }
}

/// Jobs of a simulation. Each has an adversary of its own.
const JOBS: u64 = 600;
/// Simulations of a set.
const TRIES: u64 = 5;

/// Attacks the admitted ones among sets drawn with these seeds, in one mode.
pub fn attack(
    policy: Policy,
    mode: Mode,
    seeds: std::ops::Range<u64>,
    done: impl Fn(u64) + Sync,
) -> Found {
    let one = |seed: u64| {
        let Some((tasks, pool)) = draw(policy, seed) else { return Found::default() };
        let deadlines = || tasks.iter().map(|task| task.deadline_ns).collect();
        let bounds = match policy {
            Policy::Steps => responses(&tasks),
            Policy::Classes | Policy::Regions => None,
        };
        let bounds = bounds.unwrap_or_else(deadlines);
        let set = Set { tasks: &tasks, pool, bounds: &bounds };
        let tries = (0..TRIES).map(|number| set.attacked(policy, mode, seed, number));
        let found = tries.fold(Found::default(), Found::and);
        done(found.jobs);
        Found { sets: 1, ..found }
    };
    seeds.into_par_iter().map(one).reduce(Found::default, Found::and)
}

/// A set that the test admits.
struct Set<'a> {
    tasks: &'a [Task],
    pool: u32,
    /// No response is longer, by the test.
    bounds: &'a [u64],
}

impl Set<'_> {
    fn attacked(&self, policy: Policy, mode: Mode, seed: u64, number: u64) -> Found {
        let Self { tasks, pool, bounds } = *self;
        let (arrivals, times) = match number {
            0 => (Arrivals::Periodic { offsets_ns: vec![0; tasks.len()] }, Times::Share(1.0)),
            _ => (Arrivals::Adversary, Times::Adversary),
        };
        let seed = seed.wrapping_mul(TRIES).wrapping_add(number);
        let (jobs, until_miss, trace) = (JOBS, true, false);
        let options = Options { policy, mode, arrivals, times, jobs, until_miss, trace, seed };
        match simulate(tasks, pool, &options) {
            Ok(outcome) => {
                Found::of(Attacked { tasks: tasks.to_vec(), pool, seed, outcome }, bounds)
            }
            // The scheduler refuses the set: nothing runs.
            Err(_) => Found::default(),
        }
    }
}
