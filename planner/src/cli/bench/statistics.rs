//! What many latencies say together: percentiles, throughput, a histogram.

use crate::cli::output::milliseconds;
use serde::Serialize;

/// Latencies in milliseconds. A percentile is the least that so many of a hundred inferences do not exceed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    pub min: f64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

impl Latency {
    /// Of latencies in nanoseconds, the least first.
    pub fn of(sorted: &[u64]) -> Self {
        let sum: u128 = sorted.iter().map(|ns| u128::from(*ns)).sum();
        let mean = sum / (sorted.len().max(1) as u128);
        Self {
            min: milliseconds(percentile(sorted, 0)),
            mean: milliseconds(mean as u64),
            p50: milliseconds(percentile(sorted, 50)),
            p90: milliseconds(percentile(sorted, 90)),
            p99: milliseconds(percentile(sorted, 99)),
            max: milliseconds(percentile(sorted, 100)),
        }
    }
}

/// The nearest rank: the least value that so many per cent of all do not exceed.
pub fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (percent * sorted.len()).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

/// Inferences of one range of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bin {
    pub from_ms: f64,
    pub to_ms: f64,
    pub inferences: usize,
}

/// Bins of a histogram.
const BINS: usize = 12;

/// Counts latencies by ranges of equal width from the least to the 99th percentile. The last range has what is longer, too.
pub fn histogram(sorted: &[u64]) -> Vec<Bin> {
    let (least, most) = (percentile(sorted, 0), percentile(sorted, 99));
    let width = (most - least).div_ceil(BINS as u64).max(1);
    let bins = (((most - least) / width) as usize + 1).min(BINS);
    let mut counts = vec![0; bins];
    for ns in sorted {
        counts[(((ns - least) / width) as usize).min(bins - 1)] += 1;
    }
    let last = bins - 1;
    let bin = |(index, inferences): (usize, usize)| {
        let from = least + index as u64 * width;
        let to = if index == last { percentile(sorted, 100) } else { from + width };
        Bin { from_ms: milliseconds(from), to_ms: milliseconds(to), inferences }
    };
    counts.into_iter().enumerate().map(bin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let hundred: Vec<u64> = (1..=100).collect();
        let of = |percent| percentile(&hundred, percent);
        assert_eq!([0, 50, 90, 99, 100].map(of), [1, 50, 90, 99, 100]);
        assert_eq!(percentile(&[7], 50), 7);
        assert_eq!(percentile(&[1, 2, 3], 50), 2);
        assert_eq!(percentile(&[1, 2, 3, 4], 50), 2);
        assert_eq!(percentile(&[], 50), 0);
        let three = Latency::of(&[1_000_000, 2_000_000, 6_000_000]);
        assert_eq!((three.min, three.mean, three.p50, three.max), (1.0, 3.0, 2.0, 6.0));
    }

    #[test]
    fn a_histogram_counts_every_inference_once() {
        let one_late: Vec<u64> =
            (0..120).map(|n| 1_000_000 + 1000 * n).chain([9_000_000]).collect();
        let bins = histogram(&one_late);
        assert_eq!(bins.len(), BINS);
        assert_eq!(bins.iter().map(|bin| bin.inferences).sum::<usize>(), one_late.len());
        assert!(bins.windows(2).all(|two| two[0].to_ms == two[1].from_ms), "{bins:?}");
        assert_eq!(bins.last().unwrap().to_ms, 9.0);
        assert_eq!(histogram(&[5, 5, 5]), [Bin { from_ms: 0.0, to_ms: 0.0, inferences: 3 }]);
        assert_eq!(histogram(&[]).iter().map(|bin| bin.inferences).sum::<usize>(), 0);
    }
}
