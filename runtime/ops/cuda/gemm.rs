//! Shared by operators that multiply matrices on a GPU: the records of their kernels' parts, and
//! the choice of a rectangle for a block. The choice changes no bit.

use super::Call;
use crate::kernels::table::cuda::Function;
use crate::pack::{Activation, NONE};
use bytemuck::{Pod, Zeroable};
use core::ops::Range;

/// Output channels of a panel.
pub(super) const PANEL: u32 = crate::pack::Isa::Cuda.panel() as u32;

/// Most blocks of a launch along its second and third axis.
pub(super) const MAX_BLOCKS: u32 = 65_535;

/// `struct WindowRecord` of `kernels/cuda/window.cuh`, which says what the fields are.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct WindowRecord {
    pub input: u64,
    pub height: u32,
    pub width: u32,
    pub pitch: u32,
    pub channels: u32,
    pub out_height: u32,
    pub out_width: u32,
    pub kernel_width: u32,
    pub stride: [u32; 2],
    pub dilation: [u32; 2],
    pub pad: [u32; 2],
    pub rows: u32,
}

impl WindowRecord {
    /// Rows of a matrix: pixels of one line, under a window of one tap.
    pub fn matrix(input: u64, rows: u32, channels: u32, pitch: u32) -> Self {
        Self {
            input,
            height: 1,
            width: rows,
            pitch,
            channels,
            out_height: 1,
            out_width: rows,
            kernel_width: 1,
            stride: [1; 2],
            dilation: [1; 2],
            pad: [0; 2],
            rows,
        }
    }

    /// Whether kernels can read four channels at once.
    pub fn fours(&self) -> bool {
        self.channels.is_multiple_of(4) && is_fours(self.input, self.pitch)
    }
}

/// Whether rows of floats from this address on, so far apart, all begin at a multiple of 16 bytes.
pub(super) fn is_fours(address: u64, pitch: u32) -> bool {
    address.is_multiple_of(16) && pitch.is_multiple_of(4)
}

/// `struct FinishRecord` of `kernels/cuda/finish.cuh`, which says what the fields are.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct FinishRecord {
    pub out: u64,
    pub residual: u64,
    pub out_pitch: u32,
    pub residual_pitch: u32,
    pub activation: Activation,
    pub fours: u32,
}

impl FinishRecord {
    /// The record of a step whose columns lie in runs of `columns`. The second input is the
    /// residual, if the layer can have one.
    pub fn new(call: &Call<'_>, columns: u32, has_residual: bool) -> Self {
        let (residual, residual_pitch) = match has_residual && call.layer.inputs[1] != NONE {
            true => (call.operands[1], call.inputs[1].pitch),
            false => (0, 0),
        };
        let out_pitch = call.output.pitch;
        let fours = columns.is_multiple_of(4)
            && is_fours(call.out, out_pitch)
            && is_fours(residual, residual_pitch);
        Self {
            out: call.out,
            residual,
            out_pitch,
            residual_pitch,
            activation: call.layer.activation.for_kernels(),
            fours: fours.into(),
        }
    }
}

/// `struct ChainsRecord` of `kernels/cuda/gemm.cuh`, which says what the fields are.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct ChainsRecord {
    pub k: u32,
    pub chains: u32,
    pub unit: u32,
}

/// `struct TermsRecord` of `kernels/cuda/gemm.cuh`, which says what the fields are.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct TermsRecord {
    pub from: u32,
    pub to: u32,
}

impl TermsRecord {
    pub fn new(terms: Range<usize>) -> Self {
        // A panel's bytes are counted in 32 bits, and its reduction is shorter.
        Self { from: terms.start as u32, to: terms.end as u32 }
    }
}

impl FinishRecord {
    /// The record of chain `index` of `count`: all but the first are added to the output, and a
    /// function follows the last.
    pub fn of_chain(self, index: usize, count: usize) -> Self {
        let (residual, residual_pitch) = match index {
            0 => (self.residual, self.residual_pitch),
            _ => (self.out, self.out_pitch),
        };
        let activation = if index + 1 == count { self.activation } else { Activation::NONE };
        Self { residual, residual_pitch, activation, ..self }
    }
}

