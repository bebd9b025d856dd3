//! The kernels' bits are the portable ones'. Next to these tests, those of every operator run their
//! layers on the GPU too (`ops::testing`, `ops::conv::testing`): here is what these have not.

use super::testing::{rounded, stored};
use crate::kernels::Kernels;
use crate::kernels::testing::{any_floats, assert_same, pack};
use crate::ops::Slice;
use crate::ops::testing::{Case, Random, layer};
use crate::pack::{
    Activation, ActivationKind, BinaryOp, BinaryParams, ConvParams, CopyParams, Encoding,
    GatherParams, Isa, Layer, OpKind, PoolParams,
};
use std::prelude::rust_2024::*;
use std::{format, vec};

/// On the GPU as with the portable kernels.
fn check(case: &Case) {
    let want = case.run(1, case.output.rows() as u32);
    let what = format!("{:?} {:?}", case.layer, case.output);
    assert_same(&case.on_gpu().run_everywhere(), &want, &what);
}

fn activations() -> impl Iterator<Item = Activation> {
    (0..ActivationKind::Sin as u32).map(|kind| match kind {
        1 => Activation { kind, alpha: -0.5, beta: 6.0 },
        _ => Activation { kind, alpha: 0.2, beta: 0.5 },
    })
}

/// Numbers of all kinds in an input.
fn anything(case: &mut Case, input: usize, seed: u64) {
    case.data[input] = any_floats(case.data[input].len(), seed);
}

#[test]
fn functions_of_numbers_of_all_kinds() {
    let mut random = Random::new(1);
    for activation in activations() {
        // Fours, and not.
        for dims in [[1, 1, 1, 8192], [1, 1, 1, 1027], [1, 5, 7, 33]] {
            let layer = layer(OpKind::Unary, activation, &());
            for make in [Case::new, Case::contiguous] {
                let mut case = make(layer, &mut random, &[dims], dims);
                anything(&mut case, 0, u64::from(activation.kind));
                check(&case);
                check(&case.in_place(0));
            }
        }
    }
}

/// Every function with one lane, over floats of all sizes.
#[test]
fn functions_of_floats_of_all_sizes() {
    let mut random = Random::new(7);
    let floats: Vec<f32> = (0..=u32::MAX / 40009).map(|i| f32::from_bits(i * 40009)).collect();
    let dims = [1, 1, 1, floats.len() as u32];
    for activation in activations() {
        let layer = layer(OpKind::Unary, activation, &());
        let mut case = Case::contiguous(layer, &mut random, &[dims], dims);
        case.data[0].copy_from_slice(&floats);
        let want = case.run(1, 1);
        assert_same(&case.on_gpu().run_everywhere(), &want, &format!("{activation:?}"));
    }
}

#[test]
fn arithmetic_of_numbers_of_all_kinds() {
    let mut random = Random::new(2);
    for op in 0..8 {
        for [a, b, out] in [
            [[1, 1, 1, 1028], [1, 1, 1, 1028], [1, 1, 1, 1028]],
            [[1, 2, 3, 64], [1, 1, 1, 64], [1, 2, 3, 64]],
            [[1, 2, 3, 64], [1, 2, 3, 1], [1, 2, 3, 64]],
            [[2, 1, 3, 17], [1, 4, 1, 1], [2, 4, 3, 17]],
        ] {
            assert!(BinaryOp::from_code(op).is_some());
            let params = BinaryParams { op, ..Default::default() };
            for activation in activations().filter(|a| a.function().unwrap().fuses()) {
                let layer = layer(OpKind::Binary, activation, &params);
                let mut case = Case::new(layer, &mut random, &[a, b], out);
                anything(&mut case, 0, 1 + u64::from(op));
                anything(&mut case, 1, 11 + u64::from(op));
                check(&case);
            }
        }
    }
}

