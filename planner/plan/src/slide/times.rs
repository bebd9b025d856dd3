//! Buffers in the order in which they begin and cease to live, so that those of a few layers are
//! found without a look at all.

use crate::memory::Lifetime;
use eyelet_model::network::Network;
use std::ops::Range;

/// Buffers by the start and the end of their lifetimes, in which layer `l` has the time `l + 1`.
pub(super) struct Times {
    starts: Order,
    ends: Order,
}

/// Buffers in the order of a time.
struct Order {
    buffers: Vec<usize>,
    /// For each time: how many buffers have an earlier one.
    before: Vec<usize>,
    /// For each time: bytes of the buffers that have an earlier one.
    bytes: Vec<u64>,
}

impl Times {
    pub(super) fn new(network: &Network, lives: &[Lifetime]) -> Self {
        let order = |time: &dyn Fn(&Lifetime) -> usize| {
            let used = |buffer: &usize| lives[*buffer].start != usize::MAX;
            let mut buffers: Vec<usize> = (0..lives.len()).filter(used).collect();
            buffers.sort_by_key(|&buffer| time(&lives[buffer]));
            let last = network.layers.len() + 2;
            let (mut before, mut bytes) = (vec![0; last + 1], vec![0; last + 1]);
            for &buffer in &buffers {
                let at = time(&lives[buffer]).min(last - 1) + 1;
                before[at] += 1;
                bytes[at] += network.buffers[buffer].bytes;
            }
            for at in 1..=last {
                before[at] += before[at - 1];
                bytes[at] += bytes[at - 1];
            }
            Order { buffers, before, bytes }
        };
        Self { starts: order(&|life| life.start), ends: order(&|life| life.end) }
    }

    /// Bytes of the buffers that live while some layers compute.
    pub(super) fn bytes(&self, layers: &Range<usize>) -> u64 {
        self.starts.bytes[layers.end + 1] - self.ends.bytes[layers.start + 1]
    }

    /// The buffers that begin to live in one of these layers.
    pub(super) fn starts(&self, layers: &Range<usize>) -> &[usize] {
        self.starts.within(layers)
    }

    /// The buffers that cease to live in one of these layers.
    pub(super) fn ends(&self, layers: &Range<usize>) -> &[usize] {
        self.ends.within(layers)
    }
}

impl Order {
    fn within(&self, layers: &Range<usize>) -> &[usize] {
        &self.buffers[self.before[layers.start + 1]..self.before[layers.end + 1]]
    }
}
