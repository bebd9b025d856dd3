//! The order with the least activations at its fullest moment.
//!
//! Between two layers those buffers are alive that some finished layer or the host has written, and that some other
//! layer or the host will read. While a layer runs, all that it touches is alive, too. The exact search goes through
//! sets of finished layers, as dynamic programming does: what is alive depends on the set alone, not on the order in
//! which its layers ran.

use super::Dependencies;
use eyelet_model::network::{Network, Port};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Memory that the exact search takes at most, in bytes.
const MOST_BYTES: usize = 256 << 20;

/// Buffers, and the layers that touch them.
#[derive(Clone, Debug)]
pub struct Live {
    bytes: Vec<u64>,
    /// For each layer its buffers, each once.
    touched: Vec<Vec<usize>>,
    /// For each buffer the number of layers that touch it.
    users: Vec<u32>,
    is_input: Vec<bool>,
    is_output: Vec<bool>,
    dependencies: Dependencies,
}

/// An order, and the bytes that are alive at its fullest moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The layers, as the network numbers them.
    pub layers: Vec<usize>,
    /// Bytes of activations.
    pub peak: u64,
}

/// Finished layers as bits.
type Done = Box<[u64]>;

/// A set of finished layers, and one order of them.
#[derive(Clone)]
struct State {
    done: Done,
    /// Layers that touch each buffer and are not finished.
    left: Vec<u32>,
    /// Unfinished layers that each layer waits for.
    waits: Vec<u32>,
    /// Layers that wait for none, in ascending order.
    ready: Vec<usize>,
    /// Bytes that are alive now.
    live: u64,
    order: Order,
}

impl Live {
    /// The buffers of a network.
    pub fn new(network: &Network) -> Self {
        let buffer = |id: u32| network.tensors.get(id as usize).map(|t| t.buffer as usize);
        let touched = network.layers.iter().map(|layer| {
            let all = layer.inputs.iter().chain([&layer.output]);
            let mut all: Vec<usize> = all.filter_map(|id| buffer(*id)).collect();
            all.sort_unstable();
            all.dedup();
            all
        });
        let touched: Vec<Vec<usize>> = touched.collect();
        let mut users = vec![0; network.buffers.len()];
        touched.iter().flatten().for_each(|&buffer| users[buffer] += 1);
        let ports = |ports: &[Port]| {
            let mut marked = vec![false; network.buffers.len()];
            ports.iter().filter_map(|port| buffer(port.tensor)).for_each(|b| marked[b] = true);
            marked
        };
        Self {
            is_input: ports(&network.inputs),
            is_output: ports(&network.outputs),
            bytes: network.buffers.iter().map(|buffer| buffer.bytes).collect(),
            touched,
            users,
            dependencies: Dependencies::of(network),
        }
    }

    /// The bytes that no order is below: all that the fullest layer touches, and all inputs and outputs, which are
    /// there together in the host's turn.
    pub fn floor(&self) -> u64 {
        let sum = |buffers: &[usize]| buffers.iter().map(|&buffer| self.bytes[buffer]).sum();
        let ports = (0..self.bytes.len()).filter(|&b| self.is_input[b] || self.is_output[b]);
        let ports: Vec<usize> = ports.collect();
        self.touched.iter().map(|touched| sum(touched)).max().unwrap_or(0).max(sum(&ports))
    }

    fn start(&self) -> State {
        let inputs = (0..self.bytes.len()).filter(|&buffer| self.is_input[buffer]);
        let waits = self.dependencies.before.iter().map(|before| before.len() as u32);
        let waits: Vec<u32> = waits.collect();
        State {
            done: vec![0; self.touched.len().div_ceil(64)].into(),
            left: self.users.clone(),
            ready: (0..waits.len()).filter(|&layer| waits[layer] == 0).collect(),
            waits,
            live: inputs.map(|buffer| self.bytes[buffer]).sum(),
            order: Order { layers: Vec::new(), peak: self.floor() },
        }
    }

