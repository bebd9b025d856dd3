//! The implicit GEMM kernels: their record, the functions, and the safe call.

use super::{Kernels, Strip};
use crate::arena::{MatMut, MatRef};
use crate::kernels::portable::igemm as portable;
use core::ptr;

/// `struct eyelet_igemm` of `kernels/igemm.h`, which says what the fields are.
#[repr(C)]
pub(super) struct Tile {
    a: *const *const f32,
    offset: usize,
    mr: usize,
    nr: usize,
    segments: usize,
    seg_len: usize,
    bias: *const f32,
    panel: *const f32,
    c: *mut f32,
    c_pitch: usize,
    residual: *const f32,
    residual_pitch: usize,
    min: f32,
    max: f32,
    next: *const f32,
    next_step: usize,
}

/// A kernel.
///
/// # Safety
/// For `mr` up to the kernel's rows and `nr` up to its columns NR: `a` has `segments · mr` pointers,
/// behind each of which `offset .. offset + seg_len` floats are readable; `bias` has NR, `panel`
/// `segments · seg_len · NR`; `c` is an exclusive matrix of `mr` rows of `nr`, and `residual`
/// null, the same matrix, or a readable one of that size. `next` is only fetched into a cache, never
/// read. The processor has the instruction set.
pub(super) type Function = unsafe extern "C" fn(&Tile);

#[cfg(eyelet_x86)]
unsafe extern "C" {
    #[link_name = "eyelet_f32_igemm_6x16__avx2"]
    fn f32_igemm_6x16__avx2(tile: &Tile);
    #[link_name = "eyelet_f32_igemm_14x32__avx512"]
    fn f32_igemm_14x32__avx512(tile: &Tile);
}

#[cfg(eyelet_neon)]
unsafe extern "C" {
    #[link_name = "eyelet_f32_igemm_8x8__neon"]
    fn f32_igemm_8x8__neon(tile: &Tile);
}

pub(super) const PORTABLE: Function = f32_igemm_4x8_portable;
#[cfg(eyelet_x86)]
pub(super) const AVX2: Function = f32_igemm_6x16__avx2;
#[cfg(eyelet_x86)]
pub(super) const AVX512: Function = f32_igemm_14x32__avx512;
#[cfg(eyelet_neon)]
pub(super) const NEON: Function = f32_igemm_8x8__neon;

/// The kernel in plain Rust, behind the interface of the others.
///
/// # Safety
/// [`Function`]'s.
unsafe extern "C" fn f32_igemm_4x8_portable(tile: &Tile) {
    const MR: usize = portable::MR;
    const NR: usize = 8;
    let mr = tile.mr.min(MR);
    // SAFETY (of all blocks here): the ranges are those that the contract names.
    let bias = unsafe { core::slice::from_raw_parts(tile.bias, NR) };
    // SAFETY: as above.
    let mut weights =
        unsafe { core::slice::from_raw_parts(tile.panel, tile.segments * tile.seg_len * NR) };
    let mut acc = [[0.0f32; NR]; MR];
    for acc in &mut acc {
        acc.copy_from_slice(bias);
    }
    for segment in 0..tile.segments {
        let mut runs = [&[][..]; MR];
        for (row, run) in runs.iter_mut().enumerate().take(mr) {
            // SAFETY: as above.
            *run = unsafe {
                let start = (*tile.a.add(segment * mr + row)).add(tile.offset);
                core::slice::from_raw_parts(start, tile.seg_len)
            };
        }
        let (now, rest) = weights.split_at(tile.seg_len * NR);
        portable::accumulate(&mut acc[..mr], &runs[..mr], now);
        weights = rest;
    }
    for (row, acc) in acc.iter().enumerate().take(mr) {
        for (col, &sum) in acc.iter().enumerate().take(tile.nr) {
            // SAFETY: as above; the residual is read before the output, which it may be, is written.
            unsafe {
                let mut x = sum;
                if !tile.residual.is_null() {
                    x += *tile.residual.add(row * tile.residual_pitch + col);
                }
                *tile.c.add(row * tile.c_pitch + col) = portable::clamp(x, tile.min, tile.max);
            }
        }
    }
}

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// Floats that a panel is fetched ahead of its own use.
const AHEAD: usize = 2048;

/// Floats of a panel that is not fetched whole before it is used: two of that size fill half of a
/// second-level cache of 1 MiB.
const LARGE_PANEL: usize = 64 * 1024;

/// No bias.
static ZEROS: [f32; 32] = [0.0; 32];

/// What is added to a tile's result before the clamp.
#[derive(Clone, Copy, Debug)]
pub enum Addend<'a> {
    /// Nothing.
    None,
    /// What the output holds (in place).
    Output,
    /// A matrix of the output's size.
    Mat(MatRef<'a>),
}

