//! SwapNet's model of delays (Section 6.1): what swapping a layer in, computing it and swapping it
//! out take, and how its four coefficients are fitted.
//!
//! A layer has `s` bytes, `d` parameters that are assembled by reference, and `f` floating-point
//! operations. Then
//!
//! ```text
//! t_in = α·s + β·d        t_ex = γ·f        t_out = η·d
//! ```
//!
//! All three are additive: a block takes the sum of what its layers take.

use std::fmt;

/// A row of the model information table (Table 2 of the publication).
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    pub name: String,
    pub bytes: u64,
    /// Parameters: weights, biases and buffers.
    pub depth: u64,
    pub flops: f64,
}

/// What a layer takes, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub in_ns: i64,
    pub ex_ns: i64,
    pub out_ns: i64,
}

/// The four coefficients of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delays {
    /// α: reading a byte.
    pub alpha_ns_per_byte: f64,
    /// β: setting the reference of a parameter.
    pub beta_ns: f64,
    /// γ: a floating-point operation.
    pub gamma_ns_per_flop: f64,
    /// η: resetting the reference of a parameter.
    pub eta_ns: f64,
}

impl Delays {
    /// What the model says of a layer, each time rounded to a nanosecond.
    pub fn of(&self, layer: &Layer) -> Times {
        let depth = layer.depth as f64;
        let swap_in = self.alpha_ns_per_byte * layer.bytes as f64 + self.beta_ns * depth;
        Times {
            in_ns: swap_in.round() as i64,
            ex_ns: (self.gamma_ns_per_flop * layer.flops).round() as i64,
            out_ns: (self.eta_ns * depth).round() as i64,
        }
    }
}

/// A layer and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub layer: Layer,
    pub times: Times,
}

/// How well one of the three lines fits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Residual {
    /// Root of the mean squared error, in nanoseconds.
    pub rms_ns: f64,
    /// Share of the variance that the line explains; 1 is a perfect fit.
    pub r_squared: f64,
    /// Predicted sum over all layers, relative to the measured sum, minus 1.
    pub total: f64,
}

/// Coefficients fitted to samples, and the residuals of the three lines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    pub delays: Delays,
    pub samples: usize,
    pub swap_in: Residual,
    pub execute: Residual,
    pub swap_out: Residual,
}

/// Why no coefficients were fitted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FitError {
    #[error("no layer was measured: the fit of the delays needs at least one")]
    Empty,
    #[error(
        "layer `{layer}` has {value} floating-point operations; the fit of the delays needs a \
         finite number of at least 0"
    )]
    Flops { layer: String, value: f64 },
    #[error("layer `{layer}` took {value} ns for {what}; the fit needs times of at least 0")]
    Negative { layer: String, what: &'static str, value: i64 },
}

impl Fit {
    /// The coefficients, none below 0, that minimise the squared errors of each of the three times.
    pub fn new(samples: &[Sample]) -> Result<Self, FitError> {
        if samples.is_empty() {
            return Err(FitError::Empty);
        }
        samples.iter().try_for_each(check)?;
        let bytes = |sample: &Sample| sample.layer.bytes as f64;
        let depth = |sample: &Sample| sample.layer.depth as f64;
        let points = |x: &dyn Fn(&Sample) -> [f64; 2], y: &dyn Fn(&Times) -> i64| {
            let points = samples.iter().map(|sample| (x(sample), y(&sample.times) as f64));
            points.collect::<Vec<_>>()
        };
        let swap_in = points(&|sample| [bytes(sample), depth(sample)], &|times| times.in_ns);
        let execute = points(&|sample| [sample.layer.flops, 0.0], &|times| times.ex_ns);
        let swap_out = points(&|sample| [0.0, depth(sample)], &|times| times.out_ns);
        let ([alpha, beta], [gamma, _], [_, eta]) =
            (least_squares(&swap_in), least_squares(&execute), least_squares(&swap_out));
        Ok(Self {
            delays: Delays {
                alpha_ns_per_byte: alpha,
                beta_ns: beta,
                gamma_ns_per_flop: gamma,
                eta_ns: eta,
            },
            samples: samples.len(),
            swap_in: Residual::of(&swap_in, [alpha, beta]),
            execute: Residual::of(&execute, [gamma, 0.0]),
            swap_out: Residual::of(&swap_out, [0.0, eta]),
        })
    }
}

