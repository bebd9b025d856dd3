//! The operators beside convolution: bytes a second, beside a copy of as many bytes in the same run.

use super::{Line, fill, lines};
use bytemuck::Pod;
use eyelet::device::Device;
use eyelet::kernels::Kernels;
use eyelet::kernels::table::Packed;
use eyelet::matrix::{MatMut, MatRef};
use eyelet::ops::{self, Call, Operand};
use eyelet::pack::{
    Activation, ActivationKind as A, BinaryOp, BinaryParams, CopyParams, INPUTS, Layer, LrnParams,
    Method, NONE, OpKind, PoolParams, ReduceParams, Tensor, params_words,
};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// A layer with its tensors' extents.
struct Case {
    name: String,
    layer: Layer,
    inputs: Vec<[u32; 4]>,
    output: [u32; 4],
}

fn case<P: Pod>(
    name: &str,
    kind: OpKind,
    params: &P,
    inputs: &[[u32; 4]],
    output: [u32; 4],
) -> Case {
    let index = |i: usize| if i < inputs.len() { i as u32 } else { NONE };
    let layer = Layer {
        kind: kind as u32,
        inputs: std::array::from_fn(index),
        output: INPUTS as u32,
        params: params_words(params),
        ..Layer::default()
    };
    Case { name: name.to_owned(), layer, inputs: inputs.to_vec(), output }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let map = [1, 28, 28, 128];
    for (kind, alpha, beta) in [
        (A::Clamp, 0.0, f32::INFINITY),
        (A::LeakyRelu, 0.1, 0.0),
        (A::HardSigmoid, 0.2, 0.5),
        (A::HardSwish, 0.0, 0.0),
        (A::Exp, 0.0, 0.0),
        (A::Sigmoid, 0.0, 0.0),
        (A::Silu, 0.0, 0.0),
        (A::Tanh, 0.0, 0.0),
        (A::Erf, 0.0, 0.0),
        (A::Sqrt, 0.0, 0.0),
        (A::Gelu, 0.0, 0.0),
        (A::GeluTanh, 0.0, 0.0),
    ] {
        let mut item = case(&format!("{kind:?}"), OpKind::Unary, &0u32, &[map], map);
        item.layer.activation = Activation { kind: kind as u32, alpha, beta };
        cases.push(item);
    }
    let binary = |name, op: BinaryOp, b, activation| {
        let params = BinaryParams { op: op as u32, ..BinaryParams::default() };
        let mut item = case(name, OpKind::Binary, &params, &[map, b], map);
        item.layer.activation = activation;
        item
    };
    cases.push(binary("add, ReLU", BinaryOp::Add, map, Activation::RELU));
    cases.push(binary("mul by a row", BinaryOp::Mul, [1, 1, 1, 128], Activation::NONE));
    cases.push(binary("div by a column", BinaryOp::Div, [1, 28, 28, 1], Activation::NONE));
    for (name, average, kernel, stride, pad, extent, channels) in [
        ("max 3x3/2, 112² x 64", 0, 3, 2, 1, 112, 64),
        ("max 3x3/2, 55² x 128", 0, 3, 2, 0, 55, 128),
        ("max 2x2/2, 28² x 512", 0, 2, 2, 0, 28, 512),
        ("max 3x3/1, 28² x 192", 0, 3, 1, 1, 28, 192),
        ("average 3x3/1, 17² x 768", 1, 3, 1, 1, 17, 768),
        ("average 7x7, 7² x 2048", 1, 7, 1, 0, 7, 2048),
    ] {
        let params = PoolParams {
            average,
            kernel: [kernel; 2],
            stride: [stride; 2],
            dilation: [1; 2],
            pad: [pad; 2],
            pad_end: [pad; 2],
            ..PoolParams::default()
        };
        let out = (extent + 2 * pad - kernel) / stride + 1;
        let input = [1, extent, extent, channels];
        cases.push(case(name, OpKind::Pool, &params, &[input], [1, out, out, channels]));
    }
    let params = ReduceParams { outer: 1, reduce: 49, inner: 1280, op: 0 };
    let (from, to) = ([1, 7, 7, 1280], [1, 1, 1, 1280]);
    cases.push(case("mean of 7² x 1280", OpKind::Reduce, &params, &[from], to));
    let params = ReduceParams { outer: 197, reduce: 768, inner: 1, op: 0 };
    let (from, to) = ([1, 1, 197, 768], [1, 1, 1, 197]);
    cases.push(case("mean of 197 rows of 768", OpKind::Reduce, &params, &[from], to));
    for dims in [[1, 12, 197, 197], [1, 1, 1, 1000]] {
        let name = format!("softmax, {} rows of {}", dims[1] * dims[2], dims[3]);
        cases.push(case(&name, OpKind::Softmax, &0u32, &[dims], dims));
    }
    let params = LrnParams { size: 5, alpha: 1e-4, beta: 0.75, bias: 1.0 };
    let dims = [1, 28, 28, 192];
    cases.push(case("LRN of 5, 28² x 192", OpKind::Lrn, &params, &[dims], dims));
    let params = CopyParams {
        dims: [1, 1, 1, 1, 28 * 28, 128],
        src: [0, 0, 0, 0, 128, 1],
        dst: [0, 0, 0, 0, 256, 1],
        ..CopyParams::default()
    };
    let mut item = case("concat, 28² x 128 of 256", OpKind::Copy, &params, &[map], map);
    item.output = [1, 28, 28, 256];
    cases.push(item);
    for (name, channels, pixels) in
        [("to pixels, 3 x 224²", 3, 224 * 224), ("to pixels, 64 x 56²", 64, 56 * 56)]
    {
        let params = CopyParams {
            dims: [1, 1, 1, 1, channels, pixels],
            src: [0, 0, 0, 0, pixels, 1],
            dst: [0, 0, 0, 0, 1, channels],
            ..CopyParams::default()
        };
        let dims = [1, 1, pixels, channels];
        cases.push(case(name, OpKind::Copy, &params, &[dims], dims));
    }
    cases
}

