//! Recurrent networks of each cell, with and without what is optional.

use super::*;
use crate::graph::{Cell, Recurrence};
use eyelet::pack::{Activation, ActivationKind};

#[test]
fn cells_with_and_without_what_is_optional() {
    let function = |kind: ActivationKind| Activation { kind: kind as u32, alpha: 0.2, beta: 0.5 };
    let functions =
        [ActivationKind::Sigmoid, ActivationKind::Tanh, ActivationKind::Tanh].map(function);
    for (cell, hidden, reverse, biased, started) in [
        (Cell::Rnn, 5, false, false, false),
        (Cell::Gru { reset_after: false }, 9, true, false, true),
        (Cell::Gru { reset_after: true }, 3, false, true, false),
        (Cell::Lstm, 33, false, false, true),
        (Cell::Lstm, 4, true, true, false),
    ] {
        let (gates, states) = (cell.gates() * hidden, cell.states() * hidden);
        let (mut net, given) = Net::input(&[6, 2, gates]);
        let weights = net.constant(&[gates, hidden]);
        let biases = biased.then(|| net.constant(&[gates]));
        let peepholes = (biased && cell == Cell::Lstm).then(|| net.constant(&[3 * hidden]));
        let first = started.then(|| net.add_input(&[2, states]));
        let recurrence = Recurrence { cell, hidden, reverse, clip: f32::INFINITY, functions };
        let y = net.node(Op::Recurrent(recurrence), &[given], &[6, 2, states]);
        let node = net.graph.nodes.last_mut().unwrap();
        node.inputs = vec![Some(given), Some(weights), biases, peepholes, first];
        let y = net.relu(y);
        net.check(y);
    }
}