fn check(sample: &Sample) -> Result<(), FitError> {
    let layer = || sample.layer.name.clone();
    let flops = sample.layer.flops;
    if !(flops.is_finite() && flops >= 0.0) {
        return Err(FitError::Flops { layer: layer(), value: flops });
    }
    let Times { in_ns, ex_ns, out_ns } = sample.times;
    let times = [("swapping in", in_ns), ("computing", ex_ns), ("swapping out", out_ns)];
    match times.into_iter().find(|(_, ns)| *ns < 0) {
        Some((what, value)) => Err(FitError::Negative { layer: layer(), what, value }),
        None => Ok(()),
    }
}

/// The `a` and `b`, neither below 0, with the least `Σ (a·x₀ + b·x₁ − y)²`.
fn least_squares(points: &[([f64; 2], f64)]) -> [f64; 2] {
    // Each variable is scaled to length 1, so that bytes and counts weigh alike.
    let length = |at: usize| points.iter().map(|(x, _)| x[at].powi(2)).sum::<f64>().sqrt();
    let lengths = [length(0), length(1)];
    let over = |sum: f64, length: f64| if length > 0.0 { sum / length } else { 0.0 };
    let across: f64 = points.iter().map(|(x, _)| x[0] * x[1]).sum();
    let across = over(over(across, lengths[0]), lengths[1]);
    let target = |at: usize| {
        let sum: f64 = points.iter().map(|(x, y)| x[at] * y).sum();
        over(sum, lengths[at])
    };
    let targets = [target(0), target(1)];
    let determinant = 1.0 - across * across;
    let both = match lengths.iter().all(|length| *length > 0.0) && determinant > 1e-9 {
        true => [targets[0] - across * targets[1], targets[1] - across * targets[0]]
            .map(|term| term / determinant),
        // One variable says all that both say.
        false => [f64::NAN; 2],
    };
    let alone = |at: usize| targets[at].max(0.0);
    let terms = match both {
        [a, b] if a >= 0.0 && b >= 0.0 => [a, b],
        // On the edge of what is permitted, one term explains more than the other.
        _ if alone(0) >= alone(1) => [alone(0), 0.0],
        _ => [0.0, alone(1)],
    };
    [0, 1].map(|at| over(terms[at], lengths[at]))
}

impl Residual {
    fn of(points: &[([f64; 2], f64)], [a, b]: [f64; 2]) -> Self {
        let count = points.len() as f64;
        let mean = points.iter().map(|(_, y)| y).sum::<f64>() / count;
        let predicted = |x: &[f64; 2]| a * x[0] + b * x[1];
        let errors: f64 = points.iter().map(|(x, y)| (predicted(x) - y).powi(2)).sum();
        let spread: f64 = points.iter().map(|(_, y)| (y - mean).powi(2)).sum();
        let [sum, measured] =
            points.iter().fold([0.0; 2], |[sum, all], (x, y)| [sum + predicted(x), all + y]);
        Self {
            rms_ns: (errors / count).sqrt(),
            r_squared: if spread > 0.0 { 1.0 - errors / spread } else { 1.0 },
            total: if measured > 0.0 { sum / measured - 1.0 } else { 0.0 },
        }
    }
}

