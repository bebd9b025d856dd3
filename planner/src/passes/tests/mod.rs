//! Lowering is tested by running what comes out: a plain interpreter of the records ([`interpret`])
//! against the graph's own ([`crate::reference`]), both in double precision, over graphs
//! built by hand and drawn at random.

mod chains;
mod fusion;
mod interpret;
mod layout;
mod models;
mod random;
mod range;
mod sliding;
mod transformers;

use crate::graph::{Constant, Graph, Node, Op, Value, ValueId, Window};
use crate::network::Network;
use crate::passes::lower;
use eyelet::kernels::Isa;
use eyelet::pack::{OpKind, Tensor};
use std::sync::Arc;

/// A graph under construction; every value that is passed to `output` is one.
#[derive(Clone, Default)]
pub(super) struct Net {
    pub graph: Graph,
    seed: u64,
}

impl Net {
    pub fn input(shape: &[usize]) -> (Self, ValueId) {
        let mut net = Self::default();
        let x = net.add_input(shape);
        (net, x)
    }

    pub fn add_input(&mut self, shape: &[usize]) -> ValueId {
        let x = self.value(shape, None);
        self.graph.inputs.push(x);
        x
    }

    pub fn value(&mut self, shape: &[usize], constant: Option<Vec<f32>>) -> ValueId {
        self.graph.values.push(Value {
            name: format!("v{}", self.graph.values.len()),
            shape: shape.to_vec(),
            constant: constant.map(|data| Constant::Owned(Arc::new(data))),
        });
        self.graph.values.len() - 1
    }

    /// A constant with values in [-1, 1).
    pub fn constant(&mut self, shape: &[usize]) -> ValueId {
        let data = (0..shape.iter().product()).map(|_| self.next()).collect();
        self.value(shape, Some(data))
    }

    /// A constant with values in [0.5, 1.5).
    pub fn positive(&mut self, shape: &[usize]) -> ValueId {
        let data = (0..shape.iter().product()).map(|_| 1.0 + 0.5 * self.next()).collect();
        self.value(shape, Some(data))
    }

    pub fn next(&mut self) -> f32 {
        self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.seed >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub fn shape(&self, value: ValueId) -> Vec<usize> {
        self.graph.values[value].shape.clone()
    }

    pub fn nodes(&mut self, op: Op, inputs: &[ValueId], shapes: &[&[usize]]) -> Vec<ValueId> {
        let outputs: Vec<ValueId> = shapes.iter().map(|shape| self.value(shape, None)).collect();
        self.graph.nodes.push(Node {
            name: format!("n{}", self.graph.nodes.len()),
            op,
            inputs: inputs.iter().map(|&value| Some(value)).collect(),
            outputs: outputs.clone(),
        });
        outputs
    }

    pub fn node(&mut self, op: Op, inputs: &[ValueId], shape: &[usize]) -> ValueId {
        self.nodes(op, inputs, &[shape])[0]
    }

    /// A node whose output has its first input's shape.
    pub fn same(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        let shape = self.shape(inputs[0]);
        self.node(op, inputs, &shape)
    }

    pub fn relu(&mut self, x: ValueId) -> ValueId {
        self.same(Op::Clip { min: 0.0, max: f32::INFINITY }, &[x])
    }

    pub fn conv(&mut self, x: ValueId, channels: usize, window: Window, groups: usize) -> ValueId {
        let shape = self.shape(x);
        let w = self.constant(&[channels, shape[1] / groups, window.kernel[0], window.kernel[1]]);
        let b = self.constant(&[channels]);
        let out = [shape[0], channels, extent(shape[2], &window, 0), extent(shape[3], &window, 1)];
        self.node(Op::Conv { window, groups }, &[x, w, b], &out)
    }

    pub fn conv1(&mut self, x: ValueId, channels: usize) -> ValueId {
        self.conv(x, channels, window(1, 1, 0), 1)
    }

    pub fn conv3(&mut self, x: ValueId, channels: usize) -> ValueId {
        self.conv(x, channels, window(3, 1, 1), 1)
    }

    pub fn batch_norm(&mut self, x: ValueId) -> ValueId {
        let c = self.shape(x)[1];
        let (a, b, m, v) =
            (self.constant(&[c]), self.constant(&[c]), self.constant(&[c]), self.positive(&[c]));
        self.same(Op::BatchNorm { epsilon: 1e-3 }, &[x, a, b, m, v])
    }

    pub fn concat(&mut self, parts: &[ValueId], axis: usize) -> ValueId {
        let mut shape = self.shape(parts[0]);
        shape[axis] = parts.iter().map(|&part| self.shape(part)[axis]).sum();
        self.node(Op::Concat { axis }, parts, &shape)
    }

    pub fn reshape(&mut self, x: ValueId, shape: &[usize]) -> ValueId {
        self.node(Op::Reshape, &[x], shape)
    }

    pub fn transpose(&mut self, x: ValueId, perm: &[usize]) -> ValueId {
        let shape: Vec<usize> = perm.iter().map(|&axis| self.shape(x)[axis]).collect();
        self.node(Op::Transpose { perm: perm.to_vec() }, &[x], &shape)
    }

    /// x · wᵀ + c over rows.
    pub fn gemm(&mut self, x: ValueId, n: usize) -> ValueId {
        let shape = self.shape(x);
        let (w, c) = (self.constant(&[n, shape[1]]), self.constant(&[n]));
        let op = Op::Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: true };
        self.node(op, &[x, w, c], &[shape[0], n])
    }

