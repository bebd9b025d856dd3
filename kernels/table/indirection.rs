//! Where a convolution's reads lie: the pointer lists of the implicit GEMM.
//!
//! The reduction of an output pixel is a sequence of *segments*, runs of adjacent floats. Usually a
//! segment is one tap: a pixel's channels, read in place. With few channels that would be many
//! short runs; where the taps of a kernel row are adjacent in memory (no dilation, no gaps between
//! pixels) a whole row of taps is one segment, and only the pixels whose window straddles the left
//! or right border are gathered into scratch. Taps outside the image point at a row of zeros.
//!
//! The lists are built for a block of pixels at a time, one [chain](Chains) of the reduction after
//! the other (of which several may share a segment), strip by strip as the kernels want them:
//! `[segment][row of the strip]`.

use super::window::{POINTER, bytes_here};
use super::{Chains, Window};
use crate::matrix::MatRef;
use core::marker::PhantomData;
use core::ops::Range;

/// The pointer lists of a block of output rows.
#[derive(Clone, Copy, Debug)]
pub struct Indirection<'a> {
    /// Chain by chain, strip by strip `[segments][rows]`; from each pointer on `readable` floats are
    /// readable for `'a`.
    pointers: &'a [*const f32],
    pub(super) rows: usize,
    /// The most rows of a strip.
    pub(super) mr: usize,
    pub(super) seg_len: usize,
    pub(super) readable: usize,
    chains: Chains,
    lifetime: PhantomData<&'a [f32]>,
}

// SAFETY: what the pointers lead to is borrowed for `'a`, and only read.
unsafe impl Sync for Indirection<'_> {}

/// The first `count` pointers that fit into scratch.
///
/// # Panics
/// When they do not, or it is misaligned.
pub(super) fn pointers(scratch: &mut [u8], count: usize) -> &mut [*const f32] {
    // SAFETY: a pointer has no invalid bit patterns.
    let (head, pointers, _) = unsafe { scratch.align_to_mut::<*const f32>() };
    assert!(head.is_empty(), "misaligned scratch");
    &mut pointers[..count]
}

/// Rows of strip `index` of `count` over `rows` rows: the first ones have a row more than the
/// others.
fn strip(rows: usize, count: usize, index: usize) -> Range<usize> {
    let start = |index: usize| rows / count * index + index.min(rows % count);
    start(index)..start(index + 1)
}

impl<'a> Indirection<'a> {
    /// The lists for the output rows `rows` of a convolution over `input`, in strips of up to `mr`.
    /// `scratch`, aligned to 64 bytes, has at least `window.scratch_bytes(rows.len())`.
    ///
    /// # Panics
    /// When the window and the matrix disagree, `rows` are not rows of the output, or `scratch` is
    /// too small or misaligned.
    pub fn convolution(
        window: &Window,
        input: MatRef<'a>,
        rows: Range<usize>,
        mr: usize,
        scratch: &'a mut [u8],
    ) -> Self {
        let area = window.output[0].saturating_mul(window.output[1]);
        assert!(window.is_bounded(), "{window:?}");
        assert!(window.reads(&input), "{window:?} over {} rows", input.rows());
        assert!(window.pitch == input.pitch());
        assert!(rows.start <= rows.end && rows.end.div_ceil(area) <= window.images);

        let [listed, zeros, gathered] = window.parts(rows.len()).map(bytes_here);
        let (list, rest) = scratch.split_at_mut(listed);
        let (zeros, rest) = rest.split_at_mut(zeros);
        let gathered: &'a mut [f32] = bytemuck::cast_slice_mut(&mut rest[..gathered]);
        let zeros: &'a mut [f32] = bytemuck::cast_slice_mut(zeros);
        zeros.fill(0.0);
        let zeros: &'a [f32] = zeros;

        let (segments, chains) = (window.segments(), window.chains());
        let count = rows.len().checked_mul(segments);
        let pointers = pointers(list, count.unwrap_or(usize::MAX));
        let source = Source { window, input, zeros, chains, rows: rows.len() };
        if window.pointwise() {
            source.pixels(rows.start, pointers);
        } else {
            source.windows(rows.clone(), mr, pointers, gathered);
        }
        Self {
            pointers,
            rows: rows.len(),
            mr,
            seg_len: window.seg_len(),
            readable: window.readable(),
            chains,
            lifetime: PhantomData,
        }
    }

