//! SwapNet's model of delays (TMC '24, Section 6.1), fitted to what was measured, with what it misses by.
//!
//! To swap a block of `s` bytes in `d` reads in, compute its `f` floating-point operations, and swap it out takes
//!
//! ```text
//! t_in = α·s + β·d        t_ex = γ·f        t_out = η·d
//! ```
//!
//! Plans are not made with it: one rate for all operators, and reads whose time is a straight line in their size, miss
//! by what the residuals say. It is kept to compare with, and because four numbers tell much about a board.

use super::Reads;
use super::fit::terms;
use serde::{Deserialize, Serialize};

/// The four coefficients, and the root of the mean squared relative error of both fits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delays {
    /// α: of a byte read.
    pub alpha_ns_per_byte: f64,
    /// β: of a read.
    pub beta_ns: f64,
    /// γ: of a floating-point operation.
    pub gamma_ns_per_flop: f64,
    /// η: to give memory back. Here that is to count a step as done: the next load overwrites what was there.
    pub eta_ns: f64,
    pub in_residual: f64,
    pub ex_residual: f64,
}

impl Delays {
    /// The fit with the least squared relative errors to reads and to layers, which are given as operations and
    /// nanoseconds. `step_ns` is the cost of a step beyond its work.
    pub fn fit(reads: &[Reads], layers: &[(f64, f64)], step_ns: f64) -> Self {
        // Minimises Σ (α·s/t + β/t − 1)², and Σ (γ·f/t − 1)².
        let points = reads.iter().map(|read| (read.bytes as f64 / read.ns(), 1.0 / read.ns()));
        let points_of: Vec<([f64; 2], f64)> = points.clone().map(|(s, d)| ([s, d], 1.0)).collect();
        let [alpha, beta] = terms(&points_of);
        let shares = layers.iter().map(|(flops, ns)| flops / ns);
        let squares: f64 = shares.clone().map(|share| share * share).sum();
        let gamma = if squares > 0.0 { shares.clone().sum::<f64>() / squares } else { 0.0 };
        Self {
            alpha_ns_per_byte: alpha,
            beta_ns: beta,
            gamma_ns_per_flop: gamma,
            eta_ns: step_ns,
            in_residual: residual(points.map(|(s, d)| alpha * s + beta * d)),
            ex_residual: residual(shares.map(|share| gamma * share)),
        }
    }
}

/// The root of the mean squared distance from 1.
fn residual(shares: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0f64);
    for share in shares {
        sum += (share - 1.0).powi(2);
        count += 1.0;
    }
    (sum / count.max(1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads that take so long by a straight line.
    fn reads(alpha: f64, beta: f64) -> Vec<Reads> {
        let ns = |bytes: u64| alpha * bytes as f64 + beta;
        let sizes = [4096u64, 65536, 1 << 20, 4 << 20].into_iter();
        sizes.map(|bytes| Reads { bytes, mbs: bytes as f64 * 1e3 / ns(bytes) }).collect()
    }

    #[test]
    fn a_straight_line_is_found() {
        let layers = [(1e6, 5e3), (2e6, 1e4), (8e6, 4e4)];
        let fit = Delays::fit(&reads(0.8, 50_000.0), &layers, 300.0);
        assert!((fit.alpha_ns_per_byte - 0.8).abs() < 1e-6, "{fit:?}");
        assert!((fit.beta_ns - 50_000.0).abs() < 1e-2, "{fit:?}");
        assert!((fit.gamma_ns_per_flop - 0.005).abs() < 1e-9, "{fit:?}");
        assert!(fit.in_residual < 1e-6 && fit.ex_residual < 1e-6 && fit.eta_ns == 300.0);
    }

    #[test]
    fn what_the_line_misses_is_told() {
        // One operator is ten times as fast as the other: no one rate serves both.
        let fit = Delays::fit(&reads(1.0, 0.0), &[(1e6, 1e4), (1e6, 1e5)], 0.0);
        assert!(fit.ex_residual > 0.5, "{fit:?}");
        assert!((fit.alpha_ns_per_byte - 1.0).abs() < 1e-6 && fit.beta_ns.abs() < 1e-3, "{fit:?}");
    }

    #[test]
    fn nothing_measured_is_no_disaster() {
        let fit = Delays::fit(&[], &[], 1.0);
        assert_eq!((fit.alpha_ns_per_byte, fit.gamma_ns_per_flop), (0.0, 0.0));
    }
}
