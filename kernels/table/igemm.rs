//! The implicit GEMM kernels: their record, the functions, and the safe call.

use super::indirection::Reads;
use super::{Chains, Indirection, Kernels, Prefetch};
use crate::kernels::portable::igemm as portable;
use crate::matrix::{MatMut, MatRef};
use core::ops::Range;
use core::ptr;

/// `struct eyelet_igemm` of `kernels/igemm.h`, which says what the fields are.
#[repr(C)]
pub(super) struct Strips {
    pub(super) a: *const *const f32,
    pub(super) offset: usize,
    pub(super) rows: usize,
    pub(super) strips: usize,
    pub(super) nr: usize,
    pub(super) width: usize,
    pub(super) segments: usize,
    pub(super) seg_len: usize,
    pub(super) bias: *const f32,
    pub(super) bias_pitch: usize,
    pub(super) panel: *const f32,
    pub(super) c: *mut f32,
    pub(super) c_pitch: usize,
    pub(super) residual: *const f32,
    pub(super) residual_pitch: usize,
    pub(super) min: f32,
    pub(super) max: f32,
    pub(super) next: *const f32,
    pub(super) next_step: usize,
    pub(super) next_share: usize,
}

/// A kernel.
///
/// # Safety
/// Each of the `strips` has at least one row, and at most those of the kernel's tile. `nr` is at
/// most its columns NR. `a` has `segments · rows` pointers, from each of which
/// `offset .. offset + seg_len` floats are readable; `bias` has NR for each row, `bias_pitch`
/// apart, in a readable run or in `c`, `panel` has `segments · seg_len · width`, and `NR - width`
/// are readable after them, `width` being up to NR; `c` is an exclusive matrix of `rows` rows of
/// `nr`, and `residual` null, the same matrix, or a readable one of that size. `next` is only
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

/// The kernel in plain Rust, with the interface of the others.
///
/// # Safety
/// [`Function`]'s.
unsafe extern "C" fn f32_igemm_4x8_portable(call: &Strips) {
    const NR: usize = 8;
    let mut first = 0;
    for strip in 0..call.strips {
        let mr = call.rows / call.strips + usize::from(strip < call.rows % call.strips);
        let mut acc = [[0.0f32; NR]; portable::MR];
        for (row, acc) in (first..).zip(acc.iter_mut().take(mr)) {
            // SAFETY (of all blocks here): the ranges are those that the contract names.
            acc.copy_from_slice(unsafe {
                core::slice::from_raw_parts(call.bias.add(row * call.bias_pitch), NR)
            });
        }
        let beyond = NR - call.width;
        // SAFETY: as above.
        let mut weights = unsafe {
            core::slice::from_raw_parts(
                call.panel,
                beyond + call.segments * call.seg_len * call.width,
            )
        };
        for segment in 0..call.segments {
            let mut runs = [&[][..]; portable::MR];
            for (row, run) in runs.iter_mut().enumerate().take(mr) {
                // SAFETY: as above.
                *run = unsafe {
                    let at = first * call.segments + segment * mr + row;
                    core::slice::from_raw_parts((*call.a.add(at)).add(call.offset), call.seg_len)
                };
            }
            let len = call.seg_len * call.width;
            portable::accumulate(&mut acc[..mr], &runs[..mr], &weights[..len + beyond], call.width);
            weights = &weights[len..];
        }
        for (row, acc) in (first..).zip(acc.iter().take(mr)) {
            for (col, &sum) in acc.iter().enumerate().take(call.nr) {
                // SAFETY: as above; the residual is read before the output, which it may be, is
                // written.
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

/// Floats that a panel is fetched ahead of its own use.
pub(super) const AHEAD: usize = 2048;

/// No bias.
pub(super) static ZEROS: [f32; 32] = [0.0; 32];

/// The addend of a tile's result before the clamp.
#[derive(Clone, Copy, Debug)]
pub enum Addend<'a> {
    /// Nothing.
    None,
    /// The contents of the output (in place).
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

/// Where the sums of a tile go, and what becomes of them on the way.
#[derive(Debug)]
pub struct Target<'a> {
    /// The addend of the sums.
    pub addend: Addend<'a>,
    /// Bounds that they are then clamped to.
    pub clamp: [f32; 2],
    /// The output.
    pub out: MatMut<'a>,
}

impl Target<'_> {
    fn reborrow(&mut self) -> Target<'_> {
        Target { addend: self.addend, clamp: self.clamp, out: self.out.reborrow() }
    }
}

/// A panel's bias, and the rest of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Biased<'a> {
    pub bias: &'a [f32],
    pub panel: Panel<'a>,
}

