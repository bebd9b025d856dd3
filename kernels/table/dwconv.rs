//! The depthwise kernels: their record, the functions, and the safe call, which also serves the
//! kernels of small groups ([`gconv`](super::gconv)).
//!
//! Most compute a line of outputs at a time. Where several lines are to be made with a window that
//! there is a kernel of [`Lines`] for, that one makes them, and reads each line of the input once.

use super::{Grid, Kernels, Target, fma};
use crate::kernels::portable::igemm::clamp;
use core::ops::Range;

/// `struct eyelet_dwconv` of `kernels/dwconv.h`, which says what the fields are.
#[repr(C)]
pub(super) struct Pixels {
    pub a: *const *const f32,
    pub stride: usize,
    pub tap_lines: usize,
    pub tap_cols: usize,
    pub line_pitch: usize,
    pub col_pitch: usize,
    pub offset: usize,
    pub pixels: usize,
    pub lines: usize,
    pub lines_apart: usize,
    pub c_lines_apart: usize,
    pub channels: usize,
    pub regular: usize,
    pub group: usize,
    pub panels: *const f32,
    pub c: *mut f32,
    pub c_pitch: usize,
    pub residual: *const f32,
    pub residual_pitch: usize,
    pub min: f32,
    pub max: f32,
}

/// A kernel.
///
/// # Safety
/// `lines` is 1. For every pixel, line of taps and tap of it there is a pointer at
/// `a + pixel · stride + line · line_pitch + tap · col_pitch`, from which on
/// `offset .. offset + channels` floats are readable; where `regular` is not 0, of adjacent
/// pointers of a line all but the first and the last are equally far from each other; `group` is 1,
/// or for kernels of groups a power of two up to NR / 2 that divides `channels`; `panels` has
/// `(1 + taps · group) · NR` floats for every NR channels begun; `c` is an exclusive matrix of
/// `pixels` rows of `channels`, and `residual` null, the same matrix, or a readable one of that
/// size. The processor has the instruction set.
pub(super) type Function = unsafe extern "C" fn(&Pixels);

/// A kernel that makes several lines at a time.
#[derive(Debug)]
pub(super) struct Lines {
    /// Taps of its window, which is square.
    pub taps: usize,
    /// The largest stride that it is for: 1 or 2.
    pub stride: usize,
    /// It takes whole multiples of this many channels: 1, or those of a panel.
    pub channels: usize,
    /// Lines of fewer pixels are faster one by one.
    pub pixels: usize,
    /// # Safety
    /// [`Function`]'s, for every one of `lines`, at least 2, each `lines_apart` pointers and
    /// `c_lines_apart` floats of the output after the line before; with that stride and
    /// `lines_apart` as many times `line_pitch`, `col_pitch` 1, windows and channels as above, and
    /// no residual.
    pub function: Function,
}

#[cfg(eyelet_x86)]
unsafe extern "C" {
    #[link_name = "eyelet_f32_dwconv_4x16__avx2"]
    fn f32_dwconv_4x16__avx2(pixels: &Pixels);
    #[link_name = "eyelet_f32_dwconv_7x32__avx512"]
    fn f32_dwconv_7x32__avx512(pixels: &Pixels);
    #[link_name = "eyelet_f32_dwconv3x3_4x16__avx512"]
    fn f32_dwconv3x3_4x16__avx512(pixels: &Pixels);
}

#[cfg(eyelet_neon)]
unsafe extern "C" {
    #[link_name = "eyelet_f32_dwconv_8x8__neon"]
    fn f32_dwconv_8x8__neon(pixels: &Pixels);
    #[link_name = "eyelet_f32_dwconv_8x8__neon_inorder"]
    fn f32_dwconv_8x8__neon_inorder(pixels: &Pixels);
    #[link_name = "eyelet_f32_dwconv3x3_4x4__neon_inorder"]
    fn f32_dwconv3x3_4x4__neon_inorder(pixels: &Pixels);
}

pub(super) const PORTABLE: Function = f32_dwconv_1x8_portable;
#[cfg(eyelet_x86)]
pub(super) const AVX2: Function = f32_dwconv_4x16__avx2;
#[cfg(eyelet_x86)]
pub(super) const AVX512: Function = f32_dwconv_7x32__avx512;
#[cfg(eyelet_neon)]
pub(super) const NEON: Function = f32_dwconv_8x8__neon;
#[cfg(eyelet_neon)]
pub(super) const NEON_INORDER: Function = f32_dwconv_8x8__neon_inorder;

