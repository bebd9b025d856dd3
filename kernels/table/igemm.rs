//! The implicit GEMM kernels: their record, the functions, and the safe call.

use super::{Indirection, Kernels};
use crate::arena::{MatMut, MatRef};
use crate::kernels::portable::igemm as portable;
use core::ops::Range;
use core::ptr;

/// `struct eyelet_igemm` of `kernels/igemm.h`, which says what the fields are.
#[repr(C)]
pub(super) struct Strips {
    a: *const *const f32,
    offset: usize,
    rows: usize,
    strips: usize,
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
    next_share: usize,
}

/// A kernel.
///
/// # Safety
/// For `strips` so many that none has more rows than the kernel's tile or none at all, and `nr` up to its
/// columns NR: `a` has `segments · rows` pointers, behind each of which `offset .. offset + seg_len` floats
/// are readable; `bias` has NR, `panel` `segments · seg_len · NR`; `c` is an exclusive matrix of `rows`
/// rows of `nr`, and `residual` null, the same matrix, or a readable one of that size. `next` is only
/// fetched into a cache, never read. The processor has the instruction set.
pub(super) type Function = unsafe extern "C" fn(&Strips);

#[cfg(eyelet_x86)]
unsafe extern "C" {
    #[link_name = "eyelet_f32_igemm_6x16__avx2"]
    fn f32_igemm_6x16__avx2(strips: &Strips);
    #[link_name = "eyelet_f32_igemm_14x32__avx512"]
    fn f32_igemm_14x32__avx512(strips: &Strips);
}

