//! Convolutions over odd shapes, on every kernel that this machine can run, against the references.
//! The tests of depthwise convolutions use the same cases.

use super::testing::{Case, case, tensor};
use super::*;
use crate::device::PARTS;
use crate::kernels::Kernels;
use crate::kernels::table::Packed;
use crate::kernels::testing::{Threads, available, pack, scratch, sweeps};
use crate::matrix::MatRef;
use crate::ops::testing::Residual;
use crate::ops::{Problem, Slice};
use crate::pack::{Method, OpKind, params_words};
use std::vec;
use std::vec::Vec;

#[test]
fn pointwise() {
    for (rows, k, n) in [(1, 1, 1), (1, 37, 70), (3, 5, 8), (49, 64, 33), (15, 3, 31), (200, 9, 65)]
    {
        case([1, 1, rows, k], n, [1, 1]).check();
    }
    case([1, 14, 15, 20], 40, [1, 1]).gaps(5, 3).check();
    case([2, 9, 7, 20], 40, [1, 1]).stride([2, 2]).gaps(0, 3).check();
}

#[test]
fn three_by_three() {
    case([1, 13, 11, 40], 37, [3, 3]).pad([1, 1]).check();
    case([2, 7, 7, 33], 64, [3, 3]).pad([1, 1]).gaps(1, 2).check();
    case([1, 9, 14, 16], 24, [3, 3]).stride([2, 2]).pad([1, 1]).check();
    case([1, 9, 14, 16], 24, [3, 3]).check();
    case([1, 12, 10, 36], 17, [3, 3]).dilation([2, 3]).pad([2, 3]).check();
}

/// Few channels: rows of taps are one run, pixels at the border are gathered.
#[test]
fn merged_rows_of_taps() {
    case([1, 20, 23, 3], 33, [7, 7]).stride([2, 2]).pad([3, 3]).check();
    case([2, 9, 8, 3], 8, [3, 3]).pad([1, 1]).check();
    case([1, 9, 8, 5], 8, [3, 5]).pad([2, 4]).check();
    case([1, 9, 8, 2], 40, [3, 3]).stride([1, 3]).pad([0, 2]).check();
    case([1, 9, 8, 2], 9, [5, 3]).dilation([3, 1]).pad([3, 1]).check();
    case([1, 4, 30, 1], 9, [1, 11]).pad([0, 5]).check();
    // The window is wider than the image.
    case([1, 2, 3, 4], 9, [5, 7]).pad([4, 5]).check();
    case([1, 40, 90, 3], 8, [3, 3]).stride([2, 2]).pad([1, 1]).check();
}

/// The output's extent does not follow from the input's: everything outside the image is zero.
#[test]
fn output_beyond_the_padding() {
    case([1, 5, 6, 3], 9, [3, 3]).pad([1, 1]).output(9, 11).check();
    case([1, 5, 6, 40], 9, [3, 3]).pad([1, 1]).output(9, 11).check();
    case([1, 5, 6, 40], 9, [1, 1]).output(7, 8).check();
    case([1, 5, 6, 3], 9, [3, 3]).pad([40, 40]).output(12, 12).check();
    case([1, 5, 6, 3], 9, [2, 2]).pad([1, 0]).stride([7, 9]).output(2, 3).check();
}

#[test]
fn grouped() {
    case([1, 6, 7, 12], 6, [3, 3]).groups(3).pad([1, 1]).check();
    case([1, 6, 7, 8], 16, [3, 3]).groups(8).pad([1, 1]).check();
    case([1, 6, 7, 64], 64, [3, 3]).groups(2).pad([1, 1]).gaps(3, 4).check();
    // Groups whose last panel is filled in part.
    case([1, 5, 5, 6], 120, [1, 1]).groups(3).check();
    case([1, 20, 15, 4], 74, [3, 3]).groups(2).pad([1, 1]).check();
}

#[test]
fn residual_and_activation() {
    let leaky = Activation { kind: ActivationKind::LeakyRelu as u32, alpha: 0.1, beta: 0.0 };
    let six = Activation { kind: ActivationKind::Clamp as u32, alpha: 0.0, beta: 0.5 };
    // The lower bound does nothing.
    let upper = Activation { alpha: f32::NAN, ..six };
    for residual in [Residual::None, Residual::InPlace, Residual::Apart] {
        for activation in [Activation::NONE, Activation::RELU, six, upper, leaky] {
            case([1, 6, 7, 9], 37, [1, 1]).residual(residual).activation(activation).check();
            case([1, 6, 7, 9], 64, [3, 3])
                .pad([1, 1])
                .gaps(2, 5)
                .residual(residual)
                .activation(activation)
                .check();
        }
    }
}

