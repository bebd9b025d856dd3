//! Invariants of all operators: hostile records are harmless, and results have the same bits on
//! every target.

use super::testing::{Case, Random, layer};
use crate::pack::{
    Activation, ActivationKind, BinaryOp, BinaryParams, LrnParams, OpKind, PoolParams, ReduceParams,
};
use std::vec;

/// Layers made of chance, near to valid ones and far from them, that are either refused or run
/// without a panic.
#[test]
fn hostile_records_are_refused_or_harmless() {
    let mut random = Random::new(99);
    let mut accepted = [0; 25];
    for _ in 0..200_000 {
        // Winograd has a test of its own.
        let codes = [3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 15, 16, 17, 18, 24];
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
            params[3] = random.below(8) as u32;
            output = [1, 1, a[0], a[3]];
        }
        let mut constant = 0;
        if kind == OpKind::Binary && random.below(4) > 0 {
            constant = random.below(3) as u32;
            (params[0], params[1]) = (random.below(BinaryOp::ALL.len() + 1) as u32, constant);
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
            kind: match kind {
                OpKind::Copy => 0,
                OpKind::Unary => random.below(ActivationKind::ALL.len() + 1) as u32,
                _ => random.below(18) as u32,
            },
            alpha: f32::from_bits(random.next() as u32),
            beta: random.float(),
        };
        let mut layer = layer(kind, activation, &params);
        let mut weights = vec![];
        let two = match kind {
            OpKind::Binary if random.below(8) > 0 => constant == 0,
            OpKind::GridSample => random.below(8) > 0,
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
        if kind == OpKind::Lookup && random.below(4) > 0 {
            let entries = random.below(20) as u32;
            layer.params[0] = entries;
            (layer.panels, layer.panel_bytes) = (entries.div_ceil(8), 32 * (1 + output[3]));
            weights = vec![1.0; (layer.panels * layer.panel_bytes / 4) as usize];
            a = [1, output[0] * output[1], output[2], 1];
        }
        if kind == OpKind::Take && random.below(4) > 0 {
            layer.params[0] = a[..3].iter().product();
            output[3] = a[3];
            b = [output[0], output[1] * output[2], 1, 1];
            (layer.panels, layer.panel_bytes) = (u32::from(!two), 256);
            weights = (0..64).map(|_| random.below(9) as f32 - 2.0).collect();
        }
        if kind == OpKind::Resample && random.below(4) > 0 {
            let axis = 1 + random.below(2);
            layer.params[0] = axis as u32;
            (layer.panels, layer.panel_bytes) = (1, 32 * (1 + random.below(8) as u32));
            weights = (0..64).map(|_| f32::from_bits(random.next() as u32)).collect();
            output = a;
            output[axis] = random.below(9) as u32;
        }
        if kind == OpKind::GridSample && random.below(4) > 0 {
            (0..3).for_each(|at| layer.params[at] = random.below(3) as u32);
            layer.params[3] = 1;
            (output[0], output[3]) = (a[0], a[3]);
            b = [output[0], output[1], output[2], 2 + random.below(2) as u32];
        }
        if kind == OpKind::Recurrent && random.below(8) > 0 {
            let (cell, hidden) = (random.below(3) as u32, 1 + random.below(3) as u32);
            (layer.params[0], layer.params[1]) = (cell, hidden);
            (6..15).for_each(|at| layer.params[at] %= 9);
            layer.activation.kind = 0;
            (layer.panels, layer.panel_bytes) = (1, 32 * (4 + random.below(20) as u32));
            weights = vec![0.5; 192];
            output[0] = 1;
            a = [1, output[1], output[2], hidden * [1, 3, 4][cell as usize]];
            output[3] = hidden * (1 + cell / 2);
            b = [1, 1, output[2], output[3]];
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
    for kind in [3, 4, 5, 6, 7, 8, 10, 12, 13, 15, 16, 17, 18, 24] {
        assert!(accepted[kind] >= 50, "accepted by operator: {accepted:?}");
    }
}

/// Results have the same bits on every target: the checksum of one layer of each operator.
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
                &ReduceParams { outer: 9, reduce: 360, inner: 1, op: 0 },
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