#[cfg(eyelet_neon)]
unsafe extern "C" {
    #[link_name = "eyelet_f32_igemm_8x8__neon"]
    fn f32_igemm_8x8__neon(strips: &Strips);
    #[link_name = "eyelet_f32_igemm_8x8__neon_inorder"]
    fn f32_igemm_8x8__neon_inorder(strips: &Strips);
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
unsafe extern "C" fn f32_igemm_4x8_portable(call: &Strips) {
    const NR: usize = 8;
    // SAFETY (of all blocks here): the ranges are those that the contract names.
    let bias = unsafe { core::slice::from_raw_parts(call.bias, NR) };
    let mut first = 0;
    for strip in 0..call.strips {
        let mr = call.rows / call.strips + usize::from(strip < call.rows % call.strips);
        let mut acc = [[0.0f32; NR]; portable::MR];
        for acc in &mut acc {
            acc.copy_from_slice(bias);
        }
        // SAFETY: as above.
        let mut weights =
            unsafe { core::slice::from_raw_parts(call.panel, call.segments * call.seg_len * NR) };
        for segment in 0..call.segments {
            let mut runs = [&[][..]; portable::MR];
            for (row, run) in runs.iter_mut().enumerate().take(mr) {
                // SAFETY: as above.
                *run = unsafe {
                    let at = first * call.segments + segment * mr + row;
                    core::slice::from_raw_parts((*call.a.add(at)).add(call.offset), call.seg_len)
                };
            }
            let (now, rest) = weights.split_at(call.seg_len * NR);
            portable::accumulate(&mut acc[..mr], &runs[..mr], now);
            weights = rest;
        }
        for (row, acc) in (first..).zip(acc.iter().take(mr)) {
            for (col, &sum) in acc.iter().enumerate().take(call.nr) {
                // SAFETY: as above; the residual is read before the output, which it may be, is written.
                unsafe {
                    let mut x = sum;
                    if !call.residual.is_null() {
                        x += *call.residual.add(row * call.residual_pitch + col);
                    }
                    *call.c.add(row * call.c_pitch + col) = portable::clamp(x, call.min, call.max);
                }
            }
        }
        first += mr;
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

/// A panel of weights, and what is to be in the second-level cache soon.
#[derive(Clone, Copy, Debug)]
pub struct Panel<'a> {
    /// What is computed with.
    weights: &'a [f32],
    /// The same some way further on.
    ahead: &'a [f32],
    /// What is used after it; as much as it has itself, or nothing.
    next: &'a [f32],
}

impl<'a> Panel<'a> {
    /// A panel that is in the cache, as what follows it is.
    pub fn cached(weights: &'a [f32]) -> Self {
        Self { weights, ahead: &[], next: &[] }
    }

    /// The `len` floats of `weights` at `start`, which those at `next` follow. Each strip of pixels is to fetch
    /// its share of what follows. A panel that meets only one strip, or would take much of the cache, is to be
    /// fetched itself, some way ahead of its use. These are hints: a kernel may fetch less, or nothing.
    ///
    /// # Panics
    /// When a range is not inside `weights`.
    pub fn of(weights: &'a [f32], start: usize, len: usize, next: Option<usize>) -> Self {
        let ahead = (start + AHEAD).min(weights.len());
        Self {
            weights: &weights[start..start + len],
            ahead: &weights[ahead..(ahead + len).min(weights.len())],
            next: next.map_or(&[], |next| &weights[next..next + len]),
        }
    }

    /// What `count` strips fetch: all of them an equal share, or the first one all.
    fn fetched(&self, count: usize) -> (&'a [f32], bool) {
        match Self::shared(count, self.weights.len()) {
            true => (self.next, true),
            false => (self.ahead, false),
        }
    }

    /// Whether so many strips share the fetching of what follows a panel of so many floats.
    fn shared(count: usize, floats: usize) -> bool {
        count > 1 && floats <= LARGE_PANEL
    }
}

/// One of many products: some rows of a list with a panel.
#[derive(Clone, Debug)]
pub struct Product {
    /// Which rows.
    pub rows: Range<usize>,
    /// The floats from which on they are read.
    pub offset: usize,
    /// Where the panel starts in the weights,
    pub panel: usize,
    /// and the one that is used after it.
    pub next: Option<usize>,
    /// Where the product starts in the output; there are no gaps between its rows.
    pub out: usize,
}

impl Kernels {
    /// Computes the rows that `lists` are for and the channels of a panel: `out = clamp(bias + rows · panel
    /// + addend)`, each element one chain of fused multiply-adds in the order of k. The rows are read from
    /// channel `offset` on. `panel` is `bias[nr]`, then `[k][nr]`.
    ///
    /// # Panics
    /// When the sizes of lists, panel, addend and output disagree.
    pub fn igemm(
        &self,
        lists: &Indirection<'_>,
        offset: usize,
        panel: Panel<'_>,
        addend: Addend<'_>,
        clamp: [f32; 2],
        out: MatMut<'_>,
    ) {
        let (bias, weights) = panel.weights.split_at(self.nr());
        self.product(lists, offset, bias, Panel { weights, ..panel }, addend, clamp, out);
    }

    /// The products alone: `out = rows · weights`, each element one chain of fused multiply-adds from zero on. `lists`
    /// have one segment. A product may be short, so what is common to all is checked once.
    ///
    /// # Panics
    /// When the sizes of lists, weights and output disagree.
    pub fn gemms(
        &self,
        lists: &Indirection<'_>,
        weights: &[f32],
        products: impl Iterator<Item = Product>,
        out: &mut [f32],
    ) {
        let &Indirection { pointers, rows, mr, segments, seg_len, readable, .. } = lists;
        let nr = self.nr();
        assert!(segments == 1);
        if rows == 0 {
            return;
        }
        let pointers = &pointers[..rows];
        let len = seg_len.saturating_mul(nr);
        let mut call = self.strips(lists, 0);
        (call.nr, call.c_pitch, call.bias) = (nr, nr, ZEROS.as_ptr());
        for Product { rows, offset, panel, next, out: to } in products {
            let pointers = &pointers[rows];
            if pointers.is_empty() {
                continue;
            }
            assert!(
                offset <= readable - seg_len,
                "run of {seg_len} floats at {offset} of {readable}"
            );
            let out = &mut out[to..][..pointers.len() * nr];
            let ahead = (panel + AHEAD).min(weights.len());
            let panel = &weights[panel..][..len];
            call.a = pointers.as_ptr();
            (call.offset, call.rows) = (offset, pointers.len());
            call.strips = pointers.len().div_ceil(mr);
            let shared = Panel::shared(call.strips, len);
            let next = match next {
                Some(next) if shared => &weights[next..][..len],
                None if shared => &[],
                _ => &weights[ahead..(ahead + len).min(weights.len())],
            };
            call.multiply(panel, next, shared, out.as_mut_ptr());
            // SAFETY: behind each of the pointers `readable` floats are readable, of which `offset .. offset + seg_len`
            // are inside (`strips` has checked that there are `seg_len`); panel and output have these sizes, there are
            // `nr` zeros; the output is exclusive, its rows are `nr` apart. These kernels exist only on processors that
            // can run them (`Kernels::for_isa`).
            unsafe { (self.igemm)(&call) }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn product(
        &self,
        lists: &Indirection<'_>,
        offset: usize,
        bias: &[f32],
        panel: Panel<'_>,
        addend: Addend<'_>,
        clamp: [f32; 2],
        mut out: MatMut<'_>,
    ) {
        let (nr, k) = (self.nr(), lists.segments.saturating_mul(lists.seg_len));
        assert!(out.rows() == lists.rows);
        assert!((1..=nr).contains(&out.cols()));
        assert!(bias.len() >= nr, "{} biases", bias.len());
        let floats = panel.weights.len();
        assert!(k.saturating_mul(nr) <= floats, "panel of {floats} floats for k = {k}");
        if lists.rows == 0 {
            return;
        }
        let mut call = self.strips(lists, offset);
        (call.residual, call.residual_pitch) = addend.raw(&mut out);
        (call.nr, call.c_pitch, call.bias) = (out.cols(), out.pitch(), bias.as_ptr());
        [call.min, call.max] = clamp;
        let (next, shared) = panel.fetched(call.strips);
        call.multiply(panel.weights, next, shared, out.as_mut_ptr());
        // SAFETY: the lists' sizes were checked by `strips`, the others above; the output is exclusive, the addend has
        // its size. These kernels exist only on processors that can run them (`Kernels::for_isa`).
        unsafe { (self.igemm)(&call) }
    }

    /// The record of a call for these rows, without a panel or an output: no addend, no clamp.
    ///
    /// # Panics
    /// When the lists have no rows or too few pointers, or are for larger tiles; or runs end before the floats from `offset` on.
    fn strips(&self, lists: &Indirection<'_>, offset: usize) -> Strips {
        let &Indirection { pointers, rows, mr, segments, seg_len, readable, .. } = lists;
        assert!(rows > 0 && (1..=self.mr()).contains(&mr));
        assert!(rows.saturating_mul(segments) <= pointers.len(), "{} pointers", pointers.len());
        assert!(
            offset.checked_add(seg_len).is_some_and(|end| end <= readable),
            "run of {seg_len} floats at {offset} of {readable}"
        );
        Strips {
            a: pointers.as_ptr(),
            offset,
            rows,
            strips: rows.div_ceil(mr),
            nr: 0,
            segments,
            seg_len,
            bias: ptr::null(),
            panel: ptr::null(),
            c: ptr::null_mut(),
            c_pitch: 0,
            residual: ptr::null(),
            residual_pitch: 0,
            min: f32::NEG_INFINITY,
            max: f32::INFINITY,
            next: ptr::null(),
            next_step: 0,
            next_share: 0,
        }
    }
}

impl Strips {
    /// Sets the panel, what is to be fetched beside it, by each strip its share or by the first one, and where the product
    /// goes.
    fn multiply(&mut self, panel: &[f32], next: &[f32], shared: bool, c: *mut f32) {
        let bytes = size_of_val(next);
        self.next_share = if shared { bytes / self.strips } else { 0 };
        let each = if shared { self.next_share } else { bytes };
        let k = self.segments * self.seg_len;
        self.next_step = each.checked_div(k).unwrap_or(0).min(2 * LINE);
        self.panel = panel.as_ptr();
        // The panel's own first line where there is nothing to fetch.
        self.next = if next.is_empty() { self.panel } else { next.as_ptr() };
        self.c = c;
    }
}

#[cfg(test)]
mod tests {
    use crate::arena::MatMut;
    use crate::kernels::portable::igemm::clamp;
    use crate::kernels::table::{Addend, Indirection, Panel};
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
            for [min, max] in bounds {
                // Whole tiles, and columns one by one.
                for cols in [nr, nr - 1] {
                    let mut out = vec![0.0f32; mr * nr];
                    let mat = MatMut::new(&mut out, mr, cols, nr).unwrap();
                    let panel = Panel::cached(&panel);
                    kernels.igemm(&lists, 0, panel, Addend::None, [min, max], mat);
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
