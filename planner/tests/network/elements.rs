//! Floats and words in one network: each buffer holds one of the two, and packs that say otherwise are refused.

use crate::common::board::board;
use crate::common::forge::{Guarded, PLAIN, run, seal, shapes};
use crate::common::net::Net;
use crate::common::{Aligned, Subject};
use eyelet::device::Inline;
use eyelet::executor::{Instance, OpenError, Options};
use eyelet::pack::{Element, FoldOp, IntegerOp, PortType, ScatterOp, SkeletonHeader};
use eyelet::storage::Slice;
use eyelet_planner::check::{Violation, check};
use eyelet_planner::graph::{Graph, Op, Resampling, ValueId};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const ROWS: usize = 6;

impl Net {
    fn words(&mut self, op: Op, inputs: &[ValueId], shape: &[usize]) -> ValueId {
        let y = self.node(op, inputs, shape);
        self.0.values[y].kind = PortType::Int64;
        y
    }
}

/// Words of floats, floats of words, and both moved by operators that take either: by copies, by indices, by conditions.
fn mixed() -> Graph {
    let (mut net, shape) = (Net::default(), [ROWS, 4]);
    let x = net.value(&shape, None);
    let ids = net.value(&[ROWS], None);
    net.0.values[ids].kind = PortType::Int64;
    net.0.inputs = vec![x, ids];
    let doubled = net.same(Op::Add, &[x, x]);
    let backwards = Resampling::choice(0, (0..ROWS).rev().collect());
    let reversed = net.words(Op::Resample(backwards), &[ids], &[ROWS]);
    let below = net.words(Op::Words(IntegerOp::LessFloats), &[x, doubled], &shape);
    let cut = net.words(Op::Words(IntegerOp::Cut), &[doubled], &shape);
    let chosen = net.words(Op::Where, &[below, cut, below], &shape);
    let turned = net.words(Op::Transpose { perm: vec![1, 0] }, &[chosen], &[4, ROWS]);
    let sums = Op::Fold { op: FoldOp::Sum, axes: vec![0], keep: false, last: false };
    let sums = net.words(sums, &[turned], &[ROWS]);
    let taken = net.same(Op::Take { axis: 0 }, &[x, ids]);
    let floats = net.node(Op::Words(IntegerOp::Float), &[chosen], &shape);
    let places = Op::Order { axis: 0, largest: true, integers: false };
    let places = net.words(places, &[floats], &shape);
    let scattered = net.same(Op::Scatter { op: ScatterOp::Replace }, &[taken, ids, floats]);
    net.0.outputs = vec![scattered, sums, reversed, places];
    net.0
}

/// Every lie about what buffers hold: of one, of two, of many.
#[test]
fn packs_that_lie_about_their_elements_are_refused() {
    let subject = Subject::of_graph(mixed(), board());
    let budget = subject.smallest(3);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.pack");
    subject.pack(&path, &[budget], 3);
    let pack = std::fs::read(&path).unwrap();
    let mut arena = Guarded::new(budget as usize);
    run(&pack, &mut arena, PLAIN).unwrap();

    let buffers = subject.network.buffers.len();
    let both = [Element::Float, Element::Word];
    assert!(both.iter().all(|one| subject.network.buffers.iter().any(|b| b.element == *one)));
    let plan = subject.plan(budget, 3).unwrap();
    let first = shapes(&pack)[0].1.offset as usize + size_of::<SkeletonHeader>();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let pairs = (0..buffers).flat_map(|a| (0..=a).map(move |b| 1u64 << a | 1 << b));
    let many: Vec<u64> = (0..300).map(|_| rng.random_range(1..1u64 << buffers)).collect();
    for lies in pairs.chain(many) {
        let (mut forged, mut network) = (pack.clone(), subject.network.clone());
        for buffer in (0..buffers).filter(|buffer| lies >> buffer & 1 == 1) {
            // The highest bit of its record.
            forged[first + 4 * buffer + 3] ^= 0x80;
            let element = &mut network.buffers[buffer].element;
            *element = both[usize::from(*element == Element::Float)];
        }
        seal(&mut forged);
        match run(&forged, &mut arena, PLAIN) {
            Err(OpenError::Flaw(flaw)) => {
                let text = flaw.to_string();
                assert!(text.contains("of words (1) or floats (0)"), "{lies:b}: {text}");
                assert_eq!([flaw.found.min(flaw.limit), flaw.found.max(flaw.limit)], [0, 1]);
            }
            other => panic!("{lies:b}: {other:?}"),
        }
        let violations = check(&network, &plan, subject.weights_bytes).unwrap_err();
        let all = violations.iter().all(|one| matches!(one, Violation::Elements { .. }));
        assert!(all, "{lies:b}: {violations:?}");
    }
}

/// Words that are no numbers as floats, or no normal ones, keep their bits when they are turned around.
#[test]
fn words_keep_their_bits_where_they_are_moved() {
    let mut net = Net::default();
    let x = net.value(&[2, ROWS], None);
    net.0.values[x].kind = PortType::Int64;
    let backwards =
        |axis, extent| Op::Resample(Resampling::choice(axis, (0..extent).rev().collect()));
    let y = net.words(backwards(1, ROWS), &[x], &[2, ROWS]);
    let y = net.words(backwards(0, 2), &[y], &[2, ROWS]);
    (net.0.inputs, net.0.outputs) = (vec![x], vec![y]);
    let subject = Subject::of_graph(net.0, board());
    let budget = subject.smallest(1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.pack");
    subject.pack(&path, &[budget], 1);
    let pack = std::fs::read(&path).unwrap();
    let mut storage = Slice(&pack);
    let mut arena = Aligned::new(budget);
    let mut instance = Instance::open(&mut storage, arena.bytes(), Options::default()).unwrap();
    let mut model = instance.inline(&mut storage);
    let odd =
        [i32::MIN, i32::MAX, -1, 0x7f80_0001, 1, 0x007f_ffff, -0x007f_ffff, 0, 7, -7, 1 << 30, 2];
    model.input_words_mut(0).unwrap().copy_from_slice(&odd);
    model.infer(&Inline).unwrap();
    let found: Vec<i32> = model.output_words(0).unwrap().to_vec();
    assert_eq!(found, odd.into_iter().rev().collect::<Vec<_>>());
}
