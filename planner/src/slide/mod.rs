//! Sliding execution: layers that make their lines in turn, so that what lies between them need not be
//! there as a whole.
//!
//! A group is a run of layers. A few lines of its last layer are made at a time; before that, of each
//! other layer, the lines that this needs and that have not been made yet ([`Schedule`]). Nothing is ever
//! computed twice. Buffers that are made and used up within the group become rings of image lines, as
//! long as the most lines that are alive at once; its inputs and outputs stay whole. The group's weights
//! stay in the arena from the first step to the last, because each of them is needed again and again.
//!
//! What a group puts out may lie over what it has read ([`lines`]).
//!
//! That pays where activations are large and weights small: at the head of most networks. [`choose`]
//! decides which layers form groups, and of how many lines.

mod choose;
mod group;
mod lines;
mod window;

#[cfg(test)]
pub(crate) mod tests;

pub use choose::Search;
pub use lines::{Lines, line_lives};

use crate::network::Network;
use eyelet::pack::Step;
use eyelet::pack::ring_bytes;
use group::{Chain, Facts, Schedule};
use std::ops::Range;

/// A run of layers whose lines are made in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub layers: Range<usize>,
    /// Lines of the tallest layer that a step makes; of the others in proportion.
    pub lines: u32,
}

/// Puts the steps of groups in the place of their layers' own. Groups follow one another, and all of
/// their layers [slide](Facts::slides). Returns the steps, and for each buffer the lines of its ring (0:
/// it is whole).
pub fn interleave(
    network: &Network,
    groups: &[Group],
    steps: impl IntoIterator<Item = Step>,
) -> (Vec<Step>, Vec<u32>) {
    let mut rings = vec![0; network.buffers.len()];
    if groups.is_empty() {
        return (steps.into_iter().collect(), rings);
    }
    let facts = Facts::new(network);
    let mut all = Vec::new();
    let mut groups = groups.iter().peekable();
    let mut inside: Option<&Group> = None;
    for step in steps {
        let layer = step.layer as usize;
        if inside.is_some_and(|group| group.layers.contains(&layer)) {
            continue;
        }
        inside = groups.next_if(|group| group.layers.contains(&layer));
        let Some(group) = inside else {
            all.push(step);
            continue;
        };
        let chain = Chain::new(&facts, group.layers.clone());
        let schedule = Schedule::new(&chain, group.lines);
        all.extend(steps_of(network, &chain, &schedule));
        for (inner, lines) in chain.inner.iter().zip(&schedule.rings) {
            rings[inner.buffer] = *lines;
        }
    }
    (all, rings)
}

/// For each layer whether a group can have it.
pub fn slides(network: &Network) -> Vec<bool> {
    let facts = Facts::new(network);
    (0..network.layers.len()).map(|layer| facts.slides(layer)).collect()
}

/// For each buffer the fewest bytes that hold what a step uses of it, however layers slide: a line in a ring; all of
/// it where it can be no ring.
pub fn least_bytes(network: &Network) -> Vec<u64> {
    let facts = Facts::new(network);
    let mut bytes: Vec<u64> = network.buffers.iter().map(|buffer| buffer.bytes).collect();
    for tensor in &network.tensors {
        let buffer = tensor.buffer as usize;
        if facts.can_be_inner(buffer) {
            bytes[buffer] = ring_bytes(1, tensor.dims[2], tensor.pitch);
        }
    }
    bytes
}

/// The steps of a group.
fn steps_of<'a>(
    network: &'a Network,
    chain: &'a Chain,
    schedule: &'a Schedule,
) -> impl Iterator<Item = Step> + 'a {
    schedule.pieces.iter().map(|piece| {
        let member = &chain.members[piece.member];
        Step {
            layer: member.layer as u32,
            first: 0,
            count: network.layers[member.layer].panels,
            row: piece.lines.start * member.width,
            rows: (piece.lines.end - piece.lines.start) * member.width,
            algorithm: network.on_load[member.layer],
            ..Step::default()
        }
    })
}
