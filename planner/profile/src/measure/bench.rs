//! Runs of single layers, timed in turns, so that a disturbance of the machine affects all layers, on one thread and on
//! all.
//!
//! A machine's clock, and the share that its neighbours leave, change from second to second. So layers that were measured
//! one after the other could not be compared. The lower quartile of each layer's times counts: it is the time of an
//! undisturbed machine, if the machine is undisturbed for a third of the time or so. A shared processor has two speeds, and
//! whatever lay between them would be one for some layers and the other for the rest. The speed probe measures how fast it
//! was altogether.

use super::Patience;
use super::done::Done;
use bytemuck::{Pod, Zeroable};
use eyelet::arena::MappedArena;
use eyelet::device::Device;
use eyelet::kernels::Kernels;
use eyelet::kernels::table::Packed;
use eyelet::matrix::{MatMut, MatRef};
use eyelet::ops::{self, Call, Operand, Problem, Slice};
use eyelet::pack::{INPUTS, Layer, Method, NONE, PAGE, Tensor};
use eyelet_model::network::Network;
use eyelet_plan::profile::Extremes;
use std::time::Instant;

/// Cold weights are taken from so much memory in turn. Caches keep a part of what goes through them in turn, and of twelve times
/// as much as they hold next to none.
const COLD_BYTES: u64 = 384 << 20;

/// A cache line of memory.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(super) struct Line([u8; 64]);

pub(super) fn lines(bytes: u64) -> Vec<Line> {
    vec![Line([0; 64]); bytes.div_ceil(64) as usize]
}

pub(super) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

/// The mean of the middle half: what something usually takes. A machine that is not one's own is at times several times as slow for a
/// while, which no plan can know; and a median of two kinds of times would be that of one of them.
pub(super) fn usual(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let quarter = times.len() / 4;
    let middle = times.get(quarter..times.len() - quarter).unwrap_or_default();
    middle.iter().sum::<f64>() / middle.len().max(1) as f64
}

/// The lower quartile: what something takes when nothing disturbs it.
pub(super) fn undisturbed(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 4).copied().unwrap_or(0.0)
}

/// Memory for the weights of all layers, as a pack's arena is: with large pages.
pub(super) struct Weights {
    arena: MappedArena,
    bytes: usize,
    /// From here on they were used longest ago.
    oldest: usize,
}

impl Weights {
    /// Much more than caches hold.
    pub(super) fn new() -> Option<Self> {
        Self::of(COLD_BYTES as usize)
    }

    pub(super) fn of(bytes: usize) -> Option<Self> {
        let bytes = bytes.next_multiple_of(PAGE as usize);
        let mut arena = MappedArena::new(bytes).ok()?;
        arena.memory().as_mut_slice().fill(0);
        Some(Self { arena, bytes, oldest: 0 })
    }

    /// The offset of `bytes` free bytes; `None` if there are fewer.
    fn take(&mut self, bytes: usize, state: State) -> Option<usize> {
        let cold = state == State::Cold;
        let fits = |from: usize| from + bytes <= self.bytes;
        let from = if cold && fits(self.oldest) { self.oldest } else { 0 };
        if cold {
            // Weights begin at pages, as loads do.
            self.oldest = (from + bytes).next_multiple_of(PAGE as usize);
        }
        fits(from).then_some(from)
    }
}

/// A layer with memory for everything that it needs.
pub(super) struct Bench<'a> {
    layer: &'a Layer,
    /// The method of its steps, as in [`Network::on_load`].
    method: Method,
    inputs: [Tensor; INPUTS],
    output: Tensor,
    kernels: &'a Kernels,
    data: Vec<Vec<Line>>,
    made: Vec<Line>,
    scratch: Vec<Line>,
}

impl<'a> Bench<'a> {
    /// With all the scratch that it can use, or the `least`; `None` if these kernels cannot run the layer.
    pub(super) fn new(
        network: &'a Network,
        kernels: &'a Kernels,
        threads: usize,
        least: bool,
    ) -> Option<Self> {
        let layer = &network.layers[0];
        let record = |id: u32| network.tensors.get(id as usize).copied().unwrap_or_default();
        let (inputs, output) = (layer.inputs.map(record), record(layer.output));
        let floats = |buffer: usize| network.buffers[buffer].bytes / 4;
        ops::validate(layer, &inputs, &output, [floats(0), floats(INPUTS)], network.isa).ok()?;
        let rows = output.rows() as u32;
        let method = Method::by(network.on_load[0]);
        let slice = Slice { first: 0, count: layer.panels, row: 0, rows, method };
        let isa = network.isa;
        let bytes = if least { ops::least_scratch_bytes } else { ops::scratch_bytes };
        let threads = threads as u32;
        let problem = Problem { layer, inputs: &inputs, output: &output, slice, threads, isa };
        let scratch = bytes(&problem);
        Some(Self {
            layer,
            method,
            inputs,
            output,
            kernels,
            data: network.buffers[..INPUTS].iter().map(|buffer| lines(buffer.bytes)).collect(),
            made: lines(network.buffers[INPUTS].bytes),
            scratch: lines(scratch),
        })
    }

    /// Nanoseconds of runs one after the other, after some that are not counted.
    pub(super) fn turn(
        &mut self,
        device: &dyn Device,
        weights: &mut Weights,
        state: State,
        (idle, counted): (usize, usize),
    ) -> impl Iterator<Item = f64> {
        (0..idle + counted).filter_map(move |_| self.run(device, weights, state)).skip(idle)
    }

