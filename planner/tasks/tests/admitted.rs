//! Admitted sets never miss: small sets of whole numbers, simulated from every combination of offsets.

use eyelet::tasks::{Policy, Scheduler, Task, set_reloads};
use eyelet_tasks::adversary::{Found, attack, modes};
use eyelet_tasks::analysis::levels::{full_pool, least_pool};
use eyelet_tasks::analysis::utilization::hyperperiod_ns;
use eyelet_tasks::analysis::{classes, demand_bound};
use eyelet_tasks::simulate::{Arrivals, Mode, Options, Times, simulate};
use proptest::prelude::*;

/// A task of a few nanoseconds: period, deadline below it, computing, step, chunks, room, time of a chunk, jitter.
fn task(periods: &'static [u64]) -> impl Strategy<Value = Task> {
    let periods = prop::sample::select(periods);
    let streams = prop::bool::weighted(0.2);
    let rest = (1..3u64, 0..3u64, streams);
    (periods, 0..4u64, 1..6u64, 1..4u64, 0..3u32, 0..3u32, rest).prop_map(
        |(period_ns, early, compute_ns, step, chunks, room, (chunk_ns, jitter, streams))| {
            let jitter_ns = jitter.saturating_sub(1).min(early);
            let deadline_ns = (period_ns - early).max(1);
            Task {
                deadline_ns,
                jitter_ns: jitter_ns.min(period_ns - deadline_ns),
                chunks,
                room: if streams { chunks } else { room.min(chunks) },
                chunk_ns,
                step_ns: step.min(compute_ns),
                streams,
                ..Task::new(period_ns, compute_ns)
            }
        },
    )
}

const PERIODS: [u64; 6] = [4, 6, 8, 12, 16, 24];

/// Two or three tasks; bit k of the cuts begins a new level after the k-th, in order of deadlines.
fn tasks() -> impl Strategy<Value = Vec<Task>> {
    (prop::collection::vec(task(&PERIODS), 2..=3), 0..4u32).prop_map(|(mut tasks, cuts)| {
        tasks.sort_by_key(|task| std::cmp::Reverse(task.deadline_ns));
        let mut level = 0;
        for (k, task) in tasks.iter_mut().enumerate() {
            task.level = level;
            level += u16::from(cuts >> k & 1 == 1);
        }
        tasks
    })
}

/// Pools from the smallest in which each job fits to one in which nothing is pushed out.
fn tasks_in_a_pool() -> impl Strategy<Value = (Vec<Task>, u32)> {
    tasks().prop_flat_map(|tasks| {
        let full = u32::try_from(full_pool(&tasks)).unwrap();
        let pools = least_pool(&tasks)..=full;
        (Just(tasks), pools)
    })
}

/// All combinations of offsets below the periods.
fn phasings(tasks: &[Task]) -> Vec<Vec<u64>> {
    tasks.iter().fold(vec![vec![]], |all, task| {
        let with = |offsets: &Vec<u64>| {
            let offsets = offsets.clone();
            (0..task.period_ns).map(move |offset| [offsets.clone(), vec![offset]].concat())
        };
        all.iter().flat_map(with).collect()
    })
}

fn options(
    (policy, mode): (Policy, Mode),
    arrivals: Arrivals,
    least_share: f64,
    jobs: u64,
    seed: u64,
) -> Options {
    let times = Times::Share(least_share);
    Options { policy, mode, arrivals, times, jobs, until_miss: true, trace: false, seed }
}

fn assert_never_misses(policy: Policy, tasks: &[Task], pool: u32) {
    let hyperperiod = hyperperiod_ns(tasks).unwrap();
    let jobs: u64 = tasks.iter().map(|task| 3 * hyperperiod / task.period_ns).sum();
    for &mode in modes(policy) {
        let miss = |arrivals, share, jobs, seed| {
            let options = options((policy, mode), arrivals, share, jobs, seed);
            simulate(tasks, pool, &options).unwrap().first_miss
        };
        for (seed, offsets_ns) in phasings(tasks).into_iter().enumerate() {
            // Shorter times are the adversary's, in all modes.
            let shares: &[f64] = if mode == Mode::BetweenSteps { &[1.0, 0.3] } else { &[1.0] };
            for &share in shares {
                let arrivals = Arrivals::Periodic { offsets_ns: offsets_ns.clone() };
                let miss = miss(arrivals, share, jobs, seed as u64);
                assert_eq!(miss, None, "{mode:?}, {offsets_ns:?}, share {share}: {tasks:#?}");
            }
        }
        for seed in 0..20 {
            let miss = miss(Arrivals::Sporadic { most_pause: 0.5 }, 0.3, 500, seed);
            assert_eq!(miss, None, "{mode:?}, sporadic, seed {seed}: {tasks:#?}");
        }
    }
}

proptest! {
    // PROPTEST_CASES sets how many.
    #![proptest_config(ProptestConfig { max_global_rejects: 3_000_000, ..ProptestConfig::default() })]

    #[test]
    fn admitted_sets_never_miss((mut tasks, pool) in tasks_in_a_pool()) {
        set_reloads(&mut tasks, pool);
        let accepted = Scheduler::<3>::new(Policy::Steps, &tasks, pool).is_ok();
        prop_assume!(accepted && demand_bound(&tasks).kept());
        assert_never_misses(Policy::Steps, &tasks, pool);
    }
}