#[cfg(eyelet_x86)]
pub(super) const AVX512_LINES: &[Lines] =
    &[Lines { taps: 3, stride: 2, channels: 1, pixels: 8, function: f32_dwconv3x3_4x16__avx512 }];
#[cfg(eyelet_neon)]
pub(super) const NEON_INORDER_LINES: &[Lines] = &[Lines {
    taps: 3,
    stride: 2,
    channels: 8,
    pixels: 1,
    function: f32_dwconv3x3_4x4__neon_inorder,
}];

/// The kernel in plain Rust, with the interface of the others: for groups of any size.
///
/// # Safety
/// [`Function`]'s.
unsafe extern "C" fn f32_dwconv_1x8_portable(t: &Pixels) {
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

/// The pixels that a depthwise kernel computes: the same adjacent pixels of adjacent output lines.
#[derive(Clone, Debug)]
pub struct Strip<'a> {
    /// Output lines, counted from the grid's first.
    pub lines: Range<usize>,
    /// Pixels of each line.
    pub pixels: Range<usize>,
    /// The first channel.
    pub channel: usize,
    /// Channels of a group.
    pub group: usize,
    /// For every `nr` channels begun, `bias[nr]`, then `[tap][group][nr]`.
    pub panels: &'a [f32],
}

impl Kernels {
    /// Computes a strip, with a channel for each column of the output. Pixels of one line after
    /// those of another are the rows of the output:
    /// `out = clamp(bias + Σ taps · weights + addend)`, each element one chain of fused
    /// multiply-adds in the order of the taps, and of the channels of its group.
    ///
    /// # Panics
    /// When there are no such pixels, the sizes of panels, addend and output disagree, or the
    /// channels are not whole groups of a size that panels hold several of
    /// ([`Isa::spans`](super::Isa::spans)).
    pub fn dwconv(&self, grid: &Grid<'_>, strip: Strip<'_>, target: Target<'_>) {
        let Strip { lines, pixels, channel: offset, group, panels } = strip;
        let Target { addend, clamp, mut out } = target;
        let window = grid.window();
        let ([tap_lines, tap_cols], channels) = (window.kernel, out.cols());
        let rows = lines.len().checked_mul(pixels.len());
        assert!(rows == Some(out.rows()) && channels > 0);
        assert!(self.isa.spans(group) && channels.is_multiple_of(group), "groups of {group}");
        let k = (tap_lines * tap_cols).saturating_mul(group);
        let panel = k.saturating_add(1).saturating_mul(self.nr());
        let needed = channels.div_ceil(self.nr()).saturating_mul(panel);
        assert!(panels.len() >= needed, "panels of {} floats, not {needed}", panels.len());
        assert!(
            offset.checked_add(channels).is_some_and(|end| end <= window.cols),
            "{channels} channels at {offset} of {}",
            window.cols
        );
        let width = pixels.len();
        let taps = grid.taps(lines.clone(), pixels);
        let (residual, residual_pitch) = addend.raw(&mut out);
        let pixels = Pixels {
            a: taps.pointers.as_ptr(),
            stride: taps.stride,
            tap_lines,
            tap_cols,
            line_pitch: taps.line_pitch,
            col_pitch: taps.col_pitch,
            offset,
            pixels: width,
            lines: lines.len(),
            lines_apart: taps.lines_apart,
            c_lines_apart: width.wrapping_mul(out.pitch()),
            channels,
            regular: usize::from(grid.regular()),
            group,
            panels: panels.as_ptr(),
            c: out.as_mut_ptr(),
            c_pitch: out.pitch(),
            residual,
            residual_pitch,
            min: clamp[0],
            max: clamp[1],
        };
        // SAFETY: the sizes were checked above; the taps of these pixels are in the grid, and
        // `cols` floats are readable from each of its pointers on.
        unsafe { self.dwconv_pixels(pixels, panel) }
    }

