//! Less memory for a plan that reads nothing: scratch is placed with the activations, and not after them.
//!
//! While weights come and go, scratch takes the places that delay no load, beside activations that lie where they need the
//! least by themselves. A plan that keeps all its weights has no loads to delay. What it needs is the height of buffers and
//! scratch together, and the process takes what it needs.

use super::ground::spans;
use crate::memory::{Lifetime, buffer_sizes, lifetimes, place_buffers};
use crate::network::Network;
use crate::plan::Plan;
use crate::slide::line_lives;
use eyelet::pack::{Load, PAGE};

/// Moves what lies above the residents of a plan without loads closer together, if it can be.
pub fn settle(network: &Network, plan: &mut Plan) {
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
    let mut lines = line_lives(network, &plan.steps, &rings, |_, _| false);
    for (index, step) in plan.steps.iter().enumerate() {
        sizes.push(step.scratch_bytes);
        let unused = if step.scratch_bytes == 0 { usize::MAX } else { index + 1 };
        lives.push(Lifetime { start: unused, end: index + 1 });
        lines.push(None);
    }
    let offsets = place_buffers(&sizes, &lives, &lines, period, |_| 0);
    let used = offsets.iter().zip(&sizes).map(|(at, bytes)| at + bytes);
    let end = base + used.max().unwrap_or(0);
    if end.next_multiple_of(PAGE) >= plan.arena_bytes {
        return;
    }
    let (of_buffers, of_scratch) = offsets.split_at(plan.places.len());
    for (place, offset) in plan.places.iter_mut().zip(of_buffers) {
        place.address = base + offset;
    }
    for (step, offset) in plan.steps.iter_mut().zip(of_scratch) {
        if step.scratch_bytes > 0 {
            step.scratch = base + offset;
        }
    }
    plan.arena_bytes = end.next_multiple_of(PAGE);
}
