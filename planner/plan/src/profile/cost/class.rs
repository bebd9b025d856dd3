//! Classes of kernels: layers whose time is work at one rate.

use crate::profile::Compute;
use eyelet::pack::{ActivationKind, ConvParams, Layer, OpKind, params};
use eyelet_model::network::Network;

/// A convolution of at most this many output rows computes faster than it reads its weights.
const FEW_ROWS: u64 = 4;

/// The rate of convolutions in small groups, of those in one group: as measured with groups of 8 and 16 with
/// AVX-512 (0.65 and 0.79).
const GROUPED: f64 = 0.7;

/// A comparison takes as long as functions of this many bytes: as measured with AVX2 (12 ns).
const COMPARED_BYTES: f64 = 30.0;

/// The classes of kernels that a profile knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Conv1x1,
    ConvKxK,
    /// The products between the transforms are as fast as [`Class::Conv1x1`].
    Winograd,
    FullyConnected,
    Depthwise,
    /// Groups of a few channels, of which panels hold several.
    Grouped,
    MatMul,
    Pool,
    Elementwise,
    Function,
    /// Orders of elements, and boxes that overlap: comparisons, each of elements that are anywhere.
    Comparison,
    Copy,
}

impl Class {
    /// The class of a layer. Layers of unknown operators count as copies.
    pub fn of(network: &Network, layer: &Layer) -> Self {
        let output = &network.tensors[layer.output as usize];
        let rows = output.rows().max(1);
        match OpKind::from_code(layer.kind) {
            Some(OpKind::Conv) => {
                let conv: ConvParams = params(layer);
                match conv.kernel {
                    [0 | 1, 0 | 1] if rows <= FEW_ROWS => Class::FullyConnected,
                    [0 | 1, 0 | 1] => Class::Conv1x1,
                    _ => Class::ConvKxK,
                }
            }
            Some(OpKind::Depthwise) => {
                let conv: ConvParams = params(layer);
                if conv.groups < output.cols() { Class::Grouped } else { Class::Depthwise }
            }
            Some(OpKind::Winograd) => Class::Winograd,
            Some(OpKind::MatMul | OpKind::Recurrent) => Class::MatMul,
            Some(OpKind::Pool) => Class::Pool,
            Some(OpKind::Softmax | OpKind::Lrn) => Class::Function,
            Some(
                OpKind::LayerNorm
                | OpKind::Gather
                | OpKind::Lookup
                | OpKind::Where
                | OpKind::Integer
                | OpKind::Fold
                | OpKind::Scatter
                | OpKind::Take,
            ) => Class::Elementwise,
            Some(OpKind::TopK | OpKind::Suppress) => Class::Comparison,
            Some(OpKind::Resample | OpKind::GridSample) => Class::Elementwise,
            Some(OpKind::Unary | OpKind::Binary | OpKind::Reduce) => {
                use ActivationKind::{Clamp, HardSigmoid, HardSwish, LeakyRelu, Log, None};
                match layer.activation.function() {
                    Option::None | Some(None | Clamp | LeakyRelu | HardSigmoid | HardSwish) => {
                        Class::Elementwise
                    }
                    Some(function) if function.fuses() || function.is_wide() => Class::Function,
                    Some(Log) => Class::Function,
                    Some(_) => Class::Elementwise,
                }
            }
            Some(OpKind::Copy) | None => Class::Copy,
        }
    }

    /// How much of the shorter one of computing and memory adds to the longer one ([`together_ns`](super::layer::together_ns)). Where kernels stream weights,
    /// with little computing for each, that takes its time; others' memory is fetched ahead.
    pub(super) fn exposed(self, compute: &Compute) -> f64 {
        match self {
            Class::Winograd => compute.winograd_exposed.unwrap_or(compute.exposed),
            Class::Conv1x1 | Class::ConvKxK | Class::Depthwise => compute.exposed,
            Class::Grouped | Class::FullyConnected => compute.exposed,
            _ => 0.0,
        }
    }

    /// Work a nanosecond on one thread: floating-point operations, bytes, or comparisons.
    pub(super) fn rate(self, compute: &Compute) -> f64 {
        match self {
            Class::Conv1x1 | Class::Winograd => compute.conv_1x1_gflops,
            Class::ConvKxK => compute.conv_kxk_gflops,
            Class::FullyConnected => compute.fully_connected_gbs,
            Class::Depthwise => compute.depthwise_gflops,
            Class::Grouped => compute.conv_kxk_gflops * GROUPED,
            Class::MatMul => compute.matmul_gflops,
            Class::Pool => compute.pool_gbs,
            Class::Elementwise => compute.elementwise_gbs,
            Class::Function => compute.function_gbs,
            Class::Comparison => compute.function_gbs / COMPARED_BYTES,
            Class::Copy => compute.copy_gbs,
        }
    }

