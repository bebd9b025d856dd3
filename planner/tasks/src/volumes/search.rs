//! Residents, swap volumes and preemption levels, chosen together for the demand bound test.
//!
//! A chunk costs its time once a period, so that long periods swap first; Σ cost·x/T is then least. A task without chunks
//! never waits for the pool, so that tasks with short deadlines stay resident, or begin over others. A low ceiling keeps
//! whole-task blocking short, a high one lets long periods swap more. The search tries all numbers of residents, and
//! ceilings and bounds on a job's cost from a grid, in order of utilization, and takes the first choice that the
//! test admits: with one level, or else with several, and at last in classes.

use super::water::{fill, longest_period_first};
use crate::analysis::levels::{self, Effort};
use crate::analysis::{demand_bound, utilization::utilization};
use crate::set::{Assignment, Task, TaskSet, Units};
use eyelet::tasks::Policy;

/// What the search may vary. Each includes its predecessors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Freedom {
    /// The least Σ x, as published: the lowest ceiling, the longest periods first.
    LeastVolume,
    /// The least Σ cost·x/T: the ceiling varies.
    ByPeriod,
    /// Tasks with short deadlines may be resident.
    Residents,
    /// Tasks with short deadlines may begin over others.
    Levels,
    /// Tasks without chunks go before the others or after them, and compute while others load.
    Engines,
    /// Any subset of few tasks may be resident, not only those with the shortest deadlines.
    Subsets,
}

/// Ceilings, and bounds on a job's cost, that are tried.
const CEILINGS: u32 = 24;
const BOUNDS: u32 = 6;
const CUTS: u32 = 24;
/// Tasks of which all subsets are tried.
const SUBSETS: usize = 8;
/// Larger sets get a coarser grid.
const FULL_GRID: usize = 32;

/// An assignment that the demand bound test admits.
pub fn search(set: &TaskSet, chunk_sizes: &[u64], freedom: Freedom) -> Option<Assignment> {
    let one_level =
        |assignment: Assignment| demand_bound(&assignment.tasks(set)).kept().then_some(assignment);
    let find = |admit: &dyn Fn(Assignment) -> Option<Assignment>| {
        chunk_sizes.iter().find_map(|&bytes| {
            let candidates = candidates(set, bytes, freedom).into_iter();
            candidates.take_while(|(load, _)| *load <= 1.0).find_map(|(_, a)| admit(a))
        })
    };
    match freedom {
        Freedom::Levels => find(&one_level).or_else(|| find(&|a| with_levels(set, a))),
        Freedom::Engines | Freedom::Subsets => search(set, chunk_sizes, Freedom::Levels)
            .or_else(|| in_classes(set, chunk_sizes, freedom)),
        _ => find(&one_level),
    }
}

fn in_classes(set: &TaskSet, chunk_sizes: &[u64], freedom: Freedom) -> Option<Assignment> {
    if set.tasks.len() > levels::MOST {
        return None;
    }
    let one = |bytes: u64, freedom: Freedom| {
        candidates(set, bytes, freedom).into_iter().find_map(|(_, a)| with_classes(set, a))
    };
    let found = chunk_sizes.iter().find_map(|&bytes| one(bytes, Freedom::Residents));
    let fine = || chunk_sizes.iter().copied().min().filter(|_| freedom == Freedom::Subsets);
    found.or_else(|| one(fine()?, freedom))
}

