//! Each way in which a plan can be wrong is found and named.

use super::*;
use eyelet::pack::{CopyParams, FAST, MatMulParams, NONE, OpKind, PAGE, Tensor, params_words};
use eyelet_model::testing::example::layer;

/// A plan without reuse that has enough of everything.
fn example() -> (Network, Plan, u64) {
    for seed in 0.. {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (network, plan, bytes) = disjoint(&mut rng);
        let scratch = plan.steps.iter().filter(|step| step.scratch_bytes > 0).count();
        let in_place = network.layers.iter().any(|layer| layer.inputs[0] == layer.output);
        if plan.loads.len() >= 4 && plan.resident.len() >= 2 && scratch >= 4 && in_place {
            return (network, plan, bytes);
        }
    }
    unreachable!()
}

/// Breaks a good plan and expects a violation of a kind.
#[track_caller]
fn expect(
    break_it: impl FnOnce(&mut Network, &mut Plan),
    kind: impl Fn(&Violation) -> bool,
) -> Vec<Violation> {
    let (mut network, mut plan, bytes) = example();
    assert!(prove(&network, &plan, bytes).is_ok());
    break_it(&mut network, &mut plan);
    refused(prove(&network, &plan, bytes), kind)
}

/// The first step that takes its weights from a load, and the load.
fn streamed(plan: &Plan) -> (usize, usize) {
    let load = plan.loads.len() / 2;
    let step = plan.steps.iter().position(|step| image_of(plan, load).contains(&step.weights));
    (step.unwrap(), load)
}

#[test]
fn wrong_counts_and_indices() {
    expect(|_, plan| _ = plan.places.pop(), kind!(Violation::Count { .. }));
    expect(|_, plan| plan.steps.clear(), kind!(Violation::Empty { .. }));
    expect(|_, plan| plan.threads = 0, kind!(Violation::Empty { .. }));
    expect(|_, plan| plan.steps[1].layer = 999, kind!(Violation::Index { index: 999, .. }));
    expect(|net, _| net.layers[0].inputs[0] = 999, kind!(Violation::Index { index: 999, .. }));
    expect(|net, _| net.tensors[0].buffer = 999, kind!(Violation::Index { index: 999, .. }));
    expect(|net, _| net.outputs[0].tensor = 999, kind!(Violation::Index { index: 999, .. }));
    expect(|net, _| net.tensors[0].offset += 100_000, kind!(Violation::Tensor { tensor: 0, .. }));
    expect(|net, _| net.tensors[0].dims = [u32::MAX; 4], kind!(Violation::Tensor { .. }));
    expect(|net, _| net.tensors[0].pitch = 1, kind!(Violation::Pitch { tensor: 0, .. }));
    expect(|net, _| net.layers[0].weights = u64::MAX - 64, kind!(Violation::OutOfBounds { .. }));
}

#[test]
fn out_of_bounds() {
    expect(|_, plan| plan.budget = plan.arena_bytes - 1, kind!(Violation::Budget { .. }));
    let outside = kind!(Violation::OutOfBounds { .. });
    expect(|_, plan| plan.arena_bytes -= PAGE, outside);
    expect(|_, plan| plan.places[0].address = plan.arena_bytes, outside);
    expect(|_, plan| plan.places[0].address = u64::MAX - 63, outside);
    expect(|_, plan| plan.tables = plan.places[0].address + 64, outside);
    expect(|_, plan| plan.tables = plan.arena_bytes + 1, outside);
    expect(|_, plan| plan.loads[0].address = plan.arena_bytes, outside);
    expect(|_, plan| plan.loads[0].offset = 1 << 40, outside);
    expect(|_, plan| plan.resident[0].address = u64::MAX / PAGE * PAGE, outside);
    expect(|_, plan| plan.resident[0].offset = u64::MAX / PAGE * PAGE, outside);
    let (step, _) = streamed(&example().1);
    expect(|_, plan| plan.steps[step].weights = plan.arena_bytes, outside);
    let last = example().1.steps.iter().rposition(|step| step.scratch_bytes > 0).unwrap();
    expect(|_, plan| plan.steps[last].scratch = plan.arena_bytes, outside);
    expect(|_, plan| plan.loads[0].bytes = 0, kind!(Violation::Empty { .. }));
    // There is no fast memory, and loads never go there.
    expect(|_, plan| plan.places[0].address = FAST, outside);
    expect(|_, plan| plan.steps[last].scratch = FAST, outside);
    expect(|_, plan| (plan.loads[0].address, plan.fast_bytes) = (FAST, 1 << 30), outside);
}

