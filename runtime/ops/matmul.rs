//! Product of two activations, for each of a batch: attention.
//!
//! The right operand is packed, panel by panel, into scratch, as weights are offline (with a bias of
//! zero), and scaled on the way; then it is the implicit GEMM of a convolution, the rows of the left operand being read in
//! place. Either operand may be a strided view, so that neither heads nor transposes are copied first: its record is then
//! one run of floats from the first element to the last. Where the left operand's rows are those of the output, at one
//! pitch, its record says so, and they may lie in a ring: so the scores of some heads at a time are made,
//! normalised and multiplied with values while they are in a cache.

use super::conv::{clamp, finish};
use super::{Call, LayerError, Operand, Slice};
use crate::device::{self, Share, Split};
use crate::kernels::Isa;
use crate::kernels::table::{Addend, Indirection, Panel};
use crate::pack::{Layer, MatMulParams, NONE, Tensor, params};

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

/// Whether the left operand's rows are those of the output, as its record has them, and its strides say the same.
fn by_rows(p: &MatMulParams, left: &Tensor, output: &Tensor) -> bool {
    let rows = p.m == 1 || p.row_stride[0] == left.pitch;
    let batch = u64::from(p.batch_stride[0]) == u64::from(p.m) * u64::from(left.pitch);
    left.dims[..3] == output.dims[..3] && left.cols() == p.k && rows && (p.batch == 1 || batch)
}

/// Whether a product's record can be run: everything that [`run`] relies on.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; 2],
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
pub fn scratch_bytes(
    layer: &Layer,
    _inputs: &[Tensor; 2],
    _output: &Tensor,
    slice: &Slice,
    threads: u32,
    isa: Isa,
) -> u64 {
    let work = Work::new(layer, slice, threads as usize, isa);
    work.panel_bytes.saturating_add(work.pointer_bytes).saturating_mul(work.most_shares as u64)
}

/// How one step is divided.
struct Work {
    /// Rows of a block, at most; a multiple of a tile's.
    block: usize,
    split: Split,
    /// Shares that so many threads get at most, or fewer threads, which may divide the step otherwise.
    most_shares: usize,
    /// Bytes of a share's packed panel, a multiple of 64.
    panel_bytes: u64,
    /// Bytes of a share's pointers, a multiple of 64.
    pointer_bytes: u64,
}

