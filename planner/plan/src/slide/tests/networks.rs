//! Lowered networks slide: whatever is drawn, the checker proves it, and rings have no line too many.

use super::*;
use crate::search::{self, PlanError, Request};
use eyelet::kernels::Isa;
use eyelet::pack::{Layer, OpKind};
use eyelet_check::{Holder, Violation};
use eyelet_model::algorithm::Algorithm;
use eyelet_model::graph::{Op, Resampling};
use eyelet_model::passes::lower;
use eyelet_model::testing::{Draw, Net, attention, grown, window};
use proptest::prelude::*;

/// The rings of a network whose longest run of layers slides by `lines` lines, in the order of buffers.
fn rings(net: &Net, lines: u32) -> Vec<u32> {
    let mut network = lower(&net.graph, Isa::Portable).unwrap();
    let layers = runs(&network).swap_remove(0);
    let (plan, bytes) = plan(&mut network, &[Group { layers, lines, reloads_weights: false }]);
    eyelet_check::check(&network, &plan, bytes).unwrap();
    plan.places.iter().map(|place| place.lines).filter(|lines| *lines > 0).collect()
}

#[test]
fn windows_keep_the_lines_they_see() {
    let (mut net, x) = Net::input(&[1, 3, 20, 20]);
    let a = net.conv(x, 4, window(3, 1, 1), 1);
    let b = net.conv(a, 5, window(5, 1, 2), 1);
    let c = net.conv(b, 6, window(3, 2, 1), 1);
    net.output(c);
    // The first is that of the input in the order of the other images.
    assert_eq!(rings(&net, 1), [3, 5, 3]);
    // Four lines at a time, and their surroundings.
    assert_eq!(rings(&net, 4), [7, 8, 5]);
}

#[test]
fn a_residual_waits_for_its_block() {
    let (mut net, x) = Net::input(&[1, 3, 20, 20]);
    let a = net.conv(x, 8, window(3, 1, 1), 1);
    let b = net.conv(a, 8, window(3, 1, 1), 1);
    let c = net.conv(b, 8, window(3, 1, 1), 1);
    let d = net.same(Op::Add, &[a, c]);
    let e = net.conv(d, 8, window(3, 1, 1), 1);
    net.output(e);
    // The sum is made in place of its first operand, and its neighbours are still being read.
    let rings = rings(&net, 1);
    assert!(rings.iter().all(|lines| (3..=5).contains(lines)), "{rings:?}");
}

/// Layers whose activations are most of what they take.
fn wide() -> Net {
    let (mut net, x) = Net::input(&[1, 3, 64, 64]);
    let mut y = net.conv(x, 64, window(3, 1, 1), 1);
    for _ in 0..3 {
        y = net.conv(y, 64, window(3, 1, 1), 1);
    }
    let y = net.conv(y, 8, window(3, 4, 0), 1);
    net.output(y);
    net
}

/// The smallest budget for which there is a plan; that of the request is below it.
fn smallest(request: &Request<'_>) -> u64 {
    match search::plan(&search::Joint::default(), request) {
        Err(PlanError::Budget { smallest, .. }) => smallest,
        other => panic!("{other:?}"),
    }
}

#[test]
fn groups_are_found_where_they_are_needed() {
    let net = wide();
    let mut network = lower(&net.graph, Isa::Portable).unwrap();
    let bytes = eyelet_model::layout::place_weights(&mut network);
    let profile = crate::board::Board::load("jetson-nano").unwrap().profile;
    let costs = crate::simulate::Costs::new(&network, &profile, 1);
    let mut search = Search::new(&network, &costs, 1);
    assert!(search.groups(search.whole()).is_some_and(|groups| groups.is_empty()));
    let (least, groups) = search.least();
    assert!(least * 2 < search.whole() && !groups.is_empty(), "{least} of {}", search.whole());
    // Every budget from the smallest on has a proved plan, and needs no more groups than the smaller.
    let request = |budget| Request {
        network: &network,
        weights_bytes: bytes,
        budget,
        threads: 1,
        profile: &profile,
        exact: true,
        holds_all: false,
    };
    let smallest = smallest(&request(4096));
    assert!(smallest < search.whole(), "{smallest} of {}", search.whole());
    for budget in [smallest, smallest * 5 / 4, smallest * 2, 16 << 20] {
        let plan = search::plan(&search::Joint::default(), &request(budget)).unwrap();
        eyelet_check::check(&network, &plan, bytes).unwrap();
    }
}

