//! Winograd convolutions over odd shapes against double precision, and bit for bit across
//! instruction sets, slices and thread counts.

use super::testing::{Case, case, relative_error};
use super::*;
use crate::kernels::Kernels;
use crate::kernels::testing::{available, sweeps};
use crate::matrix::MatMut;
use crate::ops::testing::Residual;
use crate::ops::{Problem, Slice};
use crate::pack::{Activation, NONE};
use std::format;
use std::vec::Vec;

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

/// Inputs of 2¹⁰⁰ with filters whose magnitudes add up to nearly 1e5, and inputs as small: nothing
/// overflows, and the error is that of other inputs.
#[test]
fn the_range_of_inputs() {
    for tile in [2, 4] {
        for scale in [[2f32.powi(100), 256.0], [2f32.powi(-99), 1.0], [1.0, 2f32.powi(-99)]] {
            case(tile, [1, 9, 11, 64], 24).scaled(scale).check();
            case(tile, [1, 3, 6, 40], 16).scaled(scale).residual(Residual::Apart).check();
        }
    }
}

/// Inputs that are denormal, or nearly. Each rounding of the transforms is then up to half of the
/// least number, 2⁻¹⁴⁹, and the weights of an output channel amplify it: beside the stated part of
/// the largest output, the error is as large as that at most. It is nothing beside outputs of 1e-30.
#[test]
fn denormal_inputs() {
    const LEAST: f64 = 1.401298464324817e-45;
    let mut relative = 0.0f64;
    for (tile, bound) in [(2, 2e-6), (4, 1e-5)] {
        for (power, channels) in [(149, 16), (146, 64), (140, 16), (134, 64), (127, 40), (120, 16)]
        {
            let case = case(tile, [1, 9, 11, channels], 24).scaled([0.5f32.powi(power), 1.0]);
            let exact = case.exact();
            let largest = exact.iter().fold(0.0f64, |most, x| most.max(x.abs()));
            let [_, filters, ..] = case.data();
            let of_outputs = filters.chunks_exact(9 * channels as usize);
            let sums = of_outputs.map(|all| all.iter().map(|x| f64::from(x.abs())).sum::<f64>());
            let tiny = 4.0 * LEAST * (1.0 + sums.fold(0.0, f64::max));
            for kernels in available() {
                let count = case.layer(kernels.isa()).panels;
                let whole = Slice { count, rows: 99, ..Slice::default() };
                let error = relative_error(&case.run(kernels, 1, &[whole]), &exact);
                let most = bound * largest + tiny;
                let what = format!("{} F({tile},3), 2^-{power}", kernels.name());
                assert!(error * largest <= most, "{what}: {:e}, against {most:e}", error * largest);
                relative = relative.max(error / bound);
            }
        }
    }
    // The bound of other layers is not kept.
    assert!(relative > 1.0);
    // It is where outputs are this large: the planner takes weights that add up to 1e5 at most.
    const { assert!(4.0 * LEAST * 1e5 < 1e-3 * 2e-6 * 1e-30) };
}

/// Tiles at the edge with any number of outputs, of one tile's map and of several; maps smaller
/// than a tile.
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

/// Groups with fewer channels than a panel, the same number, and more; with fewer input than output
/// channels, and the other way. Parts, slices and blocks that begin and end inside of one. Several
/// groups that are transformed together, and the last ones of them.
#[test]
fn groups() {
    for tile in [2, 4] {
        let all =
            [(2, 1, 1), (3, 5, 8), (7, 8, 32), (5, 32, 16), (3, 33, 40), (2, 20, 70), (9, 16, 9)];
        // Half of them for each tile, or all.
        let (first, step) = if sweeps() { (0, 1) } else { (tile as usize / 4, 2) };
        for &(groups, from, to) in all.iter().skip(first).step_by(step) {
            case(tile, [1, 9, 11, groups * from], groups * to).groups(groups).check();
        }
        let odd = case(tile, [2, 7, 6, 4 * 18], 4 * 36).groups(4).gaps(5, 3);
        odd.residual(Residual::Apart).activation(Activation::RELU).check();
        case(tile, [1, 10, 9, 3 * 32], 3 * 32).groups(3).residual(Residual::InPlace).check();
        case(tile, [1, 9, 8, 30], 24).groups(6).pad([2, 0], [11, 6]).check();
    }
    // Several blocks of tiles; runs of panels within a group; several chains.
    case(4, [1, 50, 49, 32], 64).groups(2).check();
    if sweeps() {
        case(4, [1, 13, 13, 2 * 100], 2 * 160).groups(2).check();
    }
    case(4, [1, 6, 9, 2 * 1040], 2 * 24).groups(2).check();
}

/// A step that makes panels in turns has scratch by how many they are, and these begin anywhere in
/// a group.
#[test]
fn scratch_is_the_same_wherever_a_slice_begins() {
    for isa in Isa::ALL.into_iter().filter(|isa| *isa != Isa::Cuda) {
        let case = case(4, [1, 9, 11, 4 * 40], 4 * 70).groups(4);
        let (layer, inputs) = (case.layer(isa), [case.input, case.output, Tensor::default()]);
        let bytes = |first, count, threads, want| {
            let slice = Slice { first, count, row: 0, rows: 99, ..Slice::default() };
            scratch_of(
                &Problem {
                    layer: &layer,
                    inputs: &inputs,
                    output: &case.output,
                    slice,
                    threads,
                    isa,
                },
                want,
            )
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
            let whole = [Slice { first: 0, count: panels, row: 0, rows: 63, ..Slice::default() }];
            let mut expected = plain.run(kernels, 1, &whole);
            let cols = expected.len();
            let all = MatMut::new(&mut expected, 1, cols, cols).unwrap();
            kernels.map(&silu.activation, all);
            assert_eq!(silu.run(kernels, 2, &whole), expected);
        }
    }
}

/// Several blocks of tiles, in rows and in panels, groups of panels, and a block that many channels
/// make small.
#[test]
fn blocks() {
    if sweeps() {
        case(4, [1, 13, 13, 100], 200).check();
        case(2, [1, 40, 30, 24], 64).check();
        case(4, [1, 12, 24, 1100], 8).check();
    }
    case(4, [1, 50, 49, 16], 40).check();
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
                ..Slice::default()
            };
            let got = case.run(kernels, 1, &[slice]);
            let error = relative_error(&got, &case.exact());
            std::println!("F({tile},3), {channels} channels: {error:.1e}");
            assert!(error <= bound, "F({tile},3), {channels} channels: {error}");
        }
    }
}

/// Tiles with fewer outputs are no less precise than whole ones.
#[test]
fn errors_at_edges_stay_within_those_of_whole_tiles() {
    for tile in [2usize, 4] {
        let error = |height: usize, width: usize| {
            let case = case(tile as u32, [1, height as u32, width as u32, 128], 32);
            let kernels = Kernels::best();
            let count = 32 / kernels.nr() as u32;
            let rows = (height * width) as u32;
            let whole = [Slice { first: 0, count, row: 0, rows, ..Slice::default() }];
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
                    ..Slice::default()
                };
                let inputs = [case.input, case.output, Tensor::default()];
                let of = |threads, want| {
                    scratch_of(
                        &Problem {
                            layer: &layer,
                            inputs: &inputs,
                            output: &case.output,
                            slice,
                            threads,
                            isa,
                        },
                        want,
                    )
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
        assert!(
            validate(&layer, &[case.input, case.output, Tensor::default()], &case.output, isa)
                .is_err()
        );
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
    let (inputs, cuda) =
        ([grouped.input, grouped.output, Tensor::default()], grouped.layer(Isa::Cuda));
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
