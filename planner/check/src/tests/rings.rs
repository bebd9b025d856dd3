//! Each way in which rings and alternating steps can be wrong is found and named.

use super::*;
use eyelet::kernels::Isa;
use eyelet::pack::{Buffer, ConvParams, CopyParams, NONE, OpKind, Place, Tensor, WinogradParams};
use eyelet::pack::{params_words, ring_bytes};
use eyelet_model::network::{Port, Weights};
use eyelet_model::testing::example::layer;
use eyelet_plan::slide::Group;
use eyelet_plan::testing::plan as slide;

const HEIGHT: u32 = 12;
const WIDTH: u32 = 4;
const CHANNELS: u32 = 8;

/// Convolutions of three taps over an image, one buffer each, the host's first and last.
fn network(convolutions: u32) -> Network {
    let bytes = u64::from(HEIGHT * WIDTH * CHANNELS * 4);
    let dims = [1, HEIGHT, WIDTH, CHANNELS];
    let tensor = |buffer| Tensor { buffer, dims, pitch: CHANNELS, ..Tensor::default() };
    let port =
        |tensor| Port { name: "port".into(), tensor, kind: Default::default(), shape: vec![1] };
    let conv = |number: u32| {
        let mut conv = layer(OpKind::Conv, [number, NONE], number + 1);
        let ones = [1; 2];
        let (kernel, pad) = ([3; 2], ones);
        conv.params = params_words(&ConvParams {
            kernel,
            stride: ones,
            dilation: ones,
            pad,
            groups: 1,
            chains: 0,
        });
        (conv.panels, conv.panel_bytes) = (1, 8 * 4 * (9 * CHANNELS + 1));
        conv
    };
    Network {
        name: "chain".into(),
        isa: Isa::Portable,
        buffers: vec![Buffer::floats(bytes); convolutions as usize + 1],
        tensors: (0..=convolutions).map(tensor).collect(),
        layers: (0..convolutions).map(conv).collect(),
        names: (0..convolutions).map(|number| format!("conv{number}")).collect(),
        weights: (0..convolutions).map(|_| Weights::None).collect(),
        on_load: vec![0; convolutions as usize],
        mapped: None,
        inputs: vec![port(0)],
        outputs: vec![port(convolutions)],
    }
}

/// Four convolutions, a line at a time: rings of three lines in buffers 1, 2 and 3.
fn example() -> (Network, Plan, u64) {
    let mut network = network(4);
    let (plan, bytes) =
        slide(&mut network, &[Group { layers: 0..4, lines: 1, reloads_weights: false }]);
    let lines: Vec<u32> = plan.places.iter().map(|place| place.lines).collect();
    assert_eq!(lines, [0, 3, 3, 3, 0]);
    check(&network, &plan, bytes).unwrap();
    (network, plan, bytes)
}

#[track_caller]
fn expect(
    break_it: impl FnOnce(&mut Network, &mut Plan),
    kind: impl Fn(&Violation) -> bool,
) -> Vec<Violation> {
    let (mut network, mut plan, bytes) = example();
    break_it(&mut network, &mut plan);
    refused(check(&network, &plan, bytes), kind)
}

