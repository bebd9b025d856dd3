//! Functions in double precision next to the standard library's.

use super::*;
use std::prelude::rust_2024::*;

/// Distance from the true value in units in the last place that the true value has in f32.
fn ulps(found: f32, truth: f64) -> f64 {
    if found.is_nan() || truth.is_nan() {
        return if found.is_nan() == truth.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if truth.abs() >= f32::MAX as f64 * (1.0 + 2f64.powi(-25)) {
        return if found == f32::INFINITY.copysign(truth as f32) { 0.0 } else { f64::INFINITY };
    }
    let exponent = truth.abs().log2().floor().max(-126.0);
    (found as f64 - truth).abs() / 2f64.powf(exponent - 23.0)
}

/// Floats of both signs up to `most`, and the ends.
fn floats(most: f32, step: usize) -> impl Iterator<Item = f32> {
    let sparse = if cfg!(target_arch = "x86_64") { step } else { 20 * step };
    let all = (0..=most.to_bits()).step_by(sparse).map(f32::from_bits).chain([most]);
    all.flat_map(|x| [x, -x])
}

type Case = (&'static str, fn(f32) -> f32, fn(f64) -> f64, f32);

#[test]
fn functions_are_within_their_bounds() {
    let cases: [Case; 11] = [
        ("sin", sin, f64::sin, f32::MAX),
        ("cos", cos, f64::cos, f32::MAX),
        ("tan", tan, f64::tan, f32::MAX),
        ("asin", asin, f64::asin, 1.0),
        ("acos", acos, f64::acos, 1.0),
        ("atan", atan, f64::atan, f32::MAX),
        ("sinh", sinh, f64::sinh, 100.0),
        ("cosh", cosh, f64::cosh, 100.0),
        ("asinh", asinh, f64::asinh, f32::MAX),
        ("acosh", acosh, f64::acosh, f32::MAX),
        ("atanh", atanh, f64::atanh, 1.0),
    ];
    for (name, f, truth, most) in cases {
        let odd = [1e-3, 1e-2, 0.0156, 0.0157, 0.25, 0.75, 1.0, 1048575.9, 1048576.0, 3e7];
        let odd = odd.into_iter().filter(|x| *x <= most).flat_map(|x| [x, -x]);
        for x in floats(most, 100_003).chain(odd) {
            let error = ulps(f(x), truth(x as f64));
            assert!(error <= 0.501, "{name}: {error} at {x}: {} and {}", f(x), truth(x as f64));
        }
        assert!(f(f32::NAN).is_nan(), "{name}");
    }
    for f in [sin, tan, asin, atan, sinh, asinh, atanh] {
        assert_eq!(f(-0.0).to_bits(), (-0.0f32).to_bits());
    }
    assert!(sin(f32::INFINITY).is_nan() && asin(1.1).is_nan() && acos(-1.1).is_nan());
    assert!(acosh(0.9).is_nan() && acosh(-2.0).is_nan() && atanh(1.1).is_nan());
    assert_eq!([atanh(1.0), atanh(-1.0)], [f32::INFINITY, f32::NEG_INFINITY]);
    assert_eq!([cosh(f32::NEG_INFINITY), sinh(f32::NEG_INFINITY)], [f32::INFINITY, -f32::INFINITY]);
}

#[test]
fn powers_are_within_their_bound() {
    for p in [-3.0f32, -1.5, -0.5, 0.3, 0.5, 1.0, 2.0, 2.2, 3.0, 7.0, 30.5, 1e-3] {
        for x in floats(f32::MAX, 1_000_003) {
            let error = ulps(pow(x, p), (x as f64).powf(p as f64));
            assert!(error <= 0.51, "{error} at {x}^{p}");
        }
    }
    let odd = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 1e30, 16_777_218.0];
    let odd = odd.into_iter().chain([f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
    for x in odd.clone() {
        for p in odd.clone() {
            let (found, truth) = (pow(x, p), (x as f64).powf(p as f64) as f32);
            assert!(
                found.to_bits() == truth.to_bits() || found.is_nan() && truth.is_nan(),
                "{x}^{p} is {found}, not {truth}"
            );
        }
    }
}

#[test]
fn remainders_are_exact() {
    let odd = [0.0, -0.0, 1.0, 0.3, -2.5, 1e-45, -1e-40, 1e38, 7.0, f32::MIN_POSITIVE];
    let odd = odd.into_iter().chain([f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
    let some: Vec<f32> = odd.chain(floats(f32::MAX, 20_000_003)).collect();
    for &a in &some {
        for &b in &some {
            let (found, truth) = (remainder(a, b), a % b);
            assert!(
                found.to_bits() == truth.to_bits() || found.is_nan() && truth.is_nan(),
                "{a} % {b} is {found}, not {truth}"
            );
        }
    }
}
