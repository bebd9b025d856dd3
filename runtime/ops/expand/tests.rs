use super::*;
use crate::kernels::Kernels;
use crate::kernels::table::{TILES, bf16, dequantised, f16};
use crate::kernels::testing::{assert_same, sweeps};
use crate::matrix::{MatMut, MatRef};
use crate::ops::testing::{Case, Random, elements, layer, relative_error};
use crate::ops::{Problem, Slice, scratch_bytes, validate, validate_slice};
use crate::pack::{
    Activation, ActivationKind, ConvParams, GatherParams, INPUTS, Method, NONE, OpKind, Tensor,
    WinogradParams, params, params_words,
};
use std::prelude::rust_2024::*;
use std::vec;

const F32: u32 = Encoding::F32 as u32;

/// A layer with weights as they are stored, and the same with panels of floats.
struct Pair {
    stored: Case,
    plain: Case,
}

/// Random weights of 16 bits: small numbers, and now and then one below what is normal.
fn weight(random: &mut Random, encoding: Encoding) -> u16 {
    let tiny = random.below(40) == 0;
    let sign = (random.below(2) as u16) << 15;
    match encoding {
        Encoding::F16 if tiny => sign | random.below(1024) as u16,
        Encoding::F16 => sign | (12 << 10) | random.below(3 << 10) as u16,
        _ => sign | (0x3e80 + random.below(0x100) as u16),
    }
}

/// A layer whose outputs have `k` weights each, `[height, width, channels]` in and out.
fn pair(
    random: &mut Random,
    isa: Isa,
    layer: Layer,
    k: u64,
    panels: u32,
    shapes: [[u32; 3]; 2],
    residual: bool,
) -> Pair {
    let encoding = layer.encoding().unwrap();
    let nr = isa.panel();
    let width = layer.columns(isa);
    let bytes = |encoding: Encoding| encoding.panel_bytes(k, width, nr).unwrap() as u32;
    let bytes_of = |encoding| bytes(encoding) as usize;
    let dims = shapes.map(|[height, width, channels]| [1, height, width, channels]);
    let inputs = if residual { vec![dims[0], dims[1]] } else { vec![dims[0]] };
    let layer = Layer { panels, panel_bytes: bytes(encoding), ..layer };
    let mut stored = Case::contiguous(layer, random, &inputs, dims[1]);
    let mut plain = stored.clone();
    plain.layer.encoding = F32;
    plain.layer.panel_bytes = bytes(Encoding::F32);
    for _ in 0..panels {
        let biases: Vec<f32> = (0..nr).map(|_| random.float()).collect();
        let (start, before) = (stored.weights.len(), plain.weights.len());
        for to in [&mut stored.weights, &mut plain.weights] {
            to.extend_from_slice(&biases);
        }
        // And what is read after the last of them.
        let count = k as usize * width + nr - width;
        if encoding == Encoding::I8 {
            let scales: Vec<f32> = (0..nr).map(|_| random.float() / 100.0).collect();
            let bytes: Vec<i8> = (0..nr + count).map(|_| random.below(256) as u8 as i8).collect();
            let wide = |at: usize| {
                let lane = at - (at / width).min(k as usize - 1) * width;
                dequantised(bytes[nr + at], bytes[lane], scales[lane])
            };
            plain.weights.extend((0..count).map(wide));
            stored.weights.extend_from_slice(&scales);
            let words = bytes.chunks(4).map(|four| {
                let mut word = [0; 4];
                word.iter_mut().zip(four).for_each(|(to, byte)| *to = *byte as u8);
                f32::from_le_bytes(word)
            });
            stored.weights.extend(words);
            stored.weights.resize(start + bytes_of(encoding) / 4, 0.0);
            plain.weights.resize(before + bytes_of(Encoding::F32) / 4, 0.0);
            continue;
        }
        let weights: Vec<u16> = (0..count).map(|_| weight(random, encoding)).collect();
        let wide = |bits: u16| if encoding == Encoding::F16 { f16(bits) } else { bf16(bits) };
        match encoding {
            Encoding::F32 => {
                let floats: Vec<f32> = weights.iter().map(|_| random.float()).collect();
                stored.weights.extend_from_slice(&floats);
                plain.weights.extend_from_slice(&floats);
            }
            _ => {
                plain.weights.extend(weights.iter().map(|bits| wide(*bits)));
                let words = weights.chunks(2).map(|pair| {
                    let high = pair.get(1).copied().unwrap_or(0);
                    f32::from_bits(u32::from(pair[0]) | u32::from(high) << 16)
                });
                stored.weights.extend(words);
            }
        }
        stored.weights.resize(start + bytes(encoding) as usize / 4, 0.0);
        plain.weights.resize(before + bytes(Encoding::F32) as usize / 4, 0.0);
    }
    Pair { stored, plain }
}

