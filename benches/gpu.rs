//! Times convolutions on a GPU, as another program asks for them: so that its own library is timed in turns with these
//! kernels, on the same shapes, in the same minutes. `benches/gpu/run.sh` is that program.
//!
//! `cargo bench --features cuda --bench gpu`; commands are lines of standard input, answers lines of standard output:
//!
//! | command | answer |
//! |---|---|
//! | (at the start) | `gpu NAME; capability; multiprocessors; driver` |
//! | `shape HEIGHT WIDTH INPUTS OUTPUTS KERNEL STRIDE PAD GROUPS` | `algorithms`, and those that compute it |
//! | `time ROUNDS LAUNCHES` | for each algorithm a line: its name, and the microseconds of one convolution in each round |
//!
//! A round is so many convolutions one after the other between two events. Weights and activations are what they
//! were: whoever compares must let the other library have them in cache, too. Results are not looked at here; tests do.

use bytemuck::Zeroable;
use eyelet::device::cuda::{Context, DeviceMemory, Driver, Event, Module, Stream, images};
use eyelet::kernels::Isa;
use eyelet::ops::cuda::{Call, conv, run, scratch_bytes};
use eyelet::ops::{Slice, validate};
use eyelet::pack::{
    Activation, ConvParams, Layer, NONE, OpKind, Tensor, WinogradParams, params_words,
};
use std::error::Error;
use std::io::{BufRead, Write};
use std::process::ExitCode;

/// Output channels of a panel.
const PANEL: u32 = 32;

/// A convolution, batch 1.
#[derive(Clone, Copy)]
struct Shape {
    height: u32,
    width: u32,
    inputs: u32,
    outputs: u32,
    kernel: u32,
    stride: u32,
    pad: u32,
    groups: u32,
}

impl Shape {
    fn parse(text: &str) -> Result<Self, Box<dyn Error>> {
        let fields: Vec<u32> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        match fields[..] {
            [height, width, inputs, outputs, kernel, stride, pad, groups]
                if height.min(width).min(inputs).min(outputs).min(kernel).min(stride) > 0
                    && groups > 0
                    && height.min(width) + 2 * pad >= kernel =>
            {
                Ok(Self { height, width, inputs, outputs, kernel, stride, pad, groups })
            }
            _ => Err(format!("`{text}` is no shape: eight numbers").into()),
        }
    }

    fn extent(&self, input: u32) -> u32 {
        (input + 2 * self.pad - self.kernel) / self.stride + 1
    }
}

/// A way to compute a shape.
struct Algorithm {
    name: &'static str,
    layer: Layer,
    slice: Slice,
    scratch_bytes: u64,
}

/// A shape with its memory.
struct Case<'c> {
    tensors: [Tensor; 2],
    algorithms: Vec<Algorithm>,
    input: DeviceMemory<'c>,
    output: DeviceMemory<'c>,
    weights: DeviceMemory<'c>,
    scratch: DeviceMemory<'c>,
}

/// Panels of `k` rows behind the bias.
fn layer<P: bytemuck::Pod>(kind: OpKind, shape: &Shape, k: u32, params: &P) -> Layer {
    let panels = shape.groups * (shape.outputs / shape.groups).div_ceil(PANEL);
    Layer {
        kind: kind as u32,
        inputs: [0, NONE, NONE],
        output: 1,
        activation: Activation::default(),
        panels,
        panel_bytes: 4 * PANEL * (1 + k),
        width: 0,
        encoding: 0,
        weights: 0,
        params: params_words(params),
    }
}

fn algorithms(shape: &Shape, tensors: &[Tensor; 2], multiprocessors: u32) -> Vec<Algorithm> {
    let taps = shape.kernel * shape.kernel;
    let k = taps * shape.inputs / shape.groups;
    let rows = tensors[1].rows() as u32;
    let conv = |chains| {
        let params = ConvParams {
            kernel: [shape.kernel; 2],
            stride: [shape.stride; 2],
            dilation: [1; 2],
            pad: [shape.pad; 2],
            groups: shape.groups,
            chains,
        };
        layer(OpKind::Conv, shape, k, &params)
    };
    let mut layers = vec![("direct", conv(1))];
    let chains = conv::chains(rows, shape.outputs, k, multiprocessors);
    if chains > 1 {
        layers.push(("chains", conv(chains)));
    }
    if shape.kernel == 3 && shape.stride == 1 && shape.groups == 1 {
        for (name, tile) in [("winograd2", 2), ("winograd4", 4)] {
            let params = WinogradParams { tile, pad: [shape.pad; 2], groups: 1 };
            let k = (tile + 2) * (tile + 2) * shape.inputs;
            layers.push((name, layer(OpKind::Winograd, shape, k, &params)));
        }
    }
    let inputs = [tensors[0], Tensor::zeroed(), Tensor::zeroed()];
    let algorithm = |(name, layer): (&'static str, Layer)| {
        let slice = Slice { first: 0, count: layer.panels, row: 0, rows, ..Slice::default() };
        let buffers = [0, 1].map(|i| 4 * tensors[i].rows() * u64::from(tensors[i].pitch));
        if let Err(error) = validate(&layer, &inputs, &tensors[1], buffers, Isa::Cuda) {
            // Which algorithms there are is the operators' affair: what is refused is not timed, and said.
            eprintln!("{name}: {error:?}");
            return None;
        }
        let scratch_bytes = scratch_bytes(&layer, &inputs, &tensors[1], &slice);
        Some(Algorithm { name, layer, slice, scratch_bytes })
    };
    layers.into_iter().filter_map(algorithm).collect()
}

