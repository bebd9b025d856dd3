//! What F(6,3) loses on a layer's own filters, measured against double precision: its transforms magnify roundings
//! three to four times as much as those of F(4,3), the more the deeper the sums, and by how much is a matter of the
//! filters. A few output channels, spread over all, are computed for some tiles of random inputs, by the arithmetic of
//! every instruction set.

use crate::network::Dense;
use crate::weights::Filters;
use eyelet::arena::{MatMut, MatRef};
use eyelet::kernels::Kernels;
use eyelet::kernels::table::{Addend, Patch, Place};
use eyelet::ops::winograd::transform_weights;

/// The largest error, relative to the largest magnitude, with which a layer may be computed by F(6,3): that of F(4,3) on
/// any layer.
pub const MOST: f64 = 1e-5;

const TILE: usize = 6;
const SIDE: usize = TILE + 2;
const POINTS: usize = SIDE * SIDE;
const OUTPUTS: usize = 8;
const TILES: usize = 4;

/// The largest error of an output of F(6,3), relative to the largest magnitude, for filters of 3x3 taps.
pub fn error(dense: &Dense) -> f64 {
    let channels = dense.k / 9;
    let outputs: Vec<usize> =
        (0..OUTPUTS).map(|index| index * dense.out_channels / OUTPUTS).collect();
    // For each channel and output: the filter, and as it is stored.
    let filters: Vec<([f64; 9], [f32; POINTS])> = (0..channels)
        .flat_map(|channel| {
            let filters = Filters::of(dense, channel);
            outputs.iter().map(move |output| {
                let taps = filters.taps(*output);
                (taps, transform_weights(TILE, &taps).map(|weight| weight as f32))
            })
        })
        .collect();
    let mut random = 1u64;
    let mut float = || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let (mut largest, mut error) = (0.0f64, 0.0f64);
    for _ in 0..TILES {
        let image: Vec<f32> = (0..POINTS * channels).map(|_| float()).collect();
        let sums = products(&image, channels, &filters);
        for (lane, sums) in sums.iter().enumerate() {
            let found = outputs_of(sums);
            for (at, found) in found.iter().enumerate() {
                let (y, x) = (at / TILE, at % TILE);
                let exact: f64 = (0..channels)
                    .map(|channel| {
                        let (taps, _) = &filters[channel * OUTPUTS + lane];
                        let pixel = |tap: usize| {
                            let pixel = (y + tap / 3) * SIDE + x + tap % 3;
                            f64::from(image[pixel * channels + channel])
                        };
                        taps.iter().enumerate().map(|(tap, w)| w * pixel(tap)).sum::<f64>()
                    })
                    .sum();
                largest = largest.max(exact.abs());
                error = error.max((f64::from(*found) - exact).abs());
            }
        }
    }
    if largest > 0.0 { error / largest } else { 0.0 }
}

/// The products of a tile's frequencies for each output: chains over the channels.
fn products(
    image: &[f32],
    channels: usize,
    filters: &[([f64; 9], [f32; POINTS])],
) -> [[f32; POINTS]; OUTPUTS] {
    let mut frequencies = vec![0.0; POINTS * channels];
    let mut sums = [[0.0f32; POINTS]; OUTPUTS];
    let zeros = vec![0.0; channels];
    let whole = MatRef::new(image, POINTS, channels, channels);
    let to = MatMut::new(&mut frequencies, POINTS, channels, channels);
    let (Some(image), Some(to)) = (whole, to) else { return sums };
    let patch = Patch { image, height: SIDE, width: SIDE, top: 0, left: 0, zeros: &zeros };
    Kernels::best().winograd_input(TILE, &patch, to);
    for (channel, filters) in filters.chunks_exact(OUTPUTS).enumerate() {
        for (sums, (_, weights)) in sums.iter_mut().zip(filters) {
            for (point, (sum, weight)) in sums.iter_mut().zip(weights).enumerate() {
                *sum = frequencies[point * channels + channel].mul_add(*weight, *sum);
            }
        }
    }
    sums
}

/// The outputs of a tile.
fn outputs_of(sums: &[f32; POINTS]) -> [f32; TILE * TILE] {
    let mut out = [0.0; TILE * TILE];
    let kernels = Kernels::best();
    let nr = kernels.nr();
    let mut products = vec![0.0; POINTS * nr];
    for (row, sum) in products.chunks_exact_mut(nr).zip(sums) {
        row[0] = *sum;
    }
    let from = MatRef::new(&products, POINTS, nr, nr);
    let to = MatMut::new(&mut out, TILE * TILE, 1, 1);
    if let (Some(from), Some(to)) = (from, to) {
        let place = Place { width: TILE, line: 0, col: 0 };
        let unclamped = [f32::NEG_INFINITY, f32::INFINITY];
        kernels.winograd_output(TILE, from, &vec![0.0; nr], Addend::None, unclamped, place, to);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Constant;
    use std::sync::Arc;

    fn dense(channels: usize, filter: impl Fn(usize) -> f32) -> Dense {
        Dense {
            data: Constant::Owned(Arc::new((0..16 * channels * 9).map(filter).collect())),
            out_channels: 16,
            groups: 1,
            k: channels * 9,
            row: channels * 9,
            order: None,
            col: 1,
            scale: None,
            bias: None,
            error: Arc::default(),
        }
    }

    /// The longer the sums, the larger the error; within what `docs/kernels.md` says.
    #[test]
    fn errors_depend_on_the_filters() {
        let random = |i: usize| (i * 7919 % 1013) as f32 / 1013.0 - 0.5;
        let [few, many] = [64, 1024].map(|channels| error(&dense(channels, random)));
        assert!(few > 1e-7 && few < MOST, "{few:e}");
        assert!(many > few && many < 1e-4, "{many:e} {few:e}");
        assert_eq!(error(&dense(64, |_| 0.0)), 0.0);
    }
}
