//! The verdict on a set: an assignment that keeps every deadline, or what to change.

use crate::analysis::Verdict;
use crate::analysis::demand_bound::Point;
use crate::analysis::levels::{self, Effort};
use crate::analysis::slack::tightest;
use crate::analysis::utilization::{processor, storage, utilization};
use crate::set::file::Declared;
use crate::set::{Assignment, TaskSet};
use crate::volumes::plans;
use crate::volumes::published::{self, Solution};
use crate::volumes::search::{Freedom, least_load, search};
use eyelet::tasks::Policy;

/// What was found for a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The set, with the plan that was chosen for each network.
    pub set: TaskSet,
    /// The assignment that is judged: admitted, or else the one with the least load. `None`: nothing fits the memory.
    pub assignment: Option<Assignment>,
    /// The test's result for it.
    pub verdict: Option<Verdict>,
    pub numbers: Option<Numbers>,
    /// RT-Swap's volumes and test, where all deadlines are periods and nothing has jitter.
    pub published: Option<Solution>,
    /// Changes after which the set is admitted, the cheapest first.
    pub changes: Vec<Change>,
}

/// The shares of time, and the tightest interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numbers {
    pub utilization: f64,
    pub processor: f64,
    pub storage: f64,
    /// Of the demand bound test.
    pub tightest: Option<Point>,
}

/// A change that makes a set schedulable.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub what: What,
    /// By how much, as part of what was there.
    pub by: f64,
}

/// What to change.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Memory of so many bytes.
    Memory { bytes: u64 },
    /// One task's period (and its deadline, in proportion).
    Period { task: usize, period_ns: u64 },
    /// All periods and deadlines.
    Periods,
}

impl Schedule {
    pub fn admitted(&self) -> bool {
        matches!(self.verdict, Some(Verdict::Kept))
    }
}

/// Larger sets get no search for changes.
const MOST_CHANGED: usize = 64;
/// Periods grow by at most this factor.
const MOST_FACTOR: f64 = 8.0;

/// Judges a set. `freedom` is what may be decided.
pub fn schedule(declared: &Declared, freedom: Freedom) -> Schedule {
    let chunk_sizes = declared.chunk_sizes.as_slice();
    let (chosen, admitted) = plans::choose(declared, freedom);
    let set = &chosen;
    let few = set.tasks.len() <= MOST_CHANGED;
    let changes =
        if admitted.is_none() && few { changes(set, chunk_sizes, freedom) } else { Vec::new() };
    let assignment = admitted.or_else(|| least_load(set, chunk_sizes));
    let tasks = assignment.as_ref().map(|assignment| assignment.tasks(set));
    let by_steps = assignment.as_ref().is_some_and(|a| a.policy == Policy::Steps);
    let implicit =
        set.tasks.iter().all(|task| task.deadline_ns == task.period_ns && task.jitter_ns == 0);
    Schedule {
        verdict: assignment.as_ref().map(|assignment| assignment.verdict(set)),
        numbers: tasks.as_deref().map(|tasks| Numbers {
            utilization: utilization(tasks),
            processor: processor(tasks),
            storage: storage(tasks),
            tightest: by_steps.then(|| tightest(tasks, 2000)).flatten(),
        }),
        published: if implicit { published::any(set, chunk_sizes) } else { None },
        assignment,
        changes,
        set: chosen,
    }
}

/// Bytes of memory that the set needs with this assignment: what stays, and the smallest pool that the test admits.
pub fn needed_bytes(set: &TaskSet, assignment: &Assignment) -> Option<u64> {
    let pool = assignment.pool(set)?;
    let mut tasks = assignment.tasks(set);
    let least = levels::least_pool(&tasks);
    let step = (pool.saturating_sub(least) / 64).max(1);
    let smaller = (least..pool).step_by(step as usize);
    let chunks = match assignment.policy {
        // One job at a time has chunks.
        Policy::Classes => Some(least),
        _ => smaller.into_iter().find(|&pool| levels::choose(&mut tasks, pool, Effort::All)),
    };
    let chunks = chunks.unwrap_or(pool);
    let all: u64 = set.memory_bytes / assignment.chunk_bytes;
    Some((all - u64::from(pool) + u64::from(chunks)) * assignment.chunk_bytes)
}

