//! Many products with the rows of one list: what Winograd's algorithm makes of a convolution.

use super::igemm::{AHEAD, Addend, Biased, Panel, Strips, Target, UNBOUNDED, ZEROS};
use super::indirection::Reads;
use super::{Indirection, Kernels, Prefetch};
use crate::matrix::MatMut;
use core::ops::Range;
use core::ptr;

/// One of many products: some rows of a list with a panel.
#[derive(Clone, Debug)]
pub struct Product {
    /// Which rows.
    pub rows: Range<usize>,
    /// The floats from which on they are read.
    pub offset: usize,
    /// Where the panel starts in the weights.
    pub panel: usize,
    /// Where a panel starts that is used soon after this one: the next, or a later one where panels
    /// are short. Where there is none, what follows [all products](Gemms::then) is fetched.
    pub next: Option<usize>,
    /// Where the product starts in the output; there are no gaps between its rows.
    pub out: usize,
}

/// Many products with the rows of one list. They may be short, so what they have in common is
/// checked once, and what follows from the number of rows is computed when that changes.
pub struct Gemms<'a> {
    kernels: &'a Kernels,
    lists: Indirection<'a>,
    /// The pointers that a product reads by, if it is one chain.
    pointers: &'a [*const f32],
    weights: &'a [f32],
    out: &'a mut [f32],
    /// The last float from which on rows can be read.
    last_offset: usize,
    /// Floats of a panel.
    len: usize,
    /// Whether products go on from what the output holds.
    resume: bool,
    /// The data that is used after all of them, and has not been fetched yet.
    prefetch: Prefetch,
    /// The last call.
    call: Strips,
}

impl Gemms<'_> {
    /// The products go on with chains that others have begun, with terms that come before: the
    /// output holds what these came to. The bits are those of all terms at once.
    ///
    /// # Panics
    /// When products are several chains.
    pub fn resume(self) -> Self {
        assert!(self.lists.chains().count() == 1);
        Self { resume: true, ..self }
    }

    /// Has `prefetch` fetched with the last panels.
    pub fn then(self, prefetch: Prefetch) -> Self {
        Self { prefetch, ..self }
    }

    /// Computes a product.
    ///
    /// # Panics
    /// When the sizes of lists, weights and output disagree.
    #[inline]
    pub fn multiply(&mut self, product: Product) {
        if self.lists.chains().count() > 1 {
            return self.multiply_in_chains(product);
        }
        let Product { rows, offset, panel, next, out } = product;
        let (weights, len, nr) = (self.weights, self.len, self.call.nr);
        let pointers = &self.pointers[rows];
        if pointers.is_empty() {
            return;
        }
        assert!(offset <= self.last_offset, "runs at {offset}, of {}", self.last_offset);
        let out = &mut self.out[out..][..pointers.len() * nr];
        let weights_of = &weights[panel..][..len];
        let call = &mut self.call;
        if call.rows != pointers.len() {
            call.rows = pointers.len();
            call.strips = call.rows.div_ceil(self.lists.mr);
            (_, call.next_step, call.next_share) =
                Prefetch::of(weights_of).fetched(weights_of, call.strips, call.seg_len);
        }
        // All strips fetch an equal share of what follows, or a single one of a long panel what it
        // reads itself some way ahead. Where nothing follows they fetch what is there already.
        let at = |next: usize| weights[next..][..len].as_ptr();
        call.next = match next {
            _ if call.strips == 1 && len > AHEAD => at((panel + AHEAD).min(weights.len() - len)),
            Some(next) => at(next),
            None if self.prefetch.is_empty() => at(panel),
            None => {
                let prefetch = self.prefetch;
                self.prefetch = prefetch.skip(len);
                prefetch.start()
            }
        };
        call.a = pointers.as_ptr();
        call.offset = offset;
        call.panel = weights_of.as_ptr();
        call.c = out.as_mut_ptr();
        if self.resume {
            (call.bias, call.bias_pitch) = (call.c.cast_const(), nr);
        }
        // SAFETY:
        // - `readable` floats are readable from each pointer on, and `offset .. offset + seg_len`
        //   are among them.
        // - Panel and output have these sizes; biases are `nr` zeros, or the output's rows.
        // - The output is exclusive, and its rows are `nr` apart.
        // - These kernels exist only on processors that can run them (`Kernels::for_isa`).
        unsafe { (self.kernels.igemm)(call) }
    }

    #[cold]
    fn multiply_in_chains(&mut self, product: Product) {
        let Product { rows, offset, panel, next, out } = product;
        let nr = self.call.nr;
        let len = self.lists.seg_len.saturating_mul(nr);
        let panel = Panel::of(self.weights, panel, len, next.map(|next| (next, 0)));
        let panel = panel.then(self.prefetch);
        let lists = self.lists.part(rows);
        let out = &mut self.out[out..][..lists.rows * nr];
        let Some(out) = MatMut::new(out, lists.rows, nr, nr) else { return };
        let target = Target { addend: Addend::None, clamp: UNBOUNDED, out };
        self.kernels.product(&lists, offset, Biased { bias: &ZEROS, panel }, target);
    }
}

