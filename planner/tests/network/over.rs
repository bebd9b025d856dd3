//! Plans by hand in which a layer's output lies over lines of its input that it has read. The results are those of buffers
//! that lie apart, and an output that is a line too near is refused.

use crate::common::forge::{Guarded, Three};
use crate::common::records::Records;
use eyelet::device::{Device, Inline};
use eyelet::executor::{Instance, Options};
use eyelet::kernels::{Isa, Kernels};
use eyelet::pack::{
    Activation, ActivationKind, Buffer, ConvParams, Layer, Load, NONE, OpKind, PAGE, Place,
    PoolParams, Port, Step, Tensor, params_words,
};
use eyelet::storage::Slice;

const HEIGHT: u32 = 13;
const WIDTH: u32 = 8;
const CHANNELS: u32 = 8;
/// Bytes of a line: whole units of addresses.
const LINE: u64 = 4 * (WIDTH * CHANNELS) as u64;
const IMAGE: u64 = HEIGHT as u64 * LINE;

const ARENA: u64 = 256 << 10;
/// Where the layer's input lies.
const INPUT: u64 = 64 << 10;
const WEIGHTS: u64 = 128 << 10;
const SCRATCH: u64 = 192 << 10;

/// A layer of image lines.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Three lines from three.
    Depthwise,
    /// The same with another line between taps.
    Dilated,
    Pool,
    /// A line from a line.
    Pointwise,
    Unary,
}

impl Kind {
    /// Lines that it reads above and below each.
    fn padding(self) -> u64 {
        match self {
            Self::Depthwise | Self::Pool => 1,
            Self::Dilated => 2,
            Self::Pointwise | Self::Unary => 0,
        }
    }

    fn layer(self, isa: Isa) -> Layer {
        let ones = [1; 2];
        let pad = [self.padding() as u32; 2];
        let conv = |kernel, groups| ConvParams {
            kernel,
            stride: ones,
            dilation: ones,
            pad,
            groups,
            chains: 0,
        };
        let (kind, params, k) = match self {
            Self::Depthwise => (OpKind::Depthwise, params_words(&conv([3; 2], CHANNELS)), 9),
            Self::Dilated => {
                let dilated = ConvParams { dilation: [2; 2], ..conv([3; 2], CHANNELS) };
                (OpKind::Depthwise, params_words(&dilated), 9)
            }
            Self::Pool => {
                let pool = PoolParams {
                    kernel: [3; 2],
                    stride: ones,
                    dilation: ones,
                    pad,
                    ..PoolParams::default()
                };
                (OpKind::Pool, params_words(&pool), 0)
            }
            Self::Pointwise => (OpKind::Conv, params_words(&conv(ones, 1)), CHANNELS as usize),
            Self::Unary => (OpKind::Unary, [0; 24], 0),
        };
        let silu = Activation { kind: ActivationKind::Silu as u32, ..Activation::NONE };
        Layer {
            kind: kind as u32,
            inputs: [1, NONE, NONE],
            output: 2,
            activation: silu,
            panels: u32::from(k > 0),
            panel_bytes: if k > 0 { 4 * ((1 + k) * isa.panel()) as u32 } else { 0 },
            params,
            ..Layer::default()
        }
    }
}

/// A function, the layer in steps of so many lines, a function; the layer's output so many bytes before its input.
fn plan(kind: Kind, isa: Isa, lines: u32, before: u64) -> Records {
    let dims = [1, HEIGHT, WIDTH, CHANNELS];
    let tensor = |buffer| Tensor { buffer, dims, pitch: CHANNELS, ..Tensor::default() };
    let port = |tensor| {
        let mut shape = [1; 8];
        shape[..4].copy_from_slice(&dims);
        Port { tensor, rank: 4, shape, ..Port::default() }
    };
    let layer = kind.layer(isa);
    let function =
        |from, to| Layer { inputs: [from, NONE, NONE], output: to, ..Kind::Unary.layer(isa) };
    let step =
        |layer, row, rows| Step { layer, row: row * WIDTH, rows: rows * WIDTH, ..Step::default() };
    let mut steps = vec![step(0, 0, HEIGHT)];
    for row in (0..HEIGHT).step_by(lines as usize) {
        steps.push(Step {
            count: layer.panels,
            weights: WEIGHTS,
            scratch: SCRATCH,
            scratch_bytes: ARENA - SCRATCH,
            ..step(1, row, lines.min(HEIGHT - row))
        });
    }
    steps.push(step(2, 0, HEIGHT));
    let floats = layer.panels * layer.panel_bytes / 4;
    Records {
        buffers: vec![Buffer::floats(IMAGE); 4],
        tensors: [0, 1, 2, 3].map(tensor).to_vec(),
        layers: vec![function(0, 1), layer, function(2, 3)],
        inputs: vec![port(0)],
        outputs: vec![port(3)],
        places: [32 << 10, INPUT, INPUT - before, 96 << 10].map(Place::whole).to_vec(),
        resident: vec![Load { address: WEIGHTS, bytes: PAGE as u32, ..Load::default() }],
        loads: Vec::new(),
        steps,
        arena: ARENA,
        weights: PAGE,
        data: (0..floats).map(|at| (at * 29 % 83) as f32 / 100.0 - 0.4).collect(),
        isa,
        threads: 3,
    }
}