impl<'c> Case<'c> {
    fn new(context: &'c Context<'_>, shape: &Shape) -> Result<Self, Box<dyn Error>> {
        let tensor = |height, width, channels| Tensor {
            dims: [1, height, width, channels],
            pitch: channels,
            ..Tensor::zeroed()
        };
        let tensors = [
            tensor(shape.height, shape.width, shape.inputs),
            tensor(shape.extent(shape.height), shape.extent(shape.width), shape.outputs),
        ];
        let algorithms = algorithms(shape, &tensors, context.attributes().multiprocessors);
        let weights = algorithms.iter().map(|algorithm| {
            let layer = &algorithm.layer;
            u64::from(layer.panels) * u64::from(layer.panel_bytes)
        });
        let weights = weights.max().ok_or("no algorithm computes this shape")?;
        let scratch = algorithms.iter().map(|algorithm| algorithm.scratch_bytes).max().unwrap_or(0);
        let mut case = Self {
            tensors,
            input: context
                .device_memory(4 * (tensors[0].rows() as usize * shape.inputs as usize))?,
            output: context
                .device_memory(4 * (tensors[1].rows() as usize * shape.outputs as usize))?,
            weights: context.device_memory(weights as usize)?,
            scratch: context.device_memory(scratch.max(4) as usize)?,
            algorithms,
        };
        // Numbers of ordinary size: GPUs draw more power for them than for zeros, and denormal ones may be slow.
        for memory in [&mut case.input, &mut case.weights] {
            let mut state = 1u32;
            let floats = (0..memory.bytes() / 4).map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            });
            let floats: Vec<f32> = floats.collect();
            memory.write(0, bytemuck::cast_slice(&floats))?;
        }
        Ok(case)
    }

    fn launch(
        &self,
        algorithm: &Algorithm,
        context: &Context<'_>,
        module: &Module<'_>,
        stream: &Stream<'_>,
    ) -> Result<(), Box<dyn Error>> {
        let call = Call {
            layer: &algorithm.layer,
            inputs: [self.tensors[0], Tensor::zeroed(), Tensor::zeroed()],
            output: self.tensors[1],
            operands: [self.input.address(), 0, 0],
            out: self.output.address(),
            weights: self.weights.address(),
            scratch: self.scratch.address(),
            slice: algorithm.slice,
            multiprocessors: context.attributes().multiprocessors,
        };
        // SAFETY: the record has been validated for memory of these sizes, which lives until the stream has been
        // waited for.
        Ok(run(&call, &mut unsafe { module.launches(stream) })?)
    }

    /// Microseconds of one convolution in each round.
    fn time(
        &self,
        algorithm: &Algorithm,
        [rounds, launches]: [u32; 2],
        context: &Context<'_>,
        module: &Module<'_>,
        stream: &Stream<'_>,
        [start, end]: [&Event<'_>; 2],
    ) -> Result<Vec<f32>, Box<dyn Error>> {
        self.launch(algorithm, context, module, stream)?;
        let mut times = Vec::new();
        for _ in 0..rounds {
            start.record(stream)?;
            for _ in 0..launches {
                self.launch(algorithm, context, module, stream)?;
            }
            end.record(stream)?;
            end.synchronize()?;
            times.push(end.ms_since(start)? * 1e3 / launches as f32);
        }
        Ok(times)
    }
}

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gpu: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Answers commands until there are no more.
fn serve() -> Result<(), Box<dyn Error>> {
    let driver = Driver::load()?;
    let context = Context::open(&driver, 0)?;
    let module = context.load(images())?;
    let stream = context.stream()?;
    let events = [context.timed_event()?, context.timed_event()?];
    let events = [&events[0], &events[1]];
    let mut out = std::io::stdout().lock();
    let attributes = context.attributes();
    writeln!(
        out,
        "gpu {}; {}; {}; {}",
        attributes.name(),
        attributes.arch,
        attributes.multiprocessors,
        driver.version()
    )?;
    out.flush()?;
    let mut case = None;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        match line.trim().split_once(' ') {
            Some(("shape", shape)) => {
                // The old one's memory goes first.
                drop(case.take());
                let new = Case::new(&context, &Shape::parse(shape)?)?;
                let names: Vec<_> = new.algorithms.iter().map(|a| a.name).collect();
                writeln!(out, "algorithms {}", names.join(" "))?;
                case = Some(new);
            }
            Some(("time", counts)) => {
                let case = case.as_ref().ok_or("`time` before `shape`")?;
                let counts: Vec<u32> =
                    counts.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
                let [rounds, launches] = counts[..] else {
                    return Err(format!("`{line}`: two numbers").into());
                };
                let counts = [rounds.max(1), launches.max(1)];
                for algorithm in &case.algorithms {
                    let times = case.time(algorithm, counts, &context, &module, &stream, events)?;
                    let times: Vec<_> = times.iter().map(|us| format!("{us:.3}")).collect();
                    writeln!(out, "{} {}", algorithm.name, times.join(" "))?;
                }
            }
            // `cargo bench` passes options, not lines; an empty line is nothing.
            None if line.trim().is_empty() => continue,
            _ => return Err(format!("`{line}` is no command").into()),
        }
        out.flush()?;
    }
    Ok(())
}
