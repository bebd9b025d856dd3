//! Where each layer's weights lie in the weights section of a pack.
//!
//! Layers follow one another in execution order, so that a load, which is one contiguous read, can
//! cover several small layers. Layers of at least [`PAGED`] bytes start on a page, because a load is
//! whole pages and would otherwise read its neighbours' bytes along with its own; smaller ones start
//! on a cache line.
//!
//! Products with the same weights, as each time of a recurrent network has them, share one place, and
//! so do lookups in a table that is such weights.
//!
//! The shapes of a pack differ in few constants, if in any. What they have in common is placed once
//! ([`SharedWeights`]), and what only a later shape has comes after it.

use crate::graph::{Constant, Quantised};
use crate::network::{Dense, Network, Weights};
use crate::ops;
use eyelet::kernels::Isa;
use eyelet::pack::{Layer, PAGE};
use std::collections::BTreeMap;

/// Layers of this many bytes and more start on a page.
pub const PAGED: u64 = 32 << 10;

/// Sets `weights` of every layer. Returns the bytes of the weights section, a multiple of the page.
pub fn place_weights(network: &mut Network) -> u64 {
    SharedWeights::default().place(network)
}

/// Bytes of the weights of layers that have been [placed](place_weights). Weights that several layers
/// share count once.
pub fn distinct_bytes(layers: &[Layer]) -> u64 {
    let placed = layers.iter().map(|layer| (layer.weights, bytes(layer)));
    let by_place: BTreeMap<u64, u64> = placed.filter(|&(_, bytes)| bytes > 0).collect();
    by_place.into_values().sum()
}

/// The weights of the shapes of a pack that have been placed. A layer whose packed weights are
/// among them is placed there again, so that the pack has them once.
#[derive(Clone, Debug, Default)]
pub struct SharedWeights {
    /// Bytes that they take.
    end: u64,
    /// By where they lie.
    placed: Vec<Placed>,
}

/// The weights of a layer, how they are packed, and where they lie.
#[derive(Clone, Debug)]
struct Placed {
    layer: Layer,
    weights: Weights,
    isa: Isa,
}

impl SharedWeights {
    /// Sets `weights` of every layer of one more shape. Returns the bytes of the weights section of
    /// all of them, a multiple of the page.
    pub fn place(&self, network: &mut Network) -> u64 {
        let (mut end, mut last) = (self.end, 0);
        let mut products: Vec<Placed> = Vec::new();
        for (layer, weights) in network.layers.iter_mut().zip(&network.weights) {
            let bytes = bytes(layer);
            let known = (bytes > 0).then(|| self.find(layer, weights, network.isa, last)).flatten();
            if let Some(start) = known {
                layer.weights = start;
                last = start + bytes;
                continue;
            }
            let product = bytes >= PAGED && ops::shares_weights(layer);
            if product {
                let known =
                    products.iter().find(|placed| placed.holds(layer, weights, network.isa));
                if let Some(placed) = known {
                    layer.weights = placed.layer.weights;
                    continue;
                }
            }
            if bytes >= PAGED {
                end = end.next_multiple_of(PAGE);
            }
            layer.weights = end;
            end = (end + bytes).next_multiple_of(64);
            if product {
                let (layer, weights) = (*layer, weights.clone());
                products.push(Placed { layer, weights, isa: network.isa });
            }
        }
        end.next_multiple_of(PAGE)
    }

    /// Adds the weights of a shape, where they have been [placed](Self::place).
    pub fn add(&mut self, network: &Network) {
        for (layer, weights) in network.layers.iter().zip(&network.weights) {
            let end = layer.weights + bytes(layer);
            if bytes(layer) > 0 && layer.weights >= self.end {
                let (layer, weights) = (*layer, weights.clone());
                self.placed.push(Placed { layer, weights, isa: network.isa });
            }
            // What is placed later lies in other pages, as whatever reads these expects.
            self.end = self.end.max(end);
        }
        self.end = self.end.next_multiple_of(PAGE);
    }

    /// Where equal weights lie: of several places the first after byte `last`, where those lie that
    /// follow what was placed before.
    fn find(&self, layer: &Layer, weights: &Weights, isa: Isa, last: u64) -> Option<u64> {
        let equal = |placed: &&Placed| placed.holds(layer, weights, isa);
        let (before, after) =
            self.placed.split_at(self.placed.partition_point(|placed| placed.layer.weights < last));
        let found = after.iter().find(equal).or_else(|| before.iter().find(equal));
        found.map(|placed| placed.layer.weights)
    }
}

impl Placed {
    /// Whether the packed weights of a layer are these, byte for byte.
    fn holds(&self, layer: &Layer, weights: &Weights, isa: Isa) -> bool {
        let how = |layer: &Layer| (layer.panels, layer.panel_bytes, layer.width, layer.encoding);
        self.isa == isa && how(&self.layer) == how(layer) && same(&self.weights, weights)
    }
}

fn bytes(layer: &Layer) -> u64 {
    u64::from(layer.panels) * u64::from(layer.panel_bytes)
}

