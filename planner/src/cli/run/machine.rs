//! How much of a latency that is far from its prediction is the machine's.

use super::Args;
use super::report::{Machine, Report};
use crate::cli::calibrate::kept;
use eyelet::kernels::{Isa, Kernels};
use eyelet_planner::board;
use eyelet_planner::profile::speed_probe::{SpeedProbe, network};

/// A latency is far from its prediction if it differs by more than this share of that.
const FAR: f64 = 0.15;

/// Times that the speed is probed, of which the median counts; each takes some five milliseconds.
const PROBES: usize = 9;

/// The machine's part of a latency that is far from its prediction, after the arena has been given back. `None` where the
/// prediction is near, or not by costs that were measured on this machine.
pub fn part(report: &Report, args: &Args, isa: u32) -> Option<Machine> {
    let predicted = report.predicted_ms?;
    let median = report.latency_ms.median;
    let near = (median / predicted - 1.0).abs() <= FAR;
    if near || report.predicted_threads.is_some() || report.slow_to_board.is_some() {
        return None;
    }
    let host = board::host().ok()?;
    let isa = Isa::from_code(isa).filter(|isa| *isa == host.profile.isa)?;
    let measured = kept(&host, &args.pack)?.compute.gauge_gflops?;
    let network = network(isa);
    let mut probe = SpeedProbe::new(&network, Kernels::for_isa(isa)?)?;
    let mut rates: Vec<f64> = (0..PROBES).map(|_| probe.gflops()).collect();
    rates.sort_by(f64::total_cmp);
    Some(Machine::of(report.compute_ms, measured, rates[PROBES / 2]))
}
