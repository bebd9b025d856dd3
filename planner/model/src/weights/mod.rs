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

mod fill;
pub(crate) mod halves;

use crate::network::{Dense, Network, Weights};
use eyelet::pack::{Encoding, Layer, OpKind};
use fill::{fill, fill_transformed};
use halves::{bf16, f16};
use std::ops::Range;

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

/// Has all panels of output channels be stored so. Where they lie ([`place_weights`](crate::layout::place_weights))
/// has to be found anew.
pub fn encode(network: &mut Network, encoding: Encoding) {
    let nr = network.isa.panel();
    for (layer, weights) in network.layers.iter_mut().zip(&network.weights) {
        if OpKind::from_code(layer.kind).is_some_and(OpKind::has_panels) {
            layer.encoding = encoding as u32;
            layer.panel_bytes = panels(weights, nr, encoding).bytes as u32;
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Constant;
    use bytes::Bytes;
    use eyelet::ops::winograd;
    use std::sync::Arc;

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
