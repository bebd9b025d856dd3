//! Elementary functions, each one written order of IEEE operations: bit-identical on every target,
//! and free of branches. `kernels/math.h` is the same arithmetic in vectors, operation by
//! operation.
//!
//! They use no libm; multiply-adds are fused where [`fma`] stands and nowhere else. Rounding to an
//! integer is the addition of 1.5·2²³, and powers of two are made from their bits. NaN goes through
//! all of them; results too large or small saturate to infinity, subnormals and zero as IEEE
//! rounding has it.
//!
//! Largest errors against double precision, in units in the last place of the result (the tests
//! hold them to it): `exp` 1.1, `sigmoid` 2.5, `tanh` 2.5, `erf` 5, `sqrt` 0.5, `log` 1.2, `log2` 3;
//! `pow` 4 + |p · log2 x| · 1.5; of the activations `silu` 3.5, `elu` 1.2, `softplus` 2, `mish` 4.5,
//! `softsign` 1.5, `swish` 4 + |alpha · x|, and `gelu_tanh` 5 + |x|³, relative down to the smallest results. The
//! error of `gelu`, x · Φ(x), is at most 2.1e-7 · |x|: below x = -2 that is no longer small next to
//! the result.
//!
//! The polynomials are Chebyshev fits, made for the intervals that stand next to them; the quotient
//! that `erf` uses is a rational minimax fit. Those of logarithms are Taylor's.

use super::igemm::clamp;
use crate::kernels::fma::fma;

/// 1.5·2²³. Adding it to |x| < 2²² rounds x to an integer, which then stands in the low bits.
const ROUND: f32 = 12_582_912.0;
const LOG2_E: f32 = core::f32::consts::LOG2_E;
const LN2: f32 = core::f32::consts::LN_2;
/// The difference of ln 2 and `LN2`.
const LN2_LOW: f32 = -1.904_654_3e-9;

/// 2ⁿ for -126 ≤ n ≤ 127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// The integer of a sum with [`ROUND`].
#[inline(always)]
fn integer(rounded: f32) -> i32 {
    (rounded.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32)
}

/// exp(r) - 1 for |r| ≤ 0.3467.
#[inline(always)]
fn exp_minus_one_near_zero(r: f32) -> f32 {
    let mut q = 1.392_620_4e-3;
    q = fma(q, r, 8.363_195e-3);
    q = fma(q, r, 4.166_655_6e-2);
    q = fma(q, r, 1.666_657_6e-1);
    q = fma(q, r, 0.5);
    fma(q, r * r, r)
}

/// x - n · ln 2.
#[inline(always)]
fn without_powers(x: f32, n: f32) -> f32 {
    fma(n, -LN2_LOW, fma(n, -LN2, x))
}

/// `p · 2ⁿ` for 1/2 < p < 2, where `rounded` is n + [`ROUND`] and -252 ≤ n ≤ 254: in two factors,
/// so that only the last multiplication rounds.
#[inline(always)]
fn scale(p: f32, rounded: f32) -> f32 {
    let n = integer(rounded);
    let half = n >> 1;
    p * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// eˣ.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Past these limits the result is zero, or infinite.
    let x = clamp(x, -104.0, 89.0);
    let rounded = fma(x, LOG2_E, ROUND);
    let r = without_powers(x, rounded - ROUND);
    scale(exp_minus_one_near_zero(r) + 1.0, rounded)
}

/// 2ˣ.
#[inline(always)]
fn exp2(x: f32) -> f32 {
    let x = clamp(x, -151.0, 129.0);
    let rounded = x + ROUND;
    let r = (x - (rounded - ROUND)) * LN2;
    scale(exp_minus_one_near_zero(r) + 1.0, rounded)
}

/// eʸ - 1 for y ≤ 0, without cancellation.
#[inline(always)]
fn exp_minus_one(y: f32) -> f32 {
    // From -20 on the result is -1.
    let y = if y < -20.0 { -20.0 } else { y };
    let rounded = fma(y, LOG2_E, ROUND);
    let r = without_powers(y, rounded - ROUND);
    let power = power_of_two(integer(rounded));
    fma(exp_minus_one_near_zero(r), power, power - 1.0)
}

