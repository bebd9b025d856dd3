//! Tables of embeddings that are also the matrix of a product: stored once, and read by both.

use super::end_to_end::{ROUNDED, TOLERANCE, subject_same_everywhere};
use crate::common::Subject;
use crate::common::board::board;
use crate::common::net::Net;
use crate::common::transformer::tied;
use eyelet::pack::{Encoding, OpKind, PortType};
use eyelet_planner::bound::lower_bound_ns;
use eyelet_planner::graph::{Constant, Graph, Op};
use eyelet_planner::network::Network;
use eyelet_planner::published;
use eyelet_planner::simulate::simulate;

const MIB: u64 = 1 << 20;

/// The layers that look up, and those that multiply by the same table.
fn sharing(network: &Network) -> (usize, usize) {
    let lookup = |layer: &&eyelet::pack::Layer| layer.kind == OpKind::Lookup as u32;
    let looked = network.layers.iter().find(lookup).expect("a table is looked up in");
    let place = |layer: &&eyelet::pack::Layer| layer.weights == looked.weights;
    let both = network.layers.iter().filter(place).filter(|layer| layer.panels > 0);
    (network.layers.iter().filter(lookup).count(), both.count())
}

#[test]
fn a_tied_transformer_is_the_same_everywhere() {
    let subject = Subject::of_graph(tied(), board());
    assert_eq!(sharing(&subject.network), (1, 2));
    subject_same_everywhere(subject, &[MIB / 8, MIB], true, TOLERANCE);
}

#[test]
fn a_tied_transformer_of_fewer_bits_is_the_same_everywhere() {
    for (encoding, tolerance) in ROUNDED {
        let mut subject = Subject::of_graph(tied(), board());
        subject.encode(encoding);
        assert_eq!(sharing(&subject.network), (1, 2), "{encoding:?}");
        subject_same_everywhere(subject, &[MIB / 8], true, tolerance);
    }
}

/// What is read once may serve both layers, where it stays between them.
#[test]
fn no_plan_of_a_tied_transformer_is_below_the_bound() {
    let subject = Subject::of_graph(tied(), board());
    let (network, profile) = (&subject.network, &subject.board.profile);
    let smallest = subject.smallest(1);
    for budget in [smallest, smallest + 32768, smallest + 98304, 2 * subject.weights_bytes, MIB] {
        for strategy in published::names() {
            let Ok(plan) = subject.plan_by(strategy, budget, 1) else { continue };
            let bound = lower_bound_ns(network, budget, profile, 1);
            let predicted = simulate(network, &plan, profile, 1).steady_ns;
            assert!(bound <= predicted, "{strategy} in {budget}: {predicted}, below {bound}");
        }
    }
}

/// What GPT-2 does first and last, with its sizes.
fn of_gpt2() -> Graph {
    let (tokens, words, width) = (8, 50257, 768);
    let mut net = Net::default();
    let ids = net.value(&[1, tokens], None);
    net.0.values[ids].kind = PortType::Int64;
    net.0.inputs.push(ids);
    // What the numbers are is nothing to plans.
    let data = Constant::Raw(vec![0; 4 * words * width].into(), Encoding::F32);
    let table = |net: &mut Net, shape: &[usize]| {
        let table = net.value(shape, Some(Vec::new()));
        net.0.values[table].constant = Some(data.clone());
        table
    };
    let rows = table(&mut net, &[words, width]);
    let x = net.node(Op::Gather, &[rows, ids], &[1, tokens, width]);
    let (scale, shift) = (net.weights(&[width]), net.weights(&[width]));
    let x = net.same(Op::LayerNorm { axis: 2, epsilon: 1e-5 }, &[x, scale, shift]);
    let matrix = table(&mut net, &[width, words]);
    let scores = net.node(Op::MatMul, &[x, matrix], &[1, tokens, words]);
    net.0.outputs.push(scores);
    net.0
}

/// The pack has the table once, and steps can take little of it.
#[test]
fn the_table_of_gpt2_is_planned_once() {
    let subject = Subject::of_graph(of_gpt2(), board());
    assert_eq!(sharing(&subject.network), (1, 2));
    let table = 4 * 50257 * 768;
    assert!((table..table + table / 100).contains(&subject.weights_bytes));
    let smallest = subject.smallest(1);
    let scores = 4 * 8 * 50257;
    assert!(smallest < scores + MIB, "{smallest} bytes, of which {scores} are outputs");
    for budget in [smallest, 16 * MIB] {
        let plan = subject.plan(budget, 1).unwrap();
        let read = plan.bytes_per_inference();
        assert!(read >= 2 * (table - budget), "{read} bytes are read in {budget}");
    }
}
