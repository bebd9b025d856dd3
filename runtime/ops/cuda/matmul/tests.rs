//! Products of activations on the GPU: the chains of fused multiply-adds that the processor
//! computes.

use super::super::testing::{Recorder, Run};
use super::*;
use crate::device::cuda::testing::assert_same;
use crate::kernels::testing::floats;
use crate::ops::testing::layer;
use crate::pack::{Activation, NONE, OpKind, Tensor};
use std::prelude::rust_2024::*;
use std::vec;

fn check(queue: &mut Recorder, p: MatMulParams, gap: u32) {
    let shapes = [(p.m, p.k), (p.k, p.n)];
    let inputs = [0, 1].map(|side: usize| {
        let (rows, cols) = shapes[side];
        let last = (p.batch - 1) * p.batch_stride[side]
            + (rows - 1) * p.row_stride[side]
            + (cols - 1) * p.col_stride[side];
        Tensor { dims: [1, 1, 1, last + 1], pitch: last + 1, ..Tensor::default() }
    });
    let output = Tensor { dims: [1, p.batch, p.m, p.n], pitch: p.n + gap, ..Tensor::default() };
    let data = [0, 1].map(|side| floats(inputs[side].pitch as usize, 1 + side as u64));
    let at = |side: usize, batch: u32, row: u32, col: u32| {
        let index =
            batch * p.batch_stride[side] + row * p.row_stride[side] + col * p.col_stride[side];
        data[side][index as usize]
    };
    let mut truth = vec![];
    for row in 0..p.batch * p.m {
        for col in 0..p.n {
            let batch = row / p.m;
            let product = |f: f32, i: usize| {
                at(0, batch, row % p.m, i as u32).mul_add(at(1, batch, i as u32, col) * p.scale, f)
            };
            let chains = Chains::of_run(p.k as usize);
            let sums = (0..chains.count()).map(|index| chains.terms(index).fold(0.0f32, product));
            truth.push(sums.reduce(|sum, chain| sum + chain).unwrap().max(-1.5));
        }
    }
    let clamp = Activation { kind: 1, alpha: -1.5, beta: f32::INFINITY };
    let mut layer = layer(OpKind::MatMul, clamp, &p);
    layer.inputs = [0, 1, NONE];
    let before = vec![f32::NAN; output.rows() as usize * output.pitch as usize];
    let run = Run {
        layer,
        inputs: [inputs[0], inputs[1], Tensor::default()],
        output,
        data: [&data[0], &data[1], &[]],
        weights: &[],
        before: &before,
        in_place: false,
    };
    for multiprocessors in [1, 132] {
        for slices in run.slicings() {
            assert_same(&run.on(queue, multiprocessors, &slices), &truth, &p);
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
fn shapes_batches_and_strided_views() {
    let mut queue = Recorder::new();
    for (batch, m, k, n) in [
        (1, 1, 1, 1),
        (1, 7, 5, 3),
        (3, 20, 9, 33),
        (12, 13, 8, 52),
        (2, 70, 36, 68),
        (2, 67, 70, 64),
        (4, 60, 12, 64),
    ] {
        check(&mut queue, plain(batch, m, k, n), 0);
    }
    check(&mut queue, MatMulParams { scale: -0.125, ..plain(3, 20, 9, 33) }, 3);
    check(&mut queue, MatMulParams { scale: -0.3, ..plain(2, 9, 76, 12) }, 4);
    for (k, n) in [(1030, 36), (2500, 33)] {
        check(&mut queue, plain(2, 9, k, n), 0);
        check(
            &mut queue,
            MatMulParams { row_stride: [k, 1], col_stride: [1, k], ..plain(2, 9, k, n) },
            0,
        );
    }
    // One matrix for the whole batch.
    check(&mut queue, MatMulParams { batch_stride: [0, 35], ..plain(4, 5, 7, 5) }, 0);
    check(&mut queue, MatMulParams { batch_stride: [35, 0], ..plain(4, 5, 7, 9) }, 0);
    // Heads of an attention, interleaved: queries times transposed keys, weights times values.
    for (heads, tokens, width) in [(3, 11, 8), (4, 64, 20), (2, 65, 10)] {
        let keys = MatMulParams {
            scale: -0.5,
            batch_stride: [width, width],
            row_stride: [3 * heads * width, 1],
            col_stride: [1, 3 * heads * width],
            ..plain(heads, tokens, width, tokens)
        };
        check(&mut queue, keys, 0);
        check(&mut queue, MatMulParams { col_stride: [1, 3 * heads * width + 1], ..keys }, 1);
        let values = MatMulParams {
            batch_stride: [tokens * tokens, width],
            row_stride: [tokens, 3 * heads * width],
            ..plain(heads, tokens, tokens, width)
        };
        check(&mut queue, values, 0);
    }
    // Neither operand's floats are neighbours.
    let odd = MatMulParams { row_stride: [9, 3], col_stride: [1, 40], ..plain(1, 33, 9, 35) };
    check(&mut queue, odd, 0);
    queue.assert_seen(&["Matmul"]);
}