/// Panels that hold fewer channels than they have room for: those of the layer, an even number, and
/// others; in slices of panels and chains.
#[test]
fn narrow_panels() {
    let all = [1u32, 2, 3, 5, 7, 9, 15, 17, 31, 33, 63, 65];
    for channels in all.into_iter().step_by(if sweeps() { 1 } else { 2 }) {
        let even = [8, 16, 32].map(|nr| channels.div_ceil(channels.div_ceil(nr)));
        let mut widths = [even[0], even[1], even[2], 1, 3, 7];
        widths.sort_unstable();
        let widths: Vec<u32> = widths.into_iter().filter(|&width| width <= channels).collect();
        for &width in widths.chunk_by(|a, b| a == b).map(|same| &same[0]) {
            for (rows, k) in [(1, 37), (23, 6), (8, 1)] {
                case([1, 1, rows, k], channels, [1, 1]).width(width).check();
            }
            case([1, 4, 5, 3], channels, [3, 3]).pad([1, 1]).width(width).check();
        }
    }
    for (residual, width) in [(Residual::InPlace, 1), (Residual::Apart, 6), (Residual::None, 31)] {
        let with = |case: Case| case.residual(residual).width(width).check();
        with(case([1, 6, 7, 12], 6 * 31, [3, 3]).groups(6).pad([1, 1]));
        with(case([1, 1, 1, 3333], 19, [1, 1]).activation(Activation::RELU));
        with(case([1, 1, 40, 1030], 37, [1, 1]).gaps(6, 3));
        with(case([1, 5, 4, 260], 35, [3, 3]).pad([1, 1]));
    }
    case([1, 1, 1, 25_088], 1, [1, 1]).width(1).check();
}

/// More rows than a block has, and runs that are long.
#[test]
fn blocks() {
    case([1, 40, 41, 64], 9, [3, 3]).pad([1, 1]).check();
    case([1, 1, 300, 1000], 5, [1, 1]).check();
}

/// Several chains: parts of a run, runs, rows of runs, parts of rows; with all panels before the
/// next chain and after it, with what the first one adds and the last one clamps. The error does
/// not grow with k.
#[test]
fn long_reductions() {
    let leaky = Activation { kind: ActivationKind::LeakyRelu as u32, alpha: 0.1, beta: 0.0 };
    let lower = Activation { kind: ActivationKind::Clamp as u32, alpha: -2.0, beta: 1e4 };
    let ends =
        [(Residual::None, Activation::NONE), (Residual::InPlace, lower), (Residual::Apart, leaky)];
    let cases = || {
        [
            case([1, 1, 70, 3333], 41, [1, 1]),
            case([1, 1, 9, 1030], 65, [1, 1]).gaps(6, 3),
            case([1, 5, 4, 260], 9, [3, 3]).pad([1, 1]),
            case([1, 3, 3, 1040], 9, [1, 2]).pad([0, 1]),
            case([1, 9, 9, 31], 7, [7, 7]).pad([3, 3]),
            case([1, 9, 9, 31], 7, [7, 7]).pad([3, 3]).dilation([2, 1]).gaps(1, 0),
            case([1, 2, 600, 3], 5, [1, 500]),
            case([1, 1, 700, 3], 5, [1, 351]).dilation([1, 2]).pad([0, 40]),
            case([1, 4, 3, 700], 20, [3, 3]).pad([1, 1]).groups(2),
            case([1, 1, 4, 2400], 6, [1, 1]).groups(2),
        ]
    };
    // Every shape with every end only in long sweeps.
    for (end, (residual, activation)) in ends.into_iter().enumerate() {
        for (at, case) in cases().into_iter().enumerate() {
            if (at + end).is_multiple_of(3) || sweeps() {
                case.residual(residual).activation(activation).check();
            }
        }
    }
    case([1, 1, 3, 100_000], 9, [1, 1]).check();
    case([1, 1, 1, 25_088], 70, [1, 1]).check();
}