fn output(records: &Records, device: &dyn Device) -> Vec<f32> {
    let pack = records.pack();
    let mut arena = Guarded::new(ARENA as usize);
    let mut storage = Slice(&pack);
    let options = Options { threads: device.threads() as u32, ..Options::default() };
    let mut instance = Instance::open(&mut storage, arena.bytes(), options).unwrap();
    let mut model = instance.inline(&mut storage);
    for (at, x) in model.input_mut(0).unwrap().iter_mut().enumerate() {
        *x = (at * 37 % 101) as f32 / 25.0 - 2.0;
    }
    model.infer(device).unwrap();
    model.output(0).unwrap().to_vec()
}

const KINDS: [Kind; 5] = [Kind::Depthwise, Kind::Dilated, Kind::Pool, Kind::Pointwise, Kind::Unary];

/// Line y of the output lies over line y - k of the input, and n of them are made from `padding` lines more on either side: they
/// are apart from k = n + beside on.
#[test]
fn as_near_as_lines_are_apart() {
    let refused = Some("step: writes what it reads");
    for kind in KINDS {
        for lines in 1..=4 {
            let flaw = |before| plan(kind, Isa::Portable, lines, before).flaw();
            let least = (u64::from(lines) + kind.padding()) * LINE;
            assert_eq!(flaw(least), None, "{kind:?}, {lines} lines");
            assert_eq!(flaw(least + 64), None, "{kind:?}, {lines} lines");
            assert_eq!(flaw(least - LINE), refused, "{kind:?}, {lines} lines");
            assert_eq!(flaw(least - 64), refused, "{kind:?}, {lines} lines");
        }
        // All lines at once.
        let flaw = |before| plan(kind, Isa::Portable, HEIGHT, before).flaw();
        assert_eq!((flaw(IMAGE), flaw(IMAGE - 64)), (None, refused), "{kind:?}");
        // Another step may not, though all before did.
        let mut records = plan(kind, Isa::Portable, 1, (1 + kind.padding()) * LINE);
        let last = records.steps.len() - 3;
        records.steps[last].rows += WIDTH;
        assert_eq!(records.flaw(), refused, "{kind:?}");
    }
}

#[test]
fn other_overlaps_are_refused_as_they_were() {
    let refused = Some("step: writes what it reads");
    let over = || plan(Kind::Depthwise, Isa::Portable, 1, 2 * LINE);
    assert_eq!(over().flaw(), None);
    // A ring, of either, though it has all lines.
    for buffer in [1, 2] {
        let mut records = over();
        records.places[buffer].lines = HEIGHT;
        assert_eq!(records.flaw(), refused, "buffer {buffer}");
    }
    // Scratch and weights over lines that no step reads any more.
    let mut records = over();
    let last = records.steps.len() - 2;
    records.steps[last].scratch = INPUT;
    assert_eq!(records.flaw(), refused);
    let mut records = over();
    records.steps[last].weights = INPUT - 2 * LINE;
    assert_eq!(records.flaw(), refused);
    // What sees its input as one run of floats.
    let mut records = over();
    let layer = &mut records.layers[1];
    *layer = Layer { kind: OpKind::Copy as u32, activation: Activation::NONE, ..*layer };
    (layer.panels, layer.panel_bytes, layer.params) = (0, 0, [0; 24]);
    layer.params[..18].fill(1);
    records.steps.drain(2..14);
    records.steps[1] = Step { layer: 1, rows: HEIGHT * WIDTH, ..Step::default() };
    assert_eq!(records.flaw(), refused);
    records.places[2].address = INPUT - IMAGE;
    assert_eq!(records.flaw(), None);
}

#[test]
fn an_output_over_its_input_is_what_it_is_elsewhere() {
    for isa in Kernels::all().map(|kernels| kernels.isa()) {
        for kind in KINDS {
            let apart = output(&plan(kind, isa, HEIGHT, IMAGE), &Inline);
            let positive = apart.iter().filter(|x| **x > 0.0).count();
            assert!(positive > 0 && apart.iter().all(|x| x.is_finite()), "{kind:?}");
            for lines in [1, 2, 3, 5, HEIGHT - 1] {
                let records = plan(kind, isa, lines, (u64::from(lines) + kind.padding()) * LINE);
                for device in [&Inline as &dyn Device, &Three] {
                    let what = format!("{kind:?}, {}, {lines} lines", isa.name());
                    assert!(output(&records, device) == apart, "{what}, {}", device.threads());
                }
            }
        }
    }
}