    /// Bytes of scratch for [`Indirection::rows`] with up to `rows` rows, a multiple of 64.
    pub fn rows_bytes(rows: usize) -> u64 {
        (rows as u64 * POINTER).next_multiple_of(64)
    }

    /// The lists for rows of `cols` columns, each one run (they may overlap), in strips of up to
    /// `mr`. `scratch`, aligned to 64 bytes, has at least `rows_bytes(rows.len())`.
    ///
    /// # Panics
    /// When a row is shorter, or rows have no columns, or `scratch` is too small or misaligned.
    pub fn rows(
        rows: impl ExactSizeIterator<Item = &'a [f32]>,
        cols: usize,
        mr: usize,
        scratch: &'a mut [u8],
    ) -> Self {
        assert!(cols > 0);
        let pointers = pointers(scratch, rows.len());
        let mut filled = 0;
        for (row, pointer) in rows.zip(pointers.iter_mut()) {
            *pointer = row[..cols].as_ptr();
            filled += 1;
        }
        // A length is a promise that nobody has to keep.
        assert!(filled == pointers.len(), "{filled} rows, {} promised", pointers.len());
        Self {
            rows: pointers.len(),
            pointers,
            mr,
            seg_len: cols,
            readable: cols,
            chains: Chains::of_run(cols),
            lifetime: PhantomData,
        }
    }

    /// The lists for some of the rows, where each row is one segment.
    ///
    /// # Panics
    /// When rows have several segments, or there are fewer rows.
    pub(super) fn part(self, rows: Range<usize>) -> Self {
        assert!(self.pointers.len() == self.rows);
        Self { rows: rows.len(), pointers: &self.pointers[rows], ..self }
    }

    /// Lists that read `floats` of each run at a time, from the offset that the kernel is called
    /// with.
    ///
    /// # Panics
    /// When the runs are shorter, or pixels have several, or there are none.
    pub fn seg_len(mut self, floats: usize) -> Self {
        assert!(floats > 0 && floats <= self.readable && self.pointers.len() == self.rows);
        self.seg_len = floats;
        self.chains = Chains::of_run(floats);
        self
    }

    /// The chains of each row's reduction.
    pub fn chains(&self) -> Chains {
        self.chains
    }

    /// The reads of a chain.
    pub(super) fn chain(&self, index: usize) -> Reads<'a> {
        let terms = self.chains.terms(index);
        let segments = self.chains.segments(index, self.seg_len);
        Reads {
            pointers: &self.pointers[segments.start * self.rows..segments.end * self.rows],
            segments: segments.len(),
            offset: terms.start - segments.start * self.seg_len,
            seg_len: terms.len() / segments.len(),
        }
    }
}

/// The segments of a chain, as kernels read them.
pub(super) struct Reads<'a> {
    /// Strip by strip `[segments][rows]`.
    pub pointers: &'a [*const f32],
    pub segments: usize,
    /// Floats from each pointer on that are left out.
    pub offset: usize,
    pub seg_len: usize,
}

/// Output pixels of one line of an image, and their place in a strip's list.
struct Pixels {
    image: usize,
    y: usize,
    x: usize,
    /// Rows of the strip, in the block.
    strip: Range<usize>,
    /// The first pixel's row in the strip.
    first: usize,
    count: usize,
}

/// The places of some pixels in the lists, segment after segment.
struct Slots<'s> {
    pixels: &'s Pixels,
    /// Rows of the block.
    rows: usize,
    seg_len: usize,
    chains: Chains,
    /// The chain that the last segment belongs to, and its segments.
    chain: usize,
    segments: Range<usize>,
}

impl Slots<'_> {
    /// The range of a segment that does not come before the last one.
    fn of(&mut self, segment: usize) -> Range<usize> {
        while segment >= self.segments.end {
            self.chain += 1;
            self.segments = self.chains.segments(self.chain, self.seg_len);
        }
        let Pixels { strip, first, count, .. } = self.pixels;
        let before = self.rows * self.segments.start + strip.start * self.segments.len();
        let start = before + (segment - self.segments.start) * strip.len() + first;
        start..start + count
    }
}

/// Where runs lie: in the image, or in a row of zeros.
struct Source<'w, 'a> {
    window: &'w Window,
    input: MatRef<'a>,
    zeros: &'a [f32],
    chains: Chains,
    /// Rows of the block.
    rows: usize,
}

