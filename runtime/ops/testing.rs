//! Helpers of the operators' tests: tensors with gaps around them, and layers that run on several
//! numbers of threads and in several slices, which must make no difference.

use super::{
    Call, LayerError, Operand, Reads, Slice, least_scratch_bytes, reads, row_unit, scratch_bytes,
    validate, validate_slice,
};
use crate::kernels::Kernels;
use crate::kernels::table::Packed;
pub use crate::kernels::testing::Threads;
use crate::kernels::testing::{assert_same, available, most_ways, scratch};
use crate::matrix::{MatMut, MatRef};
use crate::ops::Problem;
use crate::pack::{Activation, INPUTS, Isa, Layer, NONE, OpKind, Tensor, params_words};
use core::ops::Range;
use std::prelude::rust_2024::*;
use std::{format, vec};

mod over;
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

/// The addend of a convolution's sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Residual {
    None,
    /// The contents of its output.
    InPlace,
    /// A tensor of its own.
    Apart,
}

/// A layer without tensors and weights.
pub fn layer<P: bytemuck::Pod>(kind: OpKind, activation: Activation, params: &P) -> Layer {
    Layer {
        kind: kind as u32,
        inputs: [NONE; INPUTS],
        output: INPUTS as u32,
        activation,
        params: params_words(params),
        ..Layer::default()
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

/// The floats outside of the tensors.
const GAP: f32 = -12345.5;

/// A layer with its tensors, each in a buffer of its own, with gaps.
#[derive(Clone)]
pub struct Case {
    pub layer: Layer,
    pub inputs: [Tensor; INPUTS],
    pub output: Tensor,
    pub data: [Vec<f32>; INPUTS],
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

    /// The case without gaps.
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
        let mut tensors = [Tensor::default(); INPUTS];
        let mut data = core::array::from_fn(|_| vec![]);
        for (index, dims) in inputs.iter().enumerate() {
            let (tensor, len) = place(random, index as u32, *dims, gaps);
            tensors[index] = tensor;
            data[index] = vec![GAP; len];
            layer.inputs[index] = index as u32;
            for at in elements(&tensor) {
                data[index][at] = random.float() * 8.0;
            }
        }
        let (output, len) = place(random, INPUTS as u32, output, gaps);
        Self { layer, inputs: tensors, output, data, out: vec![GAP; len], weights: vec![] }
    }

    /// The layer with its output in the place of an input.
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
        let slice =
            |row| Slice { first: 0, count, row, rows: rows.min(all - row), ..Slice::default() };
        let slices: Vec<Slice> = (0..all).step_by(rows as usize).map(slice).collect();
        let share = if slices.len() == 1 { 1.0 } else { 0.3 };
        self.run_sliced(kernels, threads, &slices, share)
    }

    /// Runs the valid layer in these slices, with this share of the scratch that it can do without,
    /// and returns the output's buffer.
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
            let (layer, threads_at_most) = (&self.layer, threads as u32);
            let problem =
                Problem { layer, inputs, output, slice: *slice, threads: threads_at_most, isa };
            validate_slice(&problem).unwrap();
            let (least, all) = (least_scratch_bytes(&problem), scratch_bytes(&problem));
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
            let weights = Packed::new(&self.weights[slice.first as usize * panel..]);
            let mut scratch = scratch(bytes);
            super::run(Call {
                layer: &self.layer,
                inputs: self.inputs,
                output: self.output,
                operands: core::array::from_fn(|slot| self.operand(slot)),
                out,
                weights,
                prefetch: Default::default(),
                first: slice.first as usize,
                count: slice.count as usize,
                method: slice.method,
                rows: slice.row as usize..(slice.row + slice.rows) as usize,
                scratch: bytemuck::cast_slice_mut(&mut scratch),
                device: &Threads(threads),
                kernels,
            });
        }
        buffer
    }

    /// Runs the layer on one to five threads, whole and in slices, and with the kernels of every
    /// instruction set: the results must have the same bits, and what is not the output must not
    /// change. Returns the output, row-major, without gaps.
    pub fn run_everywhere(&self) -> Vec<f32> {
        assert_eq!(self.validate(), Ok(()));
        let rows = self.output.rows() as u32;
        let buffer = self.run(1, rows);
        let mut ways = vec![(2, rows), (3, rows), (5, rows)];
        if row_unit(&self.layer, &self.output) == Some(1) && rows < 200 {
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
            for threads in [1, 3].into_iter().take(most_ways(kernels, 2)) {
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
            data: core::array::from_fn(|slot| &self.data[slot][..]),
            out: &self.out,
            weights: &self.weights,
        }
    }

    /// Runs a layer in rings, and over its inputs, if its operator works so.
    fn slide(&self, whole: &[f32]) {
        let fits = |kernels: &&Kernels| self.validate_for(kernels.isa()) == Ok(());
        for kernels in
            available().into_iter().filter(fits).filter(|kernels| most_ways(kernels, 2) > 1)
        {
            self.slide_with(kernels, 0, whole);
        }
    }

    /// Checks the case with some kernels, its steps by this algorithm.
    pub fn slide_with(&self, kernels: &Kernels, algorithm: u32, whole: &[f32]) {
        let kind = OpKind::from_code(self.layer.kind).unwrap();
        if reads(kind)[0] == Reads::Whole || whole.len() > 20_000 {
            return;
        }
        let part = |data: &'_ [f32], tensor: &Tensor| data[tensor.offset as usize..].to_vec();
        let inputs: [_; INPUTS] =
            core::array::from_fn(|slot| part(&self.data[slot], &self.inputs[slot]));
        let slide = Slide {
            layer: &self.layer,
            inputs: self.inputs,
            output: self.output,
            data: core::array::from_fn(|slot| &inputs[slot][..]),
            out: &part(&self.out, &self.output),
            weights: &self.weights,
            algorithm,
        };
        slide.check(kernels, whole, &format!("{}, {:?}", kernels.name(), self.layer));
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
pub fn elements(tensor: &Tensor) -> impl Iterator<Item = usize> {
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