/// Whole, panel by panel, and in uneven parts, in rows too where a layer's may be cut.
fn slicings(case: &Case, algorithm: u32) -> Vec<Vec<Slice>> {
    let (panels, rows) = (case.layer.panels, case.output.rows() as u32);
    let method = Method::by(algorithm);
    let whole = Slice { first: 0, count: panels, row: 0, rows, method };
    let mut all = vec![vec![whole]];
    all.push((0..panels).map(|first| Slice { first, count: 1, ..whole }).collect());
    let third = panels / 3;
    if third > 0 {
        all.push(vec![
            Slice { count: third, ..whole },
            Slice { first: third, count: panels - third, ..whole },
        ]);
    }
    if algorithm == 0 && case.layer.kind != OpKind::Winograd as u32 && rows > 1 {
        let cut = rows / 2;
        all.push(vec![Slice { rows: cut, ..whole }, Slice { row: cut, rows: rows - cut, ..whole }]);
    }
    all
}

fn everywhere(case: &Case, kernels: &Kernels, algorithm: u32, wanted: Option<&[f32]>) -> Vec<f32> {
    let buffers = [case.data[0].len() as u64, case.out.len() as u64];
    assert_eq!(validate(&case.layer, &case.inputs, &case.output, buffers, kernels.isa()), Ok(()));
    let whole = &slicings(case, algorithm)[0];
    let first = case.run_sliced(kernels, 1, whole, 1.0);
    let wanted = wanted.map_or(first.clone(), <[f32]>::to_vec);
    // Every slicing with every number of threads, and with three shares; any two of them together only in long sweeps.
    for (way, slices) in slicings(case, algorithm).into_iter().enumerate() {
        for threads in [1, 2, 3] {
            for (at, share) in [1.0, 0.6, 0.3, 0.0].into_iter().enumerate() {
                if (way + threads + at) % 4 != 0 && !sweeps() {
                    continue;
                }
                let found = case.run_sliced(kernels, threads, &slices, share);
                let what = format!(
                    "{}, {threads} threads, {share} of scratch, {slices:?}",
                    kernels.name()
                );
                assert_same(&found, &wanted, &what);
            }
        }
    }
    let dense: Vec<f32> = elements(&case.output).map(|at| first[at]).collect();
    case.slide_with(kernels, algorithm, &dense);
    first
}

fn convolution(kernel: u32, pad: u32, groups: u32) -> ConvParams {
    let ones = [1; 2];
    ConvParams {
        kernel: [kernel; 2],
        stride: ones,
        dilation: ones,
        pad: [pad; 2],
        groups,
        chains: 0,
    }
}

