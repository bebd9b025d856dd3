//! Convolutions over odd shapes, on every kernel that this machine can run, against the references. The
//! tests of depthwise convolutions use the same cases.

use super::*;
use crate::arena::MatRef;
use crate::kernels::Kernels;
use crate::kernels::table::Chains;
use crate::kernels::testing::{Threads, assert_close, available, floats, pack, scratch};
use crate::ops::depthwise;
use crate::ops::testing::Slide;
use crate::pack::{OpKind, params_words};
use std::vec::Vec;
use std::{format, vec};

#[derive(Clone, Copy, Debug)]
pub enum Residual {
    None,
    InPlace,
    Apart,
}

/// A convolution with its data.
#[derive(Debug)]
pub struct Case {
    pub kind: OpKind,
    pub params: ConvParams,
    pub input: Tensor,
    pub output: Tensor,
    pub residual: Residual,
    pub activation: Activation,
}

type Functions = (
    fn(&Layer, &[Tensor; 2], &Tensor, Isa) -> Result<(), LayerError>,
    fn(&Layer, &[Tensor; 2], &Tensor, &Slice, u32, Isa) -> u64,
    fn(Call<'_>),
);

fn tensor(dims: [u32; 4], gap: u32) -> Tensor {
    Tensor { dims, pitch: dims[3] + gap, ..Tensor::default() }
}

/// `images, height, width, channels`, then output channels, and the geometry; the output has the extent
/// that padding below and to the right by as much as above and to the left gives.
pub fn case(dims: [u32; 4], channels: u32, kernel: [u32; 2]) -> Case {
    Case {
        kind: OpKind::Conv,
        params: ConvParams {
            kernel,
            stride: [1, 1],
            dilation: [1, 1],
            pad: [0, 0],
            groups: 1,
            chains: 0,
        },
        input: tensor(dims, 0),
        output: tensor([dims[0], 0, 0, channels], 0),
        residual: Residual::None,
        activation: Activation::NONE,
    }
    .sized()
}

impl Case {
    /// A depthwise convolution instead: as many groups as channels.
    pub fn depthwise(mut self) -> Self {
        self.kind = OpKind::Depthwise;
        self.params.groups = self.input.dims[3];
        self
    }

    /// A convolution in groups of so many channels, as many in as out, of which panels hold several.
    pub fn spanned(mut self, group: u32) -> Self {
        self.kind = OpKind::Depthwise;
        self.params.groups = self.input.dims[3] / group;
        self
    }

    fn sized(mut self) -> Self {
        for axis in 0..2 {
            let p = &self.params;
            let reach = (p.kernel[axis] - 1) * p.dilation[axis] + 1;
            let padded = self.input.dims[1 + axis] + 2 * p.pad[axis];
            self.output.dims[1 + axis] = padded.saturating_sub(reach) / p.stride[axis] + 1;
        }
        self
    }
    pub fn stride(mut self, stride: [u32; 2]) -> Self {
        self.params.stride = stride;
        self.sized()
    }
    pub fn dilation(mut self, dilation: [u32; 2]) -> Self {
        self.params.dilation = dilation;
        self.sized()
    }
    pub fn pad(mut self, pad: [u32; 2]) -> Self {
        self.params.pad = pad;
        self.sized()
    }
    pub fn groups(mut self, groups: u32) -> Self {
        self.params.groups = groups;
        self
    }
    /// Floats between rows of the input and of the output.
    pub fn gaps(mut self, input: u32, output: u32) -> Self {
        self.input.pitch = self.input.dims[3] + input;
        self.output.pitch = self.output.dims[3] + output;
        self
    }
    /// An output that ends earlier or later than its padding says.
    pub fn output(mut self, height: u32, width: u32) -> Self {
        (self.output.dims[1], self.output.dims[2]) = (height, width);
        self
    }
    pub fn residual(mut self, residual: Residual) -> Self {
        self.residual = residual;
        self
    }
    pub fn activation(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self
    }

    /// Groups as the packing sees them, and output channels of each.
    pub fn packed_groups(&self) -> (usize, usize) {
        let (groups, channels) = (self.params.groups as usize, self.output.dims[3] as usize);
        match self.kind {
            OpKind::Depthwise => (1, channels),
            _ => (groups, channels / groups),
        }
    }

    pub fn k(&self) -> usize {
        let p = &self.params;
        (p.kernel[0] * p.kernel[1] * (self.input.dims[3] / p.groups)) as usize
    }

    pub fn layer(&self, isa: Isa) -> Layer {
        let (groups, in_group) = self.packed_groups();
        Layer {
            kind: self.kind as u32,
            inputs: [0, if matches!(self.residual, Residual::None) { NONE } else { 1 }],
            output: 2,
            activation: self.activation,
            panels: (groups * in_group.div_ceil(isa.panel())) as u32,
            panel_bytes: ((1 + self.k()) * isa.panel() * 4) as u32,
            params: params_words(&self.params),
            ..Layer::default()
        }
    }

    /// Input, weights `[channel][k]`, bias, residual (of the output's buffer), all as in memory.
    pub fn data(&self) -> [Vec<f32>; 4] {
        let buffer = |t: &Tensor| t.rows() as usize * t.pitch as usize;
        let channels = self.output.dims[3] as usize;
        [
            floats(buffer(&self.input), 1),
            floats(channels * self.k(), 2),
            floats(channels, 3),
            floats(buffer(&self.output), 4),
        ]
    }

    /// The k of each chain, where [`Chains`] says.
    pub fn chains(&self) -> Vec<Range<usize>> {
        if self.kind == OpKind::Depthwise {
            return std::iter::once(0..self.k()).collect();
        }
        let channels = self.input.dims[3] / self.params.groups;
        let chains = Chains::new(self.params.kernel.map(|taps| taps as usize), channels as usize);
        (0..chains.count()).map(|index| chains.terms(index)).collect()
    }

    /// The result in double precision and in chains of fused multiply-adds, without the output's gaps.
    fn reference(&self) -> (Vec<f64>, Vec<f32>) {
        let [_, weights, ..] = self.data();
        self.reference_in_chains(&weights, &self.chains())
    }

    /// The same with these weights, where chains have these k of the reduction.
    pub fn reference_in_chains(
        &self,
        weights: &[f32],
        chains: &[Range<usize>],
    ) -> (Vec<f64>, Vec<f32>) {
        let [input, _, bias, residual] = self.data();
        let p = &self.params;
        let (k, cg) = (self.k(), (self.input.dims[3] / p.groups) as usize);
        let [images, oh, ow, oc] = self.output.dims.map(|x| x as usize);
        let [_, h, w, _] = self.input.dims.map(|x| x as i64);
        let (mut exact, mut chain) = (Vec::new(), Vec::new());
        for row in 0..images * oh * ow {
            let (n, oy, ox) = (row / (oh * ow), row / ow % oh, row % ow);
            for channel in 0..oc {
                let group = channel / (oc / p.groups as usize);
                let mut e = bias[channel] as f64;
                let mut sum = |chain: &Range<usize>, start: f32| {
                    let mut f = start;
                    for i in chain.clone() {
                        let (ky, kx, c) =
                            (i / cg / p.kernel[1] as usize, i / cg % p.kernel[1] as usize, i % cg);
                        let y = oy as i64 * p.stride[0] as i64 + ky as i64 * p.dilation[0] as i64
                            - p.pad[0] as i64;
                        let x = ox as i64 * p.stride[1] as i64 + kx as i64 * p.dilation[1] as i64
                            - p.pad[1] as i64;
                        let value = if (0..h).contains(&y) && (0..w).contains(&x) {
                            let row = (n as i64 * h + y) * w + x;
                            input[row as usize * self.input.pitch as usize + group * cg + c]
                        } else {
                            0.0
                        };
                        let weight = weights[channel * k + i];
                        e += value as f64 * weight as f64;
                        f = value.mul_add(weight, f);
                    }
                    f
                };
                let mut f = sum(&chains[0], bias[channel]);
                let beside = (!matches!(self.residual, Residual::None))
                    .then(|| residual[row * self.output.pitch as usize + channel]);
                if let Some(beside) = beside {
                    f += beside;
                }
                for chain in &chains[1..] {
                    f += sum(chain, 0.0);
                }
                e += f64::from(beside.unwrap_or(0.0));
                let [min, max] = clamp(&self.activation);
                e = e.max(min as f64).min(max as f64);
                f = f.max(min).min(max);
                finish(
                    Kernels::PORTABLE,
                    &self.activation,
                    MatMut::new(std::slice::from_mut(&mut f), 1, 1, 1).unwrap(),
                );
                if self.activation.function() == Some(ActivationKind::LeakyRelu) && e < 0.0 {
                    e *= self.activation.alpha as f64;
                }
                exact.push(e);
                chain.push(f);
            }
        }
        (exact, chain)
    }

    fn functions(&self) -> Functions {
        match self.kind {
            OpKind::Depthwise => (depthwise::validate, depthwise::scratch_bytes, depthwise::run),
            _ => (validate, scratch_bytes, run),
        }
    }

    /// The result of [`run`] in the given slices, without the output's gaps, which must not change.
    fn run(&self, kernels: &'static Kernels, threads: usize, slices: &[Slice]) -> Vec<f32> {
        let [input, weights, bias, residual] = self.data();
        let layer = self.layer(kernels.isa());
        let inputs =
            [self.input, if layer.inputs[1] == NONE { Tensor::default() } else { self.output }];
        let (validate, scratch_bytes, run) = self.functions();
        assert_eq!(validate(&layer, &inputs, &self.output, kernels.isa()), Ok(()), "{self:?}");
        let packed = pack(&weights, &bias, self.packed_groups().0, kernels.nr());
        let panel = layer.panel_bytes as usize / 4;
        assert_eq!(packed.len(), panel * layer.panels as usize);

        let [_, _, _, cols] = self.output.dims.map(|x| x as usize);
        let (rows, pitch) = (self.output.rows() as usize, self.output.pitch as usize);
        let mut out = match self.residual {
            Residual::InPlace => residual.clone(),
            _ => vec![-7.0; residual.len()],
        };
        let before = out.clone();
        for slice in slices {
            let bytes =
                scratch_bytes(&layer, &inputs, &self.output, slice, threads as u32, kernels.isa());
            let mut scratch = scratch(bytes);
            let first = slice.first as usize;
            run(Call {
                layer: &layer,
                inputs,
                output: self.output,
                operands: [
                    Operand::Mat(self.mat(&input, &self.input)),
                    match self.residual {
                        Residual::None => Operand::Absent,
                        Residual::InPlace => Operand::Output,
                        Residual::Apart => Operand::Mat(self.mat(&residual, &self.output)),
                    },
                ],
                out: MatMut::new(&mut out, rows, cols, pitch).unwrap(),
                weights: &packed[first * panel..(first + slice.count as usize) * panel],
                algorithm: 0,
                first,
                count: slice.count as usize,
                rows: slice.row as usize..(slice.row + slice.rows) as usize,
                scratch: bytemuck::cast_slice_mut(&mut scratch),
                // A device may have more threads than scratch was planned for.
                device: &Threads(if threads == 2 { 3 } else { threads }),
                kernels,
            });
        }
        let mut dense = Vec::new();
        for row in 0..rows {
            dense.extend_from_slice(&out[row * pitch..][..cols]);
            assert_eq!(
                out[row * pitch + cols..][..pitch - cols],
                before[row * pitch + cols..][..pitch - cols]
            );
        }
        dense
    }

    fn mat<'a>(&self, data: &'a [f32], t: &Tensor) -> MatRef<'a> {
        MatRef::new(data, t.rows() as usize, t.dims[3] as usize, t.pitch as usize).unwrap()
    }

    /// Runs whole, in slices of panels and of rows, on one and several threads, on all kernels (whose
    /// panels hold several groups, if they are packed so).
    pub fn check(&self) {
        let (exact, chain) = self.reference();
        let rows = self.output.rows() as u32;
        let group = (self.input.dims[3] / self.params.groups) as usize;
        for kernels in available() {
            if self.kind == OpKind::Depthwise && !kernels.isa().spans(group) {
                continue;
            }
            let panels = self.layer(kernels.isa()).panels;
            let whole = vec![Slice { first: 0, count: panels, row: 0, rows, algorithm: 0 }];
            let by_panel: Vec<_> = (0..panels)
                .map(|first| Slice { first, count: 1, row: 0, rows, algorithm: 0 })
                .collect();
            let cut = rows / 3;
            let cross: Vec<_> = [(0, cut), (cut, rows - cut)]
                .into_iter()
                .flat_map(|(row, rows)| {
                    let half = panels / 2;
                    [(0, half), (half, panels - half)].map(|(first, count)| Slice {
                        first,
                        count,
                        row,
                        rows,
                        algorithm: 0,
                    })
                })
                .collect();
            for (threads, slices) in
                [(1, &whole), (2, &whole), (3, &whole), (1, &by_panel), (2, &cross), (5, &by_panel)]
            {
                let got = self.run(kernels, threads, slices);
                let isa = kernels.name();
                let slices = slices.len();
                let what = format!("{isa}, {threads} threads, {slices} slices, {self:?}");
                assert_close(&got, &chain, &exact, &what);
            }
            self.slide(kernels, &chain);
        }
        #[cfg(any(feature = "cuda", feature = "cuda-linked"))]
        if self.kind == OpKind::Depthwise && Isa::Cuda.spans(group) {
            self.check_on_gpu(&chain);
        }
    }

    /// The same on a GPU, in the whole and by panels.
    #[cfg(any(feature = "cuda", feature = "cuda-linked"))]
    fn check_on_gpu(&self, chain: &[f32]) {
        let [input, weights, bias, residual] = self.data();
        let layer = self.layer(Isa::Cuda);
        let packed = pack(&weights, &bias, self.packed_groups().0, Isa::Cuda.panel());
        let (cols, pitch) = (self.output.dims[3] as usize, self.output.pitch as usize);
        let mut inputs = [self.input, Tensor::default()];
        let out = match self.residual {
            Residual::InPlace => residual.clone(),
            _ => vec![-7.0; residual.len()],
        };
        let mut want = out.clone();
        for (row, chain) in want.chunks_mut(pitch).zip(chain.chunks(cols)) {
            row[..cols].copy_from_slice(chain);
        }
        let mut layer = layer;
        if !matches!(self.residual, Residual::None) {
            inputs[1] = self.output;
        }
        if matches!(self.residual, Residual::InPlace) {
            layer.inputs[1] = layer.output;
        }
        let on_gpu = crate::ops::cuda::testing::OnGpu {
            layer: &layer,
            inputs,
            output: self.output,
            data: [&input, &residual],
            out: &out,
            weights: &packed,
        };
        let what = format!("on a GPU, {self:?}");
        crate::kernels::testing::assert_same(&on_gpu.run_everywhere(), &want, &what);
    }

    /// The same in rings.
    fn slide(&self, kernels: &'static Kernels, whole: &[f32]) {
        let [input, weights, bias, residual] = self.data();
        let mut layer = self.layer(kernels.isa());
        if matches!(self.residual, Residual::InPlace) {
            layer.inputs[1] = layer.output;
        }
        let slide = Slide {
            layer: &layer,
            inputs: [self.input, self.output],
            output: self.output,
            data: [&input, &residual],
            out: &residual,
            weights: &pack(&weights, &bias, self.packed_groups().0, kernels.nr()),
        };
        slide.check(kernels, whole, &format!("{}, {self:?}", kernels.name()));
    }
}

