//! Widening: weights of 16 and 8 bits to the floats that kernels compute with.

use super::{Kernels, Packed, bf16, dequantised, f16};
use crate::pack::{Encoding, Isa};

/// # Safety
/// `count` readable weights, a multiple of the panel's width, and as many exclusive floats. The
/// processor has the instruction set.
type Function = unsafe extern "C" fn(from: *const u16, count: usize, to: *mut f32);

/// `struct eyelet_widen8` of `kernels/widen.h`, which says what the fields are.
#[repr(C)]
pub(super) struct Widen8 {
    from: *const i8,
    rows: usize,
    width: usize,
    scale: *const f32,
    zero: *const i8,
    to: *mut f32,
}

/// # Safety
/// `width` is 1 to the panel's NR. Where there are rows, `from` is readable and `to` exclusive for
/// NR elements from the last row's first one on, and for all before. There are NR readable scales
/// and zeros. The processor has the instruction set.
type Function8 = unsafe extern "C" fn(&Widen8);

#[derive(Debug)]
pub(super) struct Functions {
    f16: Function,
    bf16: Function,
    i8: Function8,
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
    #[link_name = "eyelet_i8_widen__avx2"]
    fn i8_widen__avx2(t: &Widen8);
    #[link_name = "eyelet_i8_widen__avx512"]
    fn i8_widen__avx512(t: &Widen8);
}

#[cfg(eyelet_neon)]
unsafe extern "C" {
    #[link_name = "eyelet_f16_widen__neon"]
    fn f16_widen__neon(from: *const u16, count: usize, to: *mut f32);
    #[link_name = "eyelet_bf16_widen__neon"]
    fn bf16_widen__neon(from: *const u16, count: usize, to: *mut f32);
    #[link_name = "eyelet_i8_widen__neon"]
    fn i8_widen__neon(t: &Widen8);
}

pub(super) const PORTABLE: Functions =
    Functions { f16: f16_widen_portable, bf16: bf16_widen_portable, i8: i8_widen_portable };
#[cfg(eyelet_x86)]
pub(super) const AVX2: Functions =
    Functions { f16: f16_widen__avx2, bf16: bf16_widen__avx2, i8: i8_widen__avx2 };
#[cfg(eyelet_x86)]
pub(super) const AVX512: Functions =
    Functions { f16: f16_widen__avx512, bf16: bf16_widen__avx512, i8: i8_widen__avx512 };
#[cfg(eyelet_neon)]
pub(super) const NEON: Functions =
    Functions { f16: f16_widen__neon, bf16: bf16_widen__neon, i8: i8_widen__neon };

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

/// # Safety
/// [`Function8`]'s, for panels of the portable kernels.
unsafe extern "C" fn i8_widen_portable(t: &Widen8) {
    for row in 0..t.rows {
        for lane in 0..Isa::Portable.panel() {
            let at = row * t.width + lane;
            // SAFETY: one of the weights and floats that the contract names, and its channel's.
            unsafe {
                let (scale, zero) = (*t.scale.add(lane), *t.zero.add(lane));
                *t.to.add(at) = dequantised(*t.from.add(at), zero, scale);
            }
        }
    }
}

impl Kernels {
    /// Widens weights of a panel that is stored in `encoding` and holds `width` channels, from the
    /// `k`-th of each channel on. `to` has room for the weights of some k, and after the last of
    /// them for one more for each further channel of the kernels.
    ///
    /// # Panics
    /// When there are fewer weights, or no kernels of this width.
    pub fn widen(
        &self,
        encoding: Encoding,
        panel: Packed<'_>,
        width: usize,
        k: usize,
        to: &mut [f32],
    ) {
        let nr = self.nr();
        let start = k * width;
        let body = &panel.bytes()[encoding.head_bytes(nr)..];
        let (function, one): (_, fn(u16) -> f32) = match encoding {
            Encoding::F32 => {
                return to.copy_from_slice(&panel.floats()[nr + start..][..to.len()]);
            }
            Encoding::F16 => (self.widen.f16, f16),
            Encoding::Bf16 => (self.widen.bf16, bf16),
            Encoding::I8 => return self.widen_eight(panel, width, &body[start..], to),
        };
        let from = &bytemuck::cast_slice::<u8, u16>(body)[start..start + to.len()];
        let whole = to.len() / self.nr() * self.nr();
        let (whole, rest) = to.split_at_mut(whole);
        // SAFETY: there are as many weights as floats, a multiple of the width; these kernels exist
        // only on processors that can run them.
        unsafe { function(from.as_ptr(), whole.len(), whole.as_mut_ptr()) }
        rest.iter_mut().zip(&from[whole.len()..]).for_each(|(to, from)| *to = one(*from));
    }

