//! Plans by hand in which layers slide: buffers hold rings of image lines. The results are those of whole
//! buffers, and what does not fit into a ring is refused.

use crate::common::forge::{Guarded, Three};
use crate::common::records::Records;
use crate::common::sliding::{
    ARENA, CONV, INPUT, LEAST, OUTPUT, POINTWISE, SHORT, Sliding, TALL, WHOLE, WINOGRAD,
};
use eyelet::device::{Device, Inline};
use eyelet::executor::{Instance, Options};
use eyelet::kernels::{Isa, Kernels};
use eyelet::pack::{
    Activation, BinaryParams, Buffer, CopyParams, Layer, NONE, OpKind, Place, ReduceParams, Step,
    Tensor, params_words, ring_bytes,
};
use eyelet::storage::Slice;

/// The output of two inferences.
fn output(sliding: &Sliding, isa: Isa, device: &dyn Device) -> Vec<f32> {
    run(&sliding.plan(isa), device)
}

/// The same, of a plan.
fn run(records: &Records, device: &dyn Device) -> Vec<f32> {
    let pack = records.pack();
    let mut arena = Guarded::new(ARENA as usize);
    let mut storage = Slice(&pack);
    let options = Options { threads: device.threads() as u32, ..Options::default() };
    let mut instance = Instance::open(&mut storage, arena.bytes(), options).unwrap();
    let mut model = instance.inline(&mut storage);
    let mut outputs = [Vec::new(), Vec::new()];
    for output in &mut outputs {
        for (at, x) in model.input_mut(0).unwrap().iter_mut().enumerate() {
            *x = (at * 37 % 101) as f32 / 50.0 - 1.0;
        }
        model.infer(device).unwrap();
        *output = model.output(0).unwrap().to_vec();
    }
    assert_eq!(outputs[0], outputs[1], "the second inference");
    outputs[0].clone()
}

#[test]
fn rings_make_what_whole_buffers_make() {
    for isa in Kernels::all().map(|kernels| kernels.isa()) {
        let whole = output(&WHOLE, isa, &Inline);
        let positive = whole.iter().filter(|x| **x > 0.0).count();
        assert!(positive > whole.len() / 4 && positive < whole.len(), "{positive}");
        for sliding in [
            LEAST,
            Sliding { rings: [0, 7, 8, 3, 0], lines: 2 },
            Sliding { rings: [0, 6, 12, 2, 0], lines: 3 },
            Sliding { rings: [0, 11, 13, 4, 0], lines: 4 },
            Sliding { rings: [0, 0, 8, 0, 0], lines: 1 },
            Sliding { rings: [0, 13, 13, 7, 0], lines: u32::MAX },
        ] {
            for device in [&Inline as &dyn Device, &Three] {
                let what = format!("{sliding:?}, {}, {} threads", isa.name(), device.threads());
                assert!(output(&sliding, isa, device) == whole, "{what}");
            }
        }
    }
}

/// Why the plan of the least rings is refused after a change.
fn flaw(change: impl Fn(&mut Records)) -> Option<&'static str> {
    let mut records = LEAST.plan(Isa::Portable);
    change(&mut records);
    records.flaw()
}

/// The first step that makes some of this tensor.
fn step_of(records: &mut Records, id: u32) -> &mut Step {
    records.steps.iter_mut().find(|step| step.layer == id - 1).unwrap()
}

#[test]
fn a_ring_holds_views_of_one_image() {
    assert_eq!(flaw(|_| {}), None);
    // A tensor more in the ring of the first convolution, which nothing uses.
    let refusal = |change: fn(&mut Tensor)| {
        flaw(|records| {
            let mut tensor = records.tensors[CONV as usize];
            change(&mut tensor);
            records.tensors.push(tensor);
            records.buffers[1].bytes *= 2;
        })
    };
    assert_eq!(refusal(|_| {}), None);
    assert_eq!(refusal(|t| t.dims[3] = 7), None);
    assert_eq!(refusal(|t| t.dims[0] = 2), Some("plan: images in a ring"));
    assert_eq!(refusal(|t| t.dims[1] -= 1), Some("plan: height of another tensor in a ring"));
    assert_eq!(refusal(|t| t.dims[2] += 1), Some("plan: width of another tensor in a ring"));
    assert_eq!(refusal(|t| t.pitch += 1), Some("plan: pitch of another tensor in a ring"));
    assert_eq!(refusal(|t| t.offset = 1), Some("plan: channels of a ring beyond its pitch"));
    assert_eq!(refusal(|t| t.offset = 20), Some("plan: channels of a ring beyond its pitch"));

    let lines = |buffer: usize, lines| flaw(|records| records.places[buffer].lines = lines);
    assert_eq!(lines(1, TALL + 1), Some("plan: more lines in a ring than in the image"));
    assert_eq!(lines(1, u32::MAX), Some("plan: more lines in a ring than in the image"));
    assert_eq!(lines(0, TALL), Some("plan: a port in a ring"));
    assert_eq!(lines(4, SHORT), Some("plan: a port in a ring"));
    let empty = flaw(|records| {
        records.buffers.push(Buffer::floats(64));
        records.places.push(Place { lines: 1, ..records.places[0] });
    });
    assert_eq!(empty, Some("plan: a ring that no tensor lies in"));
    let arena = flaw(|records| records.places[1].address = ARENA - 64);
    assert_eq!(arena, Some("plan: buffer outside the arena"));
    // A larger ring reaches into the buffer that is placed right behind it.
    assert_eq!(lines(1, 7), Some("step: writes what it reads"));
}

