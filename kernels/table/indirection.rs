//! Where a convolution's reads lie: the pointer lists of the implicit GEMM.
//!
//! The reduction of an output pixel is a sequence of *segments*, runs of adjacent floats. Usually a
//! segment is one tap: a pixel's channels, read in place. With few channels that would be many short
//! runs; where the taps of a kernel row are adjacent in memory (no dilation, no gaps between pixels) a
//! whole row of taps is one segment, and only the pixels whose window straddles the left or right
//! border are gathered into scratch. Taps beside the image point at a row of zeros.
//!
//! The lists are built for a block of pixels at a time, strip by strip as the kernels want them:
//! `[segment][row of the strip]`.

use crate::arena::MatRef;
use core::marker::PhantomData;
use core::ops::Range;

/// Runs at least this long are not merged: the kernel's cost for changing segments has vanished.
const LONG_RUN: usize = 32;

/// Geometry of a convolution: which input rows an output row reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Images.
    pub images: usize,
    /// Input: height, width.
    pub input: [usize; 2],
    /// Output: height, width.
    pub output: [usize; 2],
    /// Taps: height, width.
    pub kernel: [usize; 2],
    /// Stride: height, width.
    pub stride: [usize; 2],
    /// Dilation: height, width.
    pub dilation: [usize; 2],
    /// Padding above and to the left; below and to the right it follows from the output.
    pub pad: [usize; 2],
    /// Floats in an input row: the channels of all groups.
    pub cols: usize,
    /// Floats that one output reads of a tap: the channels of its group.
    pub channels: usize,
    /// Floats from one input row to the next.
    pub pitch: usize,
    /// Whether a row of taps may be one segment; depthwise kernels want each tap.
    pub merge: bool,
}

impl Window {
    /// Whether a row of taps is one segment.
    pub fn merged(&self) -> bool {
        self.merge
            && self.kernel[1] > 1
            && self.dilation[1] == 1
            && self.cols == self.channels
            && self.cols == self.pitch
            && self.cols < LONG_RUN
    }

    /// Runs in the reduction of one output.
    pub fn segments(&self) -> usize {
        if self.merged() { self.kernel[0] } else { self.kernel[0] * self.kernel[1] }
    }

    /// Floats in a run.
    pub fn seg_len(&self) -> usize {
        if self.merged() { self.kernel[1] * self.channels } else { self.channels }
    }

    /// Floats that are readable behind each pointer.
    fn readable(&self) -> usize {
        if self.merged() { self.kernel[1] * self.cols } else { self.cols }
    }

    /// First input coordinate of an output coordinate on an axis; negative in the padding.
    fn start(&self, axis: usize, at: usize) -> i64 {
        at as i64 * self.stride[axis] as i64 - self.pad[axis] as i64
    }

    /// Whether any tap lies beside the image.
    fn padded(&self) -> bool {
        (0..2).any(|axis| {
            let last = self.start(axis, self.output[axis] - 1)
                + (self.kernel[axis] - 1) as i64 * self.dilation[axis] as i64;
            self.pad[axis] > 0 || last >= self.input[axis] as i64
        })
    }

    /// Output columns whose merged window straddles the left or right border.
    fn border_columns(&self) -> usize {
        let (input, taps) = (self.input[1] as i64, self.kernel[1] as i64);
        let (stride, pad) = (self.stride[1] as i64, self.pad[1] as i64);
        let output = self.output[1] as i64;
        // Inside: 0 ≤ x·stride - pad and x·stride - pad + taps ≤ input.
        let first = (pad + stride - 1) / stride;
        let end = if input + pad < taps { 0 } else { (input + pad - taps) / stride + 1 };
        (output - (end.min(output) - first.min(output)).max(0)) as usize
    }

    /// Bytes of the three parts of an [`Indirection`]'s scratch for blocks of up to `rows` rows:
    /// pointers, zeros, gathered runs. Each is a multiple of 64; saturates.
    fn parts(&self, rows: usize) -> [u64; 3] {
        let round = |bytes: u64| bytes.checked_next_multiple_of(64).unwrap_or(u64::MAX);
        let segments = self.segments() as u64;
        let pointers = (rows as u64).saturating_mul(segments).saturating_mul(POINTER);
        let zeros = if self.padded() { (self.readable() as u64).saturating_mul(4) } else { 0 };
        let gathered = if self.merged() && self.padded() {
            let lines = ((rows as u64).saturating_sub(1) / self.output[1] as u64).saturating_add(2);
            let pixels = lines.saturating_mul(self.border_columns() as u64).min(rows as u64);
            pixels.saturating_mul(segments).saturating_mul(self.readable() as u64 * 4)
        } else {
            0
        };
        [round(pointers), round(zeros), round(gathered)]
    }

    /// Bytes of scratch for blocks of up to `rows` rows, a multiple of 64; saturates. It is the same
    /// number on every host.
    pub fn scratch_bytes(&self, rows: usize) -> u64 {
        self.parts(rows).into_iter().fold(0, u64::saturating_add)
    }
}

/// Bytes that are planned for a pointer: those of a 64-bit address, also where addresses are shorter.
const POINTER: u64 = 8;

/// The pointer lists of a block of output rows.
#[derive(Debug)]
pub struct Indirection<'a> {
    pointers: &'a [*const f32],
    rows: usize,
    mr: usize,
    segments: usize,
    seg_len: usize,
    readable: usize,
    lifetime: PhantomData<&'a [f32]>,
}

