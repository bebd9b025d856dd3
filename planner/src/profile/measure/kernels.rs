//! Rates of the kernels' classes, on layers of the shapes that networks have.
//!
//! The work of a layer is counted by the same function as when its time is predicted, so a rate that was
//! measured predicts the time that was measured.

use super::median;
use crate::network::Network;
use crate::profile::Compute;
use crate::profile::cost::{Class, Work};
use bytemuck::{Pod, Zeroable};
use eyelet::arena::{MatMut, MatRef};
use eyelet::device::Device;
use eyelet::kernels::{Isa, Kernels};
use eyelet::ops::{self, Call, Operand, Slice};
use eyelet::pack::{
    Activation, ActivationKind, BinaryParams, Buffer, ConvParams, CopyParams, Layer, MatMulParams,
    NONE, Name, OpKind, PoolParams, Tensor, WinogradParams, params_words,
};
use std::time::{Duration, Instant};

/// Time for each layer, and the least number of runs.
const TIME: Duration = Duration::from_millis(60);
const RUNS: usize = 5;

/// A cache line of memory.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

fn lines(bytes: u64) -> Vec<Line> {
    vec![Line([0; 64]); bytes.div_ceil(64) as usize]
}

/// Height, width, channels.
type Shape = [u32; 3];

/// A network of one layer from tensors 0 and 1 to tensor 2.
fn layer<P: Pod>(isa: Isa, kind: OpKind, params: &P, inputs: &[Shape], output: Shape) -> Network {
    let tensor = |buffer: u32, [height, width, channels]: Shape| Tensor {
        buffer,
        dims: [1, height, width, channels],
        pitch: channels,
        ..Tensor::default()
    };
    let shapes = [inputs[0], *inputs.get(1).unwrap_or(&inputs[0]), output];
    let tensors: Vec<Tensor> = (0..3).zip(shapes).map(|(b, shape)| tensor(b, shape)).collect();
    let bytes = |tensor: &Tensor| 4 * tensor.rows() * u64::from(tensor.cols());
    let buffers = tensors.iter().map(|tensor| Buffer { bytes: bytes(tensor) }).collect();
    Network {
        name: "layer".into(),
        isa,
        buffers,
        tensors,
        layers: vec![Layer {
            kind: kind as u32,
            inputs: [0, if inputs.len() > 1 { 1 } else { NONE }],
            output: 2,
            activation: Activation::NONE,
            panels: 0,
            panel_bytes: 0,
            reserved: 0,
            weights: 0,
            name: Name::default(),
            params: params_words(params),
        }],
        names: vec!["layer".into()],
        weights: Vec::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
    }
}

/// A convolution, padded so that the map keeps its size; `OpKind::Depthwise` or `OpKind::Conv`.
fn conv(isa: Isa, kind: OpKind, size: u32, tap: u32, channels: u32, outputs: u32) -> Network {
    let ones = [1; 2];
    let (kernel, pad) = ([tap; 2], [tap / 2; 2]);
    let groups = if kind == OpKind::Depthwise { channels } else { 1 };
    let params = ConvParams { kernel, stride: ones, dilation: ones, pad, groups };
    let shapes = ([size, size, channels], [size, size, outputs]);
    let mut network = layer(isa, kind, &params, &[shapes.0], shapes.1);
    let k = tap * tap * if kind == OpKind::Depthwise { 1 } else { channels };
    let width = isa.panel() as u32;
    network.layers[0].panels = outputs.div_ceil(width);
    network.layers[0].panel_bytes = 4 * width * (k + 1);
    network
}

/// A 3x3 convolution by Winograd's algorithm, F(4,3).
fn winograd(isa: Isa, size: u32, channels: u32, outputs: u32) -> Network {
    let params = WinogradParams { tile: 4, pad: [1; 2] };
    let shapes = ([size, size, channels], [size, size, outputs]);
    let mut network = layer(isa, OpKind::Winograd, &params, &[shapes.0], shapes.1);
    let width = isa.panel() as u32;
    network.layers[0].panels = outputs.div_ceil(width);
    network.layers[0].panel_bytes = 4 * width * (36 * channels + 1);
    network
}