/// The least memory in which the search admits the set, to half a percent. `None`: not even with all of them in memory.
pub fn least_memory(set: &TaskSet, chunk_sizes: &[u64], freedom: Freedom) -> Option<u64> {
    let admits = |memory_bytes| {
        search(&TaskSet { memory_bytes, ..set.clone() }, chunk_sizes, freedom).is_some()
    };
    let (mut low, mut high) = (0, all_bytes(set));
    if !admits(high) {
        return None;
    }
    while high - low > high / 200 {
        let middle = low + (high - low) / 2;
        match admits(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    Some(high)
}

/// Memory in which everything fits, with each task's last chunk rounded up.
fn all_bytes(set: &TaskSet) -> u64 {
    let all: u64 = set.tasks.iter().map(|task| task.cost.bytes).sum();
    all + all / 64 + (64 << 20) * set.tasks.len() as u64
}

/// Bytes that never leave memory.
pub fn stay_bytes(set: &TaskSet, assignment: &Assignment) -> u64 {
    let stays = |(k, task): (usize, &crate::set::Task)| {
        task.cost.bytes.saturating_sub(assignment.swapped_bytes(k))
    };
    set.tasks.iter().enumerate().map(stays).sum()
}

fn changes(set: &TaskSet, chunk_sizes: &[u64], freedom: Freedom) -> Vec<Change> {
    // All subsets would take too long for so many sets.
    let freedom = freedom.min(Freedom::Engines);
    let admits = |set: &TaskSet| search(set, chunk_sizes, freedom).is_some();
    let mut found: Vec<Change> = more_memory(set, &admits).into_iter().collect();
    if let Some(factor) = least_factor(|factor| admits(&slower(set, None, factor))) {
        found.push(Change { what: What::Periods, by: factor - 1.0 });
    }
    for (k, task) in set.tasks.iter().enumerate() {
        if let Some(factor) = least_factor(|factor| admits(&slower(set, Some(k), factor))) {
            let period_ns = scaled(task.period_ns, factor);
            found.push(Change { what: What::Period { task: k, period_ns }, by: factor - 1.0 });
        }
    }
    found.sort_by(|a, b| a.by.total_cmp(&b.by));
    found
}

fn more_memory(set: &TaskSet, admits: &impl Fn(&TaskSet) -> bool) -> Option<Change> {
    let with = |memory_bytes| TaskSet { memory_bytes, ..set.clone() };
    let (mut low, mut high) = (set.memory_bytes, all_bytes(set));
    if high <= low || !admits(&with(high)) {
        return None;
    }
    while high - low > high / 500 {
        let middle = low + (high - low) / 2;
        match admits(&with(middle)) {
            true => high = middle,
            false => low = middle,
        }
    }
    let by = high as f64 / set.memory_bytes as f64 - 1.0;
    Some(Change { what: What::Memory { bytes: high }, by })
}

/// The least factor up to [`MOST_FACTOR`] that passes, to half a percent.
fn least_factor(passes: impl Fn(f64) -> bool) -> Option<f64> {
    let (mut low, mut high) = (1.0, MOST_FACTOR);
    if !passes(high) {
        return None;
    }
    while high / low > 1.005 {
        let middle = f64::midpoint(low, high);
        match passes(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    Some(high)
}

fn slower(set: &TaskSet, only: Option<usize>, factor: f64) -> TaskSet {
    let mut set = set.clone();
    for (k, task) in set.tasks.iter_mut().enumerate() {
        if only.is_none_or(|task| task == k) {
            task.period_ns = scaled(task.period_ns, factor);
            task.deadline_ns = scaled(task.deadline_ns, factor).min(task.period_ns);
        }
    }
    set
}

fn scaled(ns: u64, factor: f64) -> u64 {
    ((ns as f64 * factor).ceil() as u64).min(eyelet::tasks::LONGEST_NS)
}
