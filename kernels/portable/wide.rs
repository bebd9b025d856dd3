//! Elementary functions that are computed in double precision, an element at a time, and rounded
//! once: those of angles, hyperbolic ones, powers. All instruction sets call this text, whose
//! additions, products and quotients have the same bits on every target; nothing is fused.
//!
//! The largest error against the true value is 0.501 units in the last place of the result, of `pow`
//! 0.51 (the tests hold them to it); `remainder` is exact.
//!
//! Series are Taylor's, cut where what follows is below 2⁻⁵⁰ of the sum.

use core::f64::consts::{FRAC_PI_2, LN_2, PI, TAU};

/// 1/(16π) from its binary point on: 256 bits.
const TURNS: [u64; 4] =
    [0x0517_cc1b_7272_20a9, 0x4fe1_3abe_8fa9_a6ee, 0x06db_14ac_c9e2_1c82, 0x0ff2_8b1d_5ef5_de2b];
/// π/2 to 33 bits: products with whole numbers below 2²⁰ are exact.
const HALF_PI: f64 = 1.570_796_326_734_125_6;
/// The difference of π/2 and `HALF_PI`.
const HALF_PI_LOW: f64 = 6.077_100_506_506_192e-11;
/// 1.5·2⁵². Adding it to |x| < 2⁵¹ rounds x to a whole number, which then stands in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// Σ cᵢ·xⁱ.
#[inline(always)]
fn series<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    coefficients.into_iter().rev().fold(0.0, |sum, c| sum * x + c)
}

/// √d, to the last bit or two.
fn root(d: f64) -> f64 {
    if d.is_nan() || d < 0.0 {
        return f64::NAN;
    }
    if d == 0.0 || d == f64::INFINITY {
        return d;
    }
    let mut y = f64::from_bits((d.to_bits() >> 1).wrapping_add(1023 << 51));
    for _ in 0..5 {
        y = 0.5 * (y + d / y);
    }
    y
}

/// The quarter turn that a finite angle is in, and what it has from the middle of that: at most π/4.
fn quarter(x: f32) -> (u32, f64) {
    let a = x.abs();
    let (turn, rest) = if a < 1_048_576.0 {
        let a = a as f64;
        let n = (a / FRAC_PI_2 + ROUND) - ROUND;
        (n as u32, (a - n * HALF_PI) - n * HALF_PI_LOW)
    } else {
        // a = m · 2^(e - 3), and what is left of a/2π without whole turns is m times the bits of
        // 1/(16π) from e on. The product's 128 bits have an error of 2⁻¹⁰⁴.
        let (m, e) = (a.to_bits() & 0x007f_ffff | 0x0080_0000, (a.to_bits() >> 23) - 147);
        let (word, shift) = (e as usize / 64, e % 64);
        let bits = |at: usize| {
            let [high, low] = [at, at + 1].map(|at| TURNS.get(at).copied().unwrap_or(0));
            if shift == 0 { high } else { high << shift | low >> (64 - shift) }
        };
        let window = (bits(word) as u128) << 64 | bits(word + 1) as u128;
        let turns = window.wrapping_mul(m as u128);
        let n = (turns.wrapping_add(1 << 125)) >> 126;
        let rest = turns.wrapping_sub(n << 126) as i128;
        (n as u32, rest as f64 / 340_282_366_920_938_463_463_374_607_431_768_211_456.0 * TAU)
    };
    if x < 0.0 { (turn.wrapping_neg(), -rest) } else { (turn, rest) }
}

/// The sine and the cosine for |r| ≤ π/4.
fn near_zero(r: f64) -> [f64; 2] {
    let z = r * r;
    let sine = series(
        z,
        [
            1.0,
            -1.0 / 6.0,
            1.0 / 120.0,
            -1.0 / 5040.0,
            1.0 / 362_880.0,
            -1.0 / 39_916_800.0,
            1.0 / 6_227_020_800.0,
        ],
    );
    let cosine = series(
        z,
        [
            1.0,
            -1.0 / 2.0,
            1.0 / 24.0,
            -1.0 / 720.0,
            1.0 / 40_320.0,
            -1.0 / 3_628_800.0,
            1.0 / 479_001_600.0,
            -1.0 / 87_178_291_200.0,
        ],
    );
    [r * sine, cosine]
}

