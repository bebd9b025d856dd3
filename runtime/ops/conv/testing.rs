//! Convolutions with their data, and what they are held against: double precision, and chains of
//! fused multiply-adds as they are written down.

use super::*;
use crate::kernels::Kernels;
use crate::kernels::table::{Chains, Packed};
use crate::kernels::testing::{
    Threads, assert_close, available, floats, most_ways, pack_narrow, scratch,
};
use crate::matrix::MatRef;
use crate::ops::testing::{Residual, Slide};
use crate::ops::{Problem, Slice, depthwise};
use crate::pack::{Encoding, INPUTS, Method, OpKind, params_words};
use std::vec::Vec;
use std::{format, vec};

/// A convolution with its data.
#[derive(Debug)]
pub struct Case {
    pub kind: OpKind,
    pub params: ConvParams,
    pub input: Tensor,
    pub output: Tensor,
    pub residual: Residual,
    pub activation: Activation,
    /// Channels that panels hold, where they have room for more.
    pub width: u32,
}

pub type Functions = (
    fn(&Layer, &[Tensor; INPUTS], &Tensor, Isa) -> Result<(), LayerError>,
    fn(&Problem<'_>) -> u64,
    fn(Call<'_>),
);

pub fn tensor(dims: [u32; 4], gap: u32) -> Tensor {
    Tensor { dims, pitch: dims[3] + gap, ..Tensor::default() }
}

/// `images, height, width, channels`, then output channels, and the geometry; the output has the
/// extent that padding below and to the right by as much as above and to the left gives.
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
        width: 0,
    }
    .sized()
}

impl Case {
    /// A depthwise convolution instead: a group for each channel.
    pub fn depthwise(mut self) -> Self {
        self.kind = OpKind::Depthwise;
        self.params.groups = self.input.dims[3];
        self
    }

    /// A convolution in groups of `group` input and `group` output channels, of which panels hold
    /// several.
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

    /// Panels that hold `width` channels, if they have room for more.
    pub fn width(mut self, width: u32) -> Self {
        self.width = width;
        self
    }

    /// The weights as a pack has them.
    #[cfg(any(feature = "cuda", feature = "cuda-linked"))]
    fn packed(&self, isa: Isa) -> Vec<f32> {
        let [_, weights, bias, _] = self.data();
        self.pack(&weights, &bias, isa)
    }