/// A panel of weights, and what is to be in the second-level cache soon.
#[derive(Clone, Copy, Debug)]
pub struct Panel<'a> {
    /// The weights to compute with.
    weights: &'a [f32],
    /// The weights that lie [`AHEAD`] further on.
    ahead: &'a [f32],
    /// The panel that is used after this one, and which of its chains.
    next: Option<(&'a [f32], usize)>,
    /// Weights that are used after this panel, if no panel follows.
    prefetch: Prefetch,
    /// Floats of the panel before `weights`. Only chains that are not computed use them.
    missing: usize,
    /// Channels that it holds, if fewer than the kernels' panels.
    width: usize,
}

impl<'a> Panel<'a> {
    /// A panel that is in the cache, as what follows it is.
    pub fn cached(weights: &'a [f32]) -> Self {
        Self {
            weights,
            ahead: &[],
            next: None,
            prefetch: Prefetch::default(),
            missing: 0,
            width: usize::MAX,
        }
    }

    /// The `len` floats of `weights` at `start`, which a chain of those at `next` follows. Each
    /// strip of pixels is to fetch its share of what follows. A panel that meets only one strip is
    /// to be fetched itself, some way ahead of its use. These are hints: a kernel may fetch less,
    /// or nothing.
    ///
    /// # Panics
    /// When a range is not inside `weights`.
    pub fn of(weights: &'a [f32], start: usize, len: usize, next: Option<(usize, usize)>) -> Self {
        let ahead = (start + AHEAD).min(weights.len());
        Self {
            weights: &weights[start..start + len],
            ahead: &weights[ahead..(ahead + len).min(weights.len())],
            next: next.map(|(next, chain)| (&weights[next..next + len], chain)),
            prefetch: Prefetch::default(),
            missing: 0,
            width: usize::MAX,
        }
    }

    /// Has `prefetch` fetched where no panel follows.
    pub fn then(self, prefetch: Prefetch) -> Self {
        Self { prefetch, ..self }
    }

    /// A panel whose first `missing` floats are not there. Those of the panel that follows are
    /// missing, too.
    pub fn without(self, missing: usize) -> Self {
        Self { missing, ..self }
    }

    /// A panel that holds `width` channels, with a weight of each for every k. Kernels have panels
    /// of more channels; for the last k they read beyond those of this one, and use nothing of it.
    pub fn width(self, width: usize) -> Self {
        Self { width, ..self }
    }

    /// Without the first `floats`, none of which are there if some are missing.
    fn skip(self, floats: usize) -> Self {
        if self.missing > 0 {
            return Self { missing: self.missing.saturating_sub(floats), ..self };
        }
        let behind = |weights: &'a [f32]| weights.get(floats..).unwrap_or_default();
        Self {
            weights: behind(self.weights),
            ahead: behind(self.ahead),
            next: self.next.map(|(next, chain)| (behind(next), chain)),
            missing: 0,
            ..self
        }
    }

