//! Winograd convolutions with their data, and what they are held against: double precision.

use super::*;
use crate::kernels::Kernels;
use crate::kernels::table::Packed;
use crate::kernels::testing::{Threads, available, floats, most_ways, scratch, sweeps};
use crate::matrix::{MatMut, MatRef};
use crate::ops::conv::clamp;
use crate::ops::testing::{Residual, Slide};
use crate::ops::{Call, Operand, Problem, Slice};
use crate::pack::{Activation, NONE, OpKind};
use std::vec::Vec;
use std::{format, vec};

#[derive(Debug)]
pub struct Case {
    pub tile: u32,
    pub input: Tensor,
    pub output: Tensor,
    groups: u32,
    pad: [u32; 2],
    pub residual: Residual,
    pub activation: Activation,
    /// Factors of inputs and filters: powers of two.
    scale: [f32; 2],
}

/// Images, height, width, channels of the input, channels of the output, padded so that the map
/// stays.
pub fn case(tile: u32, dims: [u32; 4], channels: u32) -> Case {
    let tensor = |dims: [u32; 4]| Tensor { dims, pitch: dims[3], ..Tensor::default() };
    Case {
        tile,
        input: tensor(dims),
        output: tensor([dims[0], dims[1], dims[2], channels]),
        groups: 1,
        pad: [1, 1],
        residual: Residual::None,
        activation: Activation::NONE,
        scale: [1.0; 2],
    }
}

impl Case {
    pub fn residual(self, residual: Residual) -> Self {
        Self { residual, ..self }
    }
    pub fn groups(self, groups: u32) -> Self {
        Self { groups, ..self }
    }
    pub fn activation(self, activation: Activation) -> Self {
        Self { activation, ..self }
    }
    pub fn gaps(mut self, input: u32, output: u32) -> Self {
        self.input.pitch += input;
        self.output.pitch += output;
        self
    }
    /// Other padding above and to the left, and an output of another extent.
    pub fn pad(mut self, pad: [u32; 2], extent: [u32; 2]) -> Self {
        self.pad = pad;
        [self.output.dims[1], self.output.dims[2]] = extent;
        self
    }

    pub fn scaled(self, scale: [f32; 2]) -> Self {
        Self { scale, ..self }
    }

    /// Channels of a group, of the input and of the output.
    fn in_group(&self) -> [u32; 2] {
        [self.input.dims[3], self.output.dims[3]].map(|channels| channels / self.groups)
    }

    pub fn layer(&self, isa: Isa) -> Layer {
        let points = (self.tile + 2) * (self.tile + 2);
        let [from, to] = self.in_group();
        Layer {
            kind: OpKind::Winograd as u32,
            inputs: [0, if self.residual == Residual::None { NONE } else { 1 }, NONE],
            output: 2,
            activation: self.activation,
            panels: self.groups * to.div_ceil(isa.panel() as u32),
            panel_bytes: (1 + points * from) * isa.panel() as u32 * 4,
            params: params_words(&WinogradParams {
                tile: self.tile,
                pad: self.pad,
                groups: self.groups,
            }),
            ..Layer::default()
        }
    }

    /// Input, filters `[out][in of the group][9]`, bias, residual.
    pub fn data(&self) -> [Vec<f32>; 4] {
        let buffer = |t: &Tensor| t.rows() as usize * t.pitch as usize;
        let (from, to) = (self.in_group()[0] as usize, self.output.dims[3] as usize);
        let floats = |count, seed, scale: f32| -> Vec<f32> {
            floats(count, seed).into_iter().map(|x| x * scale).collect()
        };
        let [inputs, filters] = self.scale;
        [
            floats(buffer(&self.input), 1, inputs),
            floats(to * from * 9, 2, filters),
            floats(to, 3, inputs * filters),
            floats(buffer(&self.output), 4, inputs * filters),
        ]
    }

    pub fn packed(&self, nr: usize) -> Vec<f32> {
        let [_, filters, bias, _] = self.data();
        let [from, in_group] = self.in_group().map(|channels| channels as usize);
        let points = ((self.tile + 2) * (self.tile + 2)) as usize;
        let panel = (1 + points * from) * nr;
        let panels = in_group.div_ceil(nr);
        let mut packed = vec![0.0; self.groups as usize * panels * panel];
        for o in 0..self.output.dims[3] as usize {
            let (group, inside) = (o / in_group, o % in_group);
            let (index, lane) = (group * panels + inside / nr, inside % nr);
            let panel = &mut packed[index * panel..];
            panel[lane] = bias[o];
            for c in 0..from {
                let filter = &filters[(o * from + c) * 9..][..9];
                let filter = core::array::from_fn(|i| filter[i] as f64);
                let all = transform_weights(self.tile as usize, &filter);
                for (point, &weight) in all[..points].iter().enumerate() {
                    panel[(1 + point * from + c) * nr + lane] = weight as f32;
                }
            }
        }
        packed
    }

