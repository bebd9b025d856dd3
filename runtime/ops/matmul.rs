//! Product of two activations, for each of a batch: attention.
//!
//! The right operand is packed, panel by panel, into scratch, as weights are offline (with a bias
//! of zero), and scaled on the way; then it is the implicit GEMM of a convolution, the rows of the
//! left operand being read in place. Either operand may be a strided view, so that neither heads
//! nor transposes are copied first: its record is then one run of floats from the first element to
//! the last. Where the left operand's rows are those of the output, at one pitch, its record says
//! so, and they may lie in a ring: so the scores of some heads at a time are made, normalised and
//! multiplied with values while they are in a cache.

use super::conv::{clamp, finish};
use super::work::product;
use super::{Addresses, Call, LayerError, Operand, Operator, Problem, Reads};
use crate::device::{self, Share, Split};
use crate::kernels::table::{Addend, Indirection, Panel, Target};
use crate::pack::{INPUTS, Isa, Layer, MatMulParams, NONE, OpKind, Tensor, params};

/// Rows whose pointers are made at a time, about. For each block of rows panels are packed anew.
const BLOCK_ROWS: usize = 1024;

/// Floats from a tensor's first element to its end; `None` when it overflows.
fn extent(tensor: &Tensor) -> Option<u64> {
    let rows = tensor.dims[..3].iter().try_fold(1u64, |n, &dim| n.checked_mul(dim as u64))?;
    rows.checked_sub(1)?.checked_mul(tensor.pitch as u64)?.checked_add(tensor.dims[3] as u64)
}

/// Whether an operand's record is one run of floats, addressed by strides.
fn is_run(tensor: &Tensor) -> bool {
    tensor.dims[..3] == [1; 3]
}

/// Whether the left operand's rows are those of the output, as its record has them, and its strides
/// say the same.
fn by_rows(p: &MatMulParams, left: &Tensor, output: &Tensor) -> bool {
    let rows = p.m == 1 || p.row_stride[0] == left.pitch;
    let batch = u64::from(p.batch_stride[0]) == u64::from(p.m) * u64::from(left.pitch);
    left.dims[..3] == output.dims[..3] && left.cols() == p.k && rows && (p.batch == 1 || batch)
}

/// Product of two activations.
pub(super) const ROW: Operator = Operator {
    addresses: Addresses::Strides,
    scratch: |problem, _| scratch_bytes(problem),
    reads: [Reads::Rows, Reads::Whole, Reads::Whole],
    macs: |layer, _, _| {
        let matmul: MatMulParams = params(layer);
        product([matmul.batch, matmul.m, matmul.n, matmul.k])
    },
    ..Operator::new(OpKind::MatMul, 2, validate, run)
};

/// Whether a product's record can be run: everything that [`run`] relies on.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    _isa: Isa,
) -> Result<(), LayerError> {
    let p: MatMulParams = params(layer);
    let names = ["extent of the left operand", "extent of the right operand"];
    let shapes = [(p.m, p.k), (p.k, p.n)];
    for dim in [p.batch, p.m, p.k, p.n] {
        if dim == 0 {
            return Err(LayerError::Field("extent of a matrix product", 0, 1));
        }
    }
    if layer.panels != 0 {
        return Err(LayerError::Field("number of weight panels", layer.panels.into(), 0));
    }
    if p.col_stride[0] != 1 {
        let found = p.col_stride[0] as u64;
        return Err(LayerError::Field("column stride of the left operand", found, 1));
    }
    for side in 0..2 {
        let index = layer.inputs[side];
        if index == NONE || index == layer.output {
            return Err(LayerError::Field(names[side], index as u64, NONE as u64));
        }
        let (rows, cols) = shapes[side];
        let last = |count: u32, stride: u32| (count as u64 - 1) * stride as u64;
        let needed = last(p.batch, p.batch_stride[side])
            .checked_add(last(rows, p.row_stride[side]))
            .and_then(|n| n.checked_add(last(cols, p.col_stride[side])))
            .and_then(|n| n.checked_add(1))
            .unwrap_or(u64::MAX);
        let there = extent(&inputs[side]).unwrap_or(0);
        if needed > there {
            return Err(LayerError::Field(names[side], needed, there));
        }
    }
    if !is_run(&inputs[0]) && !by_rows(&p, &inputs[0], output) {
        let found = inputs[0].rows();
        return Err(LayerError::Field(
            "rows of a left operand that are not the output's",
            found,
            1,
        ));
    }
    if !is_run(&inputs[1]) {
        let found = inputs[1].rows();
        return Err(LayerError::Field("rows of the right operand, one run of floats", found, 1));
    }
    let rows = output.dims[..3].iter().try_fold(1u64, |n, &dim| n.checked_mul(dim as u64));
    let wanted = p.batch as u64 * p.m as u64;
    if rows != Some(wanted) || wanted > u32::MAX as u64 {
        let found = rows.unwrap_or(u64::MAX);
        return Err(LayerError::Field("rows of a matrix product", found, wanted));
    }
    if output.dims[3] != p.n {
        let found = output.dims[3] as u64;
        return Err(LayerError::Field("columns of a matrix product", found, p.n as u64));
    }
    match layer.activation.function() {
        None => Err(LayerError::Activation(layer.activation.kind)),
        Some(_) => Ok(()),
    }
}

