//! The kernels of convolutions in small groups, several of which a panel holds. Their record and
//! their safe call are those of the depthwise kernels.

#[cfg(any(eyelet_x86, eyelet_neon))]
use super::dwconv::Pixels;
use super::dwconv::{self, Function};

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

/// In plain Rust a depthwise convolution is one in groups of one channel.
pub(super) const PORTABLE: Function = dwconv::PORTABLE;
#[cfg(eyelet_x86)]
pub(super) const AVX2: Function = f32_gconv_6x16__avx2;
#[cfg(eyelet_x86)]
pub(super) const AVX512: Function = f32_gconv_7x32__avx512;
#[cfg(eyelet_neon)]
pub(super) const NEON: Function = f32_gconv_8x8__neon;
