//! Rates of the kernels' classes, on layers of the shapes that networks have.
//!
//! The work of a layer is counted by the same function as when its time is predicted, so a rate that was
//! measured predicts the time that was measured. Rates of computing are measured with weights in the cache;
//! memory by weights that no cache holds; how far one hides the other by layers that do both.
//!
//! Runs on one thread and on all take turns, so that what disturbs a machine disturbs both, and of the times
//! of each the median counts, as it does of inferences.

use crate::network::Network;
use crate::profile::Compute;
use crate::profile::cost::{Class, SPILL_CACHES, Work, transforming};
use crate::profile::fit::two_terms;
use bytemuck::{Pod, Zeroable};
use eyelet::arena::{MappedArena, MatMut, MatRef};
use eyelet::device::Device;
use eyelet::kernels::{Isa, Kernels};
use eyelet::ops::{self, Call, Operand, Slice};
use eyelet::pack::{
    Activation, ActivationKind, BinaryParams, Buffer, ConvParams, CopyParams, Encoding, Layer,
    MatMulParams, NONE, Name, OpKind, PoolParams, Tensor, WinogradParams, params, params_words,
};
use std::time::{Duration, Instant};

/// Time for each layer on all devices, and the least number of turns.
const TIME: Duration = Duration::from_millis(100);
const TURNS: usize = 3;

/// Runs that are counted of a device's turn.
const RUNS_A_TURN: usize = 4;

/// Copies of cold weights take at least this many bytes.
const COLD_BYTES: u64 = 192 << 20;

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
            encoding: 0,
            weights: 0,
            name: Name::default(),
            params: params_words(params),
        }],
        names: vec!["layer".into()],
        weights: Vec::new(),
        on_load: vec![0],
        inputs: Vec::new(),
        outputs: Vec::new(),
    }
}

/// A convolution, padded so that the map keeps its size; `OpKind::Depthwise` or `OpKind::Conv`.
pub(super) fn conv(
    isa: Isa,
    kind: OpKind,
    size: u32,
    tap: u32,
    channels: u32,
    outputs: u32,
) -> Network {
    let ones = [1; 2];
    let (kernel, pad) = ([tap; 2], [tap / 2; 2]);
    let groups = if kind == OpKind::Depthwise { channels } else { 1 };
    let params = ConvParams { kernel, stride: ones, dilation: ones, pad, groups, chains: 0 };
    let shapes = ([size, size, channels], [size, size, outputs]);
    let mut network = layer(isa, kind, &params, &[shapes.0], shapes.1);
    let k = tap * tap * if kind == OpKind::Depthwise { 1 } else { channels };
    let width = isa.panel() as u32;
    network.layers[0].panels = outputs.div_ceil(width);
    network.layers[0].panel_bytes = 4 * width * (k + 1);
    network
}

/// A 3x3 convolution in groups of so many channels, of which panels hold several.
fn grouped(isa: Isa, size: u32, channels: u32, group: u32) -> Network {
    let mut network = conv(isa, OpKind::Depthwise, size, 3, channels, channels);
    let layer = &mut network.layers[0];
    let groups = channels / group;
    layer.params = params_words(&ConvParams { groups, ..params(layer) });
    layer.panel_bytes = 4 * isa.panel() as u32 * (9 * group + 1);
    network
}

/// A 3x3 convolution by Winograd's algorithm, F(tile,3).
pub(super) fn winograd(isa: Isa, tile: u32, size: u32, channels: u32, outputs: u32) -> Network {
    let params = WinogradParams { tile, pad: [1; 2], groups: 1 };
    let shapes = ([size, size, channels], [size, size, outputs]);
    let mut network = layer(isa, OpKind::Winograd, &params, &[shapes.0], shapes.1);
    let width = isa.panel() as u32;
    network.layers[0].panels = outputs.div_ceil(width);
    network.layers[0].panel_bytes = 4 * width * ((tile + 2) * (tile + 2) * channels + 1);
    network
}