/// The nearest whole number to x/scale, of two the even one, within bounds: the lower one times 256,
/// plus what the upper one is more.
#[inline(always)]
pub fn quantise(x: f32, scale: f32, bounds: f32) -> f32 {
    let low = floor(bounds * (1.0 / 256.0));
    let high = low + (bounds - low * 256.0);
    (clamp(x / scale, low, high) + ROUND) - ROUND
}

/// 1 / (1 + e⁻ˣ), from the exponential that does not overflow.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    let e = exp(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// tanh x = -u / (2 + u) with u = exp(-2|x|) - 1, which is computed without cancellation.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let u = exp_minus_one(x.abs() * -2.0);
    (-u / (2.0 + u)).copysign(x)
}

/// Where [`normal_cdf`] reaches 0 and 1.
const NORMAL_LIMIT: f32 = 5.6;

/// Φ(x) - 1/2, the normal distribution from its middle: erf(x/√2)/2.
#[inline(always)]
fn normal_above_half(x: f32) -> f32 {
    let x = clamp(x, -NORMAL_LIMIT, NORMAL_LIMIT);
    let z = x * x;
    let mut p = 2.229_998_8e-8;
    p = fma(p, z, 6.289_003_5e-6);
    p = fma(p, z, 1.688_647_6e-4);
    p = fma(p, z, 4.676_953_4e-3);
    p = fma(p, z, 3.392_307e-2);
    p = fma(p, z, 3.989_422_7e-1);
    let mut q = 1.179_675e-6;
    q = fma(q, z, 7.332_18e-5);
    q = fma(q, z, 1.885_127_8e-3);
    q = fma(q, z, 2.867_406_4e-2);
    q = fma(q, z, 2.516_988_6e-1);
    q = fma(q, z, 1.0);
    clamp(x * p / q, -0.5, 0.5)
}

/// The error function.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    normal_above_half(x * core::f32::consts::SQRT_2) * 2.0
}

/// `x` where it is not less than -128: there the functions below are their limit, -0.
#[inline(always)]
fn bounded(x: f32) -> f32 {
    if x < -128.0 { -128.0 } else { x }
}

/// x · sigmoid(x).
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    let x = bounded(x);
    x * sigmoid(x)
}

/// x · Φ(x), with the normal distribution.
#[inline(always)]
pub fn gelu(x: f32) -> f32 {
    let x = bounded(x);
    x * (normal_above_half(x) + 0.5)
}

/// x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))), which is x · sigmoid of twice that.
#[inline(always)]
pub fn gelu_tanh(x: f32) -> f32 {
    let x = bounded(x);
    let inner = x * fma(7.135_481_6e-2, x * x, 1.595_769_2);
    x * sigmoid(inner)
}

/// min(max(alpha · x + beta, 0), 1)
#[inline(always)]
pub fn hard_sigmoid(x: f32, alpha: f32, beta: f32) -> f32 {
    clamp(fma(alpha, x, beta), 0.0, 1.0)
}

/// x · min(max(x/6 + 1/2, 0), 1)
#[inline(always)]
pub fn hard_swish(x: f32) -> f32 {
    let x = if x < -3.0 { -3.0 } else { x };
    x * hard_sigmoid(x, 1.0 / 6.0, 0.5)
}

/// beta · x from 0 on, alpha · (eˣ - 1) below.
#[inline(always)]
pub fn elu(x: f32, alpha: f32, beta: f32) -> f32 {
    if x < 0.0 { alpha * exp_minus_one(x) } else { beta * x }
}

/// ln(1 + u) for 0 ≤ u ≤ 1: with s = u/(2 + u) it is u - s · (u - R(s²)).
#[inline(always)]
fn log_of_one_and(u: f32) -> f32 {
    let s = u / (2.0 + u);
    let z = s * s;
    let mut r = 1.176_470_6e-1;
    r = fma(r, z, 1.333_333_4e-1);
    r = fma(r, z, 1.538_461_5e-1);
    r = fma(r, z, 1.818_181_8e-1);
    r = fma(r, z, 2.222_222_2e-1);
    r = fma(r, z, 2.857_143e-1);
    r = fma(r, z, 4e-1);
    r = fma(r, z, 6.666_667e-1);
    fma(-s, u - r * z, u)
}

