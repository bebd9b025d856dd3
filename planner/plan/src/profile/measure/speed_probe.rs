//! How fast the processor computes at the moment.
//!
//! A processor that others use too, or that becomes too hot, is slower for seconds or minutes, and so is what runs on it meanwhile. A
//! measurement by itself cannot tell that from a plan that is slow. So the time of one small convolution, the same everywhere, is
//! taken between inferences (`eyelet run --speed`), and in every profile's turns.

use super::bench::{Bench, State, Weights, undisturbed};
use super::layers;
use eyelet::device::Inline;
use eyelet::kernels::{Isa, Kernels};
use eyelet::pack::OpKind;
use eyelet_model::network::Network;

/// Pixels along a side, and channels before and behind: weights and activations fit in any second-level cache.
const SIZE: u32 = 14;
const CHANNELS: u32 = 128;

/// What it computes.
const FLOPS: f64 = 2.0 * (SIZE * SIZE * CHANNELS * CHANNELS) as f64;

/// Runs of each time that are counted.
const COUNTED: usize = 16;

/// The convolution.
pub fn network(isa: Isa) -> Network {
    layers::conv(isa, OpKind::Conv, SIZE, 1, CHANNELS, CHANNELS)
}

/// Operations a nanosecond, if it takes so long.
pub(super) fn gflops(ns: f64) -> f64 {
    FLOPS / ns.max(1.0)
}

/// The convolution, with memory for it.
pub struct SpeedProbe<'a> {
    bench: Bench<'a>,
    weights: Weights,
}

impl<'a> SpeedProbe<'a> {
    /// `None` if the kernels cannot run it, or there is no memory.
    pub fn new(network: &'a Network, kernels: &'a Kernels) -> Option<Self> {
        let bench = Bench::new(network, kernels, 1, false)?;
        let layer = &network.layers[0];
        let bytes = layer.panels as usize * layer.panel_bytes as usize;
        Some(Self { bench, weights: Weights::of(bytes)? })
    }

    /// Operations a nanosecond on this thread, now, which takes about five milliseconds.
    pub fn gflops(&mut self) -> f64 {
        let runs = (State::Settled.idle_runs(), COUNTED);
        let times = self.bench.turn(&Inline, &mut self.weights, State::Settled, runs);
        let times: Vec<f64> = times.collect();
        if times.is_empty() { 0.0 } else { gflops(undisturbed(times)) }
    }
}