/// Whether weights are packed by the same recipe of the same numbers, bit for bit.
fn same(a: &Weights, b: &Weights) -> bool {
    match (a, b) {
        (Weights::None, Weights::None) => true,
        (Weights::Dense(a), Weights::Dense(b)) => same_dense(a, b),
        (Weights::Depthwise(a), Weights::Depthwise(b)) => same_dense(a, b),
        (Weights::Winograd(a, tile), Weights::Winograd(b, other)) => {
            tile == other && same_dense(a, b)
        }
        (Weights::Plain(a), Weights::Plain(b)) => same_constant(a, b),
        _ => false,
    }
}

fn same_dense(a: &Dense, b: &Dense) -> bool {
    let shape = |dense: &Dense| [dense.out_channels, dense.groups, dense.k, dense.row, dense.col];
    shape(a) == shape(b)
        && a.order == b.order
        && same_bits(a.scale.as_deref(), b.scale.as_deref())
        && same_bits(a.bias.as_deref(), b.bias.as_deref())
        && same_constant(&a.data, &b.data)
}

fn same_bits(a: Option<&[f32]>, b: Option<&[f32]>) -> bool {
    a.map(bytemuck::cast_slice::<f32, u8>) == b.map(bytemuck::cast_slice::<f32, u8>)
}

fn same_constant(a: &Constant, b: &Constant) -> bool {
    match (a, b) {
        (Constant::Raw(a, encoding), Constant::Raw(b, other)) => encoding == other && a == b,
        (Constant::Owned(a), Constant::Owned(b)) => same_bits(Some(a), Some(b)),
        (Constant::Words(a), Constant::Words(b)) => a == b,
        (Constant::Quantised(a), Constant::Quantised(b)) => {
            let how = |of: &Quantised| (of.flip, of.inner);
            how(a) == how(b)
                && a.zero == b.zero
                && same_bits(Some(&a.scale), Some(&b.scale))
                && a.data == b.data
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eyelet::pack::OpKind;
    use std::sync::Arc;

    /// Layers without inputs, each with one panel of so many equal floats.
    fn network(panels: &[(usize, f32)]) -> Network {
        let layer = |&(floats, _): &(usize, f32)| Layer {
            panels: 1,
            panel_bytes: 4 * floats as u32,
            ..Layer::default()
        };
        let weights = |&(floats, value): &(usize, f32)| {
            Weights::Plain(Constant::Owned(Arc::new(vec![value; floats])))
        };
        let count = panels.len();
        Network {
            name: String::new(),
            isa: Isa::Portable,
            buffers: Vec::new(),
            tensors: Vec::new(),
            layers: panels.iter().map(layer).collect(),
            names: vec![String::new(); count],
            weights: panels.iter().map(weights).collect(),
            on_load: vec![0; count],
            mapped: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// Where the layers of one more shape lie, and the bytes of the section.
    fn placed(shared: &mut SharedWeights, panels: &[(usize, f32)]) -> (Vec<u64>, u64) {
        let mut network = network(panels);
        let bytes = shared.place(&mut network);
        shared.add(&network);
        (network.layers.iter().map(|layer| layer.weights).collect(), bytes)
    }

    /// Products of one shape that start on a page share their weights; others, and smaller ones, do not.
    #[test]
    fn equal_products_share_a_place() {
        let panels = [(8192, 1.0), (16, 2.0), (8192, 1.0), (16, 2.0), (8192, 3.0), (8192, 1.0)];
        let mut network = network(&panels);
        for layer in &mut network.layers[..5] {
            layer.kind = OpKind::Conv as u32;
        }
        let bytes = place_weights(&mut network);
        let places: Vec<u64> = network.layers.iter().map(|layer| layer.weights).collect();
        let next = 9 * 4096;
        assert_eq!(places, [0, 32768, 0, 32768 + 64, next, next + 32768]);
        assert_eq!(bytes, next + 2 * 32768);
        assert_eq!(distinct_bytes(&network.layers), 3 * 32768 + 2 * 64);
        // Lookups in the same table, and the product that has it.
        let all = vec![(8192, 1.0); 3];
        let mut network = self::network(&all);
        let kinds = [OpKind::Lookup, OpKind::Conv, OpKind::Lookup];
        network.layers.iter_mut().zip(kinds).for_each(|(layer, kind)| layer.kind = kind as u32);
        assert_eq!(place_weights(&mut network), 32768);
    }

    #[test]
    fn shapes_have_what_is_equal_once() {
        let mut shared = SharedWeights::default();
        // Equal layers of one shape stay apart, so that a load covers neighbours.
        let first = [(16, 1.0), (16, 2.0), (16, 1.0), (8192, 3.0), (16, 2.0)];
        let places = vec![0, 64, 128, 4096, 4096 + 32768];
        assert_eq!(placed(&mut shared, &first), (places.clone(), 10 * 4096));
        assert_eq!(placed(&mut shared, &first), (places.clone(), 10 * 4096));
        // What differs comes after, on a page of its own; what follows it is found again.
        let second = [(16, 1.0), (16, -0.0), (16, 1.0), (8192, 3.0), (16, 0.0), (16, 2.0)];
        let own = 10 * 4096;
        let found = placed(&mut shared, &second);
        assert_eq!(found, (vec![0, own, 128, 4096, own + 64, 4096 + 32768], own + 4096));
        // As many bytes in other panels are others.
        let mut third = network(&[(16, 1.0)]);
        (third.layers[0].panels, third.layers[0].panel_bytes) = (2, 32);
        assert_eq!(shared.place(&mut third), own + 2 * 4096);
        assert_eq!(third.layers[0].weights, own + 4096);
    }
}
