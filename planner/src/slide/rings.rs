//! Which buffers can be rings in so much memory, whatever the plan.
//!
//! The layers that use a ring need all of their weights from the moment at which its first line is written over to its writer's
//! last line: these have been used by then, and will be; and weights are read once in an inference. Of layers that follow
//! one another more must be there. Let `c` be the lines that a layer has made, with all panels, and `b` those that it
//! has begun. Of what it makes the next layer will read all lines from `s · c'` on, `s` being that one's stride and
//! `c'` what it has made; so `b − s · c'` lines are there, and in sum over layers one after the other, counted in
//! lines of the first, no less than the first has begun, up to one that has made none. Such a line takes no less than the least
//! of those of all these layers.
//!
//! - When the first line of the ring is written over, there is a last layer before it of which some panel has begun the last line,
//!   and a first one behind it that has made none. All between are under way, with their weights; and from the one to the other
//!   all lines of the first are there, in whatever buffers.
//! - When its writer begins its last line, all others are there, in the ring and behind it, up to such a layer.
//!
//! If none of the layers that these can be leaves enough memory, the buffer is whole. While its writer and its readers are under
//! way, all buffers that live in one of these are there, too, and those that can be no rings are whole.

use super::group::Facts;
use crate::memory::{Lifetime, lifetimes};
use crate::network::Network;
use eyelet::pack::ring_bytes;

/// For each buffer the fewest bytes that hold what a step uses of it, however layers slide: in a ring the lines that one of
/// its readers sees; all of it where it can be no ring, with weights and lines of other layers in `room` bytes.
pub fn least_bytes(network: &Network, room: u64) -> Vec<u64> {
    let facts = Facts::new(network);
    let line = Line::new(&facts);
    let layers = network.layers.len();
    let lives = lifetimes(network, layers + 1, |layer| layer + 1..layer + 2);
    let mut bytes: Vec<u64> = network.buffers.iter().map(|buffer| buffer.bytes).collect();
    let mut rings: Vec<(usize, Vec<Vec<usize>>)> = Vec::new();
    let mut known = vec![false; bytes.len()];
    for tensor in &network.tensors {
        let buffer = tensor.buffer as usize;
        if std::mem::replace(&mut known[buffer], true) || !facts.can_be_inner(buffer) {
            continue;
        }
        let mut bound: Vec<Vec<usize>> = facts.bound_by(buffer).collect();
        let all = bound.len();
        bound.retain(|layers| layers.first().is_none_or(|writer| line.fits(*writer, room as f64)));
        if all == 0 || !bound.is_empty() {
            let ring = ring_bytes(facts.least_lines(buffer), tensor.dims[2], tensor.pitch);
            bytes[buffer] = bytes[buffer].min(ring);
            rings.push((buffer, bound));
        }
    }
    // What is no ring leaves others the less memory.
    loop {
        let live = |layer: usize| -> u64 {
            let here = |life: &Lifetime| {
                life.start != usize::MAX && (life.start..=life.end).contains(&(layer + 1))
            };
            let live = lives.iter().zip(&bytes).filter(|(life, _)| here(life));
            live.map(|(_, bytes)| bytes).sum()
        };
        let fits = |layers: &Vec<usize>| {
            let weights: u64 = layers.iter().map(|layer| weights(network, *layer)).sum();
            weights + layers.iter().map(|layer| live(*layer)).max().unwrap_or(0) <= room
        };
        let is_none =
            |(_, bound): &(usize, Vec<Vec<usize>>)| !bound.is_empty() && !bound.iter().any(fits);
        let Some(at) = rings.iter().position(is_none) else { return bytes };
        let (buffer, _) = rings.swap_remove(at);
        bytes[buffer] = network.buffers[buffer].bytes;
    }
}

fn weights(network: &Network, layer: usize) -> u64 {
    let layer = &network.layers[layer];
    u64::from(layer.panels) * u64::from(layer.panel_bytes)
}

/// All layers, and which of them read what the one before made.
struct Line {
    weights: Vec<f64>,
    slides: Vec<bool>,
    /// For each layer whether the next one reads its output from the first line to the last, and nobody else writes there.
    follows: Vec<bool>,
    /// Lines of the first layer of those that follow one another for one of a layer's,
    scale: Vec<f64>,
    /// for all of them,
    lines: Vec<f64>,
    /// and what a layer's output has of bytes for each of them.
    bytes: Vec<f64>,
}

