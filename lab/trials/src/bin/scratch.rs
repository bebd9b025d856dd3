//! What scratch is worth to steps that transform their weights: predicted and measured, from the least to all that they can use:
//! `cargo run --release --manifest-path lab/Cargo.toml --bin scratch -- model.onnx [profile.toml]`.
//!
//! One thread. All amounts of scratch of a layer, and the direct algorithm, take turns with weights that no cache holds; every time is
//! a median.

use eyelet::device::Inline;
use eyelet::kernels::Kernels;
use eyelet::kernels::table::Packed;
use eyelet::matrix::{MatMut, MatRef};
use eyelet::ops::{self, Call, Operand};
use eyelet::pack::{INPUTS, Method, PAGE, Step};
use eyelet_planner::network::Network;
use eyelet_planner::profile::{Costs, Profile};
use eyelet_planner::steps::{least_scratch_bytes, scratch_bytes, whole};
use eyelet_planner::{board, import, layout, passes};
use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// Weights are taken from so many bytes in turn.
const COLD_BYTES: usize = 384 << 20;
const TURNS: usize = 15;

/// Amounts of scratch, each a factor more than the one before.
const AMOUNTS: u32 = 7;

/// Floats that begin at a cache line.
struct Floats {
    lines: Vec<[u128; 4]>,
}

impl Floats {
    fn new(bytes: u64) -> Self {
        Self { lines: vec![[0; 4]; bytes.div_ceil(64) as usize + 1] }
    }

    fn bytes(&mut self) -> &mut [u8] {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.lines);
        let beyond = bytes.as_ptr().align_offset(64);
        &mut bytes[beyond..]
    }

    fn floats(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(self.bytes())
    }
}

/// What a layer's step computes with.
struct Memory {
    weights: Floats,
    oldest: usize,
    data: [Floats; INPUTS],
    made: Floats,
    scratch: Floats,
}

impl Memory {
    fn ns(&mut self, network: &Network, step: &Step, kernels: &Kernels) -> Option<f64> {
        let layer = &network.layers[step.layer as usize];
        let record = |id: u32| network.tensors.get(id as usize).copied().unwrap_or_default();
        let (inputs, output) = (layer.inputs.map(record), record(layer.output));
        let mut operands = [const { Operand::Absent }; INPUTS];
        for (slot, data) in self.data.iter_mut().enumerate() {
            let (rows, cols) = (inputs[slot].rows() as usize, inputs[slot].cols() as usize);
            if let Some(mat) = MatRef::new(data.floats(), rows, cols, cols) {
                operands[slot] = if cols == 0 { Operand::Absent } else { Operand::Mat(mat) };
            }
        }
        let (rows, cols) = (output.rows() as usize, output.cols() as usize);
        let bytes = layer.panels as usize * layer.panel_bytes as usize;
        let from = if self.oldest + bytes > COLD_BYTES { 0 } else { self.oldest };
        self.oldest = (from + bytes).next_multiple_of(PAGE as usize);
        let call = Call {
            layer,
            inputs,
            output,
            operands,
            out: MatMut::new(self.made.floats(), rows, cols, cols)?,
            weights: Packed::new(&self.weights.floats()[from / 4..(from + bytes) / 4]),
            prefetch: Default::default(),
            first: 0,
            count: layer.panels as usize,
            method: step.method,
            rows: 0..rows,
            scratch: &mut self.scratch.bytes()[..step.scratch_bytes as usize],
            device: &Inline,
            kernels,
        };
        let begin = Instant::now();
        ops::run(call);
        Some(begin.elapsed().as_nanos() as f64)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let model = args.next().ok_or("which model?")?;
    let profile = match args.next() {
        Some(path) => Profile::load(Path::new(&path))?,
        None => board::host()?.profile,
    };
    let graph = import::import(Path::new(&model)).map_err(|error| error.to_string())?;
    let mut network = passes::lower(&graph, profile.isa)?;
    layout::place_weights(&mut network);
    let kernels = Kernels::for_isa(profile.isa).ok_or("kernels of another processor")?;
    let costs = Costs::new(&network, &profile, 1);
    let mut memory = Memory {
        weights: Floats::new(COLD_BYTES as u64),
        oldest: 0,
        data: [0; INPUTS].map(Floats::new),
        made: Floats::new(0),
        scratch: Floats::new(0),
    };
    memory.weights.floats().fill(0.01);
    let mut seen = BTreeSet::new();
    println!("{:>24} {:>8} | scratch KiB: us predicted, measured, ratio", "output", "channels");
    for layer in 0..network.layers.len() {
        let record = &network.layers[layer];
        let tensor = |id: u32| network.tensors.get(id as usize).copied().unwrap_or_default();
        let (inputs, output) = (record.inputs.map(tensor), tensor(record.output));
        let shape = (output.dims, inputs[0].dims);
        let mut steps = Vec::new();
        for algorithm in costs.on_load(layer) {
            let step = Step { method: Method::by(algorithm), ..whole(&network, layer) };
            let [least, all] =
                [least_scratch_bytes, scratch_bytes].map(|of| of(&network, &step, 1));
            let factor = (all as f64 / least as f64).powf(1.0 / f64::from(AMOUNTS - 1));
            let amounts = (0..AMOUNTS).map(|at| least as f64 * factor.powi(at as i32));
            steps.extend(amounts.map(|bytes| Step {
                scratch_bytes: (bytes.round() as u64).clamp(least, all) / 64 * 64,
                ..step
            }));
        }
        if steps.is_empty() || !seen.insert(shape) {
            continue;
        }
        let direct = Step { method: Method::default(), ..whole(&network, layer) };
        steps.push(Step { scratch_bytes: scratch_bytes(&network, &direct, 1), ..direct });
        memory.data = inputs.map(|input| Floats::new(4 * input.rows() * u64::from(input.cols())));
        memory.data.iter_mut().for_each(|data| data.floats().fill(0.5));
        memory.made = Floats::new(4 * output.rows() * u64::from(output.cols()));
        memory.scratch =
            Floats::new(steps.iter().map(|step| step.scratch_bytes).max().unwrap_or(0));
        let mut times = vec![Vec::new(); steps.len()];
        for _ in 0..TURNS {
            for (step, times) in steps.iter().zip(&mut times) {
                times.extend(memory.ns(&network, step, kernels));
            }
        }
        for (at, (step, times)) in steps.iter().zip(&mut times).enumerate() {
            if at % AMOUNTS as usize == 0 {
                let extents = output.dims.map(|extent| extent.to_string()).join("x");
                let algorithm = match step.algorithm() {
                    0 => "direct".into(),
                    tile => format!("F({tile},3)"),
                };
                print!("{extents:>24} {:>8} {algorithm}:", inputs[0].cols());
            }
            times.sort_by(f64::total_cmp);
            let measured = times.get(times.len() / 2).copied().unwrap_or(0.0) / 1e3;
            let predicted = costs.step_ns(step) as f64 / 1e3;
            let ratio = measured / predicted;
            print!(" {}: {predicted:.0} {measured:.0} {ratio:.2};", step.scratch_bytes >> 10);
            if at % AMOUNTS as usize == AMOUNTS as usize - 1 || at == steps.len() - 1 {
                println!();
            }
        }
    }
    Ok(())
}
