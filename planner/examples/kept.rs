//! What it is worth that slices of a Winograd convolution keep its transformed inputs: predicted and measured,
//! `cargo run --release -p eyelet-planner --example kept -- profile.toml [height width channels outputs]`.
//!
//! One thread. A layer in one step, in slices that each transform the inputs anew, and in slices that keep them take turns with weights
//! that no cache holds. Every time is the lower quartile of many, in microseconds.

use eyelet::device::Inline;
use eyelet::kernels::Kernels;
use eyelet::matrix::{MatMut, MatRef};
use eyelet::ops::{self, Call, Operand};
use eyelet::pack::{
    Activation, Buffer, Layer, NONE, OpKind, Step, Tensor, WinogradParams, params_words,
};
use eyelet_planner::network::Network;
use eyelet_planner::profile::{Costs, Profile};
use eyelet_planner::slice;
use eyelet_planner::steps::{scratch_bytes, whole};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// Weights are taken from so many floats in turn.
const COLD: usize = 96 << 20;
const TURNS: usize = 25;

/// Height, width, input and output channels of vgg19's layers of 3x3.
const LAYERS: [[u32; 4]; 8] = [
    [112, 112, 64, 128],
    [112, 112, 128, 128],
    [56, 56, 128, 256],
    [56, 56, 256, 256],
    [28, 28, 256, 512],
    [28, 28, 512, 512],
    [14, 14, 512, 512],
    [7, 7, 512, 512],
];

fn network(profile: &Profile, [height, width, channels, outputs]: [u32; 4]) -> Network {
    let tensor = |buffer: u32, channels: u32| Tensor {
        buffer,
        dims: [1, height, width, channels],
        pitch: channels,
        ..Tensor::default()
    };
    let tensors = vec![tensor(0, channels), tensor(1, outputs)];
    let buffers = tensors.iter().map(|t| Buffer { bytes: 4 * t.rows() * u64::from(t.cols()) });
    let nr = profile.isa.panel() as u32;
    let layer = Layer {
        kind: OpKind::Winograd as u32,
        inputs: [0, NONE],
        output: 1,
        activation: Activation::RELU,
        panels: outputs.div_ceil(nr),
        panel_bytes: 4 * nr * (36 * channels + 1),
        params: params_words(&WinogradParams { pad: [1; 2], tile: 4, groups: 1 }),
        ..Layer::default()
    };
    Network {
        name: "layer".into(),
        isa: profile.isa,
        buffers: buffers.collect(),
        tensors,
        layers: vec![layer],
        names: vec!["layer".into()],
        weights: Vec::new(),
        on_load: vec![0],
        inputs: Vec::new(),
        outputs: Vec::new(),
    }
}

/// The layer in so many slices.
fn slices(network: &Network, count: u32, keep: bool) -> Vec<Step> {
    let panels = network.layers[0].panels;
    let at = |index: u32| panels * index / count;
    let step = |index: u32| {
        let (first, end) = (at(index), at(index + 1));
        Step { first, count: end - first, ..whole(network, 0) }
    };
    let mut steps: Vec<Step> = (0..count).map(step).collect();
    if keep {
        slice::keep(&mut steps);
    }
    let most = steps.iter().map(|step| scratch_bytes(network, step, 1)).max().unwrap_or(0);
    steps.iter_mut().for_each(|step| step.scratch_bytes = most);
    steps
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let profile = Profile::load(Path::new(args.first().ok_or("which profile?")?))?;
    let kernels = Kernels::for_isa(profile.isa).ok_or("kernels of another processor")?;
    let extents: Vec<u32> = args[1..].iter().map(|arg| arg.parse()).collect::<Result<_, _>>()?;
    let layers = match <[u32; 4]>::try_from(extents) {
        Ok(layer) => vec![layer],
        Err(_) => LAYERS.to_vec(),
    };
    let weights = vec![0.01f32; COLD];
    for extents in layers {
        let network = network(&profile, extents);
        let costs = Costs::new(&network, &profile, 1);
        let layer = &network.layers[0];
        let [input, output] = [network.tensors[0], network.tensors[1]];
        let panel = layer.panel_bytes as usize / 4;
        let mut ways = vec![("whole", slices(&network, 1, false))];
        let mut count = 2;
        while count <= layer.panels {
            ways.push(("anew", slices(&network, count, false)));
            ways.push(("kept", slices(&network, count, true)));
            count *= 2;
        }
        let floats = |tensor: &Tensor| (tensor.rows() * u64::from(tensor.cols())) as usize;
        let image = vec![0.5f32; floats(&input)];
        let mut made = vec![0.0f32; floats(&output)];
        let most = ways.iter().flat_map(|(_, steps)| steps).map(|step| step.scratch_bytes).max();
        let mut scratch = vec![[0u128; 4]; most.unwrap_or(0) as usize / 64 + 2];
        let scratch: &mut [u8] = bytemuck::cast_slice_mut(&mut scratch);
        let beyond = scratch.as_ptr().align_offset(64);
        let mut oldest = 0;
        let mut times = vec![Vec::new(); ways.len()];
        for _ in 0..TURNS {
            for ((_, steps), times) in ways.iter().zip(&mut times) {
                let all = layer.panels as usize * panel;
                let from = if oldest + all > COLD { 0 } else { oldest };
                oldest = from + all;
                let mut ns = 0.0;
                for step in steps {
                    let first = from + step.first as usize * panel;
                    let (rows, cols) = (output.rows() as usize, output.cols() as usize);
                    let mat =
                        MatRef::new(&image, rows, input.cols() as usize, input.cols() as usize);
                    let call = Call {
                        layer,
                        inputs: [input, Tensor::default()],
                        output,
                        operands: [Operand::Mat(mat.ok_or("no input")?), Operand::Absent],
                        out: MatMut::new(&mut made, rows, cols, cols).ok_or("no output")?,
                        weights: &weights[first..first + step.count as usize * panel],
                        prefetch: Default::default(),
                        first: step.first as usize,
                        count: step.count as usize,
                        method: step.method,
                        rows: 0..rows,
                        scratch: &mut scratch[beyond..beyond + step.scratch_bytes as usize],
                        device: &Inline,
                        kernels,
                    };
                    let begin = Instant::now();
                    ops::run(call);
                    ns += begin.elapsed().as_nanos() as f64;
                }
                times.push(ns);
            }
        }
        let [height, width, channels, outputs] = extents;
        println!("{height}x{width}, {channels} to {outputs} channels");
        for ((name, steps), times) in ways.iter().zip(&mut times) {
            times.sort_by(f64::total_cmp);
            let measured = times[times.len() / 4] / 1e3;
            let predicted = steps.iter().map(|step| costs.step_ns(step)).sum::<u64>() as f64 / 1e3;
            let (count, kib) = (steps.len(), steps[0].scratch_bytes >> 10);
            println!(
                "{count:>4} {name:<6} {kib:>6} KiB: predicted {predicted:>8.0} measured {measured:>8.0} least {:>8.0}",
                times[0] / 1e3
            );
        }
    }
    Ok(())
}