impl fmt::Display for Fit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Delays { alpha_ns_per_byte, beta_ns, gamma_ns_per_flop, eta_ns } = self.delays;
        let line = |residual: &Residual| {
            let Residual { rms_ns, r_squared, total } = residual;
            let (us, percent) = (rms_ns / 1e3, 100.0 * total);
            format!("rms error {us:.1} us, R2 {r_squared:.3}, sum {percent:+.1} %")
        };
        writeln!(
            out,
            "t_in  = {alpha_ns_per_byte:.4} ns/byte, {:.2} us/parameter ({})",
            beta_ns / 1e3,
            line(&self.swap_in),
        )?;
        let flop = 1e3 * gamma_ns_per_flop;
        writeln!(out, "t_ex  = {flop:.4} ps/operation ({})", line(&self.execute))?;
        write!(out, "t_out = {:.2} us/parameter ({})", eta_ns / 1e3, line(&self.swap_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layer(bytes: u64, depth: u64, flops: f64) -> Layer {
        Layer { name: "layer".into(), bytes, depth, flops }
    }

    fn samples(delays: &Delays, layers: &[Layer]) -> Vec<Sample> {
        let sample = |layer: &Layer| Sample { layer: layer.clone(), times: delays.of(layer) };
        layers.iter().map(sample).collect()
    }

    fn layers() -> impl Strategy<Value = Vec<Layer>> {
        let one = (1u64..50 << 20, 1u64..8, 1e3..1e9f64);
        prop::collection::vec(one.prop_map(|(s, d, f)| layer(s, d, f)), 3..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Times that follow the model give its coefficients back, up to rounding.
        #[test]
        fn a_model_is_found_again(
            layers in layers(), alpha in 0.1..4.0f64, beta in 1e3..1e5f64, eta in 1e3..1e5f64,
        ) {
            let delays = Delays {
                alpha_ns_per_byte: alpha, beta_ns: beta, gamma_ns_per_flop: 0.03, eta_ns: eta,
            };
            let fit = Fit::new(&samples(&delays, &layers)).unwrap();
            for Residual { rms_ns, .. } in [fit.swap_in, fit.execute, fit.swap_out] {
                prop_assert!(rms_ns <= 1.0, "{fit}");
            }
            prop_assert!((fit.delays.gamma_ns_per_flop / 0.03 - 1.0).abs() < 1e-3, "{fit}");
            prop_assert!((fit.delays.eta_ns / eta - 1.0).abs() < 1e-3, "{fit}");
        }

        /// No other non-negative coefficients nearby have a smaller error.
        #[test]
        fn no_neighbour_fits_better(
            points in prop::collection::vec(
                (prop::array::uniform2(0.0..100.0f64), 0.0..1000.0f64), 1..20),
            step in 1e-4..1e-1f64,
        ) {
            let [a, b] = least_squares(&points);
            prop_assert!(a >= 0.0 && b >= 0.0);
            let error = |[a, b]: [f64; 2]| -> f64 {
                points.iter().map(|(x, y)| (a * x[0] + b * x[1] - y).powi(2)).sum()
            };
            let least = error([a, b]);
            for (da, db) in [(step, 0.0), (-step, 0.0), (0.0, step), (0.0, -step), (step, -step)] {
                let other = [a + da, b + db];
                if other.iter().all(|term| *term >= 0.0) {
                    prop_assert!(error(other) >= least * (1.0 - 1e-9) - 1e-9, "{a} {b}");
                }
            }
        }
    }

    #[test]
    fn what_the_line_misses_is_reported() {
        // One operator is ten times as fast as the other: one rate serves neither.
        let times = [1e5 as i64, 1e6 as i64].map(|ex_ns| Times { ex_ns, ..Times::default() });
        let sample = |times| Sample { layer: layer(1, 1, 1e6), times };
        let fit = Fit::new(&times.map(sample)).unwrap();
        assert!((fit.execute.rms_ns - 4.5e5).abs() < 1.0 && fit.execute.r_squared < 0.1, "{fit}");
        assert!(fit.to_string().contains("450.0 us, R2"), "{fit}");
    }

    #[test]
    fn bad_samples_are_named() {
        assert_eq!(Fit::new(&[]), Err(FitError::Empty));
        let sample = Sample { layer: layer(1, 1, f64::NAN), times: Times::default() };
        let error = Fit::new(&[sample]).unwrap_err().to_string();
        assert!(error.contains("`layer` has NaN floating-point operations"), "{error}");
        let times = Times { in_ns: -5, ..Times::default() };
        let error = Fit::new(&[Sample { layer: layer(1, 1, 1.0), times }]).unwrap_err().to_string();
        assert!(error.contains("took -5 ns for swapping in"), "{error}");
    }
}