/// ln(1 + eˣ), from the exponential that does not overflow.
#[inline(always)]
pub fn softplus(x: f32) -> f32 {
    let positive = if 0.0 > x { 0.0 } else { x };
    positive + log_of_one_and(exp(-x.abs()))
}

/// x · tanh(ln(1 + eˣ)) = x · n/(n + 2) with n = eˣ · (eˣ + 2).
#[inline(always)]
pub fn mish(x: f32) -> f32 {
    // From 20 on the quotient is 1.
    let e = exp(if 20.0 < x { 20.0 } else { x });
    let n = e * (e + 2.0);
    bounded(x) * (n / (n + 2.0))
}

/// x · sigmoid(alpha · x). For minus infinity, the limit for alpha > 0: -0.
#[inline(always)]
pub fn swish(x: f32, alpha: f32) -> f32 {
    let x = if f32::MIN > x { f32::MIN } else { x };
    x * sigmoid(alpha * x)
}

/// x / (1 + |x|)
#[inline(always)]
pub fn softsign(x: f32) -> f32 {
    let x = clamp(x, f32::MIN, f32::MAX);
    x / (1.0 + x.abs())
}

/// The nearest whole number, of two the even one.
#[inline(always)]
pub fn round(x: f32) -> f32 {
    // From 2²³ on all numbers are whole; adding it to smaller ones rounds them.
    let rounded = ((x.abs() + 8_388_608.0) - 8_388_608.0).copysign(x);
    if x.abs() < 8_388_608.0 { rounded } else { x }
}

/// The largest whole number that is not above x.
#[inline(always)]
pub fn floor(x: f32) -> f32 {
    let rounded = round(x);
    if x < rounded { rounded - 1.0 } else { rounded }
}

/// The sign as a number; zeros and NaN stay.
#[inline(always)]
pub fn sign(x: f32) -> f32 {
    let negative = if x < 0.0 { -1.0 } else { x };
    if 0.0 < x { 1.0 } else { negative }
}

/// x nearer to zero by `bias`, and zero up to `lambda`.
#[inline(always)]
pub fn shrink(x: f32, lambda: f32, bias: f32) -> f32 {
    let moved = if x < -lambda { x + bias } else { x - bias };
    if -lambda <= x && x <= lambda { 0.0 } else { moved }
}

/// x above `alpha`, zero elsewhere.
#[inline(always)]
pub fn above(x: f32, alpha: f32) -> f32 {
    if x <= alpha { 0.0 } else { x }
}

/// √x, correctly rounded, as the instructions for it are. (Rounding what double precision has to 24
/// bits cannot go wrong: no square root of a float lies so close to the middle of two.)
#[inline(always)]
pub fn sqrt(x: f32) -> f32 {
    let d = x as f64;
    let mut y = f64::from_bits((d.to_bits() >> 1).wrapping_add(1023 << 51));
    for _ in 0..4 {
        y = 0.5 * (y + d / y);
    }
    let root = if x > 0.0 && x < f32::INFINITY { y as f32 } else { x };
    if x < 0.0 { f32::NAN } else { root }
}

/// m and n with x = m · 2ⁿ, m in [√½, √2), for finite x > 0.
#[inline(always)]
fn mantissa_and_exponent(x: f32) -> (f32, f32) {
    let subnormal = x < f32::MIN_POSITIVE;
    let normal = if subnormal { x * 16_777_216.0 } else { x };
    // Adding what √½'s bits lack to 1's carries into the exponent above.
    let bits = (normal.to_bits() as i32).wrapping_add(0x3f80_0000 - 0x3f35_04f3);
    let exponent = (bits >> 23).wrapping_sub(127);
    let m = f32::from_bits(((bits & 0x007f_ffff) + 0x3f35_04f3) as u32);
    (m, exponent as f32 - if subnormal { 24.0 } else { 0.0 })
}

/// ln x: minus infinity for 0, NaN below.
#[inline(always)]
pub fn log(x: f32) -> f32 {
    let (m, n) = mantissa_and_exponent(x);
    // ln(1 + f) = f - s · (f - R(s²)) with s = f/(2 + f), |s| ≤ 0.1716.
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let mut r = 2.222_222_2e-1;
    r = fma(r, z, 2.857_143e-1);
    r = fma(r, z, 4e-1);
    r = fma(r, z, 6.666_667e-1);
    let rest = fma(-s, f - r * z, f);
    let finite = fma(n, LN2, fma(n, LN2_LOW, rest));
    let positive = if f32::MAX < x { x } else { finite };
    let other = if 0.0 <= x { f32::NEG_INFINITY } else { f32::NAN };
    if 0.0 < x { positive } else { other }
}

