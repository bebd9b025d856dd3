//! The buffers that can be rings in an amount of memory, whatever the plan.
//!
//! Weights need not stay while a ring is in use: they can be read anew. But lines have to be
//! somewhere, and those that are still to be read lie over no others, whichever buffers share
//! bytes. Take a run of layers. A layer has made `c` lines, with all panels, and has begun `b`. The
//! next layer, of stride `s`, has made `c'` lines. It will read all lines from `s · c'` on, so
//! `b − s · c'` lines are there. Sum this over the run, counted in lines of the first layer, up to
//! a layer that has made none. The sum is no less than the lines that the first layer has begun. A
//! line takes at least the smallest line of all these layers.
//!
//! - When the first line of the ring is overwritten, there is a last layer before the ring of which
//!   some panel has begun the last line. There is also a first layer after the ring that has made
//!   no line. All lines of the former are there, in the buffers between the two.
//! - When its writer begins its last line, all others are there, in the ring and after it, up to a
//!   layer that has made no line.
//!
//! If no choice of these layers leaves enough memory, the buffer is whole.

use super::group::Facts;
use eyelet_model::network::Network;

/// For each buffer the fewest bytes that hold what a step uses of it, however layers slide: in a
/// ring the lines that one of its readers sees; all of it where it can be no ring, with lines of
/// other layers in `room` bytes.
pub fn least_bytes(network: &Network, room: u64) -> Vec<u64> {
    let facts = Facts::new(network);
    let line = Line::new(&facts);
    let mut bytes: Vec<u64> = network.buffers.iter().map(|buffer| buffer.bytes).collect();
    let mut known = vec![false; bytes.len()];
    for tensor in &network.tensors {
        let buffer = tensor.buffer as usize;
        if std::mem::replace(&mut known[buffer], true) || !facts.can_be_inner(buffer) {
            continue;
        }
        let mut writers = facts.writers(buffer).peekable();
        if writers.peek().is_none() || writers.any(|writer| line.fits(writer, room as f64)) {
            bytes[buffer] = bytes[buffer].min(facts.least_ring_bytes(tensor));
        }
    }
    bytes
}

/// All layers, and which of them read what the one before made.
struct Line {
    slides: Vec<bool>,
    /// For each layer whether the next one reads its output from the first line to the last, and
    /// nobody else writes there.
    follows: Vec<bool>,
    /// For each layer: lines of the first layer of its run for one of its own.
    scale: Vec<f64>,
    /// For each layer: all of its lines, in lines of the first layer of its run.
    lines: Vec<f64>,
    /// For each layer: bytes of its output for a line of the first layer of its run.
    bytes: Vec<f64>,
}

impl Line {
    fn new(facts: &Facts<'_>) -> Self {
        let layers = facts.network.layers.len();
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
        let mut least = f64::INFINITY;
        for first in (0..=writer).rev() {
            least = least.min(self.bytes[first]);
            // A layer whose lines are unknown counts nothing.
            let before = first.checked_sub(1).filter(|before| self.follows[*before]);
            let (lines, bytes) =
                before.map_or((0.0, 0.0), |before| (self.lines[before], self.bytes[before]));
            if self.fits_from(writer, lines, least.min(bytes), room) {
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
        self.fits_from(writer, others, self.bytes[writer], room)
    }

    /// Whether these lines fit in the layers after the ring's writer that are in progress.
    fn fits_from(&self, writer: usize, lines: f64, bytes: f64, room: f64) -> bool {
        let mut least = bytes;
        for last in writer + 1..self.slides.len() {
            // It has made none before it has made all.
            if !self.slides[last] {
                return false;
            }
            if !self.follows[last] {
                return true;
            }
            least = least.min(self.bytes[last]);
            if lines * least <= room {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundred lines of 4, 4, 1, 4 and 4 bytes, of layers of which some slide.
    fn line(slides: [bool; 5]) -> Line {
        let bytes = vec![4.0, 4.0, 1.0, 4.0, 4.0];
        let follows = vec![true, true, true, true, false];
        let (lines, scale) = (vec![100.0; 5], vec![1.0; 5]);
        Line { slides: slides.to_vec(), follows, scale, lines, bytes }
    }

    #[test]
    fn lines_are_where_they_take_least() {
        let line = line([false, true, true, true, false]);
        let least = |writer: usize| (0..1000).find(|room| line.fits(writer, f64::from(*room)));
        assert_eq!([least(1), least(2)], [Some(100), Some(100)]);
    }

    #[test]
    fn where_nothing_is_known_of_lines_nothing_counts() {
        let line = line([true; 5]);
        let least = |writer: usize| (0..1000).find(|room| line.fits(writer, f64::from(*room)));
        assert_eq!([least(1), least(3), least(4)], [Some(0); 3]);
    }
}