#[test]
fn encoded_panels_give_the_bits_of_widened_ones() {
    let sigmoid = Activation { kind: ActivationKind::Sigmoid as u32, ..Activation::NONE };
    for kernels in Kernels::all() {
        let mut random = Random::new(7);
        let (isa, nr) = (kernels.isa(), kernels.nr() as u32);
        for encoding in [Encoding::F16, Encoding::Bf16] {
            // Image, channels in and out, kernel, groups, residual: rows of one (also with more k
            // than fit one piece), many panels and few rows, few panels and many rows, groups.
            for (size, from, to, kernel, groups, residual) in [
                (1, 5, 3, 1, 1, true),
                (1, 1500, 5 * nr + 3, 1, 1, true),
                (3, 40, 7 * nr - 1, 3, 1, true),
                (2, 700, 6 * nr, 1, 1, false),
                (13, 7, nr + 5, 3, 1, true),
                (5, 4 * nr, 4 * nr, 3, 4, true),
                (5, 6, 10, 1, 2, false),
            ] {
                let activation = if residual { sigmoid } else { Activation::RELU };
                let params = convolution(kernel, kernel / 2, groups);
                let layer =
                    Layer { encoding: encoding as u32, ..layer(OpKind::Conv, activation, &params) };
                let k = u64::from(kernel * kernel * (from / groups));
                let panels = groups * (to / groups).div_ceil(nr);
                let shapes = [[size, size, from], [size, size, to]];
                let Pair { stored, plain } =
                    pair(&mut random, isa, layer, k, panels, shapes, residual);
                let wanted = everywhere(&plain, kernels, 0, None);
                everywhere(&stored, kernels, 0, Some(&wanted));
            }
            // Panels that hold fewer channels than they have room for.
            for (size, from, to, kernel, groups, width) in [
                (1, 5, 3, 1, 1, 1),
                (1, 3000, 1, 1, 1, 1),
                (1, 1500, 5 * nr + 3, 1, 1, nr - 1),
                (3, 40, 2 * nr - 3, 3, 1, nr - 1),
                (13, 7, nr + 1, 3, 1, nr / 2 + 1),
                (2, 700, 3 * nr, 1, 1, 3),
                (5, 6, 10, 1, 2, 5),
            ] {
                let params = convolution(kernel, kernel / 2, groups);
                let encoding = encoding as u32;
                let layer = Layer { encoding, width, ..layer(OpKind::Conv, sigmoid, &params) };
                let k = u64::from(kernel * kernel * (from / groups));
                let panels = groups * (to / groups).div_ceil(width);
                let shapes = [[size, size, from], [size, size, to]];
                let Pair { stored, plain } = pair(&mut random, isa, layer, k, panels, shapes, true);
                let wanted = everywhere(&plain, kernels, 0, None);
                everywhere(&stored, kernels, 0, Some(&wanted));
            }
            let depthwise = convolution(3, 1, 3 * nr);
            let layer = Layer {
                encoding: encoding as u32,
                ..layer(OpKind::Depthwise, sigmoid, &depthwise)
            };
            let shapes = [[6, 7, 3 * nr]; 2];
            let Pair { stored, plain } = pair(&mut random, isa, layer, 9, 3, shapes, true);
            let wanted = everywhere(&plain, kernels, 0, None);
            everywhere(&stored, kernels, 0, Some(&wanted));
        }
    }
}

#[test]
fn encoded_frequencies_and_tables_too() {
    for kernels in Kernels::all() {
        let mut random = Random::new(8);
        let (isa, nr) = (kernels.isa(), kernels.nr() as u32);
        for encoding in [Encoding::F16, Encoding::Bf16] {
            for tile in TILES.map(|tile| tile as u32) {
                let params = WinogradParams { tile, pad: [1; 2], groups: 1 };
                let layer = Layer {
                    encoding: encoding as u32,
                    ..layer(OpKind::Winograd, Activation::RELU, &params)
                };
                let k = u64::from((tile + 2) * (tile + 2) * 19);
                let shapes = [[9, 10, 19], [9, 10, 3 * nr - 1]];
                let Pair { stored, plain } = pair(&mut random, isa, layer, k, 3, shapes, true);
                let wanted = everywhere(&plain, kernels, 0, None);
                everywhere(&stored, kernels, 0, Some(&wanted));
            }
            let params = GatherParams { entries: 11 };
            for (cols, width, panels) in [(2 * nr + 1, 0, 3), (3 * nr - 5, nr - 1, 3), (3, 1, 3)] {
                let encoding = encoding as u32;
                let gather = layer(OpKind::Gather, Activation::NONE, &params);
                let layer = Layer { encoding, width, ..gather };
                let shapes = [[1, 6, 1], [1, 6, cols]];
                let Pair { mut stored, mut plain } =
                    pair(&mut random, isa, layer, 11, panels, shapes, false);
                for case in [&mut stored, &mut plain] {
                    case.data[0].copy_from_slice(&[0.0, 10.0, -1.0, 3.0, 3.0, 5.0]);
                }
                let wanted = everywhere(&plain, kernels, 0, None);
                everywhere(&stored, kernels, 0, Some(&wanted));
            }
        }
    }
}

