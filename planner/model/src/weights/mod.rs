//! Packing: from the recipes in [`Weights`] to the bytes that a pack stores.
//!
//! Packing is lazy and streams: any run of panels can be made by itself, straight from the model's
//! memory map, so that a model of any size is packed through one slice's worth of memory. One place
//! decides how large a panel is ([`panels`]) and one fills it ([`pack_panels`]).
//!
//! Weights that are denormal (closer to zero than 1.18e-38) are stored as zeros: processors multiply by them up to a hundred times
//! more slowly than by others.
//!
//! Panels are filled with floats and then encoded: weights of 16 bits are rounded to nearest, ties to even;
//! what is too small for a normal number of fp16 stays as a subnormal one. A number that fp16 rounds to
//! infinity is refused ([`Overflow`]).
//!
//! Weights that are integers of 8 bits in the model are stored as they are, with scale and zero of each output
//! channel, whatever encoding others have ([`encoding`]). Floats become such where 8 bits are asked for.

mod fill;
pub(crate) mod halves;

use crate::graph::{Constant, Quantised};
use crate::network::{Dense, Network, Weights};
use eyelet::kernels::Isa;
use eyelet::pack::{Encoding, Layer};
use fill::{append_eight, fill, fill_transformed};
use halves::{bf16, f16};
use std::ops::Range;
use std::sync::Arc;

/// A weight that is too large for its encoding.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("a weight is {value:e}, but fp16 ends at 65504; use bf16")]
pub struct Overflow {
    pub value: f32,
}

/// How a layer's weights divide into panels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Panels {
    pub count: usize,
    /// Bytes of one.
    pub bytes: usize,
    /// [`Layer::width`].
    pub width: usize,
}

/// The panels of weights in an encoding, where the instruction set's have room for `nr` channels.
pub fn panels(weights: &Weights, nr: usize, encoding: Encoding) -> Panels {
    let of = |count: usize, k: usize, width: usize| {
        let bytes = encoding.panel_bytes(k as u64, width, nr);
        let bytes = bytes.map_or(usize::MAX, |bytes| bytes as usize);
        Panels { count, bytes, width: if width < nr { width } else { 0 } }
    };
    match weights {
        Weights::None => Panels::default(),
        Weights::Dense(dense) => {
            let (group, width) = (dense.out_channels / dense.groups, width(dense, nr));
            of(dense.groups * group.div_ceil(width), dense.k, width)
        }
        Weights::Depthwise(dense) => of(dense.out_channels.div_ceil(nr), dense.k, nr),
        Weights::Winograd(dense, tile) => {
            let points = (tile + 2) * (tile + 2);
            let group = dense.out_channels / dense.groups;
            of(dense.groups * group.div_ceil(nr), points * (dense.k / 9), nr)
        }
        Weights::Plain(constant) => {
            Panels { count: 1, bytes: (constant.len() * 4).next_multiple_of(64), width: 0 }
        }
    }
}

/// Zeros that a layer's panels may have whatever its size, in floats: a KiB, where fewer would take narrower panels, and four
/// where they would take more panels.
const FEW_ZEROS: usize = 256;
const MORE_ZEROS: usize = 1024;

/// Output channels that each panel of a layer holds: all that there is room for, where of the weights no more than a sixteenth
/// are zeros then, or few. If not, as few panels as leave at most a tenth, equally filled. Kernels compute whole panels, so
/// more of them take longer.
fn width(dense: &Dense, nr: usize) -> usize {
    let channels = dense.out_channels / dense.groups;
    let weights = |channels: usize| channels * dense.k * dense.groups;
    let mut panels = channels.div_ceil(nr).max(1);
    let zeros = |panels: usize, width: usize| weights(panels * width - channels);
    if zeros(panels, nr) <= (weights(channels) / 16).max(FEW_ZEROS) {
        return nr;
    }
    loop {
        let width = channels.div_ceil(panels);
        // Channels of which GPUs load four at a time.
        let fours = width.next_multiple_of(4);
        if fours <= nr && zeros(panels, fours) <= weights(channels) / 16 {
            return fours;
        }
        if zeros(panels, width) <= (weights(channels) / 10).max(MORE_ZEROS) {
            return width;
        }
        panels += 1;
    }
}

