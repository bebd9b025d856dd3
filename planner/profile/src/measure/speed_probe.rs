//! How fast the processor computes at the moment.
//!
//! A processor that others use too, or that becomes too hot, is slower for seconds or minutes, and so is what runs on it meanwhile. A
//! measurement by itself cannot tell that from a plan that is slow. So the time of one small convolution, the same everywhere, is
//! taken between inferences (`eyelet run --speed`), and in every profile's turns.

use super::bench::{Bench, State, Weights, undisturbed};
use super::layers;
use eyelet::device::workers::Pool;
use eyelet::device::{Device, Inline};
use eyelet::kernels::{Isa, Kernels};
use eyelet_model::network::Network;
use std::time::{Duration, Instant};

/// Pixels along a side, and channels before and behind: weights and activations fit in any second-level cache.
const SIZE: u32 = 14;
const CHANNELS: u32 = 128;

/// Its floating-point operations.
const FLOPS: f64 = 2.0 * (SIZE * SIZE * CHANNELS * CHANNELS) as f64;

/// Runs of each time that are counted.
const COUNTED: usize = 16;

/// How long the present speed is taken.
const PRESENT: Duration = Duration::from_millis(50);

/// Present rate of `threads` threads, in operations a nanosecond, whatever else the processor does. Takes 50 ms,
/// and threads of its own. `None` if the kernels are not for this machine, or if there are no threads or memory.
pub fn present_gflops(isa: Isa, threads: u32) -> Option<f64> {
    static POOL: Pool = Pool::new();
    let network = network(isa);
    let mut probe = SpeedProbe::new(&network, Kernels::for_isa(isa)?, threads)?;
    let times = match threads {
        0 | 1 => probe.times_during(PRESENT, &Inline),
        _ => probe.times_during(PRESENT, &POOL.start(threads as usize, None).ok()?),
    };
    // Disturbances count: an inference meets them, too.
    (!times.is_empty()).then(|| gflops(times.iter().sum::<f64>() / times.len() as f64))
}

/// The convolution.
pub fn network(isa: Isa) -> Network {
    layers::conv(isa, SIZE, 1, CHANNELS, CHANNELS)
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
    /// For devices of at most `threads` threads. `None` if the kernels cannot run it, or there is no
    /// memory.
    pub fn new(network: &'a Network, kernels: &'a Kernels, threads: u32) -> Option<Self> {
        let bench = Bench::new(network, kernels, threads as usize, false)?;
        let layer = &network.layers[0];
        let bytes = layer.panels as usize * layer.panel_bytes as usize;
        Some(Self { bench, weights: Weights::of(bytes)? })
    }

    /// Operations a nanosecond on this thread, now, which takes about five milliseconds.
    pub fn gflops(&mut self) -> f64 {
        let times = self.times(&Inline, COUNTED);
        if times.is_empty() { 0.0 } else { gflops(undisturbed(times)) }
    }

    /// Nanoseconds of runs on a device, for so long.
    fn times_during(&mut self, duration: Duration, device: &dyn Device) -> Vec<f64> {
        let begin = Instant::now();
        let mut times = self.times(device, COUNTED);
        while begin.elapsed() < duration {
            times.extend(self.bench.turn(device, &mut self.weights, State::Settled, (0, COUNTED)));
        }
        times
    }

    /// Nanoseconds of runs on a device.
    fn times(&mut self, device: &dyn Device, counted: usize) -> Vec<f64> {
        let runs = (State::Settled.idle_runs(), counted);
        self.bench.turn(device, &mut self.weights, State::Settled, runs).collect()
    }
}