#[test]
fn what_cannot_be_a_ring() {
    expect(
        |net, _| {
            net.buffers[2].bytes *= 2;
            net.tensors[2].dims[0] = 2;
        },
        kind!(Violation::Ring { buffer: 2, .. }),
    );
    // A second view in another shape.
    let view = |change: fn(&mut Tensor)| {
        move |net: &mut Network, _: &mut Plan| {
            let mut view = net.tensors[1];
            change(&mut view);
            net.tensors.push(view);
        }
    };
    expect(view(|t| t.dims[1] = 11), kind!(Violation::Ring { buffer: 1, .. }));
    expect(view(|t| t.dims[2] = 2), kind!(Violation::Ring { buffer: 1, .. }));
    expect(view(|t| (t.pitch, t.dims[1]) = (16, 2)), kind!(Violation::Ring { buffer: 1, .. }));
    expect(view(|t| (t.offset, t.dims[1]) = (8, 11)), kind!(Violation::Ring { buffer: 1, .. }));
    expect(|_, plan| plan.places[1].lines = HEIGHT + 1, kind!(Violation::Ring { buffer: 1, .. }));
    expect(|_, plan| plan.places[0].lines = 4, kind!(Violation::Ring { buffer: 0, .. }));
    expect(|_, plan| plan.places[4].lines = 4, kind!(Violation::Ring { buffer: 4, .. }));
    expect(
        |net, plan| {
            net.buffers.push(Buffer::floats(64));
            plan.places.push(Place { lines: 1, ..plan.places[0] });
        },
        kind!(Violation::Ring { buffer: 5, .. }),
    );
}

#[test]
fn what_steps_cannot_do_with_rings() {
    let kind = |layer: usize, kind: OpKind| {
        move |net: &mut Network, _: &mut Plan| net.layers[layer].kind = kind as u32
    };
    for other in [OpKind::Copy, OpKind::Reduce, OpKind::Gather, OpKind::Lookup] {
        expect(kind(1, other), kind!(Violation::RingStep { .. }));
    }
    // Products read their right operand as a whole.
    expect(
        |net, plan| {
            kind(1, OpKind::MatMul)(net, plan);
            net.layers[1].inputs[1] = net.layers[1].inputs[0];
        },
        kind!(Violation::RingStep { .. }),
    );
    // Part of a line.
    expect(|_, plan| plan.steps[3].row += 1, kind!(Violation::RingStep { step: 4, .. }));
    expect(|_, plan| plan.steps[3].rows -= 1, kind!(Violation::RingStep { step: 4, .. }));
    // Two lines around the end.
    let layer_0 = |plan: &Plan, line: u32| {
        let at = |step: &Step| step.layer == 0 && step.row == line * WIDTH;
        plan.steps.iter().position(at).unwrap()
    };
    expect(
        |_, plan| {
            let step = layer_0(plan, 2);
            plan.steps[step].rows = 2 * WIDTH;
            plan.steps.remove(layer_0(plan, 3));
        },
        kind!(Violation::RingStep { buffer: 1, .. }),
    );
    // A residual is read without going around, too.
    expect(
        |net, plan| {
            net.layers[3].inputs[1] = 2;
            let at = |step: &Step| step.layer == 3 && step.row == 2 * WIDTH;
            let step = plan.steps.iter().position(at).unwrap();
            plan.steps[step].rows = 2 * WIDTH;
        },
        kind!(Violation::RingStep { buffer: 2, .. }),
    );
    // Inside of a tile.
    expect(
        |net, _| {
            net.layers[1].kind = OpKind::Winograd as u32;
            net.layers[1].params =
                params_words(&WinogradParams { tile: 2, pad: [1; 2], groups: 1 });
        },
        kind!(Violation::RingStep { buffer: 2, .. }),
    );
    // An operand that is broadcast.
    expect(
        |net, _| {
            net.layers[1].kind = OpKind::Binary as u32;
            net.layers[1].params = [0; 24];
            net.tensors[1].dims[3] = 1;
        },
        kind!(Violation::RingStep { buffer: 1, .. }),
    );
}

#[test]
fn lines_not_made_or_written_over() {
    let order = |buffer: usize| move |violation: &Violation| matches!(violation, Violation::OutOfOrder { buffer: at, .. } if *at == buffer);
    // A ring of two lines holds two of the three that are seen.
    for ring in 1..4 {
        expect(|_, plan| plan.places[ring].lines = 2, order(ring));
    }
    let steps = example().1.steps;
    // A reader before what it reads, and a writer over what is still read.
    let reader = (0..steps.len()).find(|&i| steps[i].layer == 1).unwrap();
    expect(|_, plan| plan.steps.swap(reader - 1, reader), order(1));
    let late = (0..steps.len()).rfind(|&i| steps[i].layer == 0).unwrap();
    let before = (0..late).rfind(|&i| steps[i].layer == 1).unwrap();
    expect(
        |_, plan| {
            let step = plan.steps.remove(late);
            plan.steps.insert(before, step);
        },
        order(1),
    );
    // Lines that are made in another order may still all be there; here they are not.
    expect(|_, plan| plan.steps.reverse(), order(1));
}