/// Records that must be refused, or accepted and run without a panic.
#[test]
fn hostile_records() {
    let isa = Isa::Portable;
    let good = case([1, 6, 7, 12], 6, [3, 3]).groups(3).pad([1, 1]);
    let base = (good.layer(isa), good.params, good.input, good.output);
    type Record = (Layer, ConvParams, Tensor, Tensor);
    let valid = |(mut layer, params, input, output): Record| {
        layer.params = params_words(&params);
        validate(&layer, &[input, Tensor::default(), Tensor::default()], &output, isa)
    };
    assert_eq!(valid(base), Ok(()));
    let refused: [fn(&mut Record); 23] = [
        |r| r.0.inputs[0] = NONE,
        |r| r.0.inputs[0] = r.0.output,
        |r| r.0.inputs[1] = 1,
        |r| r.0.panels += 1,
        |r| r.0.panels = 0,
        |r| r.0.panel_bytes += 64,
        |r| r.0.panel_bytes = 0,
        |r| r.0.width = 1,
        |r| r.0.activation.kind = 99,
        |r| r.1.kernel[0] = 0,
        |r| r.1.kernel = [u32::MAX; 2],
        |r| r.1.stride[1] = 0,
        |r| r.1.stride[1] = u32::MAX,
        |r| r.1.dilation[0] = 0,
        |r| r.1.dilation[0] = u32::MAX,
        |r| r.1.groups = 0,
        |r| r.1.groups = 5,
        |r| r.1.groups = u32::MAX,
        |r| r.2.dims[1] = 0,
        |r| r.2.dims = [1, u32::MAX, u32::MAX, 12],
        |r| r.3.dims[3] = 0,
        |r| r.3.dims[0] = 2,
        |r| r.3.dims = [1, u32::MAX, u32::MAX, 6],
    ];
    for (index, change) in refused.iter().enumerate() {
        let mut record = base;
        change(&mut record);
        assert!(valid(record).is_err(), "record {index}");
    }
    // Accepted: the window lies far outside the image.
    good_with_pad([u32::MAX, 3]).check();
    good_with_pad([3, u32::MAX]).check();
}

fn good_with_pad(pad: [u32; 2]) -> Case {
    let mut case = case([1, 6, 7, 3], 6, [3, 3]);
    case.params.pad = pad;
    case.output(3, 4)
}

/// NaN, infinity and negative zero go through sum and clamp with the same bits everywhere.
#[test]
fn special_values() {
    let inputs = [f32::NAN, -1.0, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-40, -3e38, 3e38];
    let weights = [0.0f32, 1.0, -1.0, 3.0, 1e-6];
    let biases = [-0.0f32, 0.0, f32::NAN, -0.0, 1e-42];
    let mut results: Vec<Vec<u32>> = Vec::new();
    for activation in [Activation::NONE, Activation::RELU] {
        let mut case = case([1, 1, inputs.len() as u32, 1], 5, [1, 1]).activation(activation);
        case.output.pitch = 5;
        for kernels in available() {
            let layer = case.layer(kernels.isa());
            let packed = pack(&weights, &biases, 1, kernels.nr());
            let mut out = [0.0f32; 40];
            let rows = inputs.len();
            let slice = Slice {
                first: 0,
                count: layer.panels,
                row: 0,
                rows: rows as u32,
                ..Slice::default()
            };
            let tensors = [case.input, Tensor::default(), Tensor::default()];
            let bytes = scratch_bytes(&Problem {
                layer: &layer,
                inputs: &tensors,
                output: &case.output,
                slice,
                threads: 1,
                isa: kernels.isa(),
            });
            run(Call {
                layer: &layer,
                inputs: tensors,
                output: case.output,
                operands: [
                    Operand::Mat(MatRef::new(&inputs, rows, 1, 1).unwrap()),
                    Operand::Absent,
                    Operand::Absent,
                ],
                out: MatMut::new(&mut out, rows, 5, 5).unwrap(),
                weights: Packed::new(&packed),
                prefetch: Default::default(),
                first: 0,
                count: layer.panels as usize,
                method: Method::default(),
                rows: 0..rows,
                scratch: bytemuck::cast_slice_mut(&mut scratch(bytes)),
                device: &Threads(1),
                kernels,
            });
            // Which NaN it is depends on the processor.
            results.push(out.iter().map(|x| if x.is_nan() { 1 } else { x.to_bits() }).collect());
            for (i, x) in out.iter().enumerate() {
                let sum = inputs[i / 5].mul_add(weights[i % 5], biases[i % 5]);
                let [min, max] = clamp(&activation);
                let sum = if min > sum { min } else { sum };
                let want = if max < sum { max } else { sum };
                assert!(x.is_nan() && want.is_nan() || x.to_bits() == want.to_bits(), "{i}: {x}");
            }
        }
    }
    let each = results.len() / 2;
    assert!(results[..each].windows(2).all(|pair| pair[0] == pair[1]));
    assert!(results[each..].windows(2).all(|pair| pair[0] == pair[1]));
}

