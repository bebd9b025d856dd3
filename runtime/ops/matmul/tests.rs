//! Products of strided views, in slices and on several threads: bit for bit, and against double
//! precision.

use super::super::testing::{Case, Random};
use super::*;
use crate::kernels::table::{Chains, Packed};
use crate::kernels::testing::{Threads, assert_close, available, floats, scratch};
use crate::matrix::{MatMut, MatRef};
use crate::ops::{Problem, Slice};
use crate::pack::{Activation, Method, OpKind, params_words};
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
        inputs: [0, 1, NONE],
        output: 2,
        activation: Activation::NONE,
        params: params_words(p),
        ..Layer::default()
    }
}

fn check(p: MatMulParams) {
    let (inputs, output, layer) =
        ([tensor(&p, 0), tensor(&p, 1), Tensor::default()], output(&p), layer(&p));
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
                let slice = Slice { first: 0, count: 0, row, rows: count, ..Slice::default() };
                let bytes = scratch_bytes(&Problem {
                    layer: &layer,
                    inputs: &inputs,
                    output: &output,
                    slice,
                    threads,
                    isa: kernels.isa(),
                });
                let mut scratch = scratch(bytes);
                let operand = |side: usize| {
                    let data: &[f32] = &data[side];
                    Operand::Mat(MatRef::new(data, 1, data.len(), data.len()).unwrap())
                };
                run(Call {
                    layer: &layer,
                    inputs,
                    output,
                    operands: [operand(0), operand(1), Operand::Absent],
                    out: MatMut::new(&mut out, rows, n, n).unwrap(),
                    weights: Packed::default(),
                    prefetch: Default::default(),
                    first: 0,
                    count: 0,
                    method: Method::default(),
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
        let (layer, inputs, output) =
            (layer(&p), [tensor(&p, 0), tensor(&p, 1), Tensor::default()], output(&p));
        for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512, Isa::Neon] {
            for rows in [1, p.m, p.batch * p.m] {
                let slice = Slice { first: 0, count: 0, row: 0, rows, ..Slice::default() };
                let bytes = |threads| {
                    scratch_bytes(&Problem {
                        layer: &layer,
                        inputs: &inputs,
                        output: &output,
                        slice,
                        threads,
                        isa,
                    })
                };
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
            let value =
                |i: usize| case.input(1, i * pitch as usize + head * width as usize + col) * 0.5;
            (0..tokens as usize).map(|i| case.input(0, row * tokens as usize + i) * value(i)).sum()
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
    let tensors = ([tensor(&good, 0), tensor(&good, 1), Tensor::default()], output(&good));
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
