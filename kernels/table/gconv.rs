//! The kernels of convolutions in small groups, several of which a panel holds. Their record and their
//! safe call are those of the depthwise kernels.

use super::dwconv::{Function, Pixels};
use super::fma;
use crate::kernels::portable::igemm::clamp;

#[cfg(eyelet_x86)]
unsafe extern "C" {
    #[link_name = "eyelet_f32_gconv_6x16__avx2"]
    fn f32_gconv_6x16__avx2(pixels: &Pixels);
    #[link_name = "eyelet_f32_gconv_7x32__avx512"]
    fn f32_gconv_7x32__avx512(pixels: &Pixels);
}

#[cfg(eyelet_neon)]
unsafe extern "C" {
    #[link_name = "eyelet_f32_gconv_8x8__neon"]
    fn f32_gconv_8x8__neon(pixels: &Pixels);
}

pub(super) const PORTABLE: Function = f32_gconv_1x8_portable;
#[cfg(eyelet_x86)]
pub(super) const AVX2: Function = f32_gconv_6x16__avx2;
#[cfg(eyelet_x86)]
pub(super) const AVX512: Function = f32_gconv_7x32__avx512;
#[cfg(eyelet_neon)]
pub(super) const NEON: Function = f32_gconv_8x8__neon;

/// The kernel in plain Rust, behind the interface of the others.
///
/// # Safety
/// [`Function`]'s.
unsafe extern "C" fn f32_gconv_1x8_portable(t: &Pixels) {
    const NR: usize = 8;
    let k = t.tap_lines * t.tap_cols * t.group;
    for first in (0..t.channels).step_by(NR) {
        let nr = NR.min(t.channels - first);
        // SAFETY (of all blocks here): the ranges are those that the contract names.
        let panel = unsafe {
            let start = t.panels.add(first / NR * (1 + k) * NR);
            core::slice::from_raw_parts(start, (1 + k) * NR)
        };
        let (bias, weights) = panel.split_at(NR);
        for pixel in 0..t.pixels {
            let mut sums = [0.0f32; NR];
            sums.copy_from_slice(bias);
            for (tap, weights) in weights.chunks_exact(t.group * NR).enumerate() {
                let (line, col) = (tap / t.tap_cols, tap % t.tap_cols);
                // SAFETY: as above.
                let run = unsafe {
                    let at = pixel * t.stride + line * t.line_pitch + col * t.col_pitch;
                    core::slice::from_raw_parts((*t.a.add(at)).add(t.offset + first), nr)
                };
                let groups = sums.chunks_exact_mut(t.group).zip(run.chunks_exact(t.group));
                for (group, (sums, run)) in groups.enumerate() {
                    for (&x, weights) in run.iter().zip(weights.chunks_exact(NR)) {
                        for (sum, &w) in sums.iter_mut().zip(&weights[group * t.group..]) {
                            *sum = fma(x, w, *sum);
                        }
                    }
                }
            }
            for (lane, &sum) in sums.iter().enumerate().take(nr) {
                let channel = first + lane;
                // SAFETY: as above; the residual is read before the output, which it may be, is
                // written.
                unsafe {
                    let mut x = sum;
                    if !t.residual.is_null() {
                        x += *t.residual.add(pixel * t.residual_pitch + channel);
                    }
                    *t.c.add(pixel * t.c_pitch + channel) = clamp(x, t.min, t.max);
                }
            }
        }
    }
}
