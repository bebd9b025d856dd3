//! Which whole buffers may share bytes, whatever the plan.
//!
//! A whole buffer may lie over lines of another that are dead ([`lines`](super::lines)). Let `s` be the first layer that touches a
//! buffer, and `d` the last that touches all of its lines. When the last step of `s` is there, each line has been touched; when the first
//! step of `d` is, none has been for the last time. If `s` or `d` does not slide, that holds of each of its steps. So if `s` of
//! one buffer comes before `d` of another and no group can have both, each line of the one is touched before any of the other is dead. If
//! that is so both ways, all lines of both hold something at once, and they share nothing.

use super::group::Facts;
use crate::network::Network;

/// What decides on it.
pub struct Shares {
    /// For each layer the first behind it that no group can have with it; itself if it does not slide.
    parted: Vec<usize>,
    /// For each buffer that has lines of its own the first layer that touches it and the last that touches all lines.
    spans: Vec<Option<(usize, usize)>>,
}

impl Shares {
    pub fn new(network: &Network) -> Self {
        let facts = Facts::new(network);
        let layers = network.layers.len();
        let mut parted: Vec<usize> = (0..layers).collect();
        for layer in (0..layers).rev().filter(|&layer| facts.slides(layer)) {
            let next = parted.get(layer + 1).map_or(layer + 1, |next| *next);
            parted[layer] = next.min(facts.parted(layer));
        }
        let slide = (0..layers).any(|layer| facts.slides(layer));
        let span = |buffer: usize| {
            let users = facts.users(buffer).filter(|users| slide && !users.is_empty())?;
            let last = users.clone().rev().find(|layer| facts.touches_all(*layer, buffer))?;
            Some((users.start, last))
        };
        let spans = (0..network.buffers.len()).map(span).collect();
        Self { parted, spans }
    }

    /// Whether two buffers may share bytes if both are whole and live in the same layer.
    pub fn may(&self, one: usize, other: usize) -> bool {
        let (Some(one), Some(other)) = (self.spans[one], self.spans[other]) else { return false };
        // Whether a line of the other may be dead before all of the one have been touched.
        let before = |one: (usize, usize), other: (usize, usize)| other.1 < self.parted[one.0];
        before(one, other) || before(other, one)
    }
}
