//! Costs of layers as a measured profile is fitted to them: of Winograd convolutions by their terms, and of steps that
//! transform weights as they are predicted.

use super::layer::LayerCost;
use super::winograd::{SPILL_CACHES, Transforms};
use super::work::Work;
use crate::profile::Compute;
use crate::steps::whole;
use eyelet::ops::{self, winograd};
use eyelet::pack::Layer;
use eyelet_model::network::Network;

/// Work of Winograd convolutions besides the operations of their products, in the terms of [`Compute`]: transformed bytes,
/// bytes that exceed the caches, products, and bytes of weights that these read.
pub type Extra = [f64; 4];

/// That of a layer as a whole on one thread, with all the scratch that it can use, or with the least.
pub fn extra(network: &Network, layer: &Layer, cache_bytes: u64, least: bool) -> Extra {
    let (work, transforms) = (Work::of(network, layer), Transforms::of(network, layer));
    let blocks = match least {
        true => transforms.tiles.div_ceil(winograd::FEW_TILES as u64) as f64,
        false => transforms.blocks,
    };
    let [panels, bytes] = [layer.panels, layer.panel_bytes].map(f64::from);
    let cached = panels * bytes <= cache_bytes as f64;
    [
        transforms.input_bytes + transforms.output_bytes,
        work.activations.saturating_sub(SPILL_CACHES * cache_bytes) as f64,
        blocks * panels * transforms.products,
        if cached { blocks * panels * bytes } else { 0.0 },
    ]
}

/// How long that takes.
pub fn extra_ns(extra: Extra, compute: &Compute) -> f64 {
    let [transformed, spilled, products, read] = extra;
    transformed / compute.transform_gbs
        + spilled * compute.transform_spill_ns_per_byte
        + products * compute.product_ns
        + read * compute.product_ns_per_byte
}

/// For a network of one layer whose steps transform its weights: the bytes of the transformed weights, and the predicted
/// time of one step that computes all of it on one thread.
pub fn transforming(network: &Network, compute: &Compute) -> Option<(f64, f64)> {
    let (stored, algorithm) = (network.layers.first()?, *network.on_load.first()?);
    let input = network.tensors.get(stored.inputs[0] as usize)?;
    let layer = ops::transformed(stored, input, algorithm, network.isa)?;
    let cost = LayerCost::new(network, stored, algorithm, compute, 0, (1, 1.0))?;
    let ns = cost.ns(&whole(network, 0), compute.step_overhead_ns, false);
    Some((f64::from(layer.panels) * f64::from(layer.panel_bytes), ns as f64))
}
