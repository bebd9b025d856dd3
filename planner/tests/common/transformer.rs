//! A transformer small enough for every test: one block on six token ids, or on others.

use super::net::Net;
use eyelet::pack::PortType;
use eyelet_planner::graph::{Graph, Op, ValueId};

/// Entries of the table of embeddings.
pub const ENTRIES: usize = 11;
const TOKENS: usize = 6;
const HEADS: usize = 2;
const WIDTH: usize = 24;

impl Net {
    fn tokens(&self, x: ValueId) -> usize {
        self.0.values[x].shape[1]
    }

    fn linear(&mut self, x: ValueId, from: usize, to: usize) -> ValueId {
        let (weights, bias) = (self.weights(&[from, to]), self.weights(&[to]));
        let tokens = self.tokens(x);
        let y = self.node(Op::MatMul, &[x, weights], &[1, tokens, to]);
        self.same(Op::Add, &[y, bias])
    }

    fn norm(&mut self, x: ValueId) -> ValueId {
        let (scale, shift) = (self.weights(&[WIDTH]), self.weights(&[WIDTH]));
        self.same(Op::LayerNorm { axis: 2, epsilon: 1e-5 }, &[x, scale, shift])
    }

    fn heads(&mut self, x: ValueId, perm: [usize; 4]) -> ValueId {
        let split = [1, self.tokens(x), HEADS, WIDTH / HEADS];
        let x = self.node(Op::Reshape, &[x], &split);
        self.node(Op::Transpose { perm: perm.to_vec() }, &[x], &perm.map(|axis| split[axis]))
    }

    fn attention(&mut self, x: ValueId) -> ValueId {
        let tokens = self.tokens(x);
        let [q, k, v] = [(); 3].map(|()| self.linear(x, WIDTH, WIDTH));
        let (q, v) = (self.heads(q, [0, 2, 1, 3]), self.heads(v, [0, 2, 1, 3]));
        let k = self.heads(k, [0, 2, 3, 1]);
        let scores = self.node(Op::MatMul, &[q, k], &[1, HEADS, tokens, tokens]);
        let factor = self.value(&[], Some(vec![0.125]));
        let scores = self.same(Op::Mul, &[scores, factor]);
        let past = |at: usize| at % tokens <= at / tokens;
        let mask = (0..tokens * tokens).map(|at| if past(at) { f32::NAN } else { f32::MIN });
        let mask = self.value(&[1, 1, tokens, tokens], Some(mask.collect()));
        let scores = self.same(Op::Mask, &[scores, mask]);
        let weights = self.same(Op::Softmax { axis: 3, flat: false }, &[scores]);
        let y = self.same(Op::MatMul, &[weights, v]);
        self.0.values[y].shape = vec![1, HEADS, tokens, WIDTH / HEADS];
        let perm = vec![0, 2, 1, 3];
        let y = self.node(Op::Transpose { perm }, &[y], &[1, tokens, HEADS, WIDTH / HEADS]);
        let y = self.node(Op::Reshape, &[y], &[1, tokens, WIDTH]);
        self.linear(y, WIDTH, WIDTH)
    }
}

/// Entries of a table that is also the matrix of the last product: so many that it has a place of its
/// own even in 8 bits.
const TIED: usize = 1500;

/// The same, with a score for each entry of the table of embeddings.
pub fn tied() -> Graph {
    let (mut net, table, y) = block(TOKENS, TIED);
    let y = net.norm(y);
    let rows = net.0.values[table].constant.as_ref().map(|data| data.to_vec()).unwrap();
    let turned = (0..TIED * WIDTH).map(|at| rows[at % TIED * WIDTH + at / TIED]).collect();
    let matrix = net.value(&[WIDTH, TIED], Some(turned));
    let scores = net.node(Op::MatMul, &[y, matrix], &[1, TOKENS, TIED]);
    net.0.outputs.push(scores);
    net.0
}

/// The graph.
pub fn transformer() -> Graph {
    transformer_of(TOKENS)
}

/// The graph for so many tokens. The weights are the same for all numbers of them, but for those of
/// the positions and the mask.
pub fn transformer_of(tokens: usize) -> Graph {
    let (mut net, _, y) = block(tokens, ENTRIES);
    net.0.outputs.push(y);
    net.0
}

/// One block on so many ids of a table of so many entries; the table, and what the block makes.
fn block(tokens: usize, entries: usize) -> (Net, ValueId, ValueId) {
    let mut net = Net::default();
    let ids = net.value(&[1, tokens], None);
    net.0.values[ids].kind = PortType::Int64;
    net.0.inputs.push(ids);
    let table = net.weights(&[entries, WIDTH]);
    let x = net.node(Op::Gather, &[table, ids], &[1, tokens, WIDTH]);
    let positions = net.weights(&[1, tokens, WIDTH]);
    let x = net.same(Op::Add, &[x, positions]);
    let y = net.norm(x);
    let y = net.attention(y);
    let x = net.same(Op::Add, &[x, y]);
    let y = net.norm(x);
    let y = net.linear(y, WIDTH, 40);
    let y = net.same(Op::Gelu { tanh: false }, &[y]);
    let y = net.linear(y, 40, WIDTH);
    let y = net.same(Op::Add, &[x, y]);
    (net, table, y)
}