/// The sine and the cosine.
fn sine_and_cosine(x: f32) -> [f64; 2] {
    if !x.is_finite() {
        return [f64::NAN; 2];
    }
    let (turn, rest) = quarter(x);
    let [sine, cosine] = near_zero(rest);
    match turn % 4 {
        0 => [sine, cosine],
        1 => [cosine, -sine],
        2 => [-sine, -cosine],
        _ => [-cosine, sine],
    }
}

/// sin x
pub fn sin(x: f32) -> f32 {
    if x == 0.0 { x } else { sine_and_cosine(x)[0] as f32 }
}

/// cos x
pub fn cos(x: f32) -> f32 {
    sine_and_cosine(x)[1] as f32
}

/// tan x
pub fn tan(x: f32) -> f32 {
    let [sine, cosine] = sine_and_cosine(x);
    if x == 0.0 { x } else { (sine / cosine) as f32 }
}

/// The angle of a tangent.
fn angle(x: f64) -> f64 {
    let a = x.abs();
    let inverse = if a > 1.0 { 1.0 / a } else { a };
    let (from, t) = if inverse < 0.25 {
        (0.0, inverse)
    } else if inverse < 0.75 {
        (0.463_647_609_000_806_1, (inverse - 0.5) / (1.0 + 0.5 * inverse))
    } else {
        (PI / 4.0, (inverse - 1.0) / (1.0 + inverse))
    };
    let rest = series(
        t * t,
        [
            1.0,
            -1.0 / 3.0,
            1.0 / 5.0,
            -1.0 / 7.0,
            1.0 / 9.0,
            -1.0 / 11.0,
            1.0 / 13.0,
            -1.0 / 15.0,
            1.0 / 17.0,
            -1.0 / 19.0,
            1.0 / 21.0,
        ],
    );
    let inner = from + t * rest;
    let angle = if a > 1.0 { FRAC_PI_2 - inner } else { inner };
    if x < 0.0 { -angle } else { angle }
}

/// arctan x
pub fn atan(x: f32) -> f32 {
    if x == 0.0 || x.is_nan() { x } else { angle(x as f64) as f32 }
}

/// arcsin x
pub fn asin(x: f32) -> f32 {
    let wide = x as f64;
    let cosine = root((1.0 - wide) * (1.0 + wide));
    if x == 0.0 { x } else { angle(wide / cosine) as f32 }
}

/// arccos x, of which twice the tangent of the half is √((1 - x)/(1 + x)).
pub fn acos(x: f32) -> f32 {
    let wide = x as f64;
    (2.0 * angle(root((1.0 - wide) / (1.0 + wide)))) as f32
}

/// eˣ; 0 and infinity beyond ±700.
fn exponential(x: f64) -> f64 {
    if x < -700.0 {
        return 0.0;
    }
    if x > 700.0 {
        return f64::INFINITY;
    }
    let n = (x / LN_2 + ROUND) - ROUND;
    // ln 2 to 32 bits, and what that lacks.
    let r = (x - n * 0.693_147_180_369_123_8) - n * 1.908_214_929_270_587_7e-10;
    let power = series(
        r,
        [
            1.0,
            1.0,
            1.0 / 2.0,
            1.0 / 6.0,
            1.0 / 24.0,
            1.0 / 120.0,
            1.0 / 720.0,
            1.0 / 5040.0,
            1.0 / 40_320.0,
            1.0 / 362_880.0,
            1.0 / 3_628_800.0,
            1.0 / 39_916_800.0,
            1.0 / 479_001_600.0,
        ],
    );
    // NaN becomes some number here, and the power is NaN.
    power * f64::from_bits((n as i64 + 1023).wrapping_shl(52) as u64)
}

/// ln x for normal x; minus infinity for 0, NaN below.
fn logarithm(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x == f64::INFINITY {
        return x;
    }
    // The mantissa goes to [√½, √2): adding what √½'s bits lack to 1's carries into the exponent.
    const HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    let bits = x.to_bits().wrapping_add(0x3ff0_0000_0000_0000 - HALF);
    let n = (bits >> 52) as i64 - 1023;
    let m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) + HALF);
    let s = (m - 1.0) / (m + 1.0);
    let rest = series(
        s * s,
        [
            1.0,
            1.0 / 3.0,
            1.0 / 5.0,
            1.0 / 7.0,
            1.0 / 9.0,
            1.0 / 11.0,
            1.0 / 13.0,
            1.0 / 15.0,
            1.0 / 17.0,
            1.0 / 19.0,
            1.0 / 21.0,
        ],
    );
    n as f64 * LN_2 + 2.0 * (s * rest)
}