fn networks(isa: Isa, class: Class) -> Vec<Network> {
    match class {
        // Long sums, and short ones.
        Class::Conv1x1 => vec![
            conv(isa, OpKind::Conv, 56, 1, 64, 256),
            conv(isa, OpKind::Conv, 28, 1, 512, 128),
            conv(isa, OpKind::Conv, 14, 1, 256, 1024),
            conv(isa, OpKind::Conv, 56, 1, 16, 96),
            conv(isa, OpKind::Conv, 28, 1, 192, 32),
        ],
        Class::ConvKxK => vec![
            conv(isa, OpKind::Conv, 56, 3, 64, 64),
            conv(isa, OpKind::Conv, 28, 3, 128, 128),
            conv(isa, OpKind::Conv, 14, 3, 256, 256),
            conv(isa, OpKind::Conv, 112, 3, 3, 32),
            conv(isa, OpKind::Conv, 56, 7, 3, 64),
        ],
        Class::Winograd => vec![
            winograd(isa, 2, 56, 64, 64),
            winograd(isa, 4, 56, 64, 64),
            winograd(isa, 2, 28, 128, 128),
            winograd(isa, 4, 28, 128, 128),
        ],
        Class::FullyConnected => vec![conv(isa, OpKind::Conv, 1, 1, 4096, 4096)],
        Class::Depthwise => vec![
            conv(isa, OpKind::Depthwise, 56, 3, 144, 144),
            conv(isa, OpKind::Depthwise, 14, 3, 576, 576),
            conv(isa, OpKind::Depthwise, 112, 3, 32, 32),
            conv(isa, OpKind::Depthwise, 28, 1, 256, 256),
        ],
        Class::Grouped => vec![grouped(isa, 28, 128, isa.panel() as u32 / 4)],
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
            // Keys are read by strides: one run.
            let keys = [1, 1, batch * tokens * width];
            vec![layer(isa, OpKind::MatMul, &params, &[shape, keys], output)]
        }
        Class::Pool => {
            let three = PoolParams {
                kernel: [3; 2],
                stride: [2; 2],
                dilation: [1; 2],
                pad: [1; 2],
                pad_end: [1; 2],
                ..PoolParams::default()
            };
            let two = PoolParams { kernel: [2; 2], pad: [0; 2], pad_end: [0; 2], ..three };
            vec![
                layer(isa, OpKind::Pool, &three, &[[112, 112, 64]], [56, 56, 64]),
                layer(isa, OpKind::Pool, &two, &[[56, 56, 256]], [28, 28, 256]),
            ]
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

/// Bytes of the panel by which expanding is measured: frequencies of 256 channels, for the widest panels.
const EXPANDED_BYTES: u64 = 4 * 36 * 8192;

/// Layers whose weights take about as long to read as to use.
fn balanced(isa: Isa) -> Vec<Network> {
    vec![
        conv(isa, OpKind::Conv, 7, 1, 512, 2048),
        conv(isa, OpKind::Conv, 7, 3, 512, 512),
        conv(isa, OpKind::Conv, 7, 1, 2048, 512),
    ]
}

/// A layer with memory for everything that it needs.
pub(super) struct Bench<'a> {
    layer: &'a Layer,
    /// What steps compute it by, as in [`Network::on_load`].
    algorithm: u32,
    inputs: [Tensor; 2],
    output: Tensor,
    kernels: &'a Kernels,
    data: Vec<Vec<Line>>,
    made: Vec<Line>,
    scratch: Vec<Line>,
    /// As many copies as keep each run from finding them in the cache, in memory as a pack's arena is: with large
    /// pages.
    weights: MappedArena,
    copies: usize,
    runs: usize,
}

impl<'a> Bench<'a> {
    /// `None` if these kernels cannot run the layer.
    pub(super) fn new(
        network: &'a Network,
        kernels: &'a Kernels,
        threads: usize,
        cold: bool,
    ) -> Option<Self> {
        let layer = &network.layers[0];
        let record = |id: u32| network.tensors.get(id as usize).copied().unwrap_or_default();
        let (inputs, output) = (layer.inputs.map(record), record(layer.output));
        let floats = |buffer: usize| network.buffers[buffer].bytes / 4;
        ops::validate(layer, &inputs, &output, [floats(0), floats(2)], network.isa).ok()?;
        let rows = output.rows() as u32;
        let algorithm = network.on_load[0];
        let slice = Slice { first: 0, count: layer.panels, row: 0, rows, algorithm };
        let isa = network.isa;
        let scratch = ops::scratch_bytes(layer, &inputs, &output, &slice, threads as u32, isa);
        let weights = u64::from(layer.panels) * u64::from(layer.panel_bytes);
        let copies = if cold { (COLD_BYTES / weights.max(1)).max(1) } else { 1 };
        let each = weights.next_multiple_of(64).max(64);
        let mut arena = MappedArena::new((copies * each) as usize).ok()?;
        arena.memory().as_mut_slice().fill(0);
        Some(Self {
            layer,
            algorithm,
            inputs,
            output,
            kernels,
            data: network.buffers[..2].iter().map(|buffer| lines(buffer.bytes)).collect(),
            made: lines(network.buffers[2].bytes),
            scratch: lines(scratch),
            weights: arena,
            copies: copies as usize,
            runs: 0,
        })
    }

    /// Nanoseconds of one run.
    pub(super) fn run(&mut self, device: &dyn Device) -> Option<f64> {
        let (layer, inputs, output) = (self.layer, self.inputs, self.output);
        let kind = OpKind::from_code(layer.kind);
        let flat = kind == Some(OpKind::Copy);
        let operand = |index: usize| {
            let (rows, cols) = (inputs[index].rows() as usize, inputs[index].cols() as usize);
            let floats: &[f32] = bytemuck::cast_slice(&self.data[index]);
            let mat = match flat {
                true => MatRef::new(floats, 1, rows * cols, rows * cols),
                false => MatRef::new(floats, rows, cols, cols),
            };
            match (layer.inputs[index], mat) {
                (NONE, _) | (_, None) => Operand::Absent,
                (_, Some(mat)) => Operand::Mat(mat),
            }
        };
        let operands = [operand(0), operand(1)];
        let (rows, cols) = (output.rows() as usize, output.cols() as usize);
        let floats: &mut [f32] = bytemuck::cast_slice_mut(&mut self.made);
        let out = match kind {
            Some(OpKind::Copy) => MatMut::new(floats, 1, rows * cols, rows * cols),
            _ => MatMut::new(floats, rows, cols, cols),
        };
        let floats = layer.panels as usize * layer.panel_bytes as usize / 4;
        let memory = self.weights.memory();
        let weights: &[f32] = bytemuck::cast_slice(memory.as_slice());
        let each = weights.len() / self.copies;
        let weights = &weights[self.runs % self.copies * each..][..floats];
        self.runs += 1;
        let call = Call {
            layer,
            inputs,
            output,
            operands,
            out: out?,
            weights,
            algorithm: self.algorithm,
            first: 0,
            count: layer.panels as usize,
            rows: 0..rows,
            scratch: bytemuck::cast_slice_mut(&mut self.scratch),
            device,
            kernels: self.kernels,
        };
        let start = Instant::now();
        ops::run(call);
        Some(start.elapsed().as_nanos() as f64)
    }
}

/// What running a layer takes on each of two devices, in nanoseconds, or `None` if these kernels cannot.
fn times(
    network: &Network,
    kernels: &Kernels,
    devices: [&dyn Device; 2],
    cold: bool,
) -> Option<[f64; 2]> {
    let threads = devices.map(|device| device.threads()).into_iter().max().unwrap_or(1);
    let mut bench = Bench::new(network, kernels, threads, cold)?;
    let mut times = [const { Vec::new() }; 2];
    let begin = Instant::now();
    let mut turn = 0;
    while turn < TURNS || begin.elapsed() < TIME {
        for (device, times) in devices.iter().zip(&mut times) {
            // In each turn the first run is not counted: it brings the device's caches and threads to life.
            for run in 0..=RUNS_A_TURN {
                let ns = bench.run(*device)?;
                if run > 0 {
                    times.push(ns);
                }
            }
        }
        turn += 1;
    }
    Some(times.map(|times| median(times).max(1.0)))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

/// Work a nanosecond over all layers of a class, on each of two devices, if there are kernels for it.
fn rates(class: Class, kernels: &Kernels, devices: [&dyn Device; 2]) -> Option<[f64; 2]> {
    let (mut work, mut ns) = (0.0, [0.0; 2]);
    for network in networks(kernels.isa(), class) {
        let of = Work::of(&network, &network.layers[0]);
        debug_assert_eq!(of.class, class);
        work += of.amount;
        // A matrix of weights is read from memory, and a cache may keep a good part of one that is read twice.
        let cold = class == Class::FullyConnected;
        let times = times(&network, kernels, devices, cold)?;
        ns = [ns[0] + times[0], ns[1] + times[1]];
    }
    Some(ns.map(|ns| work / ns))
}

/// What a class's layers take: their work at a rate, and for each piece something more.
#[derive(Clone, Copy)]
struct Fit {
    rate: f64,
    piece_ns: f64,
    /// How many times as fast the second device is.
    sped: f64,
}

/// The fit to all layers of a class, if there are kernels for it.
fn fit(class: Class, kernels: &Kernels, devices: [&dyn Device; 2]) -> Option<Fit> {
    let (mut points, mut ns) = (Vec::new(), [0.0; 2]);
    for network in networks(kernels.isa(), class) {
        let of = Work::of(&network, &network.layers[0]);
        debug_assert_eq!(of.class, class);
        let times = times(&network, kernels, devices, false)?;
        points.push([of.amount / times[0], of.pieces / times[0]]);
        ns = [ns[0] + times[0], ns[1] + times[1]];
    }
    let [work_ns, piece_ns] = two_terms(points.into_iter());
    Some(Fit { rate: 1.0 / work_ns, piece_ns, sped: ns[0] / ns[1] })
}

/// Convolutions: the floating-point operations of each, and the nanoseconds that it takes on one thread.
pub fn layers(kernels: &Kernels, devices: [&dyn Device; 2]) -> Vec<(f64, f64)> {
    let classes = [Class::Conv1x1, Class::ConvKxK, Class::Depthwise];
    let networks = classes.into_iter().flat_map(|class| networks(kernels.isa(), class));
    let measured = networks.filter_map(|network| {
        let [ns, _] = times(&network, kernels, devices, false)?;
        Some((Work::of(&network, &network.layers[0]).amount, ns))
    });
    measured.collect()
}

/// Measures on one thread and on all.
pub fn measure(kernels: &Kernels, one: &dyn Device, all: &dyn Device) -> Compute {
    let isa = kernels.isa();
    let devices = [one, all];
    // A class without a kernel of its own costs what convolutions do.
    let slow = Fit { rate: 1.0, piece_ns: 0.0, sped: 1.0 };
    let conv_1x1 = fit(Class::Conv1x1, kernels, devices).unwrap_or(slow);
    let fit = |class| fit(class, kernels, devices).unwrap_or(conv_1x1);
    let of = |class| rates(class, kernels, devices).map_or(conv_1x1.rate, |rates| rates[0]);
    let (conv_kxk, depthwise) = (fit(Class::ConvKxK), fit(Class::Depthwise));
    let read = rates(Class::FullyConnected, kernels, devices).unwrap_or([conv_1x1.rate; 2]);
    let more = all.threads() as f64 - 1.0;
    let mut scaling = 1.0;
    if more > 0.0 {
        let sped = (conv_1x1.sped + conv_kxk.sped) / 2.0;
        scaling = ((sped - 1.0) / more).clamp(0.0, 1.0);
    }
    let stored = lines(EXPANDED_BYTES);
    let halves: &[f32] = bytemuck::cast_slice(&stored);
    let mut compute = Compute {
        conv_1x1_gflops: conv_1x1.rate,
        conv_kxk_gflops: conv_kxk.rate,
        depthwise_gflops: depthwise.rate,
        conv_1x1_piece_ns: conv_1x1.piece_ns,
        conv_kxk_piece_ns: conv_kxk.piece_ns,
        depthwise_piece_ns: depthwise.piece_ns,
        matmul_gflops: of(Class::MatMul),
        fully_connected_gbs: read[0],
        transform_gbs: f64::INFINITY,
        transform_spill_ns_per_byte: 0.0,
        widen_gbs: made_gbs(|made| kernels.widen(Encoding::F16, halves, 0, made)),
        transform_weights_gbs: f64::INFINITY,
        elementwise_gbs: of(Class::Elementwise),
        function_gbs: of(Class::Function),
        pool_gbs: of(Class::Pool),
        copy_gbs: of(Class::Copy),
        memory_gbs: read[0].max(read[1]),
        cache_bytes: cache_bytes(2).unwrap_or(1 << 20),
        shared_cache_bytes: cache_bytes(3).unwrap_or(0),
        shared_cache_gbs: 0.0,
        exposed: 0.0,
        winograd_exposed: None,
        scaling,
        step_overhead_ns: 0,
    };
    // What a step costs that has next to nothing to do.
    let small = conv(isa, OpKind::Conv, 8, 1, 16, 64);
    let ideal = Work::of(&small, &small.layers[0]).ns(&compute);
    let step = times(&small, kernels, devices, false).map_or(ideal, |times| times[1]);
    compute.step_overhead_ns = (step - ideal).max(100.0) as u64;
    compute.transform_gbs = transform_gbs(kernels, devices, &compute);
    compute.transform_spill_ns_per_byte = transform_spill(kernels, devices, &compute);
    compute.transform_weights_gbs = transform_weights_gbs(kernels, devices, &compute);
    compute.shared_cache_gbs = shared_cache_gbs(kernels, devices, &compute);
    compute.exposed = exposed(kernels, devices, &compute);
    compute.winograd_exposed = winograd_exposed(kernels, devices, &compute);
    compute
}

/// Bytes of weights a nanosecond that `make` makes, on one thread.
fn made_gbs(make: impl Fn(&mut [f32])) -> f64 {
    let mut made = lines(EXPANDED_BYTES);
    let made: &mut [f32] = bytemuck::cast_slice_mut(&mut made);
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.len() < TURNS * RUNS_A_TURN || begin.elapsed() < TIME {
        let start = Instant::now();
        make(made);
        times.push(start.elapsed().as_nanos() as f64);
    }
    EXPANDED_BYTES as f64 / median(times).max(1.0)
}

/// What is left of the time of Winograd convolutions when their products are taken off.
fn transform_gbs(kernels: &Kernels, devices: [&dyn Device; 2], compute: &Compute) -> f64 {
    let (mut bytes, mut left, mut all) = (0.0, 0.0, 0.0);
    for network in networks(kernels.isa(), Class::Winograd) {
        let Some([ns, _]) = times(&network, kernels, devices, false) else { continue };
        let work = Work::of(&network, &network.layers[0]);
        bytes += work.transform_bytes;
        left += ns - work.ns(compute);
        all += ns;
    }
    // They take some time, however disturbed the measurement.
    bytes / left.max(all / 20.0).max(1.0)
}

/// What is left of the time of direct convolutions that are computed by Winograd's algorithm when all but transforming their
/// weights is taken off. These come from memory, and what is made of them is more than a thread's cache holds: the same
/// transform within a cache is three times as fast.
fn transform_weights_gbs(kernels: &Kernels, devices: [&dyn Device; 2], compute: &Compute) -> f64 {
    let isa = kernels.isa();
    let layers = [(4, 28, 128), (4, 14, 256), (4, 14, 512), (2, 7, 512)];
    let (mut bytes, mut left, mut all) = (0.0, 0.0, 0.0);
    for (tile, size, channels) in layers {
        let mut network = conv(isa, OpKind::Conv, size, 3, channels, channels);
        network.on_load[0] = tile;
        let Some((made, rest)) = transforming(&network, compute) else { continue };
        let Some([ns, _]) = times(&network, kernels, devices, true) else { continue };
        bytes += made;
        left += ns - rest;
        all += ns;
    }
    // They take some time, however disturbed the measurement; and none where no step transforms any.
    if all > 0.0 { bytes / left.max(all / 20.0) } else { compute.transform_gbs }
}

/// What the transforms take longer for each byte of activations that is not near, on maps that are much larger.
fn transform_spill(kernels: &Kernels, devices: [&dyn Device; 2], compute: &Compute) -> f64 {
    let (mut bytes, mut beyond) = (0.0, 0.0);
    let isa = kernels.isa();
    for network in [winograd(isa, 4, 112, 64, 128), winograd(isa, 4, 112, 128, 128)] {
        let Some([ns, _]) = times(&network, kernels, devices, false) else { continue };
        let work = Work::of(&network, &network.layers[0]);
        bytes += work.activations.saturating_sub(SPILL_CACHES * compute.cache_bytes) as f64;
        beyond += ns - work.ns(compute) - work.transform_bytes / compute.transform_gbs;
    }
    if bytes > 0.0 { (beyond / bytes).max(0.0) } else { 0.0 }
}

/// Bytes of weights a nanosecond out of the cache that all processors share, if it has room for them.
fn shared_cache_gbs(kernels: &Kernels, devices: [&dyn Device; 2], compute: &Compute) -> f64 {
    let network = conv(kernels.isa(), OpKind::Conv, 1, 1, 2048, 1024);
    let bytes = Work::of(&network, &network.layers[0]).amount;
    if 2.0 * bytes > compute.shared_cache_bytes as f64 {
        return 0.0;
    }
    times(&network, kernels, devices, false).map_or(0.0, |[ns, _]| bytes / ns)
}

/// How much of the shorter one of computing and reading weights adds to the longer one.
fn exposed(kernels: &Kernels, devices: [&dyn Device; 2], compute: &Compute) -> f64 {
    let (mut beyond, mut shorter) = (0.0, 0.0);
    for network in balanced(kernels.isa()) {
        let times = |cold| times(&network, kernels, devices, cold);
        let (Some([warm, _]), Some([cold, _])) = (times(false), times(true)) else { continue };
        let layer = &network.layers[0];
        let bytes = f64::from(layer.panels) * f64::from(layer.panel_bytes);
        let memory = bytes / compute.fully_connected_gbs;
        beyond += cold - warm.max(memory);
        shorter += warm.min(memory);
    }
    if shorter > 0.0 { (beyond / shorter).clamp(0.0, 1.0) } else { 0.0 }
}

/// The same of Winograd convolutions, of what they are predicted to compute and read: with weights in memory, and where the cache
/// that all processors share holds them.
fn winograd_exposed(
    kernels: &Kernels,
    devices: [&dyn Device; 2],
    compute: &Compute,
) -> Option<f64> {
    let isa = kernels.isa();
    let (mut beyond, mut shorter) = (0.0, 0.0);
    for network in [winograd(isa, 2, 14, 256, 256), winograd(isa, 4, 14, 256, 256)] {
        let layer = &network.layers[0];
        let work = Work::of(&network, layer);
        let computing = work.ns(compute) + work.transform_bytes / compute.transform_gbs;
        let bytes = f64::from(layer.panels) * f64::from(layer.panel_bytes);
        let near = if compute.shared_cache_gbs > 0.0 { compute.near_gbs(1) } else { 0.0 };
        for (cold, gbs) in [(true, compute.bandwidth_gbs(1)), (false, near)] {
            if gbs <= 0.0 || (!cold && 2.0 * bytes > compute.shared_cache_bytes as f64) {
                continue;
            }
            let Some([ns, _]) = times(&network, kernels, devices, cold) else { continue };
            let memory = bytes / gbs;
            beyond += ns - computing.max(memory);
            shorter += computing.min(memory);
        }
    }
    (shorter > 0.0).then(|| (beyond / shorter).clamp(0.0, 1.0))
}

/// A cache of the first processor, by its level, as the system tells it.
fn cache_bytes(level: u32) -> Option<u64> {
    let path = format!("/sys/devices/system/cpu/cpu0/cache/index{level}/size");
    let told = std::fs::read_to_string(path).ok()?;
    Some(told.trim().strip_suffix('K')?.parse::<u64>().ok()? << 10)
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
            Class::Grouped,
            Class::MatMul,
            Class::Pool,
            Class::Elementwise,
            Class::Function,
            Class::Copy,
        ] {
            for network in networks(Isa::Portable, class) {
                assert_eq!(Work::of(&network, &network.layers[0]).class, class);
            }
            let runs = rates(class, Kernels::best(), [&Inline, &Inline]).is_some();
            // Products of activations may have no kernel, and are then charged as convolutions.
            assert!(runs || class == Class::MatMul, "{class:?} is refused");
        }
    }
}
