//! Odd numbers in tensors: NaN, infinities, and more terms of a sum than one chain can have.

use super::testing::{Case, Random, index, layer};
use crate::kernels::table::{Pooling, Positions, Taps};
use crate::kernels::testing::{available, floats};
use crate::matrix::{MatMut, MatRef};
use crate::pack::{
    Activation, ActivationKind, BinaryOp, BinaryParams, LayerNormParams, LrnParams, OpKind,
    PoolParams, ReduceOp, ReduceParams,
};
use std::prelude::rust_2024::*;
use std::vec;

const IMAGE: [u32; 4] = [1, 6, 7, 21];

/// Whether, of an input, this element matters to that one of the output.
type Depends = fn(usize, usize) -> bool;

/// A layer of each operator that has no weights over channels, and which elements of its output
/// depend on which of its input.
fn operators() -> Vec<(Case, Depends)> {
    let mut random = Random::new(1);
    let one = |layer, random: &mut Random| Case::new(layer, random, &[IMAGE], IMAGE);
    let mut all: Vec<(Case, Depends)> = vec![];
    for kind in 0..ActivationKind::ALL.len() as u32 {
        let layer = layer(OpKind::Unary, Activation { kind, alpha: 0.2, beta: 0.5 }, &());
        all.push((one(layer, &mut random), |input, output| input == output));
    }
    let same = |input: usize, output: usize| input == output;
    for op in 0..BinaryOp::ALL.len() as u32 {
        if op != BinaryOp::Mask as u32 {
            let params = BinaryParams { op, ..Default::default() };
            let layer = layer(OpKind::Binary, Activation::RELU, &params);
            all.push((Case::new(layer, &mut random, &[IMAGE; 2], IMAGE), same));
        }
    }
    let row = |input: usize, output: usize| input / 21 == output / 21;
    all.push((one(layer(OpKind::Softmax, Activation::NONE, &()), &mut random), row));
    let params = LayerNormParams { epsilon: 1e-5, about_zero: 0 };
    let mut normal = layer(OpKind::LayerNorm, Activation::NONE, &params);
    (normal.panels, normal.panel_bytes) = (1, 192);
    let mut case = one(normal, &mut random);
    case.weights = vec![1.0; 48];
    all.push((case, row));
    let params = LrnParams { size: 5, alpha: 1e-2, beta: 0.75, bias: 1.0 };
    all.push((one(layer(OpKind::Lrn, Activation::NONE, &params), &mut random), |input, output| {
        input / 21 == output / 21 && input.abs_diff(output) <= 2
    }));
    for average in [0, 1] {
        // Windows that share columns, that do not, that have an even number of taps, and the whole
        // image.
        for (kernel, stride, depends) in [
            ([3, 3], 2, in_window::<3, 2> as Depends),
            ([2, 2], 1, in_window::<2, 1>),
            ([2, 2], 2, in_window::<2, 2>),
            ([6, 7], 1, |input: usize, output: usize| input % 21 == output % 21),
        ] {
            let params = PoolParams {
                average,
                kernel,
                stride: [stride; 2],
                dilation: [1; 2],
                ..Default::default()
            };
            let extent = |axis: usize| (IMAGE[1 + axis] - kernel[axis]) / stride + 1;
            let output = [1, extent(0), extent(1), 21];
            let layer = layer(OpKind::Pool, Activation::RELU, &params);
            all.push((Case::new(layer, &mut random, &[IMAGE], output), depends));
        }
    }
    for op in 0..ReduceOp::ALL.len() as u32 {
        let params = ReduceParams { outer: 42, reduce: 21, inner: 1, op };
        let rows = layer(OpKind::Reduce, Activation::RELU, &params);
        let case = Case::contiguous(rows, &mut random, &[IMAGE], [1, 6, 7, 1]);
        all.push((case, |input, output| input / 21 == output));
        let params = ReduceParams { outer: 1, reduce: 42, inner: 21, op };
        let columns = layer(OpKind::Reduce, Activation::RELU, &params);
        let case = Case::contiguous(columns, &mut random, &[IMAGE], [1, 1, 1, 21]);
        all.push((case, |input, output| input % 21 == output % 21));
    }
    all
}

/// Windows of K by K, S apart.
fn in_window<const K: usize, const S: usize>(input: usize, output: usize) -> bool {
    let extent = |axis: usize| (IMAGE[1 + axis] as usize - K) / S + 1;
    let [_, y, x, c] = index(IMAGE, input);
    let [_, row, col, channel] = index([1, extent(0) as u32, extent(1) as u32, 21], output);
    let within = |at: usize, from: usize| (from * S..from * S + K).contains(&at);
    within(y, row) && within(x, col) && c == channel
}

