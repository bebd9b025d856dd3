//! Elementary functions, each one written order of IEEE additions, multiplications, divisions and
//! selections: bit-identical on every target, and free of branches, so that loops over them vectorise.
//!
//! There is no libm behind them, and nothing is contracted into fused operations. Rounding to an integer
//! is the addition of 1.5·2²³, and powers of two are made from their bits. NaN goes through all of them;
//! results too large or small saturate to infinity, subnormals and zero as IEEE rounding has it.
//!
//! Largest errors against double precision, in units in the last place of the result (the tests hold
//! them to it): `exp` 1.1, `sigmoid` 2.5, `tanh` 3, `erf` 2, `sqrt` 0.5, `log2` 3; `pow` 4 + |p · log2 x| · 1.5.
//!
//! The polynomials are Chebyshev fits, made for the intervals that stand beside them.

/// 1.5·2²³. Adding it to |x| < 2²² rounds x to an integer, which then stands in the low bits.
const ROUND: f32 = 12_582_912.0;
const LN2: f32 = core::f32::consts::LN_2;
/// ln 2 in two parts: the first has 9 bits, so that its product with a small integer is exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// `x` between `low` and `high`; NaN stays NaN, and -0 stays -0 at a limit of 0.
#[inline(always)]
pub fn clamp(x: f32, low: f32, high: f32) -> f32 {
    if x < low {
        low
    } else if x > high {
        high
    } else {
        x
    }
}

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
    q = q * r + 8.363_195e-3;
    q = q * r + 4.166_655_6e-2;
    q = q * r + 1.666_657_6e-1;
    q = q * r + 0.5;
    q * (r * r) + r
}

/// `p · 2ⁿ` for 1/2 < p < 2, where `rounded` is n + [`ROUND`] and -252 ≤ n ≤ 254: in two factors, so that only
/// the last multiplication rounds.
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
    let rounded = x * core::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;
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

/// 1 / (1 + e⁻ˣ), from the exponential that does not overflow.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    let e = exp(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// tanh x = -u / (2 + u) with u = exp(-2|x|) - 1, which is computed without cancellation.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let y = x.abs() * -2.0;
    // From 10 on the result is 1.
    let y = if y < -20.0 { -20.0 } else { y };
    let rounded = y * core::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = (y - n * LN2_HIGH) - n * LN2_LOW;
    let power = power_of_two(integer(rounded));
    let u = exp_minus_one_near_zero(r) * power + (power - 1.0);
    (-u / (2.0 + u)).copysign(x)
}

/// The error function: x + x · P(x²) near zero, 1 - exp(-Q(|x|)) beyond.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    // 0 ≤ z ≤ 0.826
    let z = x * x;
    let mut p = 8.481_194e-5;
    p = p * z - 8.168_985e-4;
    p = p * z + 5.203_355_6e-3;
    p = p * z - 2.686_034_1e-2;
    p = p * z + 1.128_371_3e-1;
    p = p * z - 3.761_263_5e-1;
    p = p * z + 1.283_792_3e-1;
    // 0.882 ≤ a ≤ 4, from where on the result is 1
    let a = x.abs();
    let a = if a > 4.0 { 4.0 } else { a };
    let mut q = -1.602_491_7e-6;
    q = q * a + 4.535_461_3e-5;
    q = q * a - 5.907_155e-4;
    q = q * a + 4.730_283_3e-3;
    q = q * a - 2.633_554_4e-2;
    q = q * a + 1.099_251_9e-1;
    q = q * a + 6.319_953e-1;
    q = q * a + 1.130_131_5;
    q = q * a - 2.942_759e-4;
    if a < 0.9 { x * p + x } else { (1.0 - exp(-q)).copysign(x) }
}

/// x/2 · (1 + erf(x/√2)).
#[inline(always)]
pub fn gelu(x: f32) -> f32 {
    // From -6 on down the result is -0.
    let x = if x < -16.0 { -16.0 } else { x };
    0.5 * x * (1.0 + erf(x * core::f32::consts::FRAC_1_SQRT_2))
}

/// x/2 · (1 + tanh u) with u = √(2/π) · (x + 0.044715·x³), as x · sigmoid(2u).
#[inline(always)]
pub fn gelu_tanh(x: f32) -> f32 {
    let x = if x < -16.0 { -16.0 } else { x };
    let twice = x * (7.135_481_6e-2 * (x * x) + 1.595_769_2);
    x * sigmoid(twice)
}

/// √x, correctly rounded, as the instructions for it are. (Rounding what double precision has to 24 bits
/// cannot go wrong: no square root of a float lies so close to the middle of two.)
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

/// log₂ x for x > 0; infinity for infinity, NaN for everything else.
#[inline(always)]
fn log2(x: f32) -> f32 {
    let subnormal = x < f32::MIN_POSITIVE;
    let normal = if subnormal { x * 16_777_216.0 } else { x };
    // The mantissa goes to [√½, √2): adding what √½'s bits lack to 1's carries into the exponent above.
    let bits = normal.to_bits().wrapping_add(0x3f80_0000 - 0x3f35_04f3);
    let exponent = (bits >> 23) as i32 - 127;
    let m = f32::from_bits((bits & 0x007f_ffff) + 0x3f35_04f3);
    let exponent = exponent as f32 - if subnormal { 24.0 } else { 0.0 };
    // log2 m = s · P(s²) with s = (m - 1)/(m + 1), |s| ≤ 0.1716.
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut p = 4.317_195_7e-1;
    p = p * z + 5.767_151e-1;
    p = p * z + 9.617_988_5e-1;
    p = p * z + 2.885_39;
    let finite = s * p + exponent;
    let positive = if x > f32::MAX { x } else { finite };
    if x > 0.0 { positive } else { f32::NAN }
}

