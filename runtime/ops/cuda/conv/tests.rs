//! Convolutions over odd shapes on the GPU, bit for bit what the processor's kernels compute; in
//! chains, what the same sums in plain Rust are.

use super::super::testing::{Recorder, Run, rounded, stored};
use super::*;
use crate::device::cuda::testing::assert_same;
use crate::kernels::Kernels;
use crate::kernels::testing::{floats, pack};
use crate::ops::Problem;
use crate::ops::conv::testing::{Case, case};
use crate::ops::testing::Residual;
use crate::pack::{Activation, ActivationKind, Encoding, Isa, Method, params_words};
use std::prelude::rust_2024::*;
use std::{format, vec};

/// The k of each chain, as [`ConvParams::chains`] says.
fn ranges(k: usize, chains: usize) -> Vec<core::ops::Range<usize>> {
    let runs = k.div_ceil(8);
    let start = |chain: usize| (8 * (runs * chain / chains)).min(k);
    (0..chains).map(|chain| start(chain)..start(chain + 1)).collect()
}

/// Runs a case in `chains` chains, in all slicings, for GPUs of several sizes, which choose other
/// rectangles.
fn check_as(queue: &mut Recorder, case: &Case, chains: u32, encoding: Encoding) {
    let [input, weights, bias, residual] = case.data();
    let weights = rounded(&weights, encoding);
    let of_all = match chains {
        0 | 1 => case.chains(),
        _ => ranges(case.k(), chains as usize),
    };
    let (exact, truth) = case.reference_in_chains(&weights, &of_all);
    let packed = case.pack(&weights, &bias, Isa::Cuda);
    let mut layer = case.layer(Isa::Cuda);
    let panel = layer.panel_bytes as usize / 4;
    let packed = stored(&packed, panel, encoding);
    layer.panel_bytes = packed.len() as u32 / layer.panels;
    layer.encoding = encoding as u32;
    layer.params = params_words(&ConvParams { chains, ..case.params });
    let in_place = matches!(case.residual, Residual::InPlace);
    let poison = vec![f32::NAN; residual.len()];
    let run = Run {
        layer,
        inputs: [case.input, case.output, Tensor::default()],
        output: case.output,
        data: [&input, &residual, &[]],
        weights: &packed,
        before: if in_place { &residual } else { &poison },
        in_place,
    };
    for slices in run.slicings() {
        for multiprocessors in [1, 6, 132] {
            let found = run.on(queue, multiprocessors, &slices);
            let what = format!("{chains} chains, {encoding:?}, {} steps, {case:?}", slices.len());
            assert_same(&found, &truth, &what);
            let largest = exact.iter().fold(0.0f64, |m, x| m.max(x.abs()));
            // The reference in double precision knows no functions but these.
            let known = matches!(
                case.activation.function(),
                Some(ActivationKind::None | ActivationKind::Clamp | ActivationKind::LeakyRelu)
            );
            for (x, exact) in found.iter().zip(&exact).filter(|_| known) {
                assert!((f64::from(*x) - exact).abs() <= 2e-6 * largest, "{x} not {exact}: {what}");
            }
        }
    }
}

fn check(queue: &mut Recorder, case: Case) {
    check_as(queue, &case, 0, Encoding::F32);
}

fn cases() -> Vec<Case> {
    let activation = |kind: ActivationKind| Activation { kind: kind as u32, alpha: 0.1, beta: 0.6 };
    vec![
        // Pointwise: a few rows, whole rectangles, one row and column more.
        case([1, 1, 1, 37], 70, [1, 1]),
        case([1, 1, 3, 5], 8, [1, 1]),
        case([1, 7, 7, 64], 33, [1, 1]),
        // Panels that hold fewer channels: few rows and many, widths that four do and do not
        // divide.
        case([1, 1, 1, 37], 1, [1, 1]).width(1),
        case([1, 1, 3, 1100], 33, [1, 1]).width(17),
        case([1, 7, 7, 64], 33, [1, 1]).width(17),
        case([1, 7, 5, 12], 55, [3, 3]).pad([1, 1]).width(28),
        case([1, 6, 7, 12], 6 * 31, [3, 3]).groups(6).width(31),
        case([1, 9, 5, 8], 3, [1, 1]).width(2).residual(Residual::Apart),
        case([1, 8, 16, 12], 128, [1, 1]).activation(Activation::RELU),
        case([1, 3, 43, 8], 129, [1, 1]),
        case([1, 13, 17, 20], 68, [1, 1]).gaps(4, 8),
        case([1, 14, 15, 20], 40, [1, 1]).gaps(5, 3),
        case([2, 9, 7, 20], 40, [1, 1]).stride([2, 2]).gaps(0, 3),
        // Windows.
        case([1, 13, 11, 40], 37, [3, 3]).pad([1, 1]),
        case([2, 7, 7, 33], 64, [3, 3]).pad([1, 1]).gaps(1, 2),
        case([1, 9, 14, 16], 24, [3, 3]).stride([2, 2]).pad([1, 1]),
        case([1, 12, 10, 36], 17, [3, 3]).dilation([2, 3]).pad([2, 3]),
        case([1, 20, 23, 3], 33, [7, 7]).stride([2, 2]).pad([3, 3]),
        case([1, 9, 8, 4], 9, [5, 3]).dilation([3, 1]).pad([3, 1]),
        case([1, 4, 30, 1], 9, [1, 11]).pad([0, 5]),
        // The window is wider than the image; the output ends elsewhere than padding says.
        case([1, 2, 3, 4], 9, [5, 7]).pad([4, 5]),
        case([1, 6, 7, 8], 40, [3, 3]).pad([1, 1]).output(9, 5),
        // Groups: whole panels, parts of them, one channel.
        case([1, 6, 5, 24], 96, [3, 3]).pad([1, 1]).groups(3),
        case([1, 6, 7, 20], 84, [3, 3]).pad([1, 1]).groups(2).gaps(0, 1),
        case([1, 5, 6, 36], 120, [1, 1]).groups(3),
        case([1, 5, 4, 9], 45, [3, 3]).groups(9),
        // Residuals, and functions after them.
        case([1, 9, 9, 24], 72, [1, 1]).residual(Residual::Apart).activation(Activation::RELU),
        case([1, 9, 9, 24], 70, [3, 3]).residual(Residual::InPlace).activation(Activation::RELU),
        case([1, 11, 9, 18], 65, [3, 3])
            .residual(Residual::InPlace)
            .gaps(0, 3)
            .activation(activation(ActivationKind::Silu)),
        case([1, 10, 9, 16], 96, [1, 1]).activation(activation(ActivationKind::Gelu)),
        case([1, 10, 9, 16], 33, [1, 1]).activation(activation(ActivationKind::LeakyRelu)),
        case([1, 10, 9, 16], 48, [1, 1]).activation(Activation {
            kind: ActivationKind::Clamp as u32,
            alpha: -0.5,
            beta: 0.7,
        }),
    ]
}