    /// The convolution in double precision, without the output's gaps.
    pub fn exact(&self) -> Vec<f64> {
        let [input, filters, bias, residual] = self.data();
        let [images, height, width, to] = self.output.dims.map(|x| x as usize);
        let [_, h, w, _] = self.input.dims.map(|x| x as i64);
        let [from, in_group] = self.in_group().map(|channels| channels as usize);
        let mut exact = Vec::new();
        for row in 0..images * height * width {
            let (n, y, x) = (row / (height * width), row / width % height, row % width);
            for o in 0..to {
                let mut sum = bias[o] as f64;
                for tap in 0..9 {
                    let y = (y + tap / 3) as i64 - self.pad[0] as i64;
                    let x = (x + tap % 3) as i64 - self.pad[1] as i64;
                    if (0..h).contains(&y) && (0..w).contains(&x) {
                        let row = ((n as i64 * h + y) * w + x) as usize;
                        let start = row * self.input.pitch as usize + o / in_group * from;
                        let pixel = &input[start..][..from];
                        let filter = filters[o * from * 9 + tap..].iter().step_by(9);
                        let products = pixel.iter().zip(filter).map(|(a, b)| *a as f64 * *b as f64);
                        sum += products.sum::<f64>();
                    }
                }
                if self.residual != Residual::None {
                    sum += residual[row * self.output.pitch as usize + o] as f64;
                }
                let [min, max] = clamp(&self.activation);
                exact.push(sum.max(min as f64).min(max as f64));
            }
        }
        exact
    }

    /// Input, residual, and weights as these kernels have them: the same for all runs.
    fn operands(&self, kernels: &Kernels) -> [Vec<f32>; 3] {
        let [input, _, _, residual] = self.data();
        [input, residual, self.packed(kernels.nr())]
    }

    /// Runs the steps; the output's gaps must not change.
    pub fn run(&self, kernels: &'static Kernels, threads: usize, slices: &[Slice]) -> Vec<f32> {
        self.run_in(kernels, &self.operands(kernels), threads, slices, 1.0)
    }

    /// Runs the steps with some share of the scratch that they can use beyond the least.
    fn run_in(
        &self,
        kernels: &'static Kernels,
        operands: &[Vec<f32>; 3],
        threads: usize,
        slices: &[Slice],
        share: f64,
    ) -> Vec<f32> {
        let [input, residual, packed] = operands;
        let (layer, isa) = (self.layer(kernels.isa()), kernels.isa());
        let inputs = [self.input, self.output, Tensor::default()];
        assert_eq!(validate(&layer, &inputs, &self.output, isa), Ok(()), "{self:?}");
        let panel = layer.panel_bytes as usize / 4;
        let mat = |data, t: &Tensor| {
            MatRef::new(data, t.rows() as usize, t.dims[3] as usize, t.pitch as usize).unwrap()
        };
        let (rows, cols) = (self.output.rows() as usize, self.output.cols() as usize);
        let pitch = self.output.pitch as usize;
        let mut out = match self.residual {
            Residual::InPlace => residual.clone(),
            _ => vec![-7.0; residual.len()],
        };
        let before = out.clone();
        let bytes = |slice: &Slice| {
            let of = |want| {
                scratch_of(
                    &Problem {
                        layer: &layer,
                        inputs: &inputs,
                        output: &self.output,
                        slice: *slice,
                        threads: threads as u32,
                        isa,
                    },
                    want,
                )
            };
            let [least, all] = [Want::Least, Want::All].map(of);
            (least + ((all - least) as f64 * share) as u64).next_multiple_of(64)
        };
        for slice in slices {
            let mut memory = scratch(bytes(slice));
            let first = slice.first as usize;
            run(Call {
                layer: &layer,
                inputs,
                output: self.output,
                operands: [
                    Operand::Mat(mat(input, &self.input)),
                    match self.residual {
                        Residual::None => Operand::Absent,
                        Residual::InPlace => Operand::Output,
                        Residual::Apart => Operand::Mat(mat(residual, &self.output)),
                    },
                    Operand::Absent,
                ],
                out: MatMut::new(&mut out, rows, cols, pitch).unwrap(),
                weights: Packed::new(
                    &packed[first * panel..(first + slice.count as usize) * panel],
                ),
                prefetch: Default::default(),
                first,
                count: slice.count as usize,
                method: slice.method,
                rows: slice.row as usize..(slice.row + slice.rows) as usize,
                scratch: bytemuck::cast_slice_mut(&mut memory),
                // A device may have more or fewer threads than scratch was planned for.
                device: &Threads(match threads {
                    2 => 3,
                    5 => 4,
                    threads => threads,
                }),
                kernels,
            });
        }
        let mut dense = Vec::new();
        for row in 0..rows {
            dense.extend_from_slice(&out[row * pitch..][..cols]);
            let gap = row * pitch + cols..(row + 1) * pitch;
            assert_eq!(out[gap.clone()], before[gap], "{self:?}");
        }
        dense
    }

