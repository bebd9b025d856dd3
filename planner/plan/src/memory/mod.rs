//! Static allocation: lifetimes of activations, and offsets for them.

mod lines;
mod many;
mod place;

pub use lines::Lines;
pub use place::place_buffers;

use eyelet::pack::{NONE, ring_bytes};
use eyelet_model::network::Network;
use std::ops::Range;

/// When a buffer holds something, in steps: from its first writer to its last reader, both
/// included. Time 0 is the host's turn; `period` is the host's turn of the next inference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    pub start: usize,
    pub end: usize,
}

/// Lifetimes of all buffers, when layer `l` occupies the steps `steps_of(l)`.
pub fn lifetimes(
    network: &Network,
    period: usize,
    steps_of: impl Fn(usize) -> Range<usize>,
) -> Vec<Lifetime> {
    let mut lives = vec![Lifetime { start: usize::MAX, end: 0 }; network.buffers.len()];
    let mut touch = |tensor: u32, time: Range<usize>| {
        let life = &mut lives[network.tensors[tensor as usize].buffer as usize];
        life.start = life.start.min(time.start);
        life.end = life.end.max(time.end - 1);
    };
    for (index, layer) in network.layers.iter().enumerate() {
        touch(layer.output, steps_of(index));
        layer.inputs.iter().filter(|id| **id != NONE).for_each(|id| touch(*id, steps_of(index)));
    }
    network.inputs.iter().for_each(|port| touch(port.tensor, 0..1));
    network.outputs.iter().for_each(|port| touch(port.tensor, period..period + 1));
    lives
}

impl Lifetime {
    /// Whether two lifetimes share a moment, `period` and 0 being the same one.
    fn meets(self, other: Self, period: usize) -> bool {
        let host = |life: Self| life.start == 0 || life.end >= period;
        (self.start <= other.end && other.start <= self.end) || (host(self) && host(other))
    }
}

/// The bytes of each buffer: all of them, or those of a ring of `rings[buffer]` image lines (0:
/// all).
pub fn buffer_sizes(network: &Network, rings: &[u32]) -> Vec<u64> {
    let mut sizes: Vec<u64> = network.buffers.iter().map(|buffer| buffer.bytes).collect();
    for tensor in &network.tensors {
        let buffer = tensor.buffer as usize;
        if rings[buffer] > 0 {
            sizes[buffer] = ring_bytes(rings[buffer], tensor.dims[2], tensor.pitch);
        }
    }
    sizes
}