    pub fn output(&mut self, value: ValueId) {
        self.graph.outputs.push(value);
    }

    /// Lowers with `value` as the output for every instruction set, checks the result against the
    /// reference, and returns the network.
    pub fn check(mut self, value: ValueId) -> Network {
        self.output(value);
        self.check_all()
    }

    pub fn check_all(self) -> Network {
        self.check_within(1e-2)
    }

    /// Errors are judged against the largest magnitude of an output, or `floor` if that is larger.
    pub fn check_within(mut self, floor: f64) -> Network {
        let mut networks = Vec::new();
        let shapes: Vec<_> = self.graph.inputs.iter().map(|&x| self.shape(x)).collect();
        let inputs: Vec<Vec<f64>> = (shapes.iter())
            .map(|shape| (0..shape.iter().product()).map(|_| self.next().into()).collect())
            .collect();
        let expected = crate::reference::run(&self.graph, &inputs);
        for isa in [Isa::Portable, Isa::Avx512, Isa::Cuda] {
            let network = lower(&self.graph, isa).unwrap();
            let found = interpret::run(&network, &inputs);
            for ((found, expected), port) in found.iter().zip(&expected).zip(&network.outputs) {
                assert_eq!(found.len(), expected.len());
                let scale = expected.iter().fold(floor, |max: f64, value| max.max(value.abs()));
                for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
                    let error = (found - expected).abs();
                    let context = || format!("{} [{i}]: {found}, not {expected}\n", port.name);
                    assert!(error <= 1e-4 * scale, "{}{}", context(), describe(&network));
                }
            }
            networks.push(network);
        }
        networks.remove(0)
    }
}

/// A square window.
pub(super) fn window(kernel: usize, stride: usize, pad: usize) -> Window {
    Window {
        kernel: [kernel; 2],
        stride: [stride; 2],
        dilation: [1; 2],
        pad_begin: [pad; 2],
        pad_end: [pad; 2],
    }
}

/// The output's extent along one axis.
pub(super) fn extent(input: usize, window: &Window, i: usize) -> usize {
    let padded = input + window.pad_begin[i] + window.pad_end[i];
    (padded - window.dilation[i] * (window.kernel[i] - 1) - 1) / window.stride[i] + 1
}

/// The layers' operators.
pub(super) fn kinds(network: &Network) -> Vec<OpKind> {
    network.layers.iter().map(|layer| OpKind::from_code(layer.kind).unwrap()).collect()
}

pub(super) fn output_of(network: &Network, layer: usize) -> Tensor {
    network.tensors[network.layers[layer].output as usize]
}

pub(super) fn input_of(network: &Network, layer: usize, index: usize) -> Tensor {
    network.tensors[network.layers[layer].inputs[index] as usize]
}

/// The network in words, for failures.
fn describe(network: &Network) -> String {
    let mut text = String::new();
    for (i, layer) in network.layers.iter().enumerate() {
        let kind = OpKind::from_code(layer.kind).unwrap();
        text += &format!("{i} {} {kind:?} {:?} -> ", network.names[i], layer.activation.function());
        text += &format!("{:?}\n", network.tensors[layer.output as usize]);
        for &input in layer.inputs.iter().filter(|&&input| input != eyelet::pack::NONE) {
            text += &format!("      {:?}\n", network.tensors[input as usize]);
        }
    }
    text
}
