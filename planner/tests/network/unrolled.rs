//! Recurrent networks that read their weights at each time compute the bits of those that read them once.

use crate::common::board::board;
use crate::common::net::Net;
use crate::common::{Subject, bits, run_inline};
use eyelet::device::Inline;
use eyelet::pack::{Activation, ActivationKind};
use eyelet_planner::graph::{Cell, Graph, Op, Recurrence};
use eyelet_planner::passes::unrolled;

const HIDDEN: usize = 96;
const TIMES: usize = 5;

fn function(kind: ActivationKind) -> Activation {
    Activation { kind: kind as u32, ..Activation::NONE }
}

/// Two layers of a cell, the second from the last time to the first.
fn recurrent(cell: Cell, batch: usize, [states, peepholes]: [bool; 2], clip: f32) -> Graph {
    let (mut net, gates) = (Net::default(), cell.gates() * HIDDEN);
    let x = net.value(&[TIMES, batch, gates], None);
    net.0.inputs.push(x);
    let mut given = x;
    for reverse in [false, true] {
        let weights = net.weights(&[gates, HIDDEN]);
        if let Some(data) = &mut net.0.values[weights].constant {
            *data = eyelet_planner::graph::Constant::Owned(std::sync::Arc::new(
                data.to_vec().iter().map(|weight| weight / 8.0).collect(),
            ));
        }
        let inside = matches!(cell, Cell::Gru { reset_after: true });
        let mut inputs = vec![Some(given), Some(weights), None, None, None];
        if inside {
            inputs[2] = Some(net.weights(&[gates]));
        }
        if peepholes {
            inputs[3] = Some(net.weights(&[3 * HIDDEN]));
        }
        let columns = cell.states() * HIDDEN;
        if states {
            let first = net.value(&[batch, columns], None);
            net.0.inputs.push(first);
            inputs[4] = Some(first);
        }
        let [sigmoid, tanh] = [ActivationKind::Sigmoid, ActivationKind::Tanh].map(function);
        let functions = match cell {
            Cell::Rnn => [tanh, Activation::NONE, Activation::NONE],
            Cell::Gru { .. } => [sigmoid, tanh, Activation::NONE],
            Cell::Lstm => [sigmoid, tanh, tanh],
        };
        let recurrence = Recurrence { cell, hidden: HIDDEN, reverse, clip, functions };
        let y = net.node(Op::Recurrent(recurrence), &[], &[TIMES, batch, columns]);
        net.0.nodes.last_mut().unwrap().inputs = inputs;
        let matrix = net.weights(&[columns, gates]);
        given = net.node(Op::MatMul, &[y, matrix], &[TIMES, batch, gates]);
        net.0.outputs.push(y);
    }
    net.0
}

/// Zeros have the signs of the sums that make them, also where a state of zeros is a term.
#[test]
fn times_apart_compute_the_same_zeros() {
    for (cell, peepholes) in [
        (Cell::Rnn, false),
        (Cell::Gru { reset_after: false }, false),
        (Cell::Gru { reset_after: true }, false),
        (Cell::Lstm, false),
        (Cell::Lstm, true),
    ] {
        let graph = recurrent(cell, 2, [false, peepholes], f32::INFINITY);
        let folder = tempfile::tempdir().unwrap();
        let run = |graph: Graph| {
            let subject = Subject::of_graph(graph, board());
            let budget = subject.smallest(1);
            let path = folder.path().join("net.pack");
            subject.pack(&path, &[budget], 1);
            let pack = std::fs::read(&path).unwrap();
            let mut inputs = subject.inputs(3);
            for (at, value) in inputs.iter_mut().flatten().enumerate() {
                // Gates that are all shut or all open, and some that are a zero with a sign.
                *value = if at % 5 == 0 { -0.0 } else { *value * 500.0 };
            }
            bits(&run_inline(&pack, budget, &inputs, &Inline, 2))
        };
        let (whole, apart) = (run(graph.clone()), run(unrolled(&graph, true).unwrap()));
        assert!(whole.iter().flatten().any(|bits| f32::from_bits(*bits) == 0.0), "{cell:?}");
        assert!(whole == apart, "{cell:?}: other bits");
    }
}

/// Plans of one pack share what stays in memory, of weights that each time uses as well.
#[test]
fn times_apart_share_their_residents() {
    let graph = recurrent(Cell::Lstm, 1, [false; 2], f32::INFINITY);
    let subject = Subject::of_graph(unrolled(&graph, true).unwrap(), board());
    let least = subject.smallest_together(1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.pack");
    for part in [8, 4, 2] {
        let budgets = [least, least + subject.weights_bytes / part, 64 << 20];
        subject.pack_together(&path, &budgets, 1);
        let pack = std::fs::read(&path).unwrap();
        let run = |budget| bits(&run_inline(&pack, budget, &subject.inputs(3), &Inline, 2));
        let [first, second, third] = budgets.map(run);
        assert!(first == second && second == third, "a share of {part}");
    }
}

#[test]
fn times_apart_compute_the_same_in_less_memory() {
    let (none, all) = (f32::INFINITY, [true, false]);
    for (cell, batch, given, clip) in [
        (Cell::Rnn, 2, all, none),
        (Cell::Gru { reset_after: true }, 1, [false; 2], none),
        (Cell::Gru { reset_after: true }, 2, all, 0.5),
        (Cell::Gru { reset_after: false }, 1, all, none),
        (Cell::Lstm, 1, [false, true], none),
        (Cell::Lstm, 2, [true; 2], 0.75),
    ] {
        let graph = recurrent(cell, batch, given, clip);
        let folder = tempfile::tempdir().unwrap();
        let run = |graph: Graph| {
            let subject = Subject::of_graph(graph, board());
            let budget = subject.smallest(1);
            let path = folder.path().join("net.pack");
            subject.pack(&path, &[budget], 1);
            let pack = std::fs::read(&path).unwrap();
            let outputs = run_inline(&pack, budget, &subject.inputs(3), &Inline, 2);
            (budget, subject.weights_bytes, bits(&outputs))
        };
        let apart = run(unrolled(&graph, true).unwrap());
        let whole = run(graph);
        assert!(whole.2 == apart.2, "{cell:?}: other bits");
        // Weights are stored once, but for what is rounded up to pages.
        assert!(apart.1 <= whole.1 + whole.1 / 8, "{cell:?}: {} of {}", apart.1, whole.1);
        if cell == Cell::Lstm {
            assert!(apart.0 < whole.0 * 3 / 4, "{cell:?}: {} of {}", apart.0, whole.0);
        }
    }
}
