//! Layers in other orders make the same bits, and orders that break a dependency are refused.

use crate::common::board::board;
use crate::common::net::Net;
use crate::common::{Subject, bits, run_inline, sweeps, zoo_model};
use eyelet::device::Inline;
use eyelet::pack::ReduceOp;
use eyelet_planner::graph::{Graph, Op};
use eyelet_planner::layout::place_weights;
use eyelet_planner::order::{Dependencies, OrderError, reordered};
use eyelet_planner::published::{self, JOINT};
use eyelet_planner::search::{Effort, PackRequest, PlanError, choose};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;

/// Branches of different lengths, joined by sums and by a concatenation, some of which could be written in place.
fn branches() -> Graph {
    let mut net = Net::default();
    let input = net.value(&[1, 8, 12, 12], None);
    net.0.inputs = vec![input];
    let left = net.same(Op::Sigmoid, &[input]);
    let left = net.same(Op::Tanh, &[left]);
    let right = net.same(Op::Exp, &[input]);
    let sum = net.same(Op::Add, &[left, right]);
    let far = net.same(Op::Cos, &[right]);
    let joined = net.node(Op::Concat { axis: 1 }, &[sum, far, input], &[1, 24, 12, 12]);
    let wide = net.same(Op::Abs, &[joined]);
    let other = net.same(Op::Softplus, &[joined]);
    let product = net.same(Op::Mul, &[wide, other]);
    net.0.outputs = vec![product, far];
    net.0
}

/// The bits that a subject makes with its layers in many orders.
fn all_orders_agree(mut subject: Subject, orders: usize) {
    let network = subject.network.clone();
    let dependencies = Dependencies::of(&network);
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let (inputs, budget) = (subject.inputs(3), 96 << 20);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.pack");
    let mut seen = BTreeSet::new();
    let mut first = None;
    for at in 0..orders {
        let order = match at {
            0 => dependencies.order_by(|_| 0),
            1 => dependencies.order_by(|ready| ready.len() - 1),
            _ => dependencies.order_by(|ready| random.random_range(0..ready.len())),
        };
        subject.network = reordered(&network, &order).unwrap();
        subject.weights_bytes = place_weights(&mut subject.network);
        let plan = subject.plan_with("joint", budget, 1, Effort::Fast).unwrap();
        subject.write(&path, &[plan]);
        let pack = std::fs::read(&path).unwrap();
        let made = bits(&run_inline(&pack, budget, &inputs, &Inline, 2));
        assert!(*first.get_or_insert_with(|| made.clone()) == made, "order {order:?}");
        seen.insert(order);
    }
    assert!(seen.len() > 5, "{} different orders", seen.len());
}

#[test]
fn branches_in_any_order_make_the_same_bits() {
    all_orders_agree(Subject::of_graph(branches(), board()), 40);
}

#[test]
fn a_network_in_any_order_makes_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let subject = Subject::new(&zoo_model("squeezenet1_1", folder.path()));
    all_orders_agree(subject, if sweeps() { 100 } else { 6 });
}

/// Branches whose first halves make large tensors that their second halves make small, all first halves first.
fn wide_branches(count: usize) -> Graph {
    let mut net = Net::default();
    let input = net.value(&[90, 70], None);
    net.0.inputs = vec![input];
    let turned: Vec<usize> = (0..count)
        .map(|_| net.node(Op::Transpose { perm: vec![1, 0] }, &[input], &[70, 90]))
        .collect();
    let reduce = || Op::Reduce { op: ReduceOp::Max, axes: vec![0, 1], keep: true };
    let functions = [Op::Exp, Op::Sigmoid, Op::Tanh, Op::Cos];
    let wide: Vec<usize> = (turned.iter().zip(functions.iter().cycle()))
        .map(|(&value, function)| net.same(function.clone(), &[value]))
        .collect();
    let small: Vec<usize> =
        wide.into_iter().map(|value| net.node(reduce(), &[value], &[1, 1])).collect();
    let sum = small[1..].iter().fold(small[0], |sum, &next| net.same(Op::Add, &[sum, next]));
    net.0.outputs = vec![sum];
    net.0
}

#[test]
fn a_budget_below_that_of_one_order_is_met_by_another() {
    let subject = Subject::of_graph(wide_branches(4), board());
    let (one, least) = (subject.smallest(1), subject.smallest_together(1));
    let tensor = 90 * 70 * 4;
    assert!(least + tensor <= one, "{least} of {one}");

    let refused = |strategy| {
        let profile = subject.board.profile.clone();
        let request = PackRequest::new(strategy, vec![least - 4096, one], profile, 1);
        choose(&subject.network, &request).unwrap_err()
    };
    let smallest = |error| match error {
        PlanError::Budget { smallest, .. } => smallest,
        other => panic!("{other:?}"),
    };
    assert_eq!(smallest(refused(&JOINT)), least);
    // What others have published keeps the order.
    assert!(smallest(refused(published::named("on-demand").unwrap())) >= one);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.pack");
    let inputs = subject.inputs(5);
    let outputs = |budgets: &[u64], budget: u64| {
        subject.pack_together(&path, budgets, 1);
        bits(&run_inline(&std::fs::read(&path).unwrap(), budget, &inputs, &Inline, 2))
    };
    let expected = outputs(&[one], one);
    assert_eq!(outputs(&[least], least), expected);
    assert_eq!(outputs(&[least, one], one), expected);
}

#[test]
fn wrong_orders_are_named() {
    let network = Subject::of_graph(branches(), board()).network;
    let dependencies = Dependencies::of(&network);
    let layers = network.layers.len();
    let same: Vec<usize> = (0..layers).collect();
    dependencies.check(&same).unwrap();
    assert_eq!(dependencies.order_by(|_| 0), same);
    let refused = |order: &[usize]| reordered(&network, order).map(|_| ()).unwrap_err();

    let (layer, needed) =
        (0..layers).find_map(|layer| Some((layer, *dependencies.before[layer].first()?))).unwrap();
    let mut early = same.clone();
    early.swap(layer, needed);
    assert_eq!(refused(&early), OrderError::TooEarly { layer, at: needed, needed });
    let mut twice = same.clone();
    twice[0] = layers - 1;
    let named = layers - 1;
    assert_eq!(refused(&twice), OrderError::Incomplete { layers, named, length: layers });
    let longer = [&same[..], &[0]].concat();
    let (named, length) = (layers, layers + 1);
    assert_eq!(refused(&longer), OrderError::Incomplete { layers, named, length });
    let foreign: Vec<usize> = (1..=layers).collect();
    let (named, length) = (layers - 1, layers);
    assert_eq!(refused(&foreign), OrderError::Incomplete { layers, named, length });
}
