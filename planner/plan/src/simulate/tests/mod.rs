//! Invariants of the timelines of random plans.

mod counters;

use super::*;
use crate::board::Board;
use crate::profile::{Costs, QueuedRead, Storage, Transfer};
use eyelet::storage::MAX_BEGUN;
use eyelet_model::testing::example::Reuse;
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// A profile with up to `depth` reads and `window` bytes in flight. Two reads take two thirds of their time one after
/// the other.
fn deep(mbs: f64, depth: u32, window: u64) -> Profile {
    let mut profile = Board::load("jetson-nano").unwrap().profile;
    let queued_reads =
        QueuedRead { depth, bytes: 1 << 20, mbs: mbs * (1.0 + f64::from(depth - 1) / 2.0) };
    profile.storage = Storage::flat(1000, mbs, 1e9);
    (profile.storage.depth, profile.storage.queued_reads) = (depth, vec![queued_reads]);
    profile.storage.window = Some(window);
    profile.compute.step_overhead_ns = 1000;
    profile.transfer = Some(Transfer { latency_ns: 500, gbs: mbs / 500.0 });
    // Reads do not slow computing down.
    profile.compute.memory_gbs = f64::INFINITY;
    // A plan says whether there is a copy.
    profile.transfer = profile.transfer.filter(|_| depth == 1);
    profile
}

fn profile(mbs: f64) -> Profile {
    deep(mbs, 1, 1)
}

/// A random plan, and the storage that it reads from.
#[derive(Debug)]
struct Drawn {
    seed: u64,
    reuse: bool,
    staged: bool,
    mbs: f64,
    depth: u32,
    window: u64,
    together: bool,
}

impl Drawn {
    fn plan(&self) -> (Network, Plan, Profile) {
        let Self { reuse, staged, .. } = *self;
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let (network, plan, _) = Reuse { reuse, staged, ..Reuse::default() }.plan(&mut rng);
        let mut profile = deep(self.mbs, if staged { 1 } else { self.depth }, self.window);
        profile.storage.together = self.together;
        (network, plan, profile)
    }
}

prop_compose! {
    fn drawn()(
        seed: u64, reuse: bool, staged: bool, mbs in 1.0f64..10000.0, depth in 1u32..9,
        window in 1u64..40_000, together: bool,
    ) -> Drawn {
        Drawn { seed, reuse, staged, mbs, depth, window, together }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn thresholds_hold(drawn in drawn()) {
        let (network, plan, profile) = drawn.plan();
        let (staged, depth) = (drawn.staged, profile.storage.depth);
        let line = simulate(&network, &plan, &profile, 1);
        prop_assert!(line.steady_ns >= line.compute_ns);
        prop_assert!(line.steady_ns >= line.read_ns);
        prop_assert!(line.first_ns >= line.compute_ns);
        prop_assert_eq!(line.stall_ns, line.steady_ns - line.compute_ns);
        let costs = Costs::new(&network, &profile, 1);
        let (_, [before, now]) = inferences(&plan, &Durations::new(&plan, &costs));
        prop_assert_eq!((&line.loads, &line.copies, &line.steps), (&now.reads, &now.copies, &now.steps));
        let (period, began) = (plan.period(), before.end());
        // When `count` steps of the last inference are done.
        let done = |count: i64| match count - 1 {
            0 => 0,
            last if last > 0 => line.steps[last as usize - 1].end,
            last if last + period > 0 => before.steps[(last + period) as usize - 1].end - began,
            _ => -began,
        };
        for (load, span) in plan.loads.iter().zip(&line.loads) {
            let (took, alone) = ((span.end - span.start) as u64, profile.load_ns(load.bytes.into()));
            let rested = profile.service(false, 1).read(load.bytes.into()).latency as u64;
            prop_assert!(took == alone || (depth > 1 && took >= alone - rested), "{took} and {alone}");
        }
        // The channel that `release` and `ready` refer to.
        let arrivals = if staged { &line.copies } else { &line.loads };
        prop_assert_eq!(arrivals.len(), plan.loads.len());
        for (load, span) in plan.loads.iter().zip(arrivals) {
            prop_assert!(span.start >= done(i64::from(load.release)));
        }
        let copied = |count: i64| match count {
            1.. => line.copies[count as usize - 1].end,
            _ => before.copies[(count + plan.loads.len() as i64) as usize - 1].end - began,
        };
        for (index, stage) in plan.stages.iter().enumerate() {
            prop_assert!(line.loads[index].start >= done(i64::from(stage.steps)));
            prop_assert!(line.loads[index].start >= copied(i64::from(stage.copies)));
            prop_assert!(line.copies[index].start >= line.loads[index].end);
        }
        for (step, span) in plan.steps.iter().zip(&line.steps) {
            let ns = costs.step_ns(step);
            prop_assert_eq!((span.end - span.start) as u64, ns);
            if let Some(last) = (step.ready as usize).checked_sub(1) {
                prop_assert!(span.start >= arrivals[last].end);
            }
            if let Some(last) = (step.reads as usize).checked_sub(1) {
                prop_assert!(span.start >= line.loads[last].end);
            }
        }
        for (earlier, spans, depth) in [
            (&before.reads, &now.reads, depth),
            (&before.copies, &now.copies, 1),
            (&before.steps, &now.steps, 1),
        ] {
            // Reads of this inference, after those of the one before.
            let earlier = earlier.iter().map(|s| Span { start: s.start - began, end: s.end - began });
            let all: Vec<Span> = earlier.chain(spans.iter().copied()).collect();
            prop_assert!(all.windows(2).all(|pair| pair[0].start <= pair[1].start));
            prop_assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].end));
            // Reads that wait to be verified are not in flight.
            let most = if depth > 1 { MAX_BEGUN } else { 1 };
            let apart = |pair: &[Span]| pair[0].end <= pair[most].start;
            prop_assert!(all.windows(most + 1).all(apart), "more than {most} at a time");
        }
    }

    #[test]
    fn faster_storage_never_hurts(
        seed: u64, staged: bool, mbs in 1.0f64..1000.0, factor in 1.0f64..20.0,
    ) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (network, plan, _) = Reuse { staged, ..Reuse::default() }.plan(&mut rng);
        // One at a time: of several, what begins sooner can have the loader look away when another is released.
        let slow = simulate(&network, &plan, &profile(mbs), 1);
        let fast = simulate(&network, &plan, &profile(mbs * factor), 1);
        prop_assert!(fast.steady_ns <= slow.steady_ns);
        prop_assert!(fast.first_ns <= slow.first_ns);
    }
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
