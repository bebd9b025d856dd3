//! Kernels for one row of adjacent floats, in plain Rust, for any target. They define the results
//! of the other kernels. `kernels/rows.h` says how partial results are combined.

use super::elementwise::larger;
use super::math;
use super::sums::{BLOCK, Total};
use crate::kernels::fma::fma;

/// Partial sums, and partial maxima.
pub(super) const PARTIAL: usize = 16;

/// Partial results by halves.
#[inline(always)]
pub(super) fn combined(mut partial: [f32; PARTIAL], combine: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = PARTIAL / 2;
    while half > 0 {
        for lane in 0..half {
            partial[lane] = combine(partial[lane], partial[lane + half]);
        }
        half /= 2;
    }
    partial[0]
}

/// A sum of what `enter` adds for each element: sixteen sums in blocks, each as
/// [`sums::sum`](super::sums::sum).
#[inline(always)]
fn total(x: &[f32], enter: impl Fn(f32, f32) -> f32) -> f32 {
    let mut totals = [Total::default(); PARTIAL];
    for block in x.chunks(PARTIAL * BLOCK) {
        let mut chains = [0.0; PARTIAL];
        for part in block.chunks(PARTIAL) {
            for (chain, x) in chains.iter_mut().zip(part) {
                *chain = enter(*chain, *x);
            }
        }
        for (total, chain) in totals.iter_mut().zip(chains) {
            total.join(chain);
        }
    }
    combined(totals.map(Total::value), |a, b| a + b)
}

/// Σ x.
pub fn sum(x: &[f32]) -> f32 {
    total(x, |sum, x| sum + x)
}

/// Σ (x - mean)², products and sums fused.
pub fn square_differences(x: &[f32], mean: f32) -> f32 {
    let enter = |sum: f32, x: f32| {
        let difference = x - mean;
        fma(difference, difference, sum)
    };
    total(x, enter)
}

/// The largest element, NaN passed over; minus infinity where there is none.
pub fn max(x: &[f32]) -> f32 {
    let mut partial = [f32::NEG_INFINITY; PARTIAL];
    for part in x.chunks(PARTIAL) {
        for (max, x) in partial.iter_mut().zip(part) {
            *max = larger(*x, *max);
        }
    }
    combined(partial, |a, b| larger(b, a))
}

/// Exponentials of the differences to the largest element, over their sum, in place.
pub fn softmax(row: &mut [f32]) {
    let max = max(row);
    for x in row.iter_mut() {
        *x = math::exp(*x - max);
    }
    let scale = 1.0 / sum(row);
    for x in row {
        *x *= scale;
    }
}

/// (x - mean) · scale · gamma + beta.
#[inline(always)]
pub fn standardised(x: f32, mean: f32, scale: f32, gamma: f32, beta: f32) -> f32 {
    fma((x - mean) * scale, gamma, beta)
}

/// x · (bias + alpha · squares)^-beta.
#[inline(always)]
pub fn lrn(x: f32, squares: f32, alpha: f32, beta: f32, bias: f32) -> f32 {
    x * math::pow(fma(alpha, squares, bias), -beta)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::prelude::rust_2024::*;

    #[test]
    fn sums_and_maxima_of_whole_numbers_are_exact() {
        let x: Vec<f32> = (0..75).map(|i| ((i * 37) % 75) as f32 - 70.0).collect();
        for n in 0..x.len() {
            let x = &x[..n];
            assert_eq!(sum(x), x.iter().sum::<f32>());
            assert_eq!(max(x), x.iter().fold(f32::NEG_INFINITY, |m, x| m.max(*x)));
            let squares = x.iter().map(|x| (x - 3.0) * (x - 3.0)).sum::<f32>();
            assert_eq!(square_differences(x, 3.0), squares);
        }
    }

    #[test]
    fn one_infinity_takes_all_or_nothing() {
        let mut row = [f32::NEG_INFINITY, 2.0, f32::NEG_INFINITY];
        softmax(&mut row);
        assert_eq!(row, [0.0, 1.0, 0.0]);
        let mut row = [f32::NAN, 2.0, 1.0];
        softmax(&mut row);
        assert!(row.iter().all(|x| x.is_nan()));
    }
}
