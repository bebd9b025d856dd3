//! The algorithms that a layer can be computed by, and changing one for another.
//!
//! The passes lower every convolution to the direct algorithm. A 3x3 one of stride 1 can be
//! computed by Winograd's instead: fewer multiplications, but more bytes of weights and a little
//! more error. The layer's tensors stay as they are, so that a change concerns nobody else: only
//! the place of the weights in the pack ([`place_weights`](crate::layout::place_weights)) has to be
//! found anew.

use crate::network::{Network, Weights};
use crate::ops::winograd;
use crate::weights;
use eyelet::kernels::table::TILES;

/// How a layer is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// As its operator says; a convolution's output is a sum of a processor's chains, or of a GPU's
    /// own ([`set_chains`](crate::ops::conv::set_chains)).
    Direct,
    /// F(tile, 3): outputs in squares of `tile` by `tile` pixels.
    Winograd { tile: usize },
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
        match self {
            Self::Direct => true,
            Self::Winograd { .. } => winograd::serves(network, index),
        }
    }

    /// Has a layer that this algorithm serves be computed so; a direct convolution that was not
    /// before, as processors sum it.
    pub fn set(self, network: &mut Network, index: usize) {
        let (layer, recipe) = (&mut network.layers[index], &mut network.weights[index]);
        let dense = match std::mem::replace(recipe, Weights::None) {
            Weights::Dense(dense) if self != Self::Direct => dense,
            Weights::Winograd(dense, _) => dense,
            unchanged => {
                *recipe = unchanged;
                return;
            }
        };
        *recipe = match self {
            Self::Direct => {
                winograd::restore(layer, dense.groups);
                Weights::Dense(dense)
            }
            Self::Winograd { tile } => {
                winograd::store(layer, tile, dense.groups);
                Weights::Winograd(dense, tile)
            }
        };
        let encoding = weights::encoding(recipe, layer.encoding().unwrap_or_default(), network.isa);
        let panels = weights::panels(recipe, network.isa.panel(), encoding);
        layer.encoding = encoding as u32;
        (layer.panels, layer.panel_bytes) = (panels.count as u32, panels.bytes as u32);
        layer.width = panels.width as u32;
    }
}
