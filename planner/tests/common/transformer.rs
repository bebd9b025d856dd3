//! A transformer small enough for every test: one block on six token ids.

use super::net::Net;
use eyelet::pack::PortType;
use eyelet_planner::graph::{Graph, Op, ValueId};

/// Entries of the table of embeddings.
pub const ENTRIES: usize = 11;
const TOKENS: usize = 6;
const HEADS: usize = 2;
const WIDTH: usize = 24;

impl Net {
    fn linear(&mut self, x: ValueId, from: usize, to: usize) -> ValueId {
        let (weights, bias) = (self.weights(&[from, to]), self.weights(&[to]));
        let y = self.node(Op::MatMul, &[x, weights], &[1, TOKENS, to]);
        self.same(Op::Add, &[y, bias])
    }

    fn norm(&mut self, x: ValueId) -> ValueId {
        let (scale, shift) = (self.weights(&[WIDTH]), self.weights(&[WIDTH]));
        self.same(Op::LayerNorm { axis: 2, epsilon: 1e-5 }, &[x, scale, shift])
    }

    fn heads(&mut self, x: ValueId, perm: [usize; 4]) -> ValueId {
        let split = [1, TOKENS, HEADS, WIDTH / HEADS];
        let x = self.node(Op::Reshape, &[x], &split);
        self.node(Op::Transpose { perm: perm.to_vec() }, &[x], &perm.map(|axis| split[axis]))
    }

    fn attention(&mut self, x: ValueId) -> ValueId {
        let [q, k, v] = [(); 3].map(|()| self.linear(x, WIDTH, WIDTH));
        let (q, v) = (self.heads(q, [0, 2, 1, 3]), self.heads(v, [0, 2, 1, 3]));
        let k = self.heads(k, [0, 2, 3, 1]);
        let scores = self.node(Op::MatMul, &[q, k], &[1, HEADS, TOKENS, TOKENS]);
        let factor = self.value(&[], Some(vec![0.125]));
        let scores = self.same(Op::Mul, &[scores, factor]);
        let past = |at: usize| at % TOKENS <= at / TOKENS;
        let mask = (0..TOKENS * TOKENS).map(|at| if past(at) { f32::NAN } else { f32::MIN });
        let mask = self.value(&[1, 1, TOKENS, TOKENS], Some(mask.collect()));
        let scores = self.same(Op::Mask, &[scores, mask]);
        let weights = self.same(Op::Softmax { axis: 3, flat: false }, &[scores]);
        let y = self.same(Op::MatMul, &[weights, v]);
        self.0.values[y].shape = vec![1, HEADS, TOKENS, WIDTH / HEADS];
        let perm = vec![0, 2, 1, 3];
        let y = self.node(Op::Transpose { perm }, &[y], &[1, TOKENS, HEADS, WIDTH / HEADS]);
        let y = self.node(Op::Reshape, &[y], &[1, TOKENS, WIDTH]);
        self.linear(y, WIDTH, WIDTH)
    }
}

/// The graph.
pub fn transformer() -> Graph {
    let mut net = Net::default();
    let ids = net.value(&[1, TOKENS], None);
    net.0.values[ids].kind = PortType::Int64;
    net.0.inputs.push(ids);
    let table = net.weights(&[ENTRIES, WIDTH]);
    let x = net.node(Op::Gather, &[table, ids], &[1, TOKENS, WIDTH]);
    let positions = net.weights(&[1, TOKENS, WIDTH]);
    let x = net.same(Op::Add, &[x, positions]);
    let y = net.norm(x);
    let y = net.attention(y);
    let x = net.same(Op::Add, &[x, y]);
    let y = net.norm(x);
    let y = net.linear(y, WIDTH, 40);
    let y = net.same(Op::Gelu { tanh: false }, &[y]);
    let y = net.linear(y, 40, WIDTH);
    let y = net.same(Op::Add, &[x, y]);
    net.0.outputs.push(y);
    net.0
}