/// Three tasks in classes: one or two with chunks, the others before or after them.
fn tasks_in_classes() -> impl Strategy<Value = (Vec<Task>, u32)> {
    let classes = prop::collection::vec(0..2u16, 3);
    let tasks = (prop::collection::vec(task(&PERIODS[..4]), 3), 1..3usize, classes);
    let tasks = tasks.prop_map(|(mut tasks, chain, classes)| {
        for (k, (task, class)) in tasks.iter_mut().zip(classes).enumerate() {
            task.streams = false;
            (task.chunks, task.level) =
                if k < chain { (task.chunks.max(1), 1) } else { (0, 2 * class) };
            task.room = task.room.min(task.chunks);
        }
        tasks
    });
    tasks.prop_flat_map(|tasks| {
        let all: u32 = tasks.iter().map(|task| task.chunks).sum();
        let pools = least_pool(&tasks)..=all;
        (Just(tasks), pools)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 3_000_000, ..ProptestConfig::default() })]

    #[test]
    fn sets_admitted_in_classes_never_miss((tasks, pool) in tasks_in_classes()) {
        prop_assume!(classes(&tasks).kept());
        assert_never_misses(Policy::Classes, &tasks, pool);
    }
}

/// Both engines at once do more than one after the other.
#[test]
fn classes_admit_more_than_one_engine_can_do() {
    let task = |period_ns, level, chunks, compute_ns| Task {
        level,
        chunks,
        chunk_ns: 3,
        step_ns: 1,
        ..Task::new(period_ns, compute_ns)
    };
    // Two tasks swap for 9 of 20; a third one computes for 12 of 20 while they load.
    let tasks = [task(20, 1, 2, 1), task(40, 1, 2, 1), task(20, 0, 0, 12)];
    assert!(!demand_bound(&tasks).kept());
    assert!(classes(&tasks).kept());
    assert_never_misses(Policy::Classes, &tasks, 2);
    let more = [tasks[0], tasks[1], Task { compute_ns: 19, ..tasks[2] }];
    assert!(!classes(&more).kept());
    let arrivals = Arrivals::Periodic { offsets_ns: vec![0; 3] };
    let outcome =
        simulate(&more, 2, &options((Policy::Classes, Mode::AtOnce), arrivals, 1.0, 100, 0))
            .unwrap();
    assert!(outcome.first_miss.is_some());
}

/// The test is not vacuous: it admits sets that a little more computing makes miss.
#[test]
fn the_test_is_tight_for_one_level_without_blocking() {
    let task =
        |compute_ns| Task { chunks: 1, chunk_ns: 2, step_ns: 1, ..Task::new(12, compute_ns) };
    let full = [task(4), task(4)];
    assert!(demand_bound(&full).kept());
    assert_never_misses(Policy::Steps, &full, 1);
    let more = [task(4), task(5)];
    assert!(!demand_bound(&more).kept());
    let arrivals = Arrivals::Periodic { offsets_ns: vec![0, 0] };
    let outcome =
        simulate(&more, 1, &options((Policy::Steps, Mode::AtOnce), arrivals, 1.0, 100, 0)).unwrap();
    assert!(outcome.first_miss.is_some());
}

/// The adversary's short form: `examples/adversary.rs` attacks with 10^7 jobs in each mode.
#[test]
fn admitted_sets_withstand_the_adversary() {
    for policy in [Policy::Steps, Policy::Classes, Policy::Regions] {
        for &mode in modes(policy) {
            let Found { jobs, misses, beyond, miss, .. } = attack(policy, mode, 0..60, |_| {});
            assert_eq!((misses, beyond), (0, 0), "{policy:?}, {mode:?}: {miss:#?}");
            assert!(jobs > 100_000, "{policy:?}, {mode:?}: {jobs} jobs");
        }
    }
}

/// The adversary is one: with a blocking that is forgotten it finds jobs that are late.
#[test]
fn the_adversary_makes_jobs_late_that_nothing_promises() {
    // A job that swaps is in the way of an urgent one, behind a long step that began before.
    let swap = Task { chunks: 10, chunk_ns: 10, step_ns: 10, ..Task::new(10_000, 10) };
    let urgent = Task { deadline_ns: 290, ..Task { period_ns: 300, ..swap } };
    let long = Task::new(1000, 100);
    let tasks = [swap, urgent, long];
    assert!(!demand_bound(&tasks).kept());
    assert!(
        demand_bound(&[swap, Task { deadline_ns: 400, period_ns: 500, ..urgent }, long]).kept()
    );
    let miss = |mode| {
        let found = (0..200).find_map(|seed| {
            let (arrivals, times) = (Arrivals::Adversary, Times::Adversary);
            let options = Options {
                arrivals,
                times,
                ..options((Policy::Steps, mode), Arrivals::Adversary, 1.0, 600, seed)
            };
            simulate(&tasks, 10, &options).unwrap().first_miss
        });
        found.map(|miss| miss.task)
    };
    assert_eq!(miss(Mode::BetweenSteps), Some(1));
}