/// NaN stays, in windows of any kind: also of whole lines that do not follow each other.
#[test]
fn windows_of_numbers_of_all_kinds() {
    let mut random = Random::new(8);
    for average in [0, 1] {
        for (kernel, stride, dilation) in [
            ([3, 3], [1, 1], [1, 1]),
            ([3, 3], [2, 2], [2, 1]),
            ([2, 3], [1, 3], [1, 1]),
            ([4, 3], [1, 1], [3, 1]),
            ([12, 3], [1, 1], [1, 1]),
        ] {
            for (width, channels) in [(3, 8), (3, 33), (11, 20)] {
                let params = PoolParams { average, kernel, stride, dilation, ..Default::default() };
                let extent = |axis: usize, input: u32| {
                    (input - 1 - (kernel[axis] - 1) * dilation[axis]) / stride[axis] + 1
                };
                let output = [2, extent(0, 12), extent(1, width), channels];
                let layer = layer(OpKind::Pool, Activation::NONE, &params);
                for make in [Case::new, Case::contiguous] {
                    let mut case = make(layer, &mut random, &[[2, 12, width, channels]], output);
                    anything(&mut case, 0, u64::from(channels));
                    check(&case);
                }
            }
        }
    }
}

/// Rectangles higher and wider than the grids that tests have.
#[test]
fn more_rows_than_blocks() {
    let mut random = Random::new(3);
    for dims in [[3, 41, 43, 3], [1, 1, 1030, 9], [1, 1, 1, 3000]] {
        for kind in [OpKind::Unary, OpKind::Softmax] {
            check(&Case::new(layer(kind, Activation::RELU, &()), &mut random, &[dims], dims));
        }
    }
}

/// Concatenation: fours of floats where rows, starts and strides are such, single ones where one of
/// them is not.
#[test]
fn copies_of_rows_of_fours() {
    let mut random = Random::new(9);
    for (cols, pitch, start) in [(64, 96, 32), (64, 96, 33), (64, 98, 32), (62, 96, 32), (4, 8, 4)]
    {
        let params = CopyParams {
            dims: [1, 1, 2, 5, 3, cols],
            src: [0, 0, 15 * cols, 3 * cols, cols, 1],
            dst: [0, 0, 15 * pitch, 3 * pitch, pitch, 1],
            dst_start: start,
            ..Default::default()
        };
        let layer = layer(OpKind::Copy, Activation::NONE, &params);
        let output = [2, 5, 3, pitch + start];
        check(&Case::contiguous(layer, &mut random, &[[2, 5, 3, cols]], output));
    }
}

/// Copies of which elements meet: the last one stays. (Not everywhere what the processor's loops
/// make of it, but always the same.)
#[test]
fn copies_onto_the_same_elements() {
    let mut random = Random::new(4);
    let copied = |random: &mut Random, dims: [u32; 6], src: [u32; 6], dst: [u32; 6]| {
        let params = CopyParams { dims, src, dst, ..Default::default() };
        let layer = layer(OpKind::Copy, Activation::NONE, &params);
        let case = Case::contiguous(layer, random, &[[1, 1, 1, 3000]], [1, 1, 1, 3000]);
        (case.on_gpu().run_everywhere(), case)
    };
    // One float for 700.
    let (found, case) =
        copied(&mut random, [1, 1, 1, 1, 3, 700], [0, 0, 0, 0, 1000, 1], [0, 0, 0, 0, 1, 0]);
    assert_eq!(found[..3], [699, 1699, 2699].map(|at| case.data[0][at]));
    assert_eq!(found[3..], case.out[3..]);
    // Rows that overlap by half: the later ones stay.
    let (found, case) =
        copied(&mut random, [1, 1, 1, 1, 3, 700], [0, 0, 0, 0, 700, 1], [0, 0, 0, 0, 350, 1]);
    for (at, found) in found[..1400].iter().enumerate() {
        let row = (at / 350).min(2);
        assert_eq!(*found, case.data[0][row * 700 + at - row * 350]);
    }
}

/// Panels of weights in an encoding, and the same as floats for the portable kernels.
fn encoded(random: &mut Random, channels: usize, k: usize, encoding: Encoding) -> [Vec<f32>; 2] {
    // Negative zeros, which show whether zeros of the padding are multiplied.
    let bias = |random: &mut Random| if random.below(3) == 0 { -0.0 } else { random.float() };
    let bias: Vec<f32> = (0..channels).map(|_| bias(random)).collect();
    // Now and then one below what is normal in 16 bits.
    let weight = |random: &mut Random| match random.below(30) {
        0 => random.float() / (1 << 15) as f32,
        _ => random.float(),
    };
    let weights: Vec<f32> = (0..channels * k).map(|_| weight(random)).collect();
    let weights = rounded(&weights, encoding);
    let [portable, packed] =
        [Isa::Portable, Isa::Cuda].map(|isa| pack(&weights, &bias, 1, isa.panel()));
    let stored = stored(&packed, (1 + k) * Isa::Cuda.panel(), encoding);
    let words = stored.as_chunks::<4>().0;
    [portable, words.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()]
}