#[test]
fn pointwise() {
    for (rows, k, n) in [(1, 1, 1), (1, 37, 70), (3, 5, 8), (49, 64, 33), (15, 3, 31), (200, 9, 65)]
    {
        case([1, 1, rows, k], n, [1, 1]).check();
    }
    case([1, 14, 15, 20], 40, [1, 1]).gaps(5, 3).check();
    case([2, 9, 7, 20], 40, [1, 1]).stride([2, 2]).gaps(0, 3).check();
}

#[test]
fn three_by_three() {
    case([1, 13, 11, 40], 37, [3, 3]).pad([1, 1]).check();
    case([2, 7, 7, 33], 64, [3, 3]).pad([1, 1]).gaps(1, 2).check();
    case([1, 9, 14, 16], 24, [3, 3]).stride([2, 2]).pad([1, 1]).check();
    case([1, 9, 14, 16], 24, [3, 3]).check();
    case([1, 12, 10, 36], 17, [3, 3]).dilation([2, 3]).pad([2, 3]).check();
}

/// Few channels: rows of taps are one run, pixels at the border are gathered.
#[test]
fn merged_rows_of_taps() {
    case([1, 20, 23, 3], 33, [7, 7]).stride([2, 2]).pad([3, 3]).check();
    case([2, 9, 8, 3], 8, [3, 3]).pad([1, 1]).check();
    case([1, 9, 8, 5], 8, [3, 5]).pad([2, 4]).check();
    case([1, 9, 8, 2], 40, [3, 3]).stride([1, 3]).pad([0, 2]).check();
    case([1, 9, 8, 2], 9, [5, 3]).dilation([3, 1]).pad([3, 1]).check();
    case([1, 4, 30, 1], 9, [1, 11]).pad([0, 5]).check();
    // The window is wider than the image.
    case([1, 2, 3, 4], 9, [5, 7]).pad([4, 5]).check();
    case([1, 40, 90, 3], 8, [3, 3]).stride([2, 2]).pad([1, 1]).check();
}