/// Random records, most of them absurd: none makes any of the functions panic, and those that are
/// accepted and small run.
#[test]
fn random_records() {
    let values =
        [0, 1, 1, 1, 1, 2, 2, 3, 3, 5, 8, 11, 40, 1000, 65_535, 1 << 16, 1 << 31, u32::MAX];
    let mut state = 7u64;
    let mut next = |count: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % count
    };
    let (mut accepted, mut ran) = (0, 0);
    for round in 0..400_000 {
        let sane = round % 2 == 1;
        let mut pick = || values[next(if sane { 12 } else { values.len() })];
        let channels = pick();
        let mut case = case([1, 4, 4, 1], 1, [1, 1]);
        case.input = tensor([1, pick(), pick(), channels], 0);
        case.output = tensor([1, pick(), pick(), pick()], 0);
        case.params = ConvParams {
            kernel: [pick(), pick()],
            stride: [pick(), pick()],
            dilation: [pick(), pick()],
            pad: [pick(), pick()],
            groups: pick(),
            chains: 0,
        };
        if round % 4 == 1 {
            case.kind = OpKind::Depthwise;
            case.output.dims[3] = channels;
            case.output.pitch = channels;
            case.params.groups = channels;
        }
        let isa = Kernels::best().isa();
        // Weights as the record says, where that is possible.
        let k = [case.params.kernel[0], case.params.kernel[1]]
            .into_iter()
            .chain([case.input.dims[3].checked_div(case.params.groups).unwrap_or(1)])
            .try_fold(1u32, |n, x| n.checked_mul(x));
        let groups = if case.kind == OpKind::Depthwise { 1 } else { case.params.groups };
        let Some(in_group) = case.output.dims[3].checked_div(groups) else { continue };
        let panel_bytes =
            k.and_then(|k| k.checked_add(1)).and_then(|n| n.checked_mul(4 * isa.panel() as u32));
        let panels = groups.checked_mul(in_group.div_ceil(isa.panel() as u32));
        let (Some(panel_bytes), Some(panels)) = (panel_bytes, panels) else { continue };
        let layer = Layer {
            kind: case.kind as u32,
            inputs: [0, NONE, NONE],
            output: 2,
            activation: Activation::RELU,
            panels,
            panel_bytes,
            params: params_words(&case.params),
            ..Layer::default()
        };
        let tensors = [case.input, Tensor::default(), Tensor::default()];
        let (validate, scratch_bytes, run) = case.functions();
        if validate(&layer, &tensors, &case.output, isa).is_err() {
            continue;
        }
        accepted += 1;
        let rows = case.output.rows();
        let slice =
            Slice { first: 0, count: panels, row: 0, rows: rows as u32, ..Slice::default() };
        let bytes = scratch_bytes(&Problem {
            layer: &layer,
            inputs: &tensors,
            output: &case.output,
            slice,
            threads: 1,
            isa,
        });
        let floats = case.input.rows().saturating_mul(case.input.dims[3] as u64);
        let results = rows.saturating_mul(case.output.dims[3] as u64);
        let weights = panels as u64 * panel_bytes as u64 / 4;
        if [floats, results, bytes, weights].iter().any(|&n| n > 1 << 14) {
            continue;
        }
        ran += 1;
        let input = vec![1.0; floats as usize];
        let mut out = vec![-1.0; results as usize];
        let cols = case.output.dims[3] as usize;
        run(Call {
            layer: &layer,
            inputs: tensors,
            output: case.output,
            operands: [
                Operand::Mat(case.mat(&input, &case.input)),
                Operand::Absent,
                Operand::Absent,
            ],
            out: MatMut::new(&mut out, rows as usize, cols, cols).unwrap(),
            weights: Packed::new(&vec![0.5; weights as usize]),
            prefetch: Default::default(),
            first: 0,
            count: panels as usize,
            method: Method::default(),
            rows: 0..rows as usize,
            scratch: bytemuck::cast_slice_mut(&mut scratch(bytes)),
            device: &crate::device::Inline,
            kernels: Kernels::best(),
        });
        assert!(out.iter().all(|x| *x >= 0.5), "{case:?}");
    }
    assert!(accepted > 100 && ran > 50, "{accepted} accepted, {ran} run");
}

#[test]
fn parts_are_those_that_a_search_finds() {
    // The largest number of parts that is worth it and keeps the threads busy.
    let search = |units: usize, macs: u64, threads: usize| {
        let most = ((macs / PART_MACS) as usize).clamp(threads, threads * PARTS);
        let longest = |parts: usize| {
            let each = units.div_ceil(parts);
            each * units.div_ceil(each.max(1)).div_ceil(threads)
        };
        let parts = (1..=most).rev().min_by_key(|parts| longest(*parts)).unwrap();
        units.div_ceil(parts).max(1)
    };
    for threads in 2..=16 {
        for worth in [0, threads / 2, threads, threads + 1, 2 * threads + 3, 5 * threads] {
            let macs = PART_MACS * worth as u64;
            let many = [255, 256, 1000, 1021, 4099, 65535];
            for units in (0..200).chain(many) {
                let found = part(units, macs, threads);
                assert_eq!(found, search(units, macs, threads), "{units}, {worth}, {threads}");
            }
        }
    }
}