/// A 3x3 convolution in double precision, with weights as floats in panels.
fn truth(case: &Case, columns: usize, nr: usize) -> Vec<f64> {
    let [_, height, width, all] = case.inputs[0].dims.map(|x| x as usize);
    let to = case.output.dims[3] as usize;
    let groups = params::<ConvParams>(&case.layer).groups as usize;
    let (from, in_group) = (all / groups, to / groups);
    let panel = case.layer.panel_bytes as usize / 4;
    let mut out = vec![0.0; height * width * to];
    for (at, out) in out.iter_mut().enumerate() {
        let (y, x, o) = (at / to / width, at / to % width, at % to);
        let (group, o) = (o / in_group, o % in_group);
        let index = group * in_group.div_ceil(columns) + o / columns;
        let weights = &case.weights[index * panel..][..panel];
        *out = f64::from(weights[o % columns]);
        for tap in 0..9 {
            let (row, col) = (y + tap / 3, x + tap % 3);
            if !(1..=height).contains(&row) || !(1..=width).contains(&col) {
                continue;
            }
            for c in 0..from {
                let pixel = (row - 1) * width + col - 1;
                let input = case.data[0][pixel * all + group * from + c];
                let weight = weights[nr + (tap * from + c) * columns + o % columns];
                *out += f64::from(input) * f64::from(weight);
            }
        }
        *out += case.data[1].get(at).map_or(0.0, |x| f64::from(*x));
    }
    out
}

/// Largest error against double precision, relative to the largest magnitude.
fn error(found: &[f32], truth: &[f64]) -> f64 {
    let most = truth.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    found.iter().zip(truth).map(|(x, y)| relative_error(*x, *y, most)).fold(0.0, f64::max)
}

#[test]
fn transformed_by_the_step() {
    for (tile, bound) in [(2, 2e-6), (4, 1e-5)] {
        let mut bits: Option<Vec<Vec<u32>>> = None;
        for kernels in Kernels::all() {
            let isa = kernels.isa();
            let nr = kernels.nr() as u32;
            let mut made = Vec::new();
            // The same layers for each width of panels: some of one group, of which one is made in
            // several channel blocks; more groups than are transformed at once.
            let layers = [
                (1, 35, 11 * nr - 3, 11, 0),
                (1, 100, 3 * nr, 3, 0),
                (13, 13 * 6, 13 * (nr + 2), 13 * 2, 0),
                (1, 37, 3 * (nr - 3) - 1, 3, nr - 3),
                (3, 3 * 17, 3 * (nr + 1), 3 * 2, nr / 2 + 1),
            ];
            // Each layer in one encoding, or in all.
            let encodings = Encoding::ALL.len();
            let all = (0..encodings * layers.len())
                .filter(|at| sweeps() || at % encodings == at / encodings % encodings);
            for at in all {
                let encoding = Encoding::ALL[at % encodings];
                let (groups, from, to, panels, width) = layers[at / encodings];
                let mut random = Random::new(9);
                let params = convolution(3, 1, groups);
                let layer = Layer {
                    encoding: encoding as u32,
                    width,
                    ..layer(OpKind::Conv, Activation::NONE, &params)
                };
                let shapes = [[9, 11, from], [9, 11, to]];
                let k = 9 * u64::from(from / groups);
                let Pair { stored, plain } = pair(&mut random, isa, layer, k, panels, shapes, true);
                let found = everywhere(&stored, kernels, tile, None);
                let wide = everywhere(&plain, kernels, tile, None);
                assert_eq!(found, wide);
                let error = error(&found, &truth(&plain, layer.columns(isa), nr as usize));
                assert!(error < bound, "F({tile},3) {} {encoding:?}: {error:e}", kernels.name());
                made.push(found.iter().map(|x| x.to_bits()).collect());
            }
            // NEON's panels are as wide as the portable ones.
            if isa == Isa::Portable {
                bits = Some(made);
            } else if nr == 8 {
                assert_eq!(bits.as_ref(), Some(&made), "{}", kernels.name());
            }
        }
    }
}