/// The output's extent does not follow from the input's: everything beside the image is zero.
#[test]
fn output_beyond_the_padding() {
    case([1, 5, 6, 3], 9, [3, 3]).pad([1, 1]).output(9, 11).check();
    case([1, 5, 6, 40], 9, [3, 3]).pad([1, 1]).output(9, 11).check();
    case([1, 5, 6, 40], 9, [1, 1]).output(7, 8).check();
    case([1, 5, 6, 3], 9, [3, 3]).pad([40, 40]).output(12, 12).check();
    case([1, 5, 6, 3], 9, [2, 2]).pad([1, 0]).stride([7, 9]).output(2, 3).check();
}

#[test]
fn grouped() {
    case([1, 6, 7, 12], 6, [3, 3]).groups(3).pad([1, 1]).check();
    case([1, 6, 7, 8], 16, [3, 3]).groups(8).pad([1, 1]).check();
    case([1, 6, 7, 64], 64, [3, 3]).groups(2).pad([1, 1]).gaps(3, 4).check();
    // Groups whose last panel is filled in part.
    case([1, 5, 5, 6], 120, [1, 1]).groups(3).check();
    case([1, 20, 15, 4], 74, [3, 3]).groups(2).pad([1, 1]).check();
}

#[test]
fn residual_and_activation() {
    let leaky = Activation { kind: ActivationKind::LeakyRelu as u32, alpha: 0.1, beta: 0.0 };
    let six = Activation { kind: ActivationKind::Clamp as u32, alpha: 0.0, beta: 0.5 };
    // The lower bound does nothing.
    let upper = Activation { alpha: f32::NAN, ..six };
    for residual in [Residual::None, Residual::InPlace, Residual::Apart] {
        for activation in [Activation::NONE, Activation::RELU, six, upper, leaky] {
            case([1, 6, 7, 9], 37, [1, 1]).residual(residual).activation(activation).check();
            case([1, 6, 7, 9], 64, [3, 3])
                .pad([1, 1])
                .gaps(2, 5)
                .residual(residual)
                .activation(activation)
                .check();
        }
    }
}