impl<'a> Source<'_, 'a> {
    fn slots<'s>(&self, pixels: &'s Pixels) -> Slots<'s> {
        let (chains, seg_len) = (self.chains, self.window.seg_len());
        let segments = chains.segments(0, seg_len);
        Slots { pixels, rows: self.rows, seg_len, chains, chain: 0, segments }
    }

    fn zeros(&self) -> *const f32 {
        self.zeros[..self.window.readable()].as_ptr()
    }

    /// The row of the matrix in which a pixel inside the image lies.
    fn slot(&self, image: usize, y: i64, x: i64) -> usize {
        let [height, width] = self.window.input;
        self.input.slot((image * height + y as usize) * width + x as usize)
    }

    /// The input row of a pixel inside the image.
    fn row(&self, image: usize, y: i64, x: i64) -> &'a [f32] {
        self.input.row(self.slot(image, y, x))
    }

    fn is_line(&self, y: i64) -> bool {
        (0..self.window.input[0] as i64).contains(&y)
    }

    /// The pixels from `first` on, of all lines and images: in the matrix, or in a ring around its
    /// end, adjacent rows.
    fn pixels(&self, first: usize, list: &mut [*const f32]) {
        let (held, pitch) = (self.input.rows(), self.input.pitch());
        let mut done = 0;
        while done < list.len() {
            let start = self.input.slot(first + done);
            let count = (held - start).min(list.len() - done);
            let address = self.input.row_ptr_for(start..start + count);
            for (i, pointer) in list[done..done + count].iter_mut().enumerate() {
                *pointer = address.wrapping_add(i.wrapping_mul(pitch));
            }
            done += count;
        }
    }

    /// The windows of the output rows `rows`, line by line; those that are gathered take
    /// `gathered`.
    fn windows(
        &self,
        rows: Range<usize>,
        mr: usize,
        pointers: &mut [*const f32],
        mut gathered: &'a mut [f32],
    ) {
        let [out_height, out_width] = self.window.output;
        let area = out_height * out_width;
        let mut image = rows.start / area;
        let mut y = rows.start % area / out_width;
        let mut x = rows.start % out_width;
        // With one segment the lists of all strips are one.
        let strips = if self.window.segments() == 1 { 1 } else { rows.len().div_ceil(mr) };
        for index in 0..strips {
            let strip = strip(rows.len(), strips, index);
            let mut row = 0;
            while row < strip.len() {
                // The pixels up to the end of the strip or of the image's line.
                let pixels = (strip.len() - row).min(out_width - x);
                let at = Pixels { image, y, x, strip: strip.clone(), first: row, count: pixels };
                if self.inner(&at, pointers) {
                    // Most are.
                } else if self.window.merged() {
                    gathered = self.merged(&at, pointers, gathered);
                } else {
                    self.taps(&at, pointers);
                }
                row += pixels;
                x += pixels;
                if x == out_width {
                    (x, y) = (0, y + 1);
                    if y == out_height {
                        (y, image) = (0, image + 1);
                    }
                }
            }
        }
    }

    /// All segments of pixels whose windows are inside the image, all in rows that the matrix holds
    /// at their numbers; nothing where that is not so.
    fn inner(&self, at: &Pixels, list: &mut [*const f32]) -> bool {
        let Window { kernel, stride, dilation, .. } = *self.window;
        let [height, width] = self.window.input;
        let (y, x) = (self.window.start(0, at.y), self.window.start(1, at.x));
        let down = (kernel[0] - 1) * dilation[0];
        let right = (at.count - 1) * stride[1] + (kernel[1] - 1) * dilation[1];
        if y.min(x) < 0 || y as usize + down >= height || x as usize + right >= width {
            return false;
        }
        let first = (at.image * height + y as usize) * width + x as usize;
        let last = first + down * width + right;
        if last >= self.input.rows() {
            return false;
        }
        // All others lie between these two rows of the matrix.
        let address = self.input.row_ptr_for(first..last + 1);
        let pitch = self.input.pitch();
        let step = stride[1].wrapping_mul(pitch);
        let runs = if self.window.merged() { 1 } else { kernel[1] };
        let mut slots = self.slots(at);
        for ky in 0..kernel[0] {
            for kx in 0..runs {
                let row = ky * dilation[0] * width + kx * dilation[1];
                let start = address.wrapping_add(row.wrapping_mul(pitch));
                let list = &mut list[slots.of(ky * runs + kx)];
                for (i, pointer) in list.iter_mut().enumerate() {
                    *pointer = start.wrapping_add(i.wrapping_mul(step));
                }
            }
        }
        true
    }

    /// One segment for each tap.
    fn taps(&self, at: &Pixels, list: &mut [*const f32]) {
        let [taps_y, taps_x] = self.window.kernel;
        let mut slots = self.slots(at);
        for ky in 0..taps_y {
            let y = self.window.start(0, at.y) + (ky * self.window.dilation[0]) as i64;
            for kx in 0..taps_x {
                let x = self.window.start(1, at.x) + (kx * self.window.dilation[1]) as i64;
                let list = &mut list[slots.of(ky * taps_x + kx)];
                if self.is_line(y) {
                    self.tap(at.image, y, x, list);
                } else {
                    list.fill(self.zeros());
                }
            }
        }
    }

    /// One tap of adjacent output pixels, the first of which reads input column `x`.
    fn tap(&self, image: usize, y: i64, x: i64, list: &mut [*const f32]) {
        let inside = self.inside(x, 1, list.len());
        if inside.len() < list.len() {
            list[..inside.start].fill(self.zeros());
            list[inside.end..].fill(self.zeros());
        }
        self.place(image, [y, x], 1, &mut list[inside.clone()], inside.start);
    }

    /// Which of `count` adjacent output pixels have `taps` adjacent columns inside the image, where
    /// the first pixel's start at `x`.
    fn inside(&self, x: i64, taps: usize, count: usize) -> Range<usize> {
        let step = self.window.stride[1] as i64;
        // The last column where such a run may start.
        let limit = self.window.input[1] as i64 - taps as i64;
        if x >= 0 && x + (count as i64 - 1) * step <= limit {
            return 0..count;
        }
        let start = if x < 0 { (step - 1 - x) / step } else { 0 };
        let end = if x <= limit { (limit - x) / step + 1 } else { 0 };
        let end = end.min(count as i64);
        start.min(end) as usize..end as usize
    }

    /// The pointers of adjacent output pixels whose `taps` columns are all inside the image; `list`
    /// is that of pixel `first` and those after it, where pixel 0 reads from column `x` on.
    fn place(
        &self,
        image: usize,
        [y, x]: [i64; 2],
        taps: usize,
        list: &mut [*const f32],
        first: usize,
    ) {
        let step = self.window.stride[1];
        let Some(last) = list.len().checked_sub(1) else { return };
        let start = x + (first * step) as i64;
        // The columns of all lie between the first and the last (a matrix has whole lines), and
        // where a run spans columns they follow each other without a gap.
        let first = self.slot(image, y, start);
        let address = self.input.row_ptr_for(first..first + last * step + taps);
        let floats = step.wrapping_mul(self.input.pitch());
        for (i, pointer) in list.iter_mut().enumerate() {
            *pointer = address.wrapping_add(i.wrapping_mul(floats));
        }
    }

    /// One segment for each row of taps. Windows across the left or right border are gathered at
    /// the start of `free`; the rest of it is returned.
    fn merged(
        &self,
        at: &Pixels,
        list: &mut [*const f32],
        mut free: &'a mut [f32],
    ) -> &'a mut [f32] {
        let window = self.window;
        let x = window.start(1, at.x);
        let inside = self.inside(x, window.kernel[1], at.count);
        let mut slots = self.slots(at);
        for ky in 0..window.kernel[0] {
            let y = window.start(0, at.y) + (ky * window.dilation[0]) as i64;
            let list = &mut list[slots.of(ky)];
            if !self.is_line(y) {
                list.fill(self.zeros());
                continue;
            }
            self.place(at.image, [y, x], window.kernel[1], &mut list[inside.clone()], inside.start);
            for i in (0..inside.start).chain(inside.end..at.count) {
                let run;
                (run, free) = free.split_at_mut(window.readable());
                self.gather(at.image, y, x + (i * window.stride[1]) as i64, run);
                list[i] = run.as_ptr();
            }
        }
        free
    }

    /// Copies a row of taps that starts at column `x`.
    fn gather(&self, image: usize, y: i64, x: i64, run: &mut [f32]) {
        for (kx, tap) in run.chunks_exact_mut(self.window.cols).enumerate() {
            match x + kx as i64 {
                x if (0..self.window.input[1] as i64).contains(&x) => {
                    tap.copy_from_slice(self.row(image, y, x));
                }
                _ => tap.fill(0.0),
            }
        }
    }
}