#[test]
fn transforms_have_the_same_bits_and_stated_errors() {
    for tile in TILES {
        let points = (tile + 2) * (tile + 2);
        let mut random = Random::new(10);
        for count in [32, 96, 32 * 19] {
            let filters: Vec<f32> = (0..9 * count).map(|_| random.float()).collect();
            let of = |kernels: &Kernels| {
                let mut out = vec![0.0; points * (count + 3)];
                let to = MatMut::new(&mut out, points, count, count + 3).unwrap();
                kernels.winograd_weights(tile, MatRef::new(&filters, 9, count, count).unwrap(), to);
                out
            };
            let wanted = of(Kernels::PORTABLE);
            for kernels in Kernels::all() {
                let same = of(kernels).iter().zip(&wanted).all(|(x, y)| x.to_bits() == y.to_bits());
                assert!(same, "F({tile},3) of {count}, {}", kernels.name());
            }
            for filter in 0..count {
                let taps = core::array::from_fn(|tap| f64::from(filters[tap * count + filter]));
                let truth = crate::ops::winograd::transform_weights(tile, &taps);
                for (point, truth) in truth[..points].iter().enumerate() {
                    let found = wanted[point * (count + 3) + filter];
                    let error = relative_error(found, *truth, 0.5);
                    assert!(error < 4e-7, "{found:e}, {truth:e}: {error:e}");
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let isa = Isa::Portable;
    let mut random = Random::new(11);
    let good = |encoding: Encoding| Layer {
        encoding: encoding as u32,
        ..layer(OpKind::Conv, Activation::NONE, &convolution(3, 1, 1))
    };
    let shapes = [[4, 4, 5], [4, 4, 9]];
    for encoding in Encoding::ALL {
        let Pair { stored, .. } = pair(&mut random, isa, good(encoding), 45, 2, shapes, false);
        let valid = |change: &dyn Fn(&mut Layer)| {
            let mut layer = stored.layer;
            change(&mut layer);
            let buffers = [stored.data[0].len() as u64, stored.out.len() as u64];
            validate(&layer, &stored.inputs, &stored.output, buffers, isa).is_ok()
        };
        assert!(valid(&|_| {}));
        assert!(!valid(&|layer| layer.encoding = 4));
        assert!(!valid(&|layer| layer.encoding = u32::from(layer.encoding == 0)));
        assert!(!valid(&|layer| layer.panel_bytes += 32));
        assert!(!valid(&|layer| layer.panel_bytes -= 32));
        for width in [1, 7, 8, 9, 255, u32::MAX] {
            assert!(!valid(&|layer| layer.width = width), "{width}");
        }
        let slice = |algorithm| Slice {
            first: 0,
            count: 2,
            row: 0,
            rows: 16,
            method: Method::by(algorithm),
        };
        let sliceable = |layer: &Layer, slice: Slice| {
            validate_slice(&Problem {
                layer,
                inputs: &stored.inputs,
                output: &stored.output,
                slice,
                threads: 1,
                isa,
            })
            .is_ok()
        };
        for algorithm in 0..8 {
            let ok = [0, 2, 4].contains(&algorithm);
            assert_eq!(sliceable(&stored.layer, slice(algorithm)), ok, "{algorithm}");
        }
        assert!(!sliceable(&stored.layer, Slice { rows: 8, ..slice(4) }));
        assert!(!sliceable(&stored.layer, Slice { count: 3, ..slice(4) }));
        let with = |params| Layer { params: params_words(&params), ..stored.layer };
        let ok = convolution(3, 1, 1);
        assert!(sliceable(&with(ok), slice(2)));
        for params in [
            ConvParams { stride: [2, 1], ..ok },
            ConvParams { kernel: [3, 1], ..ok },
            ConvParams { dilation: [1, 2], ..ok },
            ConvParams { groups: 5, ..ok },
        ] {
            assert!(!sliceable(&with(params), slice(2)));
        }
        for kind in [OpKind::Winograd, OpKind::Depthwise, OpKind::Unary] {
            assert!(!sliceable(&Layer { kind: kind as u32, ..stored.layer }, slice(4)));
        }
        // Panels whose expanded form no field could hold.
        let wide = Tensor { dims: [1, 4, 4, u32::MAX / 100], ..stored.inputs[0] };
        assert!(transformed(&stored.layer, &wide, 4, isa).is_err());
    }
    let unary = layer(OpKind::Unary, Activation::RELU, &[0u32; 24]);
    let unary = Layer { inputs: [0, NONE, NONE], encoding: 1, ..unary };
    let tensor = Tensor { dims: [1, 1, 1, 8], pitch: 8, ..Tensor::default() };
    assert!(validate(&unary, &[tensor; INPUTS], &tensor, [8; 2], isa).is_err());
    let slice = Slice { first: 0, count: 0, row: 0, rows: 1, ..Slice::default() };
    assert_eq!(
        scratch_bytes(&Problem {
            layer: &unary,
            inputs: &[tensor; INPUTS],
            output: &tensor,
            slice,
            threads: 2,
            isa
        }),
        0
    );
}
