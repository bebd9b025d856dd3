//! The pooling kernels: their record, the functions, and the safe call.

use super::Kernels;
use crate::arena::{MatMut, MatRef};
use crate::kernels::portable::pool as portable;

/// `struct eyelet_pool` of `kernels/pool.h`, which says what the fields are.
#[repr(C)]
pub(super) struct Pixels {
    average: usize,
    input: *const f32,
    tap_lines: usize,
    tap_cols: usize,
    line_pitch: usize,
    col_pitch: usize,
    pixels: usize,
    pixel_pitch: usize,
    channels: usize,
    out: *mut f32,
    out_pitch: usize,
    count: f32,
}

/// A kernel.
///
/// # Safety
/// For every pixel, line of taps and tap of it `channels` floats are readable at `input` plus each times its
/// pitch; `out` is an exclusive matrix of `pixels` rows of `channels`. The processor has the instruction set.
pub(super) type Function = unsafe extern "C" fn(&Pixels);

#[cfg(eyelet_x86)]
unsafe extern "C" {
    #[link_name = "eyelet_f32_pool__avx2"]
    fn f32_pool__avx2(pixels: &Pixels);
    #[link_name = "eyelet_f32_pool__avx512"]
    fn f32_pool__avx512(pixels: &Pixels);
}

#[cfg(eyelet_neon)]
unsafe extern "C" {
    #[link_name = "eyelet_f32_pool__neon"]
    fn f32_pool__neon(pixels: &Pixels);
}

pub(super) const PORTABLE: Function = f32_pool_portable;
#[cfg(eyelet_x86)]
pub(super) const AVX2: Function = f32_pool__avx2;
#[cfg(eyelet_x86)]
pub(super) const AVX512: Function = f32_pool__avx512;
#[cfg(eyelet_neon)]
pub(super) const NEON: Function = f32_pool__neon;

/// The kernel in plain Rust, behind the interface of the others.
///
/// # Safety
/// [`Function`]'s.
unsafe extern "C" fn f32_pool_portable(t: &Pixels) {
    for pixel in 0..t.pixels {
        for channel in 0..t.channels {
            let first = pixel * t.pixel_pitch + channel;
            let taps = (0..t.tap_lines).flat_map(|line| {
                (0..t.tap_cols).map(move |col| first + line * t.line_pitch + col * t.col_pitch)
            });
            // SAFETY (of both): elements that the contract names.
            let taps = taps.map(|at| unsafe { *t.input.add(at) });
            let value = portable::pool(t.average == 1, t.count, taps);
            // SAFETY: see above.
            unsafe { *t.out.add(pixel * t.out_pitch + channel) = value }
        }
    }
}

/// How pixels are made from their taps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pooling {
    /// The largest.
    Max,
    /// The sum divided by this.
    Average(f32),
}

/// Where the taps of adjacent pixels lie: rows of the input's matrix.
#[derive(Clone, Copy, Debug)]
pub struct Taps {
    /// The first tap of the first pixel.
    pub first: usize,
    /// Lines of taps, and rows from one to the next.
    pub lines: [usize; 2],
    /// Taps of a line, and rows from one to the next.
    pub cols: [usize; 2],
    /// Rows from the taps of one pixel to those of the next.
    pub pixel_step: usize,
}

impl Kernels {
    /// Computes adjacent pixels, the rows of `out`, from the taps of each, channel by channel.
    ///
    /// # Panics
    /// When a tap is not in the input, or the channels disagree.
    pub fn pool(&self, pooling: Pooling, input: MatRef<'_>, taps: Taps, mut out: MatMut<'_>) {
        let ([lines, line_step], [cols, col_step]) = (taps.lines, taps.cols);
        assert!(input.cols() == out.cols(), "{} channels of {}", out.cols(), input.cols());
        let mut first = input.as_ptr();
        if lines > 0 && cols > 0 && out.rows() > 0 {
            let last = [(lines, line_step), (cols, col_step), (out.rows(), taps.pixel_step)]
                .into_iter()
                .try_fold(taps.first, |row, (count, step)| {
                    (count - 1).checked_mul(step).and_then(|rows| row.checked_add(rows))
                });
            assert!(last.is_some_and(|last| last < input.rows()), "{taps:?} of {}", input.rows());
            first = input.row(taps.first).as_ptr();
        }
        // Steps that no tap is behind may be anything.
        let pitch = |rows: usize| rows.wrapping_mul(input.pitch());
        let pixels = Pixels {
            average: usize::from(pooling != Pooling::Max),
            input: first,
            tap_lines: lines,
            tap_cols: cols,
            line_pitch: pitch(line_step),
            col_pitch: pitch(col_step),
            pixels: out.rows(),
            pixel_pitch: pitch(taps.pixel_step),
            channels: out.cols(),
            out: out.as_mut_ptr(),
            out_pitch: out.pitch(),
            count: match pooling {
                Pooling::Max => 1.0,
                Pooling::Average(count) => count,
            },
        };
        // SAFETY: the last tap of the last pixel is a row of the input, and the others lie before it; the
        // kernels are those of this processor.
        unsafe { (self.pool)(&pixels) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::testing::{any_floats, assert_same, available};
    use std::{format, vec};

    #[test]
    fn windows_have_the_portable_bits() {
        for channels in (1..=70).chain([128, 200, 261]) {
            let pitch = channels + channels % 3;
            let rows = 60;
            let x = any_floats(rows * pitch, channels as u64);
            let input = MatRef::new(&x, rows, channels, pitch).unwrap();
            for (lines, cols, pixels) in [(1, 1, 3), (3, 3, 4), (2, 1, 1), (7, 7, 1), (0, 2, 1)] {
                let taps = Taps { first: 2, lines: [lines, 8], cols: [cols, 1], pixel_step: 2 };
                for pooling in [Pooling::Max, Pooling::Average(5.0)] {
                    let what = format!("{pooling:?} of {taps:?}, {channels} channels");
                    let run = |kernels: &Kernels| {
                        let mut out = vec![-1.5; pixels * (channels + 1)];
                        let mat = MatMut::new(&mut out, pixels, channels, channels + 1).unwrap();
                        kernels.pool(pooling, input, taps, mat);
                        out
                    };
                    let want = run(Kernels::PORTABLE);
                    for kernels in available() {
                        assert_same(&run(kernels), &want, &what);
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic]
    fn refuses_taps_outside_of_the_input() {
        let (x, mut out) = ([0.0; 12], [0.0; 4]);
        let input = MatRef::new(&x, 3, 4, 4).unwrap();
        let taps = Taps { first: 1, lines: [2, 2], cols: [1, 1], pixel_step: 1 };
        let out = MatMut::new(&mut out, 1, 4, 4).unwrap();
        Kernels::best().pool(Pooling::Max, input, taps, out);
    }
}
