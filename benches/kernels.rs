//! Throughput of the kernels on the layer shapes of well-known networks, as a share of the peak of
//! fused multiply-adds that the same core reaches in the same run.
//!
//! `cargo bench --bench kernels [-- FILTER]`; `rest` is the operators beside convolution. `ISA=avx2` chooses an instruction set, `THREADS=2` the number
//! of threads. Weights are cold: each repetition takes the next of several copies, more than a
//! second-level cache holds. Times are the best of many repetitions, since other programs disturb them.

use eyelet::device::Device;
use eyelet::kernels::table::Packed;
use eyelet::kernels::{Isa, Kernels};
use eyelet::matrix::{MatMut, MatRef};
use eyelet::ops::{Call, LayerError, Operand, Problem, Slice, conv, depthwise, winograd};
use eyelet::pack::{
    Activation, ConvParams, Encoding, Layer, Method, NONE, OpKind, Tensor, WinogradParams,
    params_words,
};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[path = "kernels/rest.rs"]
mod rest;

/// Worker threads that spin for work.
struct Spin {
    threads: usize,
    busy: std::sync::Mutex<()>,
    task: std::sync::Mutex<Option<&'static (dyn Fn(usize) + Sync)>>,
    next: AtomicUsize,
    generation: AtomicUsize,
    done: AtomicUsize,
}

impl Spin {
    fn start(threads: usize) -> &'static Self {
        let spin: &'static Self = Box::leak(Box::new(Self {
            threads,
            busy: std::sync::Mutex::new(()),
            task: std::sync::Mutex::new(None),
            next: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
        }));
        for index in 1..threads {
            std::thread::spawn(move || {
                let mut seen = 0;
                loop {
                    while spin.generation.load(Ordering::Acquire) == seen {
                        std::hint::spin_loop();
                    }
                    seen += 1;
                    let task = *spin.task.lock().unwrap();
                    if let Some(task) = task {
                        task(index);
                    }
                    spin.done.fetch_add(1, Ordering::Release);
                }
            });
        }
        spin
    }
}

// SAFETY: a counter gives each part to one thread, threads have numbers of their own, calls take turns, and all threads are waited
// for: no task here panics.
unsafe impl Device for Spin {
    fn threads(&self) -> usize {
        self.threads
    }

    fn run(&self, parts: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        let _one_at_a_time = self.busy.lock().unwrap();
        self.next.store(0, Ordering::Relaxed);
        let part = move |thread: usize| {
            loop {
                let part = self.next.fetch_add(1, Ordering::Relaxed);
                if part >= parts {
                    break;
                }
                task(part, thread);
            }
        };
        let task: &(dyn Fn(usize) + Sync) = &part;
        // SAFETY: the task is only called before all threads are done, for which this waits.
        let task: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(task) };
        *self.task.lock().unwrap() = Some(task);
        self.done.store(0, Ordering::Relaxed);
        self.generation.fetch_add(1, Ordering::Release);
        part(0);
        while self.done.load(Ordering::Acquire) + 1 < self.threads {
            std::hint::spin_loop();
        }
        *self.task.lock().unwrap() = None;
    }
}