/// More rows than a block has, and runs that are long.
#[test]
fn blocks() {
    case([1, 40, 41, 64], 9, [3, 3]).pad([1, 1]).check();
    case([1, 1, 300, 1000], 5, [1, 1]).check();
}

/// Several chains: parts of a run, runs, rows of runs, parts of rows; with all panels before the next chain and after it,
/// with what the first one adds and the last one clamps. The error does not grow with k.
#[test]
fn long_reductions() {
    let leaky = Activation { kind: ActivationKind::LeakyRelu as u32, alpha: 0.1, beta: 0.0 };
    let lower = Activation { kind: ActivationKind::Clamp as u32, alpha: -2.0, beta: 1e4 };
    let residuals = [Residual::None, Residual::InPlace, Residual::Apart];
    for (residual, activation) in residuals.into_iter().zip([Activation::NONE, lower, leaky]) {
        let with = |case: Case| case.residual(residual).activation(activation).check();
        with(case([1, 1, 70, 3333], 41, [1, 1]));
        with(case([1, 1, 9, 1030], 65, [1, 1]).gaps(6, 3));
        with(case([1, 5, 4, 260], 9, [3, 3]).pad([1, 1]));
        with(case([1, 3, 3, 1040], 9, [1, 2]).pad([0, 1]));
        with(case([1, 9, 9, 31], 7, [7, 7]).pad([3, 3]));
        with(case([1, 9, 9, 31], 7, [7, 7]).pad([3, 3]).dilation([2, 1]).gaps(1, 0));
        with(case([1, 2, 600, 3], 5, [1, 500]));
        with(case([1, 1, 700, 3], 5, [1, 351]).dilation([1, 2]).pad([0, 40]));
        with(case([1, 4, 3, 700], 20, [3, 3]).pad([1, 1]).groups(2));
        with(case([1, 1, 4, 2400], 6, [1, 1]).groups(2));
    }
    case([1, 1, 3, 100_000], 9, [1, 1]).check();
    case([1, 1, 1, 25_088], 70, [1, 1]).check();
}

