//! What the operators' tests share: tensors with gaps around them, and layers that are run on several
//! numbers of threads and in several slices, which must make no difference.

use super::{
    Call, LayerError, Operand, Reads, Slice, least_scratch_bytes, reads, scratch_bytes, sliceable,
    validate, validate_slice,
};
use crate::arena::{MatMut, MatRef};
pub use crate::kernels::testing::Threads;
use crate::kernels::testing::{assert_same, available, scratch};
use crate::kernels::{Isa, Kernels};
use crate::pack::{
    Activation, ActivationKind, BinaryOp, BinaryParams, Layer, LrnParams, NONE, OpKind, PoolParams,
    ReduceParams, Tensor, params_words,
};
use core::ops::Range;
use std::prelude::rust_2024::*;
use std::vec;

mod slide;
pub use slide::Slide;

/// Xorshift.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit
    }

    /// In [-1, 1).
    pub fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// A layer without tensors and weights.
pub fn layer<P: bytemuck::Pod>(kind: OpKind, activation: Activation, params: &P) -> Layer {
    Layer {
        kind: kind as u32,
        inputs: [NONE; 2],
        output: 2,
        activation,
        panels: 0,
        panel_bytes: 0,
        encoding: 0,
        weights: 0,
        params: params_words(params),
    }
}

/// |found - truth| over the larger of |truth| and `floor`; infinite where only one is NaN.
pub fn relative_error(found: f32, truth: f64, floor: f64) -> f64 {
    let found = found as f64;
    if found == truth || (found.is_nan() && truth.is_nan()) {
        return 0.0;
    }
    let error = (found - truth).abs() / truth.abs().max(floor);
    if error.is_nan() { f64::INFINITY } else { error }
}

/// What stands outside of the tensors.
const GAP: f32 = -12345.5;

/// A layer with its tensors, each in a buffer of its own, with gaps.
#[derive(Clone)]
pub struct Case {
    pub layer: Layer,
    pub inputs: [Tensor; 2],
    pub output: Tensor,
    pub data: [Vec<f32>; 2],
    pub out: Vec<f32>,
    pub weights: Vec<f32>,
}

/// A tensor somewhere in a buffer that is a little larger.
fn place(random: &mut Random, buffer: u32, dims: [u32; 4], gaps: bool) -> (Tensor, usize) {
    let gap = |random: &mut Random| if gaps { random.below(4) } else { 0 };
    let (offset, pitch) = (gap(random), dims[3] as usize + gap(random));
    let rows = dims[..3].iter().product::<u32>() as usize;
    let len = offset + rows * pitch + gap(random);
    (Tensor { buffer, offset: offset as u32, dims, pitch: pitch as u32 }, len)
}

impl Case {
    /// Inputs of the given extents with random values in [-8, 8), placed with gaps.
    pub fn new(layer: Layer, random: &mut Random, inputs: &[[u32; 4]], output: [u32; 4]) -> Self {
        Self::place(layer, random, inputs, output, true)
    }

    /// The same without gaps.
    pub fn contiguous(
        layer: Layer,
        random: &mut Random,
        inputs: &[[u32; 4]],
        output: [u32; 4],
    ) -> Self {
        Self::place(layer, random, inputs, output, false)
    }

    fn place(
        mut layer: Layer,
        random: &mut Random,
        inputs: &[[u32; 4]],
        output: [u32; 4],
        gaps: bool,
    ) -> Self {
        let mut tensors = [Tensor::default(); 2];
        let mut data = [vec![], vec![]];
        for (index, dims) in inputs.iter().enumerate() {
            let (tensor, len) = place(random, index as u32, *dims, gaps);
            tensors[index] = tensor;
            data[index] = vec![GAP; len];
            layer.inputs[index] = index as u32;
            for at in elements(&tensor) {
                data[index][at] = random.float() * 8.0;
            }
        }
        let (output, len) = place(random, 2, output, gaps);
        Self { layer, inputs: tensors, output, data, out: vec![GAP; len], weights: vec![] }
    }

    /// The same layer, with the output in the place of an input.
    pub fn in_place(&self, input: usize) -> Self {
        let mut case = self.clone();
        case.layer.output = case.layer.inputs[input];
        case.output = case.inputs[input];
        case.out = case.data[input].clone();
        case
    }

    /// Element `at` (row-major, without gaps) of an input.
    pub fn input(&self, input: usize, at: usize) -> f64 {
        let tensor = &self.inputs[input];
        let cols = tensor.dims[3] as usize;
        let at = tensor.offset as usize + at / cols * tensor.pitch as usize + at % cols;
        self.data[input][at] as f64
    }

    pub fn validate(&self) -> Result<(), LayerError> {
        self.validate_for(Isa::Portable)
    }

