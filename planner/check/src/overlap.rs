//! No two things in the same bytes at the same time.
//!
//! Buffers, scratch, loads in flight and weights in use each hold a range of the arena during a range
//! of half steps; buffers conflict with everything, scratch with loads and weights. Loads among
//! themselves are done one after the other and are judged by what they destroy ([`super::weights`]).
//! Residents conflict with everything at any time. Two buffers may share bytes where one has lines that are dead
//! before the other's are made ([`super::lines`]).

use super::extent::step_weights;
use super::held::{Held, steps};
use super::meeting::{Union, pairs};
use super::structure::image;
use super::weights::Source;
use super::{Found, Holder, Occupant, Proof, Schedule, Violation, lines, meet, rings, span};
use eyelet::pack::NONE;
use eyelet_model::network::Network;
use eyelet_model::plan::Plan;
use std::collections::BTreeMap;
use std::ops::Range;

pub fn check(
    network: &Network,
    plan: &Plan,
    schedule: &Schedule,
    sources: &[Source],
    found: &mut Found,
) -> Proof {
    let buffers: Vec<Held> = buffers(network, plan);
    let scratch: Vec<Held> = scratch(plan);
    let flights: Vec<Held> = flights(plan, schedule);
    let weights: Vec<Held> = weights(network, plan, schedule, sources);

    let period = 2 * plan.period();
    let mut pair = |a: &Held, b: &Held| {
        if meet(&a.bytes, &b.bytes) && a.meets(b, period) {
            found.add(Violation::Overlap { a: a.occupant(), b: b.occupant() });
        }
    };
    // Buffers with everything, scratch with loads and weights.
    let kinds = [&buffers[..], &scratch, &flights, &weights];
    let matters = |one: usize, other: usize| one == 0 || one == 1 && other > 1;
    pairs(&kinds, period, matters, |one, other| {
        match by_lines(network, plan, one, other) {
            // Line by line.
            Some([ours, theirs]) => {
                ours.iter().for_each(|line| theirs.iter().for_each(|other| pair(line, other)));
            }
            None => pair(one, other),
        }
    });
    residents(plan, &[&buffers, &scratch, &flights], found);
    summarise(plan, &buffers, &scratch, &flights, &weights)
}

/// The lines of two buffers, if these may share bytes.
fn by_lines(network: &Network, plan: &Plan, a: &Held, b: &Held) -> Option<[Vec<Held>; 2]> {
    let (Holder::Buffer(one), Holder::Buffer(other)) = (a.holder, b.holder) else { return None };
    Some([lines::held(network, plan, one)?, lines::held(network, plan, other)?])
}

/// The buffers, while they are live: from the first step that touches one to the last. The host fills
/// inputs in step 0, and takes outputs in step 0 of the inference that follows. A buffer that is both
/// is live all the time; the host takes from it before it fills it.
fn buffers(network: &Network, plan: &Plan) -> Vec<Held> {
    let mut live: Vec<Option<Range<i64>>> = vec![None; network.buffers.len()];
    let mut touch = |tensor: u32, step: i64| {
        let live = &mut live[network.tensors[tensor as usize].buffer as usize];
        *live = match live.take() {
            None => Some(step..step + 1),
            Some(live) => Some(live.start.min(step)..live.end.max(step + 1)),
        };
    };
    network.inputs.iter().for_each(|port| touch(port.tensor, 0));
    for (index, step) in plan.steps.iter().enumerate() {
        let layer = &network.layers[step.layer as usize];
        let inputs = layer.inputs.into_iter().filter(|input| *input != NONE);
        inputs.chain([layer.output]).for_each(|tensor| touch(tensor, index as i64 + 1));
    }
    network.outputs.iter().for_each(|port| touch(port.tensor, plan.period()));
    let held = live.into_iter().enumerate().filter_map(|(buffer, live)| {
        let (live, bytes) = (live?, rings::bytes(network, plan, buffer));
        Some(Held {
            holder: Holder::Buffer(buffer),
            bytes: span(plan.places[buffer].address, bytes),
            time: 2 * live.start + 1..2 * live.end,
        })
    });
    held.collect()
}

/// The scratch of steps.
fn scratch(plan: &Plan) -> Vec<Held> {
    let held = plan.steps.iter().zip(1i64..).map(|(step, number)| Held {
        holder: Holder::Scratch { step: number as usize },
        bytes: span(step.scratch, step.scratch_bytes),
        time: 2 * number + 1..2 * number + 2,
    });
    held.filter(|held| !held.bytes.is_empty()).collect()
}

/// From the gap in which a load may start to the gap in which it is done at the latest.
fn flights(plan: &Plan, schedule: &Schedule) -> Vec<Held> {
    let held = plan.loads.iter().enumerate().map(|(load, record)| Held {
        holder: Holder::Load(load),
        bytes: image(record),
        time: 2 * schedule.earliest[load]..2 * schedule.deadline[load] + 1,
    });
    held.collect()
}

/// The weights that a step reads from a load, from the moment at which it is certainly done.
fn weights(network: &Network, plan: &Plan, schedule: &Schedule, sources: &[Source]) -> Vec<Held> {
    let held = plan.steps.iter().zip(sources).enumerate().filter_map(|(index, (step, source))| {
        let &Source::Load(load) = source else { return None };
        let weights = step_weights(network, step);
        let number = index as i64 + 1;
        Some(Held {
            holder: Holder::Weights { step: number as usize, load },
            bytes: span(step.weights, weights.end - weights.start),
            time: 2 * schedule.deadline[load] + 1..2 * number + 2,
        })
    });
    held.collect()
}

