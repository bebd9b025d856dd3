//! The study: which sets each test admits, and whether admitted sets ever miss.
//!
//! 1000 sets of Table III (100 for each of 4 to 13 tasks), and 900 harder ones ([`eyelet_tasks::generate::harder`]).

use super::costs::Approach;
use eyelet::tasks::Policy;
use eyelet_tasks::analysis::utilization::{processor, storage, utilization};
use eyelet_tasks::generate::harder;
use eyelet_tasks::generate::table3::{CHUNKS, Drawn, growing};
use eyelet_tasks::set::{Assignment, TaskSet};
use eyelet_tasks::simulate::{Arrivals, Mode, Options, Times, simulate};
use eyelet_tasks::volumes::published;
use eyelet_tasks::volumes::search::{Freedom, least_load, search};
use serde::{Deserialize, Serialize};

/// The tests, from the published one on; each admits what its predecessor admits, or almost.
pub const TESTS: [&str; 7] = [
    "Theorem 1 (RT-Swap)",
    "demand bound, same costs",
    "+ clean eviction",
    "+ volumes by period",
    "+ short periods resident",
    "+ preemption levels",
    "+ both engines, in classes",
];

/// What a study found before, for the same rows.
pub const KNOWN_TABLE3: [Option<u64>; 7] =
    [Some(599), Some(658), Some(974), None, None, None, None];
pub const KNOWN_HARDER: [Option<u64>; 7] =
    [Some(49), Some(351), None, Some(544), Some(674), None, None];

/// One set's results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    pub admitted: [bool; 7],
    /// No test can admit more: one engine after the other, and both at once.
    pub serial_ceiling: bool,
    pub engines_ceiling: bool,
    /// Simulated jobs of assignments that a demand bound test admits, and their misses.
    pub jobs: u64,
    pub misses: u64,
    /// The same for Theorem 1, under RT-Swap's order.
    pub published_jobs: u64,
    pub published_misses: u64,
    /// Not admitted: whether a simulation of the least load finds a miss.
    pub rejected_misses: Option<bool>,
}

/// Set number `index` of the 1000.
pub fn table3(seed: u64, index: u64, jobs: u64) -> Judged {
    let drawn = &growing(seed, index / 10)[(index % 10) as usize];
    let sets = [false, true].map(|clean| with_steps(Approach::RtSwap.set(drawn, 1.0, clean)));
    judge(&sets, &CHUNKS[..5], jobs, index)
}

/// Set number `index` of the 900: 100 for each pair of load and overflow.
pub fn harder(seed: u64, index: u64, jobs: u64) -> Judged {
    let pair = (index / 100) as usize;
    let (load, overflow) = (harder::LOADS[pair / 3], harder::OVERFLOWS[pair % 3]);
    let dirty = harder::set(load, overflow, seed, index % 100);
    let mut clean = dirty.clone();
    clean.storage.write = None;
    judge(&[dirty, clean], &harder::CHUNKS, jobs, index)
}

/// Our test for a set of Table III, with clean eviction.
pub fn admits_table3(drawn: &Drawn, memory: f64) -> bool {
    let set = with_steps(Approach::RtSwap.set(drawn, memory, true));
    search(&set, &CHUNKS[..5], Freedom::Subsets).is_some()
}

/// A network has hundreds of layers; a tenth of its computing is a long step.
fn with_steps(mut set: TaskSet) -> TaskSet {
    set.tasks.iter_mut().for_each(|task| task.cost.step_ns = task.cost.compute_ns.div_ceil(10));
    set
}

fn judge([dirty, clean]: &[TaskSet; 2], chunks: &[u64], jobs: u64, seed: u64) -> Judged {
    let mut found = Judged::default();
    if let Some(solution) = published::any(dirty, chunks) {
        found.admitted[0] = true;
        let ran = run(dirty, &solution.assignment, Policy::Regions, jobs / 4, seed, false);
        (found.published_jobs, found.published_misses) = ran;
    }
    if let Some(assignment) = search(dirty, chunks, Freedom::LeastVolume) {
        found.admitted[1] = true;
        found.add(run(dirty, &assignment, Policy::Steps, jobs / 4, seed, false));
    }
    let freedoms = [
        Freedom::LeastVolume,
        Freedom::ByPeriod,
        Freedom::Residents,
        Freedom::Levels,
        Freedom::Subsets,
    ];
    let admitted = freedoms
        .iter()
        .enumerate()
        .find_map(|(k, &freedom)| Some((k, search(clean, chunks, freedom)?)));
    let least = least_load(clean, chunks);
    match (admitted, &least) {
        (Some((first, assignment)), _) => {
            found.admitted[2 + first..].fill(true);
            found.add(run(clean, &assignment, assignment.policy, jobs, seed, false));
        }
        (None, Some(assignment)) => {
            let (_, misses) = run(clean, assignment, Policy::Steps, jobs, seed, true);
            found.rejected_misses = Some(misses > 0);
        }
        (None, None) => {}
    }
    if let Some(tasks) = least.map(|assignment| assignment.tasks(clean)) {
        found.serial_ceiling = utilization(&tasks) <= 1.0;
        found.engines_ceiling = storage(&tasks) <= 1.0 && processor(&tasks) <= 1.0;
    }
    found
}

impl Judged {
    fn add(&mut self, (jobs, misses): (u64, u64)) {
        self.jobs += jobs;
        self.misses += misses;
    }
}

/// Simulates so many jobs: all tasks at once, random offsets, pauses, and shorter times. Jobs and misses.
fn run(
    set: &TaskSet,
    assignment: &Assignment,
    policy: Policy,
    jobs: u64,
    seed: u64,
    until_miss: bool,
) -> (u64, u64) {
    let tasks = assignment.tasks(set);
    let at_once = Arrivals::Periodic { offsets_ns: vec![0; tasks.len()] };
    let sporadic = |most_pause| Arrivals::Sporadic { most_pause };
    let ways = [(at_once, 1.0), (sporadic(0.0), 1.0), (sporadic(0.0), 0.5), (sporadic(0.3), 1.0)];
    // A published order has one mode.
    let modes = match policy {
        Policy::Regions => [Mode::AtOnce; 2],
        Policy::Steps | Policy::Classes => [Mode::AtOnce, Mode::BetweenSteps],
    };
    let mut sum = (0, 0);
    let share = jobs / ways.len() as u64;
    for ((arrivals, least), mode) in ways.into_iter().zip(modes.into_iter().cycle()) {
        let (times, trace) = (Times::Share(least), false);
        let options =
            Options { policy, mode, arrivals, times, jobs: share, until_miss, trace, seed };
        // Sets whose levels do not fit have no simulation; a test never admits one.
        let pool = assignment.pool(set).unwrap_or(0);
        if let Ok(outcome) = simulate(&tasks, pool, &options) {
            sum.0 += outcome.jobs;
            sum.1 += outcome.misses;
        }
    }
    sum
}