    fn validate_for(&self, isa: Isa) -> Result<(), LayerError> {
        let buffers = [self.data[0].len() as u64, self.out.len() as u64];
        validate(&self.layer, &self.inputs, &self.output, buffers, isa)
    }

    fn operand(&self, input: usize) -> Operand<'_> {
        let tensor = &self.inputs[input];
        let data = &self.data[input][..];
        if self.layer.inputs[input] == NONE {
            return Operand::Absent;
        }
        if self.layer.inputs[input] == self.layer.output {
            return Operand::Output;
        }
        if self.layer.kind == OpKind::Copy as u32 {
            return Operand::Mat(MatRef::new(data, 1, data.len(), data.len()).unwrap());
        }
        let (rows, pitch) = (tensor.rows() as usize, tensor.pitch as usize);
        let data = &data[tensor.offset as usize..];
        Operand::Mat(MatRef::new(data, rows, tensor.dims[3] as usize, pitch).unwrap())
    }

    /// Runs the valid layer in slices of `rows` rows and returns the output's buffer.
    pub fn run(&self, threads: usize, rows: u32) -> Vec<f32> {
        self.run_with(Kernels::PORTABLE, threads, rows)
    }

    fn run_with(&self, kernels: &Kernels, threads: usize, rows: u32) -> Vec<f32> {
        let all = self.output.rows() as u32;
        let count = self.layer.panels;
        let slice = |row| Slice { first: 0, count, row, rows: rows.min(all - row), algorithm: 0 };
        let slices: Vec<Slice> = (0..all).step_by(rows as usize).map(slice).collect();
        let share = if slices.len() == 1 { 1.0 } else { 0.3 };
        self.run_sliced(kernels, threads, &slices, share)
    }

    /// Runs the valid layer in these slices, with this share of the scratch that it can do without, and returns the output's
    /// buffer.
    pub fn run_sliced(
        &self,
        kernels: &Kernels,
        threads: usize,
        slices: &[Slice],
        share: f64,
    ) -> Vec<f32> {
        let mut buffer = self.out.clone();
        let (inputs, output, isa) = (&self.inputs, &self.output, kernels.isa());
        for slice in slices {
            validate_slice(&self.layer, inputs, output, slice, isa).unwrap();
            let bytes = |of: fn(&Layer, &_, &_, &_, u32, Isa) -> u64| {
                of(&self.layer, inputs, output, slice, threads as u32, isa)
            };
            let (least, all) = (bytes(least_scratch_bytes), bytes(scratch_bytes));
            let bytes = least + ((all - least) as f64 * share) as u64 / 64 * 64;
            let out = if self.layer.kind == OpKind::Copy as u32 {
                let len = buffer.len();
                MatMut::new(&mut buffer, 1, len, len).unwrap()
            } else {
                MatMut::new(
                    &mut buffer[output.offset as usize..],
                    output.rows() as usize,
                    output.dims[3] as usize,
                    output.pitch as usize,
                )
                .unwrap()
            };
            let panel = self.layer.panel_bytes as usize / 4;
            let weights = &self.weights[slice.first as usize * panel..];
            let mut scratch = scratch(bytes);
            super::run(Call {
                layer: &self.layer,
                inputs: self.inputs,
                output: self.output,
                operands: [self.operand(0), self.operand(1)],
                out,
                weights,
                algorithm: slice.algorithm,
                first: slice.first as usize,
                count: slice.count as usize,
                rows: slice.row as usize..(slice.row + slice.rows) as usize,
                scratch: bytemuck::cast_slice_mut(&mut scratch),
                device: &Threads(threads),
                kernels,
            });
        }
        buffer
    }

    /// Runs the layer on one to five threads, whole and in slices, and with the kernels of every instruction
    /// set: the results must have the same bits, and what is not the output must not change. Returns the output, row-major, without gaps.
    pub fn run_everywhere(&self) -> Vec<f32> {
        assert_eq!(self.validate(), Ok(()));
        let rows = self.output.rows() as u32;
        let buffer = self.run(1, rows);
        let mut ways = vec![(2, rows), (3, rows), (5, rows)];
        if sliceable(OpKind::from_code(self.layer.kind).unwrap()) && rows < 200 {
            ways.extend([(1, 1), (2, rows.div_ceil(3)), (3, rows.div_ceil(2))]);
        }
        for (threads, slice) in ways {
            let again = self.run(threads, slice);
            for (at, (x, y)) in buffer.iter().zip(&again).enumerate() {
                assert_eq!(x.to_bits(), y.to_bits(), "{at}: {threads} threads, {slice} rows");
            }
        }
        // Panels of weights are as wide as the portable kernels'.
        let fits = |kernels: &&Kernels| self.validate_for(kernels.isa()) == Ok(());
        for kernels in available().into_iter().filter(fits) {
            for threads in [1, 3] {
                let again = self.run_with(kernels, threads, rows);
                assert_same(&again, &buffer, kernels.isa().name());
            }
        }
        #[cfg(any(feature = "cuda", feature = "cuda-linked"))]
        if self.validate_for(Isa::Cuda) == Ok(()) {
            assert_same(&self.on_gpu().run_everywhere(), &buffer, "on a GPU");
        }
        let elements: Vec<usize> = elements(&self.output).collect();
        let mut gaps = self.out.clone();
        for at in &elements {
            gaps[*at] = buffer[*at];
        }
        assert_eq!(bits(&gaps), bits(&buffer), "written outside of the output");
        let dense: Vec<f32> = elements.iter().map(|at| buffer[*at]).collect();
        self.slide(&dense);
        dense
    }

    /// The layer for a GPU.
    #[cfg(any(feature = "cuda", feature = "cuda-linked"))]
    pub fn on_gpu(&self) -> super::cuda::testing::OnGpu<'_> {
        super::cuda::testing::OnGpu {
            layer: &self.layer,
            inputs: self.inputs,
            output: self.output,
            data: [&self.data[0], &self.data[1]],
            out: &self.out,
            weights: &self.weights,
        }
    }

    /// Runs a layer of one image in rings, if its operator works in rings.
    fn slide(&self, whole: &[f32]) {
        let kind = OpKind::from_code(self.layer.kind).unwrap();
        if reads(kind)[0] == Reads::Whole || whole.len() > 20_000 {
            return;
        }
        let part = |data: &'_ [f32], tensor: &Tensor| data[tensor.offset as usize..].to_vec();
        let inputs = [0, 1].map(|slot| part(&self.data[slot], &self.inputs[slot]));
        let slide = Slide {
            layer: &self.layer,
            inputs: self.inputs,
            output: self.output,
            data: [&inputs[0], &inputs[1]],
            out: &part(&self.out, &self.output),
            weights: &self.weights,
        };
        let fits = |kernels: &&Kernels| self.validate_for(kernels.isa()) == Ok(());
        for kernels in available().into_iter().filter(fits) {
            slide.check(kernels, whole, kernels.isa().name());
        }
    }

    /// Compares an output with a reference by element, relative to the larger of the truth and 1.
    pub fn assert_close(&self, found: &[f32], tolerance: f64, truth: impl Fn(usize) -> f64) {
        for (at, x) in found.iter().enumerate() {
            let error = relative_error(*x, truth(at), 1.0);
            assert!(error <= tolerance, "element {at} is {x}, not {}", truth(at));
        }
    }
}

