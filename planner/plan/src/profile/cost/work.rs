//! How much work a layer is, as its class of kernels has it.

use super::class::Class;
use super::winograd::Transforms;
use crate::profile::Compute;
use eyelet::pack::{
    ConvParams, CopyParams, Layer, MatMulParams, NONE, OpKind, PoolParams, RecurrentParams,
    SuppressParams, TopKParams, params,
};
use eyelet_model::network::Network;

/// Rows of depthwise convolutions with a stride, of those without: they share no columns with their neighbours. As measured
/// with AVX-512.
const STRIDED: f64 = 2.0;

/// Cost of comparing an element in a scan, as a share of a comparison of any two. As measured with AVX2.
const SCANNED: f64 = 0.5;

/// Cost of a test whether two boxes overlap, as a share of a comparison. As measured with AVX2.
const OVERLAP: f64 = 1.0 / 3.0;

/// All the work of a layer.
pub struct Work {
    pub class: Class,
    /// Floating-point operations, bytes or comparisons, as the class has it.
    pub amount: f64,
    /// Bytes of the inputs.
    pub(super) read: u64,
    /// Bytes of the output.
    pub(super) written: u64,
    /// At least 1.
    pub(super) panels: u64,
    /// Rows of the output, at least 1.
    pub(super) rows: u64,
    /// Pieces, each of which costs something beyond its operations: rows of panels, or frequencies of panels in
    /// Winograd convolutions. 0 for classes whose rate covers all.
    pub pieces: f64,
    /// Bytes of inputs and output.
    pub activations: u64,
}

/// Lanes of a layer that compares elements, and comparisons in each: of numbers in no order, and of boxes of which the
/// best remain, whatever their scores.
fn comparisons(layer: &Layer) -> (f64, f64) {
    let deep = |count: f64| 2.0 * count.max(2.0).log2();
    if layer.kind == OpKind::TopK as u32 {
        let p: TopKParams = params(layer);
        let (all, count) = (f64::from(p.reduce), f64::from(p.count));
        // Each is compared with the last of those that were found, and takes its place the less often the more there
        // are. Those that are found go down the heap once more, into their order.
        let found = count * (1.0 + (all / count.max(1.0)).max(1.0).ln());
        return (f64::from(p.outer) * f64::from(p.inner), SCANNED * all + deep(count) * found);
    }
    let p: SuppressParams = params(layer);
    let (boxes, count) = (f64::from(p.boxes), f64::from(p.count));
    let overlaps = OVERLAP * count * count / 2.0;
    let lanes = f64::from(p.images) * f64::from(p.classes);
    (lanes, (1.0 + SCANNED) * boxes + deep(boxes) * count + overlaps)
}

impl Work {
    pub fn of(network: &Network, layer: &Layer) -> Self {
        let output = &network.tensors[layer.output as usize];
        let rows = output.rows().max(1);
        let panels = u64::from(layer.panels.max(1));
        let written = 4 * rows * u64::from(output.cols());
        let read: u64 = layer
            .inputs
            .iter()
            .filter(|input| **input != NONE)
            .map(|input| &network.tensors[*input as usize])
            .map(|tensor| 4 * tensor.rows() * u64::from(tensor.cols()))
            .sum();
        let class = Class::of(network, layer);
        let product = |factors: &[u32]| factors.iter().copied().map(f64::from).product::<f64>();
        let taps = |kernel: [u32; 2]| product(&kernel.map(|tap| tap.max(1)));
        let width = network.isa.panel() as f64;
        let amount = match class {
            Class::Conv1x1 | Class::ConvKxK | Class::Depthwise | Class::Grouped => {
                let conv: ConvParams = params(layer);
                let input = network.tensors.get(layer.inputs[0] as usize);
                let channels = input.map_or(1, |input| input.cols() / conv.groups.max(1));
                // Panels are computed whole.
                let outputs = width * (panels * rows) as f64;
                2.0 * taps(conv.kernel) * f64::from(channels) * outputs
            }
            Class::Winograd => {
                let Transforms { points, channels, .. } = Transforms::of(network, layer);
                2.0 * points * channels * width * panels as f64
            }
            Class::FullyConnected => panels as f64 * f64::from(layer.panel_bytes),
            Class::MatMul if layer.kind == OpKind::Recurrent as u32 => {
                let p: RecurrentParams = params(layer);
                2.0 * rows as f64 * product(&[p.gates(), p.hidden, p.hidden])
            }
            Class::MatMul => {
                let p: MatMulParams = params(layer);
                2.0 * product(&[p.batch, p.m, p.k, p.n])
            }
            Class::Pool => {
                let pool: PoolParams = params(layer);
                written as f64 * (taps(pool.kernel) + 1.0)
            }
            Class::Copy => {
                let copy: CopyParams = params(layer);
                let filled = if copy.filled != 0 { written as f64 } else { 0.0 };
                8.0 * product(&copy.dims) + filled
            }
            Class::Elementwise | Class::Function => (read + written) as f64,
            Class::Comparison => {
                let (lanes, of_lane) = comparisons(layer);
                lanes * of_lane
            }
        };
        let pieces = match class {
            Class::Conv1x1 | Class::ConvKxK => (panels * rows) as f64,
            Class::Depthwise => {
                let conv: ConvParams = params(layer);
                let strided = conv.stride.iter().any(|stride| *stride > 1);
                (panels * rows) as f64 * if strided { STRIDED } else { 1.0 }
            }
            Class::Winograd => Transforms::of(network, layer).points * panels as f64,
            _ => 0.0,
        };
        let activations = read + written;
        Self { class, amount, read, written, panels, rows, pieces, activations }
    }

    /// How much of the work one thread does at least: of what is compared, a lane.
    pub(super) fn least_share(&self, layer: &Layer) -> f64 {
        match self.class {
            Class::Comparison => 1.0 / comparisons(layer).0.max(1.0),
            _ => 0.0,
        }
    }

    /// Computing it on one thread, without what Winograd's transforms take.
    pub fn ns(&self, compute: &Compute) -> f64 {
        self.amount / self.class.rate(compute) + self.pieces * self.class.piece_ns(compute)
    }
}
