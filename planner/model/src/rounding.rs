//! What rounding weights to 16 or 8 bits does to a network's outputs, measured: layer after layer, on random inputs,
//! once with the weights as they are stored and once as fp32, from the recipes that they had before. Everything else is alike, the
//! algorithms of the layers too. Needs memory for activations and a few panels of weights.

use crate::network::{Network, Weights};
use crate::weights::{Overflow, pack_panels, panels};
use bytemuck::{Pod, Zeroable};
use eyelet::device::Inline;
use eyelet::kernels::Kernels;
use eyelet::kernels::table::Packed;
use eyelet::matrix::{MatMut, MatRef};
use eyelet::ops::{self, Call, Operand, Problem, Slice};
use eyelet::pack::{Encoding, INPUTS, Layer, Method, NONE, OpKind, Tensor};
use std::ops::Range;

/// Random inputs that are tried.
const SAMPLES: usize = 2;

/// Bytes of fp32 weights that are packed at a time.
const CHUNK: u32 = 4 << 20;

/// Sixty-four bytes of aligned memory.
#[repr(C, align(64))]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Line([u8; 64]);

/// The largest difference of any output from that with fp32 weights, relative to the largest magnitude of the latter.
/// `exact` has the layers'
/// weights before they were rounded. `None` where this machine cannot run the network's kernels. `fill` fills an input; `progress` is told the
/// number of each layer.
pub fn error(
    network: &Network,
    exact: &Network,
    fill: impl Fn(u64, &mut [f32]),
    progress: &mut dyn FnMut(u64),
) -> Result<Option<f64>, Overflow> {
    let Some(kernels) = Kernels::for_isa(network.isa) else { return Ok(None) };
    let mut runs: Vec<[Activations; 2]> = (0..SAMPLES as u64)
        .map(|seed| {
            let mut activations = Activations::new(network);
            for (port, input) in network.inputs.iter().enumerate() {
                fill(seed * 1000 + port as u64, activations.port(network, input.tensor));
            }
            [activations.clone(), activations]
        })
        .collect();
    let nr = network.isa.panel();
    let mut bytes = Vec::new();
    for (index, (layer, weights)) in network.layers.iter().zip(&network.weights).enumerate() {
        let unrounded = match (weights, &exact.weights[index]) {
            (Weights::Winograd(_, tile), Weights::Dense(dense)) => {
                &Weights::Winograd(dense.clone(), *tile)
            }
            (_, unrounded) => unrounded,
        };
        let plain_bytes = panels(unrounded, nr, Encoding::F32).bytes as u32;
        let plain = Layer { encoding: Encoding::F32 as u32, panel_bytes: plain_bytes, ..*layer };
        let at_once = match OpKind::from_code(layer.kind) {
            Some(kind) if kind.has_panels() => (CHUNK / plain_bytes.max(1)).max(1),
            _ => layer.panels.max(1),
        };
        // One turn also for layers without weights.
        for first in (0..layer.panels.max(1)).step_by(at_once as usize) {
            let panels = first..(first + at_once).min(layer.panels);
            let both = [(unrounded, plain), (weights, *layer)];
            for (which, (weights, layer)) in both.into_iter().enumerate() {
                bytes.clear();
                pack_panels(weights, &layer, nr, panels.clone(), &mut bytes)?;
                let packed: Vec<f32> = bytemuck::allocation::pod_collect_to_vec(&bytes);
                for run in &mut runs {
                    run[which].compute(network, &layer, panels.clone(), &packed, kernels);
                }
            }
        }
        progress(index as u64 + 1);
    }
    let mut worst: f64 = 0.0;
    for run in &mut runs {
        for output in &network.outputs {
            let [exact, rounded] =
                run.each_mut().map(|of| of.port(network, output.tensor).to_vec());
            let largest = exact.iter().fold(0.0, |most: f64, x| most.max(f64::from(x.abs())));
            for (exact, rounded) in exact.iter().zip(&rounded) {
                let difference = (f64::from(*exact) - f64::from(*rounded)).abs();
                if difference > 0.0 || difference.is_nan() {
                    worst = worst.max((difference / largest).min(f64::MAX));
                }
            }
        }
    }
    Ok(Some(worst))
}

/// The buffers of a network.
#[derive(Clone)]
struct Activations(Vec<Vec<f32>>);

impl Activations {
    fn new(network: &Network) -> Self {
        Self(network.buffers.iter().map(|buffer| vec![0.0; buffer.bytes as usize / 4]).collect())
    }

    /// The floats of an input or output, which lie side by side.
    fn port(&mut self, network: &Network, tensor: u32) -> &mut [f32] {
        let tensor = &network.tensors[tensor as usize];
        let floats = (tensor.rows() * u64::from(tensor.cols())) as usize;
        &mut self.0[tensor.buffer as usize][tensor.offset as usize..][..floats]
    }

    /// Computes some panels of a layer.
    fn compute(
        &mut self,
        network: &Network,
        layer: &Layer,
        panels: Range<u32>,
        weights: &[f32],
        kernels: &Kernels,
    ) {
        let record = |id: u32| network.tensors.get(id as usize).copied().unwrap_or_default();
        let (inputs, output) = (layer.inputs.map(record), record(layer.output));
        let whole = ops::takes_buffers(layer);
        // Copies, since an input may lie in the output's buffer.
        let data: [_; INPUTS] = std::array::from_fn(|slot| match layer.inputs[slot] {
            NONE => Vec::new(),
            _ => self.0[inputs[slot].buffer as usize].clone(),
        });
        let operand = |slot: usize| match layer.inputs[slot] {
            NONE => Operand::Absent,
            _ if inputs[slot] == output => Operand::Output,
            _ => {
                let [start, rows, cols, pitch] = rectangle(whole, &inputs[slot], data[slot].len());
                let mat = MatRef::new(&data[slot][start..], rows, cols, pitch);
                mat.map_or(Operand::Absent, Operand::Mat)
            }
        };
        let rows = output.rows() as u32;
        let (first, count) = (panels.start, panels.len() as u32);
        let slice = Slice { first, count, row: 0, rows, ..Slice::default() };
        let bytes = ops::scratch_bytes(&Problem {
            layer,
            inputs: &inputs,
            output: &output,
            slice,
            threads: 1,
            isa: network.isa,
        });
        let mut scratch = vec![Line([0; 64]); bytes.div_ceil(64) as usize];
        let made = &mut self.0[output.buffer as usize];
        let [start, rows, cols, pitch] = rectangle(whole, &output, made.len());
        let Some(out) = MatMut::new(&mut made[start..], rows, cols, pitch) else { return };
        ops::run(Call {
            layer,
            inputs,
            output,
            operands: std::array::from_fn(operand),
            out,
            weights: Packed::new(weights),
            prefetch: Default::default(),
            first: first as usize,
            count: count as usize,
            method: Method::default(),
            rows: 0..slice.rows as usize,
            scratch: bytemuck::cast_slice_mut(&mut scratch),
            device: &Inline,
            kernels,
        });
    }
}

/// First float, rows, columns and pitch of a tensor as its operator wants it ([`Operand::Mat`]).
fn rectangle(whole: bool, tensor: &Tensor, floats: usize) -> [usize; 4] {
    let start = tensor.offset as usize;
    match whole {
        true => [0, 1, floats, floats],
        false => [start, tensor.rows() as usize, tensor.cols() as usize, tensor.pitch as usize],
    }
}