/// Records that must be refused, or accepted and run without a panic.
#[test]
fn hostile_records() {
    let isa = Isa::Portable;
    let good = case([1, 6, 7, 12], 6, [3, 3]).groups(3).pad([1, 1]);
    let base = (good.layer(isa), good.params, good.input, good.output);
    type Record = (Layer, ConvParams, Tensor, Tensor);
    let valid = |(mut layer, params, input, output): Record| {
        layer.params = params_words(&params);
        validate(&layer, &[input, Tensor::default()], &output, isa)
    };
    assert_eq!(valid(base), Ok(()));
    let refused: [fn(&mut Record); 22] = [
        |r| r.0.inputs[0] = NONE,
        |r| r.0.inputs[0] = r.0.output,
        |r| r.0.inputs[1] = 1,
        |r| r.0.panels += 1,
        |r| r.0.panels = 0,
        |r| r.0.panel_bytes += 64,
        |r| r.0.panel_bytes = 0,
        |r| r.0.activation.kind = 99,
        |r| r.1.kernel[0] = 0,
        |r| r.1.kernel = [u32::MAX; 2],
        |r| r.1.stride[1] = 0,
        |r| r.1.stride[1] = u32::MAX,
        |r| r.1.dilation[0] = 0,
        |r| r.1.dilation[0] = u32::MAX,
        |r| r.1.groups = 0,
        |r| r.1.groups = 5,
        |r| r.1.groups = u32::MAX,
        |r| r.2.dims[1] = 0,
        |r| r.2.dims = [1, u32::MAX, u32::MAX, 12],
        |r| r.3.dims[3] = 0,
        |r| r.3.dims[0] = 2,
        |r| r.3.dims = [1, u32::MAX, u32::MAX, 6],
    ];
    for (index, change) in refused.iter().enumerate() {
        let mut record = base;
        change(&mut record);
        assert!(valid(record).is_err(), "record {index}");
    }
    // Accepted: the window lies far beside the image.
    good_with_pad([u32::MAX, 3]).check();
    good_with_pad([3, u32::MAX]).check();
}