    /// Bytes that are alive while a layer runs, and after it.
    fn cost(&self, state: &State, layer: usize) -> (u64, u64) {
        let (mut during, mut freed) = (state.live, 0);
        for &buffer in &self.touched[layer] {
            if state.left[buffer] == self.users[buffer] && !self.is_input[buffer] {
                during += self.bytes[buffer];
            }
            if state.left[buffer] == 1 && !self.is_output[buffer] {
                freed += self.bytes[buffer];
            }
        }
        (during, during - freed)
    }

    fn run(&self, state: &mut State, layer: usize) {
        let (during, after) = self.cost(state, layer);
        state.live = after;
        state.done[layer / 64] |= 1 << (layer % 64);
        self.touched[layer].iter().for_each(|&buffer| state.left[buffer] -= 1);
        state.ready.retain(|&other| other != layer);
        for &next in &self.dependencies.after[layer] {
            state.waits[next] -= 1;
            if state.waits[next] == 0 {
                state.ready.insert(state.ready.partition_point(|&other| other < next), next);
            }
        }
        state.order.peak = state.order.peak.max(during);
        state.order.layers.push(layer);
    }

    /// An order with its peak.
    ///
    /// # Panics
    ///
    /// If it names a layer that the network does not have, or one of them twice.
    pub fn of(&self, layers: &[usize]) -> Order {
        let mut state = self.start();
        layers.iter().for_each(|&layer| self.run(&mut state, layer));
        state.order
    }

    /// An order in which each next layer needs least: of those that need no more than was needed before, the one that
    /// leaves least alive.
    pub fn greedy(&self) -> Order {
        let mut state = self.start();
        loop {
            let key = |layer: &usize| {
                let (during, after) = self.cost(&state, *layer);
                (during.max(state.order.peak), after, *layer)
            };
            let Some(next) = state.ready.iter().copied().min_by_key(key) else {
                return state.order;
            };
            self.run(&mut state, next);
        }
    }

    /// Runs the layers that do no harm now: they need no more than was needed before, and leave no more alive than
    /// is. Later they would add as much or more, and free as much or less.
    fn settle(&self, state: &mut State) {
        loop {
            let harmless = |layer: &usize| {
                let (during, after) = self.cost(state, *layer);
                during <= state.order.peak && after <= state.live
            };
            let Some(next) = state.ready.iter().copied().find(harmless) else { return };
            self.run(state, next);
        }
    }

    /// The order with the least peak, and whether that is proved. Sets with a lower peak are extended first, until
    /// one has all layers. If they would take too much memory, or no order is better, it is the
    /// [greedy](Self::greedy) one.
    pub fn least(&self, greedy: &Order) -> (Order, bool) {
        let most = MOST_BYTES / (24 * (self.touched.len() + self.bytes.len()) + 256);
        let mut start = self.start();
        self.settle(&mut start);
        let mut known: HashMap<Done, u64> = HashMap::from([(start.done.clone(), start.order.peak)]);
        let mut heap = BinaryHeap::from([(Reverse(start.order.peak), start.order.layers.len(), 0)]);
        let mut states = vec![Some(start)];
        while let Some((_, _, at)) = heap.pop() {
            let Some(state) = states[at].take() else { continue };
            if state.ready.is_empty() {
                return (state.order, true);
            }
            for &layer in &state.ready {
                if self.cost(&state, layer).0 >= greedy.peak {
                    continue;
                }
                let mut next = state.clone();
                self.run(&mut next, layer);
                self.settle(&mut next);
                let (peak, finished) = (next.order.peak, next.order.layers.len());
                let held = known.entry(next.done.clone()).or_insert(u64::MAX);
                if *held > peak {
                    *held = peak;
                    heap.push((Reverse(peak), finished, states.len()));
                    states.push(Some(next));
                }
            }
            if states.len() > most {
                return (greedy.clone(), false);
            }
        }
        (greedy.clone(), true)
    }
}
