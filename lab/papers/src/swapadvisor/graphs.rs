//! The graphs that are compared, and the times of their operators.
//!
//! The paper measured its operators and does not state their times. Here they are by a roofline of the same GPU.

use super::graph::{Graph, Kind, Operator, Tensor};
use eyelet::ops;
use eyelet_model::network::Network;
use std::collections::HashMap;

/// A V100 in single precision: 15.7 TFLOP/s, of which large products reach two thirds, and 900 GB/s.
const FLOPS: f64 = 15.7e12 * 2.0 / 3.0;
const BYTES: f64 = 900e9;
/// Seconds from one kernel to the next.
const LAUNCH: f64 = 5e-6;

fn roofline(flops: f64, bytes: f64) -> f64 {
    LAUNCH + (flops / FLOPS).max(bytes / BYTES)
}

/// The graph of figure 1, in units: each operator takes a second. Before them stands one that takes no time and makes
/// the input, so that it is in memory at the start.
pub fn figure_1() -> Graph {
    let megabytes = |bytes: u64, kind, kept| Tensor { bytes: bytes * 1_000_000, kind, kept };
    let activation = |bytes| megabytes(bytes, Kind::Activation, true);
    // A0 to A5, then W1 to W4.
    let mut tensors: Vec<Tensor> = [1, 1, 2, 1, 1, 2].map(activation).into();
    tensors.extend([megabytes(1, Kind::Parameter, false); 4]);
    let operator = |reads: &[usize], made: usize| Operator {
        seconds: if reads.is_empty() { 0.0 } else { 1.0 },
        reads: reads.to_vec(),
        writes: vec![made],
    };
    let operators = vec![
        operator(&[], 0),
        operator(&[0, 6], 1),
        operator(&[0, 7], 2),
        operator(&[2, 8], 3),
        operator(&[3, 9], 4),
        operator(&[1, 4], 5),
    ];
    Graph::new(tensors, operators)
}

/// A graph under construction.
#[derive(Default)]
struct Builder {
    tensors: Vec<Tensor>,
    operators: Vec<Operator>,
}

impl Builder {
    fn tensor(&mut self, floats: u64, kind: Kind) -> usize {
        self.tensors.push(Tensor { bytes: 4 * floats, kind, kept: false });
        self.tensors.len() - 1
    }

    fn operator(&mut self, flops: f64, reads: &[usize], writes: &[usize]) {
        let touched = reads.iter().chain(writes).map(|&tensor| self.tensors[tensor].bytes as f64);
        let seconds = roofline(flops, touched.sum());
        self.operators.push(Operator { seconds, reads: reads.to_vec(), writes: writes.to_vec() });
    }
}

/// The training of an LSTM in layers, unrolled over time: forward, backward, and an update of the parameters. Each
/// layer has as many inputs as units. The order is layer by layer at each time, as frameworks have it.
pub fn unrolled_rnn(layers: usize, times: usize, units: u64, batch: u64) -> Graph {
    let mut net = Builder::default();
    let state = batch * units;
    let weights: Vec<usize> =
        (0..layers).map(|_| net.tensor(8 * units * units, Kind::Parameter)).collect();
    let product = (2 * 8 * units * units * batch) as f64;
    let element = (40 * state) as f64;
    let inputs: Vec<usize> = (0..times).map(|_| net.tensor(state, Kind::Activation)).collect();
    let mut hidden: Vec<Option<[usize; 2]>> = vec![None; layers];
    // Of each cell what it read, its gates and its states, for the way back.
    let mut cells = HashMap::new();
    for (time, &input) in inputs.iter().enumerate() {
        let mut below = input;
        for layer in 0..layers {
            let gates = net.tensor(4 * state, Kind::Activation);
            let mut reads = vec![weights[layer], below];
            reads.extend(hidden[layer].iter().map(|[h, _]| *h));
            net.operator(product, &reads, &[gates]);
            let [h, c] = [net.tensor(state, Kind::Activation), net.tensor(state, Kind::Activation)];
            let mut reads = vec![gates];
            reads.extend(hidden[layer].iter().map(|[_, c]| *c));
            net.operator(element, &reads, &[h, c]);
            cells.insert((layer, time), (below, hidden[layer], gates, c));
            hidden[layer] = Some([h, c]);
            below = h;
        }
    }
    // Gradients of weights gather over time; of states they come from above and from later.
    let mut of_weights: Vec<Option<usize>> = vec![None; layers];
    let mut from_later: Vec<Option<usize>> = vec![None; layers];
    for time in (0..times).rev() {
        let mut from_above: Option<usize> = None;
        for layer in (0..layers).rev() {
            let (below, before, gates, c) = cells[&(layer, time)];
            let of_gates = net.tensor(4 * state, Kind::Activation);
            let mut reads = vec![gates, c];
            reads.extend(before.map(|[_, c]| c).into_iter().chain(from_above));
            reads.extend(from_later[layer]);
            net.operator(element, &reads, &[of_gates]);
            // Of the input and of the state before, in one product.
            let of_states =
                [net.tensor(state, Kind::Activation), net.tensor(state, Kind::Activation)];
            net.operator(product, &[weights[layer], of_gates], &of_states);
            let gathered = *of_weights[layer]
                .get_or_insert_with(|| net.tensor(8 * units * units, Kind::Activation));
            let mut reads = vec![of_gates, below];
            reads.extend(before.map(|[h, _]| h));
            if time + 1 < times {
                reads.push(gathered);
            }
            net.operator(product, &reads, &[gathered]);
            (from_above, from_later[layer]) = (Some(of_states[0]), Some(of_states[1]));
        }
    }
    for layer in 0..layers {
        let Some(gathered) = of_weights[layer] else { continue };
        let update = (16 * units * units) as f64;
        net.operator(update, &[weights[layer], gathered], &[weights[layer]]);
    }
    Graph::new(net.tensors, net.operators)
}

/// The inference of a network with a batch of inputs: buffers and weights as the network has them, times by the
/// roofline.
pub fn inference(network: &Network, batch: u64) -> Graph {
    let mut tensors = Vec::new();
    for buffer in &network.buffers {
        tensors.push(Tensor { bytes: batch * buffer.bytes, kind: Kind::Activation, kept: false });
    }
    for port in &network.outputs {
        tensors[network.tensors[port.tensor as usize].buffer as usize].kept = true;
    }
    let mut operators = Vec::new();
    let mut written = vec![false; network.buffers.len()];
    for layer in &network.layers {
        let record = |id: u32| network.tensors.get(id as usize).copied();
        let inputs = layer.inputs.map(|id| record(id).unwrap_or_default());
        let output = record(layer.output).unwrap_or_default();
        let mut reads: Vec<usize> =
            layer.inputs.iter().filter_map(|&id| Some(record(id)?.buffer as usize)).collect();
        let weights = u64::from(layer.panels) * u64::from(layer.panel_bytes);
        if weights > 0 {
            tensors.push(Tensor { bytes: weights, kind: Kind::Parameter, kept: false });
            reads.push(tensors.len() - 1);
        }
        let made = output.buffer as usize;
        // Parts of a concatenation are made one after the other: what is there stays.
        if std::mem::replace(&mut written[made], true) && !reads.contains(&made) {
            reads.push(made);
        }
        let writes = vec![made];
        let flops = 2.0 * batch as f64 * ops::work(layer, &inputs, &output).macs as f64;
        let moved: u64 = reads.iter().chain(&writes).map(|&tensor| tensors[tensor].bytes).sum();
        operators.push(Operator { seconds: roofline(flops, moved as f64), reads, writes });
    }
    Graph::new(tensors, operators)
}