fn good_with_pad(pad: [u32; 2]) -> Case {
    let mut case = case([1, 6, 7, 3], 6, [3, 3]);
    case.params.pad = pad;
    case.output(3, 4)
}

/// NaN, infinity and negative zero go through sum and clamp with the same bits everywhere.
#[test]
fn special_values() {
    let inputs = [f32::NAN, -1.0, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-40, -3e38, 3e38];
    let weights = [0.0f32, 1.0, -1.0, 3.0, 1e-6];
    let biases = [-0.0f32, 0.0, f32::NAN, -0.0, 1e-42];
    let mut results: Vec<Vec<u32>> = Vec::new();
    for activation in [Activation::NONE, Activation::RELU] {
        let mut case = case([1, 1, inputs.len() as u32, 1], 5, [1, 1]).activation(activation);
        case.output.pitch = 5;
        for kernels in available() {
            let layer = case.layer(kernels.isa());
            let packed = pack(&weights, &biases, 1, kernels.nr());
            let mut out = [0.0f32; 40];
            let rows = inputs.len();
            let slice =
                Slice { first: 0, count: layer.panels, row: 0, rows: rows as u32, algorithm: 0 };
            let tensors = [case.input, Tensor::default()];
            let bytes = scratch_bytes(&layer, &tensors, &case.output, &slice, 1, kernels.isa());
            run(Call {
                layer: &layer,
                inputs: tensors,
                output: case.output,
                operands: [
                    Operand::Mat(MatRef::new(&inputs, rows, 1, 1).unwrap()),
                    Operand::Absent,
                ],
                out: MatMut::new(&mut out, rows, 5, 5).unwrap(),
                weights: &packed,
                algorithm: 0,
                first: 0,
                count: layer.panels as usize,
                rows: 0..rows,
                scratch: bytemuck::cast_slice_mut(&mut scratch(bytes)),
                device: &Threads(1),
                kernels,
            });
            // Which NaN it is depends on the processor.
            results.push(out.iter().map(|x| if x.is_nan() { 1 } else { x.to_bits() }).collect());
            for (i, x) in out.iter().enumerate() {
                let sum = inputs[i / 5].mul_add(weights[i % 5], biases[i % 5]);
                let [min, max] = clamp(&activation);
                let sum = if min > sum { min } else { sum };
                let want = if max < sum { max } else { sum };
                assert!(x.is_nan() && want.is_nan() || x.to_bits() == want.to_bits(), "{i}: {x}");
            }
        }
    }
    let each = results.len() / 2;
    assert!(results[..each].windows(2).all(|pair| pair[0] == pair[1]));
    assert!(results[each..].windows(2).all(|pair| pair[0] == pair[1]));
}

