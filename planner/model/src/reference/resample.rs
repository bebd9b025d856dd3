//! Weighted sums along an axis.

use super::Tensor;
use crate::graph::Resampling;

pub(super) fn resample(of: &Resampling, x: Tensor<'_>) -> Vec<f64> {
    let outer: usize = x.shape[..of.axis].iter().product();
    let inner: usize = x.shape[of.axis + 1..].iter().product();
    let extent = x.shape[of.axis];
    let mut result = Vec::with_capacity(outer * of.starts.len() * inner);
    for block in 0..outer {
        for (&start, weights) in of.starts.iter().zip(of.weights.chunks_exact(of.taps)) {
            for at in 0..inner {
                let read = weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0);
                let term = |(tap, weight): (usize, &f64)| {
                    weight * x.data[(block * extent + start + tap) * inner + at]
                };
                result.push(read.map(term).reduce(|a, b| a + b).unwrap_or(of.outside.into()));
            }
        }
    }
    result
}
