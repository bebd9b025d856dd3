//! Where a depthwise convolution's reads lie: a grid of pointers to input pixels.
//!
//! The grid has a line for each input line and a column for each input column that the windows of a
//! band of output lines pass over, padding included: there it points at a row of zeros. A tap of an
//! output pixel is a fixed distance away in the grid, so neighbouring pixels share their pointers.

use super::Window;
use super::indirection::pointers;
use super::window::{POINTER, bytes_here};
use crate::matrix::MatRef;
use core::marker::PhantomData;
use core::ops::Range;

/// The pointers for a band of output lines of one image.
#[derive(Debug)]
pub struct Grid<'a> {
    /// `[lines][columns]`; from each on `window.cols` floats are readable for `'a`.
    pointers: &'a [*const f32],
    columns: usize,
    window: Window,
    lifetime: PhantomData<&'a [f32]>,
}

/// Input lines or columns that `outputs` adjacent outputs pass over.
fn reach(window: &Window, axis: usize, outputs: usize) -> u64 {
    let first = (outputs as u64).saturating_sub(1).saturating_mul(window.stride[axis] as u64);
    let taps = (window.kernel[axis] as u64 - 1).saturating_mul(window.dilation[axis] as u64);
    first.saturating_add(taps).saturating_add(1)
}

/// Bytes of pointers and of zeros, multiples of 64; saturates.
fn parts(window: &Window, lines: usize) -> [u64; 2] {
    let round = |bytes: u64| bytes.checked_next_multiple_of(64).unwrap_or(u64::MAX);
    let count = reach(window, 0, lines).saturating_mul(reach(window, 1, window.output[1]));
    let zeros = if window.padded() { (window.cols as u64).saturating_mul(4) } else { 0 };
    [round(count.saturating_mul(POINTER)), round(zeros)]
}

/// The part of a grid that a kernel gets: the same pixels of some adjacent lines.
pub(super) struct Taps<'a> {
    pub pointers: &'a [*const f32],
    pub stride: usize,
    pub lines_apart: usize,
    pub line_pitch: usize,
    pub col_pitch: usize,
}

impl<'a> Grid<'a> {
    /// Bytes of scratch for a band of `lines` output lines, a multiple of 64; saturates. It is the
    /// same number on every host.
    pub fn scratch_bytes(window: &Window, lines: usize) -> u64 {
        parts(window, lines).into_iter().fold(0, u64::saturating_add)
    }

    /// The grid for the output lines `lines` of an image of `input`. `scratch`, aligned to 64
    /// bytes, has at least `scratch_bytes(window, lines.len())`.
    ///
    /// # Panics
    /// When the window and the matrix disagree, the image or the lines are none, or `scratch` is
    /// too small or misaligned.
    pub fn new(
        window: &Window,
        input: MatRef<'a>,
        image: usize,
        lines: Range<usize>,
        scratch: &'a mut [u8],
    ) -> Self {
        let [height, width] = window.input;
        assert!(window.is_bounded(), "{window:?}");
        assert!(window.reads(&input), "{window:?} over {} rows", input.rows());
        assert!(image < window.images && !lines.is_empty() && lines.end <= window.output[0]);

        let [listed, zeros] = parts(window, lines.len()).map(bytes_here);
        let (list, rest) = scratch.split_at_mut(listed);
        let zeros: &'a mut [f32] = bytemuck::cast_slice_mut(&mut rest[..zeros]);
        zeros.fill(0.0);
        let zeros: &'a [f32] = zeros;
        // As many pointers as there are, of which the list has at least eight bytes each, are
        // counted without overflow.
        let columns = bytes_here(reach(window, 1, window.output[1]));
        let rows = bytes_here(reach(window, 0, lines.len()));
        let pointers = pointers(list, rows.saturating_mul(columns));

        // Columns of the grid that lie in the image.
        let pad = window.pad[1].min(columns);
        let inside = pad..window.pad[1].saturating_add(width).min(columns).max(pad);
        let start = window.start(0, lines.start);
        for (y, line) in (start..).zip(pointers.chunks_exact_mut(columns)) {
            let is_line = (0..height as i64).contains(&y);
            let inside = if is_line { inside.clone() } else { 0..0 };
            if inside.len() < columns {
                let zero = zeros[..window.cols].as_ptr();
                line[..inside.start].fill(zero);
                line[inside.end..].fill(zero);
            }
            if !inside.is_empty() {
                let first = input.slot((image * height + y as usize) * width);
                let address = input.row_ptr_for(first..first + inside.len());
                for (x, pointer) in line[inside].iter_mut().enumerate() {
                    *pointer = address.wrapping_add(x.wrapping_mul(input.pitch()));
                }
            }
        }
        Self { pointers, columns, window: *window, lifetime: PhantomData }
    }

    /// Its geometry.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Whether at most one column on either side lies outside the image: of adjacent columns all
    /// but the first and the last are then a pitch apart, or all the zeros of a line outside it.
    pub(super) fn regular(&self) -> bool {
        let Window { input, pad, .. } = self.window;
        pad[1] <= 1 && self.columns <= pad[1] + input[1] + 1
    }

    /// The taps of adjacent output pixels of adjacent output lines, counted from the band's first.
    ///
    /// # Panics
    /// When there are no such pixels.
    pub(super) fn taps(&self, lines: Range<usize>, pixels: Range<usize>) -> Taps<'_> {
        let Window { kernel, stride, dilation, output, .. } = self.window;
        assert!(!lines.is_empty() && !pixels.is_empty() && pixels.end <= output[1]);
        // A distance that is taken no time may be anything: of one tap, of one line.
        let taken = |times: usize, distance: [usize; 2]| match times {
            0 => Some(0),
            _ => times.checked_mul(distance[0])?.checked_mul(distance[1]),
        };
        let sum = |parts: [Option<usize>; 4]| {
            parts.into_iter().try_fold(0usize, |sum, part| sum.checked_add(part?))
        };
        let columns = self.columns;
        let first = sum([
            taken(lines.start, [stride[0], columns]),
            taken(pixels.start, [stride[1], 1]),
            Some(0),
            Some(0),
        ]);
        let last = sum([
            taken(lines.len() - 1, [stride[0], columns]),
            taken(kernel[0] - 1, [dilation[0], columns]),
            taken(kernel[1] - 1, [dilation[1], 1]),
            taken(pixels.len() - 1, [stride[1], 1]),
        ]);
        let taps = first.zip(last).and_then(|(first, last)| {
            self.pointers.get(first..first.checked_add(last)?.checked_add(1)?)
        });
        Taps {
            pointers: taps.unwrap_or_else(|| panic!("{lines:?} and {pixels:?} of {self:?}")),
            stride: stride[1],
            lines_apart: stride[0].wrapping_mul(columns),
            line_pitch: dilation[0].wrapping_mul(columns),
            col_pitch: dilation[1],
        }
    }
}