    /// The weights of one channel, or the first of them, as floats: of a panel that is stored in
    /// `encoding` and holds `width` channels, those of channel `lane`.
    ///
    /// # Panics
    /// When the panel has no such channel, or has fewer weights of it.
    pub fn widen_channel(
        &self,
        encoding: Encoding,
        panel: Packed<'_>,
        [width, lane]: [usize; 2],
        to: &mut [f32],
    ) {
        let nr = self.nr();
        assert!(lane < width && width <= nr, "channel {lane} of {width} in a panel for {nr}");
        let body = &panel.bytes()[encoding.head_bytes(nr)..];
        let halves = |one: fn(u16) -> f32, to: &mut [f32]| {
            let from = &bytemuck::cast_slice::<u8, u16>(body)[..to.len() * width];
            let from = from.chunks_exact(width);
            to.iter_mut().zip(from).for_each(|(to, from)| *to = one(from[lane]));
        };
        match encoding {
            Encoding::F32 => {
                let from = panel.floats()[nr..][..to.len() * width].chunks_exact(width);
                to.iter_mut().zip(from).for_each(|(to, from)| *to = from[lane]);
            }
            Encoding::F16 => halves(f16, to),
            Encoding::Bf16 => halves(bf16, to),
            Encoding::I8 => {
                let (scales, zeros) = scales(panel, nr);
                let (scale, zero) = (scales[lane], zeros[lane]);
                let from = &bytemuck::cast_slice::<u8, i8>(body)[..to.len() * width];
                let from = from.chunks_exact(width);
                let one = |from: &[i8]| dequantised(from[lane], zero, scale);
                to.iter_mut().zip(from).for_each(|(to, from)| *to = one(from));
            }
        }
    }

    fn widen_eight(&self, panel: Packed<'_>, width: usize, from: &[u8], to: &mut [f32]) {
        let nr = self.nr();
        assert!((1..=nr).contains(&width), "{width} channels in a panel with room for {nr}");
        let rows = to.len().saturating_sub(nr - width) / width;
        if rows == 0 {
            return;
        }
        let count = (rows - 1) * width + nr;
        let from: &[i8] = bytemuck::cast_slice(&from[..count]);
        let to = &mut to[..count];
        let (scale, zero) = scales(panel, nr);
        let widen = Widen8 {
            from: from.as_ptr(),
            rows,
            width,
            scale: scale.as_ptr(),
            zero: zero.as_ptr(),
            to: to.as_mut_ptr(),
        };
        // SAFETY: the slices are as long as the contract says; these kernels exist only on
        // processors that can run them.
        unsafe { (self.widen.i8)(&widen) }
    }
}