/// Residents have their bytes for themselves. They lie in order here, so that of each other thing
/// only those nearby are looked at.
fn residents(plan: &Plan, others: &[&Vec<Held>], found: &mut Found) {
    let mut order: Vec<(Range<u64>, usize)> =
        plan.resident.iter().enumerate().map(|(at, load)| (image(load), at)).collect();
    order.sort_unstable_by_key(|(bytes, at)| (bytes.start, *at));
    let mut add = |(bytes, resident): &(Range<u64>, usize), by: Box<Occupant>| {
        let (bytes, resident) = (bytes.clone(), *resident);
        found.add(Violation::ResidentOverwritten { resident, bytes, by });
    };
    let mut apart = true;
    for pair in order.windows(2) {
        if meet(&pair[0].0, &pair[1].0) {
            let (bytes, other) = pair[1].clone();
            add(
                &pair[0],
                Box::new(Occupant { holder: Holder::Resident(other), bytes, steps: None }),
            );
            apart = false;
        }
    }
    // Those that meet each other are not found by where they end.
    let before = |start: u64| {
        if apart { order.partition_point(|(bytes, _)| bytes.end <= start) } else { 0 }
    };
    for held in others.iter().copied().flatten() {
        let near = order[before(held.bytes.start)..].iter();
        let near = near.take_while(|(bytes, _)| bytes.start < held.bytes.end);
        near.filter(|(bytes, _)| meet(bytes, &held.bytes))
            .for_each(|one| add(one, held.occupant()));
    }
}

fn summarise(
    plan: &Plan,
    buffers: &[Held],
    scratch: &[Held],
    flights: &[Held],
    weights: &[Held],
) -> Proof {
    let period = plan.period();
    let resident_bytes = plan.resident_bytes();
    let activations = bytes_of_buffers(buffers, period);
    let scratch = scratch.iter().map(|held| (held.bytes.clone(), held.time.clone()));
    let scratch = load_of_steps(scratch, period);
    // A load comes as a whole; from then on each slice is there until the last step that reads it is done.
    let mut slices: BTreeMap<(u64, u64, i64), i64> = BTreeMap::new();
    for Held { bytes, time, .. } in weights {
        let last = slices.entry((bytes.start, bytes.end, time.start)).or_insert(time.end);
        *last = time.end.max(*last);
    }
    let flights = flights.iter().map(|held| (held.bytes.clone(), held.time.clone()));
    let slices = slices.into_iter().map(|((low, high, start), end)| (low..high, start..end));
    let loads = load_of_steps(flights.chain(slices), period);
    let total = |step: usize| activations[step] + scratch[step] + loads[step] + resident_bytes;
    let peak_step = (0..period as usize).max_by_key(|&step| total(step)).unwrap_or(0);
    Proof {
        arena_bytes: plan.arena_bytes,
        resident_bytes,
        read_bytes: plan.bytes_per_inference(),
        peak_activation_bytes: activations.iter().copied().max().unwrap_or(0),
        peak_scratch_bytes: scratch.iter().copied().max().unwrap_or(0),
        peak_live_bytes: total(peak_step),
        peak_step,
    }
}

/// Bytes that buffers hold during each step of an inference; those that two of them share, line by line, count once.
fn bytes_of_buffers(buffers: &[Held], period: i64) -> Vec<u64> {
    let ends = buffers.iter().flat_map(|held| [held.bytes.start, held.bytes.end]).collect();
    let mut union = Union::new(ends);
    let mut events: Vec<Vec<(usize, bool)>> = vec![Vec::new(); period as usize + 1];
    for (at, held) in buffers.iter().enumerate() {
        let steps = held.steps();
        let length = (steps.end - steps.start).min(period);
        let start = steps.start.rem_euclid(period);
        for (from, to) in [(start, period.min(start + length)), (0, start + length - period)] {
            if from < to {
                events[from as usize].push((at, true));
                events[to as usize].push((at, false));
            }
        }
    }
    let of_step = |events: &Vec<(usize, bool)>| {
        events.iter().for_each(|&(at, comes)| union.change(&buffers[at].bytes, comes));
        union.bytes()
    };
    events[..period as usize].iter().map(of_step).collect()
}

/// Bytes held during each step of an inference, from ranges of them and of half steps.
fn load_of_steps(held: impl Iterator<Item = (Range<u64>, Range<i64>)>, period: i64) -> Vec<u64> {
    let mut change = vec![0i64; period as usize + 1];
    for (bytes, time) in held {
        let bytes = (bytes.end - bytes.start) as i64;
        let Range { start, end } = steps(&time);
        let end = end.min(start + period);
        let first = start.rem_euclid(period);
        let last = first + (end - start);
        change[first as usize] += bytes;
        change[last.min(period) as usize] -= bytes;
        if last > period {
            change[0] += bytes;
            change[(last - period) as usize] -= bytes;
        }
    }
    let mut now = 0i64;
    let sums = change[..period as usize].iter().map(|change| {
        now += change;
        now as u64
    });
    sums.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_buffers_share_counts_once() {
        let held = |buffer: usize, bytes: Range<u64>, steps: Range<i64>| Held {
            holder: Holder::Buffer(buffer),
            bytes,
            time: 2 * steps.start + 1..2 * steps.end,
        };
        // The third lies over the end of the first, line by line; the last is there from one inference to the next.
        let buffers = [
            held(0, 0..40, 0..3),
            held(1, 100..110, 1..2),
            held(2, 30..70, 1..3),
            held(3, 50..60, 3..5),
        ];
        assert_eq!(bytes_of_buffers(&buffers, 4), [50, 80, 70, 10]);
    }
}
