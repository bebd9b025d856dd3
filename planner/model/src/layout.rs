//! Where each layer's weights lie in the weights section of a pack.
//!
//! Layers follow one another in execution order, so that a load, which is one contiguous read, can
//! cover several small layers. Layers of at least [`PAGED`] bytes start on a page, because a load is
//! whole pages and would otherwise read its neighbours' bytes along with its own; smaller ones start
//! on a cache line.

use crate::network::Network;
use eyelet::pack::PAGE;

/// Layers of this many bytes and more start on a page.
pub const PAGED: u64 = 32 << 10;

/// Sets `weights` of every layer. Returns the bytes of the weights section, a multiple of the page.
pub fn place_weights(network: &mut Network) -> u64 {
    let mut end = 0u64;
    for layer in &mut network.layers {
        let bytes = u64::from(layer.panels) * u64::from(layer.panel_bytes);
        if bytes >= PAGED {
            end = end.next_multiple_of(PAGE);
        }
        layer.weights = end;
        end = (end + bytes).next_multiple_of(64);
    }
    end.next_multiple_of(PAGE)
}