fn networks(isa: Isa, class: Class) -> Vec<Network> {
    match class {
        Class::Conv1x1 => vec![
            conv(isa, OpKind::Conv, 56, 1, 64, 256),
            conv(isa, OpKind::Conv, 28, 1, 512, 128),
            conv(isa, OpKind::Conv, 14, 1, 256, 1024),
        ],
        Class::ConvKxK => vec![
            conv(isa, OpKind::Conv, 56, 3, 64, 64),
            conv(isa, OpKind::Conv, 28, 3, 128, 128),
            conv(isa, OpKind::Conv, 14, 3, 256, 256),
        ],
        Class::Winograd => vec![winograd(isa, 56, 64, 64), winograd(isa, 28, 128, 128)],
        Class::FullyConnected => vec![conv(isa, OpKind::Conv, 1, 1, 4096, 4096)],
        Class::Depthwise => vec![
            conv(isa, OpKind::Depthwise, 56, 3, 144, 144),
            conv(isa, OpKind::Depthwise, 14, 3, 576, 576),
        ],
        Class::MatMul => {
            let [batch, tokens, width] = [12, 197, 64];
            let params = MatMulParams {
                scale: 1.0,
                batch,
                m: tokens,
                k: width,
                n: tokens,
                batch_stride: [tokens * width; 2],
                row_stride: [width, 1],
                col_stride: [1, width],
            };
            let shape = [batch, tokens, width];
            let output = [batch, tokens, tokens];
            vec![layer(isa, OpKind::MatMul, &params, &[shape, shape], output)]
        }
        Class::Pool => {
            let params = PoolParams {
                kernel: [3; 2],
                stride: [2; 2],
                dilation: [1; 2],
                pad: [1; 2],
                pad_end: [1; 2],
                ..PoolParams::default()
            };
            vec![layer(isa, OpKind::Pool, &params, &[[112, 112, 64]], [56, 56, 64])]
        }
        Class::Elementwise => {
            let shape = [28, 28, 256];
            let params = BinaryParams::default();
            vec![layer(isa, OpKind::Binary, &params, &[shape, shape], shape)]
        }
        Class::Function => {
            let shape = [28, 28, 128];
            let mut network = layer(isa, OpKind::Unary, &[0u32; 24], &[shape], shape);
            network.layers[0].activation.kind = ActivationKind::Sigmoid as u32;
            vec![
                network,
                layer(isa, OpKind::Softmax, &[0u32; 24], &[[1, 100, 1000]], [1, 100, 1000]),
            ]
        }
        Class::Copy => {
            let rows = CopyParams {
                dims: [1, 1, 1, 1, 3136, 64],
                src: [0, 0, 0, 0, 64, 1],
                dst: [0, 0, 0, 0, 64, 1],
                ..CopyParams::default()
            };
            let turned = CopyParams { dst: [0, 0, 0, 0, 1, 3136], ..rows };
            let copy = |params| layer(isa, OpKind::Copy, &params, &[[56, 56, 64]], [56, 56, 64]);
            vec![copy(rows), copy(turned)]
        }
    }
}

/// The median time of running a layer in nanoseconds, or `None` if these kernels cannot.
fn time(network: &Network, kernels: &Kernels, device: &dyn Device) -> Option<f64> {
    let layer = &network.layers[0];
    let record = |id: u32| network.tensors.get(id as usize).copied().unwrap_or_default();
    let (inputs, output) = (layer.inputs.map(record), record(layer.output));
    let floats = |buffer: usize| network.buffers[buffer].bytes / 4;
    ops::validate(layer, &inputs, &output, [floats(0), floats(2)], network.isa).ok()?;
    let rows = output.rows() as u32;
    let slice = Slice { first: 0, count: layer.panels, row: 0, rows };
    let threads = device.threads() as u32;
    let scratch = ops::scratch_bytes(layer, &inputs, &output, &slice, threads, network.isa);
    let mut scratch = lines(scratch);
    let weights = lines(u64::from(layer.panels) * u64::from(layer.panel_bytes));
    let weights =
        &bytemuck::cast_slice(&weights)[..layer.panels as usize * layer.panel_bytes as usize / 4];
    let data: Vec<Vec<Line>> =
        network.buffers[..2].iter().map(|buffer| lines(buffer.bytes)).collect();
    let mut made = lines(network.buffers[2].bytes);
    let flat = matches!(OpKind::from_code(layer.kind), Some(OpKind::Copy | OpKind::MatMul));
    let operand = |index: usize| {
        let tensor = &inputs[index];
        let (rows, cols) = (tensor.rows() as usize, tensor.cols() as usize);
        let floats: &[f32] = bytemuck::cast_slice(&data[index]);
        let mat = if flat {
            MatRef::new(floats, 1, rows * cols, rows * cols)
        } else {
            MatRef::new(floats, rows, cols, cols)
        };
        match (layer.inputs[index], mat) {
            (NONE, _) | (_, None) => Operand::Absent,
            (_, Some(mat)) => Operand::Mat(mat),
        }
    };
    let copy = OpKind::from_code(layer.kind) == Some(OpKind::Copy);
    let mut times = Vec::new();
    let begin = Instant::now();
    // The first run is not counted: it brings caches and threads to life.
    while times.len() <= RUNS || begin.elapsed() < TIME {
        let (rows, cols) = (output.rows() as usize, output.cols() as usize);
        let floats: &mut [f32] = bytemuck::cast_slice_mut(&mut made);
        let out = if copy {
            MatMut::new(floats, 1, rows * cols, rows * cols)
        } else {
            MatMut::new(floats, rows, cols, cols)
        };
        let call = Call {
            layer,
            inputs,
            output,
            operands: [operand(0), operand(1)],
            out: out?,
            weights,
            first: 0,
            count: layer.panels as usize,
            rows: 0..rows,
            scratch: bytemuck::cast_slice_mut(&mut scratch),
            device,
            kernels,
        };
        let start = Instant::now();
        ops::run(call);
        times.push(start.elapsed().as_nanos() as f64);
    }
    Some(median(&mut times[1..]).max(1.0))
}

