//! Less memory for a plan that reads nothing: scratch is placed with the activations, not after
//! them.
//!
//! While weights come and go, scratch takes places that delay no load, next to activations that lie
//! as compactly as they can alone. A plan that keeps all its weights has no loads to delay. It
//! needs no more than the height of buffers and scratch together.

use super::activations::spans;
use crate::memory::{Lifetime, buffer_sizes, lifetimes, place_buffers};
use crate::slide::line_lives;
use eyelet::pack::{FAST, Load, PAGE};
use eyelet_model::network::Network;
use eyelet_model::plan::Plan;

/// Moves everything above the residents of a plan without loads closer together, if that is
/// possible.
pub fn compact(network: &Network, plan: &mut Plan) {
    let rings: Vec<u32> = plan.places.iter().map(|place| place.lines).collect();
    let mut sizes = buffer_sizes(network, &rings);
    let base = plan.tables + plan.resident_bytes();
    let below = |load: &Load| load.address + u64::from(load.bytes) <= base;
    if !plan.loads.is_empty() || !plan.resident.iter().all(below) {
        return;
    }
    let period = plan.steps.len() + 1;
    let spans = spans(network, &plan.steps);
    let mut lives = lifetimes(network, period, |layer| spans[layer].clone());
    // Buffers in fast memory stay there.
    for (life, _) in lives.iter_mut().zip(&plan.places).filter(|(_, place)| place.address >= FAST) {
        *life = Lifetime { start: usize::MAX, end: 0 };
    }
    let mut lines = line_lives(network, &plan.steps, &rings, |_, _| false);
    for (index, step) in plan.steps.iter().enumerate() {
        sizes.push(step.scratch_bytes);
        let is_there = step.scratch_bytes > 0 && step.scratch < FAST;
        let start = if is_there { index + 1 } else { usize::MAX };
        lives.push(Lifetime { start, end: index + 1 });
        lines.push(None);
    }
    let offsets = place_buffers(&sizes, &lives, &lines, period);
    let used = offsets.iter().zip(&sizes).zip(&lives).filter(|(_, life)| life.start != usize::MAX);
    let used = used.map(|((at, bytes), _)| at + bytes);
    // An arena has a page at least.
    let end = (base + used.max().unwrap_or(0)).max(1);
    if end.next_multiple_of(PAGE) >= plan.arena_bytes {
        return;
    }
    let (of_buffers, of_scratch) = offsets.split_at(plan.places.len());
    let places = plan.places.iter_mut().zip(of_buffers);
    for (place, offset) in places.filter(|(place, _)| place.address < FAST) {
        place.address = base + offset;
    }
    for (step, offset) in plan.steps.iter_mut().zip(of_scratch) {
        if step.scratch_bytes > 0 && step.scratch < FAST {
            step.scratch = base + offset;
        }
    }
    plan.arena_bytes = end.next_multiple_of(PAGE);
}