/// The scales of `nr` channels and their zeros, which follow the biases of a panel of 8-bit weights.
fn scales(panel: Packed<'_>, nr: usize) -> (&[f32], &[i8]) {
    let (scales, rest) = panel.floats()[nr..].split_at(nr);
    (scales, &bytemuck::cast_slice(rest)[..nr])
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

    /// Sixteen-bit words as a panel has them, after biases.
    fn panel(nr: usize, words: impl Iterator<Item = u16>) -> Vec<f32> {
        let words: Vec<u16> = words.collect();
        let pairs = words.as_chunks::<2>().0.iter();
        let words = pairs.map(|&[low, high]| u32::from(low) | u32::from(high) << 16);
        core::iter::repeat_n(0.5, nr).chain(words.map(f32::from_bits)).collect()
    }

    /// One channel's weights are those of all channels, one of each k.
    fn channels_are_lanes(kernels: &Kernels, of: Encoding, panel: &[f32], sizes: [usize; 2]) {
        let ([width, rows], panel) = (sizes, Packed::new(panel));
        let mut wide = vec![0.0f32; rows * width + kernels.nr() - width];
        kernels.widen(of, panel, width, 0, &mut wide);
        for lane in 0..width {
            let mut channel = vec![0.0f32; rows];
            kernels.widen_channel(of, panel, [width, lane], &mut channel);
            for (k, found) in channel.iter().enumerate() {
                assert_eq!(found.to_bits(), wide[k * width + lane].to_bits(), "{k} of {lane}");
            }
        }
    }

    #[test]
    fn all_kernels_widen_to_the_same_bits() {
        for kernels in Kernels::all() {
            let nr = kernels.nr();
            let panel = panel(nr, 0..=u16::MAX);
            for encoding in [Encoding::F16, Encoding::Bf16] {
                for (width, k) in [(nr, 0), (nr, 1), (nr - 1, 7), (1, 7)] {
                    let start = width * k;
                    let panels = [0, 1, 2, 3, 5, (1 << 16) / nr - 8].map(|panels| panels * nr);
                    for count in panels.into_iter().chain([1, 3, 7, 9, 31, 37, 65]) {
                        let mut wide = vec![-1.0f32; count + 1];
                        kernels.widen(encoding, Packed::new(&panel), width, k, &mut wide[..count]);
                        assert_eq!(wide[count], -1.0);
                        for (i, found) in wide[..count].iter().enumerate() {
                            let bits = (start + i) as u16;
                            let wanted =
                                if encoding == Encoding::F16 { f16(bits) } else { bf16(bits) };
                            assert_eq!(found.to_bits(), wanted.to_bits(), "{bits:04x} {kernels:?}");
                        }
                    }
                    channels_are_lanes(kernels, encoding, &panel, [width, 70]);
                }
            }
        }
    }

    /// All weights with many zeros, signs and scales, in panels of every width.
    #[test]
    fn eight_bits_are_scaled_by_channel() {
        for kernels in Kernels::all() {
            let nr = kernels.nr();
            let scale = |lane: usize| [0.0123, -3.7e-5, 1.0, 2.5e4][lane % 4] / (1 + lane) as f32;
            let zero = |lane: usize| [0, -128, 127, 3][lane / 4 % 4] + (lane % 3) as i32 % 2;
            let zero = |lane: usize| zero(lane).clamp(-128, 127) as i8;
            for width in 1..=nr {
                let rows = 300;
                let weight = |at: usize| (at * 7 % 256) as u8 as i8;
                let mut bytes: Vec<u8> = (0..nr).flat_map(|_| 0.5f32.to_ne_bytes()).collect();
                bytes.extend((0..nr).flat_map(|lane| scale(lane).to_ne_bytes()));
                bytes.extend((0..nr).map(|lane| zero(lane) as u8));
                bytes.extend((0..rows * width + nr - width).map(|at| weight(at) as u8));
                bytes.resize(bytes.len().next_multiple_of(32), 0);
                let words = bytes.as_chunks::<4>().0.iter();
                let panel: Vec<f32> = words.map(|word| f32::from_ne_bytes(*word)).collect();
                channels_are_lanes(kernels, Encoding::I8, &panel, [width, rows]);
                for (k, count) in [(0, rows), (1, 1), (17, 2), (200, 100), (299, 1)] {
                    let floats = count * width + nr - width;
                    let mut wide = vec![-1.0f32; floats + 1];
                    kernels.widen(Encoding::I8, Packed::new(&panel), width, k, &mut wide[..floats]);
                    assert_eq!(wide[floats], -1.0);
                    for (at, found) in wide[..floats].iter().enumerate() {
                        let row = (at / width).min(count - 1);
                        let lane = at - row * width;
                        let whole = i32::from(weight(k * width + at)) - i32::from(zero(lane));
                        let wanted = whole as f32 * scale(lane);
                        assert_eq!(
                            found.to_bits(),
                            wanted.to_bits(),
                            "{at} of {width} {kernels:?}"
                        );
                    }
                }
            }
        }
    }
}
