//! What Winograd convolutions do beside the operations of their products: transforms of inputs, outputs and weights, and
//! reading weights again for each block of tiles.

use eyelet::kernels::Isa;
use eyelet::ops::winograd;
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
    /// Tiles of the output.
    pub(super) tiles: u64,
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
