//! The memory that layers take on their own.

use super::price::slice_bytes;
use super::times::Times;
use crate::steps::{least_slice_bytes, panel_scratch_bytes, whole};
use eyelet::pack::{Method, OpKind, PAGE, Step};
use eyelet_model::network::Network;

/// For each layer the bytes of the buffers that live while it computes.
pub(super) fn live_bytes(layers: usize, times: &Times) -> Vec<u64> {
    (0..layers).map(|layer| times.bytes(&(layer..layer + 1))).collect()
}

/// Memory of a layer in the smallest slices: the live buffers, and one panel with its scratch.
pub(super) fn alone(network: &Network, live: &[u64], threads: u32, layer: usize) -> u64 {
    let all = whole(network, layer);
    let panels = OpKind::from_code(network.layers[layer].kind).is_some_and(OpKind::has_panels);
    let slices = if panels { all.count } else { 1 };
    let slice = |first: u32| match panels {
        true => Step { first, count: 1, ..all },
        false => all,
    };
    let weights = (0..slices).map(|first| slice_bytes(network, &slice(first)));
    // Where its steps have no room to transform weights, they need not, and parts of panels will
    // do.
    let own = Step { method: Method::default(), ..slice(0) };
    let scratch = |step: Step| panel_scratch_bytes(network, &step, threads);
    let weights = weights.max().unwrap_or(0);
    let part = match panels {
        true => weights.min((least_slice_bytes(network, layer) + PAGE).next_multiple_of(PAGE)),
        false => weights,
    };
    live[layer] + (weights + scratch(slice(0))).min(part + scratch(own))
}
