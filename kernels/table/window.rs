//! Geometry of a convolution: which input rows an output row reads, and in what runs.
//!
//! The input's matrix may hold fewer lines of the image than there are (a ring, see [`MatRef`]):
//! those that the outputs at hand read.

use super::Chains;
use super::chains::LONG_RUN;
use crate::matrix::MatRef;

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
}

impl Window {
    /// Whether a row of taps is one segment.
    pub fn merged(&self) -> bool {
        self.kernel[1] > 1
            && self.dilation[1] == 1
            && self.cols == self.channels
            && self.cols == self.pitch
            && self.cols < LONG_RUN
    }

    /// Whether each output reads one pixel, the one in its own place: output and input have the
    /// same rows.
    pub(super) fn pointwise(&self) -> bool {
        self.kernel == [1; 2]
            && self.stride == [1; 2]
            && self.pad == [0; 2]
            && self.output == self.input
    }

    /// Runs in the reduction of one output.
    pub fn segments(&self) -> usize {
        if self.merged() { self.kernel[0] } else { self.kernel[0] * self.kernel[1] }
    }

    /// Floats in a run.
    pub fn seg_len(&self) -> usize {
        if self.merged() { self.kernel[1] * self.channels } else { self.channels }
    }

    /// The chains of one output.
    pub fn chains(&self) -> Chains {
        Chains::new(self.kernel, self.channels)
    }

    /// Floats that are readable from each pointer on.
    pub(super) fn readable(&self) -> usize {
        if self.merged() { self.kernel[1] * self.cols } else { self.cols }
    }

    /// Whether coordinates can be computed without overflow: what
    /// [`Indirection`](super::Indirection) relies on, and layers are checked for.
    pub fn is_bounded(&self) -> bool {
        let bounded = |x: usize| x as u64 <= u32::MAX as u64;
        let taps = self.kernel[0].checked_mul(self.kernel[1]);
        taps.is_some_and(bounded)
            && (0..2).all(|axis| {
                let first = (self.output[axis] as u64).checked_mul(self.stride[axis] as u64);
                let taps = (self.kernel[axis] as u64).checked_mul(self.dilation[axis] as u64);
                let extents = [self.input[axis], self.output[axis], self.pad[axis]];
                first.zip(taps).is_some_and(|(a, b)| a <= 1 << 40 && b <= 1 << 40)
                    && extents.into_iter().all(bounded)
                    && [self.input[axis], self.output[axis], self.kernel[axis]]
                        .iter()
                        .all(|&x| x > 0)
                    && self.stride[axis] > 0
            })
    }

    /// Whether a matrix can be the input: all rows of it or, of a single image, some whole lines.
    pub(super) fn reads(&self, input: &MatRef<'_>) -> bool {
        let [height, width] = self.input;
        let pixels = self.images.checked_mul(height).and_then(|n| n.checked_mul(width));
        let rows = input.rows();
        let ring = self.images == 1 && rows > 0 && rows.is_multiple_of(width);
        self.cols == input.cols()
            && pixels.is_some_and(|pixels| rows == pixels || (ring && rows < pixels))
    }

    /// First input coordinate of an output coordinate on an axis; negative in the padding.
    pub(super) fn start(&self, axis: usize, at: usize) -> i64 {
        at as i64 * self.stride[axis] as i64 - self.pad[axis] as i64
    }

    /// Whether any tap lies outside the image.
    pub(super) fn padded(&self) -> bool {
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

    /// Bytes of the three parts of an [`Indirection`](super::Indirection)'s scratch for blocks of
    /// up to `rows` rows: pointers, zeros, gathered runs. Each is a multiple of 64; saturates.
    pub(super) fn parts(&self, rows: usize) -> [u64; 3] {
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

    /// Bytes of scratch for blocks of up to `rows` rows, a multiple of 64; saturates. It is the
    /// same number on every host.
    pub fn scratch_bytes(&self, rows: usize) -> u64 {
        self.parts(rows).into_iter().fold(0, u64::saturating_add)
    }
}

/// A number of bytes or pointers on this processor. A number that it cannot count is more than any
/// scratch.
pub(super) fn bytes_here(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Bytes that are planned for a pointer: those of a 64-bit address, also where addresses are
/// shorter.
pub(super) const POINTER: u64 = 8;