    /// Nanoseconds of one run, with weights in such a state.
    pub(super) fn run(
        &mut self,
        device: &dyn Device,
        weights: &mut Weights,
        state: State,
    ) -> Option<f64> {
        let (layer, inputs, output) = (self.layer, self.inputs, self.output);
        let flat = ops::takes_buffers(layer);
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
        let operands = std::array::from_fn(operand);
        let (rows, cols) = (output.rows() as usize, output.cols() as usize);
        let floats: &mut [f32] = bytemuck::cast_slice_mut(&mut self.made);
        let out = match flat {
            true => MatMut::new(floats, 1, rows * cols, rows * cols),
            false => MatMut::new(floats, rows, cols, cols),
        };
        let bytes = layer.panels as usize * layer.panel_bytes as usize;
        let from = weights.take(bytes, state)?;
        let memory = weights.arena.memory();
        let weights = bytemuck::cast_slice(&memory.as_slice()[from..from + bytes]);
        let call = Call {
            layer,
            inputs,
            output,
            operands,
            out: out?,
            weights: Packed::new(weights),
            prefetch: Default::default(),
            first: 0,
            count: layer.panels as usize,
            method: self.method,
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

/// In what state a layer is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
    /// With weights in a cache.
    Warm,
    /// With weights in a cache and the least scratch.
    Cramped,
    /// With weights in memory.
    Cold,
    /// Like [`Warm`](Self::Warm), with everything else where it stays, too.
    Settled,
}

impl State {
    /// Runs of a turn that are not counted. The first brings the device's caches and threads to life. But behind layers that have brought much memory
    /// through the caches a layer becomes faster for forty runs or so.
    pub(super) fn idle_runs(self) -> usize {
        match self {
            Self::Settled => 48,
            Self::Warm | Self::Cramped | Self::Cold => 1,
        }
    }
}

/// Times of layers on each of two devices.
pub(super) struct Times {
    /// The times of each layer, or `None` if these kernels cannot run it.
    pub(super) layers: Vec<Option<[f64; 2]>>,
    /// How steady the devices were, over all layers together.
    pub(super) turns: [Extremes; 2],
}

/// Measures layers in turns as patiently as is said.
pub(super) fn measure(
    layers: &[(Network, State)],
    kernels: &Kernels,
    devices: [&dyn Device; 2],
    patience: Patience,
    done: &Done<'_>,
) -> Times {
    let threads = devices.map(|device| device.threads()).into_iter().max().unwrap_or(1);
    let Some(mut weights) = Weights::new() else {
        return Times { layers: vec![None; layers.len()], turns: [Extremes::of(&[], 0.0); 2] };
    };
    let mut benches: Vec<Option<Bench>> = layers
        .iter()
        .map(|(network, state)| Bench::new(network, kernels, threads, *state == State::Cramped))
        .collect();
    let mut times = vec![[const { Vec::new() }; 2]; layers.len()];
    let begin = Instant::now();
    let mut turn = 0;
    let mut sums: [Vec<f64>; 2] = Default::default();
    while turn < patience.turns || begin.elapsed() < patience.layers {
        sums.iter_mut().for_each(|sums| sums.push(0.0));
        let each = benches.iter_mut().zip(layers).zip(&mut times);
        for (index, ((bench, (_, state)), times)) in each.enumerate() {
            let Some(bench) = bench else { continue };
            let turns = turn as f64 + index as f64 / layers.len() as f64;
            let spent = begin.elapsed().as_secs_f64() / patience.layers.as_secs_f64();
            done.set(spent.min(turns / patience.turns as f64));
            let idle = if patience.settles { state.idle_runs() } else { 0 };
            for ((device, times), sums) in devices.iter().zip(times).zip(&mut sums) {
                let runs = bench.turn(*device, &mut weights, *state, (idle, patience.runs));
                let before = times.len();
                times.extend(runs);
                if let Some(sum) = sums.last_mut() {
                    *sum += times[before..].iter().sum::<f64>();
                }
            }
        }
        turn += 1;
    }
    let found = |times: [Vec<f64>; 2]| {
        let all = times.iter().all(|times| !times.is_empty());
        all.then(|| times.map(|times| undisturbed(times).max(1.0)))
    };
    let layers: Vec<Option<[f64; 2]>> = times.into_iter().map(found).collect();
    let of_device = |device: usize| {
        let turn_ns: f64 = layers.iter().flatten().map(|ns| ns[device]).sum();
        Extremes::of(&sums[device], turn_ns * patience.runs as f64)
    };
    Times { turns: [of_device(0), of_device(1)], layers }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_usual_is_not_what_disturbs() {
        assert_eq!(usual(vec![]), 0.0);
        assert_eq!(usual(vec![2.0, 900.0, 4.0, 0.5]), 3.0);
        assert_eq!(usual(vec![7.0]), 7.0);
        assert_eq!(usual(vec![1.0, 1.0, 3.0, 3.0, 1.0, 3.0, 1.0, 3.0]), 2.0);
        assert_eq!(undisturbed(vec![]), 0.0);
        assert_eq!(undisturbed(vec![7.0]), 7.0);
        // Two thirds of the time a neighbour was there.
        assert_eq!(undisturbed(vec![3.0, 3.0, 1.0, 3.0, 1.5, 3.0, 1.0, 3.0, 4.0]), 1.5);
    }
}
