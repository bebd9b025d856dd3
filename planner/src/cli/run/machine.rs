//! How much of a latency that is far from its prediction is the machine's.

use super::Args;
use super::report::{Machine, Report};
use crate::cli::calibrate::kept;
use eyelet::kernels::Isa;
use eyelet_planner::board;
use eyelet_profile::measure::speed_probe::present_gflops;

/// A latency is far from its prediction if it differs by more than this share of that.
const MOST_DEVIATION: f64 = 0.15;

/// The machine's part of a latency that is far from its prediction, after the arena has been given back. `None` where the
/// prediction is near, or not by costs that were measured on this machine.
pub fn part(report: &Report, args: &Args, isa: u32) -> Option<Machine> {
    let predicted = report.predicted_ms?;
    let median = report.latency_ms.median;
    let as_predicted = (median / predicted - 1.0).abs() <= MOST_DEVIATION;
    if as_predicted || report.predicted_threads.is_some() || report.slow_to_board.is_some() {
        return None;
    }
    let host = board::host().ok()?;
    let isa = Isa::from_code(isa).filter(|isa| *isa == host.profile.isa)?;
    let costs = kept(&host, &args.pack)?;
    let threads = report.threads;
    let rate = costs.compute.probed_gflops(threads, costs.threads)?;
    Some(Machine::of(report.compute_ms, threads, rate, present_gflops(isa, threads)?))
}