#[test]
fn bits_of_the_processor() {
    let mut queue = Recorder::new();
    for case in cases() {
        check(&mut queue, case);
    }
}

/// Reductions that a processor cuts, on both kernels.
#[test]
fn long_reductions() {
    let mut queue = Recorder::new();
    let silu = Activation { kind: ActivationKind::Silu as u32, alpha: 0.0, beta: 0.0 };
    for case in [
        case([1, 3, 5, 260], 40, [3, 3]).pad([1, 1]),
        case([1, 3, 5, 257], 33, [3, 3]).residual(Residual::InPlace).activation(Activation::RELU),
        case([1, 7, 7, 31], 33, [7, 7]).pad([3, 3]).residual(Residual::Apart).activation(silu),
        case([1, 1, 520, 3], 5, [1, 500]),
        case([1, 1, 20, 1036], 35, [1, 1]).residual(Residual::Apart).gaps(4, 4),
        case([1, 2, 5, 1300], 33, [1, 1]).groups(1).activation(silu),
        case([1, 1, 1, 3333], 70, [1, 1]).residual(Residual::InPlace),
        case([1, 1, 3, 2050], 40, [1, 1]).residual(Residual::Apart).activation(silu),
    ] {
        check(&mut queue, case);
    }
    queue.assert_seen(&["Conv32x32F32", "Conv32x32OnesF32", "Gemv1F32", "Gemv4F32"]);
}

/// 16-bit weights, and sizes for which each kernel is the fastest.
#[test]
fn encodings_and_all_rectangles() {
    let mut queue = Recorder::new();
    for encoding in Encoding::OF_GPUS {
        for case in [
            case([1, 16, 16, 12], 250, [1, 1]),
            case([1, 16, 24, 12], 64, [1, 1]),
            case([1, 10, 16, 8], 100, [3, 3]).pad([1, 1]),
            case([1, 9, 7, 20], 32, [1, 1]),
            case([1, 5, 5, 36], 33, [3, 3]),
            case([1, 10, 16, 3], 100, [3, 3]).pad([1, 1]),
            case([1, 16, 16, 7], 30, [1, 1]),
            case([1, 5, 6, 6], 30, [1, 1]),
            case([1, 1, 1, 300], 70, [1, 1]),
            case([1, 3, 1, 31], 130, [1, 1]).residual(Residual::Apart),
            case([2, 1, 4, 530], 40, [1, 1]).activation(Activation::RELU).gaps(3, 1),
        ] {
            check_as(&mut queue, &case, 1, encoding);
        }
    }
    queue.assert_seen(&["Conv1", "Conv6", "Conv3", "Gemv"]);
}

/// Chains, also more than there are runs of k, and of kernels that choose other ways to compute
/// them.
#[test]
fn chains_are_summed_in_order() {
    let mut queue = Recorder::new();
    let silu = Activation { kind: ActivationKind::Silu as u32, alpha: 0.0, beta: 0.0 };
    for chains in [1, 2, 3, 7, 64] {
        for case in [
            case([1, 7, 7, 36], 70, [3, 3]).pad([1, 1]),
            case([1, 5, 5, 33], 40, [3, 3])
                .residual(Residual::InPlace)
                .activation(Activation::RELU),
            case([1, 6, 6, 40], 48, [3, 3]).groups(2).gaps(0, 2).activation(silu),
            case([1, 4, 4, 9], 33, [1, 1]).residual(Residual::Apart),
            case([1, 1, 1, 515], 70, [1, 1]),
            case([1, 2, 3, 77], 70, [1, 1]).residual(Residual::InPlace).activation(silu),
        ] {
            check_as(&mut queue, &case, chains, Encoding::F32);
            if chains == 3 {
                check_as(&mut queue, &case, chains, Encoding::F16);
            }
        }
    }
    queue.assert_seen(&["ConvSum"]);
}

