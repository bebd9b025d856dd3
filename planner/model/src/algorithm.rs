//! The algorithms that a layer can be computed by, and changing one for another.
//!
//! The passes lower every convolution to the direct algorithm. A 3x3 one of stride 1 can be
//! computed by Winograd's instead: fewer multiplications, but more bytes of weights and a little
//! more error. The layer's tensors stay as they are, so that a change concerns nobody else: only
//! the place of the weights in the pack ([`place_weights`](crate::layout::place_weights)) has to be
//! found anew.
//!
//! On a GPU the direct algorithm can be cut into chains ([`set_chains`]): a convolution with a long
//! reduction and few outputs has too few tiles for all multiprocessors. That changes what is
//! rounded, and is a property of the layer.

use crate::network::{Network, Weights};
use crate::weights;
use eyelet::kernels::Isa;
use eyelet::kernels::table::TILES;
use eyelet::ops::cuda::conv;
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

/// How a layer is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// As its operator says; a convolution's output is a sum of a processor's chains, or of a GPU's
    /// own ([`set_chains`]).
    Direct,
    /// F(tile, 3): outputs in squares of `tile` by `tile` pixels.
    Winograd { tile: usize },
}

/// Into how many chains a GPU with so many multiprocessors had best cut the reduction of a direct
/// convolution; 1 for all other layers, and for none.
pub fn chains(network: &Network, index: usize, multiprocessors: u32) -> u32 {
    let layer = &network.layers[index];
    if network.isa != Isa::Cuda || layer.kind != OpKind::Conv as u32 || multiprocessors == 0 {
        return 1;
    }
    let output = &network.tensors[layer.output as usize];
    conv::chains(output.rows() as u32, output.cols(), terms(network, layer), multiprocessors)
}

/// About half as many chains of a direct convolution's reduction; one where they would be too long.
pub fn fewer_chains(network: &Network, index: usize, chains: u32) -> u32 {
    let half = chains / 2;
    if conv::enough(terms(network, &network.layers[index]), half) { half.max(1) } else { 1 }
}

/// The reduction of an output of a direct convolution.
fn terms(network: &Network, layer: &Layer) -> u32 {
    let input = &network.tensors[layer.inputs[0] as usize];
    let p: ConvParams = params(layer);
    p.kernel[0] * p.kernel[1] * (input.cols() / p.groups.max(1))
}

/// Cuts the reduction of a direct convolution for a GPU; other layers have none that could be.
pub fn set_chains(network: &mut Network, index: usize, chains: u32) {
    let layer = &mut network.layers[index];
    if network.isa == Isa::Cuda && layer.kind == OpKind::Conv as u32 {
        let p: ConvParams = params(layer);
        layer.params = params_words(&ConvParams { chains, ..p });
    }
}

/// Whether the steps of a layer that is stored for the direct algorithm can compute it by F(tile,
/// 3): they transform its weights.
pub fn transforms_on_load(network: &Network, layer: usize, tile: u32) -> bool {
    Algorithm::of(network, layer) == Algorithm::Direct
        && Algorithm::Winograd { tile: tile as usize }.serves(network, layer)
}

impl Algorithm {
    /// What there is, with the fewest bytes of weights first.
    pub fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::Direct).chain(TILES.into_iter().map(|tile| Self::Winograd { tile }))
    }

    /// How a layer of a network is computed now.
    pub fn of(network: &Network, layer: usize) -> Self {
        match network.weights[layer] {
            Weights::Winograd(_, tile) => Self::Winograd { tile },
            _ => Self::Direct,
        }
    }

    /// Whether a layer can be computed so.
    pub fn serves(self, network: &Network, index: usize) -> bool {
        let layer = &network.layers[index];
        match (self, OpKind::from_code(layer.kind)) {
            (Self::Direct, _) | (_, Some(OpKind::Winograd)) => true,
            (_, Some(OpKind::Conv)) => {
                let p: ConvParams = params(layer);
                let groups = p.groups.max(1);
                let channels = |tensor: u32| network.tensors[tensor as usize].cols() / groups;
                let few = channels(layer.inputs[0]).min(channels(layer.output)) < FEW_CHANNELS;
                let ones = [1; 2];
                let square = p.kernel == [3; 2] && p.stride == ones && p.dilation == ones;
                // Transformed, a panel must still fit its field.
                let plain =
                    weights::panels(&network.weights[index], network.isa.panel(), Encoding::F32);
                let fits = plain.bytes < u32::MAX as usize / 4;
                let in_range = match &network.weights[index] {
                    Weights::Dense(dense) => dense.largest_sum() <= LARGEST_SUM,
                    _ => true,
                };
                // A GPU has products of one group.
                let has = groups == 1 || network.isa != Isa::Cuda;
                square && has && !few && fits && in_range
            }
            _ => false,
        }
    }

    /// Has a layer that this algorithm serves be computed so; a direct convolution that was not
    /// before, as processors sum it.
    pub fn set(self, network: &mut Network, index: usize) {
        let (layer, recipe) = (&mut network.layers[index], &mut network.weights[index]);
        let (dense, pad) = match std::mem::replace(recipe, Weights::None) {
            Weights::Dense(dense) if self != Self::Direct => {
                (dense, params::<ConvParams>(layer).pad)
            }
            Weights::Winograd(dense, _) => (dense, params::<WinogradParams>(layer).pad),
            unchanged => {
                *recipe = unchanged;
                return;
            }
        };
        let kind;
        (kind, layer.params, *recipe) = match self {
            Self::Direct => {
                let ones = [1; 2];
                let p = ConvParams {
                    kernel: [3; 2],
                    stride: ones,
                    dilation: ones,
                    pad,
                    groups: dense.groups as u32,
                    ..ConvParams::default()
                };
                (OpKind::Conv, params_words(&p), Weights::Dense(dense))
            }
            Self::Winograd { tile } => {
                let p = WinogradParams { tile: tile as u32, pad, groups: dense.groups as u32 };
                (OpKind::Winograd, params_words(&p), Weights::Winograd(dense, tile))
            }
        };
        layer.kind = kind as u32;
        let encoding = weights::encoding(recipe, layer.encoding().unwrap_or_default(), network.isa);
        let panels = weights::panels(recipe, network.isa.panel(), encoding);
        layer.encoding = encoding as u32;
        (layer.panels, layer.panel_bytes) = (panels.count as u32, panels.bytes as u32);
        layer.width = panels.width as u32;
    }
}
