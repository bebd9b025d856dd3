//! Plans that are right are proved; each way of being wrong is found; and what is proved does not fail
//! when it is executed in a random order that its thresholds allow.

/// Whether a violation is of a kind.
macro_rules! kind {
    ($pattern:pat $(if $guard:expr)?) => {
        |violation: &Violation| matches!(violation, $pattern $(if $guard)?)
    };
}

mod broken;
mod executor;
mod rings;
mod stages;

use super::*;
use eyelet::kernels::Isa;
use eyelet_model::testing::example::{self, Reuse, disjoint, scratch_bytes};
use eyelet_plan::profile::{Profile, Transfer};
use eyelet_plan::search::{self, Effort, PlanError, Request};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn prove(network: &Network, plan: &Plan, bytes: u64) -> Result<Proof, Vec<Violation>> {
    check_with(network, plan, bytes, &scratch_bytes)
}

/// A broken plan is refused for a reason of a kind, and for others: all of them.
#[track_caller]
fn refused(
    found: Result<Proof, Vec<Violation>>,
    kind: impl Fn(&Violation) -> bool,
) -> Vec<Violation> {
    let violations = found.expect_err("the broken plan was proved");
    assert!(violations.iter().any(&kind), "{violations:#?}");
    assert!(violations.iter().all(|violation| !violation.to_string().is_empty()));
    violations
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_without_reuse_are_proved(seed: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (network, plan, bytes) = disjoint(&mut rng);
        let proof = prove(&network, &plan, bytes);
        prop_assert!(proof.is_ok(), "{:#?}", proof);
        let proof = proof.unwrap();
        prop_assert!(proof.peak_live_bytes <= plan.arena_bytes);
        for mode in 0..4 {
            executor::run(&network, &plan, &mut rng, mode).unwrap();
        }
    }

    #[test]
    fn plans_with_reuse_are_proved(seed: u64, staged: bool) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (network, plan, bytes) = Reuse { staged, ..Reuse::default() }.plan(&mut rng);
        let proof = prove(&network, &plan, bytes);
        prop_assert!(proof.is_ok(), "{:#?}\n{:#?}", proof, plan.loads);
        for mode in 0..8 {
            executor::run(&network, &plan, &mut rng, mode % 4).unwrap();
        }
    }

    /// Whatever is done to a plan: if it is still proved, then it still works.
    #[test]
    fn what_is_proved_works(seed: u64, staged: bool) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (network, plan, bytes) = Reuse { staged, ..Reuse::default() }.plan(&mut rng);
        for _ in 0..24 {
            let mut changed = plan.clone();
            for _ in 0..rng.random_range(1..4) {
                change(&mut changed, &mut rng);
            }
            if prove(&network, &changed, bytes).is_ok() {
                for mode in 0..4 {
                    let run = executor::run(&network, &changed, &mut rng, mode);
                    prop_assert!(run.is_ok(), "{run:?}\n{changed:#?}");
                }
            }
        }
    }
}

/// What the strategies make is proved, whatever the budget; or they name the smallest, and are right.
#[test]
fn plans_of_strategies_are_proved() {
    let profile = eyelet_plan::board::Board::load("jetson-nano").unwrap().profile;
    let made = prove_strategies(&profile, 2);
    assert!(made > 300, "only {made} plans were made");
}

/// The same where loads are copied to the device.
#[test]
fn staged_plans_of_strategies_are_proved() {
    let mut profile = eyelet_plan::board::Board::load("jetson-nano").unwrap().profile;
    profile.isa = Isa::Cuda;
    profile.multiprocessors = 1;
    profile.transfer = Some(Transfer { latency_ns: 10_000, gbs: 4.0 });
    let made = prove_strategies(&profile, 1);
    assert!(made > 200, "only {made} plans were made");
}

