//! Reductions that no other kernel computes, in plain Rust for all instruction sets: smallest and
//! largest elements, products, sums of squares.
//!
//! A row is folded as it is summed: sixteen partial results, then these by halves. Lines are folded
//! by columns in ascending order, and sums of squares in blocks, as in `sums`.

use super::elementwise::{maximum, minimum};
use super::rows::{PARTIAL, combined};
use super::sums::{BLOCK, Total};
use crate::matrix::MatRef;

/// The function that combines two elements, and its neutral element.
#[derive(Clone, Copy, Debug)]
pub enum Fold {
    /// The largest; NaN where there is one. Zeros are positive.
    Max,
    /// The smallest; NaN where there is one.
    Min,
    /// The product.
    Product,
}

impl Fold {
    fn neutral(self) -> f32 {
        match self {
            Fold::Max => f32::NEG_INFINITY,
            Fold::Min => f32::INFINITY,
            Fold::Product => 1.0,
        }
    }
}

/// Folds a row.
pub fn row(fold: Fold, x: &[f32]) -> f32 {
    match fold {
        // The order decides which of two zeros with different signs is the largest.
        Fold::Max => partial(fold, x, maximum) + 0.0,
        Fold::Min => partial(fold, x, minimum),
        Fold::Product => partial(fold, x, |a, b| a * b),
    }
}

#[inline(always)]
fn partial(fold: Fold, x: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut partial = [fold.neutral(); PARTIAL];
    for part in x.chunks(PARTIAL) {
        for (partial, x) in partial.iter_mut().zip(part) {
            *partial = f(*partial, *x);
        }
    }
    combined(partial, f)
}

/// Folds the columns of lines.
pub fn lines(fold: Fold, lines: MatRef<'_>, out: &mut [f32]) {
    match fold {
        Fold::Max => chains(fold, lines, out, maximum),
        Fold::Min => chains(fold, lines, out, minimum),
        Fold::Product => chains(fold, lines, out, |a, b| a * b),
    }
}

#[inline(always)]
fn chains(fold: Fold, lines: MatRef<'_>, out: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    out.fill(fold.neutral());
    for line in 0..lines.rows() {
        for (chain, x) in out.iter_mut().zip(lines.row(line)) {
            *chain = f(*chain, *x);
        }
    }
}

/// The sums of the squares of the columns of lines, divided by `count`.
pub fn square_lines(lines: MatRef<'_>, count: f32, out: &mut [f32]) {
    for (tile, out) in out.chunks_mut(PARTIAL).enumerate() {
        let mut totals = [Total::default(); PARTIAL];
        let mut line = 0;
        while line < lines.rows() {
            let end = lines.rows().min(line + BLOCK);
            let mut chains = [0.0; PARTIAL];
            for line in line..end {
                let x = &lines.row(line)[tile * PARTIAL..][..out.len()];
                for (chain, x) in chains.iter_mut().zip(x) {
                    *chain += x * x;
                }
            }
            for (total, chain) in totals.iter_mut().zip(chains) {
                total.join(chain);
            }
            line = end;
        }
        for (out, total) in out.iter_mut().zip(totals) {
            *out = total.value() / count;
        }
    }
}