/// The shortest of many repetitions.
fn best(mut run: impl FnMut()) -> Duration {
    let mut best = Duration::MAX;
    let begin = Instant::now();
    let mut round = 0;
    while round < 5 || begin.elapsed() < Duration::from_millis(60) {
        round += 1;
        let begin = Instant::now();
        run();
        best = best.min(begin.elapsed());
    }
    best
}

fn measure(case: &Case, kernels: &Kernels, device: &dyn Device) -> (Duration, usize) {
    let record = |dims: [u32; 4]| Tensor { dims, pitch: dims[3], ..Tensor::default() };
    let floats = |dims: &[u32; 4]| dims.iter().product::<u32>() as usize;
    let mut data: Vec<Vec<Line>> = case.inputs.iter().map(|dims| lines(floats(dims) * 4)).collect();
    data.iter_mut().for_each(|data| fill(data));
    let mut out = lines(floats(&case.output) * 4);
    let inputs: [Tensor; INPUTS] =
        std::array::from_fn(|i| case.inputs.get(i).map_or(Tensor::default(), |dims| record(*dims)));
    let output = record(case.output);
    let copies = ops::takes_buffers(&case.layer);
    let sizes = |tensor: &Tensor| match copies {
        true => (1, floats(&tensor.dims)),
        false => (tensor.rows() as usize, tensor.cols() as usize),
    };
    let buffers = [floats(&inputs[0].dims) as u64, floats(&case.output) as u64];
    let mut layer = case.layer;
    layer.activation.kind *= u32::from(!copies);
    let mut records = inputs;
    records.iter_mut().zip(0..).for_each(|(record, buffer)| record.buffer = buffer);
    let to = Tensor { buffer: INPUTS as u32, ..output };
    ops::validate(&layer, &records, &to, buffers, kernels.isa()).expect("a valid layer");
    let operand = |i: usize| {
        let Some(data) = data.get(i) else { return Operand::Absent };
        let (rows, cols) = sizes(&inputs[i]);
        MatRef::new(bytemuck::cast_slice(data), rows, cols, cols)
            .map_or(Operand::Absent, Operand::Mat)
    };
    let operands = std::array::from_fn(operand);
    let (rows, cols) = sizes(&output);
    let time = best(|| {
        ops::run(Call {
            layer: &layer,
            inputs,
            output,
            operands,
            out: MatMut::new(bytemuck::cast_slice_mut(&mut out), rows, cols, cols)
                .expect("a matrix"),
            weights: Packed::default(),
            prefetch: Default::default(),
            first: 0,
            count: 0,
            method: Method::default(),
            rows: 0..rows,
            scratch: &mut [],
            device,
            kernels,
        });
    });
    black_box(&out);
    let written = if copies { floats(&case.inputs[0]) } else { floats(&case.output) };
    (time, 4 * (case.inputs.iter().map(floats).sum::<usize>() + written))
}

/// Prints the throughput of each, and its time as a multiple of a copy's.
pub fn print(filter: Option<&str>, kernels: &Kernels, device: &dyn Device) {
    println!("\n{:28} {:>9} {:>8} {:>12}", "operator", "us", "GB/s", "copy's time");
    for case in cases() {
        if filter.is_some_and(|filter| !case.name.contains(filter) && filter != "rest") {
            continue;
        }
        let (time, bytes) = measure(&case, kernels, device);
        let (from, mut to) = (lines(bytes / 2), lines(bytes / 2));
        let copy = best(|| black_box(&mut to).copy_from_slice(black_box(&from)));
        let seconds = time.as_secs_f64();
        println!(
            "{:28} {:>9.1} {:>8.1} {:>12.2}",
            case.name,
            seconds * 1e6,
            bytes as f64 / seconds / 1e9,
            seconds / copy.as_secs_f64()
        );
    }
}