/// Where the elements of a tensor lie in its buffer.
fn elements(tensor: &Tensor) -> impl Iterator<Item = usize> {
    let tensor = *tensor;
    (0..tensor.rows() as usize).flat_map(move |row| {
        let start = tensor.offset as usize + row * tensor.pitch as usize;
        start..start + tensor.dims[3] as usize
    })
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// Row-major index into four dimensions.
pub fn index(dims: [u32; 4], at: usize) -> [usize; 4] {
    let [_, h, w, c] = dims.map(|extent| extent as usize);
    [at / (h * w * c), at / (w * c) % h, at / c % w, at % c]
}

/// Layers made of chance, near to valid ones and far from them, that are either refused or run without a
/// panic.
#[test]
fn hostile_records_are_refused_or_harmless() {
    let mut random = Random::new(99);
    let mut accepted = [0; 14];
    for _ in 0..200_000 {
        // Winograd has a test of its own.
        let codes = [3, 4, 5, 6, 7, 8, 9, 10, 12, 13];
        let kind = OpKind::from_code(codes[random.below(codes.len())]).unwrap();
        let mut params = [0u32; 24];
        for word in &mut params {
            *word = match random.below(24) {
                0 => u32::MAX - random.below(2) as u32,
                1 => 1 << random.below(32),
                2 => random.next() as u32,
                3..8 => 0,
                8..16 => 1,
                _ => random.below(7) as u32,
            };
        }
        let mut extents =
            || [(); 4].map(|()| if random.below(3) == 0 { 1 } else { random.below(6) as u32 });
        let (mut a, mut b, mut output) = (extents(), extents(), extents());
        if random.below(2) == 0 {
            output = a;
        } else if random.below(2) == 0 {
            b = output;
        } else if kind == OpKind::Pool {
            (output[0], output[3]) = (a[0], a[3]);
        }
        if kind == OpKind::Reduce && random.below(2) == 0 {
            (params[0], params[1], params[2]) = (a[0], a[1] * a[2], a[3]);
            output = [1, 1, a[0], a[3]];
        }
        let mut constant = 0;
        if kind == OpKind::Binary && random.below(4) > 0 {
            constant = random.below(3) as u32;
            (params[0], params[1]) = (random.below(9) as u32, constant);
            // The constant's extents.
            (0..4).for_each(|dim| {
                params[2 + dim] = if random.below(2) == 0 { 1 } else { output[dim] };
            });
        }
        if kind == OpKind::Copy && random.below(4) > 0 {
            // Small extents; the strides stay as they are.
            params[..6].iter_mut().for_each(|extent| *extent = 1 + random.below(9) as u32 / 6);
        }
        let activation = Activation {
            kind: if kind == OpKind::Copy { 0 } else { random.below(14) as u32 },
            alpha: f32::from_bits(random.next() as u32),
            beta: random.float(),
        };
        let mut layer = layer(kind, activation, &params);
        let mut weights = vec![];
        let two = match kind {
            OpKind::Binary if random.below(8) > 0 => constant == 0,
            _ => random.below(3) == 0,
        };
        if constant > 0 || random.below(8) == 0 {
            (layer.panels, layer.panel_bytes) = (1, 256);
            weights = vec![1.0; 64];
        }
        if kind == OpKind::LayerNorm && random.below(4) > 0 {
            (layer.panels, layer.panel_bytes) = (1, 32 * (1 + random.below(2) as u32));
            weights = vec![1.0; 16];
        }
        if kind == OpKind::Gather && random.below(4) > 0 {
            let entries = random.below(9) as u32;
            layer.params[0] = entries;
            (layer.panels, layer.panel_bytes) = (1, 32 * (1 + entries));
            weights = vec![1.0; 8 * (1 + entries as usize)];
            a = [1, output[0] * output[1], output[2], 1];
        }
        let inputs: &[[u32; 4]] = if two { &[a, b] } else { &[a] };
        let mut case = Case::new(layer, &mut random, inputs, output);
        case.weights = weights;
        if constant == 2 {
            case.layer.inputs.swap(0, 1);
            case.inputs.swap(0, 1);
            case.data.swap(0, 1);
        }
        if random.below(8) == 0 {
            case = case.in_place(0);
        }
        if case.validate().is_ok() {
            accepted[kind as usize] += 1;
            case.run(1 + random.below(3), (case.output.rows() as u32).max(1));
        }
    }
    for kind in [3, 4, 5, 6, 7, 8, 10, 12, 13] {
        assert!(accepted[kind] >= 100, "accepted by operator: {accepted:?}");
    }
}

/// The same bits on every target: the checksum of one layer of each operator.
#[test]
fn results_have_the_bits_they_always_had() {
    let mut random = Random::new(7);
    let dims = [1, 9, 8, 45];
    let square = |average| PoolParams {
        average,
        kernel: [3, 3],
        stride: [1, 1],
        dilation: [1, 1],
        pad: [1, 1],
        ..Default::default()
    };
    let lrn = LrnParams { size: 5, alpha: 1e-2, beta: 0.75, bias: 1.0 };
    let binary = BinaryParams { op: BinaryOp::Div as u32, ..Default::default() };
    let activation = |kind: ActivationKind| Activation { kind: kind as u32, ..Activation::RELU };
    let layers = [
        (layer(OpKind::Unary, activation(ActivationKind::Silu), &()), dims),
        (layer(OpKind::Binary, activation(ActivationKind::Tanh), &binary), dims),
        (layer(OpKind::Pool, Activation::NONE, &square(0)), dims),
        (layer(OpKind::Pool, activation(ActivationKind::HardSwish), &square(1)), dims),
        (layer(OpKind::Softmax, Activation::NONE, &()), dims),
        (layer(OpKind::Lrn, Activation::NONE, &lrn), dims),
        (
            layer(
                OpKind::Reduce,
                Activation::NONE,
                &ReduceParams { outer: 9, reduce: 360, inner: 1 },
            ),
            [1, 1, 1, 9],
        ),
    ];
    let found = layers.map(|(layer, output)| {
        let two = [dims; 2];
        let inputs = if layer.kind == OpKind::Binary as u32 { &two[..] } else { &two[..1] };
        let case = Case::contiguous(layer, &mut random, inputs, output);
        case.run_everywhere().iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, y| {
            (hash ^ y.to_bits() as u64).wrapping_mul(0x0000_0100_0000_01b3)
        })
    });
    let always = [
        0xaefd_05d3_f520_448a,
        0x9dab_3a6f_a65a_6b2a,
        0x6fb8_f494_bd00_d1e7,
        0xaf6a_4617_46a5_a461,
        0xfb84_ecab_42ae_573e,
        0x152b_9165_48ff_467a,
        0x4efd_5bf2_e1fb_d4b0,
    ];
    assert_eq!(found, always, "{found:#x?}");
}
