//! The simulator: predicts when every load and step of a plan happens.
//!
//! Storage and compute are two channels that do one thing at a time, in the plan's order, joined by the
//! thresholds exactly as the executor's counters join them. A load starts when its predecessor is done
//! and `release` steps are; a step when its predecessor is done and `ready` loads are. The host's turn
//! takes no time. What is read passes through the memory that computing reads, and slows all steps down by a
//! little, in proportion. Inference follows inference without a pause, until one is like the one before: from
//! then on all are.

use crate::network::Network;
use crate::plan::Plan;
pub use crate::profile::Costs;
use crate::profile::Profile;

/// No more inferences than this are simulated. Most plans are steady from the second on.
const MAX_INFERENCES: usize = 4;

/// When something happens, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: i64,
    pub end: i64,
}

/// What is predicted of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The first inference, after residents have been loaded and with nothing loaded ahead.
    pub first_ns: u64,
    /// An inference of many: from one output to the next.
    pub steady_ns: u64,
    /// Loading the residents, once.
    pub resident_ns: u64,
    /// Sum of the steps.
    pub compute_ns: u64,
    /// Time of a steady inference in which compute waits for loads.
    pub stall_ns: u64,
    /// Sum of the loads of an inference.
    pub read_ns: u64,
    /// The loads of a steady inference. Time 0 is the host's turn before its first step; loads that run
    /// ahead start before it.
    pub loads: Vec<Span>,
    /// The steps of a steady inference, the host's left out.
    pub steps: Vec<Span>,
}

/// Predicts a plan on a board with so many compute threads.
///
/// # Panics
/// When a step waits for a load that waits for that step, or a threshold is out of range: the checker
/// refuses such plans.
pub fn simulate(network: &Network, plan: &Plan, profile: &Profile, threads: u32) -> Timeline {
    simulate_with(plan, &Costs::new(network, profile, threads))
}

/// The same with costs at hand, for those who simulate many plans.
///
/// # Panics
/// As [`simulate`].
pub fn simulate_with(plan: &Plan, costs: &Costs) -> Timeline {
    let mut step_ns: Vec<i64> = plan.steps.iter().map(|step| costs.step_ns(step) as i64).collect();
    let alone: i64 = step_ns.iter().sum();
    let drag = costs.drag_ns(plan.bytes_per_inference()) / (alone as f64).max(1.0);
    step_ns.iter_mut().for_each(|ns| *ns += (*ns as f64 * drag) as i64);
    let load_ns: Vec<i64> =
        plan.loads.iter().map(|load| costs.load_ns(load.bytes.into()) as i64).collect();
    let resident_ns = plan.resident.iter().map(|load| costs.load_ns(load.bytes.into())).sum();
    let compute_ns: i64 = step_ns.iter().sum();

    let mut before = Inference::default();
    let mut now = Inference::default();
    let mut first_ns = 0;
    for number in 0..MAX_INFERENCES {
        std::mem::swap(&mut before, &mut now);
        now.run(plan, &step_ns, &load_ns, (number > 0).then_some(&before));
        if number == 0 {
            first_ns = now.end() as u64;
        } else if now == before {
            break;
        }
    }
    Timeline {
        first_ns,
        steady_ns: now.end() as u64,
        resident_ns,
        compute_ns: compute_ns as u64,
        stall_ns: (now.end() - compute_ns) as u64,
        read_ns: load_ns.iter().sum::<i64>() as u64,
        loads: now.loads,
        steps: now.steps,
    }
}

/// The times of one inference, counted from its host's turn.
#[derive(Default, PartialEq)]
struct Inference {
    loads: Vec<Span>,
    steps: Vec<Span>,
}

impl Inference {
    /// The end of the last step: the host's turn of the next inference.
    fn end(&self) -> i64 {
        self.steps.last().map_or(0, |step| step.end)
    }

    fn run(&mut self, plan: &Plan, step_ns: &[i64], load_ns: &[i64], before: Option<&Inference>) {
        self.loads.clear();
        self.steps.clear();
        // The end of the inference before is this one's beginning.
        let shift = before.map_or(0, Inference::end);
        let mut loaded = before.and_then(|before| before.loads.last()).map_or(0, |l| l.end - shift);
        let mut computed = 0;
        for (index, step) in plan.steps.iter().enumerate() {
            while self.loads.len() < step.ready as usize {
                loaded = self.load(plan, load_ns, before, shift, loaded);
            }
            // With none of its own to wait for, the loads of the inference before must still be done.
            let start = computed.max(if step.ready as usize == self.loads.len() {
                loaded
            } else {
                match step.ready {
                    0 => before.and_then(|b| b.loads.last()).map_or(0, |l| l.end - shift),
                    ready => self.loads[ready as usize - 1].end,
                }
            });
            computed = start + step_ns[index];
            self.steps.push(Span { start, end: computed });
        }
        while self.loads.len() < plan.loads.len() {
            loaded = self.load(plan, load_ns, before, shift, loaded);
        }
    }

