//! What is decided of a plan before addresses are: how finely each layer is cut, how much of it
//! stays, and by what algorithm its steps compute it.
//!
//! Everything else follows. Slices follow from the limits, residents go to the start of the arena,
//! the rest is placed step by step above them ([`place`](super::place)), thresholds follow from
//! addresses, the latency from the simulator. So strategies differ in the designs that they try,
//! and a search changes designs.

use super::activations::ActivationLayout;
use super::place::Loading;
use crate::network::Network;
use crate::plan::Plan;
use crate::simulate::Timeline;
use crate::slice::{Cutting, Slices, slice};

/// A decision for every layer, and on how far loads run ahead.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    pub layers: Vec<Cutting>,
    /// The algorithm of each layer's steps, as in [`Network::on_load`]; layers that slide have that
    /// of their network.
    pub step_algorithms: Vec<u32>,
    pub loading: Loading,
}

impl Design {
    /// The same for all layers.
    pub fn uniform(cutting: Cutting, step_algorithms: &[u32], loading: Loading) -> Self {
        let step_algorithms = step_algorithms.to_vec();
        Self { layers: vec![cutting; step_algorithms.len()], step_algorithms, loading }
    }

    pub fn slices(&self, network: &Network, activations: &ActivationLayout) -> Slices {
        slice(network, &activations.sliding, &self.step_algorithms, |layer| self.layers[layer])
    }
}

/// Which loads stay, when not all can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pins {
    /// Those that storage would be late with.
    Late,
    /// From the head of the network on, as FlexNN does.
    Head,
}

/// How finely layers are cut, by the memory that they leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlicingTarget {
    /// Slices that shall find room beside a layer's activations,
    pub slices: f64,
    /// and beside those of so many layers before it.
    pub ahead: usize,
    /// Most bytes of a slice.
    pub most: u64,
}

/// A design that has become a plan.
pub struct Built {
    pub plan: Plan,
    pub line: Timeline,
}

impl Built {
    /// Whether it is to be preferred to the one that is held, where the fastest of all took
    /// `least_ns`: clearly faster, or no slower than that (within half a percent, which no
    /// prediction can tell apart) with fewer bytes read, whose storage, energy and first inference
    /// it saves.
    pub fn is_better(&self, held: &Self, least_ns: u64) -> bool {
        let near = |built: &Self| built.line.steady_ns <= least_ns + least_ns / 200;
        match (near(self), near(held)) {
            (true, true) => self.plan.bytes_per_inference() < held.plan.bytes_per_inference(),
            (faster, held) => faster && !held,
        }
    }
}
