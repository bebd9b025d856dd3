//! Attention, and the products and sums that it is made of.

use super::Net;
use crate::graph::{Op, ValueId};

impl Net {
    pub fn number(&mut self, value: f32) -> ValueId {
        self.value(&[], Some(vec![value]))
    }

    pub fn with(&mut self, op: Op, x: ValueId, number: f32) -> ValueId {
        let number = self.number(number);
        self.same(op, &[x, number])
    }

    pub fn linear(&mut self, x: ValueId, n: usize) -> ValueId {
        let mut shape = self.shape(x);
        let k = shape.pop().unwrap();
        shape.push(n);
        let (w, bias) = (self.constant(&[k, n]), self.constant(&[n]));
        let y = self.node(Op::MatMul, &[x, w], &shape);
        self.same(Op::Add, &[y, bias])
    }
}

/// Attention as exporters write it, from one product for queries, keys and values.
pub fn attention(net: &mut Net, x: ValueId, heads: usize, gathered: bool) -> ValueId {
    let shape = net.shape(x);
    let (n, width) = (shape[1], shape[2]);
    let head = width / heads;
    let qkv = net.linear(x, 3 * width);
    let parts: Vec<ValueId> = if gathered {
        let all = net.reshape(qkv, &[n, 1, 3, width]);
        let all = net.reshape(all, &[1, n, 1, 3, width]);
        let all = net.transpose(all, &[3, 1, 2, 0, 4]);
        let all = net.reshape(all, &[3, n, 1, width]);
        let part = |i: usize| {
            let op = Op::Slice { starts: vec![i, 0, 0, 0], steps: vec![1; 4] };
            let x = net.node(op, &[all], &[1, n, 1, width]);
            let x = net.reshape(x, &[n, heads, head]);
            let x = net.transpose(x, &[1, 0, 2]);
            net.reshape(x, &[1, heads, n, head])
        };
        (0..3).map(part).collect()
    } else {
        let op = Op::Split { axis: 2, sizes: vec![width; 3] };
        let parts = net.nodes(op, &[qkv], &[&[1, n, width][..]; 3]);
        let head = |x: ValueId| {
            let x = net.reshape(x, &[1, n, heads, head]);
            net.transpose(x, &[0, 2, 1, 3])
        };
        parts.into_iter().map(head).collect()
    };
    let k = net.transpose(parts[1], &[0, 1, 3, 2]);
    let scores = if gathered {
        let (q, k) = (net.with(Op::Mul, parts[0], 0.5), net.with(Op::Mul, k, 0.5));
        net.node(Op::MatMul, &[q, k], &[1, heads, n, n])
    } else {
        let scores = net.node(Op::MatMul, &[parts[0], k], &[1, heads, n, n]);
        net.with(Op::Div, scores, 4.0)
    };
    let weights = net.same(Op::Softmax { axis: 3, flat: false }, &[scores]);
    let y = net.node(Op::MatMul, &[weights, parts[2]], &[1, heads, n, head]);
    let y = net.transpose(y, &[0, 2, 1, 3]);
    let y = net.reshape(y, &[1, n, width]);
    net.linear(y, width)
}