fn put(case: &Case, input: usize, at: usize, value: f32) -> Case {
    let mut case = case.clone();
    let tensor = case.inputs[input];
    case.data[input][tensor.offset as usize + at / 21 * tensor.pitch as usize + at % 21] = value;
    case
}

/// With every kernel: what depends on it is NaN, whatever else there is, and all else has the bits
/// that it had.
#[test]
fn nan_stays_and_goes_no_further() {
    let mut random = Random::new(2);
    for (case, depends) in operators() {
        let plain = case.run_everywhere();
        let what = (case.layer.kind, case.layer.activation.kind, case.layer.params);
        // A slope matters below zero only.
        let slopes = (OpKind::Binary as u32, BinaryOp::PRelu as u32);
        let one = (case.layer.kind, case.layer.params[0]) == slopes;
        let inputs = if one || case.inputs[1].dims[3] == 0 { 1 } else { 2 };
        for round in 0..6 {
            // The first and the last element, too.
            let at = [0, 881, random.below(882)][round.min(2)];
            let odd = [f32::NAN, -f32::NAN][round % 2];
            let case = put(&case, round % inputs, at, odd);
            // Infinities next to it do not hide it.
            for case in [&case, &put(&case, 0, (at + 21) % 882, f32::INFINITY)] {
                let found = case.run_everywhere();
                for (output, (x, before)) in found.iter().zip(&plain).enumerate() {
                    if depends(at, output) {
                        assert!(x.is_nan(), "{what:?}: {at} to {output}: {x}");
                    } else if !depends((at + 21) % 882, output) {
                        assert_eq!(x.to_bits(), before.to_bits(), "{what:?}: {at} to {output}");
                    }
                }
            }
        }
    }
}

#[test]
fn infinities_are_numbers_like_others() {
    let window = |average: u32| {
        let params = PoolParams {
            average,
            kernel: [3, 3],
            stride: [1; 2],
            dilation: [1; 2],
            ..Default::default()
        };
        let layer = layer(OpKind::Pool, Activation::NONE, &params);
        Case::new(layer, &mut Random::new(3), &[IMAGE], [1, 4, 5, 21])
    };
    let at = (2 * 7 + 3) * 21 + 5;
    for odd in [f32::INFINITY, f32::NEG_INFINITY] {
        for average in [0, 1] {
            let plain = window(average).run_everywhere();
            let found = put(&window(average), 0, at, odd).run_everywhere();
            for (output, (x, before)) in found.iter().zip(&plain).enumerate() {
                let inside = in_window::<3, 1>(at, output);
                let want = if inside && (average == 1 || odd > 0.0) { odd } else { *before };
                assert!(*x == want || inside && average == 0 && odd < 0.0, "{output}: {x}");
            }
        }
        let softmax = layer(OpKind::Softmax, Activation::NONE, &());
        let case = Case::new(softmax, &mut Random::new(4), &[IMAGE], IMAGE);
        let found = put(&case, 0, 30, odd).run_everywhere();
        // Plus infinity makes NaN, as elsewhere: the difference of two infinities.
        assert_eq!(found[21..42].iter().all(|x| x.is_nan()), odd > 0.0);
        assert!(odd > 0.0 || found[30] == 0.0);
    }
    let nothing = Case::new(
        layer(OpKind::Softmax, Activation::NONE, &()),
        &mut Random::new(5),
        &[[1, 1, 1, 3]],
        [1, 1, 1, 3],
    );
    let nothing = (0..3).fold(nothing, |case, at| {
        let mut case = case;
        case.data[0][case.inputs[0].offset as usize + at] = f32::NEG_INFINITY;
        case
    });
    assert!(nothing.run_everywhere().iter().all(|x| x.is_nan()));
}

