//! A network whose layers slide, planned by hand: buffers hold rings of image lines.
#![allow(dead_code)]

use super::records::Records;
use eyelet::kernels::Isa;
use eyelet::pack::{
    Activation, Buffer, ConvParams, Layer, Load, NONE, OpKind, PAGE, Place, Port, Step, Tensor,
    WinogradParams, params_words, ring_bytes,
};

/// The tensors of the network, in the order in which they are made.
pub const INPUT: u32 = 0;
pub const CONV: u32 = 1;
pub const WINOGRAD: u32 = 2;
pub const DEPTHWISE: u32 = 3;
pub const POINTWISE: u32 = 4;
pub const OUTPUT: u32 = 5;

/// Buffers; that of the depthwise layer's output has room for the pointwise layer's channels beside it.
pub const BUFFERS: [u32; 6] = [0, 1, 2, 3, 3, 4];

pub const ARENA: u64 = 1 << 20;

/// Where the weights are kept.
pub const WEIGHTS: u64 = 64 << 10;

/// Where scratch lies, behind the activations.
pub const SCRATCH: u64 = ARENA - SCRATCH_BYTES;
pub const SCRATCH_BYTES: u64 = 640 << 10;

/// Lines of the maps.
pub const TALL: u32 = 13;
pub const SHORT: u32 = 7;

/// Lines that a buffer holds (0: all), and that a step makes at most.
#[derive(Clone, Copy, Debug)]
pub struct Sliding {
    pub rings: [u32; 5],
    pub lines: u32,
}

pub const WHOLE: Sliding = Sliding { rings: [0; 5], lines: u32::MAX };
pub const LEAST: Sliding = Sliding { rings: [0, 6, 8, 1, 0], lines: 1 };

/// 3x3 convolution, the same by Winograd's algorithm, depthwise with stride 2, pointwise with the
/// depthwise layer's output added and written beside it, and a function of that.
fn network(isa: Isa) -> Records {
    let tensor = |id: u32, dims, offset, pitch| {
        let buffer = BUFFERS[id as usize];
        Tensor { buffer, offset, dims, pitch }
    };
    let (tall, short) = ([1, TALL, 11, 20], [1, SHORT, 6, 20]);
    let tensors = vec![
        tensor(INPUT, [1, TALL, 11, 3], 0, 3),
        tensor(CONV, tall, 0, 20),
        tensor(WINOGRAD, tall, 0, 21),
        tensor(DEPTHWISE, short, 1, 41),
        tensor(POINTWISE, short, 21, 41),
        tensor(OUTPUT, short, 0, 20),
    ];
    let ones = [1; 2];
    let conv = ConvParams {
        kernel: [3; 2],
        stride: ones,
        dilation: ones,
        pad: ones,
        groups: 1,
        chains: 0,
    };
    let depthwise = ConvParams { stride: [2; 2], groups: 20, ..conv };
    let pointwise = ConvParams { kernel: ones, pad: [0; 2], ..conv };
    let winograd = WinogradParams { tile: 4, pad: ones, groups: 1 };
    let layers = [
        (OpKind::Conv, [INPUT, NONE], CONV, params_words(&conv), 27),
        (OpKind::Winograd, [CONV, NONE], WINOGRAD, params_words(&winograd), 36 * 20),
        (OpKind::Depthwise, [WINOGRAD, NONE], DEPTHWISE, params_words(&depthwise), 9),
        (OpKind::Conv, [DEPTHWISE, DEPTHWISE], POINTWISE, params_words(&pointwise), 20),
        (OpKind::Unary, [POINTWISE, NONE], OUTPUT, [0; 24], 0),
    ];
    let mut data = Vec::new();
    let mut random = 1u32;
    let layers = layers.map(|(kind, [first, second], output, params, k)| {
        let panel = (1 + k) * isa.panel();
        let panels = if k == 0 { 0 } else { 20usize.div_ceil(isa.panel()) };
        let weights = 4 * data.len() as u64;
        data.extend((0..(panels * panel).next_multiple_of(16)).map(|_| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            random as f32 / u32::MAX as f32 - 0.5
        }));
        Layer {
            kind: kind as u32,
            inputs: [first, second, NONE],
            output,
            activation: Activation::RELU,
            panels: panels as u32,
            panel_bytes: if k == 0 { 0 } else { 4 * panel as u32 },
            weights,
            params,
            ..Layer::default()
        }
    });
    let port = |tensor: u32| {
        let mut shape = [1; 8];
        shape[..4].copy_from_slice(&tensors[tensor as usize].dims);
        Port { tensor, rank: 4, shape, ..Port::default() }
    };
    let bytes = |id: usize| {
        let Tensor { dims, pitch, .. } = tensors[id];
        Buffer::floats(ring_bytes(dims[1], dims[2], pitch))
    };
    let weights = (4 * data.len() as u64).next_multiple_of(PAGE);
    let load = Load { address: WEIGHTS, bytes: weights as u32, ..Load::default() };
    Records {
        buffers: [0, 1, 2, 3, 5].map(bytes).to_vec(),
        layers: layers.to_vec(),
        inputs: vec![port(INPUT)],
        outputs: vec![port(OUTPUT)],
        places: Vec::new(),
        resident: vec![load],
        loads: Vec::new(),
        steps: Vec::new(),
        arena: ARENA,
        weights,
        data,
        isa,
        threads: 3,
        tensors,
    }
}

impl Sliding {
    /// Places the buffers, one right behind the other, and makes the steps.
    pub fn plan(&self, isa: Isa) -> Records {
        let mut records = network(isa);
        let mut address = 16 << 10;
        for (buffer, &lines) in self.rings.iter().enumerate() {
            let view = BUFFERS.iter().position(|at| *at == buffer as u32).unwrap();
            let Tensor { dims, pitch, .. } = records.tensors[view];
            records.places.push(Place { address, lines });
            address += match lines {
                0 => records.buffers[buffer].bytes,
                lines => ring_bytes(lines, dims[2], pitch),
            };
        }
        assert!(address <= WEIGHTS, "{address}");
        self.make(&mut records, &mut [0; 6], OUTPUT, SHORT);
        records
    }

    /// The steps up to line `end` of a tensor, after those that they need.
    fn make(&self, records: &mut Records, done: &mut [u32; 6], id: u32, end: u32) {
        if id == INPUT {
            return;
        }
        let tensor = records.tensors[id as usize];
        let height = tensor.dims[1];
        let layer = records.layers[id as usize - 1];
        // Winograd makes lines of tiles.
        let unit = if id == WINOGRAD { 4 } else { 1 };
        while done[id as usize] < end {
            let first = done[id as usize];
            let mut count = (self.lines.max(unit)).min(height - first);
            // Up to the end of the ring, and of one that is read row by row.
            let input = if id == OUTPUT { id - 1 } else { id };
            for id in [id, input] {
                if let lines @ 1.. = self.rings[BUFFERS[id as usize] as usize] {
                    count = count.min(lines - first % lines);
                }
            }
            let last = first + count;
            let needed = match id {
                CONV | WINOGRAD => (last + 1).min(TALL),
                DEPTHWISE => (2 * last).min(TALL),
                _ => last,
            };
            self.make(records, done, id - 1, needed);
            records.steps.push(Step {
                layer: id - 1,
                count: layer.panels,
                row: first * tensor.dims[2],
                rows: count * tensor.dims[2],
                weights: WEIGHTS + layer.weights,
                scratch: SCRATCH,
                scratch_bytes: SCRATCH_BYTES,
                ..Step::default()
            });
            done[id as usize] = last;
        }
    }
}
