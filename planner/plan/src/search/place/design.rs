//! Designs: decisions before a plan has addresses. They are how finely each layer is cut, how much
//! of it stays, and which algorithm its steps use.
//!
//! Everything else follows. The limits give the slices. Residents go to the start of the arena; the
//! rest is placed step by step above them ([`place`](super)). Addresses give the thresholds,
//! and the simulator gives the latency. So strategies differ in the designs that they try, and a
//! search changes designs.

use super::activations::ActivationLayout;
use super::sliced_network::Loading;
use crate::simulate::Timeline;
use crate::slice::{Cutting, Slices, slice};
use eyelet_model::network::Network;
use eyelet_model::plan::Plan;

/// A decision for every layer, and how far loads run ahead.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    pub layers: Vec<Cutting>,
    /// The algorithm of each layer's steps, as in [`Network::on_load`]. Layers that slide use that
    /// of their network.
    pub step_algorithms: Vec<u32>,
    pub loading: Loading,
}

impl Design {
    /// A design that cuts all layers alike.
    pub fn uniform(cutting: Cutting, step_algorithms: &[u32], loading: Loading) -> Self {
        let step_algorithms = step_algorithms.to_vec();
        Self { layers: vec![cutting; step_algorithms.len()], step_algorithms, loading }
    }

    pub fn slices(&self, network: &Network, activations: &ActivationLayout) -> Slices {
        slice(network, &activations.sliding, &self.step_algorithms, |layer| self.layers[layer])
    }
}

/// How finely layers are cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlicingTarget {
    /// Slices that must fit next to a layer's activations.
    pub slices: f64,
    /// The slices must also fit next to the activations of this many layers before it.
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
    /// Whether an inference reads weights.
    pub fn reads(&self) -> bool {
        !self.plan.loads.is_empty()
    }

    /// Whether this plan is preferred to the held one. `least_ns` is the time of the fastest plan
    /// so far. A clearly faster plan wins. Among plans within half a per cent of the fastest, which
    /// no prediction can tell apart, the one that reads less wins: it saves storage, energy and
    /// time of the first inference.
    pub fn is_better(&self, held: &Self, least_ns: u64) -> bool {
        let is_fast = |built: &Self| built.line.steady_ns <= least_ns + least_ns / 200;
        match (is_fast(self), is_fast(held)) {
            (true, true) => self.plan.bytes_per_inference() < held.plan.bytes_per_inference(),
            (faster, held) => faster && !held,
        }
    }
}
