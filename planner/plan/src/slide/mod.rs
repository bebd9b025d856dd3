//! Sliding execution: layers make their lines in turn, so that the images between them need not be
//! there as a whole.
//!
//! A group is a run of layers. It makes a few lines of its last layer at a time. Before that, each
//! other layer makes the lines that these need and that do not exist yet (`Schedule`). Nothing is
//! computed twice. Buffers that are made and used up within the group become rings of image lines,
//! as long as the most lines that are alive at once. The group's inputs and outputs stay whole.
//!
//! The group's weights stay in the arena from its first step to its last, because every layer comes
//! again and again. Or each layer's weights are read again, slice by slice, each time that it
//! comes. That takes no more room than a slice, but more reads. It serves layers that compute long
//! and whose steps then have room to transform weights.
//!
//! A group's outputs may lie over dead lines of its inputs (`lines`).
//!
//! Sliding pays where activations are large and weights small: at the start of most networks.
//! `choose` decides which layers form groups, and how many lines they make at a time.

mod aim;
mod alone;
mod choose;
mod group;
mod least;
mod lines;
mod possible_rings;
mod price;
mod schedule;
mod shares;
mod times;
mod touched;
mod window;

#[cfg(test)]
mod tests;

pub use choose::Search;
pub use lines::line_lives;
pub use possible_rings::least_bytes;
pub use shares::Shares;
pub use touched::{Touched, touched};

use eyelet::pack::{Method, Step};
use eyelet_model::network::Network;
use group::{Chain, Facts};
use schedule::Schedule;
use std::ops::Range;

/// A run of layers whose lines are made in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub layers: Range<usize>,
    /// Lines of the tallest layer that a step makes; of the others in proportion.
    pub lines: u32,
    /// Whether weights are read again each time that a layer comes, slice by slice. Otherwise they
    /// stay from the group's first step to its last.
    pub reloads_weights: bool,
}

impl Group {
    /// Whether consecutive steps of a layer are made slice by slice together.
    fn cuts_together(&self) -> bool {
        self.reloads_weights && self.layers.len() > 1
    }
}

/// The groups of a network, and their steps.
#[derive(Clone, Debug)]
pub struct Sliding {
    groups: Vec<Group>,
    /// The group that has each layer.
    group_of: Vec<Option<usize>>,
    /// The steps of each group.
    steps: Vec<Vec<Step>>,
    /// For each buffer the lines of its ring; 0 if it is whole.
    pub rings: Vec<u32>,
}

impl Sliding {
    /// The given groups, which follow one another. All of their layers must slide.
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

    /// Whether a layer's weights are read again each time that it comes.
    pub fn reloads_weights(&self, layer: usize) -> bool {
        self.group_of[layer].is_some_and(|group| self.groups[group].reloads_weights)
    }

    /// Whether two consecutive steps are made slice by slice together, because both read their
    /// weights again. In a group of a single layer steps are made one by one.
    pub fn cut_together(&self, one: &Step, other: &Step) -> bool {
        let group = self.group_of[one.layer as usize].map(|group| &self.groups[group]);
        one.layer == other.layer && group.is_some_and(Group::cuts_together)
    }

    /// The group for whose whole time a layer's weights stay.
    pub fn keeps(&self, layer: usize) -> Option<usize> {
        self.group_of[layer].filter(|group| !self.groups[*group].reloads_weights)
    }

    /// Replaces the steps of layers in groups by the steps of the groups.
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

/// For each layer: whether a group can contain it.
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
            method: Method::by(network.on_load[member.layer]),
            weights_in: network.region(member.layer),
            ..Step::default()
        }
    })
}
