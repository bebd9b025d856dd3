//! Pipelines of whole layers: addresses and thresholds, from sizes alone.
//!
//! Step i of an inference computes layer i; load j is the weights of one layer, `users[j]`, which
//! are loaded in the order of their layers. Layers without weights have empty reads and copies.
//! Nothing is read before the host's turn is over: the least threshold of steps is 1.

use eyelet::pack::{PAGE, Stage};
use eyelet_model::plan::Plan;
use eyelet_plan::search::parts::queue;

/// How reads, copies and kernels overlap (Demand Layering, sections V and VI).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pipeline {
    /// Not at all.
    Sequential,
    /// In common cycles: layer i is computed while layer i + 1 is copied and layer i + 2 is read.
    /// Without copies the layer after it is read.
    Synchronous,
    /// Each goes on as soon as its predecessor is done and there is room in its circular queue.
    Asynchronous,
    /// Like [`Asynchronous`](Self::Asynchronous), without copies.
    TwoStage,
}

impl Pipeline {
    /// The least bytes of each of its buffers, if the largest layer has `largest` bytes.
    pub fn least_bytes(self, largest: u64) -> u64 {
        match self {
            Pipeline::Synchronous => 2 * largest,
            _ => largest,
        }
    }

    /// Puts the loads of `plan` into a region of `capacity` bytes from `base` on, by way of a
    /// staging ring of the same size if it has one, and sets all thresholds. `users[j]` is the step
    /// (from 1) that uses load j.
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
        // In a queue, the number of loads that must have left before load j arrives.
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
                    // Cycle i reads layer i, after all that cycle i - 1 did: it copied layer i - 2
                    // and computed i - 3.
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

/// The capacities of a queue that are tried for the least delay: from the least to what holds all,
/// by `delta`.
pub fn capacities(least: u64, most: u64, delta: u64) -> impl Iterator<Item = u64> {
    let delta = delta.next_multiple_of(PAGE).max(PAGE);
    let below = (least..most).step_by(usize::try_from(delta).unwrap_or(usize::MAX));
    below.chain((least <= most).then_some(most))
}

#[cfg(test)]
mod tests {
    use super::super::bare;
    use super::*;
    use eyelet_plan::profile::Read;
    use eyelet_plan::simulate::{Durations, play};
    use proptest::prelude::*;

    /// Bytes in pages, and the times of reading, copying and computing of each layer. Those without
    /// bytes take no time to load.
    fn layers() -> impl Strategy<Value = Vec<(u64, [i64; 3])>> {
        let layer = (0u64..4, prop::array::uniform3(1i64..1000));
        prop::collection::vec(layer, 1..30).prop_map(|layers| {
            let times = |(pages, [r, c, k]): (u64, [i64; 3])| match pages {
                0 => (0, [0, 0, k]),
                _ => (pages * PAGE, [r, c, k]),
            };
            layers.into_iter().map(times).collect()
        })
    }

    fn delay(pipeline: Pipeline, staged: bool, layers: &[(u64, [i64; 3])], capacity: u64) -> i64 {
        let bytes: Vec<u64> = layers.iter().map(|(bytes, _)| *bytes).collect();
        let of = |stage: usize| -> Vec<i64> {
            let loaded = layers.iter().filter(move |(bytes, _)| stage == 2 || *bytes > 0);
            loaded.map(move |(_, times)| times[stage]).collect()
        };
        let plan = bare(pipeline, staged, &bytes, capacity);
        let reads = of(0).into_iter().map(Read::of).collect();
        let durations =
            Durations { reads, depth: 1, copies: of(1), steps: of(2), ..Durations::default() };
        let line = play(&plan, &durations);
        // Inferences are planned one by one.
        assert_eq!(line.first_ns, line.steady_ns);
        line.steady_ns as i64
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Equations 5 and 7 of the publication, and that a queue that holds everything is bound by
        /// nothing but order.
        #[test]
        fn delays_are_those_of_the_equations(layers in layers()) {
            let largest = layers.iter().map(|(bytes, _)| *bytes).max().unwrap().max(PAGE);
            let all = layers.iter().map(|(bytes, _)| *bytes).sum::<u64>().max(PAGE);
            let time = |layer: i64, stage: usize| {
                let layer = usize::try_from(layer).ok().and_then(|layer| layers.get(layer));
                layer.map_or(0, |(_, times)| times[stage])
            };
            let count = layers.len() as i64;
            let sum: i64 = layers.iter().map(|(_, times)| times.iter().sum::<i64>()).sum();
            prop_assert_eq!(delay(Pipeline::Sequential, true, &layers, largest), sum);
            let cycle = |i: i64| time(i, 0).max(time(i - 1, 1)).max(time(i - 2, 2));
            let cycles: i64 = (0..count + 2).map(cycle).sum();
            let sync = delay(Pipeline::Synchronous, true, &layers, 2 * largest);
            prop_assert_eq!(sync, cycles);
            let (mut read, mut copied, mut done) = (0, 0, 0);
            for i in 0..count {
                read += time(i, 0);
                copied = if time(i, 1) > 0 { read.max(copied) + time(i, 1) } else { copied };
                done = copied.max(done) + time(i, 2);
            }
            prop_assert_eq!(delay(Pipeline::Asynchronous, true, &layers, all), done);
            // Without copies.
            let sum: i64 = layers.iter().map(|(_, times)| times[0] + times[2]).sum();
            prop_assert_eq!(delay(Pipeline::Sequential, false, &layers, largest), sum);
            let cycles: i64 = (0..=count).map(|i| time(i, 0).max(time(i - 1, 2))).sum();
            prop_assert_eq!(delay(Pipeline::Synchronous, false, &layers, 2 * largest), cycles);
            let two = delay(Pipeline::TwoStage, false, &layers, largest);
            prop_assert!(two <= sum);
            prop_assert_eq!(two, delay(Pipeline::Asynchronous, false, &layers, largest));
        }
    }
}
