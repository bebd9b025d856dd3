//! Pipelines of whole layers: addresses and thresholds, from sizes alone.
//!
//! Step i of an inference computes layer i; load j is the weights of one layer, `users[j]`, which are loaded in the
//! order of their layers. Layers without weights have empty reads and copies. Nothing is read before the host's turn is
//! over: the least threshold of steps is 1.

use crate::plan::Plan;
use eyelet::pack::{PAGE, Stage};

/// How reads, copies and kernels overlap (Demand Layering, sections V and VI).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pipeline {
    /// Not at all.
    Sequential,
    /// In common cycles: layer i is computed while layer i + 1 is copied and layer i + 2 is read. Without copies the
    /// layer after it is read.
    Synchronous,
    /// Each goes on as soon as its predecessor is done and there is room in its circular queue.
    Asynchronous,
    /// The same where nothing is copied.
    TwoStage,
}

impl Pipeline {
    /// The least bytes of each of its buffers, where the largest layer has so many.
    pub fn least_bytes(self, largest: u64) -> u64 {
        match self {
            Pipeline::Synchronous => 2 * largest,
            _ => largest,
        }
    }

    /// Puts the loads of `plan` into a region of `capacity` bytes from `base` on, by way of a staging ring of as many
    /// bytes if it has one, and sets all thresholds. `users[j]` is the step (from 1) that uses load j.
    pub fn lay(self, plan: &mut Plan, users: &[i64], base: u64, capacity: u64) {
        let bytes: Vec<u64> = plan.loads.iter().map(|load| load.bytes.into()).collect();
        let (places, frees) = match self {
            Pipeline::Sequential => (vec![0; bytes.len()], Vec::new()),
            Pipeline::Synchronous => {
                let half = |user: &i64| if user % 2 == 0 { 0 } else { capacity / 2 };
                (users.iter().map(half).collect(), Vec::new())
            }
            Pipeline::Asynchronous | Pipeline::TwoStage => queue(&bytes, capacity),
        };
        let staged = plan.staging_bytes > 0;
        // Loads of the layers up to a step's.
        let up_to = |step: i64| users.partition_point(|user| *user <= step) as u32;
        // Of a queue the load that must have gone before load j comes, as a count of loads.
        let freed = |load: usize| frees.get(load).copied().unwrap_or(0);
        let used = |count: usize| count.checked_sub(1).map_or(1, |last| users[last] + 1);
        plan.stages.clear();
        for (index, load) in plan.loads.iter_mut().enumerate() {
            let user = users[index];
            load.address = base + places[index];
            let release = match self {
                Pipeline::Sequential => user,
                Pipeline::Synchronous => user - 1,
                Pipeline::Asynchronous | Pipeline::TwoStage => used(freed(index)),
            };
            load.release = release.max(1) as i32;
            if staged {
                let (steps, copies) = match self {
                    Pipeline::Sequential => (user, index as u32),
                    // Cycle i reads layer i, after all that cycle i - 1 did: it copied layer i - 2 and computed i - 3.
                    Pipeline::Synchronous => (user - 2, up_to(user - 2)),
                    Pipeline::Asynchronous | Pipeline::TwoStage => (1, freed(index) as u32),
                };
                let (steps, copies) = (steps.max(1) as i32, copies as i32);
                plan.stages.push(Stage { address: places[index], copies, steps });
            }
        }
        for (step, number) in plan.steps.iter_mut().zip(1..) {
            step.ready = up_to(number);
            // The cycle before the one that computes layer i read layer i + 1.
            let read = up_to(number + 1);
            let waits = staged && self == Pipeline::Synchronous && read > step.ready;
            step.reads = if waits { read } else { 0 };
        }
    }
}

/// Places in a circular queue, each contiguous: from the start where what is left to the end is too small. And for
/// each the number of those before it that must be gone when it comes.
pub fn queue(bytes: &[u64], capacity: u64) -> (Vec<u64>, Vec<usize>) {
    let mut next = 0;
    let mut places: Vec<u64> = Vec::with_capacity(bytes.len());
    let mut frees = Vec::with_capacity(bytes.len());
    for (index, &size) in bytes.iter().enumerate() {
        if next + size > capacity {
            next = 0;
        }
        let meets = |other: &usize| {
            places[*other] < next + size && next < places[*other] + bytes[*other]
        };
        frees.push((0..index).rev().find(meets).map_or(0, |last| last + 1));
        places.push(next);
        next += size;
    }
    (places, frees)
}

/// The capacities of a queue that are tried for the least delay: from the least to what holds all, by `delta`.
pub fn capacities(least: u64, most: u64, delta: u64) -> impl Iterator<Item = u64> {
    let delta = delta.next_multiple_of(PAGE).max(PAGE);
    let below = (least..most).step_by(usize::try_from(delta).unwrap_or(usize::MAX));
    below.chain((least <= most).then_some(most))
}
