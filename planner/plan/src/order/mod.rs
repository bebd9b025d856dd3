//! In which orders the layers of a network may run.
//!
//! A layer waits for every earlier one with which it shares a float that one of them writes: it reads what
//! the other has written, writes over what the other reads, or writes after the other. Layers that write
//! different channels of one buffer, as parts of a concatenation do, do not wait for one another. Any order that
//! keeps these [dependencies](Dependencies) computes the same bits.

mod peak;

pub use peak::{Live, Order};

use eyelet::pack::{Layer, NONE, Tensor};
use eyelet_model::network::Network;
use std::ops::Range;

/// Which layers wait for which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependencies {
    /// For each layer those that run before it, in ascending order.
    pub before: Vec<Vec<usize>>,
    /// For each layer those that run after it, in ascending order.
    pub after: Vec<Vec<usize>>,
}

/// Why an order is none of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// A layer is missing, or is there twice.
    #[error("an order of {layers} layers names {named}, each once, but has {length} entries")]
    Incomplete {
        /// Layers of the network.
        layers: usize,
        /// Different layers of the network in the order.
        named: usize,
        /// Entries of the order.
        length: usize,
    },
    /// A layer comes before one that it waits for.
    #[error("layer {layer} is number {at} of the order, before layer {needed}, which it waits for")]
    TooEarly {
        /// The layer, as the network numbers it.
        layer: usize,
        /// Its place in the order.
        at: usize,
        /// The layer that must come first.
        needed: usize,
    },
}

impl Dependencies {
    /// The dependencies among a network's layers.
    pub fn of(network: &Network) -> Self {
        let layers = network.layers.len();
        let (mut before, mut after) = (vec![Vec::new(); layers], vec![Vec::new(); layers]);
        // For each buffer the tensors that earlier layers touch, and whether they write them.
        let mut touched: Vec<Vec<(usize, Tensor, bool)>> = vec![Vec::new(); network.buffers.len()];
        for (index, layer) in network.layers.iter().enumerate() {
            let own: Vec<_> = tensors(network, layer).collect();
            let conflicts = own.iter().flat_map(|(tensor, writes)| {
                let others = touched[tensor.buffer as usize].iter();
                others.filter(|(_, other, wrote)| (*writes || *wrote) && overlap(tensor, other))
            });
            let mut needed: Vec<usize> = conflicts.map(|(other, ..)| *other).collect();
            needed.sort_unstable();
            needed.dedup();
            needed.iter().for_each(|&other| after[other].push(index));
            before[index] = needed;
            own.iter().for_each(|&(tensor, writes)| {
                touched[tensor.buffer as usize].push((index, tensor, writes));
            });
        }
        Self { before, after }
    }

    /// Checks that an order has every layer once, after all that it waits for.
    pub fn check(&self, order: &[usize]) -> Result<(), OrderError> {
        let layers = self.before.len();
        let mut place = vec![None; layers];
        for (at, &layer) in order.iter().enumerate() {
            if let Some(place) = place.get_mut(layer) {
                *place = Some(at);
            }
        }
        let named = place.iter().flatten().count();
        if named < layers || order.len() > layers {
            return Err(OrderError::Incomplete { layers, named, length: order.len() });
        }
        for (at, &layer) in order.iter().enumerate() {
            let late = self.before[layer].iter().find(|&&needed| place[needed] > Some(at));
            if let Some(&needed) = late {
                return Err(OrderError::TooEarly { layer, at, needed });
            }
        }
        Ok(())
    }

    /// An order in which each next layer is the one of those that may run that `choose` names by its place in
    /// the list, which is in ascending order.
    pub fn order_by(&self, mut choose: impl FnMut(&[usize]) -> usize) -> Vec<usize> {
        let mut waits: Vec<usize> = self.before.iter().map(Vec::len).collect();
        let mut ready: Vec<usize> = (0..waits.len()).filter(|&layer| waits[layer] == 0).collect();
        let mut order = Vec::with_capacity(waits.len());
        while !ready.is_empty() {
            let layer = ready.remove(choose(&ready) % ready.len());
            order.push(layer);
            for &next in &self.after[layer] {
                waits[next] -= 1;
                if waits[next] == 0 {
                    ready.insert(ready.partition_point(|&other| other < next), next);
                }
            }
        }
        order
    }
}

/// The same network with its layers in another order. Buffers and tensors stay as they are.
pub fn reordered(network: &Network, order: &[usize]) -> Result<Network, OrderError> {
    Dependencies::of(network).check(order)?;
    let moved = |flags: &Vec<bool>| order.iter().map(|&layer| flags[layer]).collect();
    Ok(Network {
        layers: order.iter().map(|&layer| network.layers[layer]).collect(),
        names: order.iter().map(|&layer| network.names[layer].clone()).collect(),
        weights: order.iter().map(|&layer| network.weights[layer].clone()).collect(),
        on_load: order.iter().map(|&layer| network.on_load[layer]).collect(),
        mapped: network.mapped.as_ref().map(moved),
        ..network.clone()
    })
}

/// The network in other orders that need little memory: the [greedy](Live::greedy) one, and the one with the
/// [least peak](Live::least). Orders that it has already are left out.
pub fn leaner(network: &Network) -> Vec<Network> {
    let live = Live::new(network);
    let greedy = live.greedy();
    let (least, _) = live.least(&greedy);
    let mut orders = vec![greedy.layers, least.layers];
    orders.dedup();
    orders.retain(|order| order.iter().enumerate().any(|(at, &layer)| at != layer));
    orders.iter().filter_map(|order| reordered(network, order).ok()).collect()
}

/// The tensors that a layer touches, and whether it writes them.
fn tensors<'a>(
    network: &'a Network,
    layer: &'a Layer,
) -> impl Iterator<Item = (Tensor, bool)> + use<'a> {
    let inputs = layer.inputs.iter().filter(|id| **id != NONE).map(|id| (*id, false));
    inputs.chain([(layer.output, true)]).map(|(id, writes)| (network.tensors[id as usize], writes))
}

/// Whether two tensors of one buffer may share a float: surely not if they lie in different channels or rows of
/// the same matrix, or in bytes that do not meet.
fn overlap(a: &Tensor, b: &Tensor) -> bool {
    let meet = |a: Range<u64>, b: Range<u64>| a.start < b.end && b.start < a.end;
    let span = |tensor: &Tensor| {
        let length =
            tensor.rows().saturating_sub(1) * u64::from(tensor.pitch) + u64::from(tensor.cols());
        u64::from(tensor.offset)..u64::from(tensor.offset) + length
    };
    let pitch = u64::from(a.pitch.max(1));
    let columns = |tensor: &Tensor| {
        let first = u64::from(tensor.offset) % pitch;
        first..first + u64::from(tensor.cols())
    };
    let within = |tensor: &Tensor| tensor.pitch == a.pitch && columns(tensor).end <= pitch;
    let apart = within(a) && within(b) && !meet(columns(a), columns(b));
    !apart && meet(span(a), span(b))
}