impl Line {
    fn new(facts: &Facts<'_>) -> Self {
        let network = facts.network;
        let layers = network.layers.len();
        let strides: Vec<Option<u32>> =
            (0..layers).map(|layer| facts.stride_to_next(layer)).collect();
        let (mut scale, mut lines, mut bytes) = (vec![1.0; layers], Vec::new(), Vec::new());
        for layer in 0..layers {
            let (output, here) = (facts.output(layer), scale[layer]);
            let [height, width] = [output.dims[1], output.dims[2]].map(f64::from);
            lines.push(height * here);
            bytes.push(4.0 * width * f64::from(output.cols()) / here);
            if let (Some(stride), Some(next)) = (strides[layer], scale.get_mut(layer + 1)) {
                *next = here * f64::from(stride);
            }
        }
        Self {
            weights: (0..layers).map(|layer| weights(network, layer) as f64).collect(),
            slides: (0..layers).map(|layer| facts.slides(layer)).collect(),
            follows: strides.iter().map(Option::is_some).collect(),
            scale,
            lines,
            bytes,
        }
    }

    /// Whether the output of a layer can be a ring.
    fn fits(&self, writer: usize, room: f64) -> bool {
        !self.follows[writer]
            || (self.fits_at_first(writer, room) && self.fits_at_last(writer, room))
    }

    fn fits_at_first(&self, writer: usize, room: f64) -> bool {
        let (mut weights, mut least) = (0.0, f64::INFINITY);
        for first in (0..=writer).rev() {
            weights += self.weights[first];
            least = least.min(self.bytes[first]);
            if weights > room {
                return false;
            }
            // Of whose lines nothing is known, nothing is counted.
            let before = first.checked_sub(1).filter(|before| self.follows[*before]);
            let (lines, bytes) =
                before.map_or((0.0, 0.0), |before| (self.lines[before], self.bytes[before]));
            if self.fits_from(writer, lines, weights, least.min(bytes), room) {
                return true;
            }
            if before.is_none_or(|before| !self.slides[before]) {
                return false;
            }
        }
        false
    }

    fn fits_at_last(&self, writer: usize, room: f64) -> bool {
        let others = self.lines[writer] - self.scale[writer];
        self.fits_from(writer, others, self.weights[writer], self.bytes[writer], room)
    }

    /// Whether weights of layers that are under way behind the ring's writer, and these lines, fit beside the weights before.
    fn fits_from(&self, writer: usize, lines: f64, weights: f64, bytes: f64, room: f64) -> bool {
        let (mut weights, mut least) = (weights, bytes);
        for last in writer + 1..self.weights.len() {
            // It has made none before it has made all.
            if !self.slides[last] {
                return false;
            }
            weights += self.weights[last];
            least = least.min(self.bytes[last]);
            let ends = !self.follows[last];
            let there = if ends { 0.0 } else { lines * least };
            if weights + there <= room {
                return true;
            }
            if ends {
                return false;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundred lines of 4, 4, 1, 4 and 4 bytes between layers of 10 bytes of weights each, of which some slide.
    fn line(slides: [bool; 5]) -> Line {
        let bytes = vec![4.0, 4.0, 1.0, 4.0, 4.0];
        let (weights, lines) = (vec![10.0; 5], vec![100.0; 5]);
        let follows = vec![true, true, true, true, false];
        Line { weights, slides: slides.to_vec(), follows, scale: vec![1.0; 5], lines, bytes }
    }

    #[test]
    fn lines_are_where_they_take_least() {
        let line = line([false, true, true, true, false]);
        let least = |writer: usize| (0..1000).find(|room| line.fits(writer, f64::from(*room)));
        // Behind two layers under way, or three; those without weights for it are none.
        assert_eq!([least(1), least(2)], [Some(20 + 100), Some(20 + 100)]);
    }

    #[test]
    fn where_nothing_is_known_of_lines_only_weights_count() {
        let line = line([true; 5]);
        let least = |writer: usize| (0..1000).find(|room| line.fits(writer, f64::from(*room)));
        // All layers from the first on, and all to the last.
        assert_eq!([least(1), least(3)], [Some(40), Some(20)]);
        assert_eq!(least(4), Some(0));
    }
}