/// How weights are stored where this encoding is asked for.
pub fn encoding(weights: &Weights, asked: Encoding, isa: Isa) -> Encoding {
    // Only integers have scales.
    let floats = if asked == Encoding::I8 { Encoding::F32 } else { asked };
    match weights {
        Weights::None | Weights::Plain(_) => Encoding::F32,
        Weights::Winograd(..) => floats,
        Weights::Dense(_) | Weights::Depthwise(_) if isa == Isa::Cuda => floats,
        Weights::Dense(dense) | Weights::Depthwise(dense) => match dense.scales() {
            Some(_) => Encoding::I8,
            None => floats,
        },
    }
}

/// Has all panels of output channels be stored so, but for integers of the model. To have 8 bits, floats are rounded. Where they lie ([`place_weights`](crate::layout::place_weights))
/// has to be found anew.
pub fn encode(network: &mut Network, encoding: Encoding) {
    let nr = network.isa.panel();
    for (layer, weights) in network.layers.iter_mut().zip(&mut network.weights) {
        if encoding == Encoding::I8
            && let Weights::Dense(dense) | Weights::Depthwise(dense) | Weights::Winograd(dense, _) =
                weights
        {
            round_to_eight(dense);
        }
        let encoding = self::encoding(weights, encoding, network.isa);
        layer.encoding = encoding as u32;
        layer.panel_bytes = panels(weights, nr, encoding).bytes as u32;
    }
}

/// Rounds floats to integers of 8 bits: of each output channel to the nearest of 255 multiples of a 127th of its
/// largest magnitude, ties to even. Weights that are no finite numbers stay as they are.
fn round_to_eight(dense: &mut Dense) {
    if matches!(dense.data, Constant::Quantised(_)) {
        return;
    }
    let mut rounded = Vec::with_capacity(dense.out_channels * dense.k);
    let mut scales = Vec::with_capacity(dense.out_channels);
    let mut row = vec![0.0; dense.k];
    for output in 0..dense.out_channels {
        for (k, to) in row.iter_mut().enumerate() {
            *to = dense.data.get(output * dense.row + dense.offset(k));
        }
        let largest = row.iter().fold(0.0, |most: f32, weight| most.max(weight.abs()));
        if row.iter().any(|weight| !weight.is_finite()) {
            return;
        }
        let scale = largest / 127.0;
        // Scales that are no normal numbers are of weights that packs have as zeros.
        let scale = if scale.is_normal() { scale } else { 0.0 };
        let byte = |weight: &f32| match scale {
            0.0 => 0,
            _ => (weight / scale).round_ties_even().clamp(-127.0, 127.0) as i8 as u8,
        };
        rounded.extend(row.iter().map(byte));
        scales.push(scale);
    }
    let zero = vec![0; scales.len()];
    let data = Quantised { data: rounded.into(), flip: 0, scale: scales, zero, inner: dense.k };
    let Dense { out_channels, groups, k, .. } = *dense;
    *dense = Dense {
        data: Constant::Quantised(Arc::new(data)),
        out_channels,
        groups,
        k,
        row: k,
        col: 1,
        order: None,
        scale: dense.scale.take(),
        bias: dense.bias.take(),
        sum: Arc::default(),
    };
}

/// Makes zeros of denormal weights; how many there were.
fn flush(weights: &mut [u32]) -> u64 {
    let mut flushed = 0;
    for word in weights {
        if f32::from_bits(u32::from_le(*word)).is_subnormal() {
            *word = 0;
            flushed += 1;
        }
    }
    flushed
}