#[test]
fn a_ring_takes_all_of_its_bytes() {
    let ring = ring_bytes(3, WIDTH, CHANNELS);
    let (network, mut plan, bytes) = example();
    plan.places[2].address = plan.places[1].address + ring;
    check(&network, &plan, bytes).unwrap();
    expect(
        |_, plan| plan.places[2].address = plan.places[1].address + ring - 64,
        kind!(Violation::Overlap { .. }),
    );
    expect(
        |_, plan| plan.places[3].address = plan.arena_bytes - ring + 64,
        kind!(Violation::OutOfBounds { .. }),
    );
}

/// Two convolutions that alternate over a whole buffer.
#[test]
fn whole_buffers_that_layers_share() {
    let mut network = network(2);
    let (mut plan, bytes) =
        slide(&mut network, &[Group { layers: 0..2, lines: 2, reloads_weights: false }]);
    assert!(plan.places[1].lines > 0);
    plan.places[1] = Place::whole(plan.arena_bytes);
    plan.arena_bytes += 4096;
    plan.budget = plan.arena_bytes;
    check(&network, &plan, bytes).unwrap();
    // Too early by one line.
    let reader = plan.steps.iter().position(|step| step.layer == 1).unwrap();
    let mut broken = plan.clone();
    broken.steps.swap(reader - 1, reader);
    let violations = check(&network, &broken, bytes).unwrap_err();
    assert!(violations.iter().all(kind!(Violation::OutOfOrder { buffer: 1, .. })));
    // What is written in place must have been read before.
    let mut in_place = network.clone();
    in_place.layers.push(layer(OpKind::Unary, [1, NONE], 1));
    in_place.names.push("late".into());
    in_place.weights.push(Weights::None);
    let rows = HEIGHT * WIDTH;
    let step = Step { layer: 2, rows, ..Step::default() };
    let last = plan.steps.len();
    for (at, proved) in [(last, true), (last - 1, false), (1, false)] {
        let mut changed = plan.clone();
        changed.steps.insert(at, step);
        assert_eq!(check(&in_place, &changed, bytes).is_ok(), proved, "at {at}");
    }
}

/// Layers with strides of their own are not followed row by row.
#[test]
fn strides_cannot_alternate() {
    let mut network = network(2);
    network.layers[0] = layer(OpKind::Copy, [0, NONE], 1);
    let size = HEIGHT * WIDTH * CHANNELS;
    let (dims, strides) = ([1, 1, 1, 1, 1, size], [0, 0, 0, 0, 0, 1]);
    network.layers[0].params =
        params_words(&CopyParams { dims, src: strides, dst: strides, ..CopyParams::default() });
    let (plan, bytes) = slide(&mut network, &[]);
    check(&network, &plan, bytes).unwrap();
    let mut early = plan.clone();
    early.steps.swap(0, 1);
    let violations = check(&network, &early, bytes).unwrap_err();
    assert!(violations.iter().any(kind!(Violation::Alternating { buffer: 1, .. })));
    // Nor can they be made in parts.
    let mut half = plan.clone();
    half.steps[0].rows /= 2;
    let rest = Step { row: half.steps[0].rows, ..half.steps[0] };
    half.steps.insert(1, rest);
    let violations = check(&network, &half, bytes).unwrap_err();
    assert!(violations.iter().any(kind!(Violation::NotSliceable { step: 1, layer: 0 })));
}
