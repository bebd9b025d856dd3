//! A plan whose residents lie elsewhere.

use super::pieces::{Holdings, Use, pages};
use eyelet::pack::{FAST, Load, Step};
use eyelet_model::plan::Plan;
use eyelet_model::tables::Tables;
use std::ops::Range;

/// A plan with its residents in pieces at these addresses, and everything else above them.
pub(super) fn rebuild(
    old: &Plan,
    holdings: &Holdings,
    pieces: impl Iterator<Item = (Range<u64>, u64)>,
    tables: &Tables,
) -> Plan {
    let mut pieces: Vec<_> = pieces.collect();
    pieces.sort_by_key(|(bytes, _)| bytes.start);
    let mut plan = old.clone();
    let end = pieces.iter().map(|(bytes, address)| address + pages(bytes).1).max();
    let end = end.unwrap_or(holdings.rest);
    let moved = |address: u64| address - holdings.rest + end;
    let places = plan.places.iter_mut().filter(|place| place.address < FAST);
    places.for_each(|place| place.address = moved(place.address));
    plan.loads.iter_mut().for_each(|load| load.address = moved(load.address));
    plan.arena_bytes = moved(old.arena_bytes);
    let is_item = |index: usize| holdings.items.iter().any(|item| item.loads.contains(&index));
    plan.resident.clear();
    let mut split: Vec<Vec<Step>> = Vec::with_capacity(old.steps.len());
    for step in &old.steps {
        let is_moved = step.scratch_bytes > 0 && step.scratch < FAST;
        let scratch = if is_moved { moved(step.scratch) } else { step.scratch };
        let weights =
            if step.weights >= holdings.rest { moved(step.weights) } else { step.weights };
        split.push(vec![Step { scratch, weights, ..*step }]);
    }
    for (_, load) in old.resident.iter().enumerate().filter(|(index, _)| !is_item(*index)) {
        plan.resident.push(Load { address: moved(load.address), ..*load });
    }
    for item in &holdings.items {
        for (bytes, address) in pieces.iter().filter(|(bytes, _)| item.has(bytes)) {
            let (offset, room) = pages(bytes);
            plan.resident.push(Load {
                offset,
                address: *address,
                bytes: room as u32,
                ..Load::default()
            });
            for using in &item.steps {
                let (step, above) = (&old.steps[using.step], address.wrapping_sub(offset));
                cut(step, using, bytes, above, &mut split[using.step]);
            }
        }
    }
    // For each number of old steps that are done: the new steps that are done.
    let mut done = vec![0, 1];
    for parts in &split {
        done.push(done[done.len() - 1] + parts.len() as i32);
    }
    plan.steps = split.concat();
    let (before, after) = (old.period() as i32, plan.period() as i32);
    for load in &mut plan.loads {
        let (inferences, steps) =
            (load.release.div_euclid(before), load.release.rem_euclid(before));
        load.release = inferences * after + done[steps as usize];
    }
    plan.tables = plan.tables.max(tables.of_plan(&plan));
    plan
}

/// Has the part of a step that uses these bytes be a step of its own. Bytes of the file lie `above`
/// so much further in the arena.
fn cut(step: &Step, using: &Use, bytes: &Range<u64>, above: u64, parts: &mut Vec<Step>) {
    let within = using.bytes.start.max(bytes.start)..using.bytes.end.min(bytes.end);
    if within.is_empty() {
        return;
    }
    let weights = within.start.wrapping_add(above);
    let mut part = Step { weights, ..parts[0] };
    if within != using.bytes {
        let panel = using.panel.unwrap_or(u64::MAX);
        part.first = step.first + ((within.start - using.bytes.start) / panel) as u32;
        part.count = ((within.end - within.start) / panel) as u32;
    }
    // The first takes the place of the whole.
    match within.start == using.bytes.start {
        true => parts[0] = part,
        false => parts.push(part),
    }
}
