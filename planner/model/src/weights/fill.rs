//! Fills panels with floats, from wherever the model has them.

use crate::graph::{Constant, Quantised, word};
use crate::network::Dense;
use eyelet::kernels::table::{bf16, dequantised, f16};
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
        Constant::Owned(data) => fill_floats(dense, &channels, width, body, data, |&value| value),
        Constant::Words(data) => {
            fill_floats(dense, &channels, width, body, data, |&value| value as f32);
        }
        Constant::Raw(bytes, Encoding::F32) => {
            let words = bytes.as_chunks::<4>().0;
            fill_floats(dense, &channels, width, body, words, |&word| f32::from_le_bytes(word));
        }
        Constant::Raw(bytes, Encoding::F16) => {
            let words = bytes.as_chunks::<2>().0;
            fill_floats(dense, &channels, width, body, words, |bytes| f16(word(bytes)));
        }
        Constant::Raw(bytes, Encoding::Bf16) => {
            let words = bytes.as_chunks::<2>().0;
            fill_floats(dense, &channels, width, body, words, |bytes| bf16(word(bytes)));
        }
        Constant::Raw(_, Encoding::I8) => unreachable!("integers have scales"),
        Constant::Quantised(data) => {
            let value = |byte: &u8, output: usize| {
                let channel = data.channel(output * dense.row);
                let by = dense.scale.as_ref().map_or(1.0, |scale| scale[output]);
                let scale = data.scale[channel] * by;
                dequantised((byte ^ data.flip) as i8, data.zero[channel], scale).to_bits().to_le()
            };
            fill_body(dense, &channels, width, body, &data.data, value);
        }
    }
}

/// Appends one panel of integers: `[bias nr][scale nr][zero nr][k][width]`, without what fills it up.
pub(super) fn append_eight(
    dense: &Dense,
    (scales, zeros): &(Vec<f32>, Vec<i8>),
    groups: usize,
    [width, nr]: [usize; 2],
    index: usize,
    out: &mut Vec<u8>,
) {
    let Constant::Quantised(data) = &dense.data else { unreachable!("scales are of these alone") };
    let channels = channels(dense, groups, width, index);
    let lanes = |all: Option<&[f32]>| {
        let given = all.map_or(&[][..], |all| &all[channels.clone()]);
        let beyond = std::iter::repeat_n(0.0, nr - given.len());
        given.iter().copied().chain(beyond).flat_map(f32::to_le_bytes).collect::<Vec<u8>>()
    };
    out.extend(lanes(dense.bias.as_deref()));
    out.extend(lanes(Some(scales)));
    out.extend(zeros[channels.clone()].iter().map(|zero| *zero as u8));
    let start = out.len() + nr - channels.len();
    out.resize(start + dense.k * width, 0);
    let Quantised { data, flip, .. } = &**data;
    fill_body(dense, &channels, width, &mut out[start..], data, |byte, _| byte ^ flip);
}

/// Fills `[k][width]` with floats; a weight without a scale is stored as it is.
fn fill_floats<T>(
    dense: &Dense,
    channels: &Range<usize>,
    width: usize,
    body: &mut [u32],
    data: &[T],
    value: impl Fn(&T) -> f32 + Copy,
) {
    match &dense.scale {
        None => {
            fill_body(dense, channels, width, body, data, |from, _| value(from).to_bits().to_le())
        }
        Some(scale) => fill_body(dense, channels, width, body, data, |from, output| {
            (value(from) * scale[output]).to_bits().to_le()
        }),
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

/// Fills `[k][width]`, a block of `k` at a time. `value` makes what is stored of an element and its output channel.
fn fill_body<T, U>(
    dense: &Dense,
    channels: &Range<usize>,
    width: usize,
    body: &mut [U],
    data: &[T],
    value: impl Fn(&T, usize) -> U + Copy,
) {
    if dense.row == 1 && dense.order.is_none() {
        // the panel's rows lie in the matrix as they are
        for (k, to) in body.chunks_exact_mut(width).take(dense.k).enumerate() {
            let at = k * dense.col;
            let from = &data[at + channels.start..at + channels.end];
            let pairs = to.iter_mut().zip(from).zip(channels.clone());
            pairs.for_each(|((to, from), channel)| *to = value(from, channel));
        }
        return;
    }
    let block_floats = BLOCK * width;
    for (block, to) in body[..dense.k * width].chunks_mut(block_floats).enumerate() {
        let from = block * BLOCK;
        for (lane, channel) in channels.clone().enumerate() {
            let row = &data[channel * dense.row..];
            let put = |to: &mut U, from: &T| *to = value(from, channel);
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