    /// These weights as a pack has them.
    pub fn pack(&self, weights: &[f32], bias: &[f32], isa: Isa) -> Vec<f32> {
        let width = self.layer(isa).columns(isa);
        pack_narrow(weights, bias, self.packed_groups().0, width, isa.panel())
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
        let width = if (self.width as usize) < isa.panel() { self.width } else { 0 };
        let columns = Layer { width, ..Layer::default() }.columns(isa);
        let bytes = Encoding::F32.panel_bytes(self.k() as u64, columns, isa.panel());
        Layer {
            kind: self.kind as u32,
            inputs: [0, if matches!(self.residual, Residual::None) { NONE } else { 1 }, NONE],
            output: 2,
            activation: self.activation,
            panels: (groups * in_group.div_ceil(columns)) as u32,
            panel_bytes: bytes.unwrap() as u32,
            width,
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

    /// The result in double precision and in chains of fused multiply-adds, without the output's
    /// gaps.
    fn reference(&self) -> (Vec<f64>, Vec<f32>) {
        let [_, weights, ..] = self.data();
        self.reference_in_chains(&weights, &self.chains())
    }

    /// The result with these weights, where chains have these k of the reduction.
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
                let added = (!matches!(self.residual, Residual::None))
                    .then(|| residual[row * self.output.pitch as usize + channel]);
                if let Some(added) = added {
                    f += added;
                }
                for chain in &chains[1..] {
                    f += sum(chain, 0.0);
                }
                e += f64::from(added.unwrap_or(0.0));
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

    pub fn functions(&self) -> Functions {
        match self.kind {
            OpKind::Depthwise => (depthwise::validate, depthwise::scratch_bytes, depthwise::run),
            _ => (validate, scratch_bytes, run),
        }
    }

    /// Input, residual, and weights as these kernels have them: the same for all runs.
    fn operands(&self, isa: Isa) -> [Vec<f32>; 3] {
        let [input, weights, bias, residual] = self.data();
        let packed = self.pack(&weights, &bias, isa);
        [input, residual, packed]
    }

    /// The result of [`run`] in the given slices, without the output's gaps, which must not change.
    fn run(
        &self,
        kernels: &'static Kernels,
        operands: &[Vec<f32>; 3],
        threads: usize,
        slices: &[Slice],
    ) -> Vec<f32> {
        let [input, residual, packed] = operands;
        let layer = self.layer(kernels.isa());
        let inputs = [
            self.input,
            if layer.inputs[1] == NONE { Tensor::default() } else { self.output },
            Tensor::default(),
        ];
        let (validate, scratch_bytes, run) = self.functions();
        assert_eq!(validate(&layer, &inputs, &self.output, kernels.isa()), Ok(()), "{self:?}");
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
            let bytes = scratch_bytes(&Problem {
                layer: &layer,
                inputs: &inputs,
                output: &self.output,
                slice: *slice,
                threads: threads as u32,
                isa: kernels.isa(),
            });
            let mut scratch = scratch(bytes);
            let first = slice.first as usize;
            let held = crate::ops::weights(&layer, &self.input, slice, kernels.isa());
            run(Call {
                layer: &layer,
                inputs,
                output: self.output,
                operands: [
                    Operand::Mat(self.mat(input, &self.input)),
                    match self.residual {
                        Residual::None => Operand::Absent,
                        Residual::InPlace => Operand::Output,
                        Residual::Apart => Operand::Mat(self.mat(residual, &self.output)),
                    },
                    Operand::Absent,
                ],
                out: MatMut::new(&mut out, rows, cols, pitch).unwrap(),
                weights: Packed::new(
                    &packed[first * panel..][held.start as usize / 4..held.end as usize / 4],
                ),
                prefetch: Default::default(),
                first,
                count: slice.count as usize,
                method: slice.method,
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

    pub fn mat<'a>(&self, data: &'a [f32], t: &Tensor) -> MatRef<'a> {
        MatRef::new(data, t.rows() as usize, t.dims[3] as usize, t.pitch as usize).unwrap()
    }

    /// Runs whole, in slices of panels and of rows, on one and several threads, on all kernels
    /// (whose panels hold several groups, if they are packed so).
    pub fn check(&self) {
        let (exact, chain) = self.reference();
        let rows = self.output.rows() as u32;
        let group = (self.input.dims[3] / self.params.groups) as usize;
        for kernels in available() {
            if self.kind == OpKind::Depthwise && !kernels.isa().spans(group) {
                continue;
            }
            let panels = self.layer(kernels.isa()).panels;
            let whole = vec![Slice { first: 0, count: panels, row: 0, rows, ..Slice::default() }];
            let by_panel: Vec<_> = (0..panels)
                .map(|first| Slice { first, count: 1, row: 0, rows, ..Slice::default() })
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
                        ..Slice::default()
                    })
                })
                .collect();
            // Panel by panel some chains at a time, all rows or a part of them.
            let layer = self.layer(kernels.isa());
            let chains = crate::ops::chains(&layer, &self.input, kernels.isa());
            let chains = chains.map_or(1, |chains| chains.count() as u32);
            let in_chains = |most: u32, row: u32, rows: u32| {
                by_panel.iter().flat_map(move |slice| {
                    (0..chains).step_by(most as usize).map(move |first| {
                        let method = Method::Chains { first, count: most.min(chains - first) };
                        Slice { row, rows, method, ..*slice }
                    })
                })
            };
            let by_chain: Vec<_> = match chains {
                1 => whole.clone(),
                _ => in_chains(1, 0, rows).collect(),
            };
            let by_chains: Vec<_> = match chains {
                1 => whole.clone(),
                _ => in_chains(2, 0, cut.max(1))
                    .chain(in_chains(3, cut.max(1), rows - cut.max(1)))
                    .filter(|slice| slice.rows > 0)
                    .collect(),
            };
            let operands = self.operands(kernels.isa());
            let all = [
                (1, &whole),
                (2, &whole),
                (3, &whole),
                (1, &by_panel),
                (2, &cross),
                (5, &by_panel),
                (1, &by_chain),
                (3, &by_chains),
            ];
            let ways = most_ways(kernels, all.len());
            for (threads, slices) in all.into_iter().take(ways) {
                let got = self.run(kernels, &operands, threads, slices);
                let isa = kernels.name();
                let slices = slices.len();
                let what = format!("{isa}, {threads} threads, {slices} slices, {self:?}");
                assert_close(&got, &chain, &exact, &what);
            }
            if ways > 1 {
                self.slide(kernels, &operands, &chain);
            }
        }
        #[cfg(any(feature = "cuda", feature = "cuda-linked"))]
        if self.kind == OpKind::Depthwise && Isa::Cuda.spans(group) {
            self.check_on_gpu(&chain);
        }
    }

    /// Checks the case on a GPU, in the whole and by panels.
    #[cfg(any(feature = "cuda", feature = "cuda-linked"))]
    fn check_on_gpu(&self, chain: &[f32]) {
        let [input, _, _, residual] = self.data();
        let layer = self.layer(Isa::Cuda);
        let packed = self.packed(Isa::Cuda);
        let (cols, pitch) = (self.output.dims[3] as usize, self.output.pitch as usize);
        let mut inputs = [self.input, Tensor::default(), Tensor::default()];
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
            data: [&input, &residual, &[]],
            out: &out,
            weights: &packed,
        };
        let what = format!("on a GPU, {self:?}");
        crate::kernels::testing::assert_same(&on_gpu.run_everywhere(), &want, &what);
    }

    /// Checks the case in rings.
    fn slide(&self, kernels: &'static Kernels, operands: &[Vec<f32>; 3], whole: &[f32]) {
        let [input, residual, packed] = operands;
        let mut layer = self.layer(kernels.isa());
        if matches!(self.residual, Residual::InPlace) {
            layer.inputs[1] = layer.output;
        }
        let slide = Slide {
            layer: &layer,
            inputs: [self.input, self.output, Tensor::default()],
            output: self.output,
            data: [input, residual, &[]],
            out: residual,
            weights: packed,
            algorithm: 0,
        };
        slide.check(kernels, whole, &format!("{}, {self:?}", kernels.name()));
    }
}