/// Random records, most of them absurd: none makes any of the functions panic, and those that are
/// accepted and small run.
#[test]
fn random_records() {
    let values =
        [0, 1, 1, 1, 1, 2, 2, 3, 3, 5, 8, 11, 40, 1000, 65_535, 1 << 16, 1 << 31, u32::MAX];
    let mut state = 7u64;
    let mut next = |count: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % count
    };
    let (mut accepted, mut ran) = (0, 0);
    for round in 0..400_000 {
        let sane = round % 2 == 1;
        let mut pick = || values[next(if sane { 12 } else { values.len() })];
        let channels = pick();
        let mut case = case([1, 4, 4, 1], 1, [1, 1]);
        case.input = tensor([1, pick(), pick(), channels], 0);
        case.output = tensor([1, pick(), pick(), pick()], 0);
        case.params = ConvParams {
            kernel: [pick(), pick()],
            stride: [pick(), pick()],
            dilation: [pick(), pick()],
            pad: [pick(), pick()],
            groups: pick(),
            chains: 0,
        };
        if round % 4 == 1 {
            case.kind = OpKind::Depthwise;
            case.output.dims[3] = channels;
            case.output.pitch = channels;
            case.params.groups = channels;
        }
        let isa = Kernels::best().isa();
        // Weights as the record says, where that is possible.
        let k = [case.params.kernel[0], case.params.kernel[1]]
            .into_iter()
            .chain([case.input.dims[3].checked_div(case.params.groups).unwrap_or(1)])
            .try_fold(1u32, |n, x| n.checked_mul(x));
        let groups = if case.kind == OpKind::Depthwise { 1 } else { case.params.groups };
        let Some(in_group) = case.output.dims[3].checked_div(groups) else { continue };
        let panel_bytes =
            k.and_then(|k| k.checked_add(1)).and_then(|n| n.checked_mul(4 * isa.panel() as u32));
        let panels = groups.checked_mul(in_group.div_ceil(isa.panel() as u32));
        let (Some(panel_bytes), Some(panels)) = (panel_bytes, panels) else { continue };
        let layer = Layer {
            kind: case.kind as u32,
            inputs: [0, NONE],
            output: 2,
            activation: Activation::RELU,
            panels,
            panel_bytes,
            params: params_words(&case.params),
            ..Layer::default()
        };
        let tensors = [case.input, Tensor::default()];
        let (validate, scratch_bytes, run) = case.functions();
        if validate(&layer, &tensors, &case.output, isa).is_err() {
            continue;
        }
        accepted += 1;
        let rows = case.output.rows();
        let slice = Slice { first: 0, count: panels, row: 0, rows: rows as u32, algorithm: 0 };
        let bytes = scratch_bytes(&layer, &tensors, &case.output, &slice, 1, isa);
        let floats = case.input.rows().saturating_mul(case.input.dims[3] as u64);
        let results = rows.saturating_mul(case.output.dims[3] as u64);
        let weights = panels as u64 * panel_bytes as u64 / 4;
        if [floats, results, bytes, weights].iter().any(|&n| n > 1 << 14) {
            continue;
        }
        ran += 1;
        let input = vec![1.0; floats as usize];
        let mut out = vec![-1.0; results as usize];
        let cols = case.output.dims[3] as usize;
        run(Call {
            layer: &layer,
            inputs: tensors,
            output: case.output,
            operands: [Operand::Mat(case.mat(&input, &case.input)), Operand::Absent],
            out: MatMut::new(&mut out, rows as usize, cols, cols).unwrap(),
            weights: &vec![0.5; weights as usize],
            algorithm: 0,
            first: 0,
            count: panels as usize,
            rows: 0..rows as usize,
            scratch: bytemuck::cast_slice_mut(&mut scratch(bytes)),
            device: &crate::device::Inline,
            kernels: Kernels::best(),
        });
        assert!(out.iter().all(|x| *x >= 0.5), "{case:?}");
    }
    assert!(accepted > 100 && ran > 50, "{accepted} accepted, {ran} run");
}
