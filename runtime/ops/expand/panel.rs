//! Expands panels: widened, and transformed where a step computes by another algorithm.

use super::Expansion;
use crate::device::{self, Device, Split};
use crate::kernels::Kernels;
use crate::kernels::table::Packed;
use crate::matrix::{MatMut, MatRef};
use crate::pack::Encoding;
use core::ops::Range;

/// Input channels whose filters are widened before they are transformed.
const FILTERS: usize = 16;

/// Filters that are transformed together.
pub(super) struct Filters<'a> {
    /// Stored panels.
    pub weights: Packed<'a>,
    /// Input channels.
    pub channels: Range<usize>,
    /// Floats before the frequencies of each panel, which stay as they are.
    pub before: usize,
}

impl Expansion {
    /// Bytes of filters that one thread widens before it transforms them.
    pub(super) fn filter_bytes(&self) -> usize {
        match (self.algorithm, self.encoding) {
            (0, _) => 0,
            (_, Encoding::F32) if !self.is_narrow() => 0,
            _ => 4 * 9 * FILTERS * self.isa.panel(),
        }
    }

    /// Whether panels hold fewer channels than they have room for.
    fn is_narrow(&self) -> bool {
        self.plain.columns(self.isa) < self.isa.panel()
    }

    /// Frequencies of a tile, where weights are transformed.
    fn points(&self) -> usize {
        (self.algorithm as usize + 2).pow(2)
    }

    /// Input channels of a group, where weights are transformed.
    pub(super) fn channels(&self) -> usize {
        let nr = self.isa.panel();
        (self.plain.panel_bytes as usize / 4 - nr) / (self.points() * nr)
    }

    /// Widens one panel.
    pub(super) fn panel(&self, kernels: &Kernels, stored: Packed<'_>, out: &mut [f32]) {
        let (nr, width) = (self.isa.panel(), self.plain.columns(self.isa));
        let (bias, body) = out.split_at_mut(nr);
        bias.copy_from_slice(stored.biases(nr));
        // The filling at the end of a panel is not read.
        let weights = body.len().min(self.k * width + nr - width);
        kernels.widen(self.encoding, stored, width, 0, &mut body[..weights]);
    }

    /// Transforms filters of stored panels on all threads, each into a part of `out`. Threads have
    /// a panel each at a time. If there are more threads, they share the channels of each.
    pub(super) fn transform_panels(
        &self,
        kernels: &Kernels,
        device: &dyn Device,
        filters: Filters<'_>,
        out: &mut [f32],
        scratch: &mut [u8],
    ) {
        let Filters { weights, channels, before } = filters;
        let (stored, nr, points) = (self.stored_bytes / 4, self.isa.panel(), self.points());
        let (first, cols) = (channels.start * nr, channels.len() * nr);
        let (floats, each) = (before + points * cols, self.filter_bytes());
        let panels = weights.len() / stored;
        if panels < device.threads() {
            let part = Split::Cols(channels.len().div_ceil(device.threads()) * nr);
            for (stored, out) in weights.chunks(stored).zip(out.chunks_exact_mut(floats)) {
                let Some(out) = MatMut::new(&mut out[before..], points, cols, cols) else { return };
                device::divide(device, out, part, scratch, each, |share| {
                    let these = first + share.cols.start..first + share.cols.end;
                    self.transform(kernels, stored, these, share.out, share.scratch);
                });
            }
            return;
        }
        let Some(out) = MatMut::new(out, panels, floats, floats) else { return };
        device::divide(device, out, Split::Rows(1), scratch, each, |mut share| {
            for (row, panel) in share.rows.clone().enumerate() {
                let stored = weights.panels(panel..panel + 1, stored);
                let out = &mut share.out.row_mut(row)[before..];
                let Some(out) = MatMut::new(out, points, cols, cols) else { return };
                self.transform(kernels, stored, first..first + cols, out, share.scratch);
            }
        });
    }

    /// Transforms the filters `these` of a panel, whole channels, with room for
    /// [`filter_bytes`](Self::filter_bytes).
    fn transform(
        &self,
        kernels: &Kernels,
        stored: Packed<'_>,
        these: Range<usize>,
        mut out: MatMut<'_>,
        filters: &mut [u8],
    ) {
        let (nr, tile) = (self.isa.panel(), self.algorithm as usize);
        let channels = self.channels();
        if self.encoding == Encoding::F32 && !self.is_narrow() {
            // Filters of a whole panel.
            let count = channels * nr;
            let taps = MatRef::new(&stored.floats()[nr..], 9, count, count);
            let taps = taps.unwrap_or_else(|| unreachable!("`validate` has measured the panel"));
            return kernels.winograd_weights(tile, taps.part(0..9, these), out);
        }
        let filters: &mut [f32] = bytemuck::cast_slice_mut(filters);
        for at in (0..these.len()).step_by(FILTERS * nr) {
            let len = (FILTERS * nr).min(these.len() - at);
            for (tap, filters) in filters.chunks_exact_mut(len).take(9).enumerate() {
                let first = tap * channels + (these.start + at) / nr;
                self.widen_filters(kernels, stored, first, filters);
            }
            let Some(taps) = MatRef::new(filters, 9, len, len) else { continue };
            let points = 0..out.rows();
            kernels.winograd_weights(tile, taps, out.part_mut(points, at..at + len));
        }
    }

    /// Weights of a panel from its k `first` on as floats, with room for a full panel's channels
    /// for each k.
    fn widen_filters(&self, kernels: &Kernels, stored: Packed<'_>, first: usize, out: &mut [f32]) {
        let (nr, width) = (self.isa.panel(), self.plain.columns(self.isa));
        let run = if width == nr { out.len() } else { nr };
        for (k, out) in (first..).zip(out.chunks_mut(run)) {
            // A narrow panel's weights are followed by those of the next k, or by what ends the
            // panel.
            kernels.widen(self.encoding, stored, width, k, out);
        }
    }
}