/// xᵖ for x > 0; NaN for x ≤ 0 and for NaN.
#[inline(always)]
pub fn pow(x: f32, p: f32) -> f32 {
    exp2(p * log2(x))
}

/// The sum of a slice: eight partial sums, element i to the sum i mod 8, then those by halves. The order
/// suits vectors of any width and depends on none.
pub fn sum(x: &[f32]) -> f32 {
    let mut partial = [0.0f32; 8];
    let (blocks, rest) = x.as_chunks::<8>();
    for block in blocks {
        for (sum, x) in partial.iter_mut().zip(block) {
            *sum += x;
        }
    }
    for (sum, x) in partial.iter_mut().zip(rest) {
        *sum += x;
    }
    let [a, b, c, d, e, f, g, h] = partial;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// The largest of a slice, NaN passed over; minus infinity where there is none.
pub fn max(x: &[f32]) -> f32 {
    let larger = |x: f32, than: f32| if x > than { x } else { than };
    let mut partial = [f32::NEG_INFINITY; 16];
    let (blocks, rest) = x.as_chunks::<16>();
    for block in blocks {
        for (max, x) in partial.iter_mut().zip(block) {
            *max = larger(*x, *max);
        }
    }
    partial.iter().chain(rest).fold(f32::NEG_INFINITY, |max, x| larger(*x, max))
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn exp_is_within_its_bound() {
        let (error, x) = worst(both_signs(120.0), exp, f64::exp);
        assert!(error <= 1.1, "{error} at {x}");
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn sigmoid_is_within_two_and_a_half_ulps() {
        let (error, x) = worst(both_signs(200.0), sigmoid, |x| {
            if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
        });
        assert!(error <= 2.5, "{error} at {x}");
        assert_eq!(sigmoid(f32::NEG_INFINITY), 0.0);
        assert_eq!(sigmoid(f32::INFINITY), 1.0);
        assert!(sigmoid(f32::NAN).is_nan());
    }

    #[test]
    fn tanh_is_within_three_ulps() {
        let (error, x) = worst(both_signs(50.0), tanh, f64::tanh);
        assert!(error <= 3.0, "{error} at {x}");
        assert_eq!(tanh(-0.0).to_bits(), (-0.0f32).to_bits());
        assert_eq!(tanh(f32::INFINITY), 1.0);
        assert_eq!(tanh(f32::NEG_INFINITY), -1.0);
        assert!(tanh(f32::NAN).is_nan());
    }

    #[test]
    fn log2_is_within_three_ulps() {
        let (error, x) = worst(floats(f32::from_bits(1), f32::MAX, 1009), log2, f64::log2);
        assert!(error <= 3.0, "{error} at {x}");
        let (error, x) = worst(floats(0.5, 2.0, 13), log2, f64::log2);
        assert!(error <= 3.0, "{error} at {x}");
        assert_eq!(log2(f32::INFINITY), f32::INFINITY);
        assert!(log2(0.0).is_nan() && log2(-1.0).is_nan() && log2(f32::NAN).is_nan());
    }

    #[test]
    fn erf_is_within_its_bound() {
        // erfc by its continued fraction, erf by its series.
        let truth = |x: f64| {
            let a = x.abs();
            if a < 2.5 {
                let (mut term, mut sum) = (a, a);
                for n in 1..200 {
                    term *= -a * a / n as f64;
                    sum += term / (2 * n + 1) as f64;
                }
                return (sum * core::f64::consts::FRAC_2_SQRT_PI).copysign(x);
            }
            let fraction = (1..200).rev().fold(a, |f, n| a + n as f64 / 2.0 / f);
            let rest = (-a * a).exp() / fraction / core::f64::consts::PI.sqrt();
            (1.0 - rest).copysign(x)
        };
        let (error, x) = worst(both_signs(6.0), erf, truth);
        assert!(error <= 2.0, "{error} at {x}");
        assert_eq!(erf(f32::NEG_INFINITY), -1.0);
        assert_eq!(erf(f32::INFINITY), 1.0);
        assert!(erf(f32::NAN).is_nan());
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

    /// The same bits on every target: the checksum of results over a fixed set of inputs.
    #[test]
    fn results_have_the_bits_they_always_had() {
        let checksum = |f: fn(f32) -> f32| {
            both_signs(150.0).map(f).fold(0xcbf2_9ce4_8422_2325u64, |hash, y| {
                (hash ^ y.to_bits() as u64).wrapping_mul(0x0000_0100_0000_01b3)
            })
        };
        let found = [
            checksum(exp),
            checksum(sigmoid),
            checksum(tanh),
            checksum(|x| log2(x.abs() + f32::MIN_POSITIVE)),
            checksum(|x| pow(x.abs() + f32::MIN_POSITIVE, -0.75)),
            checksum(erf),
            checksum(gelu),
            checksum(gelu_tanh),
        ];
        let always = [
            0x65b8_3a63_a3d6_d6f1,
            0xea7f_8649_bf04_3654,
            0x61ac_6033_0293_a689,
            0xb9bd_1a71_c512_a845,
            0x535e_53ca_065a_8ba5,
            0x396b_1b17_7cf7_a689,
            0x1e32_0fcf_cc0e_df37,
            0x2873_dd74_220f_9c32,
        ];
        assert_eq!(found, always, "{found:#x?}");
    }

    #[test]
    fn sum_and_max() {
        let x: Vec<f32> = (0..75).map(|i| ((i * 37) % 75) as f32 - 70.0).collect();
        for n in 0..x.len() {
            assert_eq!(sum(&x[..n]), x[..n].iter().sum::<f32>());
            assert_eq!(max(&x[..n]), x[..n].iter().fold(f32::NEG_INFINITY, |m, x| m.max(*x)));
        }
    }
}
