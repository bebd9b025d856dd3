//! What inferences took, and the digest of what they gave.

use super::report::{Digest, Report, Spread};
use eyelet::executor::{Ports, Stats};
use std::time::Instant;

/// Times of the inferences that are measured, in nanoseconds. Memory for all is taken at once.
#[derive(Default)]
pub(super) struct Samples {
    pub(super) latency: Vec<u64>,
    period: Vec<u64>,
    compute: Vec<u64>,
    stall: Vec<u64>,
}

impl Samples {
    pub(super) fn with_capacity(runs: usize) -> Self {
        let samples = || Vec::with_capacity(runs);
        Self { latency: samples(), period: samples(), compute: samples(), stall: samples() }
    }

    /// An inference that took so long, whose turn began then.
    pub(super) fn push(&mut self, ns: u64, turn: Instant, stats: Stats) {
        self.latency.push(ns);
        self.period.push(turn.elapsed().as_nanos() as u64);
        self.compute.push(stats.compute_ns);
        self.stall.push(stats.stall_ns);
    }

    /// Forgets all, and keeps the memory.
    pub(super) fn clear(&mut self) {
        let Self { latency, period, compute, stall } = self;
        [latency, period, compute, stall].into_iter().for_each(Vec::clear);
    }

    pub(super) fn report(mut self, report: &mut Report) {
        report.latency_ms = Spread::of(&mut self.latency);
        report.period_ms = Spread::of(&mut self.period).median;
        report.compute_ms = Spread::of(&mut self.compute).median;
        report.stall_ms = Spread::of(&mut self.stall).median;
    }
}

/// The digest of the outputs of an inference.
pub fn digest_of(ports: &mut dyn Ports) -> Digest {
    let mut digest = Digest::default();
    add_outputs(ports, &mut digest);
    digest
}

/// Adds the outputs of an inference.
pub(super) fn add_outputs(ports: &mut dyn Ports, digest: &mut Digest) {
    for index in 0..ports.outputs().len() {
        if let Ok(floats) = ports.output(index) {
            digest.add(floats);
        } else if let Ok(words) = ports.output_words(index) {
            digest.add(bytemuck::cast_slice(words));
        }
    }
}