#[test]
fn steps_do_not_go_around_the_end_of_a_ring() {
    let step = |id: u32, change: fn(&mut Step)| flaw(|records| change(step_of(records, id)));
    let end = Some("end of the step's lines in a ring");
    assert_eq!(step(CONV, |step| step.rows = 6 * 11), None);
    assert_eq!(step(CONV, |step| step.rows = 7 * 11), end);
    assert_eq!(step(CONV, |step| (step.row, step.rows) = (5 * 11, 2 * 11)), end);
    assert_eq!(step(CONV, |step| step.row = u32::MAX / 11 * 11), Some("end of the step's rows"));
    let whole = Some("end of the step's rows beyond whole lines");
    assert_eq!(step(CONV, |step| step.rows = 10), whole);
    assert_eq!(step(CONV, |step| (step.row, step.rows) = (10, 11)), whole);
    // Read row by row from a ring of one line, whatever the output lies in.
    assert_eq!(step(OUTPUT, |step| step.row = 6 * 6), None);
    assert_eq!(step(OUTPUT, |step| step.row = 1), whole);
    assert_eq!(step(OUTPUT, |step| step.rows = 2 * 6), end);
    // The residual of a window, read from a ring into a whole buffer.
    let residual = |rows| {
        flaw(|records| {
            records.layers[POINTWISE as usize - 1].output = OUTPUT;
            records.layers.pop();
            records.steps.retain(|step| step.layer + 1 < OUTPUT);
            step_of(records, POINTWISE).rows = rows;
        })
    };
    assert_eq!((residual(6), residual(12), residual(5)), (None, end, whole));
    let tiles = Some("first line of the step, or behind its last, which begins tiles,");
    assert_eq!(step(WINOGRAD, |step| (step.row, step.rows) = (12 * 11, 11)), None);
    assert_eq!(step(WINOGRAD, |step| step.rows = 3 * 11), tiles);
    assert_eq!(step(WINOGRAD, |step| (step.row, step.rows) = (11, 3 * 11)), tiles);
    assert_eq!(step(WINOGRAD, |step| step.rows = 5), whole);
}

/// The network with an input in planes of channels, of which a copy makes the convolution's pixels, so many lines at a time, in a ring of so
/// many; 0 if all of them are there.
fn turned(sliding: &Sliding, isa: Isa, ring: u32, lines: u32) -> Records {
    let mut records = sliding.plan(isa);
    let pixels = records.tensors[INPUT as usize];
    let [_, height, width, channels] = pixels.dims;
    let plane = height * width;
    let planes = Tensor {
        buffer: records.buffers.len() as u32,
        dims: [1, channels, height, width],
        pitch: width,
        ..pixels
    };
    let layer = records.layers.len() as u32;
    let params = CopyParams {
        dims: [1, 1, 1, 1, plane, channels],
        src: [0, 0, 0, 0, 1, plane],
        dst: [0, 0, 0, 0, channels, 1],
        ..CopyParams::default()
    };
    let tensor = records.tensors.len() as u32;
    records.layers.push(Layer {
        kind: OpKind::Copy as u32,
        inputs: [tensor, NONE, NONE],
        output: INPUT,
        params: params_words(&params),
        ..Layer::default()
    });
    records.tensors.push(planes);
    records.buffers.push(Buffer::floats(ring_bytes(channels, height, width)));
    records.places.push(Place::whole(62 << 10));
    records.places[0].lines = ring;
    records.inputs[0].tensor = tensor;
    records.inputs[0].shape[..4].copy_from_slice(&planes.dims);
    let mut made = 0;
    for step in std::mem::take(&mut records.steps) {
        let needed = ((step.row + step.rows) / width + 1).min(height);
        while step.layer == 0 && made < needed {
            let count = lines.min(height - made);
            records.steps.push(Step {
                layer,
                row: made * width,
                rows: count * width,
                ..Step::default()
            });
            made += count;
        }
        records.steps.push(step);
    }
    records
}