/// Negative zeros, infinities and NaN: what is computed apart from the reduction changes nothing.
#[test]
fn special_values() {
    let mut queue = Recorder::new();
    for (channels, kernel) in [(4, [1, 1]), (3, [1, 1]), (5, [3, 3]), (12, [3, 3])] {
        let case = case([1, 4, 5, channels], 40, kernel).pad([kernel[0] / 2; 2]);
        let k = case.k();
        let mut input = vec![-0.0; case.input.rows() as usize * channels as usize];
        input[1] = f32::INFINITY;
        input[7] = f32::NAN;
        let weights: Vec<f32> = floats(40 * k, 5).iter().map(|x| x.abs() + 0.1).collect();
        let bias = vec![-0.0; 40];
        let run = |panel| pack(&weights, &bias, 1, panel);
        let layer = case.layer(Isa::Cuda);
        let packed = run(PANEL as usize);
        let before = vec![7.0; case.output.rows() as usize * 40];
        let on_gpu = Run {
            layer,
            inputs: [case.input, Tensor::default(), Tensor::default()],
            output: case.output,
            data: [&input, &[], &[]],
            weights: bytemuck::cast_slice(&packed),
            before: &before,
            in_place: false,
        };
        let truth = on_processor(&case, &input, &run(8));
        assert!(truth.iter().any(|x| x.to_bits() == (-0.0f32).to_bits()));
        for slices in on_gpu.slicings() {
            assert_same(&on_gpu.on(&mut queue, 1, &slices), &truth, &case);
        }
    }
}

/// The results of the portable kernels with panels of eight channels.
fn on_processor(case: &Case, input: &[f32], weights: &[f32]) -> Vec<f32> {
    use crate::device::Inline;
    use crate::kernels::table::Packed;
    use crate::kernels::testing::scratch;
    use crate::matrix::{MatMut, MatRef};
    use crate::ops::{Operand, conv};

    let layer = case.layer(Isa::Portable);
    let inputs = [case.input, Tensor::default(), Tensor::default()];
    let (rows, cols) = (case.output.rows() as usize, case.output.cols() as usize);
    let slice =
        Slice { first: 0, count: layer.panels, row: 0, rows: rows as u32, ..Slice::default() };
    let bytes = conv::scratch_bytes(&Problem {
        layer: &layer,
        inputs: &inputs,
        output: &case.output,
        slice,
        threads: 1,
        isa: Isa::Portable,
    });
    let mut scratch = scratch(bytes);
    let mut out = vec![7.0; rows * cols];
    let (pixels, channels) = (case.input.rows() as usize, case.input.cols() as usize);
    conv::run(crate::ops::Call {
        layer: &layer,
        inputs,
        output: case.output,
        operands: [
            Operand::Mat(MatRef::new(input, pixels, channels, channels).unwrap()),
            Operand::Absent,
            Operand::Absent,
        ],
        out: MatMut::new(&mut out, rows, cols, cols).unwrap(),
        weights: Packed::new(weights),
        prefetch: Default::default(),
        first: 0,
        count: layer.panels as usize,
        method: Method::default(),
        rows: 0..rows,
        scratch: bytemuck::cast_slice_mut(&mut scratch),
        device: &Inline,
        kernels: Kernels::PORTABLE,
    });
    out
}

#[test]
fn chains_only_where_they_pay() {
    // Maps that fill the GPU, and reductions too short to be cut.
    for (rows, columns, k, multiprocessors) in [
        (56 * 56, 64, 576, 8),
        (112 * 112, 64, 147, 132),
        (28 * 28, 128, 1152, 6),
        (49, 512, 64, 132),
    ] {
        assert_eq!(chains(rows, columns, k, multiprocessors), 1, "{rows} x {columns}, {k}");
    }
    // Small maps with long reductions on a large GPU, and fully connected layers anywhere.
    for (rows, columns, k, multiprocessors) in
        [(49, 512, 4608, 132), (196, 256, 2304, 132), (1, 1000, 2048, 8), (1, 4096, 25088, 132)]
    {
        let chains = chains(rows, columns, k, multiprocessors);
        assert!((2..=MAX_CHAINS).contains(&chains), "{rows} x {columns}, {k}: {chains}");
        let ranges = ranges(k as usize, chains as usize);
        assert!(ranges.iter().all(|range| range.len() <= CHAIN), "{k}: {chains}");
    }
    // Whatever is asked.
    for n in [0, 1, u32::MAX] {
        assert!((1..=MAX_CHAINS).contains(&chains(n, n, n, n)));
    }
}