/// Bytes of intermediates for one step.
pub fn scratch_bytes(problem: &Problem<'_>) -> u64 {
    let division = Division::new(problem);
    division
        .panel_bytes
        .saturating_add(division.pointer_bytes)
        .saturating_mul(division.most_shares as u64)
}

/// How one step is divided.
struct Division {
    /// Rows of a block, at most; a multiple of a tile's.
    block: usize,
    split: Split,
    /// The most shares that the problem's threads get, or fewer threads, which may divide the step
    /// otherwise.
    most_shares: usize,
    /// Bytes of a share's packed panel, a multiple of 64.
    panel_bytes: u64,
    /// Bytes of a share's pointers, a multiple of 64.
    pointer_bytes: u64,
}

impl Division {
    fn new(problem: &Problem<'_>) -> Self {
        let &Problem { layer, slice, isa, .. } = problem;
        let p: MatMulParams = params(layer);
        let (rows, m, threads) = (slice.rows as usize, p.m as usize, problem.threads());
        let (mr, nr) = (isa.rows(), isa.panel());
        let (by_batch, by_cols) = (rows.div_ceil(m), (p.n as usize).div_ceil(nr));
        // A product's panels are packed by every thread that has rows of it.
        let split = match () {
            _ if by_batch >= threads => Split::Rows(m),
            _ if by_cols >= threads => Split::Cols(nr),
            _ => Split::Rows(mr),
        };
        let units = by_batch.max(by_cols).max(rows.div_ceil(mr));
        let block = BLOCK_ROWS.min(m).min(rows).div_ceil(mr) * mr;
        Self {
            block,
            split,
            most_shares: threads.min(units).max(1),
            panel_bytes: ((1 + p.k as u64) * nr as u64 * 4).next_multiple_of(64),
            pointer_bytes: Indirection::rows_bytes(block),
        }
    }
}

/// Terms and columns that are packed at a time where columns are runs: compilers make a transpose
/// in registers of them.
const SQUARE: usize = 4;