    /// The data that strips fetch while they compute a chain: each strip an equal share of the next
    /// data, or a single strip its own.
    fn following(&self, chains: &Chains, chain: usize, shared: bool, nr: usize) -> Prefetch {
        match self.next {
            Some((next, chain)) if shared => Prefetch::of(self.of_chain(next, chains, chain, nr)),
            None if shared => self.prefetch,
            _ => Prefetch::of(self.of_chain(self.ahead, chains, chain, nr)),
        }
    }

    /// The weights of `chain`, for kernels of `nr` channels: a panel's width for each term. The first
    /// `missing` floats of the panel are absent.
    fn of_chain(&self, weights: &'a [f32], chains: &Chains, chain: usize, nr: usize) -> &'a [f32] {
        let Range { start, end } = chains.terms(chain);
        let width = self.width.min(nr);
        let floats = |terms: usize, beyond: usize| {
            let all = terms.saturating_mul(width).saturating_add(beyond);
            all.saturating_sub(self.missing).min(weights.len())
        };
        &weights[floats(start, 0)..floats(end, nr - width)]
    }
}

/// No clamp.
pub(super) const UNBOUNDED: [f32; 2] = [f32::NEG_INFINITY, f32::INFINITY];

impl Kernels {
    /// Computes the rows that `lists` are for and the channels of a panel, each element in the
    /// [chains](Chains) of the lists: `out = clamp(bias + rows · panel + addend)`. The rows are
    /// read from channel `offset` on. `panel` is `bias[nr]`, then `[k][nr]`, or `[k][width]` and
    /// `nr - width` more.
    ///
    /// # Panics
    /// When the sizes of lists, panel, addend and output disagree.
    pub fn igemm(
        &self,
        lists: &Indirection<'_>,
        offset: usize,
        panel: Panel<'_>,
        target: Target<'_>,
    ) {
        self.product(lists, offset, self.split_bias(panel), target);
    }

    /// One chain of what [`igemm`](Self::igemm) computes: the first one leaves bias, chain and
    /// addend in the output, the others add theirs to it, and the last one clamps.
    ///
    /// # Panics
    /// When the sizes of lists, panel, addend and output disagree, and when there is no such chain.
    pub fn igemm_chain(
        &self,
        lists: &Indirection<'_>,
        chain: usize,
        offset: usize,
        panel: Panel<'_>,
        target: Target<'_>,
    ) {
        assert!(chain < lists.chains().count());
        self.chain(lists, chain, offset, self.split_bias(panel), target);
    }