fn prove_strategies(profile: &Profile, threads: u32) -> usize {
    let mut made = 0;
    for (seed, strategy) in (0..112).zip(eyelet_published::all().iter().copied().cycle()) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let staged = profile.transfer.is_some();
        let isa = if staged { Isa::Cuda } else { Isa::Portable };
        let (network, weights_bytes) = example::network(isa, &mut rng, 12);
        let network = &network;
        let request = Request {
            network,
            weights_bytes,
            budget: 0,
            threads,
            profile,
            exact: true,
            holds_all: false,
        };
        let smallest = match search::plan(strategy, &request) {
            Err(PlanError::Budget { smallest, .. }) => smallest,
            Err(PlanError::Unsuited(_)) if staged && !strategy.serves(profile) => {
                continue;
            }
            other => panic!("{other:?} in no memory"),
        };
        for budget in [64 << 10, 100 << 10, 150 << 10, 250 << 10, 1 << 20, smallest] {
            let request = Request { budget, ..request };
            for effort in [Effort::Fast, Effort::Seconds(0.02)] {
                let plan = match search::make(strategy, &request, effort) {
                    Ok(made) => made.plan,
                    Err(PlanError::Budget { smallest: named, .. }) => {
                        assert_eq!(named, smallest, "{strategy}, seed {seed}");
                        assert!(budget < smallest, "{strategy}, seed {seed}, {budget} bytes");
                        continue;
                    }
                    Err(error) => panic!("{error}"),
                };
                assert_eq!(plan.staging_bytes > 0, staged);
                let proof = check(network, &plan, weights_bytes);
                assert!(proof.is_ok(), "{strategy}, seed {seed}, {budget} bytes: {proof:#?}");
                for mode in 0..4 {
                    let run = executor::run(network, &plan, &mut rng, mode);
                    assert!(run.is_ok(), "{strategy}, seed {seed}, {budget} bytes: {run:?}");
                }
                made += 1;
            }
        }
    }
    made
}

/// Changes something at random, most often a little.
fn change(plan: &mut Plan, rng: &mut ChaCha8Rng) {
    let steps = plan.steps.len();
    let sign = if rng.random() { 1 } else { -1 };
    if !plan.stages.is_empty() && rng.random() {
        let stages = plan.stages.len();
        let stage = &mut plan.stages[rng.random_range(0..stages)];
        match rng.random_range(0..5) {
            0 => stage.address = rng.random_range(0..plan.staging_bytes / 4096) * 4096,
            1 => stage.steps += sign * rng.random_range(1..4),
            2 => plan.steps[rng.random_range(0..steps)].reads = rng.random_range(0..=stages) as u32,
            _ => stage.copies += sign,
        }
        return;
    }
    let step = &mut plan.steps[rng.random_range(0..steps)];
    match rng.random_range(0..7) {
        0 => step.ready = step.ready.saturating_add_signed(sign),
        1 => step.scratch = rng.random_range(0..plan.arena_bytes / 64) * 64,
        2 => {
            let buffer = rng.random_range(0..plan.places.len());
            plan.places[buffer].address = rng.random_range(0..plan.arena_bytes / 64) * 64;
        }
        _ if plan.loads.is_empty() => {}
        3 | 4 => {
            let load = rng.random_range(0..plan.loads.len());
            plan.loads[load].release += sign * rng.random_range(1..4);
        }
        5 => {
            // A load and those of its steps that read from it move together.
            let load = rng.random_range(0..plan.loads.len());
            let to = rng.random_range(0..plan.arena_bytes / 4096) * 4096;
            let was = image_of(plan, load);
            for step in &mut plan.steps {
                if was.contains(&step.weights) {
                    step.weights = step.weights - was.start + to;
                }
            }
            plan.loads[load].address = to;
        }
        _ => {
            let load = rng.random_range(0..plan.loads.len());
            let other = rng.random_range(0..plan.loads.len());
            plan.loads.swap(load, other);
        }
    }
}

fn image_of(plan: &Plan, load: usize) -> std::ops::Range<u64> {
    structure::image(&plan.loads[load])
}

/// How often random changes survive, so that the test above means something.
#[test]
fn some_changed_plans_are_proved_and_most_are_not() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut proved, mut refused) = (0, 0);
    for _ in 0..60 {
        let (network, plan, bytes) = Reuse::default().plan(&mut rng);
        for _ in 0..20 {
            let mut changed = plan.clone();
            change(&mut changed, &mut rng);
            match prove(&network, &changed, bytes) {
                Ok(_) => proved += 1,
                Err(_) => refused += 1,
            }
        }
    }
    assert!(proved > 100 && refused > 400, "{proved} proved, {refused} refused");
}

#[test]
fn a_thousand_steps_take_less_than_a_second() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let (network, plan, bytes) = Reuse { layers: 700, ..Reuse::default() }.plan(&mut rng);
    assert!(plan.steps.len() >= 1000, "{} steps", plan.steps.len());
    let start = std::time::Instant::now();
    let proof = prove(&network, &plan, bytes);
    let took = start.elapsed();
    assert!(proof.is_ok(), "{proof:#?}");
    assert!(took.as_secs_f64() < 1.0, "{took:?}");
}