/// Up to MR output rows of a block: the rows of one tile.
#[derive(Clone, Copy, Debug)]
pub struct Strip<'a> {
    /// `[segments][rows]`; behind each pointer `readable` floats are readable for `'a`.
    pub(super) pointers: &'a [*const f32],
    /// First row, counted from the start of the block.
    pub start: usize,
    /// Number of rows.
    pub rows: usize,
    pub(super) segments: usize,
    pub(super) seg_len: usize,
    pub(super) readable: usize,
}

impl Strip<'_> {
    /// Its rows, counted from the start of the block.
    pub fn range(&self) -> Range<usize> {
        self.start..self.start + self.rows
    }
}

/// Rows of strip `index` of `count` over `rows` rows: as even as possible.
fn balanced(rows: usize, count: usize, index: usize) -> Range<usize> {
    rows * index / count..rows * (index + 1) / count
}

impl<'a> Indirection<'a> {
    /// The lists for the output rows `rows` of a convolution over `input`, in strips of up to `mr`.
    /// `scratch`, aligned to 64 bytes, has at least `window.scratch_bytes(rows.len())`.
    ///
    /// # Panics
    /// When the window and the matrix disagree, `rows` are not rows of the output, or `scratch` is too
    /// small or misaligned.
    pub fn convolution(
        window: &Window,
        input: MatRef<'a>,
        rows: Range<usize>,
        mr: usize,
        scratch: &'a mut [u8],
    ) -> Self {
        let [height, width] = window.input;
        let area = window.output[0] * window.output[1];
        let pixels = window.images.checked_mul(height).and_then(|n| n.checked_mul(width));
        assert!(pixels == Some(input.rows()), "window of {pixels:?} rows, not {}", input.rows());
        assert!(window.cols == input.cols() && window.pitch == input.pitch());
        assert!(rows.start <= rows.end && rows.end.div_ceil(area.max(1)) <= window.images);

        let [pointers, zeros, gathered] = window.parts(rows.len()).map(|bytes| bytes as usize);
        let (pointers, rest) = scratch.split_at_mut(pointers);
        let (zeros, rest) = rest.split_at_mut(zeros);
        let mut gathered: &'a mut [f32] = bytemuck::cast_slice_mut(&mut rest[..gathered]);
        // SAFETY: a pointer has no invalid bit patterns.
        let (head, pointers, _) = unsafe { pointers.align_to_mut::<*const f32>() };
        assert!(head.is_empty(), "misaligned scratch");
        let zeros: &'a mut [f32] = bytemuck::cast_slice_mut(zeros);
        zeros.fill(0.0);
        let zeros: &'a [f32] = zeros;

        let (merged, segments) = (window.merged(), window.segments());
        let [taps_y, taps_x] = window.kernel;
        let pointers = &mut pointers[..rows.len() * segments];
        let readable = window.readable();
        // Where the run of a tap lies: in the image, which has all of it, or in the zeros.
        let source = |image: usize, y: i64, x: i64| -> &'a [f32] {
            if (0..height as i64).contains(&y) && (0..width as i64).contains(&x) {
                input.row((image * height + y as usize) * width + x as usize)
            } else {
                &zeros[..readable]
            }
        };

        let mut image = rows.start / area.max(1);
        let mut oy = rows.start % area.max(1) / window.output[1];
        let mut ox = rows.start % window.output[1];
        let strips = rows.len().div_ceil(mr);
        for strip in 0..strips {
            let range = balanced(rows.len(), strips, strip);
            let list = &mut pointers[range.start * segments..range.end * segments];
            for row in 0..range.len() {
                let (y, x) = (window.start(0, oy), window.start(1, ox));
                let step_y = window.dilation[0] as i64;
                if !merged {
                    let step_x = window.dilation[1] as i64;
                    for ky in 0..taps_y {
                        for kx in 0..taps_x {
                            let run = source(image, y + ky as i64 * step_y, x + kx as i64 * step_x);
                            list[(ky * taps_x + kx) * range.len() + row] = run.as_ptr();
                        }
                    }
                } else {
                    let inside = x >= 0 && x + taps_x as i64 <= width as i64;
                    for ky in 0..taps_y {
                        let y = y + ky as i64 * step_y;
                        let run = if !(0..height as i64).contains(&y) {
                            zeros[..readable].as_ptr()
                        } else if inside {
                            // The first tap's row; the next taps' rows follow it without a gap,
                            // since the pitch is the width of a row.
                            source(image, y, x).as_ptr()
                        } else {
                            let run;
                            (run, gathered) = core::mem::take(&mut gathered).split_at_mut(readable);
                            for (kx, tap) in run.chunks_exact_mut(window.cols).enumerate() {
                                let from = source(image, y, x + kx as i64);
                                tap.copy_from_slice(&from[..window.cols]);
                            }
                            run.as_ptr()
                        };
                        list[ky * range.len() + row] = run;
                    }
                }
                ox += 1;
                if ox == window.output[1] {
                    (ox, oy) = (0, oy + 1);
                    if oy == window.output[0] {
                        (oy, image) = (0, image + 1);
                    }
                }
            }
        }
        Self {
            pointers,
            rows: rows.len(),
            mr,
            segments,
            seg_len: window.seg_len(),
            readable,
            lifetime: PhantomData,
        }
    }

    /// The strips, in order.
    pub fn strips(&self) -> impl Iterator<Item = Strip<'_>> {
        let count = self.rows.div_ceil(self.mr);
        (0..count).map(move |index| {
            let range = balanced(self.rows, count, index);
            Strip {
                pointers: &self.pointers[range.start * self.segments..range.end * self.segments],
                start: range.start,
                rows: range.len(),
                segments: self.segments,
                seg_len: self.seg_len,
                readable: self.readable,
            }
        })
    }
}