/// Tasks without chunks go before the others, or after them if their deadline is long.
fn with_classes(set: &TaskSet, assignment: Assignment) -> Option<Assignment> {
    let stay = || set.tasks.iter().zip(&assignment.chunks).filter(|&(_, &chunks)| chunks == 0);
    let mut cuts: Vec<u64> = stay().map(|(task, _)| task.deadline_ns).chain([0]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts.into_iter().find_map(|ahead_ns| {
        let level = |(task, &chunks): (&Task, &u32)| match chunks {
            0 => 2 * u16::from(task.deadline_ns <= ahead_ns),
            _ => 1,
        };
        let levels = set.tasks.iter().zip(&assignment.chunks).map(level).collect();
        let found = Assignment { levels, policy: Policy::Classes, ..assignment.clone() };
        found.verdict(set).kept().then_some(found)
    })
}

fn with_levels(set: &TaskSet, assignment: Assignment) -> Option<Assignment> {
    // One level was tried before.
    if set.tasks.len() > levels::MOST {
        return None;
    }
    let mut tasks = assignment.tasks(set);
    levels::choose(&mut tasks, assignment.pool(set)?, Effort::Few)
        .then(|| Assignment { levels: tasks.iter().map(|task| task.level).collect(), ..assignment })
}

/// The volumes that fit the memory with the least load, admitted or not.
pub fn least_load(set: &TaskSet, chunk_sizes: &[u64]) -> Option<Assignment> {
    let all = chunk_sizes.iter().flat_map(|&bytes| candidates(set, bytes, Freedom::ByPeriod));
    all.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, assignment)| assignment)
}

/// Assignments that fit the memory, and their load, the least first.
fn candidates(set: &TaskSet, chunk_bytes: u64, freedom: Freedom) -> Vec<(f64, Assignment)> {
    let grid = Grid::new(set, chunk_bytes);
    let mut found: Vec<(f64, Assignment)> = grid
        .assignments(freedom)
        .into_iter()
        .map(|assignment| (utilization(&assignment.tasks(set)), assignment))
        .collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.dedup_by(|a, b| a.1 == b.1);
    found
}

/// The choices for one chunk size.
struct Grid<'a> {
    set: &'a TaskSet,
    units: Units,
    chunk_ns: u64,
    /// Tasks in the order in which they swap.
    order: Vec<usize>,
    /// Tasks by deadline, the shortest first.
    urgent: Vec<usize>,
    /// By how much the grid is coarser than that of a small set.
    coarser: u32,
}

impl<'a> Grid<'a> {
    fn new(set: &'a TaskSet, chunk_bytes: u64) -> Self {
        let periods: Vec<u64> = set.tasks.iter().map(|task| task.period_ns).collect();
        let mut urgent: Vec<usize> = (0..periods.len()).collect();
        urgent.sort_by_key(|&k| (set.tasks[k].deadline_ns - set.tasks[k].jitter_ns, k));
        Self {
            units: Units::new(set, chunk_bytes),
            chunk_ns: set.storage.chunk_ns(chunk_bytes).max(1),
            order: longest_period_first(&periods),
            urgent,
            coarser: u32::try_from(periods.len() / FULL_GRID).unwrap_or(u32::MAX).saturating_add(1),
            set,
        }
    }

    fn count(&self, small_set: u32) -> u32 {
        (small_set / self.coarser).max(1)
    }

    fn assignments(&self, freedom: Freedom) -> Vec<Assignment> {
        let mut found = Vec::new();
        self.one_level(freedom, &self.units.swappable, &mut found);
        if freedom == Freedom::Subsets && self.urgent.len() <= SUBSETS {
            for resident in 1..1u32 << self.urgent.len() {
                let caps = self.units.swappable.iter().enumerate();
                let caps: Vec<u32> =
                    caps.map(|(k, &cap)| if resident >> k & 1 == 1 { 0 } else { cap }).collect();
                self.one_level(freedom, &caps, &mut found);
            }
        } else if freedom >= Freedom::Residents {
            let most = u32::try_from(self.urgent.len()).unwrap_or(u32::MAX);
            for short in steps(1, most, self.count(CUTS)) {
                self.cut(freedom, short as usize, &mut found);
            }
        }
        found
    }

    /// The `short` most urgent tasks are resident, or have a level of their own.
    fn cut(&self, freedom: Freedom, short: usize, found: &mut Vec<Assignment>) {
        let mut caps = self.units.swappable.clone();
        self.urgent.iter().take(short).for_each(|&task| caps[task] = 0);
        self.one_level(freedom, &caps, found);
    }

