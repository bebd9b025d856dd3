//! Helpers of the tests of operators on a GPU: steps in poisoned memory, and which kernels ran.

use super::Call;
use crate::device::DeviceError;
use crate::device::accelerator::{Launch, Queue};
use crate::device::cuda::testing::{Gpu, assert_same};
use crate::kernels::table::cuda::Function;
use crate::ops::{self, Problem, Slice};
use crate::pack::{Encoding, INPUTS, Isa, Layer, NONE, OpKind, Tensor};
use std::prelude::rust_2024::*;
use std::vec;

/// A GPU that remembers which kernels it was given.
pub struct Recorder {
    pub gpu: Gpu,
    pub seen: Vec<Function>,
}

impl Recorder {
    pub fn new() -> Self {
        Self { gpu: Gpu::new(), seen: vec![] }
    }

    /// Asserts that all kernels whose names begin so have run.
    pub fn assert_seen(&self, prefixes: &[&str]) {
        for function in Function::ALL {
            let name = std::format!("{function:?}");
            let meant = prefixes.iter().any(|prefix| name.starts_with(prefix));
            assert!(!meant || self.seen.contains(function), "no case is computed by {name}");
        }
    }
}

impl Queue for Recorder {
    fn launch(&mut self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        if !self.seen.contains(&launch.function) {
            self.seen.push(launch.function);
        }
        self.gpu.launch(launch)
    }
}

/// Where the tensors of a layer are on the GPU.
struct Placed {
    operands: [u64; INPUTS],
    out: u64,
}

/// Steps of a layer, one after the other. Memory of a step's weights ends where its panels do; its
/// scratch is poisoned.
fn run_steps(
    queue: &mut Recorder,
    (layer, inputs, output): (&Layer, [Tensor; INPUTS], Tensor),
    placed: &Placed,
    weights: &[u8],
    slices: &[Slice],
    multiprocessors: u32,
) {
    for slice in slices {
        let valid = ops::validate_slice(&Problem {
            layer,
            inputs: &inputs,
            output: &output,
            slice: *slice,
            threads: 1,
            isa: Isa::Cuda,
        });
        assert_eq!(valid, Ok(()), "{slice:?} of {layer:?}");
        let panel = layer.panel_bytes as usize;
        let panels = match OpKind::from_code(layer.kind).unwrap().has_panels() {
            true => &weights[slice.first as usize * panel..][..slice.count as usize * panel],
            false => weights,
        };
        let weights = queue.gpu.upload(panels);
        let bytes = ops::scratch_bytes(&Problem {
            layer,
            inputs: &inputs,
            output: &output,
            slice: *slice,
            threads: 1,
            isa: Isa::Cuda,
        });
        let scratch = queue.gpu.poison(bytes as usize);
        let call = Call {
            layer,
            inputs,
            output,
            operands: core::array::from_fn(|i| match layer.inputs[i] {
                NONE => 0,
                _ => placed.operands[i],
            }),
            out: placed.out,
            weights: weights.address(),
            scratch: scratch.address(),
            slice: *slice,
            multiprocessors,
        };
        super::run(&call, queue).unwrap();
    }
}

/// All panels, each panel by itself, and two uneven parts.
fn slicings(layer: &Layer, output: &Tensor) -> Vec<Vec<Slice>> {
    let (panels, rows) = (layer.panels, output.rows() as u32);
    let slice = |first, count| Slice { first, count, row: 0, rows, ..Slice::default() };
    let cut = panels.div_ceil(3);
    let mut all = vec![vec![slice(0, panels)]];
    if panels > 1 {
        all.push((0..panels).map(|first| slice(first, 1)).collect());
    }
    if panels > 2 {
        all.push(vec![slice(0, cut), slice(cut, panels - cut)]);
    }
    all
}

/// A layer with its data, in tensors that begin their buffers.
#[derive(Debug)]
pub struct Run<'a> {
    pub layer: Layer,
    pub inputs: [Tensor; INPUTS],
    pub output: Tensor,
    pub data: [&'a [f32]; INPUTS],
    /// Panels, as they are stored.
    pub weights: &'a [u8],
    /// The contents of the output before; the second input, if that is in place.
    pub before: &'a [f32],
    pub in_place: bool,
}

impl Run<'_> {
    /// All panels, each panel by itself, and two uneven parts.
    pub fn slicings(&self) -> Vec<Vec<Slice>> {
        slicings(&self.layer, &self.output)
    }

    /// The output without its gaps, which must not change.
    pub fn on(&self, queue: &mut Recorder, multiprocessors: u32, slices: &[Slice]) -> Vec<f32> {
        let Self { layer, inputs, output, .. } = self;
        let buffers = [inputs[0].rows() * u64::from(inputs[0].pitch), u64::MAX];
        assert_eq!(ops::validate(layer, inputs, output, buffers, Isa::Cuda), Ok(()));
        let out = queue.gpu.upload(self.before);
        let data = self.data.map(|data| queue.gpu.upload(data));
        let mut operands = core::array::from_fn(|side| data[side].address());
        if self.in_place {
            operands[1] = out.address();
        }
        let placed = Placed { operands, out: out.address() };
        let records = (layer, *inputs, *output);
        run_steps(queue, records, &placed, self.weights, slices, multiprocessors);
        let found = queue.gpu.download::<f32>(&out);
        let (pitch, cols) = (output.pitch as usize, output.cols() as usize);
        let mut dense = vec![];
        for (at, (x, before)) in found.iter().zip(self.before).enumerate() {
            match at % pitch < cols && at / pitch < output.rows() as usize {
                true => dense.push(*x),
                false => assert_eq!(x.to_bits(), before.to_bits(), "a gap was written to: {at}"),
            }
        }
        dense
    }
}