impl Work {
    fn new(layer: &Layer, slice: &Slice, threads: usize, isa: Isa) -> Self {
        let p: MatMulParams = params(layer);
        let (rows, m, threads) = (slice.rows as usize, p.m as usize, threads.max(1));
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

/// Terms and columns that are packed at a time where columns are runs: compilers make a transpose in registers of them.
const SQUARE: usize = 4;

/// Packs columns `first..` of a `k × n` matrix, given by strides, times its scale, as a panel of `nr`
/// columns with a bias of zero.
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
    let Call { layer, operands, mut out, kernels, device, .. } = call;
    let (Operand::Mat(a), Operand::Mat(b)) = (operands[0], operands[1]) else {
        unreachable!("`validate` refuses a product without two operands of its own");
    };
    if call.rows.is_empty() {
        return;
    }
    let p: MatMulParams = params(layer);
    let b = b.row(0);
    let slice = Slice {
        first: 0,
        count: 0,
        row: call.rows.start as u32,
        rows: call.rows.len() as u32,
        algorithm: 0,
    };
    let work = Work::new(layer, &slice, device.threads(), kernels.isa());
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
        let (panel, pointers) = scratch.split_at_mut(work.panel_bytes as usize);
        let panel: &mut [f32] = bytemuck::cast_slice_mut(panel);
        let first_row = call.rows.start + rows.start;
        let end_row = call.rows.start + rows.end;
        for batch in first_row / m..end_row.div_ceil(m) {
            let from = first_row.max(batch * m);
            let count = end_row.min((batch + 1) * m) - from;
            let right = &b[batch * p.batch_stride[1] as usize..];
            let blocks = count.div_ceil(work.block);
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
                    kernels.igemm(&lists, 0, panel, Addend::None, clamp, tile.reborrow());
                    finish(kernels, &layer.activation, tile);
                }
            }
        }
    };
    let width = out.cols();
    let part = out.part_mut(out.slots(call.rows.clone()), 0..width);
    let each = work.panel_bytes + work.pointer_bytes;
    device::divide(device, part, work.split, call.scratch, each as usize, task);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random};
    use super::*;
    use crate::arena::{MatMut, MatRef};
    use crate::kernels::table::Chains;
    use crate::kernels::testing::{Threads, assert_close, available, floats, scratch};
    use crate::pack::{Activation, OpKind, params_words};
    use std::vec::Vec;
    use std::{format, vec};

    fn tensor(p: &MatMulParams, side: usize) -> Tensor {
        let (rows, cols) = [(p.m, p.k), (p.k, p.n)][side];
        let last = (p.batch - 1) * p.batch_stride[side]
            + (rows - 1) * p.row_stride[side]
            + (cols - 1) * p.col_stride[side];
        Tensor { dims: [1, 1, 1, last + 1], pitch: last + 1, ..Tensor::default() }
    }

    fn output(p: &MatMulParams) -> Tensor {
        Tensor { dims: [1, p.batch, p.m, p.n], pitch: p.n, ..Tensor::default() }
    }

    fn layer(p: &MatMulParams) -> Layer {
        Layer {
            kind: OpKind::MatMul as u32,
            inputs: [0, 1],
            output: 2,
            activation: Activation::NONE,
            params: params_words(p),
            ..Layer::default()
        }
    }

    fn check(p: MatMulParams) {
        let (inputs, output, layer) = ([tensor(&p, 0), tensor(&p, 1)], output(&p), layer(&p));
        let data = [floats(inputs[0].dims[3] as usize, 1), floats(inputs[1].dims[3] as usize, 2)];
        let (m, k, n) = (p.m as usize, p.k as usize, p.n as usize);
        let rows = p.batch as usize * m;
        let (mut exact, mut chain) = (Vec::new(), Vec::new());
        let chains = Chains::of_run(k);
        let at = |side: usize, batch: usize, row: usize, col: usize| {
            data[side][batch * p.batch_stride[side] as usize
                + row * p.row_stride[side] as usize
                + col * p.col_stride[side] as usize]
        };
        for row in 0..rows {
            for col in 0..n {
                let mut e = 0.0f64;
                let sums = (0..chains.count()).map(|index| {
                    chains.terms(index).fold(0.0f32, |f, i| {
                        let (x, y) = (at(0, row / m, row % m, i), at(1, row / m, i, col));
                        e += x as f64 * y as f64 * p.scale as f64;
                        x.mul_add(y * p.scale, f)
                    })
                });
                chain.push(sums.reduce(|sum, chain| sum + chain).unwrap());
                exact.push(e);
            }
        }
        for kernels in available() {
            assert_eq!(validate(&layer, &inputs, &output, kernels.isa()), Ok(()));
            for (threads, cut) in [(1, 0), (2, 0), (5, 0), (1, rows / 3), (3, rows / 2)] {
                let mut out = vec![-7.0f32; rows * n];
                for range in [0..cut, cut..rows] {
                    let (row, count) = (range.start as u32, range.len() as u32);
                    let slice = Slice { first: 0, count: 0, row, rows: count, algorithm: 0 };
                    let bytes =
                        scratch_bytes(&layer, &inputs, &output, &slice, threads, kernels.isa());
                    let mut scratch = scratch(bytes);
                    let operand = |side: usize| {
                        let data: &[f32] = &data[side];
                        Operand::Mat(MatRef::new(data, 1, data.len(), data.len()).unwrap())
                    };
                    run(Call {
                        layer: &layer,
                        inputs,
                        output,
                        operands: [operand(0), operand(1)],
                        out: MatMut::new(&mut out, rows, n, n).unwrap(),
                        weights: &[],
                        algorithm: 0,
                        first: 0,
                        count: 0,
                        rows: range,
                        scratch: bytemuck::cast_slice_mut(&mut scratch),
                        device: &Threads(threads as usize),
                        kernels,
                    });
                }
                let what = format!("{}, {threads} threads, {cut}, {p:?}", kernels.name());
                assert_close(&out, &chain, &exact, &what);
            }
        }
    }

    fn plain(batch: u32, m: u32, k: u32, n: u32) -> MatMulParams {
        MatMulParams {
            scale: 1.0,
            batch,
            m,
            k,
            n,
            batch_stride: [m * k, k * n],
            row_stride: [k, n],
            col_stride: [1, 1],
        }
    }

    #[test]
    fn shapes_and_batches() {
        for (batch, m, k, n) in
            [(1, 1, 1, 1), (1, 7, 5, 3), (3, 20, 9, 33), (12, 13, 8, 50), (2, 31, 70, 64)]
        {
            check(plain(batch, m, k, n));
        }
        check(plain(1, 1100, 3, 5));
        check(plain(2, 9, 3333, 40));
        check(MatMulParams { scale: -0.125, ..plain(3, 20, 9, 33) });
        check(MatMulParams { scale: 0.3, ..plain(2, 9, 70, 12) });
    }

    #[test]
    fn fewer_threads_need_no_more_scratch() {
        for p in [plain(2, 6, 12, 6), plain(3, 100, 9, 33), plain(5, 1, 8, 300)] {
            let (layer, inputs, output) = (layer(&p), [tensor(&p, 0), tensor(&p, 1)], output(&p));
            for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512, Isa::Neon] {
                for rows in [1, p.m, p.batch * p.m] {
                    let slice = Slice { first: 0, count: 0, row: 0, rows, algorithm: 0 };
                    let bytes =
                        |threads| scratch_bytes(&layer, &inputs, &output, &slice, threads, isa);
                    assert!((1..20).all(|threads| bytes(threads) <= bytes(threads + 1)), "{p:?}");
                }
            }
        }
    }

    #[test]
    fn strided_views() {
        // One matrix for the whole batch.
        check(MatMulParams { batch_stride: [0, 35], ..plain(4, 5, 7, 5) });
        check(MatMulParams { batch_stride: [35, 0], ..plain(4, 5, 7, 9) });
        // Heads of an attention, interleaved: queries times transposed keys, weights times values.
        let (heads, tokens, width) = (3, 11, 8);
        check(MatMulParams {
            batch_stride: [width, width],
            row_stride: [3 * heads * width, 1],
            col_stride: [1, 3 * heads * width],
            ..plain(heads, tokens, width, tokens)
        });
        check(MatMulParams {
            batch_stride: [tokens * tokens, width],
            row_stride: [tokens, 3 * heads * width],
            ..plain(heads, tokens, tokens, width)
        });
    }

    /// Weights of an attention times its values: rows with gaps, whole and in rings of some heads.
    #[test]
    fn rows_of_the_output_and_rings() {
        let mut random = Random::new(5);
        for (heads, tokens, width) in [(1, 7, 5), (3, 11, 8), (5, 21, 40), (12, 5, 16)] {
            let pitch = heads * width + 3;
            let p = MatMulParams {
                scale: 0.5,
                batch: heads,
                m: tokens,
                k: tokens,
                n: width,
                batch_stride: [0, width],
                row_stride: [0, pitch],
                col_stride: [1, 1],
            };
            let (rows, values) = ([1, heads, tokens, tokens], [1, 1, 1, tokens * pitch]);
            let output = [1, heads, tokens, width];
            let mut case = Case::new(layer(&p), &mut random, &[rows, values], output);
            let pitch_of_rows = case.inputs[0].pitch;
            let p = MatMulParams {
                batch_stride: [tokens * pitch_of_rows, width],
                row_stride: [pitch_of_rows, pitch],
                ..p
            };
            case.layer.params = params_words(&p);
            let found = case.run_everywhere();
            case.assert_close(&found, 1e-5, |at| {
                let (row, col) = (at / width as usize, at % width as usize);
                let head = row / tokens as usize;
                let value = |i: usize| {
                    case.input(1, i * pitch as usize + head * width as usize + col) * 0.5
                };
                (0..tokens as usize)
                    .map(|i| case.input(0, row * tokens as usize + i) * value(i))
                    .sum()
            });
            // Strides that say otherwise than the record.
            let refused = |change: fn(&mut MatMulParams)| {
                let (mut case, mut p) = (case.clone(), p);
                change(&mut p);
                case.layer.params = params_words(&p);
                case.validate().is_err()
            };
            assert!(!refused(|_| ()));
            assert!(refused(|p| p.row_stride[0] -= 1));
            assert!(heads == 1 || refused(|p| p.batch_stride[0] -= 1));
            // Values are one run.
            let mut case = case.clone();
            case.inputs[1].dims = [1, 1, tokens, pitch];
            case.inputs[1].pitch = pitch;
            assert!(case.validate().is_err());
        }
    }

    #[test]
    fn hostile_records() {
        let good = plain(3, 5, 7, 9);
        let tensors = ([tensor(&good, 0), tensor(&good, 1)], output(&good));
        let accepted = |change: fn(&mut Layer, &mut MatMulParams)| {
            let (mut layer, mut p) = (layer(&good), good);
            change(&mut layer, &mut p);
            layer.params = params_words(&p);
            validate(&layer, &tensors.0, &tensors.1, Isa::Portable).is_ok()
        };
        assert!(accepted(|_, _| ()));
        assert!(!accepted(|l, _| l.inputs[1] = NONE));
        assert!(!accepted(|l, _| l.inputs[0] = l.output));
        assert!(!accepted(|l, _| l.activation.kind = 77));
        assert!(!accepted(|_, p| p.batch = 0));
        assert!(!accepted(|_, p| p.k = 0));
        assert!(!accepted(|_, p| p.k += 1));
        assert!(!accepted(|_, p| p.n += 1));
        assert!(!accepted(|_, p| p.m = u32::MAX));
        assert!(!accepted(|_, p| p.col_stride[0] = 2));
        assert!(!accepted(|_, p| p.col_stride[1] = u32::MAX));
        assert!(!accepted(|_, p| p.batch_stride = [u32::MAX; 2]));
        assert!(!accepted(|_, p| p.row_stride[1] = u32::MAX));
    }
}
