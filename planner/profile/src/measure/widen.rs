//! The rate of widening stored weights.

use super::bench::{lines, median};
use eyelet::kernels::Kernels;
use eyelet::kernels::table::Packed;
use eyelet::pack::Encoding;
use std::time::{Duration, Instant};

/// Time for widening, and the least number of times that it is done.
const WIDEN_TIME: Duration = Duration::from_millis(100);
const WIDEN_TIMES: usize = 12;

/// Bytes of the panel by which widening is measured: frequencies of 256 channels, for the widest panels.
const EXPANDED_BYTES: u64 = 4 * 36 * 8192;

/// Bytes of weights that are made of halves a nanosecond, on one thread.
pub(super) fn widen_gbs(kernels: &Kernels) -> f64 {
    let stored = lines(EXPANDED_BYTES);
    let halves = Packed::new(bytemuck::cast_slice(&stored));
    let mut made = lines(EXPANDED_BYTES);
    let made: &mut [f32] = bytemuck::cast_slice_mut(&mut made);
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.len() < WIDEN_TIMES || begin.elapsed() < WIDEN_TIME {
        let start = Instant::now();
        kernels.widen(Encoding::F16, halves, kernels.nr(), 0, made);
        times.push(start.elapsed().as_nanos() as f64);
    }
    EXPANDED_BYTES as f64 / median(times).max(1.0)
}
