//! The cost of layers that slide: lines that wait in a ring for the next layer wait in a cache.
//!
//! A layer computed as a whole whose activations no cache holds writes them to memory, and the next reads them there.
//! Layers that slide ([`slide`](crate::slide)) read their lines soon after they were written. If the rings that a
//! layer touches fit a thread's cache together, data in them costs no memory traffic. The layer's other operands do.

use super::Costs;
use super::layer::LayerCost;
use crate::memory::buffer_sizes;
use eyelet::pack::{NONE, Step};
use eyelet_model::network::Network;

/// Shares of a layer's activations that go through memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outside {
    read: f64,
    written: f64,
}

impl Outside {
    /// A layer that slides and touches nothing but rings.
    pub const NONE: Self = Self { read: 0.0, written: 0.0 };

    /// A layer that slides and touches no ring.
    pub const ALL: Self = Self { read: 1.0, written: 1.0 };

    /// So much of what is read, and of what is written.
    #[cfg(test)]
    pub(crate) fn new(read: f64, written: f64) -> Self {
        Self { read, written }
    }

    /// The smaller share of both.
    pub fn least(self, other: Self) -> Self {
        Self { read: self.read.min(other.read), written: self.written.min(other.written) }
    }

    /// Whether no more is outside than of another.
    pub fn is_within(self, other: Self) -> bool {
        self.read <= other.read && self.written <= other.written
    }

    /// The shares of a layer that slides, if a thread's cache has `cache_bytes` bytes. `ring` returns the size of a
    /// buffer that is a ring.
    pub fn of(
        network: &Network,
        layer: usize,
        cache_bytes: u64,
        ring: impl Fn(usize) -> Option<u64>,
    ) -> Self {
        let layer = &network.layers[layer];
        let tensor = |id: u32| &network.tensors[id as usize];
        let bytes = |id: u32| 4 * tensor(id).rows() * u64::from(tensor(id).cols());
        let ring = |id: u32| ring(tensor(id).buffer as usize);
        let inputs = || layer.inputs.into_iter().filter(|id| *id != NONE);
        let read: u64 = inputs().map(bytes).sum();
        if read + bytes(layer.output) <= cache_bytes {
            return Self::NONE;
        }
        let mut rings: Vec<(u32, u64)> = inputs()
            .chain([layer.output])
            .filter_map(|id| Some((tensor(id).buffer, ring(id)?)))
            .collect();
        rings.sort_unstable();
        rings.dedup();
        if rings.iter().map(|(_, bytes)| bytes).sum::<u64>() > cache_bytes {
            return Self::ALL;
        }
        let whole: u64 = inputs().filter(|id| ring(*id).is_none()).map(bytes).sum();
        let written = if ring(layer.output).is_some() { 0.0 } else { 1.0 };
        Self { read: whole as f64 / read.max(1) as f64, written }
    }
}

impl LayerCost {
    fn sliding(mut self, outside: Outside) -> Self {
        self.activations.row_ns *= outside.read;
        self.activations.piece_ns *= outside.written;
        self.activations.cached_rows = 0.0;
        if let Some(winograd) = &mut self.winograd {
            winograd.row_spill_ns *= outside.read;
            winograd.piece_spill_ns *= outside.written;
        }
        self
    }

    /// Lower bound for steps of any number of rows: few rows stay in the cache, wherever the layer's activations are.
    pub(super) fn in_few_rows(mut self, outside: Outside) -> Self {
        self = self.sliding(outside);
        (self.activations.row_ns, self.activations.piece_ns) = (0.0, 0.0);
        self
    }
}

impl Costs {
    /// Costs if buffers are rings of these numbers of lines (0: whole).
    pub fn sliding(mut self, network: &Network, rings: &[u32]) -> Self {
        if rings.iter().all(|lines| *lines == 0) {
            return self;
        }
        let sizes = buffer_sizes(network, rings);
        let ring = |buffer: usize| (rings[buffer] > 0).then(|| sizes[buffer]);
        for (index, layer) in network.layers.iter().enumerate() {
            let tensors = layer.inputs.into_iter().chain([layer.output]).filter(|id| *id != NONE);
            let mut buffers = tensors.map(|id| network.tensors[id as usize].buffer as usize);
            if !buffers.any(|buffer| rings[buffer] > 0) {
                continue;
            }
            let outside = Outside::of(network, index, self.cache_bytes, ring);
            self.layers[index] = self.layers[index].sliding(outside);
            for costs in &mut self.transformed {
                costs[index] = costs[index].map(|cost| cost.sliding(outside));
            }
        }
        self
    }

    /// Predicted time of a step of a layer that slides.
    pub fn sliding_ns(&self, step: &Step, outside: Outside) -> u64 {
        let cost = self.cost(step).sliding(outside);
        cost.ns(step, self.overhead_ns, self.in_llc)
    }

    /// Bytes of a thread's cache.
    pub fn cache_bytes(&self) -> u64 {
        self.cache_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{conv, network, profile, whole};
    use super::*;
    use eyelet::pack::Method;
    use eyelet::pack::OpKind;

    /// Into whatever steps the rows are divided, and whatever of the activations goes through memory.
    #[test]
    fn no_steps_of_the_same_rows_take_less_than_the_least() {
        let network = network(OpKind::Conv, conv([3, 3]), [960, 64], [960, 256]);
        let mut profile = profile();
        let compute = &mut profile.compute;
        (compute.exposed, compute.transform_spill_ns_per_byte) = (0.2, 0.05);
        (compute.cache_bytes, compute.memory_gbs) = (64 << 10, 2.0);
        (compute.shared_cache_bytes, compute.shared_cache_gbs) = (1 << 20, 20.0);
        let costs = Costs::new(&network, &profile, 1);
        assert_eq!(costs.on_load(0).count(), 2, "transforms that spill are among them");
        let mut least = Vec::new();
        for budget in [1 << 20, 2 << 20] {
            let costs = costs.clone().within(budget);
            for algorithm in [0, 2, 4] {
                let all = Step { method: Method::by(algorithm), ..whole(&network) };
                let least_ns =
                    |outside: Outside| costs.least_ns(&all, f64::INFINITY, Some(outside));
                for (read, written) in [(0.0, 0.0), (0.5, 0.0), (1.0, 1.0)] {
                    let outside = Outside { read, written };
                    let least = least_ns(outside);
                    for bands in [1, 2, 5, 24] {
                        let step = Step { rows: all.rows / bands, ..all };
                        // In rings, or without any.
                        let mut found = vec![costs.sliding_ns(&step, outside)];
                        found.extend((outside == Outside::ALL).then(|| costs.step_ns(&step)));
                        for each in found {
                            let (found, rounded) =
                                ((each * u64::from(bands)) as f64, f64::from(bands));
                            assert!(found + rounded >= least, "{found} below {least} in {bands}");
                        }
                    }
                }
                // One step may save no more than the memory traffic of its rings, and its scratch.
                let one = costs.sliding_ns(&all, Outside::NONE) as f64;
                let in_rings = least_ns(Outside::NONE);
                assert!(one >= in_rings - 1.0 && (algorithm > 0 || one <= in_rings + 1.0));
                assert!(algorithm == 0 || least_ns(Outside::ALL) > in_rings);
                least.push(in_rings);
            }
        }
        // Weights come from where a plan of that size finds them.
        assert!(least[0] < least[3], "{least:?}");
    }
}
