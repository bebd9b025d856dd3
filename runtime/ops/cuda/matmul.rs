//! Product of two activations on a GPU, for each of a batch: attention. Either operand may be a
//! strided view.

use super::Call;
use super::gemm::{FinishRecord, MAX_BLOCKS, Tile, WindowRecord, fastest, is_fours};
use super::launch::launch;
use crate::device::DeviceError;
use crate::device::accelerator::Queue;
use crate::kernels::table::Chains;
use crate::kernels::table::cuda::Function;
use crate::pack::{MatMulParams, params};
use bytemuck::{Pod, Zeroable};

/// `struct MatmulRecord` of `kernels/cuda/matmul.cu`, which says what the fields are.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct MatmulRecord {
    window: WindowRecord,
    finish: FinishRecord,
    right: u64,
    left_apart: u64,
    right_apart: u64,
    row_stride: u32,
    column_stride: u32,
    columns: u32,
    scale: f32,
}

/// How a kernel reads the right operand.
#[derive(Clone, Copy)]
enum Reads {
    Rows,
    Columns,
    Ones,
}

impl Reads {
    /// The widest way that these operands can be read.
    fn new(call: &Call<'_>, p: &MatMulParams) -> Self {
        let apart = |side: usize| p.batch_stride[side].is_multiple_of(4);
        let wide = |side: usize, pitch: u32| apart(side) && is_fours(call.operands[side], pitch);
        let left = wide(0, p.row_stride[0]) && p.k.is_multiple_of(4);
        let ([_, row], [_, column]) = (p.row_stride, p.col_stride);
        match () {
            _ if left && column == 1 && p.n.is_multiple_of(4) && wide(1, row) => Self::Rows,
            _ if left && row == 1 && wide(1, column) => Self::Columns,
            _ => Self::Ones,
        }
    }

    /// The kernel for a rectangle, if there is one.
    fn function(self, tile: &Tile) -> Option<Function> {
        use Function::*;
        Some(match (self, tile.rows, tile.columns) {
            (Self::Rows, 64, 64) => Matmul64x64Rows,
            (Self::Columns, 64, 64) => Matmul64x64Columns,
            (Self::Ones, 64, 64) => Matmul64x64Ones,
            (Self::Rows, 32, 32) => Matmul32x32Rows,
            (Self::Columns, 32, 32) => Matmul32x32Columns,
            (Self::Ones, 32, 32) => Matmul32x32Ones,
            _ => return None,
        })
    }
}

/// Launches one step.
pub fn run(call: &Call<'_>, queue: &mut dyn Queue) -> Result<(), DeviceError> {
    let p: MatMulParams = params(call.layer);
    let reads = Reads::new(call, &p);
    let fits = |tile: &Tile| reads.function(tile).is_some();
    let tile = fastest([p.m, p.n, p.batch], call.multiprocessors, fits);
    let Some(function) = reads.function(tile) else { return Ok(()) };
    // The most products and columns of a launch.
    let most_columns = u64::from(MAX_BLOCKS) * u64::from(tile.columns);
    for batch in (0..u64::from(p.batch)).step_by(MAX_BLOCKS as usize) {
        for column in (0..u64::from(p.n)).step_by(most_columns as usize) {
            let floats = |floats: u64| 4 * floats;
            let [left, right] = [0, 1]
                .map(|side| call.operands[side] + floats(batch * u64::from(p.batch_stride[side])));
            let row = batch * u64::from(p.m);
            let finish = FinishRecord::new(call, 4, false);
            let columns = (u64::from(p.n) - column).min(most_columns) as u32;
            let record = MatmulRecord {
                window: WindowRecord::matrix(left, p.m, p.k, p.row_stride[0]),
                finish: FinishRecord {
                    out: call.out + floats(row * u64::from(call.output.pitch) + column),
                    // A product's first row may lie anywhere.
                    ..finish
                },
                right: right + floats(column * u64::from(p.col_stride[1])),
                left_apart: p.batch_stride[0].into(),
                right_apart: p.batch_stride[1].into(),
                row_stride: p.row_stride[1],
                column_stride: p.col_stride[1],
                columns,
                scale: p.scale,
            };
            let [down, across] = tile.blocks(p.m, columns);
            let products = (u64::from(p.batch) - batch).min(MAX_BLOCKS.into()) as u32;
            let shape = [[down, across, products], [tile.threads, 1, 1]];
            let chains = Chains::of_run(p.k as usize);
            for index in 0..chains.count() {
                let terms = chains.terms(index);
                let (first, k) = (terms.start as u64, terms.len() as u32);
                let part = MatmulRecord {
                    window: WindowRecord::matrix(left + floats(first), p.m, k, p.row_stride[0]),
                    finish: record.finish.of_chain(index, chains.count()),
                    right: record.right + floats(first * u64::from(p.row_stride[1])),
                    ..record
                };
                launch(queue, function, shape, &part)?;
            }
        }
    }
    Ok(())
}

#[cfg(all(test, any(feature = "cuda", feature = "cuda-linked")))]
mod tests;
