//! The fused multiply-add: `a·b + c`, rounded once. It is the instruction where the target is known
//! to have it when the library is compiled, and software otherwise, with the same bits.
//!
//! How the software does it: the product of two floats is exact in double precision (48 bits of
//! 53). The sum is rounded there to 53 bits, by which alone a second rounding to 24 bits could go
//! wrong: when the first lands exactly between two floats. Rounding the first one *to odd* (an
//! inexact result gets its last bit set) keeps it off every such point, for normal and subnormal
//! results alike.
#![allow(unsafe_code)]

/// `a·b + c`, rounded once.
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    {
        use core::arch::aarch64::{vdup_n_f32, vfma_f32, vget_lane_f32};
        // SAFETY: the target has NEON.
        unsafe { vget_lane_f32::<0>(vfma_f32(vdup_n_f32(c), vdup_n_f32(a), vdup_n_f32(b))) }
    }
    #[cfg(all(target_arch = "x86_64", target_feature = "fma"))]
    {
        use core::arch::x86_64::{_mm_cvtss_f32, _mm_fmadd_ss, _mm_set_ss};
        // SAFETY: the target has FMA.
        unsafe { _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c))) }
    }
    #[cfg(eyelet_vfma)]
    {
        // SAFETY: the target has the instruction, and passes floats in its registers.
        unsafe { eyelet_vfma(a, b, c) }
    }
    #[cfg(not(any(
        eyelet_vfma,
        all(target_arch = "aarch64", target_feature = "neon"),
        all(target_arch = "x86_64", target_feature = "fma")
    )))]
    software(a, b, c)
}

// Cortex-M with floating point. The compiler has no name for the instruction there, and lets no
// inline assembly have floats: so it is a function. Networks take a fortieth of the instructions
// that they take with the software.
#[cfg(eyelet_vfma)]
core::arch::global_asm!(
    ".pushsection .text.eyelet_vfma, \"ax\", %progbits",
    ".global eyelet_vfma",
    ".type eyelet_vfma, %function",
    ".thumb_func",
    "eyelet_vfma:",
    "vfma.f32 s2, s0, s1",
    "vmov.f32 s0, s2",
    "bx lr",
    ".size eyelet_vfma, . - eyelet_vfma",
    ".popsection",
);

#[cfg(eyelet_vfma)]
unsafe extern "C" {
    fn eyelet_vfma(a: f32, b: f32, c: f32) -> f32;
}

/// `a·b + c`, rounded once, from double-precision arithmetic.
#[inline(always)]
#[allow(dead_code, reason = "targets with the instruction only test it")]
pub fn software(a: f32, b: f32, c: f32) -> f32 {
    let product = a as f64 * b as f64;
    let c = c as f64;
    let sum = product + c;
    // The exact rounding error of the sum (Knuth's two-sum); NaN when the sum is not finite.
    let back = sum - product;
    let error = (product - (sum - back)) + (c - back);
    let bits = sum.to_bits();
    // Towards the exact value by one unit in the last place, from even to odd.
    let away = (error > 0.0) == (sum > 0.0);
    let odd = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    let exact = error == 0.0 || error.is_nan();
    f64::from_bits(if exact || bits & 1 == 1 { bits } else { odd }) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(a: f32, b: f32, c: f32) {
        let want = a.mul_add(b, c);
        for got in [fma(a, b, c), software(a, b, c)] {
            assert!(
                got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                "fma({a:e}, {b:e}, {c:e}) = {got:e}, std has {want:e}"
            );
        }
    }

    #[test]
    fn special_values() {
        let values = [
            0.0,
            1.0,
            1.5,
            f32::EPSILON,
            1.0 + f32::EPSILON,
            1.0 - f32::EPSILON / 2.0,
            f32::MIN_POSITIVE,
            f32::from_bits(1),
            f32::from_bits(0x007f_ffff),
            f32::from_bits(0x0080_0001),
            f32::MAX,
            f32::from_bits(0x7f7f_fffe),
            f32::INFINITY,
            f32::NAN,
            1e-20,
            1e20,
            3.0,
        ];
        let signed = values.iter().flat_map(|&x| [x, -x]);
        for a in signed.clone() {
            for b in signed.clone() {
                for c in signed.clone() {
                    check(a, b, c);
                }
            }
        }
    }

    /// Sums that the first rounding would put exactly between two floats: a float `c`, half a unit
    /// in its last place, and a sliver of either sign far below.
    #[test]
    fn halfway_points() {
        for exponent in -149..=127i32 {
            for mantissa in [0u32, 1, 2, 3, 0x5555, 0x7f_fffe, 0x7f_ffff, 0x40_0000] {
                let biased = exponent.clamp(-126, 127) + 127;
                let c = f32::from_bits(if exponent < -126 {
                    mantissa >> (-126 - exponent)
                } else {
                    (biased as u32) << 23 | mantissa
                });
                let ulp = 2f64.powi(exponent.max(-126) - 23);
                for sliver in [0.0, 1.0, -1.0] {
                    for tiny in 20..24 {
                        // a·b = ulp/2 · (1 ± 2^-tiny)(1 + 2^-tiny), exactly.
                        let step = 2f64.powi(-tiny);
                        let b = (1.0 + step) as f32;
                        let (scale, rest) = {
                            let half = exponent.max(-126) - 24;
                            (half / 2, half - half / 2)
                        };
                        let a = ((1.0 + sliver * step) * 2f64.powi(scale)) as f32;
                        let b = b * 2f32.powi(rest);
                        assert!(ulp > 0.0);
                        for (a, c) in [(a, c), (-a, c), (a, -c), (-a, -c)] {
                            check(a, b, c);
                        }
                        let b = 2f32.powi(rest);
                        for (a, c) in [(a, c), (-a, c), (a, -c), (-a, -c)] {
                            check(a, b, c);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn random_bits() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 32) as u32
        };
        for round in 0..2_000_000u32 {
            let (a, b, c) = (next(), next(), next());
            // Every other round with exponents near each other, so that the sum cancels.
            let near = |bits: u32| bits & 0x807f_ffff | (120 + (bits >> 23 & 7)) << 23;
            let bits =
                if round.is_multiple_of(2) { [a, b, c] } else { [near(a), near(b), near(c)] };
            let [a, b, c] = bits.map(f32::from_bits);
            check(a, b, c);
            // Few significant bits: exact ties.
            let [a, b, c] = bits.map(|bits| f32::from_bits(bits & 0xffff_f000));
            check(a, b, c);
        }
    }
}
