//! Each way in which the stages of a plan can be wrong is found and named.

use super::*;
use eyelet::pack::{PAGE, Stage};
use eyelet_model::testing::example::{Reuse, scratch_bytes};

/// A plan with stages, whose loads wait for no step and whose steps for no more reads than copies.
fn example() -> (Network, Plan, u64) {
    for seed in 0.. {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let reuse = Reuse { reuse: false, residents: false, staged: true, ..Reuse::default() };
        let (network, mut plan, bytes) = reuse.plan(&mut rng);
        if plan.loads.len() < 4 {
            continue;
        }
        // One behind the other, around and around; each place is used for a second time after three others.
        let largest = plan.loads.iter().map(|load| u64::from(load.bytes)).max().unwrap();
        plan.staging_bytes = 3 * largest;
        let steps = 1 - plan.period() as i32;
        for (load, stage) in plan.stages.iter_mut().enumerate() {
            // At least all loads but the two before are copied; the first of an inference waits for all.
            let copies = if load < 3 { 0 } else { load as i32 - 2 };
            *stage = Stage { address: load as u64 % 3 * largest, copies, steps };
        }
        plan.steps.iter_mut().for_each(|step| step.reads = 0);
        return (network, plan, bytes);
    }
    unreachable!()
}

#[track_caller]
fn expect(break_it: impl FnOnce(&mut Network, &mut Plan), kind: impl Fn(&Violation) -> bool) {
    let (mut network, mut plan, bytes) = example();
    let proof = prove(&network, &plan, bytes);
    assert!(proof.is_ok(), "{proof:#?}");
    break_it(&mut network, &mut plan);
    refused(check_with(&network, &plan, bytes, &scratch_bytes), kind);
}

#[test]
fn stages_where_there_is_no_ring_and_a_ring_without_stages() {
    expect(|_, plan| plan.staging_bytes = 0, kind!(Violation::Count { .. }));
    expect(|_, plan| _ = plan.stages.pop(), kind!(Violation::Count { .. }));
    let elsewhere = kind!(Violation::StagedElsewhere { isa: "portable" });
    expect(|network, _| network.isa = Isa::Portable, elsewhere);
    let unstaged = |_: &mut Network, plan: &mut Plan| {
        (plan.staging_bytes, plan.steps[0].reads) = (0, 1);
        plan.stages.clear();
    };
    expect(unstaged, kind!(Violation::ReadsRange { step: 1, reads: 1, loads: 0 }));
}

#[test]
fn stages_out_of_the_ring() {
    expect(|_, plan| plan.staging_bytes += 64, kind!(Violation::Misaligned { .. }));
    expect(|_, plan| plan.stages[1].address += 64, kind!(Violation::Misaligned { .. }));
    let outside = kind!(Violation::OutOfBounds { .. });
    expect(|_, plan| plan.stages[1].address = plan.staging_bytes, outside);
    expect(|_, plan| plan.stages[1].address = u64::MAX / PAGE * PAGE, outside);
}

#[test]
fn thresholds_of_stages_out_of_range() {
    let range = |load, what| move |violation: &Violation| matches!(violation, Violation::StageRange { load: l, what: w, .. } if (*l, *w) == (load, what));
    // A read that waits for its own copy would wait for ever.
    expect(|_, plan| plan.stages[2].copies = 3, range(2, "copies"));
    expect(|_, plan| plan.stages[2].copies = -(plan.loads.len() as i32), range(2, "copies"));
    expect(|_, plan| plan.stages[2].steps = plan.period() as i32, range(2, "steps"));
    expect(|_, plan| plan.stages[2].steps = -plan.period() as i32, range(2, "steps"));
    let reads = kind!(Violation::ReadsRange { step: 2, .. });
    expect(|_, plan| plan.steps[1].reads = plan.loads.len() as u32 + 1, reads);
}

/// Target buffer constraint.
#[test]
fn a_read_over_what_is_yet_to_be_copied() {
    let over = |load, other| move |violation: &Violation| matches!(violation, Violation::StageOverwritten { load: l, other: o, .. } if (*l, *o) == (load, other));
    // One copy too few.
    expect(|_, plan| plan.stages[3].copies -= 1, over(3, 0));
    // In the place of the load before, which may still be there.
    expect(|_, plan| plan.stages[3].address = plan.stages[2].address, over(3, 2));
    // Of the inference before.
    let last = example().1.loads.len() - 1;
    expect(
        |_, plan| {
            plan.stages[0].copies = -1;
            plan.stages[0].address = plan.stages[last].address;
        },
        over(0, last),
    );
}

/// A completion constraint that waits for what comes after it: each of the three ways around.
#[test]
fn stages_that_wait_for_what_waits_for_them() {
    let deadlock = |steps| move |violation: &Violation| matches!(violation, Violation::StageDeadlock { steps: s, .. } if *s == steps);
    let user = |plan: &Plan, load: usize| {
        plan.steps.iter().position(|step| step.ready as usize > load).unwrap() as i32 + 1
    };
    // The read waits for a step that waits for its copy.
    let late = user(&example().1, 1) + 1;
    expect(|_, plan| plan.stages[1].steps = late, deadlock(late.into()));
    // The step before waits for the read.
    let early = |_: &mut Network, plan: &mut Plan| {
        plan.steps[0].reads = 2;
        plan.stages[1].steps = 2;
    };
    expect(early, deadlock(2));
    // The first step waits for a read, that for a copy, and that for a later step.
    let around = |_: &mut Network, plan: &mut Plan| {
        let needed = user(plan, 1).max(2);
        plan.steps[0].reads = 4;
        plan.loads[1].release = needed;
        plan.stages[3].copies = 2;
    };
    let needed = user(&example().1, 1).max(2);
    expect(around, deadlock(needed.into()));
}
