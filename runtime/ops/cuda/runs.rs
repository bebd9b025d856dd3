//! What the tests of the operators on a GPU share: steps in poisoned memory, and which kernels ran.

use super::{Call, Launch, Queue};
use crate::device::DeviceError;
use crate::device::cuda::testing::Gpu;
use crate::kernels::Isa;
use crate::kernels::table::cuda::Function;
use crate::ops::{self, Slice};
use crate::pack::{Encoding, Layer, NONE, Tensor};
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

/// A layer with its data, in tensors that begin their buffers.
#[derive(Debug)]
pub struct Run<'a> {
    pub layer: Layer,
    pub inputs: [Tensor; 2],
    pub output: Tensor,
    pub data: [&'a [f32]; 2],
    /// Panels, as they are stored.
    pub weights: &'a [u8],
    /// What is in the output before; the second input, if that is in place.
    pub before: &'a [f32],
    pub in_place: bool,
}

impl Run<'_> {
    /// All panels, each panel by itself, and two uneven parts.
    pub fn slicings(&self) -> Vec<Vec<Slice>> {
        let panels = self.layer.panels;
        let rows = self.output.rows() as u32;
        let slice = |first, count| Slice { first, count, row: 0, rows, algorithm: 0 };
        let cut = (panels + 2) / 3;
        let mut all = vec![vec![slice(0, panels)]];
        if panels > 1 {
            all.push((0..panels).map(|first| slice(first, 1)).collect());
        }
        if panels > 2 {
            all.push(vec![slice(0, cut), slice(cut, panels - cut)]);
        }
        all
    }

    /// The output without its gaps, which must not change. Memory of a slice ends where its panels do.
    pub fn on(&self, queue: &mut Recorder, multiprocessors: u32, slices: &[Slice]) -> Vec<f32> {
        let Self { layer, inputs, output, .. } = self;
        let buffers = [inputs[0].rows() * u64::from(inputs[0].pitch), u64::MAX];
        assert_eq!(ops::validate(layer, inputs, output, buffers, Isa::Cuda), Ok(()));
        let out = queue.gpu.upload(self.before);
        let data = self.data.map(|data| queue.gpu.upload(data));
        let mut operands = [0, 1].map(|side| data[side].address());
        if self.in_place {
            operands[1] = out.address();
        }
        for slice in slices {
            assert_eq!(ops::validate_slice(layer, inputs, output, slice, Isa::Cuda), Ok(()));
            let panel = layer.panel_bytes as usize;
            let first = slice.first as usize * panel;
            let weights = &self.weights[first..first + slice.count as usize * panel];
            let weights = queue.gpu.upload(weights);
            let bytes = ops::scratch_bytes(layer, inputs, output, slice, 1, Isa::Cuda);
            let scratch = queue.gpu.poison(bytes as usize);
            let call = Call {
                layer,
                inputs: *inputs,
                output: *output,
                operands: [0, 1].map(|i| if layer.inputs[i] == NONE { 0 } else { operands[i] }),
                out: out.address(),
                weights: weights.address(),
                scratch: scratch.address(),
                slice: *slice,
                multiprocessors,
            };
            super::run(&call, queue).unwrap();
        }
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

/// What is left of weights that are stored so.
pub fn rounded(weights: &[f32], encoding: Encoding) -> Vec<f32> {
    use crate::kernels::table::{bf16, f16};
    let one = |x: &f32| match encoding {
        Encoding::F32 => *x,
        Encoding::F16 => f16(halved(*x, encoding)),
        Encoding::Bf16 => bf16(halved(*x, encoding)),
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
    }
    bytes
}
