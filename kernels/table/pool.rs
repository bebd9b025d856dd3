//! The pooling kernels: their record, the functions, and the safe call.

use super::Kernels;
use crate::kernels::portable::pool as portable;
use crate::matrix::{MatMut, MatRef};

/// `struct eyelet_pool` of `kernels/pool.h`, which says what the fields are.
#[repr(C)]
pub(super) struct Pixels {
    average: usize,
    input: *const f32,
    tap_lines: usize,
    tap_cols: usize,
    line: usize,
    line_pitch: usize,
    ring: usize,
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
/// For every pixel, line of taps and tap of it `channels` floats are readable at `input` plus each
/// times its pitch, where lines go around `ring`; `line` and `line_pitch` lie below it; `out` is an
/// exclusive matrix of `pixels` rows of `channels`. The processor has the instruction set.
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

/// The kernel in plain Rust, with the interface of the others.
///
/// # Safety
/// [`Function`]'s.
unsafe extern "C" fn f32_pool_portable(t: &Pixels) {
    for pixel in 0..t.pixels {
        for channel in 0..t.channels {
            let first = pixel * t.pixel_pitch + channel;
            let after = |at: &usize| {
                let at = at + t.line_pitch;
                Some(if at < t.ring { at } else { at - t.ring })
            };
            let lines = core::iter::successors(Some(t.line), after).take(t.tap_lines);
            let taps = lines
                .flat_map(|line| (0..t.tap_cols).map(move |col| first + line + col * t.col_pitch));
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

/// Some positions along an axis.
#[derive(Clone, Copy, Debug)]
pub struct Positions {
    /// The first one.
    pub first: usize,
    /// How many.
    pub count: usize,
    /// From one to the next.
    pub step: usize,
}

/// Where the taps of adjacent pixels of a line lie in the input.
#[derive(Clone, Copy, Debug)]
pub struct Taps {
    /// Rows of the input's matrix that are a line. It may be a ring: line y lies where y modulo the
    /// lines that it has does.
    pub width: usize,
    /// Lines of taps.
    pub lines: Positions,
    /// Columns of taps of the first pixel.
    pub cols: Positions,
    /// Columns from the taps of one pixel to those of the next.
    pub pixel_step: usize,
}

impl Kernels {
    /// Computes adjacent pixels, the rows of `out`, from the taps of each, channel by channel.
    ///
    /// # Panics
    /// When a tap is in no row that the input lends, or the channels disagree.
    pub fn pool(&self, pooling: Pooling, input: MatRef<'_>, taps: Taps, mut out: MatMut<'_>) {
        let Taps { width, lines, cols, pixel_step } = taps;
        assert!(input.cols() == out.cols(), "{} channels of {}", out.cols(), input.cols());
        let pitch = input.pitch();
        // Where there is no tap, steps may be anything.
        let floats = |rows: usize| rows.wrapping_mul(pitch);
        let (mut touched, mut first, mut line, mut line_step, mut ring) = (0..0, 0, 0, 0, 0);
        if lines.count > 0 && cols.count > 0 && out.rows() > 0 {
            let last = [(cols.count, cols.step), (out.rows(), pixel_step)].into_iter().try_fold(
                cols.first,
                |col, (count, step)| {
                    (count - 1).checked_mul(step).and_then(|cols| col.checked_add(cols))
                },
            );
            let last = last.filter(|last| *last < width);
            let last = last.unwrap_or_else(|| panic!("{taps:?}"));
            let held = input.rows() / width;
            assert!(held > 0, "{taps:?} of {} rows", input.rows());
            first = floats(cols.first);
            // Mostly inside: no division for those, there are many short calls.
            let within = |lines: usize| if lines < held { lines } else { lines % held };
            let bottom = (lines.count - 1).checked_mul(lines.step);
            let bottom = bottom.and_then(|below| lines.first.checked_add(below));
            touched = match bottom.filter(|bottom| *bottom < held) {
                Some(bottom) => lines.first * width + cols.first..bottom * width + last + 1,
                // Around the end.
                None => 0..held * width,
            };
            [line, line_step, ring] =
                [within(lines.first), within(lines.step), held].map(|lines| floats(lines * width));
        }
        let pixels = Pixels {
            average: usize::from(pooling != Pooling::Max),
            input: input.as_ptr_for(touched).wrapping_add(first),
            tap_lines: lines.count,
            tap_cols: cols.count,
            line,
            line_pitch: line_step,
            ring,
            col_pitch: floats(cols.step),
            pixels: out.rows(),
            pixel_pitch: floats(pixel_step),
            channels: out.cols(),
            out: out.as_mut_ptr(),
            out_pitch: out.pitch(),
            count: match pooling {
                Pooling::Max => 1.0,
                Pooling::Average(count) => count,
            },
        };
        // SAFETY:
        // - Every line of taps begins at a line that the input holds.
        // - The last tap of the last pixel lies in that line, and the others before it.
        // - All of them are rows of the input, and lent: the rows between the first and the last
        //   tap, or all of a ring.
        // - The kernels are those of this processor.
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
            // From the last of five lines on: around the ring's end.
            for (lines, cols, pixels) in [(1, 1, 3), (3, 3, 4), (2, 1, 1), (7, 7, 1), (0, 2, 1)] {
                let lines = Positions { first: 4, count: lines, step: 1 + lines % 2 };
                let cols = Positions { first: 2, count: cols, step: 1 };
                let taps = Taps { width: 12, lines, cols, pixel_step: 2 };
                for pooling in [Pooling::Max, Pooling::Average(5.0)] {
                    let what = format!("{pooling:?} of {taps:?}, {channels} channels");
                    let run = |kernels: &Kernels| {
                        let mut out = vec![-1.5; pixels * (channels + 1)];
                        let mat = MatMut::new(&mut out, pixels, channels, channels + 1).unwrap();
                        kernels.pool(pooling, input, taps, mat);
                        out
                    };
                    let want = run(Kernels::PORTABLE);
                    // The definition, tap by tap.
                    for (at, &found) in want.iter().enumerate() {
                        let (pixel, channel) = (at / (channels + 1), at % (channels + 1));
                        if channel == channels {
                            assert_eq!(found, -1.5);
                            continue;
                        }
                        let taps = (0..lines.count).flat_map(|line| {
                            (0..cols.count).map(move |col| {
                                let line = (lines.first + line * lines.step) % 5;
                                (line * 12 + cols.first + col + pixel * 2) * pitch + channel
                            })
                        });
                        let average = pooling != Pooling::Max;
                        let value = portable::pool(average, 5.0, taps.map(|at| x[at]));
                        assert_same(&[found], &[value], &what);
                    }
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
        let one = Positions { first: 0, count: 1, step: 1 };
        let taps =
            Taps { width: 3, lines: one, cols: Positions { first: 3, ..one }, pixel_step: 1 };
        let out = MatMut::new(&mut out, 1, 4, 4).unwrap();
        Kernels::best().pool(Pooling::Max, input, taps, out);
    }
}