#[test]
fn no_group_costs_less_than_is_known_before_it_is_scheduled() {
    let net = wide();
    let mut network = lower(&net.graph, Isa::Portable).unwrap();
    let run = runs(&network).swap_remove(0);
    let profile = crate::board::Board::load("jetson-nano").unwrap().profile;
    // Lines one by one, and in tiles of steps that transform weights.
    for tile in [0, 4] {
        let layers = network.layers.iter().zip(&mut network.on_load);
        let conv = |kind| OpKind::from_code(kind) == Some(OpKind::Conv);
        let tiled = layers.filter(|(layer, _)| conv(layer.kind) && layer.panels > 1);
        tiled.take(3).for_each(|(_, own)| *own = tile);
        let costs = crate::simulate::Costs::new(&network, &profile, 1);
        let mut search = Search::new(&network, &costs, 1);
        for (start, end) in run.clone().flat_map(|end| (run.start..end).map(move |at| (at, end))) {
            for reloads_weights in [false, true] {
                for [least, extra] in search.least_and_all(&(start..end), reloads_weights) {
                    assert!(least <= extra, "{start}..{end}, tile {tile}: {least} and {extra}");
                }
            }
        }
    }
}

#[test]
fn a_layer_by_itself_writes_over_what_it_has_read() {
    let net = wide();
    let mut network = lower(&net.graph, Isa::Portable).unwrap();
    // The copy of the input, and the first convolution.
    let layer = runs(&network).swap_remove(0).start + 2;
    let record = &network.layers[layer];
    let ids = [record.inputs[0], record.output];
    let [input, output] = ids.map(|id| network.tensors[id as usize].buffer as usize);
    for (lines, reloads_weights) in [(1, false), (4, false), (1, true), (4, true)] {
        let (mut plan, bytes) =
            plan(&mut network, &[Group { layers: layer..layer + 1, lines, reloads_weights }]);
        // Lines of 64 pixels with 64 channels: those of a step, and one that the next step sees.
        let line = 64 * 64 * 4;
        let apart = u64::from(lines + 1) * line;
        let rings = vec![0; network.buffers.len()];
        let lives = line_lives(&network, &plan.steps, &rings, |_, _| false);
        let [read, made] = [input, output].map(|buffer| lives[buffer].as_ref().unwrap());
        assert_eq!(
            made.forbidden(read).unwrap().1,
            apart as i64,
            "{lines} lines, reloads_weights: {reloads_weights}"
        );
        plan.places[output].address = plan.places[input].address.min(plan.places[output].address);
        plan.places[input].address = plan.places[output].address + apart;
        eyelet_check::check(&network, &plan, bytes).unwrap();
        plan.places[input].address -= line;
        let violations = eyelet_check::check(&network, &plan, bytes).unwrap_err();
        assert!(violations.iter().all(|found| matches!(found, Violation::Overlap { .. })));
    }
}

/// The last layer leaves out every fourth line, and the last of all: those are made in a row with others, slice by slice.
#[test]
fn rings_hold_what_is_made_in_a_row() {
    let net = wide();
    let mut network = lower(&net.graph, Isa::Portable).unwrap();
    let layers = runs(&network).swap_remove(0);
    for lines in [1, 2, 4, 8] {
        let group = Group { layers: layers.clone(), lines, reloads_weights: true };
        let (plan, bytes) = plan(&mut network, &[group]);
        eyelet_check::check(&network, &plan, bytes).unwrap();
    }
}

/// A large image that some layers use up while they make a smaller one.
fn tapering() -> Net {
    let (mut net, x) = Net::input(&[1, 8, 64, 64]);
    let a = net.conv(x, 64, window(5, 1, 2), 1);
    let b = net.conv(a, 8, window(1, 1, 0), 1);
    let c = net.conv(b, 64, window(3, 2, 1), 1);
    let d = net.conv(c, 64, window(3, 1, 1), 1);
    let e = net.conv(d, 4, window(1, 1, 0), 1);
    net.output(e);
    net
}