/// A layer shape: name, depthwise, input height = width, channels in and out, kernel, stride, repeats
/// in the network.
struct Shape(&'static str, bool, u32, u32, u32, u32, u32, u32);

const SHAPES: &[Shape] = &[
    Shape("resnet50 7x7/2", false, 224, 3, 64, 7, 2, 1),
    Shape("resnet50 56 1x1", false, 56, 64, 64, 1, 1, 1),
    Shape("resnet50 56 3x3", false, 56, 64, 64, 3, 1, 3),
    Shape("resnet50 56 1x1", false, 56, 64, 256, 1, 1, 4),
    Shape("resnet50 56 1x1", false, 56, 256, 64, 1, 1, 2),
    Shape("resnet50 56 1x1", false, 56, 256, 128, 1, 1, 1),
    Shape("resnet50 56 3x3/2", false, 56, 128, 128, 3, 2, 1),
    Shape("resnet50 56 1x1/2", false, 56, 256, 512, 1, 2, 1),
    Shape("resnet50 28 1x1", false, 28, 128, 512, 1, 1, 4),
    Shape("resnet50 28 1x1", false, 28, 512, 128, 1, 1, 3),
    Shape("resnet50 28 3x3", false, 28, 128, 128, 3, 1, 3),
    Shape("resnet50 28 1x1", false, 28, 512, 256, 1, 1, 1),
    Shape("resnet50 28 3x3/2", false, 28, 256, 256, 3, 2, 1),
    Shape("resnet50 28 1x1/2", false, 28, 512, 1024, 1, 2, 1),
    Shape("resnet50 14 1x1", false, 14, 256, 1024, 1, 1, 6),
    Shape("resnet50 14 1x1", false, 14, 1024, 256, 1, 1, 5),
    Shape("resnet50 14 3x3", false, 14, 256, 256, 3, 1, 5),
    Shape("resnet50 14 1x1", false, 14, 1024, 512, 1, 1, 1),
    Shape("resnet50 14 3x3/2", false, 14, 512, 512, 3, 2, 1),
    Shape("resnet50 14 1x1/2", false, 14, 1024, 2048, 1, 2, 1),
    Shape("resnet50 7 1x1", false, 7, 512, 2048, 1, 1, 3),
    Shape("resnet50 7 1x1", false, 7, 2048, 512, 1, 1, 2),
    Shape("resnet50 7 3x3", false, 7, 512, 512, 3, 1, 2),
    Shape("resnet50 fc", false, 1, 2048, 1000, 1, 1, 1),
    Shape("vgg19 224 3x3", false, 224, 64, 64, 3, 1, 1),
    Shape("vit_b_16 14 1x1", false, 14, 768, 768, 1, 1, 12),
    Shape("vit_b_16 14 1x1", false, 14, 768, 3072, 1, 1, 12),
    Shape("vit_b_16 14 1x1", false, 14, 3072, 768, 1, 1, 12),
    Shape("gpt2 8 1x1", false, 8, 768, 3072, 1, 1, 12),
    Shape("gpt2 8 1x1", false, 8, 3072, 768, 1, 1, 12),
    Shape("vgg19 fc", false, 1, 4096, 4096, 1, 1, 1),
    Shape("narrow fc", false, 1, 25088, 1, 1, 1, 1),
    Shape("narrow fc", false, 1, 25088, 5, 1, 1, 1),
    Shape("narrow fc", false, 1, 4096, 33, 1, 1, 1),
    Shape("narrow 14 3x3", false, 14, 256, 33, 3, 1, 1),
    Shape("narrow 56 1x1", false, 56, 144, 24, 1, 1, 1),
    Shape("narrow 28 1x1", false, 28, 256, 17, 1, 1, 1),
    Shape("mobilenet_v2 224 3x3/2", false, 224, 3, 32, 3, 2, 1),
    Shape("mobilenet_v2 112 1x1", false, 112, 32, 16, 1, 1, 1),
    Shape("mobilenet_v2 112 1x1", false, 112, 16, 96, 1, 1, 1),
    Shape("mobilenet_v2 56 1x1", false, 56, 96, 24, 1, 1, 1),
    Shape("mobilenet_v2 56 1x1", false, 56, 24, 144, 1, 1, 2),
    Shape("mobilenet_v2 56 1x1", false, 56, 144, 24, 1, 1, 1),
    Shape("mobilenet_v2 28 1x1", false, 28, 32, 192, 1, 1, 3),
    Shape("mobilenet_v2 14 1x1", false, 14, 64, 384, 1, 1, 4),
    Shape("mobilenet_v2 fc", false, 1, 1280, 1000, 1, 1, 1),
    Shape("mobilenet_v2 112 dw", true, 112, 32, 32, 3, 1, 1),
    Shape("mobilenet_v2 112 dw/2", true, 112, 96, 96, 3, 2, 1),
    Shape("mobilenet_v2 56 dw", true, 56, 144, 144, 3, 1, 1),
    Shape("mobilenet_v2 56 dw/2", true, 56, 144, 144, 3, 2, 1),
    Shape("mobilenet_v2 28 dw", true, 28, 192, 192, 3, 1, 2),
    Shape("mobilenet_v2 28 dw/2", true, 28, 192, 192, 3, 2, 1),
    Shape("mobilenet_v2 14 dw", true, 14, 384, 384, 3, 1, 4),
    Shape("mobilenet_v2 14 dw", true, 14, 576, 576, 3, 1, 2),
    Shape("mobilenet_v2 14 dw/2", true, 14, 576, 576, 3, 2, 1),
    Shape("mobilenet_v2 7 dw", true, 7, 960, 960, 3, 1, 3),
];

/// 3x3 layers of stride 1, which are also computed by Winograd's algorithm: extent, channels in and out.
const SQUARES: &[[u32; 2]] = &[
    [56, 64],
    [28, 128],
    [14, 256],
    [7, 512],
    [224, 64],
    [112, 128],
    [56, 256],
    [28, 512],
    [14, 512],
];

/// Runs the algorithms for 3x3 layers in turn and prints the best time of each.
fn squares(kernels: &'static Kernels, device: &dyn Device) {
    println!("\n3x3, stride 1: ms (share of direct) and scratch");
    println!("{:>10} {:>8} {:>24} {:>24}", "layer", "direct", "F(2,3)", "F(4,3)");
    for &[extent, channels] in SQUARES {
        let shape = Shape("", false, extent, channels, channels, 3, 1, 1);
        let mut best = [(Duration::MAX, 0.0, 0); 3];
        for _ in 0..3 {
            for (best, tile) in best.iter_mut().zip([0, 2, 4]) {
                let found = measure(&shape, tile, kernels, device);
                if found.0 < best.0 {
                    *best = found;
                }
            }
        }
        let ms = best.map(|(time, ..)| time.as_secs_f64() * 1e3);
        print!("{:>10} {:>8.3}", format!("{extent}² x {channels}"), ms[0]);
        for i in 1..3 {
            let share = format!("{:.3} ({:.2}) {:>8}", ms[i], ms[i] / ms[0], best[i].2);
            print!(" {share:>24}");
        }
        println!();
    }
}

/// Copies of the weights take at least this many bytes, and there are at most 64.
const COLD_BYTES: usize = 48 << 20;

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let threads = std::env::var("THREADS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let isa = std::env::var("ISA").ok();
    let kernels = match &isa {
        None => Kernels::best(),
        Some(name) => Kernels::all()
            .find(|kernels| kernels.name() == name)
            .expect("kernels that this machine can run"),
    };
    let device = Spin::start(threads);
    let peak = || peak::gflops(kernels.isa()) * threads as f64;
    println!("{}, {threads} threads, peak {:.0} GFLOP/s", kernels.name(), peak());
    println!(
        "{:24} {:>5} {:>5} {:>9} {:>9} {:>6} {:>10}",
        "layer", "in", "out", "us", "GFLOP/s", "peak", "scratch"
    );
    let mut sums = std::collections::BTreeMap::new();
    for shape in SHAPES {
        if filter.as_ref().is_some_and(|filter| !shape.0.contains(filter.as_str())) {
            continue;
        }
        let before = peak();
        let (time, flops, scratch) = measure(shape, 0, kernels, device);
        let peak = peak().max(before);
        let us = time.as_secs_f64() * 1e6;
        let gflops = flops / time.as_secs_f64() / 1e9;
        let share = 100.0 * gflops / peak;
        println!(
            "{:24} {:>5} {:>5} {us:>9.1} {gflops:>9.1} {share:>5.0}% {scratch:>10}",
            shape.0, shape.3, shape.4
        );
        let network = shape.0.split(' ').next().unwrap_or_default();
        *sums.entry(network).or_insert(0.0) += us * shape.7 as f64 / 1e3;
    }
    for (network, ms) in sums {
        println!("{network}: {ms:.2} ms in these layers");
    }
    if filter.as_ref().is_none_or(|filter| "winograd".contains(filter.as_str())) {
        squares(kernels, device);
    }
    rest::print(filter.as_deref(), kernels, device);
}

type Validate = fn(&Layer, &[Tensor; 3], &Tensor, Isa) -> Result<(), LayerError>;
type ScratchBytes = fn(&Problem<'_>) -> u64;

/// Best time, floating-point operations of the direct algorithm, scratch. `tile` is that of Winograd's
/// algorithm, 0 where it is not used.
fn measure(
    shape: &Shape,
    tile: u32,
    kernels: &'static Kernels,
    device: &dyn Device,
) -> (Duration, f64, u64) {
    let &Shape(_, is_depthwise, extent, c, oc, kernel, stride, _) = shape;
    let out_extent = extent.div_ceil(stride);
    let params = ConvParams {
        kernel: [kernel; 2],
        stride: [stride; 2],
        dilation: [1; 2],
        pad: [(kernel - 1) / 2; 2],
        groups: if is_depthwise { c } else { 1 },
        chains: 0,
    };
    let tensor = |dims: [u32; 4]| Tensor { dims, pitch: dims[3], ..Tensor::default() };
    let input = tensor([1, extent, extent, c]);
    let output = tensor([1, out_extent, out_extent, oc]);
    let nr = kernels.nr();
    let k = (kernel * kernel * if is_depthwise { 1 } else { c }) as usize;
    // Layers of this name have all channels in as few panels as they would be in, equally filled.
    let width = match shape.0.starts_with("narrow") {
        true => (oc as usize).div_ceil((oc as usize).div_ceil(nr)),
        false => nr,
    };
    let panels = (oc as usize).div_ceil(width);
    let kind = match (is_depthwise, tile) {
        (true, _) => OpKind::Depthwise,
        (false, 0) => OpKind::Conv,
        _ => OpKind::Winograd,
    };
    let stored = if tile == 0 { k } else { ((tile + 2) * (tile + 2) * c) as usize };
    let panel_bytes = Encoding::F32.panel_bytes(stored as u64, width, nr).expect("a small panel");
    let layer = Layer {
        kind: kind as u32,
        inputs: [0, NONE, NONE],
        output: 1,
        activation: Activation::RELU,
        panels: panels as u32,
        panel_bytes: panel_bytes as u32,
        width: if width < nr { width as u32 } else { 0 },
        params: match kind {
            OpKind::Winograd => {
                params_words(&WinogradParams { tile, pad: params.pad, groups: params.groups })
            }
            _ => params_words(&params),
        },
        ..Layer::default()
    };
    let inputs = [input, Tensor::default(), Tensor::default()];
    let rows = output.rows() as u32;
    let slice = Slice { first: 0, count: panels as u32, row: 0, rows, ..Slice::default() };
    let (threads, isa) = (device.threads() as u32, kernels.isa());
    let functions = match kind {
        OpKind::Depthwise => (depthwise::validate as Validate, depthwise::scratch_bytes as _),
        OpKind::Winograd => (winograd::validate as Validate, winograd::scratch_bytes as _),
        _ => (conv::validate as Validate, conv::scratch_bytes as ScratchBytes),
    };
    functions.0(&layer, &inputs, &output, isa).expect("a valid layer");
    let problem = Problem { layer: &layer, inputs: &inputs, output: &output, slice, threads, isa };
    let bytes = functions.1(&problem);

    let mut data = lines(input.rows() as usize * c as usize * 4);
    fill(&mut data);
    let floats = panels * panel_bytes as usize / 4;
    let copies = (COLD_BYTES / (floats * 4)).clamp(1, 64);
    let mut weights = lines(floats * 4 * copies);
    fill(&mut weights);
    let data: &[f32] = bytemuck::cast_slice(&data);
    let weights: &[f32] = bytemuck::cast_slice(&weights);
    let mut out = lines(rows as usize * oc as usize * 4);
    let mut scratch = lines(bytes as usize);

    let flops = 2.0 * rows as f64 * oc as f64 * k as f64;
    let mut best = Duration::MAX;
    let begin = Instant::now();
    let mut round = 0;
    while round < 5 || begin.elapsed() < Duration::from_millis(120) {
        let copy = round % copies;
        round += 1;
        let call = Call {
            layer: &layer,
            inputs,
            output,
            operands: [
                Operand::Mat(
                    MatRef::new(data, input.rows() as usize, c as usize, c as usize)
                        .expect("a matrix"),
                ),
                Operand::Absent,
                Operand::Absent,
            ],
            out: MatMut::new(
                bytemuck::cast_slice_mut(&mut out),
                rows as usize,
                oc as usize,
                oc as usize,
            )
            .expect("a matrix"),
            weights: Packed::new(&weights[copy * floats..][..floats]),
            prefetch: Default::default(),
            first: 0,
            count: panels,
            method: Method::default(),
            rows: 0..rows as usize,
            scratch: bytemuck::cast_slice_mut(&mut scratch),
            device,
            kernels,
        };
        let begin = Instant::now();
        match kind {
            OpKind::Depthwise => depthwise::run(call),
            OpKind::Winograd => winograd::run(call),
            _ => conv::run(call),
        }
        best = best.min(begin.elapsed());
    }
    black_box(&out);
    (best, flops, bytes)
}

/// Memory aligned as the arena's is.
fn lines(bytes: usize) -> Vec<Line> {
    vec![Line([0; 64]); bytes.div_ceil(64)]
}

fn fill(lines: &mut [Line]) {
    for (index, x) in bytemuck::cast_slice_mut::<_, f32>(lines).iter_mut().enumerate() {
        *x = (index * 7919 % 1013) as f32 / 1013.0 - 0.5;
    }
}

#[repr(C, align(64))]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Line([u8; 64]);

/// The peak of fused multiply-adds of one core: independent chains in registers.
mod peak {
    use eyelet::kernels::Isa;
    use std::hint::black_box;
    use std::time::Instant;

    const ROUNDS: usize = 20_000;

    macro_rules! chains {
        ($set:expr, $fma:expr, $count:literal) => {{
            let x = $set(black_box(0.5));
            let mut acc = [x; $count];
            for _ in 0..ROUNDS {
                for acc in &mut acc {
                    *acc = $fma(*acc, x, x);
                }
            }
            black_box(acc);
        }};
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    fn avx512() -> usize {
        use core::arch::x86_64::*;
        chains!(_mm512_set1_ps, _mm512_fmadd_ps, 16);
        16 * 16
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn avx2() -> usize {
        use core::arch::x86_64::*;
        chains!(_mm256_set1_ps, _mm256_fmadd_ps, 12);
        12 * 8
    }

    #[cfg(target_arch = "aarch64")]
    fn neon() -> usize {
        use core::arch::aarch64::*;
        // SAFETY: the target has NEON.
        unsafe { chains!(|x| vdupq_n_f32(x), |a, x, y| vfmaq_f32(a, x, y), 16) };
        16 * 4
    }

    fn once(isa: Isa) -> usize {
        match isa {
            // SAFETY (both): the kernels of this instruction set are only found where it is there.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => unsafe { avx512() },
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { avx2() },
            #[cfg(target_arch = "aarch64")]
            _ => neon(),
            #[cfg(not(target_arch = "aarch64"))]
            _ => {
                chains!(|x| x, |a: f32, x, y| a * x + y, 16);
                16
            }
        }
    }

    /// Billions of operations a second, two for each multiply-add; the best of some milliseconds.
    pub fn gflops(isa: Isa) -> f64 {
        let mut best = f64::MAX;
        let mut lanes = 0;
        for _ in 0..60 {
            let begin = Instant::now();
            lanes = once(isa);
            best = best.min(begin.elapsed().as_secs_f64());
        }
        2.0 * (lanes * ROUNDS) as f64 / best / 1e9
    }
}