impl Addend<'_> {
    /// Address and pitch for a kernel.
    ///
    /// # Panics
    /// When the matrix does not have the output's size.
    pub(super) fn raw(&self, out: &mut MatMut<'_>) -> (*const f32, usize) {
        match self {
            Addend::None => (ptr::null(), 0),
            Addend::Output => (out.as_mut_ptr().cast_const(), out.pitch()),
            Addend::Mat(mat) => {
                assert!(mat.rows() == out.rows() && mat.cols() == out.cols());
                (mat.as_ptr(), mat.pitch())
            }
        }
    }
}

/// Weights of a tile, and those that are to be in the cache soon.
#[derive(Clone, Copy, Debug)]
pub struct Panel<'a> {
    /// What the tile is computed with.
    pub weights: &'a [f32],
    /// What is fetched into the second-level cache meanwhile; as much as the panel has, at most.
    pub next: &'a [f32],
}

impl<'a> Panel<'a> {
    /// The `len` floats at `start`, used by `strips` strips of pixels of which this is number `strip`, and
    /// followed by those at `next`. Each strip fetches its share of what follows. A panel that meets only
    /// one strip, or would take much of the cache, is fetched itself, some way ahead of its use.
    ///
    /// # Panics
    /// When a range is not inside `weights`.
    pub fn of(
        weights: &'a [f32],
        [start, len]: [usize; 2],
        next: Option<usize>,
        strip: usize,
        strips: usize,
    ) -> Self {
        let own = &weights[start..start + len];
        let fetched = match next {
            _ if strips == 1 || len > LARGE_PANEL => {
                let first = (start + AHEAD).min(weights.len());
                let end = if strip == 0 { (first + len).min(weights.len()) } else { first };
                &weights[first..end]
            }
            Some(next) => &weights[next + len * strip / strips..next + len * (strip + 1) / strips],
            None => &[],
        };
        Self { weights: own, next: fetched }
    }
}

impl Kernels {
    /// Computes one tile: `out = clamp(bias + strip · panel + addend)`, each element one chain of fused
    /// multiply-adds in the order of k. The strip's rows are read from channel `offset` on. `panel` is
    /// `bias[nr]`, then `[k][nr]`.
    ///
    /// # Panics
    /// When the sizes of strip, panel, addend and output disagree.
    pub fn igemm(
        &self,
        strip: &Strip<'_>,
        offset: usize,
        panel: Panel<'_>,
        addend: Addend<'_>,
        clamp: [f32; 2],
        out: MatMut<'_>,
    ) {
        let (bias, weights) = panel.weights.split_at(self.nr());
        self.product(strip, offset, bias, Panel { weights, ..panel }, addend, clamp, out);
    }

    /// The product alone: `out = strip · weights`, each element one chain of fused multiply-adds from
    /// zero on. `weights` is `[k][nr]`.
    ///
    /// # Panics
    /// When the sizes of strip, weights and output disagree.
    pub fn gemm(&self, strip: &Strip<'_>, offset: usize, weights: Panel<'_>, out: MatMut<'_>) {
        let unbounded = [f32::NEG_INFINITY, f32::INFINITY];
        self.product(strip, offset, &ZEROS, weights, Addend::None, unbounded, out);
    }

    #[allow(clippy::too_many_arguments)]
    fn product(
        &self,
        strip: &Strip<'_>,
        offset: usize,
        bias: &[f32],
        Panel { weights: panel, next }: Panel<'_>,
        addend: Addend<'_>,
        clamp: [f32; 2],
        mut out: MatMut<'_>,
    ) {
        let k = strip.segments.saturating_mul(strip.seg_len);
        assert!(out.rows() == strip.rows && (1..=self.mr()).contains(&strip.rows));
        assert!((1..=self.nr()).contains(&out.cols()));
        assert!(bias.len() >= self.nr(), "{} biases", bias.len());
        assert!(panel.len() / self.nr() >= k, "panel of {} floats for k = {k}", panel.len());
        assert!(
            offset.checked_add(strip.seg_len).is_some_and(|end| end <= strip.readable),
            "run of {} floats at {offset} of {}",
            strip.seg_len,
            strip.readable
        );
        let (residual, residual_pitch) = addend.raw(&mut out);
        let tile = Tile {
            a: strip.pointers.as_ptr(),
            offset,
            mr: strip.rows,
            nr: out.cols(),
            segments: strip.segments,
            seg_len: strip.seg_len,
            bias: bias.as_ptr(),
            panel: panel.as_ptr(),
            c: out.as_mut_ptr(),
            c_pitch: out.pitch(),
            residual,
            residual_pitch,
            min: clamp[0],
            max: clamp[1],
            next: if next.is_empty() { panel.as_ptr() } else { next.as_ptr() },
            next_step: size_of_val(next).checked_div(k).unwrap_or(0).min(2 * LINE),
        };
        // SAFETY: the sizes were checked above; a strip has `segments · rows` pointers, behind each of
        // which `readable` floats are readable; these kernels exist only on processors that can run
        // them (`Kernels::for_isa`).
        unsafe { (self.igemm)(&tile) }
    }
}