#[test]
fn misaligned() {
    let misaligned = kind!(Violation::Misaligned { .. });
    expect(|_, plan| plan.loads[0].address += 64, misaligned);
    expect(|_, plan| plan.loads[0].offset += 64, misaligned);
    expect(|_, plan| plan.loads[0].bytes -= 64, misaligned);
    expect(|_, plan| plan.resident[0].address += 64, misaligned);
    expect(|_, plan| plan.places[0].address += 4, misaligned);
    expect(|net, _| net.buffers[0].bytes += 4, misaligned);
    expect(|_, plan| plan.steps[0].scratch += 4, misaligned);
    expect(|_, plan| plan.arena_bytes += 64, misaligned);
    let (step, _) = streamed(&example().1);
    expect(|_, plan| plan.steps[step].weights += 4, misaligned);
}

#[test]
fn slices_missing_or_made_twice() {
    expect(|_, plan| _ = plan.steps.remove(2), kind!(Violation::SliceMissing { .. }));
    let twice = |_: &mut Network, plan: &mut Plan| plan.steps.insert(2, plan.steps[1]);
    expect(twice, kind!(Violation::SliceTwice { first: 2, second: 3, .. }));
    expect(|_, plan| plan.steps[0].rows += 1, kind!(Violation::SliceOutside { step: 1, .. }));
    expect(|_, plan| plan.steps[0].rows = 0, kind!(Violation::SliceOutside { step: 1, .. }));
    let (step, _) = streamed(&example().1);
    let outside = kind!(Violation::SliceOutside { .. });
    expect(|_, plan| plan.steps[step].first += 1000, outside);
    expect(|_, plan| plan.steps[step].count = 0, outside);
    let last = |_: &mut Network, plan: &mut Plan| plan.steps.rotate_left(1);
    expect(last, kind!(Violation::OutOfOrder { .. } | Violation::Alternating { .. }));
}

#[test]
fn scratch_too_small() {
    expect(
        |_, plan| {
            let step = plan.steps.iter_mut().find(|step| step.scratch_bytes > 0).unwrap();
            step.scratch_bytes -= 64;
        },
        kind!(Violation::Scratch { found, needed, .. } if found + 64 == *needed),
    );
    expect(|_, plan| plan.threads += 1, kind!(Violation::Scratch { .. }));
}

#[test]
fn thresholds_out_of_range_or_deadlocked() {
    let range = kind!(Violation::ReleaseRange { .. });
    expect(|_, plan| plan.loads[1].release = -plan.period() as i32, range);
    expect(|_, plan| plan.loads[1].release = plan.period() as i32 + 1, range);
    expect(|_, plan| plan.steps[0].ready = u32::MAX, kind!(Violation::ReadyRange { step: 1, .. }));
    let (step, load) = streamed(&example().1);
    let late = kind!(Violation::Deadlock { load: l, .. } if *l == load);
    expect(|_, plan| plan.loads[load].release = step as i32 + 2, late);
    // A later step may release it just in time.
    let (network, mut plan, bytes) = example();
    plan.loads[load].release = step as i32 + 1;
    for earlier in &mut plan.loads[..load] {
        earlier.release = earlier.release.min(0);
    }
    let first = plan.steps.iter().position(|step| step.ready as usize > load).unwrap();
    assert_eq!(prove(&network, &plan, bytes).is_ok(), first == step);
}