/// Below this what hyperbolic functions are made of cancels, and a few terms are enough.
const SMALL: f64 = 0.015_625;

/// sinh x
pub fn sinh(x: f32) -> f32 {
    let wide = x as f64;
    if wide.abs() < SMALL {
        return (wide * series(wide * wide, [1.0, 1.0 / 6.0, 1.0 / 120.0])) as f32;
    }
    ((exponential(wide) - exponential(-wide)) * 0.5) as f32
}

/// cosh x
pub fn cosh(x: f32) -> f32 {
    ((exponential(x as f64) + exponential(-(x as f64))) * 0.5) as f32
}

/// arsinh x
pub fn asinh(x: f32) -> f32 {
    let wide = x as f64;
    if wide.abs() < SMALL {
        return (wide * series(wide * wide, [1.0, -1.0 / 6.0, 3.0 / 40.0, -15.0 / 336.0])) as f32;
    }
    (logarithm(wide.abs() + root(wide * wide + 1.0)) as f32).copysign(x)
}

/// arcosh x
pub fn acosh(x: f32) -> f32 {
    if x < 1.0 {
        return f32::NAN;
    }
    let wide = x as f64;
    logarithm(wide + root((wide - 1.0) * (wide + 1.0))) as f32
}

/// artanh x
pub fn atanh(x: f32) -> f32 {
    let wide = x as f64;
    if wide.abs() < SMALL {
        return (wide * series(wide * wide, [1.0, 1.0 / 3.0, 1.0 / 5.0, 1.0 / 7.0])) as f32;
    }
    (0.5 * logarithm((1.0 + wide) / (1.0 - wide))) as f32
}

/// Whether a number is whole, and whether it is odd.
fn parity(p: f32) -> (bool, bool) {
    let a = p.abs();
    if a >= 16_777_216.0 {
        return (a.is_finite(), false);
    }
    let n = a as u32;
    (n as f32 == a, n & 1 == 1)
}

/// x to the power p, as C has it: of a negative x only for whole p.
pub fn pow(x: f32, p: f32) -> f32 {
    if p == 0.0 || x == 1.0 {
        return 1.0;
    }
    if x.is_nan() || p.is_nan() {
        return f32::NAN;
    }
    if p.is_infinite() {
        let grows = (x.abs() > 1.0) == (p > 0.0);
        let other = if grows { f32::INFINITY } else { 0.0 };
        return if x.abs() == 1.0 { 1.0 } else { other };
    }
    let (whole, odd) = parity(p);
    let negative = x.is_sign_negative() && odd && whole;
    let magnitude = if x == 0.0 || x.is_infinite() {
        if (x == 0.0) == (p > 0.0) { 0.0 } else { f32::INFINITY }
    } else if x < 0.0 && !whole {
        return f32::NAN;
    } else {
        exponential(p as f64 * logarithm(x.abs() as f64)) as f32
    };
    if negative { -magnitude } else { magnitude }
}

/// The exact remainder of dividing a by b to a whole number, with the sign of a.
pub fn remainder(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() || a.is_infinite() || b == 0.0 {
        return f32::NAN;
    }
    if b.is_infinite() {
        return a;
    }
    // a = m · 2ˢ, b = n · 2ᵗ; with s > t, m is doubled s - t times, modulo n.
    let parts = |x: f32| {
        let (exponent, fraction) = (x.abs().to_bits() >> 23, x.to_bits() & 0x007f_ffff);
        if exponent == 0 { (fraction, 1) } else { (fraction | 0x0080_0000, exponent) }
    };
    let ((mut m, s), (n, t)) = (parts(a), parts(b));
    if s < t || s == t && m < n {
        return a;
    }
    m %= n;
    for _ in t..s {
        m <<= 1;
        m %= n;
    }
    // m · 2ᵗ is a float: no larger than b, and of its bits.
    let scale = |exponent: u32| f64::from_bits(((exponent + 1023 - 150) as u64) << 52);
    ((m as f64 * scale(t)) as f32).copysign(a)
}

#[cfg(test)]
mod tests;
