//! What tests of several crates share: graphs built by hand ([`Net`]) or drawn at random ([`grown`]), and
//! networks with plans made naively ([`example`]).

mod attention;
pub mod example;
mod random;

pub use attention::attention;
pub use random::{Draw, grown};

use crate::graph::{Constant, Graph, Node, Op, Value, ValueId, Window};
use eyelet::pack::PortType;
use std::sync::Arc;

/// A graph under construction; every value that is passed to `output` is one.
#[derive(Clone, Default)]
pub struct Net {
    pub graph: Graph,
    pub seed: u64,
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
            kind: PortType::default(),
            constant: constant.map(|data| Constant::Owned(Arc::new(data))),
        });
        self.graph.values.len() - 1
    }

    /// A constant with values in [-1, 1).
    pub fn constant(&mut self, shape: &[usize]) -> ValueId {
        let data = (0..shape.iter().product()).map(|_| self.uniform()).collect();
        self.value(shape, Some(data))
    }

    /// A constant with values in [0.5, 1.5).
    pub fn positive(&mut self, shape: &[usize]) -> ValueId {
        let data = (0..shape.iter().product()).map(|_| 1.0 + 0.5 * self.uniform()).collect();
        self.value(shape, Some(data))
    }

    /// In [-1, 1).
    pub fn uniform(&mut self) -> f32 {
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
}

/// A square window.
pub fn window(kernel: usize, stride: usize, pad: usize) -> Window {
    Window {
        kernel: [kernel; 2],
        stride: [stride; 2],
        dilation: [1; 2],
        pad_begin: [pad; 2],
        pad_end: [pad; 2],
    }
}

/// The output's extent along one axis.
pub fn extent(input: usize, window: &Window, i: usize) -> usize {
    let padded = input + window.pad_begin[i] + window.pad_end[i];
    (padded - window.dilation[i] * (window.kernel[i] - 1) - 1) / window.stride[i] + 1
}
