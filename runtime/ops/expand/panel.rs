//! Expands one panel: widened, and transformed where a step computes by another algorithm.

use super::Expansion;
use crate::arena::{MatMut, MatRef};
use crate::kernels::Kernels;
use crate::pack::Encoding;
use core::ops::Range;

/// Input channels whose filters are widened before they are transformed.
const FILTERS: usize = 16;

impl Expansion {
    /// Bytes of filters that one thread widens before it transforms them.
    pub(super) fn filter_bytes(&self) -> usize {
        match (self.algorithm, self.encoding) {
            (0, _) | (_, Encoding::F32) => 0,
            _ => 4 * 9 * FILTERS * self.isa.panel(),
        }
    }

    /// Weights of a panel, as stored, before those of its channels: its biases, which are floats.
    pub(super) fn biases(&self) -> usize {
        self.isa.panel() * 4 / self.encoding.weight_bytes()
    }

    /// Expands one panel, with room for [`filter_bytes`](Self::filter_bytes).
    pub(super) fn panel(
        &self,
        kernels: &Kernels,
        stored: &[f32],
        out: &mut [f32],
        filters: &mut [u8],
    ) {
        let nr = self.isa.panel();
        let (bias, body) = out.split_at_mut(nr);
        bias.copy_from_slice(&stored[..nr]);
        if self.algorithm == 0 {
            return kernels.widen(self.encoding, stored, self.biases(), body);
        }
        if let Some(out) = self.frequencies(body) {
            self.transform(kernels, stored, 0..out.cols(), out, filters);
        }
    }

    /// The frequencies of a transformed panel: each a row.
    pub(super) fn frequencies<'a>(&self, body: &'a mut [f32]) -> Option<MatMut<'a>> {
        let side = self.algorithm as usize + 2;
        let count = body.len() / (side * side);
        MatMut::new(body, side * side, count, count)
    }

    /// Transforms the filters `these` of a panel, whole channels, with room for
    /// [`filter_bytes`](Self::filter_bytes).
    pub(super) fn transform(
        &self,
        kernels: &Kernels,
        stored: &[f32],
        these: Range<usize>,
        mut out: MatMut<'_>,
        filters: &mut [u8],
    ) {
        let (nr, tile) = (self.isa.panel(), self.algorithm as usize);
        // Filters of a whole panel.
        let count = (self.plain.panel_bytes as usize / 4 - nr) / out.rows();
        if self.encoding == Encoding::F32 {
            let taps = MatRef::new(&stored[nr..], 9, count, count);
            let taps = taps.unwrap_or_else(|| unreachable!("`validate` has measured the panel"));
            return kernels.winograd_weights(tile, taps.part(0..9, these), out);
        }
        let filters: &mut [f32] = bytemuck::cast_slice_mut(filters);
        for at in (0..these.len()).step_by(FILTERS * nr) {
            let len = (FILTERS * nr).min(these.len() - at);
            for (tap, filters) in filters.chunks_exact_mut(len).take(9).enumerate() {
                let start = self.biases() + tap * count + these.start + at;
                kernels.widen(self.encoding, stored, start, filters);
            }
            let Some(taps) = MatRef::new(filters, 9, len, len) else { continue };
            let points = 0..out.rows();
            kernels.winograd_weights(tile, taps, out.part_mut(points, at..at + len));
        }
    }
}