/// A bound that is NaN is none; where the lower one is above the upper, everything is the upper;
/// NaN stays.
#[test]
fn clamps_with_odd_bounds() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let x = [nan, -inf, inf, -5.0, -1.0, 0.0, 1.0, 5.0, 9.0, -nan, f32::MAX, f32::MIN, 2.0];
    for (min, max, want) in [
        (nan, 1.0, [nan, -inf, 1.0, -5.0, -1.0, 0.0, 1.0, 1.0, 1.0, nan, 1.0, f32::MIN, 1.0]),
        (-1.0, nan, [nan, -1.0, inf, -1.0, -1.0, 0.0, 1.0, 5.0, 9.0, nan, f32::MAX, -1.0, 2.0]),
        (3.0, -3.0, [nan, -3.0, -3.0, -3.0, -3.0, -3.0, -3.0, -3.0, -3.0, nan, -3.0, -3.0, -3.0]),
        (
            f32::MIN,
            f32::MAX,
            [nan, f32::MIN, f32::MAX, -5.0, -1.0, 0.0, 1.0, 5.0, 9.0, nan, f32::MAX, f32::MIN, 2.0],
        ),
        (nan, nan, x),
        (inf, inf, x.map(|x| if x.is_nan() { x } else { inf })),
    ] {
        let clamp = Activation { kind: 1, alpha: min, beta: max };
        let dims = [1, 1, 1, 13];
        let mut layers =
            vec![Case::new(layer(OpKind::Unary, clamp, &()), &mut Random::new(8), &[dims], dims)];
        // The clamps of arithmetic, and of pooling.
        let params = BinaryParams { op: BinaryOp::Max as u32, ..Default::default() };
        layers.push(Case::new(
            layer(OpKind::Binary, clamp, &params),
            &mut Random::new(9),
            &[dims; 2],
            dims,
        ));
        let params =
            PoolParams { kernel: [1; 2], stride: [1; 2], dilation: [1; 2], ..Default::default() };
        layers.push(Case::new(
            layer(OpKind::Pool, clamp, &params),
            &mut Random::new(10),
            &[dims],
            dims,
        ));
        for mut case in layers {
            for (tensor, data) in case.inputs.iter().zip(&mut case.data) {
                if tensor.dims[3] > 0 {
                    data[tensor.offset as usize..][..13].copy_from_slice(&x);
                }
            }
            for (found, want) in case.run_everywhere().iter().zip(want) {
                let same = *found == want || found.is_nan() && want.is_nan();
                assert!(same, "{found}, not {want}, in {min} to {max}");
            }
        }
    }
}

/// Sums of any number of terms, over columns of pixels and over rows, with every kernel.
#[test]
fn means_of_many_keep_their_bound() {
    let ones = vec![1.0f32; 5000 * 5000];
    for kernels in available() {
        assert_eq!(kernels.sum(&ones) / 25e6, 1.0, "{}", kernels.name());
        let pixels = MatRef::new(&ones, 5000 * 5000, 1, 1).unwrap();
        let whole = Positions { first: 0, count: 5000, step: 1 };
        let taps = Taps { width: 5000, lines: whole, cols: whole, pixel_step: 0 };
        let mut out = [0.0];
        let mat = MatMut::new(&mut out, 1, 1, 1).unwrap();
        kernels.pool(Pooling::Average(25e6), pixels, taps, mat);
        assert_eq!(out, [1.0], "{}", kernels.name());
    }
    // Rectified noise: all errors of a chain would add up.
    for (height, width, channels) in [(1080, 1920, 1), (96, 96, 3), (60, 70, 37), (17, 1, 300)] {
        let noise = floats(height * width * channels, 7);
        let noise: Vec<f32> = noise.into_iter().map(|x| x.max(0.0)).collect();
        let params = PoolParams {
            average: 1,
            kernel: [height as u32, width as u32],
            stride: [1; 2],
            dilation: [1; 2],
            ..Default::default()
        };
        let image = [1, height, width, channels].map(|extent| extent as u32);
        let pool = layer(OpKind::Pool, Activation::NONE, &params);
        let mut case =
            Case::contiguous(pool, &mut Random::new(6), &[image], [1, 1, 1, channels as u32]);
        case.data[0].copy_from_slice(&noise);
        let truth = |c: usize, step: usize| {
            let terms = noise[c..].iter().step_by(step);
            terms.map(|x| f64::from(*x)).sum::<f64>() * step as f64 / noise.len() as f64
        };
        // The bound is (256 + 4) 2^-24 of the mean magnitude, a quarter: 3.9e-6.
        case.assert_close(&case.run_everywhere(), 1.6e-6, |c| truth(c, channels));
        let params = ReduceParams { outer: 1, reduce: noise.len() as u32, inner: 1, op: 0 };
        let mean = layer(OpKind::Reduce, Activation::NONE, &params);
        let mut case = Case::contiguous(mean, &mut Random::new(6), &[image], [1, 1, 1, 1]);
        case.data[0].copy_from_slice(&noise);
        case.assert_close(&case.run_everywhere(), 1.6e-6, |_| truth(0, 1));
    }
}