#[test]
fn weights_not_there() {
    let (step, load) = streamed(&example().1);
    let missing = |_: &mut Network, plan: &mut Plan| {
        plan.loads.remove(load);
        for step in &mut plan.steps {
            step.ready -= u32::from(step.ready as usize > load);
        }
    };
    expect(missing, kind!(Violation::NotLoaded { .. }));
    expect(|_, plan| _ = plan.resident.pop(), kind!(Violation::NotLoaded { .. }));
    let early = kind!(Violation::ReadyTooSmall { load: l, .. } if *l == load);
    expect(|_, plan| plan.steps[step].ready = load as u32, early);
    let address = kind!(Violation::WeightsAddress { step: s, .. } if *s == step + 1);
    expect(|_, plan| plan.steps[step].weights += 64, address);
    expect(
        |_, plan| plan.loads[load].bytes -= PAGE as u32,
        |violation| matches!(violation, Violation::NotLoaded { .. } | Violation::Empty { .. }),
    );
}

#[test]
fn weights_overwritten() {
    // In the next inference, while they are still read.
    let (_, load) = streamed(&example().1);
    let own = kind!(Violation::WeightsOverwritten { load: l, by, .. } if *l == load && by == l);
    expect(|_, plan| plan.loads[load].release -= 1, own);
    // By another load.
    let other = kind!(Violation::WeightsOverwritten { load: 0, by: 1, .. });
    expect(
        |_, plan| {
            let (to, was) = (plan.loads[0].address, image_of(plan, 1));
            for step in plan.steps.iter_mut().filter(|step| was.contains(&step.weights)) {
                step.weights = step.weights - was.start + to;
            }
            plan.loads[1].address = to;
        },
        other,
    );
}

#[test]
fn residents_overwritten() {
    let overwritten = kind!(Violation::ResidentOverwritten { .. });
    let at = |plan: &Plan| plan.resident[1].address;
    expect(|_, plan| plan.places[0].address = at(plan), overwritten);
    expect(|_, plan| plan.loads[0].address = at(plan), overwritten);
    expect(|_, plan| plan.resident[0].address = at(plan), overwritten);
    let scratch = example().1.steps.iter().position(|step| step.scratch_bytes > 0).unwrap();
    expect(|_, plan| plan.steps[scratch].scratch = at(plan), overwritten);
}

/// An overlap of two kinds of things, in any order.
fn overlap(a: fn(&Holder) -> bool, b: fn(&Holder) -> bool) -> impl Fn(&Violation) -> bool {
    move |violation| match violation {
        Violation::Overlap { a: x, b: y } => {
            (a(&x.holder) && b(&y.holder)) || (a(&y.holder) && b(&x.holder))
        }
        _ => false,
    }
}

#[test]
fn overlaps() {
    let buffer: fn(&Holder) -> bool = |holder| matches!(holder, Holder::Buffer(_));
    let scratch: fn(&Holder) -> bool = |holder| matches!(holder, Holder::Scratch { .. });
    let load: fn(&Holder) -> bool = |holder| matches!(holder, Holder::Load(_));
    let weights: fn(&Holder) -> bool = |holder| matches!(holder, Holder::Weights { .. });
    let (network, plan, _) = example();
    let output =
        |layer: usize| network.tensors[network.layers[layer].output as usize].buffer as usize;
    let input = network.tensors[network.inputs[0].tensor as usize].buffer as usize;
    let last = output(network.layers.len() - 1);
    expect(
        |_, plan| plan.places[last].address = plan.places[input].address,
        overlap(buffer, buffer),
    );
    let conv = plan.steps.iter().position(|step| step.scratch_bytes > 0).unwrap();
    let made = output(plan.steps[conv].layer as usize);
    expect(
        |_, plan| plan.steps[conv].scratch = plan.places[made].address,
        overlap(buffer, scratch),
    );
    let (step, of) = streamed(&plan);
    let read = output(plan.steps[step].layer as usize);
    expect(|_, plan| plan.places[read].address = plan.loads[of].address, overlap(buffer, load));
    expect(
        |_, plan| plan.places[read].address = plan.steps[step].weights,
        overlap(buffer, weights),
    );
    let at = plan.steps[step].weights;
    expect(|_, plan| plan.steps[step].scratch = at, overlap(scratch, weights));
    // A step before the load's, while it may be in flight.
    let before = |_: &mut Network, plan: &mut Plan| plan.steps[conv].scratch = at;
    expect(before, overlap(scratch, load));
}