    /// Checks the case in rings.
    fn slide(&self, kernels: &'static Kernels, operands: &[Vec<f32>; 3], whole: &[f32]) {
        let [input, residual, packed] = operands;
        let mut layer = self.layer(kernels.isa());
        if self.residual == Residual::InPlace {
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

    /// Runs whole and in slices of panels and of lines of tiles, on one and several threads, on all
    /// kernels.
    pub fn check(&self) {
        let exact = self.exact();
        let rows = self.output.rows() as u32;
        let mut bits: Option<Vec<u32>> = None;
        for kernels in available() {
            let panels = self.layer(kernels.isa()).panels;
            let slice = |first, count| Slice { first, count, row: 0, rows, ..Slice::default() };
            let whole = vec![slice(0, panels)];
            let single: Vec<_> = (0..panels).map(|first| slice(first, 1)).collect();
            let mut halves = vec![slice(0, panels / 2), slice(panels / 2, panels - panels / 2)];
            halves.retain(|slice| slice.count > 0);
            // From image to image, and in lines of tiles: one at a time, and two of half of the
            // panels.
            let [_, height, width, _] = self.output.dims;
            let lines = |tiles: u32, slices: &[Slice]| -> Vec<_> {
                let lines = tiles * self.tile;
                let images = (0..rows).step_by((height * width) as usize);
                let starts = images.flat_map(|image| {
                    (0..height).step_by(lines as usize).map(move |line| (image, line))
                });
                let cut = |(image, line)| {
                    let rows = lines.min(height - line) * width;
                    let row = image + line * width;
                    slices.iter().map(move |slice| Slice { row, rows, ..*slice })
                };
                starts.flat_map(cut).collect()
            };
            let by_line = lines(1, &whole);
            let cross = lines(2, &halves);
            let last = height / self.tile * self.tile * width;
            let around: Vec<_> = [(0, last), (last, rows - last)]
                .into_iter()
                .map(|(row, rows)| Slice { row, rows, ..whole[0] })
                .filter(|slice| slice.rows > 0)
                .collect();
            let operands = self.operands(kernels);
            let all = [
                (1, &whole),
                (2, &whole),
                (3, &whole),
                (1, &single),
                (2, &halves),
                (5, &single),
                (1, &by_line),
                (3, &by_line),
                (2, &cross),
                (2, &around),
            ];
            let ways = most_ways(kernels, all.len());
            let all = all.into_iter().take(ways).enumerate();
            for (threads, slices, share) in all.flat_map(|(way, (threads, slices))| {
                // Each with one share in turn, and with all of them only in long sweeps.
                let shares = [1.0, 0.4, 0.0].into_iter().enumerate();
                let shares = shares.filter(move |(at, _)| *at == way % 3 || sweeps());
                shares.map(move |(_, share)| (threads, slices, share))
            }) {
                let got = self.run_in(kernels, &operands, threads, slices, share);
                let what = format!("{}, {threads} threads, {share} {self:?}", kernels.name());
                let found: Vec<u32> = got.iter().map(|x| x.to_bits()).collect();
                assert!(*bits.get_or_insert_with(|| found.clone()) == found, "bits: {what}");
                if slices[..] == whole[..] && threads == 1 && share == 1.0 && ways > 1 {
                    self.slide(kernels, &operands, &got);
                }
                let error = relative_error(&got, &exact);
                let bound = if self.tile == 2 { 2e-6 } else { 1e-5 };
                assert!(error <= bound, "{what}: error {error}");
            }
        }
    }
}

/// The largest error, relative to the largest magnitude; that of NaN is infinite.
pub fn relative_error(got: &[f32], exact: &[f64]) -> f64 {
    let largest = exact.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    let errors = got.iter().zip(exact).map(|(&got, exact)| (got as f64 - exact).abs());
    let largest_error =
        errors.fold(
            0.0,
            |most: f64, error: f64| {
                if error.is_nan() { f64::INFINITY } else { most.max(error) }
            },
        );
    largest_error / largest
}
