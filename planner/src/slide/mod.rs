//! Sliding execution: layers that make their lines in turn, so that what lies between them need not
//! be there as a whole.
//!
//! A group is a run of layers. A few lines of its last layer are made at a time; before that, of
//! each other layer, the lines that this needs and that have not been made yet ([`Schedule`]).
//! Nothing is ever computed twice. Buffers that are made and used up within the group become rings
//! of image lines, as long as the most lines that are alive at once; its inputs and outputs stay
//! whole. The group's weights stay in the arena from the first step to the last, because each of
//! them is needed again and again; or each layer's are read anew, slice by slice, each time that it
//! comes. That takes no more room than a slice, and more reads: it serves layers that compute long,
//! whose steps find room to transform weights so.
//!
//! What a group puts out may lie over what it has read ([`lines`]).
//!
//! That pays where activations are large and weights small: at the head of most networks.
//! [`choose`] decides which layers form groups, and of how many lines.

mod alone;
mod choose;
mod group;
mod least;
mod lines;
mod price;
mod rings;
mod schedule;
mod shares;
mod times;
mod touched;
mod window;

#[cfg(test)]
pub(crate) mod tests;

pub use choose::Search;
pub use lines::line_lives;
pub use rings::least_bytes;
pub use shares::Shares;
pub use touched::{Touched, touched};

use crate::network::Network;
use eyelet::pack::Step;
use group::{Chain, Facts};
use schedule::Schedule;
use std::ops::Range;

/// A run of layers whose lines are made in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub layers: Range<usize>,
    /// Lines of the tallest layer that a step makes; of the others in proportion.
    pub lines: u32,
    /// Weights are read anew each time that a layer comes, slice by slice; else they stay from its
    /// first step to its last.
    pub anew: bool,
}

impl Group {
    /// Whether what a layer makes in a row is made slice by slice.
    fn cuts_together(&self) -> bool {
        self.anew && self.layers.len() > 1
    }
}

/// The groups of a network, and what they make of its steps.
#[derive(Clone, Debug)]
pub struct Sliding {
    groups: Vec<Group>,
    /// The group that has each layer.
    group_of: Vec<Option<usize>>,
    /// The steps of each.
    steps: Vec<Vec<Step>>,
    /// For each buffer the lines of its ring; 0 if it is whole.
    pub rings: Vec<u32>,
}

impl Sliding {
    /// Groups follow one another, and all of their layers [slide](Facts::slides).
    pub fn new(network: &Network, groups: Vec<Group>) -> Self {
        let mut rings = vec![0; network.buffers.len()];
        let mut steps = Vec::new();
        if !groups.is_empty() {
            let facts = Facts::new(network);
            for group in &groups {
                let chain = Chain::new(&facts, group.layers.clone());
                let schedule = Schedule::new(&chain, group.lines);
                steps.push(steps_of(network, &chain, &schedule).collect());
                for (inner, lines) in chain.inner.iter().zip(&schedule.rings) {
                    rings[inner.buffer] = *lines;
                }
            }
        }
        let mut group_of = vec![None; network.layers.len()];
        for (index, group) in groups.iter().enumerate() {
            group_of[group.layers.clone()].fill(Some(index));
        }
        Self { groups, group_of, steps, rings }
    }

    /// The groups, in order.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The group that has a layer.
    pub fn group_of(&self, layer: usize) -> Option<usize> {
        self.group_of[layer]
    }

    /// Whether the weights of a layer are read anew each time that it comes.
    pub fn anew(&self, layer: usize) -> bool {
        self.group_of[layer].is_some_and(|group| self.groups[group].anew)
    }

    /// Whether two steps that follow one another are made slice by slice together, since weights
    /// are read anew for both: what a layer makes in a row. But one by one where there is no other
    /// layer in between, ever.
    pub fn cut_together(&self, one: &Step, other: &Step) -> bool {
        let group = self.group_of[one.layer as usize].map(|group| &self.groups[group]);
        one.layer == other.layer && group.is_some_and(Group::cuts_together)
    }

    /// The group as long as which the weights of a layer stay.
    pub fn keeps(&self, layer: usize) -> Option<usize> {
        self.group_of[layer].filter(|group| !self.groups[*group].anew)
    }

    /// Puts the steps of groups in the place of their layers' own.
    pub fn interleave(&self, steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
        if self.groups.is_empty() {
            return steps.into_iter().collect();
        }
        let mut all = Vec::new();
        let mut inside = None;
        for step in steps {
            match self.group_of(step.layer as usize) {
                None => all.push(step),
                group if group == inside => {}
                group => {
                    inside = group;
                    all.extend(group.into_iter().flat_map(|group| &self.steps[group]));
                }
            }
        }
        all
    }
}

/// For each layer whether a group can have it.
pub fn slides(network: &Network) -> Vec<bool> {
    let facts = Facts::new(network);
    (0..network.layers.len()).map(|layer| facts.slides(layer)).collect()
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