/// Packs columns `first..` of a `k × n` matrix, given by strides, times its scale, as a panel of
/// `nr` columns with a bias of zero.
fn pack(matrix: &[f32], p: &MatMulParams, first: usize, nr: usize, panel: &mut [f32]) {
    let (row, col) = (p.row_stride[1] as usize, p.col_stride[1] as usize);
    let (k, cols, scale) = (p.k as usize, nr.min(p.n as usize - first), p.scale);
    panel[..nr].fill(0.0);
    let panel = &mut panel[nr..(1 + k) * nr];
    if col == 1 {
        for (i, line) in panel.chunks_exact_mut(nr).enumerate() {
            let (line, rest) = line.split_at_mut(cols);
            for (to, x) in line.iter_mut().zip(&matrix[i * row + first..][..cols]) {
                *to = x * scale;
            }
            rest.fill(0.0);
        }
        return;
    }
    let whole = if row == 1 { [k, cols].map(|all| all - all % SQUARE) } else { [0; 2] };
    for j in (0..whole[1]).step_by(SQUARE) {
        let runs = [0, 1, 2, 3].map(|lane| &matrix[(first + j + lane) * col..][..whole[0]]);
        let runs = runs.map(|run| run.as_chunks::<SQUARE>().0);
        for (i, lines) in panel.chunks_exact_mut(SQUARE * nr).take(whole[0] / SQUARE).enumerate() {
            let square = runs.map(|run| run[i]);
            for (term, line) in lines.chunks_exact_mut(nr).enumerate() {
                let four = square.map(|run| run[term] * scale);
                line[j..j + SQUARE].copy_from_slice(&four);
            }
        }
    }
    for (i, line) in panel.chunks_exact_mut(nr).enumerate() {
        let done = if i < whole[0] { whole[1] } else { 0 };
        let (line, rest) = line.split_at_mut(cols);
        for (j, x) in line.iter_mut().enumerate().skip(done) {
            *x = matrix[i * row + (first + j) * col] * scale;
        }
        rest.fill(0.0);
    }
}

/// Computes one step.
pub fn run(call: Call<'_>) {
    if call.rows.is_empty() {
        return;
    }
    let division = Division::new(&call.problem());
    let Call { layer, operands, mut out, kernels, device, .. } = call;
    let (Operand::Mat(a), Operand::Mat(b)) = (operands[0], operands[1]) else {
        unreachable!("`validate` refuses a product without two operands of its own");
    };
    let p: MatMulParams = params(layer);
    let b = b.row(0);
    let (mr, nr, m, k) = (kernels.mr(), kernels.nr(), p.m as usize, p.k as usize);
    let clamp = clamp(&layer.activation);
    let run = is_run(&call.inputs[0]);
    // Row `row` of the left operand of product `batch`.
    let left = |batch: usize, row: usize| match run {
        true => &a.row(0)[batch * p.batch_stride[0] as usize + row * p.row_stride[0] as usize..],
        false => a.row(a.slot(batch * m + row)),
    };

    let task = |share: Share<'_>| {
        let Share { rows, cols, mut out, scratch, .. } = share;
        let (panel, pointers) = scratch.split_at_mut(division.panel_bytes as usize);
        let panel: &mut [f32] = bytemuck::cast_slice_mut(panel);
        let first_row = call.rows.start + rows.start;
        let end_row = call.rows.start + rows.end;
        for batch in first_row / m..end_row.div_ceil(m) {
            let from = first_row.max(batch * m);
            let count = end_row.min((batch + 1) * m) - from;
            let right = &b[batch * p.batch_stride[1] as usize..];
            let blocks = count.div_ceil(division.block);
            for block in (0..blocks).map(|index| device::cut(count, blocks, mr, index)) {
                let row = from - batch * m;
                let rows = (row + block.start..row + block.end).map(|row| left(batch, row));
                let lists = Indirection::rows(rows, k, mr, &mut *pointers);
                let at = from - first_row + block.start;
                for first in cols.clone().step_by(nr) {
                    let end = (first + nr).min(cols.end);
                    pack(right, &p, first, nr, panel);
                    let mut tile =
                        out.part_mut(at..at + block.len(), first - cols.start..end - cols.start);
                    let panel = Panel::cached(panel);
                    let target = Target { addend: Addend::None, clamp, out: tile.reborrow() };
                    kernels.igemm(&lists, 0, panel, target);
                    finish(kernels, &layer.activation, tile);
                }
            }
        }
    };
    let width = out.cols();
    let part = out.part_mut(out.slots(call.rows.clone()), 0..width);
    let each = division.panel_bytes + division.pointer_bytes;
    device::divide(device, part, division.split, call.scratch, each as usize, task);
}

#[cfg(test)]
mod tests;
