//! Winograd convolutions over odd shapes against double precision, and bit for bit across instruction
//! sets, slices and thread counts.

use super::*;
use crate::kernels::Kernels;
use crate::kernels::testing::{Threads, available, floats, scratch};
use crate::ops::Slice;
use crate::ops::testing::Slide;
use crate::pack::{Activation, NONE, OpKind};
use std::vec::Vec;
use std::{format, vec};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Residual {
    None,
    InPlace,
    Apart,
}

#[derive(Debug)]
pub struct Case {
    pub tile: u32,
    pub input: Tensor,
    pub output: Tensor,
    groups: u32,
    pad: [u32; 2],
    pub residual: Residual,
    activation: Activation,
}

/// Images, height, width, channels of the input, channels of the output, padded so that the map stays.
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

    /// Channels of a group, of the input and of the output.
    fn in_group(&self) -> [u32; 2] {
        [self.input.dims[3], self.output.dims[3]].map(|channels| channels / self.groups)
    }

    pub fn layer(&self, isa: Isa) -> Layer {
        let points = (self.tile + 2) * (self.tile + 2);
        let [from, to] = self.in_group();
        Layer {
            kind: OpKind::Winograd as u32,
            inputs: [0, if self.residual == Residual::None { NONE } else { 1 }],
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
        [
            floats(buffer(&self.input), 1),
            floats(to * from * 9, 2),
            floats(to, 3),
            floats(buffer(&self.output), 4),
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

    /// Runs the steps; the output's gaps must not change.
    pub fn run(&self, kernels: &'static Kernels, threads: usize, slices: &[Slice]) -> Vec<f32> {
        self.run_in(kernels, threads, slices, 1.0)
    }

    /// The same with some share of the scratch that steps can use beyond the least.
    fn run_in(
        &self,
        kernels: &'static Kernels,
        threads: usize,
        slices: &[Slice],
        share: f64,
    ) -> Vec<f32> {
        let [input, _, _, residual] = self.data();
        let (layer, isa) = (self.layer(kernels.isa()), kernels.isa());
        let inputs = [self.input, self.output];
        assert_eq!(validate(&layer, &inputs, &self.output, isa), Ok(()), "{self:?}");
        let packed = self.packed(kernels.nr());
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
        for slice in slices {
            let of =
                |want| scratch_of(&layer, &inputs, &self.output, slice, threads as u32, isa, want);
            let [least, all] = [Want::Least, Want::All].map(of);
            let bytes = least + ((all - least) as f64 * share) as u64;
            let mut scratch = scratch(bytes.next_multiple_of(64));
            let first = slice.first as usize;
            run(Call {
                layer: &layer,
                inputs,
                output: self.output,
                operands: [
                    Operand::Mat(mat(&input, &self.input)),
                    match self.residual {
                        Residual::None => Operand::Absent,
                        Residual::InPlace => Operand::Output,
                        Residual::Apart => Operand::Mat(mat(&residual, &self.output)),
                    },
                ],
                out: MatMut::new(&mut out, rows, cols, pitch).unwrap(),
                weights: &packed[first * panel..(first + slice.count as usize) * panel],
                algorithm: 0,
                first,
                count: slice.count as usize,
                rows: slice.row as usize..(slice.row + slice.rows) as usize,
                scratch: bytemuck::cast_slice_mut(&mut scratch),
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

    /// The same in rings.
    fn slide(&self, kernels: &'static Kernels, whole: &[f32]) {
        let [input, _, _, residual] = self.data();
        let mut layer = self.layer(kernels.isa());
        if self.residual == Residual::InPlace {
            layer.inputs[1] = layer.output;
        }
        let slide = Slide {
            layer: &layer,
            inputs: [self.input, self.output],
            output: self.output,
            data: [&input, &residual],
            out: &residual,
            weights: &self.packed(kernels.nr()),
        };
        slide.check(kernels, whole, &format!("{}, {self:?}", kernels.name()));
    }

    /// Runs whole and in slices of panels and of lines of tiles, on one and several threads, on all kernels.
    fn check(&self) {
        let exact = self.exact();
        let rows = self.output.rows() as u32;
        let mut bits: Option<Vec<u32>> = None;
        for kernels in available() {
            let panels = self.layer(kernels.isa()).panels;
            let slice = |first, count| Slice { first, count, row: 0, rows, algorithm: 0 };
            let whole = vec![slice(0, panels)];
            let single: Vec<_> = (0..panels).map(|first| slice(first, 1)).collect();
            let mut halves = vec![slice(0, panels / 2), slice(panels / 2, panels - panels / 2)];
            halves.retain(|slice| slice.count > 0);
            // From image to image, and in lines of tiles: one at a time, and two of half of the panels.
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
            for (threads, slices, share) in [
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
            ]
            .into_iter()
            .flat_map(|(threads, slices)| [1.0, 0.4, 0.0].map(|share| (threads, slices, share)))
            {
                let got = self.run_in(kernels, threads, slices, share);
                let what = format!("{}, {threads} threads, {share} {self:?}", kernels.name());
                let found: Vec<u32> = got.iter().map(|x| x.to_bits()).collect();
                assert!(*bits.get_or_insert_with(|| found.clone()) == found, "bits: {what}");
                if slices[..] == whole[..] && threads == 1 && share == 1.0 {
                    self.slide(kernels, &got);
                }
                let error = relative_error(&got, &exact);
                let bound = if self.tile == 2 { 2e-6 } else { 1e-5 };
                assert!(error <= bound, "{what}: error {error}");
            }
        }
    }
}

/// The largest error, relative to the largest magnitude.
pub fn relative_error(got: &[f32], exact: &[f64]) -> f64 {
    let largest = exact.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    let errors = got.iter().zip(exact).map(|(&got, exact)| (got as f64 - exact).abs());
    errors.fold(0.0, f64::max) / largest
}

#[test]
fn odd_shapes() {
    for tile in [2, 4] {
        case(tile, [1, 1, 1, 1], 1).check();
        case(tile, [1, 1, 1, 17], 35).check();
        case(tile, [1, 4, 4, 16], 32).check();
        case(tile, [1, 7, 5, 33], 40).gaps(3, 5).check();
        case(tile, [1, 13, 18, 20], 70).check();
        case(tile, [3, 5, 6, 9], 16).gaps(0, 1).check();
        case(tile, [1, 2, 31, 8], 24).check();
    }
}

/// Tiles at the edge with any number of outputs, of one tile's map and of several; maps smaller than a tile.
#[test]
fn edges() {
    for tile in [2, 4] {
        for height in 1..=tile {
            for width in 1..=tile {
                case(tile, [1, height, width, 19], 33).check();
                let larger = [2, height + 2 * tile, width + tile, 17];
                case(tile, larger, 48).gaps(1, 3).residual(Residual::Apart).check();
            }
        }
    }
}

/// Groups with fewer channels than a panel, as many, and more; fewer in than out and the other way; parts, slices and blocks
/// that begin and end inside of one; several that are transformed together, and the last ones of them.
#[test]
fn groups() {
    for tile in [2, 4] {
        for (groups, from, to) in
            [(2, 1, 1), (3, 5, 8), (7, 8, 32), (5, 32, 16), (3, 33, 40), (2, 20, 70), (9, 16, 9)]
        {
            case(tile, [1, 9, 11, groups * from], groups * to).groups(groups).check();
        }
        let odd = case(tile, [2, 7, 6, 4 * 18], 4 * 36).groups(4).gaps(5, 3);
        odd.residual(Residual::Apart).activation(Activation::RELU).check();
        case(tile, [1, 10, 9, 3 * 32], 3 * 32).groups(3).residual(Residual::InPlace).check();
        case(tile, [1, 9, 8, 30], 24).groups(6).pad([2, 0], [11, 6]).check();
    }
    // Several blocks of tiles; runs of panels within a group; several chains.
    case(4, [1, 50, 49, 32], 64).groups(2).check();
    case(4, [1, 13, 13, 2 * 100], 2 * 160).groups(2).check();
    case(4, [1, 6, 9, 2 * 1040], 2 * 24).groups(2).check();
}

/// A step that makes panels in turns has scratch by how many they are, and these begin anywhere in a group.
#[test]
fn scratch_is_the_same_wherever_a_slice_begins() {
    for isa in Isa::ALL.into_iter().filter(|isa| *isa != Isa::Cuda) {
        let case = case(4, [1, 9, 11, 4 * 40], 4 * 70).groups(4);
        let (layer, inputs) = (case.layer(isa), [case.input, case.output]);
        let bytes = |first, count, threads, want| {
            let slice = Slice { first, count, row: 0, rows: 99, algorithm: 0 };
            scratch_of(&layer, &inputs, &case.output, &slice, threads, isa, want)
        };
        for (threads, want) in [(1, Want::All), (3, Want::All), (3, Want::Least)] {
            for count in 1..layer.panels {
                let all = bytes(0, count, threads, want);
                for first in 1..=layer.panels - count {
                    assert_eq!(
                        bytes(first, count, threads, want),
                        all,
                        "{isa:?}, {first}, {count}"
                    );
                }
            }
        }
    }
}

#[test]
fn padding_and_extents() {
    for tile in [2, 4] {
        case(tile, [1, 9, 8, 5], 12).pad([0, 0], [7, 6]).check();
        case(tile, [1, 9, 8, 5], 12).pad([2, 0], [11, 6]).check();
        case(tile, [1, 3, 4, 5], 12).pad([1, 2], [9, 11]).check();
    }
}

#[test]
fn residuals_and_activations() {
    for tile in [2, 4] {
        for residual in [Residual::InPlace, Residual::Apart] {
            case(tile, [1, 10, 9, 16], 33).residual(residual).check();
            let relu = case(tile, [2, 6, 7, 19], 64).gaps(1, 4).residual(residual);
            relu.activation(Activation::RELU).check();
        }
        // Other functions are applied to finished outputs, each once.
        let plain = case(tile, [1, 7, 9, 16], 40).gaps(0, 2);
        let silu = case(tile, [1, 7, 9, 16], 40).gaps(0, 2).activation(Activation {
            kind: crate::pack::ActivationKind::Silu as u32,
            ..Activation::NONE
        });
        for kernels in available() {
            let panels = plain.layer(kernels.isa()).panels;
            let whole = [Slice { first: 0, count: panels, row: 0, rows: 63, algorithm: 0 }];
            let mut expected = plain.run(kernels, 1, &whole);
            let cols = expected.len();
            let all = MatMut::new(&mut expected, 1, cols, cols).unwrap();
            kernels.map(&silu.activation, all);
            assert_eq!(silu.run(kernels, 2, &whole), expected);
        }
    }
}

/// Several blocks of tiles, in rows and in panels, groups of panels, and a block that many channels make small.
#[test]
fn blocks() {
    case(4, [1, 13, 13, 100], 200).check();
    case(4, [1, 50, 49, 16], 40).check();
    case(2, [1, 40, 30, 24], 64).check();
    case(4, [1, 12, 24, 1100], 8).check();
    // Several chains, of frequencies that not all tiles have.
    case(4, [1, 13, 10, 1100], 40).check();
    case(2, [1, 7, 5, 1040], 24).residual(Residual::Apart).check();
}

#[test]
fn errors_of_deep_sums_stay_within_bounds() {
    for (tile, bound) in [(2, 1e-6), (4, 6e-6)] {
        for channels in [64, 512] {
            let case = case(tile, [1, 14, 14, channels], 32);
            let kernels = Kernels::best();
            let slice = Slice {
                first: 0,
                count: 32 / kernels.nr() as u32,
                row: 0,
                rows: 196,
                algorithm: 0,
            };
            let got = case.run(kernels, 1, &[slice]);
            let error = relative_error(&got, &case.exact());
            std::println!("F({tile},3), {channels} channels: {error:.1e}");
            assert!(error <= bound, "F({tile},3), {channels} channels: {error}");
        }
    }
}

/// What tiles with fewer outputs compute is no worse than what whole ones do.
#[test]
fn errors_at_edges_stay_within_those_of_whole_tiles() {
    for tile in [2usize, 4] {
        let error = |height: usize, width: usize| {
            let case = case(tile as u32, [1, height as u32, width as u32, 128], 32);
            let kernels = Kernels::best();
            let count = 32 / kernels.nr() as u32;
            let rows = (height * width) as u32;
            let whole = [Slice { first: 0, count, row: 0, rows, algorithm: 0 }];
            let (got, exact) = (case.run(kernels, 1, &whole), case.exact());
            let of_whole = |index: usize| {
                let (line, col) = (index / 32 / width, index / 32 % width);
                line < height / tile * tile && col < width / tile * tile
            };
            let mean = |whole: bool| {
                let errors = got.iter().zip(&exact).map(|(got, exact)| *got as f64 - exact);
                let errors = errors.enumerate().filter(|(index, _)| of_whole(*index) == whole);
                let errors: Vec<f64> = errors.map(|(_, error)| error).collect();
                (errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64).sqrt()
            };
            mean(false) / mean(true)
        };
        for outputs in 1..tile {
            let share = error(12 + outputs, 12 + outputs);
            std::println!("F({tile},3), {outputs} outputs: {share:.2} of whole tiles' error");
            assert!(share <= 1.02, "F({tile},3), {outputs} outputs: {share}");
        }
    }
}

#[test]
fn scratch_is_bounded_and_serves_fewer_threads() {
    for isa in Isa::ALL {
        for (size, channels) in [(224, 64), (112, 128), (56, 256), (28, 512), (14, 512), (7, 512)] {
            for tile in [2, 4] {
                let case = case(tile, [1, size, size, channels], channels);
                let layer = case.layer(isa);
                let slice = Slice {
                    first: 0,
                    count: layer.panels,
                    row: 0,
                    rows: size * size,
                    algorithm: 0,
                };
                let inputs = [case.input, case.output];
                let of = |threads, want| {
                    scratch_of(&layer, &inputs, &case.output, &slice, threads, isa, want)
                };
                let bytes = |threads| of(threads, Want::All);
                // Four tiles and their products.
                assert!(of(1, Want::Least) <= 400_000, "{isa:?} {case:?}");
                assert!(bytes(1) <= 2_800_000, "{isa:?} {case:?}: {}", bytes(1));
                for threads in 1..6 {
                    assert!(bytes(threads) <= bytes(threads + 1));
                    assert!(bytes(threads) <= u64::from(threads) * 2_800_000);
                }
            }
        }
    }
}

#[test]
fn records_that_do_not_fit_are_refused() {
    let isa = Isa::Avx512;
    let good = || case(4, [1, 9, 8, 20], 40);
    let refuse = |case: Case, change: &dyn Fn(&mut Layer)| {
        let mut layer = case.layer(isa);
        change(&mut layer);
        assert!(validate(&layer, &[case.input, case.output], &case.output, isa).is_err());
    };
    for tile in [0, 1, 3, 6, u32::MAX] {
        let p = WinogradParams { tile, pad: [1, 1], groups: 1 };
        refuse(good(), &|layer| layer.params = params_words(&p));
    }
    for groups in [0, 2, 3, 8, 40, u32::MAX] {
        let p = WinogradParams { tile: 4, pad: [1, 1], groups };
        refuse(good(), &|layer| layer.params = params_words(&p));
    }
    // Groups that a processor can compute: two of 10 channels, with a panel each.
    let grouped = good().groups(2);
    let (inputs, cuda) = ([grouped.input, grouped.output], grouped.layer(Isa::Cuda));
    assert_eq!(validate(&grouped.layer(isa), &inputs, &grouped.output, isa), Ok(()));
    assert!(validate(&cuda, &inputs, &grouped.output, Isa::Cuda).is_err());
    refuse(good().groups(2), &|layer| layer.panel_bytes = good().layer(isa).panel_bytes);
    refuse(good(), &|layer| layer.panels += 1);
    refuse(good(), &|layer| layer.panel_bytes += 128);
    refuse(good(), &|layer| layer.inputs[0] = NONE);
    refuse(good(), &|layer| layer.inputs[0] = layer.output);
    refuse(good(), &|layer| layer.activation.kind = 99);
    refuse(good().residual(Residual::Apart), &|layer| layer.panel_bytes = 0);
    let mut huge = good();
    huge.output.dims[1] = u32::MAX;
    refuse(huge, &|_| {});
}