/// Appends the packed bytes of some of a layer's panels, and returns how many weights were denormal. Channels that only pad a panel are
/// zero.
pub fn pack_panels(
    weights: &Weights,
    layer: &Layer,
    nr: usize,
    indices: Range<u32>,
    out: &mut Vec<u8>,
) -> Result<u64, Overflow> {
    let mut flushed = 0;
    let encoding = layer.encoding().unwrap_or_default();
    out.reserve(layer.panel_bytes as usize * indices.len());
    let width = if layer.width == 0 { nr } else { layer.width as usize };
    let floats = match encoding {
        Encoding::F32 => layer.panel_bytes as usize,
        _ => panels(weights, nr, Encoding::F32).bytes,
    };
    if encoding == Encoding::I8 {
        pack_eight(weights, layer, [width, nr], indices, out);
        return Ok(0);
    }
    let mut panel = vec![0; floats / 4];
    for index in indices {
        match weights {
            Weights::None => return Ok(0),
            Weights::Plain(constant) => {
                let end = constant.len().min(panel.len());
                (0..end).for_each(|i| panel[i] = constant.bits(i).to_le());
            }
            Weights::Dense(dense) => {
                fill(dense, dense.groups, [width, nr], index as usize, &mut panel);
            }
            Weights::Depthwise(dense) => fill(dense, 1, [nr; 2], index as usize, &mut panel),
            Weights::Winograd(dense, tile) => {
                fill_transformed(dense, *tile, nr, index as usize, &mut panel);
            }
        }
        if !matches!(weights, Weights::Plain(_)) {
            flushed += flush(&mut panel[nr..]);
        }
        let end = out.len() + layer.panel_bytes as usize;
        let halve = match encoding {
            Encoding::F32 => {
                out.extend_from_slice(bytemuck::cast_slice(&panel));
                continue;
            }
            Encoding::F16 => f16,
            Encoding::Bf16 => bf16,
            Encoding::I8 => unreachable!("these are packed above"),
        };
        let (biases, body) = panel.split_at(nr);
        out.extend_from_slice(bytemuck::cast_slice(biases));
        for word in body {
            let value = f32::from_bits(u32::from_le(*word));
            let half = halve(value);
            if encoding == Encoding::F16 && half & 0x7fff == 0x7c00 && value.is_finite() {
                return Err(Overflow { value });
            }
            out.extend_from_slice(&half.to_le_bytes());
        }
        out.resize(end, 0);
    }
    Ok(flushed)
}

