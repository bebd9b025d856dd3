//! What a step's scratch changes of Winograd convolutions: with less of it blocks have fewer tiles, and fewer panels are made
//! at once of what is stored.

use crate::network::Network;
use eyelet::ops::{self, Slice, winograd};
use eyelet::pack::{Layer, WinogradParams, params};

/// How scratch decides on the blocks of a layer by Winograd's algorithm, and on the panels that are transformed at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blocks {
    /// Tiles of a block, with all the scratch that a step can use; 0 of layers that have no blocks.
    most: f64,
    /// Bytes that a tile takes, and for each panel of a group,
    tile_bytes: f64,
    product_bytes: f64,
    /// and those that a step takes beside them,
    bytes: f64,
    /// and for each panel of which it makes what the operator reads.
    panel_bytes: f64,
}

/// Panels of a group of products, at most.
const PRODUCTS: u32 = 4;

/// Bytes of scratch by which two ways to reckon the same differ at most.
const ROUNDED: f64 = 64.0;

impl Blocks {
    pub(super) fn new(
        network: &Network,
        stored: &Layer,
        plain: &Layer,
        algorithm: u32,
        threads: u32,
    ) -> Self {
        let tensor = |id: u32| network.tensors.get(id as usize).copied().unwrap_or_default();
        let (inputs, output) = (stored.inputs.map(tensor), tensor(stored.output));
        let tile = params::<WinogradParams>(plain).tile as usize;
        let tiles = winograd::tiles(plain, &output) as usize;
        let most = winograd::block_tiles(tile, inputs[0].cols() as usize, network.isa);
        let [most, fewest] =
            [most, winograd::FEW_TILES].map(|block| block.min(tiles).max(1) as f64);
        let bytes = |count: u32| {
            let rows = output.rows() as u32;
            let slice = Slice { first: 0, count, row: 0, rows, algorithm: 0 };
            [ops::scratch_bytes, ops::least_scratch_bytes]
                .map(|bytes| bytes(plain, &inputs, &output, &slice, threads, network.isa) as f64)
        };
        let group = PRODUCTS.min(plain.panels).max(1);
        let ([one, least], [several, _]) = (bytes(1), bytes(group));
        let each = (one - least) / (most - fewest).max(1.0);
        let product_bytes = (several - one) / most / f64::from(group - 1).max(1.0);
        let made = algorithm != 0 || stored.encoding != 0;
        Self {
            most,
            tile_bytes: each - product_bytes,
            product_bytes,
            bytes: one - most * each,
            panel_bytes: if made { f64::from(plain.panel_bytes) } else { 0.0 },
        }
    }

    /// For a step with so many panels, of which so many are made at once where scratch allows it: in how many groups
    /// they are made, and how many times as many blocks there are as there were with all scratch.
    pub(super) fn within(&self, scratch_bytes: u64, count: u32, at_once: u32) -> (f64, f64) {
        let most = Self::most_panels(count, at_once);
        // 0: all that it can use.
        if scratch_bytes == 0 || !self.are_there() {
            return (count.div_ceil(most).into(), 1.0);
        }
        let scratch = scratch_bytes as f64;
        // But for what rounding makes of the same numbers.
        let panels = match scratch + ROUNDED >= self.beside(most) + self.most * self.tile(most) {
            _ if self.panel_bytes == 0.0 => most,
            true => most,
            false => ((scratch / 2.0 / self.panel_bytes) as u32).clamp(1, most),
        };
        self.by(scratch, count, panels)
    }

    /// The least of both that a step has with no more scratch, for each number of panels that may be made at once.
    pub(super) fn least_within(
        &self,
        scratch: f64,
        count: u32,
        at_once: u32,
    ) -> impl Iterator<Item = (f64, f64)> {
        let most = Self::most_panels(count, at_once);
        let fewest = if self.panel_bytes == 0.0 { most } else { 1 };
        (fewest..=most).map(move |panels| self.by(scratch + ROUNDED, count, panels))
    }

    /// Whether a step takes the longer the less scratch it has.
    pub(super) fn are_there(&self) -> bool {
        self.most > 0.0
    }

    /// Panels of the largest of the fewest groups, at least 1.
    fn most_panels(count: u32, at_once: u32) -> u32 {
        count.div_ceil(count.div_ceil(at_once.max(1)).max(1)).max(1)
    }

    fn by(&self, scratch: f64, count: u32, panels: u32) -> (f64, f64) {
        let tiles = (scratch - self.beside(panels)) / self.tile(panels);
        (count.div_ceil(panels).into(), self.most / tiles.clamp(1.0, self.most.max(1.0)))
    }

    /// Bytes of a tile where so many panels are made at once,
    fn tile(&self, panels: u32) -> f64 {
        (self.tile_bytes + f64::from(panels.min(PRODUCTS)) * self.product_bytes).max(1.0)
    }

    /// and of all that is no tile's.
    fn beside(&self, panels: u32) -> f64 {
        self.bytes + f64::from(panels) * self.panel_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::Costs;
    use super::super::example::{conv, network, profile, whole};
    use super::*;
    use eyelet::pack::{ConvParams, OpKind, Step, params_words};

    /// Blocks that are smaller come back to weights more often, and panels made one at a time have inputs transformed for
    /// each.
    #[test]
    fn less_scratch_takes_no_less_time() {
        let mut profile = profile();
        profile.compute.cache_bytes = 64 << 10;
        let mut network = network(OpKind::Conv, conv([3, 3]), [784, 256], [784, 256]);
        for tensor in &mut network.tensors {
            tensor.dims = [1, 28, 28, 256];
        }
        network.layers[0].params = params_words(&ConvParams {
            pad: [1; 2],
            ..params::<ConvParams>(&Layer { params: conv([3, 3]), ..network.layers[0] })
        });
        network.layers[0].panel_bytes = 32 * (9 * 256 + 1);
        let costs = Costs::new(&network, &profile, 1);
        for algorithm in [2, 4] {
            let step = Step { algorithm, ..whole(&network) };
            let [least, all] = [crate::slice::least_scratch_bytes, crate::slice::scratch_bytes]
                .map(|bytes| bytes(&network, &step, 1));
            assert!(2 * least < all, "{least} of {all}");
            let ns = |scratch_bytes: u64| costs.step_ns(&Step { scratch_bytes, ..step });
            let most = ns(0);
            assert!(ns(all).abs_diff(most) <= most / 50, "{} for {most}", ns(all));
            for eighth in 0..8 {
                let less = ns(least + (all - least) / 8 * eighth);
                assert!(less >= most, "{less} below {most}");
            }
            assert!(ns(least) > most + most / 20, "{} for {most}", ns(least));
        }
    }
}
