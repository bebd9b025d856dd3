//! RT-Swap's swap volumes: minimise Σ x subject to Eqs. 1b, 1c and 3, exactly, with the chunk size a variable too.
//!
//! Σ x = overflow + z for the largest volume z, so that the lowest z that passes is optimal. For a given z and
//! a given bound on blocking, filling the longest periods first costs the least utilization: caps and sum are then all that
//! constrains the volumes. Lowering the bound from one attained value to the next tries every bound that matters.

use super::water::{fill, longest_period_first, lowest_ceiling};
use crate::analysis::theorem1::{Swapped, Theorem1, theorem1};
use crate::set::{Assignment, TaskSet, Units};
use eyelet::tasks::Policy;

/// Volumes and both sides of the test.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    pub assignment: Assignment,
    pub test: Theorem1,
    /// Σ x.
    pub swapped_bytes: u64,
}

/// The least Σ x over all these chunk sizes. `None`: no volumes pass.
pub fn solve(set: &TaskSet, chunk_sizes: &[u64]) -> Option<Solution> {
    let solutions = chunk_sizes.iter().filter_map(|&bytes| solve_for(set, bytes));
    solutions.min_by_key(|solution| (solution.swapped_bytes, solution.test.blocking_ns))
}

/// A chunk size with which volumes pass: the first, which is faster to know than the best.
pub fn any(set: &TaskSet, chunk_sizes: &[u64]) -> Option<Solution> {
    chunk_sizes.iter().find_map(|&bytes| solve_for(set, bytes))
}

/// The least Σ x for one chunk size.
pub fn solve_for(set: &TaskSet, chunk_bytes: u64) -> Option<Solution> {
    let problem = Problem::new(set, chunk_bytes);
    let lowest = lowest_ceiling(&problem.units.swappable, problem.units.overflow())?;
    let highest = problem.units.swappable.iter().copied().max().unwrap_or(0).max(lowest);
    let chunks = problem.lowest_passing(lowest, highest)?;
    let test = problem.test(&chunks);
    let swapped: u64 = chunks.iter().map(|&x| u64::from(x)).sum();
    let levels = vec![0; chunks.len()];
    let assignment = Assignment { chunk_bytes, chunks, levels, policy: Policy::Regions };
    Some(Solution { assignment, test, swapped_bytes: swapped * chunk_bytes })
}

/// Ceilings tried between the lowest and the highest before the search narrows.
const COARSE: u32 = 96;

struct Problem {
    units: Units,
    order: Vec<usize>,
    tasks: Vec<Swapped>,
    in_ns: u64,
    out_ns: u64,
    /// Blocking that no choice avoids: the two longest computations.
    least_blocking_ns: u64,
    shortest_ns: u64,
}

impl Problem {
    fn new(set: &TaskSet, chunk_bytes: u64) -> Self {
        let periods: Vec<u64> = set.tasks.iter().map(|task| task.period_ns).collect();
        let bare = |task: &crate::set::Task| Swapped {
            period_ns: task.period_ns,
            compute_ns: task.cost.compute_ns,
            in_ns: 0,
            out_ns: 0,
        };
        let tasks: Vec<Swapped> = set.tasks.iter().map(bare).collect();
        Self {
            units: Units::new(set, chunk_bytes),
            order: longest_period_first(&periods),
            least_blocking_ns: theorem1(&tasks).blocking_ns,
            shortest_ns: periods.iter().copied().min().unwrap_or(1),
            tasks,
            in_ns: set.storage.read.time_ns(chunk_bytes),
            out_ns: set.storage.write.map_or(0, |write| write.time_ns(chunk_bytes)),
        }
    }

    fn test(&self, chunks: &[u32]) -> Theorem1 {
        let swapped = |(task, &x): (&Swapped, &u32)| Swapped {
            in_ns: u64::from(x) * self.in_ns,
            out_ns: u64::from(x) * self.out_ns,
            ..*task
        };
        let tasks: Vec<Swapped> = self.tasks.iter().zip(chunks).map(swapped).collect();
        theorem1(&tasks)
    }

    /// The least load falls and then rises with the ceiling: coarse steps find where it passes, single steps the lowest.
    fn lowest_passing(&self, lowest: u32, highest: u32) -> Option<Vec<u32>> {
        let step = ((highest - lowest) / COARSE).max(1);
        let mut least: Option<(f64, u32)> = None;
        let mut ceiling = lowest;
        loop {
            let (load, chunks) = self.best(ceiling);
            if let Some(chunks) = chunks.filter(|_| load <= 1.0) {
                let below = ceiling.saturating_sub(step).max(lowest);
                let finer = (below..ceiling).find_map(|z| self.passing(z));
                return Some(finer.unwrap_or(chunks));
            }
            if least.is_none_or(|(known, _)| load < known) {
                least = Some((load, ceiling));
            }
            if ceiling >= highest {
                break;
            }
            ceiling = (ceiling + step).min(highest);
        }
        let (_, near) = least.filter(|_| step > 1)?;
        let around = near.saturating_sub(step).max(lowest)..=(near + step).min(highest);
        around.into_iter().find_map(|z| self.passing(z))
    }

    fn passing(&self, ceiling: u32) -> Option<Vec<u32>> {
        let (load, chunks) = self.best(ceiling);
        chunks.filter(|_| load <= 1.0)
    }

    /// The least load under a ceiling, up to the first that passes.
    fn best(&self, ceiling: u32) -> (f64, Option<Vec<u32>>) {
        let total = self.units.overflow().max(0) + i128::from(ceiling);
        let total = if self.units.overflow() <= 0 { 0 } else { total };
        let mut bound_ns = u64::MAX;
        let mut best = (f64::INFINITY, None);
        loop {
            let caps = self.caps(ceiling, bound_ns);
            let Some(chunks) = fill(&caps, &self.units.room, &self.order, total) else {
                return best;
            };
            let test = self.test(&chunks);
            if test.load < best.0 {
                best = (test.load, Some(chunks));
            }
            let least = self.least_blocking_ns as f64 / self.shortest_ns as f64 + test.utilization;
            let done =
                test.load <= 1.0 || least > 1.0 || test.blocking_ns <= self.least_blocking_ns;
            if done {
                return best;
            }
            bound_ns = test.blocking_ns - 1;
        }
    }

    /// Most chunks of each task under a ceiling and a bound on blocking.
    fn caps(&self, ceiling: u32, bound_ns: u64) -> Vec<u32> {
        let cap = |(task, &most): (&Swapped, &u32)| {
            let by_in = bound_ns
                .saturating_sub(task.compute_ns)
                .checked_div(self.in_ns)
                .unwrap_or(u64::MAX);
            let by_out = bound_ns.checked_div(self.out_ns).unwrap_or(u64::MAX);
            let by_time = u32::try_from(by_in.min(by_out)).unwrap_or(u32::MAX);
            most.min(ceiling).min(by_time)
        };
        self.tasks.iter().zip(&self.units.swappable).map(cap).collect()
    }
}