    /// Time of a piece on one thread beyond its work: sums are started and written, whatever their length.
    pub(super) fn piece_ns(self, compute: &Compute) -> f64 {
        match self {
            Class::Conv1x1 | Class::Winograd => compute.conv_1x1_piece_ns,
            Class::ConvKxK => compute.conv_kxk_piece_ns,
            Class::Depthwise => compute.depthwise_piece_ns,
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{conv, grouped, network, profile, step_ns, whole};
    use super::*;
    use eyelet::pack::{SuppressParams, TopKParams, params_words};

    fn order(all: u32) -> [u32; 24] {
        let params =
            TopKParams { outer: 1, reduce: all, inner: 1, count: all, ..Default::default() };
        params_words(&params)
    }

    /// The work of TopK grows with the elements that are found, not with all. One thread computes a lane.
    #[test]
    fn comparisons_are_of_those_that_are_found() {
        let mut profile = profile();
        profile.compute.scaling = 1.0;
        let of = |outer: u32, count: u32, threads: u32| {
            let reduce = 10_000;
            let params = TopKParams { outer, reduce, inner: 1, count, ..Default::default() };
            let (from, to) = ([1, outer * reduce], [1, outer * count]);
            let network = network(OpKind::TopK, params_words(&params), from, to);
            step_ns(&profile, &network, &whole(&network), threads) as f64
        };
        let (few, all) = (of(1, 10, 1), of(1, 10_000, 1));
        assert!(all > 40.0 * few, "{few}, {all}");
        assert_eq!(of(1, 10, 4), few);
        assert!((of(4, 10, 4) - few).abs() <= few / 100.0);
        // Twice as many remaining boxes take four times as many comparisons.
        let of = |count: u32| {
            let p =
                SuppressParams { images: 1, classes: 1, boxes: count, count, ..Default::default() };
            let network = network(OpKind::Suppress, params_words(&p), [1, 4 * count], [1, count]);
            step_ns(&profile, &network, &whole(&network), 1) as f64
        };
        let growth = of(20_000) / of(10_000);
        assert!((3.8..4.0).contains(&growth), "{growth}");
    }

    #[test]
    fn classes_and_their_work() {
        let profile = profile();
        let compute = &profile.compute;
        let cases = [
            // 196 x 256 x 64 multiply-adds.
            (
                network(OpKind::Conv, conv([1, 1]), [196, 256], [196, 64]),
                Class::Conv1x1,
                196.0 * 256.0 * 64.0 * 2.0 / compute.conv_1x1_gflops,
            ),
            (
                network(OpKind::Conv, conv([3, 3]), [196, 256], [196, 64]),
                Class::ConvKxK,
                9.0 * 196.0 * 256.0 * 64.0 * 2.0 / compute.conv_kxk_gflops,
            ),
            // Each output reads the four channels of its group.
            (
                network(OpKind::Depthwise, grouped(16), [196, 64], [196, 64]),
                Class::Grouped,
                9.0 * 196.0 * 4.0 * 64.0 * 2.0 / (GROUPED * compute.conv_kxk_gflops),
            ),
            (
                network(OpKind::Depthwise, grouped(64), [196, 64], [196, 64]),
                Class::Depthwise,
                9.0 * 196.0 * 64.0 * 2.0 / compute.depthwise_gflops,
            ),
            (
                network(OpKind::Conv, conv([1, 1]), [1, 4096], [1, 1000]),
                Class::FullyConnected,
                4.0 * 4097.0 * 1000.0 / compute.fully_connected_gbs,
            ),
            (
                network(OpKind::Softmax, [0; 24], [1, 1000], [1, 1000]),
                Class::Function,
                8000.0 / compute.function_gbs,
            ),
            (
                network(OpKind::Unary, [0; 24], [10, 1000], [10, 1000]),
                Class::Elementwise,
                80000.0 / compute.elementwise_gbs,
            ),
            // Four numbers in order: each is scanned, and goes down a heap of two levels.
            (
                network(OpKind::TopK, order(4), [1, 4], [1, 4]),
                Class::Comparison,
                (4.0 / 2.0 + 4.0 * 4.0) * COMPARED_BYTES / compute.function_gbs,
            ),
        ];
        for (network, class, ns) in cases {
            assert_eq!(Class::of(&network, &network.layers[0]), class);
            let found = step_ns(&profile, &network, &whole(&network), 1) as f64;
            assert!((found - ns).abs() <= 1.0, "{class:?}: {found} instead of {ns}");
        }
    }
}