    /// A panel's bias, and the rest of it and of what is fetched.
    fn split_bias<'a>(&self, panel: Panel<'a>) -> Biased<'a> {
        // Where it is missing the chain that begins with it is not computed.
        let bias = if panel.missing > 0 { &ZEROS[..] } else { panel.weights };
        Biased { bias: &bias[..self.nr()], panel: panel.skip(self.nr()) }
    }

    /// All chains.
    pub(super) fn product(
        &self,
        lists: &Indirection<'_>,
        offset: usize,
        weights: Biased<'_>,
        mut target: Target<'_>,
    ) {
        let last = lists.chains().count() - 1;
        for chain in 0..last {
            let next = Some((weights.panel.weights, chain + 1));
            let weights = Biased { panel: Panel { next, ..weights.panel }, ..weights };
            self.chain(lists, chain, offset, weights, target.reborrow());
        }
        self.chain(lists, last, offset, weights, target);
    }

    fn chain(
        &self,
        lists: &Indirection<'_>,
        chain: usize,
        offset: usize,
        Biased { bias, panel }: Biased<'_>,
        target: Target<'_>,
    ) {
        let Target { addend, clamp, mut out } = target;
        let &Indirection { rows, mr, readable, .. } = lists;
        let chains = lists.chains();
        let Reads { pointers, segments, offset: from, seg_len } = lists.chain(chain);
        let k = segments.saturating_mul(seg_len);
        let weights = panel.of_chain(panel.weights, &chains, chain, self.nr());
        let width = panel.width.min(self.nr());
        assert!(out.rows() == rows && (1..=self.mr()).contains(&mr));
        assert!((1..=self.nr()).contains(&out.cols()));
        self.check_panel(bias, weights, k, width);
        assert!(pointers.len() / segments.max(1) >= rows, "{} pointers", pointers.len());
        let offset = offset.saturating_add(from);
        assert!(
            offset.checked_add(seg_len).is_some_and(|end| end <= readable),
            "run of {seg_len} floats at {offset} of {readable}"
        );
        if rows == 0 {
            return;
        }
        let (bias, addend) = match chain {
            0 => (bias, addend),
            _ => (&ZEROS[..], Addend::Output),
        };
        let [min, max] = if chain + 1 == chains.count() { clamp } else { UNBOUNDED };
        let strips = rows.div_ceil(mr);
        let (residual, residual_pitch) = addend.raw(&mut out);
        let following = panel.following(&chains, chain, strips > 1, self.nr());
        let (next, next_step, next_share) = following.fetched(weights, strips, k);
        let call = Strips {
            a: pointers.as_ptr(),
            offset,
            rows,
            strips,
            nr: out.cols(),
            width,
            segments,
            seg_len,
            bias: bias.as_ptr(),
            bias_pitch: 0,
            panel: weights.as_ptr(),
            c: out.as_mut_ptr(),
            c_pitch: out.pitch(),
            residual,
            residual_pitch,
            min,
            max,
            next,
            next_step,
            next_share,
        };
        // SAFETY:
        // - Lists were cut into this many strips of up to `mr` rows, with `segments · rows`
        //   pointers (checked above).
        // - `readable` floats are readable from each pointer on.
        // - The output has `rows` rows and is exclusive; the addend has its size.
        // - These kernels exist only on processors that can run them (`Kernels::for_isa`).
        unsafe { (self.igemm)(&call) }
    }

    /// Panics unless there are the biases and weights that a kernel reads for `k` terms of panels
    /// of `width` channels.
    #[inline]
    fn check_panel(&self, bias: &[f32], weights: &[f32], k: usize, width: usize) {
        assert!(bias.len() >= self.nr(), "{} biases", bias.len());
        assert!(width > 0, "panels of no channels");
        // A weight for each column of the kernel is read for the last k.
        let read = k.checked_mul(width).and_then(|read| read.checked_add(self.nr() - width));
        assert!(
            read.is_some_and(|read| weights.len() >= read),
            "{} weights for k = {k} of {width}",
            weights.len()
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::kernels::table::{Addend, Indirection, Panel, Target};
    use crate::kernels::testing::{BOUNDS, SPECIAL, assert_clamped, available, scratch};
    use crate::matrix::MatMut;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn every_clamp_of_every_value() {
        for kernels in available() {
            let (mr, nr) = (kernels.mr(), kernels.nr());
            // Each output is its bias: one times minus zero is added.
            let mut panel: Vec<f32> = SPECIAL.into_iter().cycle().take(nr).collect();
            panel.resize(2 * nr, -0.0);
            let ones = vec![1.0f32; mr];
            let mut list = scratch(Indirection::rows_bytes(mr));
            let list = bytemuck::cast_slice_mut(&mut list);
            let lists = Indirection::rows((0..mr).map(|row| &ones[row..]), 1, mr, list);
            for bounds in BOUNDS {
                // Whole tiles, and columns one by one.
                for cols in [nr, nr - 1] {
                    let mut out = vec![0.0f32; mr * nr];
                    let mat = MatMut::new(&mut out, mr, cols, nr).unwrap();
                    let target = Target { addend: Addend::None, clamp: bounds, out: mat };
                    kernels.igemm(&lists, 0, Panel::cached(&panel), target);
                    for row in out.chunks_exact(nr) {
                        assert_clamped(&row[..cols], &SPECIAL, bounds, kernels.name());
                    }
                }
            }
        }
    }
}
