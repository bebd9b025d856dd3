//! Winograd's algorithm on the GPU: the bits of the processor's.

use super::super::testing::{Recorder, Run, stored};
use super::*;
use crate::device::cuda::testing::assert_same;
use crate::kernels::Kernels;
use crate::ops::testing::Residual;
use crate::ops::winograd::testing::{Case, case, relative_error};
use crate::pack::{Activation, ActivationKind, Encoding, INPUTS, Isa, Tensor};
use std::prelude::rust_2024::*;
use std::vec;

fn run_as(queue: &mut Recorder, case: &Case, packed: &[f32], encoding: Encoding) -> Vec<f32> {
    let [input, _, _, residual] = case.data();
    let mut layer = case.layer(Isa::Cuda);
    let panel = layer.panel_bytes as usize / 4;
    let weights = stored(packed, panel, encoding);
    layer.panel_bytes = weights.len() as u32 / layer.panels;
    layer.encoding = encoding as u32;
    let in_place = case.residual == Residual::InPlace;
    let poison = vec![f32::NAN; residual.len()];
    let run = Run {
        layer,
        inputs: [case.input, case.output, Tensor::default()],
        output: case.output,
        data: [&input, &residual, &[]],
        weights: &weights,
        before: if in_place { &residual } else { &poison },
        in_place,
    };
    let mut first: Option<Vec<f32>> = None;
    for slices in run.slicings() {
        for multiprocessors in [1, 132] {
            let found = run.on(queue, multiprocessors, &slices);
            assert_same(&found, first.get_or_insert_with(|| found.clone()), case);
        }
    }
    first.unwrap()
}

fn check(queue: &mut Recorder, case: Case) {
    let found = run_as(queue, &case, &case.packed(PANEL as usize), Encoding::F32);
    let rows = case.output.rows() as u32;
    let count = case.layer(Isa::Portable).panels;
    let slice = Slice { first: 0, count, row: 0, rows, ..Slice::default() };
    assert_same(&found, &case.run(Kernels::PORTABLE, 1, &[slice]), &case);
}

#[test]
fn bits_of_the_processor() {
    let mut queue = Recorder::new();
    for tile in [2, 4] {
        for case in [
            case(tile, [1, 1, 1, 1], 1),
            case(tile, [1, 7, 5, 33], 40).gaps(3, 5),
            case(tile, [1, 13, 18, 20], 70),
            case(tile, [3, 5, 6, 9], 16).gaps(0, 1),
            case(tile, [1, 9, 8, 5], 12).pad([0, 0], [7, 6]),
            case(tile, [1, 9, 8, 5], 12).pad([2, 0], [11, 6]),
            case(tile, [1, 3, 4, 5], 12).pad([1, 2], [9, 11]),
            case(tile, [1, 10, 9, 16], 33).residual(Residual::InPlace),
            case(tile, [2, 6, 7, 19], 64)
                .gaps(1, 4)
                .residual(Residual::Apart)
                .activation(Activation::RELU),
            case(tile, [1, 7, 9, 16], 40)
                .gaps(0, 2)
                .residual(Residual::Apart)
                .activation(Activation { kind: ActivationKind::Silu as u32, ..Activation::NONE }),
        ] {
            check(&mut queue, case);
        }
        // Every number of outputs of a tile at the edge.
        for (height, width) in
            (1..=tile).flat_map(|height| (1..=tile).map(move |width| (height, width)))
        {
            check(&mut queue, case(tile, [1, height, width, 5], 9));
            check(&mut queue, case(tile, [1, height + tile, width + tile, 5], 9));
        }
    }
    queue.assert_seen(&["Winograd"]);
}

/// Some tiles after the others: scratch is bounded.
#[test]
fn tiles_in_several_parts() {
    let mut queue = Recorder::new();
    let case = case(4, [1, 36, 33, 1500], 32);
    let layer = case.layer(Isa::Cuda);
    let slice = Slice { first: 0, count: 1, row: 0, rows: 36 * 33, ..Slice::default() };
    let division = Division::new(&layer, &case.input, &case.output, &slice);
    assert!(division.tiles < division.all, "{} tiles at once", division.tiles);
    let found = run_as(&mut queue, &case, &case.packed(PANEL as usize), Encoding::F32);
    let whole = Slice { count: 4, ..slice };
    assert_same(&found, &case.run(Kernels::PORTABLE, 1, &[whole]), &case);
    assert!(relative_error(&found, &case.exact()) <= 1e-5);
}

/// Weights of 16 bits give what the same weights as floats give.
#[test]
fn encodings() {
    let mut queue = Recorder::new();
    for encoding in [Encoding::F16, Encoding::Bf16] {
        let case = case(4, [1, 9, 10, 20], 70);
        let mut packed = case.packed(PANEL as usize);
        let panel = packed.len() / 3;
        for panel in packed.chunks_exact_mut(panel) {
            // Transformed weights may be larger than 1.
            let weights = &mut panel[PANEL as usize..];
            weights.iter_mut().for_each(|x| *x /= 16.0);
            let rounded = super::super::testing::rounded(weights, encoding);
            weights.copy_from_slice(&rounded);
        }
        let plain = run_as(&mut queue, &case, &packed, Encoding::F32);
        assert_same(&run_as(&mut queue, &case, &packed, encoding), &plain, &encoding);
    }
}

#[test]
fn scratch_is_bounded() {
    for (size, channels) in [(224, 64), (112, 128), (56, 256), (28, 512), (14, 512), (7, 512)] {
        for tile in [2, 4] {
            let case = case(tile, [1, size, size, channels], channels);
            let layer = case.layer(Isa::Cuda);
            let rows = size * size;
            let slice = Slice { first: 0, count: layer.panels, row: 0, rows, ..Slice::default() };
            let bytes = scratch_bytes(&layer, &[case.input; INPUTS], &case.output, &slice);
            assert!(bytes <= MOST_BYTES + 128, "{case:?}: {bytes}");
        }
    }
}
