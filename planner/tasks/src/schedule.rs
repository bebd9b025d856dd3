//! The verdict on a set: an assignment that keeps every deadline, or what to change.

use crate::advice::{Advice, Alone, Change, advice};
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
    /// RT-Swap's volumes, if its test admits some. `None` where it does not apply: a deadline is no period, or a task has
    /// jitter.
    pub published: Option<Option<Solution>>,
    /// Tasks that would be late without any others.
    pub alone: Vec<Alone>,
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

impl Schedule {
    pub fn admitted(&self) -> bool {
        matches!(self.verdict, Some(Verdict::Kept))
    }
}

/// Judges a set. `freedom` is what may be decided.
pub fn schedule(declared: &Declared, freedom: Freedom) -> Schedule {
    let chunk_sizes = declared.chunk_sizes.as_slice();
    let (chosen, admitted) = plans::choose(declared, freedom);
    let set = &chosen;
    let Advice { alone, changes } = match admitted {
        Some(_) => Advice::default(),
        None => advice(declared, set, freedom),
    };
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
        published: implicit.then(|| published::any(set, chunk_sizes)),
        assignment,
        alone,
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
    let (mut low, mut high) = (0, set.all_bytes());
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

/// Bytes that never leave memory.
pub fn stay_bytes(set: &TaskSet, assignment: &Assignment) -> u64 {
    let stays = |(k, task): (usize, &crate::set::Task)| {
        task.cost.bytes.saturating_sub(assignment.swapped_bytes(k))
    };
    set.tasks.iter().enumerate().map(stays).sum()
}