/// log₂ x for x > 0; infinity for infinity, NaN for everything else.
#[inline(always)]
fn log2(x: f32) -> f32 {
    let (m, exponent) = mantissa_and_exponent(x);
    // log2 m = s · P(s²) with s = (m - 1)/(m + 1), |s| ≤ 0.1716.
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut p = 4.317_195_7e-1;
    p = fma(p, z, 5.767_151e-1);
    p = fma(p, z, 9.617_988_5e-1);
    p = fma(p, z, 2.885_39);
    let finite = fma(s, p, exponent);
    let positive = if f32::MAX < x { x } else { finite };
    if 0.0 < x { positive } else { f32::NAN }
}

/// xᵖ for x > 0; NaN for x ≤ 0 and for NaN.
#[inline(always)]
pub fn pow(x: f32, p: f32) -> f32 {
    exp2(p * log2(x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::testing::{erf, sweeps};
    use std::prelude::rust_2024::*;

    /// Distance from the true value in units in the last place that the true value has in f32.
    fn ulps(found: f32, truth: f64) -> f64 {
        let exponent = truth.abs().log2().floor().max(-126.0);
        if truth.abs() >= f32::MAX as f64 * (1.0 + 2f64.powi(-25)) {
            return if found == f32::INFINITY.copysign(truth as f32) { 0.0 } else { f64::INFINITY };
        }
        (found as f64 - truth).abs() / 2f64.powf(exponent - 23.0)
    }

    /// Every `step`-th float between the bits of `from` and `to`, of one sign.
    fn floats(from: f32, to: f32, step: usize) -> impl Iterator<Item = f32> {
        (from.to_bits()..=to.to_bits()).step_by(step).map(f32::from_bits)
    }

    fn worst(
        inputs: impl Iterator<Item = f32>,
        f: impl Fn(f32) -> f32,
        truth: impl Fn(f64) -> f64,
    ) -> (f64, f32) {
        inputs
            .map(|x| (ulps(f(x), truth(x as f64)), x))
            .fold((0.0, 0.0), |worst, at| if at.0 > worst.0 { at } else { worst })
    }

    fn both_signs(to: f32) -> impl Iterator<Item = f32> {
        floats(0.0, to, 199).chain(floats(-0.0, -to, 199))
    }

    fn sigmoid_of(x: f64) -> f64 {
        if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
    }

    #[test]
    fn functions_are_within_their_bounds() {
        // Errors change slowly from one argument to the next.
        let sparse = if sweeps() { 1 } else { 10 };
        let some = |to: f32| both_signs(to).step_by(sparse);
        let gelu_tanh_of = |x: f64| {
            x * sigmoid_of((8.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x))
        };
        type Case<'a> = (&'static str, fn(f32) -> f32, &'a dyn Fn(f64) -> f64, f32, f64);
        let cases: [Case<'_>; 9] = [
            ("exp", exp, &f64::exp, 120.0, 1.1),
            ("sigmoid", sigmoid, &sigmoid_of, 200.0, 2.5),
            ("tanh", tanh, &f64::tanh, 50.0, 2.5),
            ("erf", super::erf, &erf, 50.0, 5.0),
            ("silu", silu, &|x| x * sigmoid_of(x), 80.0, 3.5),
            ("elu", |x| elu(x, 1.0, 1.0), &|x| if x < 0.0 { x.exp_m1() } else { x }, 50.0, 1.2),
            ("softplus", softplus, &|x| x.max(0.0) + (-x.abs()).exp().ln_1p(), 200.0, 2.0),
            ("mish", mish, &|x| x * x.exp().ln_1p().tanh(), 80.0, 4.5),
            ("softsign", softsign, &|x| x / (1.0 + x.abs()), 50.0, 1.5),
        ];
        for (name, f, truth, limit, bound) in cases {
            let (error, x) = worst(some(limit), f, truth);
            std::println!("{name}: {error} at {x}");
            assert!(error <= bound, "{name}: {error} at {x}");
        }
        for x in some(9.0) {
            let error = ulps(gelu_tanh(x), gelu_tanh_of(x as f64));
            assert!(error <= 5.0 + x.abs().powi(3) as f64, "gelu_tanh: {error} at {x}");
        }
        for x in some(40.0) {
            let error = ulps(swish(x, 1.702), x as f64 * sigmoid_of(1.702f32 as f64 * x as f64));
            assert!(error <= 4.0 + 1.702 * x.abs() as f64, "swish: {error} at {x}");
        }
        let worst = some(100.0).filter(|x| x.abs() > f32::MIN_POSITIVE).map(|x| {
            let truth = x as f64 * 0.5 * (1.0 + erf(x as f64 / 2f64.sqrt()));
            ((gelu(x) as f64 - truth).abs() / x.abs() as f64, x)
        });
        let (error, x) =
            worst.fold((0.0, 0.0), |worst, at| if at.0 > worst.0 { at } else { worst });
        std::println!("gelu: {error} of x at {x}");
        assert!(error <= 2.1e-7, "gelu: {error} of x at {x}");
    }

    #[test]
    fn limits() {
        for (f, low, high) in [
            (exp as fn(f32) -> f32, 0.0, f32::INFINITY),
            (sigmoid, 0.0, 1.0),
            (tanh, -1.0, 1.0),
            (super::erf, -1.0, 1.0),
            (silu, 0.0, f32::INFINITY),
            (gelu, 0.0, f32::INFINITY),
            (gelu_tanh, 0.0, f32::INFINITY),
            (hard_swish, 0.0, f32::INFINITY),
            (softplus, 0.0, f32::INFINITY),
            (mish, 0.0, f32::INFINITY),
            (softsign, -1.0, 1.0),
            (|x| elu(x, 2.0, 1.0), -2.0, f32::INFINITY),
            (|x| swish(x, 1.702), 0.0, f32::INFINITY),
        ] {
            assert_eq!([f(f32::NEG_INFINITY), f(f32::INFINITY)], [low, high]);
            assert!(f(f32::NAN).is_nan());
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(tanh(-0.0).to_bits(), (-0.0f32).to_bits());
        assert_eq!([gelu(-100.0), gelu(100.0), super::erf(4.0)], [0.0, 100.0, 1.0]);
    }

    #[test]
    fn log2_is_within_its_bound() {
        let (error, x) = worst(floats(f32::from_bits(1), f32::MAX, 1009), log2, f64::log2);
        assert!(error <= 3.0, "{error} at {x}");
        let (error, x) = worst(floats(0.5, 2.0, 13), log2, f64::log2);
        assert!(error <= 3.0, "{error} at {x}");
        assert_eq!(log2(f32::INFINITY), f32::INFINITY);
        assert!(log2(0.0).is_nan() && log2(-1.0).is_nan() && log2(f32::NAN).is_nan());
    }

    #[test]
    fn log_is_within_its_bound() {
        for x in [floats(f32::from_bits(1), f32::MAX, 1009), floats(0.5, 2.0, 13)] {
            let (error, x) = worst(x, log, f64::ln);
            assert!(error <= 1.2, "{error} at {x}");
        }
        assert_eq!([log(f32::INFINITY), log(1.0)], [f32::INFINITY, 0.0]);
        assert_eq!([log(0.0), log(-0.0)], [f32::NEG_INFINITY; 2]);
        assert!(log(-1.0).is_nan() && log(f32::NEG_INFINITY).is_nan() && log(f32::NAN).is_nan());
    }

    #[test]
    fn whole_numbers() {
        let large = [8_388_607.5, 8_388_608.0, 8_388_609.0, 1e30, f32::INFINITY];
        let halves = (0..40).map(|i| i as f32 * 0.25).chain(large).chain(floats(0.0, 9e6, 99_991));
        for x in halves.flat_map(|x| [x, -x]) {
            let bits = |found: f32, truth: f32| assert_eq!(found.to_bits(), truth.to_bits(), "{x}");
            bits(round(x), x.round_ties_even());
            bits(floor(x), x.floor());
            bits(-floor(-x), x.ceil());
        }
        assert!(round(f32::NAN).is_nan() && floor(f32::NAN).is_nan());
        assert_eq!([sign(-3.0), sign(0.0), sign(f32::INFINITY)], [-1.0, 0.0, 1.0]);
        assert_eq!([-2.0, -1.0, 0.5, 3.0].map(|x| shrink(x, 1.5, 0.5)), [-1.5, 0.0, 0.0, 2.5]);
        assert_eq!([-2.0, 1.0, 1.5].map(|x| above(x, 1.0)), [0.0, 0.0, 1.5]);
    }

    #[test]
    fn sqrt_is_correctly_rounded() {
        for x in floats(0.0, f32::INFINITY, 997) {
            assert_eq!(sqrt(x).to_bits(), x.sqrt().to_bits(), "{x}");
        }
        assert_eq!(sqrt(-0.0).to_bits(), (-0.0f32).to_bits());
        assert_eq!(sqrt(f32::INFINITY), f32::INFINITY);
        assert!(sqrt(-1.0).is_nan() && sqrt(f32::NAN).is_nan());
    }

    #[test]
    fn pow_is_within_its_bound() {
        for p in [-0.75f32, -0.5, 0.75, -1.0, 2.0, -3.3] {
            for x in floats(1e-30, 1e30, 30011) {
                let truth = (x as f64).powf(p as f64);
                let bound = 4.0 + (p as f64 * (x as f64).log2()).abs() * 1.5;
                let error = ulps(pow(x, p), truth);
                assert!(error <= bound, "{error} at {x}^{p}");
            }
        }
        assert_eq!(pow(f32::INFINITY, -0.75), 0.0);
        assert!(pow(-1.0, 0.5).is_nan());
    }

    /// Results have the same bits on every target. The checksums are over a fixed set of inputs, and
    /// over every tenth of them.
    #[test]
    fn results_have_the_bits_they_always_had() {
        let sparse = if sweeps() { 1 } else { 10 };
        let checksum = |f: fn(f32) -> f32| {
            both_signs(150.0).step_by(sparse).map(f).fold(0xcbf2_9ce4_8422_2325u64, |hash, y| {
                (hash ^ y.to_bits() as u64).wrapping_mul(0x0000_0100_0000_01b3)
            })
        };
        let found = [
            checksum(exp),
            checksum(sigmoid),
            checksum(tanh),
            checksum(super::erf),
            checksum(gelu),
            checksum(gelu_tanh),
            checksum(|x| log2(x.abs() + f32::MIN_POSITIVE)),
            checksum(|x| pow(x.abs() + f32::MIN_POSITIVE, -0.75)),
            checksum(log),
            checksum(softplus),
            checksum(mish),
            checksum(|x| elu(x, 0.7, 1.1)),
            checksum(|x| swish(x, 1.702)),
        ];
        let all = [
            0x5159_71c1_300c_445a,
            0x3e04_3f89_52b4_bc07,
            0xcfde_2fa6_b4ab_5f99,
            0xa4b4_a45f_a165_5d15,
            0xc3cd_01bf_da2e_1a79,
            0x0383_5cfb_6e6a_8a33,
            0xd159_f57b_561f_57d1,
            0x2283_46c1_fc5b_9245,
            0x9dfd_ad58_1c03_5e3e,
            0x7cd4_04fd_bcb9_2c9f,
            0x644a_d7ac_858a_bed4,
            0x9137_af25_e858_708b,
            0x5012_c11c_a49d_f9c5,
        ];
        let some = [
            0x1a0d_cbca_8a0d_dbf3,
            0xb461_a6b6_5974_d8cc,
            0x16b0_52a0_53ce_e931,
            0x4225_5dec_0e95_fbc3,
            0x3ee0_6e0b_6a2f_a8a1,
            0x4fae_dc57_33c3_522f,
            0x0dc6_7b71_3354_9c19,
            0xa470_72b2_444a_cf09,
            0x6047_93a2_797e_30a5,
            0xf586_5aee_1d8a_adf6,
            0xfce8_a959_3779_d026,
            0x3333_f34f_b124_d3e9,
            0x1ebd_3891_a33a_89ac,
        ];
        assert_eq!(found, if sweeps() { all } else { some }, "{found:#x?}");
    }
}
