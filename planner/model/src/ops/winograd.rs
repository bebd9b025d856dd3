//! 3x3 convolution of stride 1 by Winograd's algorithm: which convolutions it serves, and their records.
//!
//! It takes fewer multiplications, but more bytes of weights and a little more error.

use super::{Lines, Operator, conv};
use crate::network::{Network, Weights};
use crate::weights;
use eyelet::kernels::Isa;
use eyelet::pack::{ConvParams, Encoding, Layer, OpKind, WinogradParams, params, params_words};

/// Channels in and out, of a group, below which the transforms, which work on vectors of channels,
/// are not worth it.
const FEW_CHANNELS: u32 = 16;

/// The largest sum of the magnitudes of an output channel's weights with which a layer may be
/// computed by Winograd's algorithm. What its transforms add up is at most 2,400 times as large as
/// that sum times the largest input, with F(4,3): the magnitudes of a row of the input's transform
/// add up to less than 5.7, those of the outputs' to less than 8.6, both of them twice (at edges
/// the product is less), and no transformed weight is larger than its filter's sum. So nothing
/// overflows for inputs of up to 2¹⁰⁰, about 1.3e30.
const LARGEST_SUM: f64 = 1e5;

/// A window over the image, and rows of what is added.
pub(super) const ROW: Operator = Operator {
    lines: |_, layer, slot| {
        let p: WinogradParams = params(layer);
        Some(match slot {
            0 => Lines::window([[3; 2], [1; 2], [1; 2], p.pad]),
            _ => Lines::Own,
        })
    },
    name: |_| conv::windowed("Conv", [3; 2]),
    algorithm: |layer| format!("Winograd F({},3)", params::<WinogradParams>(layer).tile),
    ..Operator::new(OpKind::Winograd)
};

/// The tile of a layer that is stored for this algorithm; none of any other.
pub fn tile(layer: &Layer) -> Option<u32> {
    let is_winograd = layer.kind == OpKind::Winograd as u32;
    is_winograd.then(|| params::<WinogradParams>(layer).tile)
}

/// Whether a layer can be computed so.
pub(crate) fn serves(network: &Network, index: usize) -> bool {
    let layer = &network.layers[index];
    if tile(layer).is_some() {
        return true;
    }
    if !conv::is_conv(layer) {
        return false;
    }
    let p: ConvParams = params(layer);
    let groups = p.groups.max(1);
    let channels = |tensor: u32| network.tensors[tensor as usize].cols() / groups;
    let few = channels(layer.inputs[0]).min(channels(layer.output)) < FEW_CHANNELS;
    let ones = [1; 2];
    let square = p.kernel == [3; 2] && p.stride == ones && p.dilation == ones;
    // Transformed, a panel must still fit its field.
    let plain = weights::panels(&network.weights[index], network.isa.panel(), Encoding::F32);
    let fits = plain.bytes < u32::MAX as usize / 4;
    let in_range = match &network.weights[index] {
        Weights::Dense(dense) => dense.largest_sum() <= LARGEST_SUM,
        _ => true,
    };
    // A GPU has products of one group.
    let has = groups == 1 || network.isa != Isa::Cuda;
    square && has && !few && fits && in_range
}

/// The padding of a layer that is, or can be, computed so.
fn padding(layer: &Layer) -> [u32; 2] {
    match tile(layer) {
        Some(_) => params::<WinogradParams>(layer).pad,
        None => params::<ConvParams>(layer).pad,
    }
}

/// Has a layer that this algorithm serves be computed by it, with the weights transformed.
pub(crate) fn store(layer: &mut Layer, tile: usize, groups: usize) {
    let p = WinogradParams { tile: tile as u32, pad: padding(layer), groups: groups as u32 };
    (layer.kind, layer.params) = (OpKind::Winograd as u32, params_words(&p));
}

/// Has a layer that is computed by this algorithm be computed directly.
pub(crate) fn restore(layer: &mut Layer, groups: usize) {
    let ones = [1; 2];
    let p = ConvParams {
        kernel: [3; 2],
        stride: ones,
        dilation: ones,
        pad: padding(layer),
        groups: groups as u32,
        ..ConvParams::default()
    };
    conv::store(layer, &p);
}