    /// Does the next load; `loaded` is the end of the one before.
    fn load(
        &mut self,
        plan: &Plan,
        load_ns: &[i64],
        before: Option<&Inference>,
        shift: i64,
        loaded: i64,
    ) -> i64 {
        let index = self.loads.len();
        let release = i64::from(plan.loads[index].release);
        // When so many steps are done: at 0 and 1 of them, the host's turn is all there is.
        let released = match release {
            2.. => match self.steps.get(release as usize - 2) {
                Some(step) => step.end,
                None => panic!(
                    "deadlock: step {} waits for load {index}, which waits until {release} steps are \
                     done",
                    self.steps.len() + 1
                ),
            },
            0..=1 => 0,
            // Nothing happened before the first inference.
            _ => before.map_or(0, |before| {
                // The host's turn and this many steps of the inference before are done.
                let done = plan.period() + release - 1;
                assert!(done >= 0, "release {release} of load {index} is out of range");
                let end = done.checked_sub(1).filter(|last| *last >= 0);
                end.map_or(0, |last| before.steps[last as usize].end) - shift
            }),
        };
        let start = loaded.max(released);
        let end = start + load_ns[index];
        self.loads.push(Span { start, end });
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Board;
    use crate::check::example::{Reuse, disjoint};
    use crate::profile::Storage;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn profile(mbs: f64) -> Profile {
        let mut profile = Board::load("jetson-nano").unwrap().profile;
        profile.storage = Storage::flat(1000, mbs, 1e9);
        profile.compute.step_overhead_ns = 1000;
        // Reads do not slow computing down.
        profile.compute.memory_gbs = f64::INFINITY;
        profile
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn thresholds_hold(seed: u64, reuse: bool, mbs in 1.0f64..10000.0) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (network, plan, _) =
                if reuse { Reuse::default().plan(&mut rng) } else { disjoint(&mut rng) };
            let line = simulate(&network, &plan, &profile(mbs), 1);
            prop_assert!(line.steady_ns >= line.compute_ns);
            prop_assert!(line.steady_ns >= line.read_ns);
            prop_assert!(line.first_ns >= line.compute_ns);
            prop_assert_eq!(line.stall_ns, line.steady_ns - line.compute_ns);
            let (period, steady) = (plan.period(), line.steady_ns as i64);
            // When so many steps of the steady inference are done.
            let done = |count: i64| match count - 1 {
                0 => 0,
                last if last > 0 => line.steps[last as usize - 1].end,
                last if last + period > 0 => line.steps[(last + period) as usize - 1].end - steady,
                _ => -steady,
            };
            for (load, span) in plan.loads.iter().zip(&line.loads) {
                let bytes = u64::from(load.bytes);
                prop_assert_eq!((span.end - span.start) as u64, profile(mbs).load_ns(bytes));
                prop_assert!(span.start >= done(i64::from(load.release)));
            }
            for (step, span) in plan.steps.iter().zip(&line.steps) {
                let ns = profile(mbs).step_ns(&network, step, 1);
                prop_assert_eq!((span.end - span.start) as u64, ns);
                if let Some(last) = (step.ready as usize).checked_sub(1) {
                    prop_assert!(span.start >= line.loads[last].end);
                }
            }
            for spans in [&line.loads, &line.steps] {
                prop_assert!(spans.windows(2).all(|pair| pair[0].end <= pair[1].start));
                if let (Some(first), Some(last)) = (spans.first(), spans.last()) {
                    prop_assert!(last.end - steady <= first.start);
                }
            }
        }

        #[test]
        fn faster_storage_never_hurts(seed: u64, mbs in 1.0f64..1000.0, factor in 1.0f64..20.0) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (network, plan, _) = Reuse::default().plan(&mut rng);
            let slow = simulate(&network, &plan, &profile(mbs), 1);
            let fast = simulate(&network, &plan, &profile(mbs * factor), 1);
            prop_assert!(fast.steady_ns <= slow.steady_ns);
            prop_assert!(fast.first_ns <= slow.first_ns);
        }

        /// Against a simulation that looks at the counters one event at a time.
        #[test]
        fn as_the_counters_would_have_it(seed: u64, reuse: bool, mbs in 1.0f64..10000.0) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (network, plan, _) =
                if reuse { Reuse::default().plan(&mut rng) } else { disjoint(&mut rng) };
            let costs = Costs::new(&network, &profile(mbs), 1);
            let ends = play(&plan, &costs, 12);
            let line = simulate_with(&plan, &costs);
            prop_assert_eq!(line.first_ns as i64, ends[0]);
            prop_assert_eq!(line.steady_ns as i64, ends[11] - ends[10]);
        }
    }

    /// Plays events in the order of time; returns the ends of the inferences.
    fn play(plan: &Plan, costs: &Costs, inferences: i64) -> Vec<i64> {
        let (period, loads) = (plan.period(), plan.loads.len() as i64);
        let (mut steps_done, mut loads_done, mut time) = (0, 0, 0);
        let (mut step_end, mut load_end) = (None, None);
        let mut ends = Vec::new();
        while (ends.len() as i64) < inferences {
            // Whatever may start does.
            if step_end.is_none() {
                let (inference, number) = (steps_done / period, steps_done % period);
                if number == 0 {
                    steps_done += 1;
                    continue;
                }
                let step = &plan.steps[number as usize - 1];
                if loads_done >= inference * loads + i64::from(step.ready) {
                    step_end = Some(time + costs.step_ns(step) as i64);
                }
            }
            if loads > 0 && load_end.is_none() {
                let load = &plan.loads[(loads_done % loads) as usize];
                if steps_done >= loads_done / loads * period + i64::from(load.release) {
                    load_end = Some(time + costs.load_ns(load.bytes.into()) as i64);
                }
            }
            time = [step_end, load_end].into_iter().flatten().min().expect("no deadlock");
            if step_end == Some(time) {
                (step_end, steps_done) = (None, steps_done + 1);
                if steps_done % period == 0 {
                    ends.push(time);
                }
            }
            if load_end == Some(time) {
                (load_end, loads_done) = (None, loads_done + 1);
            }
        }
        ends
    }

    #[test]
    #[should_panic(expected = "deadlock: step 1 waits for load 0")]
    fn a_deadlock_is_named() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let (network, mut plan, _) = Reuse { residents: false, ..Reuse::default() }.plan(&mut rng);
        plan.loads[0].release = 2;
        plan.steps[0].ready = 1;
        simulate(&network, &plan, &profile(100.0), 1);
    }
}
