//! Layers on a GPU, for the operators' tests: tensors and weights are copied there, steps run, and all of the output's
//! buffer comes back.

use super::{Call, run, scratch_bytes};
use crate::device::cuda::testing::Gpu;
use crate::kernels::Isa;
use crate::ops::{self, Slice};
use crate::pack::{Layer, NONE, OpKind, Tensor};
use std::vec::Vec;

/// A layer with its data.
#[derive(Clone, Copy, Debug)]
pub struct OnGpu<'a> {
    pub layer: &'a Layer,
    pub inputs: [Tensor; 2],
    pub output: Tensor,
    /// The inputs' buffers.
    pub data: [&'a [f32]; 2],
    /// The output's buffer, with what it holds before.
    pub out: &'a [f32],
    /// All panels, as they are stored.
    pub weights: &'a [f32],
}

impl OnGpu<'_> {
    /// The whole layer: what a step of it makes.
    pub fn whole(&self) -> Slice {
        let rows = self.output.rows() as u32;
        Slice { first: 0, count: self.layer.panels, row: 0, rows, algorithm: 0 }
    }

    /// The output's buffer, the same after one step for all panels, and after one for each. Launches that are chosen for
    /// a small GPU and for a large one make no difference.
    pub fn run_everywhere(&self) -> Vec<f32> {
        let whole = self.whole();
        let found = self.run(&[whole], 1);
        let mut ways = std::vec![(std::vec![whole], 100)];
        if OpKind::from_code(self.layer.kind).unwrap().has_panels() && self.layer.panels > 1 {
            let panels = 0..self.layer.panels;
            ways.push((panels.map(|first| Slice { first, count: 1, ..whole }).collect(), 4));
            ways.push((
                [(0, 1), (1, self.layer.panels - 1)]
                    .map(|(first, count)| Slice { first, count, ..whole })
                    .to_vec(),
                16,
            ));
        }
        for (slices, multiprocessors) in ways {
            let again = self.run(&slices, multiprocessors);
            for (at, (x, y)) in found.iter().zip(&again).enumerate() {
                let same = x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
                assert!(same, "{at}: {x}, not {y}, in {slices:?} on {multiprocessors}: {self:?}");
            }
        }
        found
    }

    /// The output's buffer after these steps.
    pub fn run(&self, slices: &[Slice], multiprocessors: u32) -> Vec<f32> {
        let buffers = [self.data[0].len() as u64, self.out.len() as u64];
        let valid = ops::validate(self.layer, &self.inputs, &self.output, buffers, Isa::Cuda);
        assert_eq!(valid, Ok(()), "{self:?}");
        let mut gpu = Gpu::new();
        let data = self.data.map(|data| gpu.upload(data));
        let out = gpu.upload(self.out);
        let weights = gpu.upload(self.weights);
        // Copies address their tensors' buffers, the others what is in them.
        let whole = self.layer.kind == OpKind::Copy as u32;
        let first = |tensor: &Tensor| if whole { 0 } else { 4 * u64::from(tensor.offset) };
        let out_address = out.address() + first(&self.output);
        let operands = [0, 1].map(|slot| match self.layer.inputs[slot] {
            NONE => 0,
            input if input == self.layer.output => out_address,
            _ => data[slot].address() + first(&self.inputs[slot]),
        });
        for slice in slices {
            let valid =
                ops::validate_slice(self.layer, &self.inputs, &self.output, slice, Isa::Cuda);
            assert_eq!(valid, Ok(()), "{self:?}");
            let bytes = scratch_bytes(self.layer, &self.inputs, &self.output, slice);
            let scratch = gpu.poison(bytes as usize);
            let call = Call {
                layer: self.layer,
                inputs: self.inputs,
                output: self.output,
                operands,
                out: out_address,
                weights: weights.address()
                    + u64::from(slice.first) * u64::from(self.layer.panel_bytes),
                scratch: scratch.address(),
                slice: *slice,
                multiprocessors,
            };
            run(&call, &mut gpu).unwrap();
        }
        gpu.download(&out)
    }
}