/// A layer with its data, in buffers: whatever its records say.
#[derive(Clone, Copy, Debug)]
pub struct OnGpu<'a> {
    pub layer: &'a Layer,
    pub inputs: [Tensor; INPUTS],
    pub output: Tensor,
    /// The inputs' buffers.
    pub data: [&'a [f32]; INPUTS],
    /// The output's buffer, with what it holds before.
    pub out: &'a [f32],
    /// All panels, as they are stored.
    pub weights: &'a [f32],
}

impl OnGpu<'_> {
    /// The output's whole buffer: the same for all slicings, and with launches that are chosen for
    /// small GPUs and large ones.
    pub fn run_everywhere(&self) -> Vec<f32> {
        let whole = &slicings(self.layer, &self.output)[..1];
        let all = match OpKind::from_code(self.layer.kind).unwrap().has_panels() {
            true => &slicings(self.layer, &self.output)[..],
            false => whole,
        };
        let found = self.run(&whole[0], 1);
        for (slices, multiprocessors) in all.iter().zip([100, 4, 16]) {
            let again = self.run(slices, multiprocessors);
            assert_same(&again, &found, &(slices, multiprocessors, self));
        }
        found
    }

    /// The output's whole buffer after these steps.
    pub fn run(&self, slices: &[Slice], multiprocessors: u32) -> Vec<f32> {
        let Self { layer, inputs, output, .. } = self;
        let buffers = [self.data[0].len() as u64, self.out.len() as u64];
        let valid = ops::validate(layer, inputs, output, buffers, Isa::Cuda);
        assert_eq!(valid, Ok(()), "{self:?}");
        let mut queue = Recorder::new();
        let data = self.data.map(|data| queue.gpu.upload(data));
        let out = queue.gpu.upload(self.out);
        // Copies address their tensors' buffers, the others what is in them.
        let whole = layer.kind == OpKind::Copy as u32;
        let first = |tensor: &Tensor| if whole { 0 } else { 4 * u64::from(tensor.offset) };
        let out_address = out.address() + first(output);
        let operands = core::array::from_fn(|slot| match layer.inputs[slot] == layer.output {
            true => out_address,
            false => data[slot].address() + first(&inputs[slot]),
        });
        let placed = Placed { operands, out: out_address };
        let weights = bytemuck::cast_slice(self.weights);
        run_steps(&mut queue, (layer, *inputs, *output), &placed, weights, slices, multiprocessors);
        queue.gpu.download(&out)
    }
}

/// A weight of magnitude below 1 in 16 bits, cut off.
fn halved(x: f32, encoding: Encoding) -> u16 {
    let bits = x.to_bits();
    match encoding {
        Encoding::Bf16 => (bits >> 16) as u16,
        _ => {
            let sign = (bits >> 16) as u16 & 0x8000;
            let x = x.abs();
            sign | if x < 1.0 / 16384.0 {
                (x * (1 << 24) as f32) as u16
            } else {
                ((x.to_bits() >> 13) - (112 << 10)) as u16
            }
        }
    }
}

/// The weights after storing them in `encoding`.
pub fn rounded(weights: &[f32], encoding: Encoding) -> Vec<f32> {
    use crate::kernels::table::{bf16, f16};
    let one = |x: &f32| match encoding {
        Encoding::F32 => *x,
        Encoding::F16 => f16(halved(*x, encoding)),
        Encoding::Bf16 => bf16(halved(*x, encoding)),
        Encoding::I8 => unreachable!("GPUs read none"),
    };
    weights.iter().map(one).collect()
}

/// Panels of floats, `panel` floats each, as they are stored.
pub fn stored(packed: &[f32], panel: usize, encoding: Encoding) -> Vec<u8> {
    let mut bytes = vec![];
    for panel in packed.chunks_exact(panel) {
        let (bias, weights) = panel.split_at(Isa::Cuda.panel());
        bytes.extend_from_slice(bytemuck::cast_slice(bias));
        match encoding {
            Encoding::F32 => bytes.extend_from_slice(bytemuck::cast_slice(weights)),
            _ => weights.iter().for_each(|x| bytes.extend(halved(*x, encoding).to_le_bytes())),
        }
        bytes.resize(bytes.len().next_multiple_of(32), 0);
    }
    bytes
}
