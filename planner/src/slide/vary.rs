//! Ways to slide that differ from another one in one group.
//!
//! What a group costs is reckoned for it alone when groups are [chosen](super::Search). What it does to a plan (when
//! its weights can be loaded, what its steps' tables leave to others) only a plan tells.

use super::Group;
use super::choose::LINES;
use super::group::Facts;
use crate::network::Network;
use std::ops::Range;

/// A change to one of the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// More lines at a time.
    More,
    /// Fewer.
    Fewer,
    /// The layer before joins; of another group it leaves that.
    Before,
    /// The layer behind joins likewise.
    Behind,
    /// The first layer leaves.
    NotFirst,
    /// The last layer leaves.
    NotLast,
    /// All layers leave.
    None,
}

impl Change {
    pub const ALL: [Self; 7] = [
        Self::More,
        Self::Fewer,
        Self::Before,
        Self::Behind,
        Self::NotFirst,
        Self::NotLast,
        Self::None,
    ];
}

/// What is possible in a network.
pub struct Vary<'a> {
    facts: Facts<'a>,
}

impl<'a> Vary<'a> {
    pub fn new(network: &'a Network) -> Self {
        Self { facts: Facts::new(network) }
    }

    /// The groups with one of them changed, if that is possible.
    pub fn changed(&self, groups: &[Group], index: usize, change: Change) -> Option<Vec<Group>> {
        let mut groups = groups.to_vec();
        let group = groups.get_mut(index)?;
        let lines = LINES.iter().position(|lines| *lines == group.lines);
        match change {
            Change::More => group.lines = *LINES.get(lines? + 1)?,
            Change::Fewer => group.lines = *LINES.get(lines?.checked_sub(1)?)?,
            Change::Before => group.layers.start = group.layers.start.checked_sub(1)?,
            Change::Behind => group.layers.end += 1,
            Change::NotFirst => group.layers.start += 1,
            Change::NotLast => group.layers.end -= 1,
            Change::None => group.layers.end = group.layers.start,
        }
        let taken = group.layers.clone();
        for (other, group) in groups.iter_mut().enumerate() {
            match other.cmp(&index) {
                std::cmp::Ordering::Less => group.layers.end = group.layers.end.min(taken.start),
                std::cmp::Ordering::Equal => {}
                std::cmp::Ordering::Greater => {
                    group.layers.start = group.layers.start.max(taken.end);
                }
            }
        }
        groups.retain(|group| group.layers.len() > 1);
        groups.iter().all(|group| self.can(&group.layers)).then_some(groups)
    }

    /// Whether these layers can be a group.
    fn can(&self, layers: &Range<usize>) -> bool {
        layers.end <= self.facts.network.layers.len()
            && layers
                .clone()
                .all(|layer| self.facts.slides(layer) && self.facts.goes_with(layer, layers.end))
    }
}
