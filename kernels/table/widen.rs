//! Widening: weights of 16 bits to the floats that kernels compute with.

use super::{Kernels, bf16, f16};
use crate::pack::Encoding;

/// # Safety
/// `count` readable weights, a multiple of the panel's width, and as many exclusive floats. The
/// processor has the instruction set.
type Function = unsafe extern "C" fn(from: *const u16, count: usize, to: *mut f32);

#[derive(Debug)]
pub(super) struct Functions {
    f16: Function,
    bf16: Function,
}

#[cfg(eyelet_x86)]
unsafe extern "C" {
    #[link_name = "eyelet_f16_widen__avx2"]
    fn f16_widen__avx2(from: *const u16, count: usize, to: *mut f32);
    #[link_name = "eyelet_bf16_widen__avx2"]
    fn bf16_widen__avx2(from: *const u16, count: usize, to: *mut f32);
    #[link_name = "eyelet_f16_widen__avx512"]
    fn f16_widen__avx512(from: *const u16, count: usize, to: *mut f32);
    #[link_name = "eyelet_bf16_widen__avx512"]
    fn bf16_widen__avx512(from: *const u16, count: usize, to: *mut f32);
}

#[cfg(eyelet_neon)]
unsafe extern "C" {
    #[link_name = "eyelet_f16_widen__neon"]
    fn f16_widen__neon(from: *const u16, count: usize, to: *mut f32);
    #[link_name = "eyelet_bf16_widen__neon"]
    fn bf16_widen__neon(from: *const u16, count: usize, to: *mut f32);
}

pub(super) const PORTABLE: Functions =
    Functions { f16: f16_widen_portable, bf16: bf16_widen_portable };
#[cfg(eyelet_x86)]
pub(super) const AVX2: Functions = Functions { f16: f16_widen__avx2, bf16: bf16_widen__avx2 };
#[cfg(eyelet_x86)]
pub(super) const AVX512: Functions = Functions { f16: f16_widen__avx512, bf16: bf16_widen__avx512 };
#[cfg(eyelet_neon)]
pub(super) const NEON: Functions = Functions { f16: f16_widen__neon, bf16: bf16_widen__neon };

/// # Safety
/// [`Function`]'s.
unsafe extern "C" fn f16_widen_portable(from: *const u16, count: usize, to: *mut f32) {
    for i in 0..count {
        // SAFETY: one of the weights and floats that the contract names.
        unsafe { *to.add(i) = f16(*from.add(i)) }
    }
}

/// # Safety
/// [`Function`]'s.
unsafe extern "C" fn bf16_widen_portable(from: *const u16, count: usize, to: *mut f32) {
    for i in 0..count {
        // SAFETY: as above.
        unsafe { *to.add(i) = bf16(*from.add(i)) }
    }
}

impl Kernels {
    /// Weights as floats: of `from`, which is stored in `encoding`, the weight `start` and those
    /// that follow it, as many as `to` has room for.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn widen(&self, encoding: Encoding, from: &[f32], start: usize, to: &mut [f32]) {
        let (function, one): (_, fn(u16) -> f32) = match encoding {
            Encoding::F32 => return to.copy_from_slice(&from[start..start + to.len()]),
            Encoding::F16 => (self.widen.f16, f16),
            Encoding::Bf16 => (self.widen.bf16, bf16),
        };
        let from = &bytemuck::cast_slice::<f32, u16>(from)[start..start + to.len()];
        let whole = to.len() / self.nr() * self.nr();
        let (whole, rest) = to.split_at_mut(whole);
        // SAFETY: there are as many weights as floats, a multiple of the width; these kernels exist
        // only on processors that can run them.
        unsafe { function(from.as_ptr(), whole.len(), whole.as_mut_ptr()) }
        rest.iter_mut().zip(&from[whole.len()..]).for_each(|(to, from)| *to = one(*from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::prelude::rust_2024::*;
    use std::vec;

    /// The value of 16 bits of fp16, from its definition.
    fn defined(bits: u16) -> f64 {
        let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
        sign * match (exponent, fraction) {
            (31, 0.0) => f64::INFINITY,
            (31, _) => f64::NAN,
            (0, fraction) => fraction * 2f64.powi(-24),
            (exponent, fraction) => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
        }
    }

    #[test]
    fn every_pattern_of_16_bits() {
        for bits in 0..=u16::MAX {
            let (found, truth) = (f64::from(f16(bits)), defined(bits));
            assert!(found == truth || found.is_nan() && truth.is_nan(), "{bits:04x}: {found}");
            assert_eq!(found.is_sign_negative(), bits >> 15 == 1);
            assert_eq!(bf16(bits).to_bits(), u32::from(bits) << 16);
        }
    }

    #[test]
    fn all_kernels_widen_to_the_same_bits() {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        let words = all
            .as_chunks::<2>()
            .0
            .iter()
            .map(|&[low, high]| f32::from_bits(u32::from(low) | u32::from(high) << 16));
        let words: Vec<f32> = words.collect();
        for kernels in Kernels::all() {
            for encoding in [Encoding::F16, Encoding::Bf16] {
                for start in [0, 1, 7, 64] {
                    let most = (1 << 16) / kernels.nr() - 8;
                    let panels = [0, 1, 2, 3, 5, most].map(|panels| panels * kernels.nr());
                    for count in panels.into_iter().chain([1, 3, 7, 9, 31, 37, 65]) {
                        let mut wide = vec![-1.0f32; count + 1];
                        kernels.widen(encoding, &words, start, &mut wide[..count]);
                        assert_eq!(wide[count], -1.0);
                        for (i, found) in wide[..count].iter().enumerate() {
                            let bits = (start + i) as u16;
                            let wanted =
                                if encoding == Encoding::F16 { f16(bits) } else { bf16(bits) };
                            assert_eq!(found.to_bits(), wanted.to_bits(), "{bits:04x} {kernels:?}");
                        }
                    }
                }
            }
        }
    }
}