/// The rectangle that a block computes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    pub rows: u32,
    pub columns: u32,
    pub threads: u32,
    /// The share of issue slots that its kernels' inner loops have for multiply-adds, in percent.
    share: u32,
    /// The kernels of a convolution, by the encoding of its weights: those that read four channels
    /// at once.
    pub fours: [Function; 3],
    /// The kernels that read one channel; none if there are none.
    pub ones: Option<[Function; 3]>,
}

/// All rectangles, from the largest on.
pub(super) const TILES: [Tile; 5] = {
    use Function::*;
    [
        Tile {
            rows: 128,
            columns: 128,
            threads: 256,
            share: 88,
            fours: [Conv128x128F32, Conv128x128F16, Conv128x128Bf16],
            ones: None,
        },
        Tile {
            rows: 128,
            columns: 64,
            threads: 128,
            share: 87,
            fours: [Conv128x64F32, Conv128x64F16, Conv128x64Bf16],
            ones: None,
        },
        Tile {
            rows: 64,
            columns: 64,
            threads: 64,
            share: 86,
            fours: [Conv64x64F32, Conv64x64F16, Conv64x64Bf16],
            ones: Some([Conv64x64OnesF32, Conv64x64OnesF16, Conv64x64OnesBf16]),
        },
        Tile {
            rows: 64,
            columns: 32,
            threads: 64,
            share: 79,
            fours: [Conv64x32F32, Conv64x32F16, Conv64x32Bf16],
            ones: Some([Conv64x32OnesF32, Conv64x32OnesF16, Conv64x32OnesBf16]),
        },
        Tile {
            rows: 32,
            columns: 32,
            threads: 64,
            share: 71,
            fours: [Conv32x32F32, Conv32x32F16, Conv32x32Bf16],
            ones: Some([Conv32x32OnesF32, Conv32x32OnesF16, Conv32x32OnesBf16]),
        },
    ]
};

/// Warps of a multiprocessor that keep its arithmetic busy.
const BUSY_WARPS: u64 = 8;

impl Tile {
    /// The work of the busiest multiprocessor for each k, in multiply-adds of its peak, for `rows`
    /// times `columns` outputs, `times` over. It needs some warps to be busy at all.
    pub fn time(&self, [rows, columns, times]: [u32; 3], multiprocessors: u32) -> u128 {
        let blocks = u128::from(rows.div_ceil(self.rows))
            * u128::from(columns.div_ceil(self.columns))
            * u128::from(times);
        let most = blocks.div_ceil(multiprocessors.max(1).into());
        let warps = (most * u128::from(self.threads / 32)).clamp(1, BUSY_WARPS.into());
        let outputs = most * u128::from(self.rows * self.columns);
        outputs * 100 * u128::from(BUSY_WARPS) / (u128::from(self.share) * warps)
    }

    /// Blocks for `rows` rows and `columns` columns.
    pub fn blocks(&self, rows: u32, columns: u32) -> [u32; 2] {
        [rows.div_ceil(self.rows), columns.div_ceil(self.columns)]
    }
}

/// The fastest of the rectangles that `fits`.
pub(super) fn fastest(
    extents: [u32; 3],
    multiprocessors: u32,
    fits: impl Fn(&Tile) -> bool,
) -> &'static Tile {
    let smallest = &TILES[TILES.len() - 1];
    let fitting = TILES.iter().filter(|tile| fits(tile));
    fitting.min_by_key(|tile| tile.time(extents, multiprocessors)).unwrap_or(smallest)
}

/// Bytes of `floats` floats, up to a multiple of 64; saturates.
pub(super) fn bytes(floats: impl IntoIterator<Item = u64>) -> u64 {
    let all = floats.into_iter().fold(4u64, u64::saturating_mul);
    all.checked_next_multiple_of(64).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