    /// Computes some pixels, by a kernel for several lines where there is one, the others a line at
    /// a time.
    ///
    /// # Safety
    /// [`Function`]'s for each line; a panel has `panel` floats.
    unsafe fn dwconv_pixels(&self, mut pixels: Pixels, panel: usize) {
        let Pixels { group, channels, pixels: width, .. } = pixels;
        if let Some(several) =
            self.dwlines.iter().find(|several| group == 1 && several.serve(&pixels))
        {
            let rest = channels % several.channels;
            pixels.channels = channels - rest;
            // SAFETY: the caller's promise; these kernels exist only on processors that can run
            // them (`Kernels::for_isa`), and `serve` has found what this one wants.
            unsafe { (several.function)(&pixels) }
            if rest == 0 {
                return;
            }
            // A short last panel is left.
            let done = pixels.channels;
            pixels.channels = rest;
            pixels.offset += done;
            pixels.panels = pixels.panels.wrapping_add(done / self.nr() * panel);
            pixels.c = pixels.c.wrapping_add(done);
        }
        let function = if group == 1 { self.dwconv } else { self.gconv };
        for _ in 0..core::mem::replace(&mut pixels.lines, 1) {
            // SAFETY: as above; the panels and channels that are left, and a line at a time.
            unsafe { function(&pixels) }
            pixels.a = pixels.a.wrapping_add(pixels.lines_apart);
            pixels.c = pixels.c.wrapping_add(pixels.c_lines_apart);
            pixels.residual =
                pixels.residual.wrapping_add(width.wrapping_mul(pixels.residual_pitch));
        }
    }
}

impl Lines {
    /// Whether it is for these.
    fn serve(&self, t: &Pixels) -> bool {
        t.lines > 1
            && [t.tap_lines, t.tap_cols] == [self.taps; 2]
            && (1..=self.stride).contains(&t.stride)
            && t.lines_apart == t.stride * t.line_pitch
            && t.col_pitch == 1
            && t.channels >= self.channels
            && t.pixels >= self.pixels
            && t.residual.is_null()
    }
}

#[cfg(test)]
mod tests {
    use crate::kernels::table::{Addend, Grid, Strip, Target, Window};
    use crate::kernels::testing::{BOUNDS, SPECIAL, assert_clamped, available, scratch};
    use crate::matrix::{MatMut, MatRef};
    use std::vec;
    use std::vec::Vec;

    /// One line, several, and groups.
    #[test]
    fn every_clamp_of_every_value() {
        const HEIGHT: usize = 4;
        const WIDTH: usize = 9;
        for (kernels, lines, group) in available()
            .into_iter()
            .flat_map(|kernels| [(kernels, 1, 1), (kernels, HEIGHT, 1), (kernels, 1, 2)])
        {
            let nr = kernels.nr();
            // Whole panels, and a short one.
            let channels = 2 * nr + 6;
            let window = Window {
                images: 1,
                input: [HEIGHT, WIDTH],
                output: [HEIGHT, WIDTH],
                kernel: [3; 2],
                stride: [1; 2],
                dilation: [1; 2],
                pad: [1; 2],
                cols: channels,
                channels: group,
                pitch: channels,
            };
            // Each output is its bias: zeros times minus zero are added.
            let zeros = vec![0.0f32; HEIGHT * WIDTH * channels];
            let input = MatRef::new(&zeros, HEIGHT * WIDTH, channels, channels).unwrap();
            let mut panels = Vec::new();
            let mut sums = SPECIAL.into_iter().cycle();
            for _ in 0..channels.div_ceil(nr) {
                panels.extend(sums.by_ref().take(nr));
                panels.resize(panels.len() + 9 * group * nr, -0.0);
            }
            let mut list = scratch(Grid::scratch_bytes(&window, lines));
            let list = bytemuck::cast_slice_mut(&mut list);
            let grid = Grid::new(&window, input, 0, 0..lines, list);
            for bounds in BOUNDS {
                let mut out = vec![0.0f32; lines * WIDTH * channels];
                let mat = MatMut::new(&mut out, lines * WIDTH, channels, channels).unwrap();
                let strip =
                    Strip { lines: 0..lines, pixels: 0..WIDTH, channel: 0, group, panels: &panels };
                let target = Target { addend: Addend::None, clamp: bounds, out: mat };
                kernels.dwconv(&grid, strip, target);
                for row in out.chunks_exact(channels) {
                    assert_clamped(row, &SPECIAL, bounds, kernels.name());
                }
            }
        }
    }
}
