//! Fills panels with floats, from wherever the model has them.

use crate::graph::{Constant, word};
use crate::network::Dense;
use eyelet::kernels::table::{bf16, f16};
use eyelet::ops::winograd;
use eyelet::pack::Encoding;
use std::ops::Range;

/// Values of `k` that are transposed together: a block of a panel that stays in the first-level cache.
const BLOCK: usize = 64;

/// The output channels of panel `index`.
fn channels(dense: &Dense, groups: usize, width: usize, index: usize) -> Range<usize> {
    let group = dense.out_channels / groups;
    let panels = group.div_ceil(width);
    let start = index % panels * width;
    index / panels * group + start..index / panels * group + group.min(start + width)
}

/// Empties a panel, but for the biases at its head; the rest is left to be filled.
fn start<'a>(
    dense: &Dense,
    channels: &Range<usize>,
    nr: usize,
    panel: &'a mut [u32],
) -> &'a mut [u32] {
    panel.fill(0);
    let (bias, body) = panel.split_at_mut(nr);
    if let Some(all) = &dense.bias {
        for (to, bias) in bias.iter_mut().zip(&all[channels.clone()]) {
            *to = bias.to_bits().to_le();
        }
    }
    body
}

/// Fills one panel: `[bias nr][k][width]`, then zeros.
pub(super) fn fill(
    dense: &Dense,
    groups: usize,
    [width, nr]: [usize; 2],
    index: usize,
    panel: &mut [u32],
) {
    let channels = channels(dense, groups, width, index);
    let body = start(dense, &channels, nr, panel);
    match &dense.data {
        Constant::Owned(data) => fill_body(dense, &channels, width, body, data, |&value| value),
        Constant::Words(data) => {
            fill_body(dense, &channels, width, body, data, |&value| value as f32);
        }
        Constant::Raw(bytes, Encoding::F32) => {
            let words = bytes.as_chunks::<4>().0;
            fill_body(dense, &channels, width, body, words, |&word| f32::from_le_bytes(word));
        }
        Constant::Raw(bytes, Encoding::F16) => {
            let words = bytes.as_chunks::<2>().0;
            fill_body(dense, &channels, width, body, words, |bytes| f16(word(bytes)));
        }
        Constant::Raw(bytes, Encoding::Bf16) => {
            let words = bytes.as_chunks::<2>().0;
            fill_body(dense, &channels, width, body, words, |bytes| bf16(word(bytes)));
        }
    }
}

/// Fills one panel of transformed filters: `[bias nr][point][channel][nr]`. Filters are scaled and
/// transformed in double precision and rounded once.
pub(super) fn fill_transformed(
    dense: &Dense,
    tile: usize,
    nr: usize,
    index: usize,
    panel: &mut [u32],
) {
    let (outputs, points) = (channels(dense, dense.groups, nr, index), (tile + 2) * (tile + 2));
    let channels = dense.k / 9;
    let body = start(dense, &outputs, nr, panel);
    let mut block = vec![0; points * nr];
    for channel in 0..channels {
        let taps: [usize; 9] = std::array::from_fn(|tap| dense.offset(tap * channels + channel));
        for (lane, output) in outputs.clone().enumerate() {
            let scale = dense.scale.as_ref().map_or(1.0, |scale| f64::from(scale[output]));
            let filter =
                taps.map(|tap| f64::from(dense.data.get(output * dense.row + tap)) * scale);
            let all = winograd::transform_weights(tile, &filter);
            for (point, weight) in all[..points].iter().enumerate() {
                block[point * nr + lane] = (*weight as f32).to_bits().to_le();
            }
        }
        for (point, row) in block.chunks_exact(nr).enumerate() {
            body[(point * channels + channel) * nr..][..nr].copy_from_slice(row);
        }
    }
}

/// Fills `[k][width]`, a block of `k` at a time.
fn fill_body<T>(
    dense: &Dense,
    channels: &Range<usize>,
    width: usize,
    body: &mut [u32],
    data: &[T],
    value: impl Fn(&T) -> f32 + Copy,
) {
    if dense.row == 1 && dense.order.is_none() && dense.scale.is_none() {
        // the panel's rows lie in the matrix as they are
        for (k, to) in body.chunks_exact_mut(width).take(dense.k).enumerate() {
            let at = k * dense.col;
            let from = &data[at + channels.start..at + channels.end];
            to.iter_mut().zip(from).for_each(|(to, from)| *to = value(from).to_bits().to_le());
        }
        return;
    }
    let block_floats = BLOCK * width;
    for (block, to) in body[..dense.k * width].chunks_mut(block_floats).enumerate() {
        let from = block * BLOCK;
        for (lane, channel) in channels.clone().enumerate() {
            let row = &data[channel * dense.row..];
            let scale = dense.scale.as_ref().map(|scale| scale[channel]);
            // a weight without a scale is stored as it is
            let put = |to: &mut u32, from: &T| {
                let weight = value(from);
                *to = scale.map_or(weight, |scale| weight * scale).to_bits().to_le();
            };
            let lanes = to.iter_mut().skip(lane).step_by(width);
            match &dense.order {
                None if dense.col == 1 => lanes.zip(&row[from..]).for_each(|(to, w)| put(to, w)),
                None => {
                    let weights = row[from * dense.col..].iter().step_by(dense.col);
                    lanes.zip(weights).for_each(|(to, w)| put(to, w));
                }
                Some(order) => lanes
                    .zip(&order[from..])
                    .for_each(|(to, &index)| put(to, &row[index as usize * dense.col])),
            }
        }
    }
}
