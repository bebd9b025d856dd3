//! Which whole buffers may share bytes, whatever the plan.
//!
//! A whole buffer may lie over lines of another that are dead ([`lines`](super::lines)). Let `s` be
//! the first layer that touches a buffer, and `d` the last that touches all of its lines. When the
//! last step of `s` is there, each line has been touched; when the first step of `d` is, none has
//! been for the last time. If `s` or `d` does not slide, that holds of each of its steps. So if `s`
//! of one buffer comes before `d` of another and no group can have both, each line of the one is
//! touched before any of the other is dead. If that is so both ways, all lines of both hold
//! something at once, and they share nothing.

use super::group::Facts;
use eyelet_model::network::Network;

/// The facts that decide it.
pub struct Shares {
    /// For each layer the first one after it that no group can have with it; itself if it does not
    /// slide.
    parted: Vec<usize>,
    /// For each buffer that has lines of its own the first layer that touches it and the last that
    /// touches all lines.
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
            let all = |layer: &&usize| facts.touches_all(**layer, buffer);
            let last = *facts.touching(buffer).iter().rev().find(all)?;
            Some((users.start, last))
        };
        let spans = (0..network.buffers.len()).map(span).collect();
        Self { parted, spans }
    }

    /// For each of some buffers, all live in one layer, whether it may share bytes with another of
    /// them.
    pub fn among(&self, buffers: &[usize]) -> Vec<bool> {
        // The least end and the greatest start of a group, and the same of all others than the one
        // that has it.
        let (mut ends, mut starts) = ([(usize::MAX, usize::MAX); 2], [(0, usize::MAX); 2]);
        for (at, (first, last)) in spans(self, buffers) {
            let (end, start) = ((last, at), (self.parted[first], at));
            if end.0 < ends[0].0 {
                ends = [end, ends[0]];
            } else if end.0 < ends[1].0 {
                ends[1] = end;
            }
            if start.0 > starts[0].0 {
                starts = [start, starts[0]];
            } else if start.0 > starts[1].0 {
                starts[1] = start;
            }
        }
        let mut may = vec![false; buffers.len()];
        for (at, (first, last)) in spans(self, buffers) {
            let of_others = |of: [(usize, usize); 2]| of[usize::from(of[0].1 == at)].0;
            may[at] = of_others(ends) < self.parted[first] || last < of_others(starts);
        }
        may
    }

    /// Whether two buffers may share bytes if both are whole and live in the same layer.
    pub fn may(&self, one: usize, other: usize) -> bool {
        let (Some(one), Some(other)) = (self.spans[one], self.spans[other]) else { return false };
        // Whether a line of the other may be dead before all of the one have been touched.
        let before = |one: (usize, usize), other: (usize, usize)| other.1 < self.parted[one.0];
        before(one, other) || before(other, one)
    }
}

/// The buffers among `buffers` that have lines of their own: their place in it, and their span.
fn spans<'a>(
    shares: &'a Shares,
    buffers: &'a [usize],
) -> impl Iterator<Item = (usize, (usize, usize))> + 'a {
    buffers.iter().enumerate().filter_map(|(at, &buffer)| Some((at, shares.spans[buffer]?)))
}