/// The same of integers of 8 bits.
fn pack_eight(
    weights: &Weights,
    layer: &Layer,
    [width, nr]: [usize; 2],
    indices: Range<u32>,
    out: &mut Vec<u8>,
) {
    let (dense, groups, width) = match weights {
        Weights::Dense(dense) => (dense, dense.groups, width),
        Weights::Depthwise(dense) => (dense, 1, nr),
        _ => unreachable!("no other weights are stored so"),
    };
    let scales = dense.scales().unwrap_or_else(|| unreachable!("`encoding` has found them"));
    for index in indices {
        let end = out.len() + layer.panel_bytes as usize;
        append_eight(dense, &scales, groups, [width, nr], index as usize, out);
        out.resize(end, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use eyelet::kernels::table::Packed;
    use eyelet::ops::winograd;

    fn unpack(weights: &Weights, nr: usize) -> Vec<f32> {
        let Panels { count, bytes, width } = panels(weights, nr, Encoding::F32);
        let layer = Layer {
            panels: count as u32,
            panel_bytes: bytes as u32,
            width: width as u32,
            ..Layer::default()
        };
        let mut whole = Vec::new();
        pack_panels(weights, &layer, nr, 0..count as u32, &mut whole).unwrap();
        let mut streamed = Vec::new();
        for panel in 0..count as u32 {
            pack_panels(weights, &layer, nr, panel..panel + 1, &mut streamed).unwrap();
        }
        assert_eq!(whole, streamed);
        assert_eq!(whole.len(), count * bytes);
        whole.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect()
    }

    #[test]
    fn panels_hold_what_the_recipe_says() {
        for (nr, groups, out_channels, k, transposed) in [
            (8, 1, 19, 70, false),
            (8, 3, 15, 5, false),
            (16, 1, 33, 130, true),
            (32, 2, 8, 9, false),
            (32, 1, 1, 300, false),
            (16, 1, 17, 100, true),
            (8, 3, 57, 130, false),
        ] {
            let data: Vec<f32> = (0..out_channels * k).map(|i| i as f32 * 0.37 - 3.0).collect();
            let bytes: Vec<u8> = data.iter().flat_map(|value| value.to_le_bytes()).collect();
            // not aligned
            let raw = Bytes::from([vec![0], bytes].concat()).slice(1..);
            for data in [Constant::Owned(Arc::new(data.clone())), Constant::Raw(raw, Encoding::F32)]
            {
                for (order, scale) in [(false, false), (true, false), (false, true), (true, true)] {
                    let dense = Dense {
                        data: data.clone(),
                        out_channels,
                        groups,
                        k,
                        row: if transposed { 1 } else { k },
                        col: if transposed { out_channels } else { 1 },
                        order: order.then(|| (0..k as u32).rev().collect()),
                        scale: scale.then(|| (0..out_channels).map(|o| 0.1 + o as f32).collect()),
                        bias: scale.then(|| (0..out_channels).map(|o| o as f32).collect()),
                        sum: Default::default(),
                    };
                    check(&dense, unpack(&Weights::Dense(dense.clone()), nr), nr);
                }
            }
        }
    }

    fn check(dense: &Dense, packed: Vec<f32>, nr: usize) {
        let group = dense.out_channels / dense.groups;
        let Panels { bytes, width, .. } = panels(&Weights::Dense(dense.clone()), nr, Encoding::F32);
        let width = if width == 0 { nr } else { width };
        let per_group = group.div_ceil(width);
        for (p, panel) in packed.chunks_exact(bytes / 4).enumerate() {
            for lane in 0..width {
                let inside = p % per_group * width + lane;
                let o = p / per_group * group + inside;
                for k in 0..=dense.k {
                    let expected = match (inside < group, k.checked_sub(1)) {
                        (false, _) => 0.0,
                        (true, None) => dense.bias.as_ref().map_or(0.0, |bias| bias[o]),
                        (true, Some(k)) => {
                            let index = dense.order.as_ref().map_or(k, |order| order[k] as usize);
                            let weight = dense.data.get(o * dense.row + index * dense.col);
                            dense.scale.as_ref().map_or(weight, |scale| weight * scale[o])
                        }
                    };
                    let at = if k == 0 { lane } else { nr + (k - 1) * width + lane };
                    assert_eq!(panel[at], expected, "panel {p} lane {lane} k {k}");
                }
            }
        }
    }

    /// For every number of channels: panels hold them all, hardly more, and are no more than they have to be where few zeros
    /// are left without that.
    #[test]
    fn panels_are_hardly_larger_than_their_weights() {
        let dense = |out_channels: usize, groups: usize, k: usize| Dense {
            data: Constant::Owned(Arc::new(Vec::new())),
            out_channels,
            groups,
            k,
            row: k,
            col: 1,
            order: None,
            scale: None,
            bias: None,
            sum: Arc::default(),
        };
        for (groups, k) in [(1, 1), (1, 9), (1, 100), (1, 4096), (1, 100_000), (3, 900), (32, 288)]
        {
            for (nr, group) in [8, 16, 32].into_iter().flat_map(|nr| (1..300).map(move |n| (nr, n)))
            {
                let weights = Weights::Dense(dense(group * groups, groups, k));
                for encoding in Encoding::ALL {
                    let Panels { count, bytes, width } = panels(&weights, nr, encoding);
                    let width = if width == 0 { nr } else { width };
                    let what = format!("{groups} groups of {group}, {k}, {nr}: {count} of {width}");
                    assert!(width <= nr && count == groups * group.div_ceil(width), "{what}");
                    let stored = (count * bytes) as f64;
                    let own = (group * groups * (k * encoding.weight_bytes() + 4)) as f64;
                    assert!(stored <= 1.1 * own + 32768.0, "{what}: {stored} bytes, not {own}");
                    let fewest = group.div_ceil(nr);
                    let few = (fewest * nr - group) * 16 <= group;
                    assert!(!few || (count, width) == (groups * fewest, nr), "{what}");
                    assert!(nr == 8 || count == groups * fewest, "{what}");
                }
            }
        }
    }

    #[test]
    fn transformed_filters_are_scaled_and_padded() {
        // Groups of 11, in two panels each.
        let (nr, channels, group, groups) = (8, 3, 11, 2);
        let (k, outputs) = (9 * channels, group * groups);
        let data: Vec<f32> = (0..outputs * k).map(|i| (i % 17) as f32 * 0.3 - 2.0).collect();
        // as in a model: [output][channel][tap]; packed k is [tap][channel]
        let order = (0..k).map(|k| (k % channels * 9 + k / channels) as u32).collect();
        let scale: Vec<f32> = (0..outputs).map(|o| 0.1 + o as f32).collect();
        let dense = Dense {
            data: Constant::Owned(Arc::new(data.clone())),
            out_channels: outputs,
            groups,
            k,
            row: k,
            col: 1,
            order: Some(order),
            scale: Some(scale.clone()),
            bias: Some(scale.clone()),
            sum: Default::default(),
        };
        for tile in [2, 4] {
            let points = (tile + 2) * (tile + 2);
            let packed = unpack(&Weights::Winograd(dense.clone(), tile), nr);
            assert_eq!(packed.len(), 4 * (1 + points * channels) * nr);
            for (p, panel) in packed.chunks_exact((1 + points * channels) * nr).enumerate() {
                for lane in 0..nr {
                    let inside = p % 2 * nr + lane;
                    let o = if inside < group { p / 2 * group + inside } else { outputs };
                    assert_eq!(panel[lane], scale.get(o).copied().unwrap_or(0.0));
                    for c in 0..channels {
                        let filter = std::array::from_fn(|tap| {
                            data.get(o * k + c * 9 + tap)
                                .map_or(0.0, |w| f64::from(*w) * f64::from(scale[o]))
                        });
                        let all = winograd::transform_weights(tile, &filter);
                        for (point, weight) in all[..points].iter().enumerate() {
                            let at = (1 + point * channels + c) * nr + lane;
                            assert_eq!(panel[at], *weight as f32);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn encoded_panels_have_whole_biases_and_refuse_what_is_too_large() {
        for encoding in [Encoding::F16, Encoding::Bf16] {
            for nr in [8, 16] {
                let mut data: Vec<f32> = (0..19 * 5).map(|i| i as f32 * 0.37 - 3.0).collect();
                let dense = |data: &[f32]| {
                    Weights::Dense(Dense {
                        data: Constant::Owned(Arc::new(data.to_vec())),
                        out_channels: 19,
                        groups: 1,
                        k: 5,
                        row: 5,
                        col: 1,
                        order: None,
                        scale: None,
                        bias: Some((0..19).map(|o| 0.1 + o as f32).collect()),
                        sum: Default::default(),
                    })
                };
                let plain = unpack(&dense(&data), nr);
                let Panels { count, bytes, .. } = panels(&dense(&data), nr, encoding);
                assert_eq!(bytes, (4 * nr + 2 * 5 * nr).next_multiple_of(32));
                let layer = Layer {
                    panels: count as u32,
                    panel_bytes: bytes as u32,
                    encoding: encoding as u32,
                    ..Layer::default()
                };
                let pack = |weights: &Weights| {
                    let mut out = Vec::new();
                    pack_panels(weights, &layer, nr, 0..count as u32, &mut out).map(|_| out)
                };
                let packed = pack(&dense(&data)).unwrap();
                assert_eq!(packed.len(), count * bytes);
                for (panel, plain) in packed.chunks_exact(bytes).zip(plain.chunks_exact(6 * nr)) {
                    let (biases, body) = panel.split_at(4 * nr);
                    assert_eq!(biases, bytemuck::cast_slice::<f32, u8>(&plain[..nr]));
                    for (half, value) in body.as_chunks::<2>().0.iter().zip(&plain[nr..]) {
                        let halve = if encoding == Encoding::F16 { f16 } else { bf16 };
                        assert_eq!(u16::from_le_bytes(*half), halve(*value));
                    }
                }
                data[7] = -70_000.0;
                let refused = (encoding == Encoding::F16).then_some(Overflow { value: -70_000.0 });
                assert_eq!(pack(&dense(&data)).err(), refused);
            }
        }
    }

    /// Panels of integers, widened, are panels of floats: of whole and of narrow panels, in groups, transposed, and
    /// where panels hold several groups, with scales that a batch norm adds.
    #[test]
    fn integers_are_stored_with_scales_of_their_channels() {
        let kernels = eyelet::kernels::Kernels::for_isa(Isa::Portable).unwrap();
        for (groups, out, k, transposed, per_channel, unsigned) in [
            (1, 19, 7, false, true, false),
            (1, 16, 40, true, true, true),
            (3, 3 * 57, 130, false, true, true),
            (1, 57, 130, true, false, false),
            (1, 8, 9, false, false, true),
        ] {
            let count = if per_channel { out } else { 1 };
            let data: Vec<u8> = (0..out * k).map(|at| (at * 41 % 256) as u8).collect();
            let inner = if transposed || !per_channel { 1 } else { k };
            let quantised = Quantised {
                data: data.into(),
                flip: if unsigned { 0x80 } else { 0 },
                scale: (0..count).map(|c| 0.01 + c as f32 * 0.003).collect(),
                zero: (0..count).map(|c| (c as i8).wrapping_mul(37)).collect(),
                inner,
            };
            let dense = Dense {
                data: Constant::Quantised(Arc::new(quantised)),
                out_channels: out,
                groups,
                k,
                row: if transposed { 1 } else { k },
                col: if transposed { out } else { 1 },
                order: (!transposed).then(|| (0..k as u32).rev().collect()),
                scale: (out == 19).then(|| (0..out).map(|o| 0.5 + o as f32).collect()),
                bias: Some((0..out).map(|o| o as f32).collect()),
                sum: Default::default(),
            };
            for weights in [Weights::Dense(dense.clone()), Weights::Depthwise(dense.clone())] {
                let nr = 8;
                assert_eq!(encoding(&weights, Encoding::F16, Isa::Portable), Encoding::I8);
                assert_eq!(encoding(&weights, Encoding::F16, Isa::Cuda), Encoding::F16);
                let pack = |encoding: Encoding| {
                    let Panels { count, bytes, width } = panels(&weights, nr, encoding);
                    let layer = Layer {
                        panels: count as u32,
                        panel_bytes: bytes as u32,
                        width: width as u32,
                        encoding: encoding as u32,
                        ..Layer::default()
                    };
                    let mut out = Vec::new();
                    pack_panels(&weights, &layer, nr, 0..layer.panels, &mut out).unwrap();
                    assert_eq!(out.len(), count * bytes);
                    let out: Vec<f32> = bytemuck::allocation::pod_collect_to_vec(&out);
                    (out, bytes / 4, if width == 0 { nr } else { width })
                };
                let ((eight, stored, width), (floats, plain, _)) =
                    (pack(Encoding::I8), pack(Encoding::F32));
                assert!(
                    eight.len() * 2 <= floats.len() || k < 10,
                    "{} {}",
                    eight.len(),
                    floats.len()
                );
                for (eight, floats) in eight.chunks_exact(stored).zip(floats.chunks_exact(plain)) {
                    assert_eq!(eight[..nr], floats[..nr]);
                    let mut wide = vec![0.0; k * width + nr - width];
                    kernels.widen(Encoding::I8, Packed::new(eight), width, 0, &mut wide);
                    let same = wide.iter().zip(&floats[nr..]).take(k * width);
                    for (at, (found, wanted)) in same.enumerate() {
                        assert_eq!(found.to_bits(), wanted.to_bits(), "{at} of {out} {k}");
                    }
                }
            }
            // Along the other axis there is no scale for a channel.
            let Constant::Quantised(data) = &dense.data else { unreachable!() };
            assert!(dense.is_by_channel(data));
            let other = Quantised { inner: if inner == 1 { k } else { 1 }, ..(**data).clone() };
            assert_eq!(dense.is_by_channel(&other), !per_channel);
        }
    }

    #[test]
    fn denormal_weights_are_stored_as_zeros_and_counted() {
        let tiny = f32::MIN_POSITIVE;
        let data = vec![tiny, tiny / 2.0, -tiny / 2.0, -tiny, 0.0, f32::from_bits(1), 1.0, -1.0];
        let dense = Dense {
            data: Constant::Owned(Arc::new(data)),
            out_channels: 2,
            groups: 1,
            k: 4,
            row: 4,
            col: 1,
            order: None,
            scale: None,
            bias: Some(vec![tiny / 2.0; 2]),
            sum: Arc::default(),
        };
        for (encoding, weights) in [
            (Encoding::F32, Weights::Dense(dense.clone())),
            (Encoding::Bf16, Weights::Dense(dense)),
        ] {
            let Panels { count, bytes, width } = panels(&weights, 8, encoding);
            let layer = Layer {
                panels: count as u32,
                panel_bytes: bytes as u32,
                width: width as u32,
                encoding: encoding as u32,
                ..Layer::default()
            };
            let mut out = Vec::new();
            assert_eq!(pack_panels(&weights, &layer, 8, 0..1, &mut out), Ok(3));
            if encoding == Encoding::F32 {
                let floats: &[f32] = bytemuck::cast_slice(&out);
                let lane = |lane: usize| [1, 2, 3, 4].map(|k| floats[k * 8 + lane]);
                assert_eq!(lane(0), [tiny, 0.0, 0.0, -tiny]);
                assert_eq!(lane(1), [0.0, 0.0, 1.0, -1.0]);
                // Biases are added once and stay.
                assert_eq!(floats[..2], [tiny / 2.0; 2]);
            }
        }
        // What is no factor of a product is stored as it is.
        let constant = Weights::Plain(Constant::Owned(Arc::new(vec![tiny / 2.0; 16])));
        assert_eq!(unpack(&constant, 8)[..16], [tiny / 2.0; 16]);
    }

    #[test]
    fn constants_are_padded_to_a_cache_line() {
        let weights = Weights::Plain(Constant::Owned(Arc::new(vec![1.5; 17])));
        let packed = unpack(&weights, 8);
        assert_eq!(packed.len(), 32);
        assert_eq!((packed[16], packed[17]), (1.5, 0.0));
    }
}
