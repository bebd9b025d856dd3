//! What Winograd convolutions do beside the operations of their products: transforms of inputs, outputs and weights, and
//! reading weights again for each block of tiles.

use super::layer::LayerCost;
use super::work::Work;
use crate::profile::Compute;
use crate::steps::whole;
use eyelet::kernels::Isa;
use eyelet::ops::{self, winograd};
use eyelet::pack::{Layer, WinogradParams, params};
use eyelet_model::network::Network;

/// Inputs and outputs of so many caches of a thread are as near to Winograd's transforms as those by which the
/// transforms' rate is measured.
pub(super) const SPILL_CACHES: u64 = 2;

/// What surrounds the products of a Winograd convolution.
pub(super) struct Transforms {
    /// Frequencies, over all tiles.
    pub(super) points: f64,
    /// Input channels of a group.
    pub(super) channels: f64,
    /// Bytes that the input transforms read and write: with one group in every step again, whatever panels it has;
    pub(super) input_bytes: f64,
    /// else for its groups' channels alone.
    pub(super) grouped: bool,
    /// Bytes that the output transforms read and write.
    pub(super) output_bytes: f64,
    /// How often weights are read: once for each block of tiles, or, with several groups, from a cache.
    pub(super) blocks: f64,
    tiles: u64,
    /// Products of a panel in a block.
    pub(super) products: f64,
}

impl Transforms {
    pub(super) fn of(network: &Network, layer: &Layer) -> Self {
        let p: WinogradParams = params(layer);
        let input = &network.tensors[layer.inputs[0] as usize];
        let output = &network.tensors[layer.output as usize];
        let tiles = winograd::tiles(layer, output);
        let points = match network.isa {
            // A GPU computes what juts out.
            Isa::Cuda => tiles * u64::from(p.tile + 2).pow(2),
            _ => winograd::frequencies(layer, output),
        };
        let each = points as f64;
        let channels = input.cols() / p.groups.max(1);
        let block = winograd::block_tiles(p.tile as usize, channels as usize, network.isa) as u64;
        let grouped = p.groups > 1;
        Self {
            points: each,
            channels: f64::from(channels),
            grouped,
            input_bytes: 8.0 * each * f64::from(input.cols()),
            output_bytes: 4.0 * f64::from(output.cols()) * (each + output.rows() as f64),
            blocks: if grouped { 1.0 } else { tiles.div_ceil(block) as f64 },
            tiles,
            products: f64::from(p.tile + 2).powi(2),
        }
    }
}

/// What Winograd convolutions take beside the operations of their products, as [`Compute`] has it: bytes that are transformed,
/// those that are not near, products, and bytes of weights that these read.
pub(crate) type Beside = [f64; 4];

/// That of a layer as a whole on one thread, with all the scratch that it can use, or with the least.
pub(crate) fn beside(network: &Network, layer: &Layer, cache_bytes: u64, least: bool) -> Beside {
    let (work, transforms) = (Work::of(network, layer), Transforms::of(network, layer));
    let blocks = match least {
        true => transforms.tiles.div_ceil(winograd::FEW_TILES as u64) as f64,
        false => transforms.blocks,
    };
    let [panels, bytes] = [layer.panels, layer.panel_bytes].map(f64::from);
    let near = panels * bytes <= cache_bytes as f64;
    [
        transforms.input_bytes + transforms.output_bytes,
        work.activations.saturating_sub(SPILL_CACHES * cache_bytes) as f64,
        blocks * panels * transforms.products,
        if near { blocks * panels * bytes } else { 0.0 },
    ]
}

/// How long that takes.
pub(crate) fn beside_ns(beside: Beside, compute: &Compute) -> f64 {
    let [transformed, spilled, products, read] = beside;
    transformed / compute.transform_gbs
        + spilled * compute.transform_spill_ns_per_byte
        + products * compute.product_ns
        + read * compute.product_ns_per_byte
}

/// Of a network of one layer, whose steps transform its weights: the bytes that they make of them, and what a step is predicted to take that
/// computes all of it on one thread.
pub(crate) fn transforming(network: &Network, compute: &Compute) -> Option<(f64, f64)> {
    let (stored, algorithm) = (network.layers.first()?, *network.on_load.first()?);
    let input = network.tensors.get(stored.inputs[0] as usize)?;
    let layer = ops::transformed(stored, input, algorithm, network.isa)?;
    let cost = LayerCost::new(network, stored, algorithm, compute, 0, (1, 1.0))?;
    let ns = cost.ns(&whole(network, 0), compute.step_overhead_ns, false);
    Some((f64::from(layer.panels) * f64::from(layer.panel_bytes), ns as f64))
}