    /// All volumes share one level; those beyond the caps stay.
    fn one_level(&self, freedom: Freedom, caps: &[u32], found: &mut Vec<Assignment>) {
        let overflow = self.units.overflow();
        let Some(lowest) = super::water::lowest_ceiling(caps, overflow) else { return };
        let highest = match freedom {
            Freedom::LeastVolume => lowest,
            _ => caps.iter().copied().max().unwrap_or(0).max(lowest),
        };
        let bounds = match freedom {
            Freedom::LeastVolume => 1,
            _ => u64::from(self.count(BOUNDS)),
        };
        for ceiling in steps(lowest, highest, self.count(CEILINGS)) {
            let caps: Vec<u32> = caps.iter().map(|&cap| cap.min(ceiling)).collect();
            let total = if overflow > 0 { overflow + i128::from(ceiling) } else { 0 };
            let most_ns =
                (0..caps.len()).map(|task| self.cost_ns(task, caps[task])).max().unwrap_or(0);
            for n in 0..bounds {
                let caps = self.bounded(&caps, most_ns - most_ns / u64::from(BOUNDS) * n);
                found.extend(self.filled(&caps, total));
                // A larger pool: less is pushed out.
                if freedom == Freedom::Levels && overflow > 0 {
                    let larger = |n| self.filled(&caps, total + i128::from(ceiling) * n / 4);
                    found.extend([1, 2, 4].into_iter().filter_map(larger));
                }
            }
        }
    }

    fn filled(&self, caps: &[u32], total: i128) -> Option<Assignment> {
        let chunks = fill(caps, &self.units.room, &self.order, total)?;
        let levels = vec![0; chunks.len()];
        let chunk_bytes = self.units.chunk_bytes;
        Some(Assignment { chunk_bytes, chunks, levels, policy: Policy::Steps })
    }

    /// Caps under which no job costs more than this.
    fn bounded(&self, caps: &[u32], bound_ns: u64) -> Vec<u32> {
        let most = |task: usize| {
            let loading_ns = bound_ns.saturating_sub(self.set.tasks[task].cost.compute_ns);
            let weights = u32::try_from(loading_ns / self.chunk_ns).unwrap_or(u32::MAX);
            weights.saturating_add(self.units.room[task])
        };
        caps.iter().enumerate().map(|(task, &cap)| cap.min(most(task))).collect()
    }

    fn cost_ns(&self, task: usize, chunks: u32) -> u64 {
        u64::from(chunks.saturating_sub(self.units.room[task]))
            .saturating_mul(self.chunk_ns)
            .saturating_add(self.set.tasks[task].cost.compute_ns)
    }
}

/// About `count` values from `low` to `high`, both included.
fn steps(low: u32, high: u32, count: u32) -> impl Iterator<Item = u32> {
    let step = ((high.saturating_sub(low)) / count).max(1);
    let inner = (low..high).step_by(step as usize);
    inner.chain((low <= high).then_some(high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::harder;

    #[test]
    fn more_freedom_admits_more_and_fits_the_memory() {
        let freedoms =
            [Freedom::LeastVolume, Freedom::ByPeriod, Freedom::Residents, Freedom::Levels];
        let mut admitted = [0; 4];
        for index in 0..12 {
            let mut set = harder::set(0.5, 0.25, 3, index);
            set.storage.write = None;
            let found = freedoms.map(|freedom| search(&set, &harder::CHUNKS, freedom));
            for (k, assignment) in
                found.iter().enumerate().filter_map(|(k, a)| Some((k, a.as_ref()?)))
            {
                admitted[k] += 1;
                let pool = assignment.pool(&set).expect("fits");
                let tasks = assignment.tasks(&set);
                assert!(pool >= levels::least_pool(&tasks));
                assert!(demand_bound(&tasks).kept());
            }
            for pair in found.windows(2) {
                assert!(pair[0].is_none() || pair[1].is_some(), "set {index}");
            }
        }
        assert!(admitted[3] > 0, "{admitted:?}");
    }

    #[test]
    fn steps_include_both_ends() {
        assert_eq!(steps(3, 3, 4).collect::<Vec<_>>(), [3]);
        assert_eq!(steps(0, 9, 3).collect::<Vec<_>>(), [0, 3, 6, 9]);
    }
}