/// A buffer that lives across the gap in which a load happens, and has no step in it.
#[test]
fn a_load_between_two_steps_hits_what_lives_across() {
    let buffer: fn(&Holder) -> bool = |holder| matches!(holder, Holder::Buffer(_));
    let load: fn(&Holder) -> bool = |holder| matches!(holder, Holder::Load(_));
    expect(
        |network, plan| {
            // Fetched just before its step, the only one that waits for it.
            let (step, of) = streamed(plan);
            plan.loads.iter_mut().for_each(|load| load.release = load.release.min(0));
            for earlier in &mut plan.loads[..=of] {
                earlier.release = earlier.release.max(1);
            }
            plan.loads[of].release = step as i32 + 1;
            let read = network.layers[plan.steps[step].layer as usize].inputs[0];
            let read = network.tensors[read as usize].buffer as usize;
            plan.places[read].address = plan.loads[of].address;
        },
        overlap(buffer, load),
    );
}

#[test]
fn data_that_nobody_wrote() {
    let unwritten = kind!(Violation::Unwritten { .. });
    expect(|net, _| net.inputs.clear(), unwritten);
    expect(
        |net, _| {
            let tensor = Tensor { buffer: 0, dims: [1, 1, 1, 16], pitch: 16, ..Tensor::default() };
            net.buffers.push(eyelet::pack::Buffer::floats(64));
            net.tensors.push(Tensor { buffer: net.buffers.len() as u32 - 1, ..tensor });
            net.outputs[0].tensor = net.tensors.len() as u32 - 1;
        },
        kind!(Violation::Count { .. } | Violation::OutputUnwritten { .. }),
    );
    // Half an input: the other half is never written.
    expect(
        |net, _| net.tensors[net.inputs[0].tensor as usize].dims[2] += 1,
        |violation| matches!(violation, Violation::Tensor { .. } | Violation::SliceMissing { .. }),
    );
}

#[test]
fn in_place_where_it_cannot_be() {
    let aliased = kind!(Violation::Aliased { .. });
    expect(
        |net, _| {
            let unary = net.layers.iter_mut().find(|layer| layer.inputs[0] == layer.output);
            unary.unwrap().kind = OpKind::Lrn as u32;
        },
        aliased,
    );
}

/// One layer between two views of buffers, with parameters.
fn single(layer: Layer, tensors: Vec<Tensor>, floats: &[u64]) -> Vec<Violation> {
    let (mut network, ..) = example();
    network.buffers =
        floats.iter().map(|floats| eyelet::pack::Buffer::floats(floats * 4)).collect();
    network.inputs.truncate(1);
    network.outputs.truncate(1);
    network.inputs[0].tensor = 0;
    network.outputs[0].tensor = 1;
    network.tensors = tensors;
    network.layers = vec![layer];
    let mut found = Found::default();
    dataflow::check(&network, &mut found);
    found.0
}

use eyelet::pack::Layer;