#[test]
fn outputs_lie_over_dead_lines() {
    let net = tapering();
    let mut network = lower(&net.graph, Isa::Portable).unwrap();
    let bytes = eyelet_model::layout::place_weights(&mut network);
    let buffer =
        |layer: usize| network.tensors[network.layers[layer].output as usize].buffer as usize;
    let find = |kind| network.layers.iter().position(|layer| layer.kind == kind as u32).unwrap();
    let first = find(OpKind::Conv);
    // From the wide output of the first convolution to that of the fourth.
    let (input, output) = (buffer(first), buffer(first + 3));
    let profile = crate::board::Board::load("jetson-nano").unwrap().profile;
    let request = Request {
        network: &network,
        weights_bytes: bytes,
        budget: 64 << 20,
        threads: 1,
        profile: &profile,
        exact: true,
        holds_all: false,
    };
    let group = Group { layers: first + 1..first + 4, lines: 2, reloads_weights: false };
    let mut plan = search::with_groups(&request, vec![group]);
    let size = |buffer: usize| network.buffers[buffer].bytes;
    let [from, to] = [input, output].map(|buffer| plan.places[buffer].address);
    let both = from.max(to)..(from + size(input)).min(to + size(output));
    assert!(!both.is_empty(), "{from} and {to} are apart");
    eyelet_check::check(&network, &plan, bytes).unwrap();
    // The first lines are written over the last ones, which are still to be read.
    plan.places[output].address = from + size(input) - 4096;
    plan.arena_bytes += size(output);
    let found = eyelet_check::check(&network, &plan, bytes).unwrap_err();
    let holders = [input, output].map(Holder::Buffer);
    let overlap = |violation: &Violation| match violation {
        Violation::Overlap { a, b } => holders.contains(&a.holder) && holders.contains(&b.holder),
        _ => false,
    };
    assert!(found.iter().any(overlap), "{found:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_networks_slide(
        shape in (1usize..7, 4usize..24, 1usize..9),
        seed: u64,
        draws in proptest::collection::vec(any::<Draw>(), 1..24),
        outputs in 1usize..4,
        groups in proptest::collection::vec((any::<u8>(), 1u8..8), 4),
    ) {
        let net = grown(&[1, shape.0, shape.1, shape.2], seed, draws, outputs);
        let mut network = lower(&net.graph, Isa::Portable).unwrap();
        prove(&mut network, &groups);
    }

    #[test]
    fn layers_begin_and_end_in_order_and_share_only_what_they_may(
        shape in (1usize..7, 4usize..24, 1usize..9),
        seed: u64,
        draws in proptest::collection::vec(any::<Draw>(), 1..24),
        outputs in 1usize..4,
        groups in proptest::collection::vec((0u8..12, 1u8..8), 1..12),
    ) {
        let net = grown(&[1, shape.0, shape.1, shape.2], seed, draws, outputs);
        share(&lower(&net.graph, Isa::Portable).unwrap(), &groups);
    }

    #[test]
    fn tiles_slide(
        shape in (4usize..24, 1usize..9),
        tile in (1usize..3).prop_map(|half| 2 * half),
        draws in proptest::collection::vec((0u8..6, any::<u8>()), 1..8),
        groups in proptest::collection::vec((any::<u8>(), 1u8..8), 4),
    ) {
        let (mut net, x) = Net::input(&[1, 16, shape.0, shape.1]);
        let mut live = vec![x];
        for (kind, which) in draws {
            let x = live[which as usize % live.len()];
            let last = live[live.len() - 1];
            live.push(match kind {
                0 | 1 => net.conv3(last, 16),
                2 => net.conv3(x, 16),
                3 => net.conv1(x, 16),
                4 => net.same(Op::Add, &[x, last]),
                _ => net.relu(last),
            });
        }
        net.output(live[live.len() - 1]);
        let mut network = lower(&net.graph, Isa::Portable).unwrap();
        let algorithm = Algorithm::Winograd { tile };
        for layer in 0..network.layers.len() {
            if algorithm.serves(&network, layer) {
                algorithm.set(&mut network, layer);
            }
        }
        prove(&mut network, &groups);
    }
}

/// A GPU's steps make all rows of their layer from weights as they are stored, whatever the budget.
#[test]
fn nothing_slides_on_a_gpu() {
    let net = wide();
    let mut network = lower(&net.graph, Isa::Cuda).unwrap();
    let bytes = eyelet_model::layout::place_weights(&mut network);
    assert!(crate::slide::slides(&network).iter().all(|slides| !slides));
    let whole: Vec<u64> = network.buffers.iter().map(|buffer| buffer.bytes).collect();
    assert_eq!(crate::slide::least_bytes(&network, u64::MAX), whole);
    let profile = crate::board::Board::load("jetson-nano").unwrap().gpu.unwrap().profile;
    let request = |budget| Request {
        network: &network,
        weights_bytes: bytes,
        budget,
        threads: 1,
        profile: &profile,
        exact: false,
        holds_all: false,
    };
    let smallest = smallest(&request(4096));
    for budget in [smallest, smallest + smallest / 4, 64 << 20] {
        let plan = search::plan(&search::Joint::default(), &request(budget)).unwrap();
        assert_eq!(eyelet_check::check(&network, &plan, bytes).err(), None);
        assert!(plan.places.iter().all(|place| place.lines == 0));
        for step in &plan.steps {
            let output = network.layers[step.layer as usize].output;
            let rows = network.tensors[output as usize].rows();
            assert_eq!((step.algorithm(), step.row, u64::from(step.rows)), (0, 0, rows));
        }
    }
}

