//! Every step finds its weights where it looks for them, and they stay until it is done.

use super::extent::step_weights;
use super::structure::image;
use super::{Found, Holder, Schedule, Violation, meet, span};
use eyelet::pack::{Load, Region};
use eyelet_model::network::Network;
use eyelet_model::plan::Plan;
use std::ops::Range;

/// Where a step has its weights from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// It has none, or they are nowhere (a violation).
    None,
    Resident,
    Load(usize),
    /// The pack itself.
    Pack,
}

/// The source of each step's weights, in the order of `plan.steps`.
pub fn check(
    network: &Network,
    plan: &Plan,
    schedule: &Schedule,
    found: &mut Found,
) -> Vec<Source> {
    let sources = plan.steps.iter().enumerate().map(|(index, step)| {
        let bytes = step_weights(network, step);
        if bytes.is_empty() {
            return Source::None;
        }
        if step.weights_in == Region::Mapped {
            in_place(network, index, &bytes, step.weights, found);
            return Source::Pack;
        }
        if plan.resident.iter().any(|load| address(load, &bytes) == Some(step.weights)) {
            return Source::Resident;
        }
        // Of several loads that bring the same bytes to the same place the last one counts.
        let ready = step.ready as usize;
        let brings = |load: &Load| address(load, &bytes) == Some(step.weights);
        match plan.loads[..ready].iter().rposition(brings) {
            Some(load) => {
                let at = span(step.weights, bytes.end - bytes.start);
                overwritten(plan, schedule, index as i64 + 1, load, at, found);
                Source::Load(load)
            }
            None => {
                found.add(explain(plan, index, bytes));
                Source::None
            }
        }
    });
    sources.collect()
}

/// A step that uses its weights in the pack finds them where the writer puts them.
fn in_place(network: &Network, index: usize, bytes: &Range<u64>, address: u64, found: &mut Found) {
    let step = index + 1;
    if network.mapped.is_none() {
        found.add(Violation::NotMapped { step });
    } else if address != bytes.start {
        found.add(Violation::WeightsInPack { step, found: address, expected: bytes.start });
    }
}

/// Where a load puts these bytes of the weights section, if it brings them all.
fn address(load: &Load, bytes: &Range<u64>) -> Option<u64> {
    let end = load.offset.saturating_add(load.bytes.into());
    (load.offset <= bytes.start && bytes.end <= end)
        .then(|| load.address + (bytes.start - load.offset))
}

/// Why no load brings a step's weights.
fn explain(plan: &Plan, index: usize, bytes: Range<u64>) -> Violation {
    let step = &plan.steps[index];
    let (number, ready) = (index + 1, step.ready as usize);
    let brings = |load: &Load| address(load, &bytes) == Some(step.weights);
    if let Some(load) = plan.loads[ready..].iter().position(brings) {
        return Violation::ReadyTooSmall { step: number, ready: step.ready, load: ready + load };
    }
    let resident = plan.resident.iter().enumerate().map(|(i, load)| (Holder::Resident(i), load));
    let loads = plan.loads.iter().enumerate().map(|(i, load)| (Holder::Load(i), load));
    for (holder, load) in resident.chain(loads) {
        if let Some(expected) = address(load, &bytes) {
            let found = step.weights;
            return Violation::WeightsAddress { step: number, holder, found, expected };
        }
    }
    Violation::NotLoaded { step: number, weights: bytes }
}

/// No later load, of this inference or the next, may start before step `step` is done and puts its
/// bytes over those of the step. (Earlier ones are done before this one starts.)
fn overwritten(
    plan: &Plan,
    schedule: &Schedule,
    step: i64,
    load: usize,
    at: Range<u64>,
    found: &mut Found,
) {
    let this = (load + 1..plan.loads.len()).map(|by| (by, 0));
    let next = (0..plan.loads.len()).map(|by| (by, plan.period()));
    for (by, shift) in this.chain(next) {
        // `earliest` never decreases from load to load: all that follow start later still.
        let release = schedule.earliest[by] + shift;
        if release > step {
            break;
        }
        if meet(&at, &image(&plan.loads[by])) {
            found.add(Violation::WeightsOverwritten {
                step: step as usize,
                load,
                by,
                release,
                bytes: at.clone(),
            });
        }
    }
}