impl Kernels {
    /// The products alone: `out = rows · weights`, in chains that all begin with zero. `lists` have
    /// one segment, a panel is `[k][nr]`.
    ///
    /// # Panics
    /// When lists or the kernel's tile do not fit.
    pub fn gemms<'a>(
        &'a self,
        lists: &Indirection<'a>,
        weights: &'a [f32],
        out: &'a mut [f32],
    ) -> Gemms<'a> {
        let &Indirection { mr, readable, .. } = lists;
        // The first chain begins with its segment.
        let Reads { pointers, segments, seg_len, .. } = lists.chain(0);
        assert!(segments == 1 && (1..=self.mr()).contains(&mr));
        assert!(seg_len <= readable && pointers.len() >= lists.rows);
        assert!(self.nr() <= ZEROS.len());
        let call = Strips {
            a: pointers.as_ptr(),
            offset: 0,
            rows: 0,
            strips: 0,
            nr: self.nr(),
            width: self.nr(),
            segments,
            seg_len,
            bias: ZEROS.as_ptr(),
            bias_pitch: 0,
            panel: weights.as_ptr(),
            c: ptr::null_mut(),
            c_pitch: self.nr(),
            residual: ptr::null(),
            residual_pitch: 0,
            min: f32::NEG_INFINITY,
            max: f32::INFINITY,
            next: ptr::null(),
            next_step: 0,
            next_share: 0,
        };
        let last_offset = readable - seg_len;
        let len = seg_len.saturating_mul(self.nr());
        Gemms {
            kernels: self,
            lists: *lists,
            pointers,
            weights,
            out,
            last_offset,
            len,
            resume: false,
            prefetch: Prefetch::default(),
            call,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::testing::{available, floats, scratch};
    use std::vec;

    /// A chain that several calls compute has the bits of one.
    #[test]
    fn chains_go_on() {
        for kernels in available() {
            let (mr, nr) = (kernels.mr(), kernels.nr());
            for (rows, k) in (1..=2 * mr + 1).flat_map(|rows| [5, 19, 64].map(|k| (rows, k))) {
                let (a, weights) = (floats(rows * k, 1), floats(k * nr, 2));
                let mut list = scratch(Indirection::rows_bytes(rows));
                let list = bytemuck::cast_slice_mut(&mut list);
                let lists = Indirection::rows((0..rows).map(|row| &a[row * k..]), k, mr, list);
                let in_parts = |each: usize| {
                    let mut out = vec![7.0f32; rows * nr];
                    for from in (0..k).step_by(each) {
                        let len = each.min(k - from);
                        let lists = lists.seg_len(len);
                        let gemms = kernels.gemms(&lists, &weights, &mut out);
                        let mut gemms = if from > 0 { gemms.resume() } else { gemms };
                        let panel = from * nr;
                        let rows = 0..rows;
                        gemms.multiply(Product { rows, offset: from, panel, next: None, out: 0 });
                    }
                    out
                };
                let wanted = in_parts(k);
                for each in [1, 4, 16, k - 1] {
                    let found = in_parts(each);
                    let same = found.iter().zip(&wanted).all(|(x, y)| x.to_bits() == y.to_bits());
                    assert!(same, "{}: {rows} rows, {k} in parts of {each}", kernels.name());
                }
            }
        }
    }
}
