//! Plans with stages: reads into a staging ring, copies from there into the arena, steps.
//!
//! What Demand Layering (RTSS '22, Eq. 3) asks of a schedule, for every interleaving that the thresholds allow:
//!
//! - *Release*: reads, copies and steps each go in their order. The counters see to that; what is proved is that
//!   no counter waits for what waits for it.
//! - *Completion*: a copy comes after its read, a step after the copies of its weights. The former is the executor's
//!   rule; the latter is proved where weights are ([`super::weights`]).
//! - *Target buffers*: the bytes that a read fills are free from the moment at which it may start: every load that was
//!   read into them has been copied. Of the arena the same is proved for all plans ([`super::overlap`],
//!   [`super::weights`]), the copy being what is in flight.

use super::{Found, Violation, meet, span};
use eyelet::kernels::Isa;
use eyelet::pack::{PAGE, Stage};
use eyelet_model::network::Network;
use eyelet_model::plan::Plan;
use std::ops::Range;

/// That there are stages where there is a ring, and only there, that they lie in it, and that thresholds are in range.
pub fn structure(network: &Network, plan: &Plan, found: &mut Found) {
    if plan.staging_bytes == 0 {
        let count = plan.stages.len();
        if count > 0 {
            let what = "stages of loads without a staging ring";
            found.add(Violation::Count { what, found: count as u64, expected: 0 });
        }
        for (number, step) in plan.steps.iter().enumerate().filter(|(_, step)| step.reads > 0) {
            found.add(Violation::ReadsRange { step: number + 1, reads: step.reads, loads: 0 });
        }
        return;
    }
    if network.isa != Isa::Cuda {
        found.add(Violation::StagedElsewhere { isa: network.isa.name() });
    }
    let (stages, loads) = (plan.stages.len(), plan.loads.len());
    if stages != loads {
        let what = "stages of loads";
        found.add(Violation::Count { what, found: stages as u64, expected: loads as u64 });
    }
    let mut aligned = |what: &dyn Fn() -> String, value: u64| {
        if !value.is_multiple_of(PAGE) {
            found.add(Violation::Misaligned { what: what(), value, multiple: PAGE });
        }
    };
    aligned(&|| "the size of the staging ring".into(), plan.staging_bytes);
    for (load, stage) in plan.stages.iter().enumerate() {
        aligned(&|| format!("the stage of load {load}"), stage.address);
    }
    for (load, bytes) in places(plan) {
        if bytes.end > plan.staging_bytes {
            let what = format!("the stage of load {load}");
            found.add(Violation::OutOfBounds { what, bytes, within: 0..plan.staging_bytes });
        }
    }
    for (load, Stage { copies, steps, .. }) in plan.stages.iter().enumerate() {
        let range = -(loads as i64) + 1..=load as i64;
        if !range.contains(&i64::from(*copies)) {
            let (from, to) = range.into_inner();
            found.add(Violation::StageRange { load, what: "copies", value: *copies, from, to });
        }
        let range = 1 - plan.period()..=plan.period() - 1;
        if !range.contains(&i64::from(*steps)) {
            let (from, to) = range.into_inner();
            found.add(Violation::StageRange { load, what: "steps", value: *steps, from, to });
        }
    }
    for (number, step) in plan.steps.iter().enumerate() {
        if step.reads as usize > loads {
            found.add(Violation::ReadsRange { step: number + 1, reads: step.reads, loads });
        }
    }
}

/// Where in the ring each load is read to.
fn places(plan: &Plan) -> impl Iterator<Item = (usize, Range<u64>)> {
    let places = plan.stages.iter().zip(&plan.loads).enumerate();
    places.map(|(index, (stage, load))| (index, span(stage.address, load.bytes.into())))
}

/// No read goes where something lies that has not been copied yet, and nothing waits for what waits for it. The
/// structure has been proved.
pub fn check(plan: &Plan, found: &mut Found) {
    if !plan.stages.is_empty() {
        buffers(plan, found);
        waits(plan, found);
    }
}

/// Reads go in order, so read j may start when the thresholds of all reads up to j are reached: then so many copies are
/// done, and any that follow may not be.
fn buffers(plan: &Plan, found: &mut Found) {
    let loads = plan.loads.len() as i64;
    let places: Vec<Range<u64>> = places(plan).map(|(_, place)| place).collect();
    // Nothing is known of the inference before but that the reads of this one come after those.
    let before = plan.stages.iter().map(|stage| i64::from(stage.copies) - loads).max();
    let mut copied = before.unwrap_or(0);
    for (load, stage) in plan.stages.iter().enumerate() {
        copied = copied.max(stage.copies.into());
        for other in copied..load as i64 {
            let other = other.rem_euclid(loads) as usize;
            if meet(&places[load], &places[other]) {
                let bytes = places[load].start.max(places[other].start)
                    ..places[load].end.min(places[other].end);
                found.add(Violation::StageOverwritten { load, other, copied, bytes });
            }
        }
    }
}

/// That from any state something can go on. When everything else is done that can be done, the next step waits for a
/// copy or a read; the copy for a read; the read for copies or steps. All of these are traced back here to steps,
/// which must come before the one that waits.
fn waits(plan: &Plan, found: &mut Found) {
    // Steps that must be done before load j is read, and before it is copied.
    let mut reads: Vec<i64> = Vec::with_capacity(plan.loads.len());
    let mut copies: Vec<i64> = Vec::with_capacity(plan.loads.len());
    // Those of the inference before come before this one's first step: each waits for less than a period.
    let (mut read, mut copy) = (0, 0);
    for (stage, load) in plan.stages.iter().zip(&plan.loads) {
        read = read.max(stage.steps.into());
        if let Some(last) = usize::try_from(stage.copies).ok().and_then(|done| done.checked_sub(1))
        {
            read = read.max(copies[last]);
        }
        copy = copy.max(read).max(load.release.into());
        reads.push(read);
        copies.push(copy);
    }
    for (number, step) in plan.steps.iter().enumerate() {
        let number = number + 1;
        for (count, needed) in [(step.ready, &copies), (step.reads, &reads)] {
            let Some(load) = (count as usize).checked_sub(1) else { continue };
            if needed[load] > number as i64 {
                found.add(Violation::StageDeadlock { step: number, load, steps: needed[load] });
            }
        }
    }
}