/// Networks as they are, for all algorithms of steps.
#[test]
fn steps_are_lent_no_more_than_is_reckoned_with() {
    for name in ["squeezenet1_1", "mobilenet_v2"] {
        let mut bytes = Vec::new();
        eyelet_model::zoo::encode(&eyelet_model::zoo::model(name).unwrap(), 1, &mut bytes).unwrap();
        let graph = eyelet_model::import::import_bytes(bytes.into(), None).unwrap();
        for algorithm in Algorithm::all() {
            let mut network = lower(&graph, Isa::Portable).unwrap();
            for layer in 0..network.layers.len() {
                if algorithm.serves(&network, layer) {
                    algorithm.set(&mut network, layer);
                }
            }
            assert!(lent_is_reckoned_with(&network) > 25, "{name}");
            // As they are stored, and transformed by steps.
            let mut network = lower(&graph, Isa::Portable).unwrap();
            for layer in 0..network.layers.len() {
                if let Algorithm::Winograd { tile } = algorithm
                    && algorithm.serves(&network, layer)
                {
                    network.on_load[layer] = tile as u32;
                }
            }
            assert!(lent_is_reckoned_with(&network) > 25, "{name}");
        }
    }
}

/// Scores, their normalisation, and what is made of them.
#[test]
fn attention_slides() {
    let (mut net, x) = Net::input(&[1, 30, 24]);
    let y = attention(&mut net, x, 3, false);
    net.output(y);
    let network = lower(&net.graph, Isa::Portable).unwrap();
    let softmax = |layer: &Layer| layer.kind == OpKind::Softmax as u32;
    let at = network.layers.iter().position(softmax).unwrap();
    assert_eq!(crate::slide::slides(&network)[at - 1..at + 2], [true; 3]);
}

/// Lines enlarged, reduced, reversed and padded between convolutions.
fn resampled(seed: u64, kind: u8, made: usize) -> Net {
    let (mut net, x) = Net::input(&[1, 3, 16, 9]);
    net.seed = seed;
    let x = net.conv(x, 4, window(3, 1, 1), 1);
    let shape = net.shape(x);
    let axis = 2 + usize::from(kind / 8 % 2);
    let extent = shape[axis];
    let places = |at: usize| match kind % 4 {
        0 => at * extent / made..(at * extent / made + 2).min(extent),
        1 => at.min(extent - 1)..at.min(extent - 1) + 1,
        2 => extent - 1 - at % extent..extent - at % extent,
        _ => (at * extent).saturating_sub(made) / made..(at * extent / made + 3).min(extent),
    };
    let sums: Vec<Vec<(usize, f64)>> =
        (0..made).map(|at| places(at).map(|place| (place, 0.5)).collect()).collect();
    let mut shape = shape;
    shape[axis] = made;
    let op = Op::Resample(Resampling::new(axis, extent, &sums, 0.0));
    let y = net.node(op, &[x], &shape);
    let y = net.conv(y, 5, window(3, 1, 1), 1);
    let y = net.conv(y, 2, window(1, 1, 0), 1);
    net.output(y);
    net
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn resampled_lines_slide(
        seed: u64,
        kind in 0u8..16,
        made in 1usize..40,
        draws in proptest::collection::vec((any::<u8>(), 0u8..5), 1..4),
    ) {
        let net = resampled(seed, kind, made);
        let mut network = lower(&net.graph, Isa::Portable).unwrap();
        prove(&mut network, &draws);
    }
}

#[test]
fn one_line_of_many_slides() {
    let net = resampled(0, 2, 1);
    prove(&mut lower(&net.graph, Isa::Portable).unwrap(), &[(3, 0)]);
}

#[test]
fn doubled_lines_need_rings_of_a_few() {
    let net = resampled(1, 0, 32);
    let rings = rings(&net, 1);
    assert!(rings.iter().all(|lines| *lines <= 4) && rings.len() >= 3, "{rings:?}");
}