/// Work a nanosecond over all layers of a class, if there are kernels for it.
fn rate(class: Class, kernels: &Kernels, device: &dyn Device) -> Option<f64> {
    let (mut work, mut ns) = (0.0, 0.0);
    for network in networks(kernels.isa(), class) {
        let of = Work::of(&network, &network.layers[0]);
        debug_assert_eq!(of.class, class);
        work += of.amount;
        ns += time(&network, kernels, device)?;
    }
    Some(work / ns)
}

/// Measures on one thread and on all.
pub fn measure(kernels: &Kernels, one: &dyn Device, all: &dyn Device) -> Compute {
    // A class without a kernel of its own costs what convolutions do.
    let conv_1x1_gflops = rate(Class::Conv1x1, kernels, one).unwrap_or(1.0);
    let of = |class| rate(class, kernels, one).unwrap_or(conv_1x1_gflops);
    let conv_kxk_gflops = of(Class::ConvKxK);
    let fully_connected_gbs = of(Class::FullyConnected);
    let threads = all.threads() as f64;
    let (mut scaling, mut memory_gbs) = (1.0, fully_connected_gbs);
    if threads > 1.0 {
        let sped = rate(Class::ConvKxK, kernels, all).unwrap_or(conv_kxk_gflops) / conv_kxk_gflops;
        scaling = ((sped - 1.0) / (threads - 1.0)).clamp(0.0, 1.0);
        memory_gbs = rate(Class::FullyConnected, kernels, all).unwrap_or(1.0).max(memory_gbs);
    }
    // What a step costs that has next to nothing to do.
    let small = conv(kernels.isa(), OpKind::Conv, 8, 1, 16, 64);
    let ideal = Work::of(&small, &small.layers[0]).amount / conv_1x1_gflops;
    let step = time(&small, kernels, all).unwrap_or(ideal);
    Compute {
        conv_1x1_gflops,
        conv_kxk_gflops,
        depthwise_gflops: of(Class::Depthwise),
        matmul_gflops: of(Class::MatMul),
        fully_connected_gbs,
        elementwise_gbs: of(Class::Elementwise),
        function_gbs: of(Class::Function),
        pool_gbs: of(Class::Pool),
        copy_gbs: of(Class::Copy),
        memory_gbs,
        cache_bytes: cache_bytes(),
        scaling,
        step_overhead_ns: (step - ideal).max(100.0) as u64,
    }
}

/// The second-level cache of the first processor, as the system tells it; a megabyte if it does not.
fn cache_bytes() -> u64 {
    let told = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index2/size");
    let kilobytes = told.ok().and_then(|text| text.trim().strip_suffix('K')?.parse::<u64>().ok());
    kilobytes.map_or(1 << 20, |kilobytes| kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eyelet::device::Inline;

    #[test]
    fn layers_belong_to_their_classes_and_run() {
        for class in [
            Class::Conv1x1,
            Class::ConvKxK,
            Class::Winograd,
            Class::FullyConnected,
            Class::Depthwise,
            Class::MatMul,
            Class::Pool,
            Class::Elementwise,
            Class::Function,
            Class::Copy,
        ] {
            for network in networks(Isa::Portable, class) {
                assert_eq!(Work::of(&network, &network.layers[0]).class, class);
            }
            let runs = rate(class, Kernels::best(), &Inline).is_some();
            // Products of activations may have no kernel, and are then charged as convolutions.
            assert!(runs || class == Class::MatMul, "{class:?} is refused");
        }
    }
}
