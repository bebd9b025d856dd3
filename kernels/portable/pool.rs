//! Pooling in plain Rust, for any target: the definition of what the other kernels compute.

use super::elementwise::maximum;
use super::sums::sum;

/// One channel of one pixel from its taps, in order: their mean over `count`, or their maximum,
/// which is NaN where one of them is, minus infinity where there are none, and of zeros the
/// positive one: then their order does not matter.
#[inline(always)]
pub fn pool(average: bool, count: f32, taps: impl Iterator<Item = f32>) -> f32 {
    match average {
        true => sum(taps) / count,
        false => taps.fold(f32::NEG_INFINITY, |max, x| maximum(x, max)) + 0.0,
    }
}