#[test]
fn a_change_of_order_makes_lines_of_a_ring() {
    for isa in Kernels::all().map(|kernels| kernels.isa()) {
        let whole = run(&turned(&WHOLE, isa, 0, TALL), &Inline);
        assert!(whole.iter().any(|x| *x > 0.0));
        for (ring, lines) in [(3, 1), (4, 2), (5, 1), (TALL, TALL), (0, 1), (0, 3)] {
            for device in [&Inline as &dyn Device, &Three] {
                let what = format!("{ring} lines, {lines} at a time, {}", isa.name());
                assert!(run(&turned(&LEAST, isa, ring, lines), device) == whole, "{what}");
            }
        }
    }
    let turned = |ring, lines| turned(&LEAST, Isa::Portable, ring, lines);
    assert_eq!(turned(4, 2).flaw(), None);
    assert_eq!(turned(4, 3).flaw(), Some("end of the step's lines in a ring"));
    let mut records = turned(4, 2);
    records.steps[0].rows -= 1;
    assert_eq!(records.flaw(), Some("end of the step's rows beyond whole lines"));
    // It reads all of its input, wherever its rows come from.
    let mut records = turned(0, 1);
    records.places[0].address = (62 << 10) - 512;
    assert_eq!(records.flaw(), Some("step: writes what it reads"));
}

#[test]
fn operators_that_see_one_run_of_floats_do_not_work_in_rings() {
    let refused = Some("operator that works in a ring");
    let last = |change: fn(&mut Layer)| {
        flaw(|records| {
            change(&mut records.layers[OUTPUT as usize - 1]);
            let steps: Vec<Step> = std::mem::take(&mut records.steps);
            let (last, others): (Vec<_>, _) = steps.into_iter().partition(|s| s.layer == 4);
            records.steps = others;
            records.steps.push(Step { row: 0, rows: SHORT * 6, ..last[0] });
        })
    };
    let copy = |layer: &mut Layer| {
        layer.kind = OpKind::Copy as u32;
        layer.activation = Activation::NONE;
        layer.params[..6].fill(1);
    };
    assert_eq!(last(copy), refused);
    assert_eq!(last(|_| {}), Some("end of the step's lines in a ring"));
    // An average of what the ring before holds, and a sum with one line of it.
    let reduce = flaw(|records| {
        records.tensors[OUTPUT as usize].dims = [1, 1, 1, 20];
        records.tensors[OUTPUT as usize].pitch = 20;
        records.outputs[0].shape = [1, 1, 1, 20, 1, 1, 1, 1];
        let layer = &mut records.layers[OUTPUT as usize - 1];
        let params = ReduceParams { outer: 1, reduce: TALL * 11, inner: 20, op: 0 };
        (layer.kind, layer.inputs[0], layer.params) =
            (OpKind::Reduce as u32, CONV, params_words(&params));
        records.steps.retain(|step| step.layer < 4);
        records.steps.push(Step { layer: 4, rows: 1, ..Step::default() });
    });
    assert_eq!(reduce, refused);
    let broadcast = flaw(|records| {
        let tensor = Tensor { dims: [1, 1, 6, 20], buffer: 5, pitch: 20, ..Tensor::default() };
        records.tensors.push(tensor);
        records.buffers.push(Buffer::floats(512));
        records.places.push(Place { address: 62 << 10, lines: 1 });
        let layer = &mut records.layers[OUTPUT as usize - 1];
        layer.kind = OpKind::Binary as u32;
        layer.inputs[1] = 6;
        layer.params = params_words(&BinaryParams::default());
    });
    assert_eq!(broadcast, Some("extent of a ring that is read row by row"));
}

#[test]
fn rings_that_take_long_to_prove_are_refused() {
    let many = |count: u32| {
        let mut records = Records::copy(64 << 20);
        let tensor = records.tensors[0];
        for buffer in 2..count {
            records.buffers.push(Buffer::floats(64));
            records.tensors.push(Tensor { buffer, ..tensor });
            records.places.push(Place { lines: 1, ..records.places[0] });
        }
        records.flaw()
    };
    assert_eq!(many(300), None);
    assert_eq!(
        many(2000),
        Some("plan: takes too long to prove, in comparisons, beside the size of its pack")
    );
}
