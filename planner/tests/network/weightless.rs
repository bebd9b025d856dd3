//! Networks that have no weights: there is nothing to load, and their buffers alone decide whether a budget will do.

use crate::common::board::board;
use crate::common::net::Net;
use crate::common::{Subject, bits, run_inline};
use eyelet::device::Inline;
use eyelet_planner::graph::{Graph, Op};
use eyelet_planner::published;
use eyelet_planner::search::{Effort, PlanError};

const PAGE: u64 = 4096;

/// Each node in turn reads what the one before it made.
fn chain(shape: &[usize], ops: Vec<Op>) -> Graph {
    let mut net = Net::default();
    let mut last = net.value(shape, None);
    net.0.inputs = vec![last];
    for op in ops {
        last = match op {
            Op::Transpose { .. } => {
                let turned: Vec<usize> = net.0.values[last].shape.iter().rev().copied().collect();
                net.node(op, &[last], &turned)
            }
            op => net.same(op, &[last, last]),
        };
    }
    net.0.outputs = vec![last];
    net.0
}

#[test]
fn every_strategy_plans_networks_without_weights() {
    let turn = || Op::Transpose { perm: vec![1, 0] };
    for (shape, ops) in [
        ([3, 5], vec![turn()]),
        ([90, 70], vec![turn()]),
        ([90, 70], vec![Op::Add, turn(), Op::Mul]),
    ] {
        let subject = Subject::of_graph(chain(&shape, ops), board());
        assert_eq!(subject.weights_bytes, 0);
        let inputs = subject.inputs(1);
        let mut first = None;
        for strategy in published::names() {
            let with = |budget| subject.plan_with(strategy, budget, 2, Effort::Fast);
            let named = |budget| match with(budget) {
                Err(PlanError::Budget { smallest, .. }) => smallest,
                other => panic!("{strategy} in {budget}: {other:?}"),
            };
            let smallest = named(0);
            assert_eq!(named(smallest - PAGE), smallest, "{strategy}");
            for budget in [smallest, smallest + PAGE, 64 << 20] {
                let plan = with(budget).unwrap();
                assert!(plan.loads.is_empty() && plan.arena_bytes <= budget, "{strategy}");
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("net.pack");
                subject.write(&path, &[plan]);
                let pack = std::fs::read(&path).unwrap();
                let made = bits(&run_inline(&pack, budget, &inputs, &Inline, 1));
                assert_eq!(*first.get_or_insert_with(|| made.clone()), made, "{strategy}");
            }
        }
    }
}