/// A layer of panels on the GPU as the same of floats with the portable kernels.
fn check_panels(random: &mut Random, case: &mut Case, k: usize) {
    let channels = case.output.dims[3] as usize;
    for encoding in Encoding::OF_GPUS {
        let [portable, stored] = encoded(random, channels, k, encoding);
        let panels = |isa: Isa, encoding: Encoding| Layer {
            panels: channels.div_ceil(isa.panel()) as u32,
            panel_bytes: encoding.panel_bytes(k as u64, isa.panel(), isa.panel()).unwrap() as u32,
            encoding: encoding as u32,
            ..case.layer
        };
        let [plain, layer] = [panels(Isa::Portable, Encoding::F32), panels(Isa::Cuda, encoding)];
        (case.layer, case.weights) = (plain, portable);
        let rows = case.output.rows() as u32;
        let slice = Slice { first: 0, count: plain.panels, row: 0, rows, ..Slice::default() };
        let want = case.run_sliced(Kernels::PORTABLE, 1, &[slice], 1.0);
        (case.layer, case.weights) = (layer, stored);
        let found = case.on_gpu().run_everywhere();
        assert_same(&found, &want, &format!("{encoding:?} {:?} {:?}", case.layer, case.output));
    }
}

#[test]
fn weights_of_all_encodings() {
    let mut random = Random::new(5);
    for (group, kernel, stride) in [
        (1, [3, 3], [1, 1]),
        (1, [3, 3], [2, 2]),
        (1, [5, 5], [1, 1]),
        (1, [5, 5], [2, 2]),
        (1, [1, 1], [1, 1]),
        (1, [7, 2], [1, 3]),
        (4, [3, 3], [1, 1]),
        (2, [1, 3], [1, 2]),
    ] {
        for channels in [8, 40, 96] {
            let params = ConvParams {
                kernel,
                stride,
                dilation: [1, 1],
                // So far that windows of nothing but padding exist.
                pad: kernel,
                groups: channels / group,
                chains: 0,
            };
            for (residual, gaps) in [(false, false), (true, false), (false, true), (true, true)] {
                let make = if gaps { Case::new } else { Case::contiguous };
                let layer = layer(OpKind::Depthwise, Activation::RELU, &params);
                let extent =
                    |axis: usize| (10 + 2 * params.pad[axis] - kernel[axis]) / stride[axis] + 1;
                let (input, output) = ([1, 10, 10, channels], [1, extent(0), extent(1), channels]);
                let inputs = if residual { vec![input, output] } else { vec![input] };
                let mut case = make(layer, &mut random, &inputs, output);
                check_panels(&mut random, &mut case, (kernel[0] * kernel[1] * group) as usize);
            }
        }
    }
}

#[test]
fn entries_of_tables() {
    let mut random = Random::new(6);
    for (count, entries, cols) in [(1, 1, 1), (5, 7, 8), (64, 50, 70), (9, 300, 128), (40, 3, 33)] {
        for activation in [Activation::NONE, Activation::RELU] {
            let layer = layer(OpKind::Gather, activation, &GatherParams { entries });
            let mut case = Case::new(layer, &mut random, &[[1, 1, count, 1]], [1, 1, count, cols]);
            let tensor = case.inputs[0];
            let outside = [f32::NAN, 1e30, -1e30, f32::INFINITY, f32::NEG_INFINITY, -0.5, 8.6e9];
            for row in 0..count {
                let index = match random.below(3) {
                    0 => outside[random.below(outside.len())],
                    _ => random.below(2 * entries as usize + 3) as f32 - entries as f32 - 1.0,
                };
                case.data[0][(tensor.offset + row * tensor.pitch) as usize] = index;
            }
            check_panels(&mut random, &mut case, entries as usize);
        }
    }
}
