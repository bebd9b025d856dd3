//! Sums of any length with a bounded error, in plain Rust: the definition of what the other kernels
//! compute.
//!
//! Up to [`BLOCK`] terms are one chain of additions. More are cut into such chains, and their sums
//! are added to a total that is kept with the rounding errors of these additions, which are known
//! exactly: so a chain's error is all that remains, however long the sum is. It is at most (`BLOCK`
//! + 4) · 2⁻²⁴ · Σ|x|.

/// Terms of a chain.
pub const BLOCK: usize = 256;

/// A total of blocks, and what it lacks.
#[derive(Clone, Copy, Default)]
pub struct Total {
    sum: f32,
    lost: f32,
}

impl Total {
    /// Adds the sum of a block, and what rounding takes from that (Knuth's two-sum).
    #[inline(always)]
    pub fn join(&mut self, block: f32) {
        let sum = self.sum + block;
        let added = sum - self.sum;
        self.lost += (self.sum - (sum - added)) + (block - added);
        self.sum = sum;
    }

    /// The whole. Where the sum is infinite or NaN, what it lacks is no number, and is left out.
    #[inline(always)]
    pub fn value(self) -> f32 {
        if self.lost.is_nan() { self.sum } else { self.sum + self.lost }
    }
}

/// Σ x, in order. A sum of one block is that chain, bit for bit.
#[inline(always)]
pub fn sum(mut x: impl Iterator<Item = f32>) -> f32 {
    let mut total = Total::default();
    let mut left = BLOCK;
    let mut chain = 0.0;
    for x in &mut x {
        chain += x;
        left -= 1;
        if left == 0 {
            total.join(chain);
            (chain, left) = (0.0, BLOCK);
        }
    }
    total.join(chain);
    total.value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::testing::floats;
    use std::prelude::rust_2024::*;

    #[test]
    fn one_block_is_one_chain() {
        for n in 0..=BLOCK {
            let x = floats(n, n as u64);
            let chain = x.iter().fold(0.0, |sum, x| sum + x);
            assert_eq!(sum(x.into_iter()).to_bits(), f32::to_bits(chain), "{n}");
        }
    }

    #[test]
    fn long_sums_are_within_their_bound() {
        assert_eq!(sum(std::iter::repeat_n(1.0, 25_000_000)), 25e6);
        for n in [257, 1000, 4096, 100_000, 3_000_001] {
            let x = floats(n, n as u64);
            for x in [x.clone(), x.iter().map(|x| x.max(0.0)).collect()] {
                let truth: f64 = x.iter().map(|x| *x as f64).sum();
                let magnitudes: f64 = x.iter().map(|x| x.abs() as f64).sum();
                let error = (sum(x.into_iter()) as f64 - truth).abs();
                let bound = (BLOCK + 4) as f64 * 2f64.powi(-24) * magnitudes;
                assert!(error <= bound, "{n}: {error:e}, at most {bound:e}");
                // As the errors of a chain's additions are not all of one sign, far less.
                assert!(error <= bound / 8.0, "{n}: {error:e} of {bound:e}");
            }
        }
    }

    #[test]
    fn infinities_and_nan_stay() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        for at in [0, 255, 256, 600, 999] {
            for (odd, want) in [(inf, inf), (-inf, -inf), (nan, nan)] {
                let found = sum((0..1000).map(|i| if i == at { odd } else { 1.0 }));
                assert!(found == want || found.is_nan() && want.is_nan(), "{at}: {found}");
            }
            let both = sum((0..1000).map(|i| if i == at { inf } else { f32::NEG_INFINITY }));
            assert!(both.is_nan());
        }
        assert_eq!(sum((0..1000).map(|_| f32::MAX)), inf);
    }
}