#[test]
fn copies_read_and_write_what_their_strides_say() {
    let tensor = |buffer, rows, cols| Tensor {
        buffer,
        dims: [1, 1, rows, cols],
        pitch: cols,
        ..Tensor::default()
    };
    let copy = |params: CopyParams, buffers: [u32; 2], floats: &[u64]| {
        let mut record = layer(OpKind::Copy, [0, NONE], 1);
        record.params = params_words(&params);
        single(record, vec![tensor(buffers[0], 4, 6), tensor(buffers[1], 6, 4)], floats)
    };
    // A transpose.
    let transpose = CopyParams {
        dims: [1, 1, 1, 1, 6, 4],
        src: [0, 0, 0, 0, 1, 6],
        dst: [0, 0, 0, 0, 4, 1],
        ..CopyParams::default()
    };
    assert_eq!(copy(transpose, [0, 1], &[24, 24]), []);
    // One column is missing, unless the output is filled first.
    let short = CopyParams { dims: [1, 1, 1, 1, 6, 3], ..transpose };
    let missing = Violation::OutputUnwritten { output: 0, buffer: 1, float: 3 };
    assert_eq!(copy(short, [0, 1], &[24, 24]), [missing]);
    assert_eq!(copy(CopyParams { filled: 1, ..short }, [0, 1], &[24, 24]), []);
    // Too far.
    let far = CopyParams { src_start: 1, ..transpose };
    let outside = Violation::Operand { layer: 0, buffer: 0, end: 25, floats: 24 };
    assert_eq!(copy(far, [0, 1], &[24, 24]), [outside]);
    let unwritten = Violation::Unwritten { layer: 0, buffer: 0, float: 24 };
    assert_eq!(copy(far, [0, 1], &[32, 24]), [unwritten]);
    // Onto itself.
    let aliased = Violation::Aliased { layer: 0, input: 0, buffer: 0, float: 0 };
    assert_eq!(copy(transpose, [0, 0], &[24]), [aliased]);
}

/// Without an input a copy writes its output, and that alone.
#[test]
fn fills_write_their_output() {
    let tensor = |buffer| Tensor { buffer, dims: [1, 1, 2, 3], pitch: 4, offset: 1 };
    let fill = |floats: u64| {
        let mut record = layer(OpKind::Copy, [NONE, NONE], 1);
        let params = CopyParams { dims: [1; 6], dst_start: 1, filled: 1, ..CopyParams::default() };
        record.params = params_words(&params);
        single(record, vec![tensor(0), tensor(1)], &[8, floats])
    };
    assert_eq!(fill(8), []);
    let outside = Violation::Operand { layer: 0, buffer: 1, end: 8, floats: 7 };
    let unwritten = Violation::OutputUnwritten { output: 0, buffer: 1, float: 1 };
    assert_eq!(fill(7), [outside, unwritten]);
}

#[test]
fn products_read_what_their_strides_say() {
    let tensor = |buffer, offset, rows, cols, pitch| Tensor {
        buffer,
        offset,
        dims: [1, 1, rows, cols],
        pitch,
    };
    let product = |params: MatMulParams, floats: &[u64]| {
        let mut record = layer(OpKind::MatMul, [0, 2], 1);
        record.params = params_words(&params);
        // Queries and keys side by side in rows of 2 x 2 heads x 3.
        let tensors = vec![tensor(0, 0, 5, 12, 12), tensor(1, 0, 10, 5, 5), tensor(0, 6, 5, 6, 12)];
        single(record, tensors, floats)
    };
    let params = MatMulParams {
        scale: 1.0,
        batch: 2,
        m: 5,
        k: 3,
        n: 5,
        batch_stride: [3, 3],
        row_stride: [12, 1],
        col_stride: [1, 12],
    };
    assert_eq!(product(params, &[60, 50]), []);
    let outside = product(MatMulParams { batch_stride: [3, 6], ..params }, &[60, 50]);
    let far = Violation::Operand { layer: 0, buffer: 0, end: 63, floats: 60 };
    assert_eq!(outside, [far]);
}
