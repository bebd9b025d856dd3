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
}

/// A kernel.
///
/// # Safety
/// For `mr` up to the kernel's rows and `nr` up to its columns NR: `a` has `segments · mr` pointers,
/// behind each of which `offset .. offset + seg_len` floats are readable; `bias` has NR, `panel`
/// `segments · seg_len · NR`; `c` is an exclusive matrix of `mr` rows of `nr`, and `residual`
/// null, the same matrix, or a readable one of that size. The processor has the instruction set.
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
    #[link_name = "eyelet_f32_igemm_8x8__neon_inorder"]
    fn f32_igemm_8x8__neon_inorder(tile: &Tile);
}

pub(super) const PORTABLE: Function = f32_igemm_4x8_portable;
#[cfg(eyelet_x86)]
pub(super) const AVX2: Function = f32_igemm_6x16__avx2;
#[cfg(eyelet_x86)]
pub(super) const AVX512: Function = f32_igemm_14x32__avx512;
#[cfg(eyelet_neon)]
pub(super) const NEON: Function = f32_igemm_8x8__neon;
#[cfg(eyelet_neon)]
pub(super) const NEON_INORDER: Function = f32_igemm_8x8__neon_inorder;

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
        panel: &[f32],
        addend: Addend<'_>,
        clamp: [f32; 2],
        out: MatMut<'_>,
    ) {
        let (bias, panel) = panel.split_at(self.nr());
        self.product(strip, offset, (bias, panel), addend, clamp, out);
    }

    /// The product alone: `out = strip · weights`, each element one chain of fused multiply-adds from
    /// zero on. `weights` is `[k][nr]`.
    ///
    /// # Panics
    /// When the sizes of strip, weights and output disagree.
    pub fn gemm(&self, strip: &Strip<'_>, offset: usize, weights: &[f32], out: MatMut<'_>) {
        let unbounded = [f32::NEG_INFINITY, f32::INFINITY];
        self.product(strip, offset, (&ZEROS, weights), Addend::None, unbounded, out);
    }

    fn product(
        &self,
        strip: &Strip<'_>,
        offset: usize,
        (bias, panel): (&[f32], &[f32]),
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
        };
        // SAFETY: the sizes were checked above; a strip has `segments · rows` pointers, behind each of
        // which `readable` floats are readable; these kernels exist only on processors that can run
        // them (`Kernels::for_isa`).
        unsafe { (self.igemm)(&tile) }
    }
}

#[cfg(test)]
mod tests {
    use crate::arena::MatMut;
    use crate::kernels::portable::igemm::clamp;
    use crate::kernels::table::{Addend, Indirection};
    use crate::kernels::testing::{available, scratch};
    use std::vec;

    #[test]
    fn every_clamp_of_every_value() {
        const INF: f32 = f32::INFINITY;
        let values = [f32::NAN, -0.0, 0.0, INF, -INF, -1.0, 7.0, 1e-40];
        let bounds = [
            [-INF, INF],
            [0.0, INF],
            [-0.0, INF],
            [0.0, 6.0],
            [-1.0, 0.0],
            [-2.0, -0.0],
            [-INF, 1.0],
        ];
        for kernels in available() {
            let (mr, nr) = (kernels.mr(), kernels.nr());
            // Each output is its bias: one times minus zero is added.
            let mut panel = vec![-0.0f32; 2 * nr];
            for (bias, &value) in panel.iter_mut().zip(values.iter().cycle()).take(nr) {
                *bias = value;
            }
            let ones = vec![1.0f32; mr];
            let mut list = scratch(Indirection::rows_bytes(mr));
            let list = bytemuck::cast_slice_mut(&mut list);
            let lists = Indirection::rows(&ones, 1, 1, 0..mr, mr, list);
            let strip = lists.strips().next().unwrap();
            for [min, max] in bounds {
                // Whole tiles, and columns one by one.
                for cols in [nr, nr - 1] {
                    let mut out = vec![0.0f32; mr * nr];
                    let mat = MatMut::new(&mut out, mr, cols, nr).unwrap();
                    kernels.igemm(&strip, 0, &panel, Addend::None, [min, max], mat);
                    for (i, &got) in out.iter().enumerate().filter(|(i, _)| i % nr < cols) {
                        let want = clamp(values[i % nr % values.len()], min, max);
                        let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                        assert!(same, "{}: {got:?} for {want:?} in {min}..{max}", kernels.name());
                    }
                }
            }
        }
    }
}
