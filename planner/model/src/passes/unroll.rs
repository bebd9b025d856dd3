//! Recurrent networks with the loop over times outside: each time is nodes of its own, whose products read the
//! weights again.
//!
//! A layer of a recurrent network holds all its weights while it computes a sequence. Where they do not fit, each
//! time reads them slice by slice, as any other product does. The bits are those of the layer, as far as its sums
//! are one chain.

use crate::graph::{Cell, Constant, Graph, Node, Op, Recurrence, Value, ValueId};
use eyelet::kernels::table::CHAIN;
use eyelet::pack::{Activation, ActivationKind};
use std::sync::Arc;

/// The most nodes that a network may have for it.
const MOST_NODES: usize = 20_000;

/// The graph with the times of its recurrent networks apart, if it has any. `exact`: only those whose bits stay.
pub fn unrolled(graph: &Graph, exact: bool) -> Option<Graph> {
    let fits = |node: &&Node| match &node.op {
        Op::Recurrent(recurrence) => {
            let weights = node.inputs.get(1).copied().flatten();
            let constant = weights.is_some_and(|value| graph.values[value].constant.is_some());
            constant && (!exact || recurrence.hidden <= CHAIN)
        }
        _ => false,
    };
    let times: usize =
        graph.nodes.iter().filter(fits).map(|node| graph.values[node.outputs[0]].shape[0]).sum();
    if times == 0 || times * 16 > MOST_NODES {
        return None;
    }
    let mut made = Graph { nodes: Vec::new(), ..graph.clone() };
    for node in &graph.nodes {
        match node.op {
            Op::Recurrent(recurrence) if fits(&node) => {
                Unrolling { graph: &mut made, node, of: recurrence, numbers: [None; 2] }.run();
            }
            _ => made.nodes.push(node.clone()),
        }
    }
    Some(made)
}

/// One recurrent network while its nodes are made.
struct Unrolling<'a> {
    graph: &'a mut Graph,
    node: &'a Node,
    of: Recurrence,
    /// Zero, which the state is before the first time, and one, which a gate is subtracted from.
    numbers: [Option<ValueId>; 2],
}

/// Weights of some gates: `[gates · hidden, hidden]`, and their biases.
type Product = (ValueId, Option<ValueId>);

impl Unrolling<'_> {
    fn run(&mut self) {
        let input = |index: usize| self.node.inputs.get(index).copied().flatten();
        let (Some(given), Some(weights)) = (input(0), input(1)) else { return };
        let (biases, peepholes, first) = (input(2), input(3), input(4));
        let output = self.node.outputs[0];
        let &[times, batch, width] = &self.graph.values[given].shape[..] else { return };
        let (hidden, states) = (self.of.hidden, self.of.cell.states());
        let mut state = match first {
            None => [None, None],
            Some(first) if states == 1 => [Some(first), None],
            Some(first) => {
                let sizes = vec![hidden; 2];
                let op = Op::Split { axis: 1, sizes };
                let parts = self.nodes("first", op, &[first], &vec![vec![batch, hidden]; 2]);
                [Some(parts[0]), Some(parts[1])]
            }
        };
        let products = self.products(weights, biases);
        let peepholes = peepholes.map(|all| {
            [0, 1, 2].map(|gate| self.part(all, &format!("peephole{gate}"), gate, 1, &[hidden]))
        });
        let mut made = vec![None; times];
        for step in 0..times {
            let time = if self.of.reverse { times - 1 - step } else { step };
            let at = format!("time{time}");
            let op = Op::Slice { starts: vec![time, 0, 0], steps: vec![1; 3] };
            let line = self.node(&format!("{at}.line"), op, &[given], &[1, batch, width]);
            let line = self.node(&format!("{at}.given"), Op::Reshape, &[line], &[batch, width]);
            state = match self.of.cell {
                Cell::Rnn => [Some(self.rnn(&at, line, &products, state)), None],
                Cell::Gru { reset_after } => {
                    [Some(self.gru(&at, line, &products, state, reset_after)), None]
                }
                Cell::Lstm => self.lstm(&at, line, &products, state, peepholes).map(Some),
            };
            let parts: Vec<ValueId> = state.iter().copied().flatten().collect();
            let columns = states * hidden;
            let whole = match parts[..] {
                [one] => one,
                _ => self.node(
                    &format!("{at}.state"),
                    Op::Concat { axis: 1 },
                    &parts,
                    &[batch, columns],
                ),
            };
            let shape = [1, batch, columns];
            made[time] = Some(self.node(&format!("{at}.row"), Op::Reshape, &[whole], &shape));
        }
        let inputs = made;
        let name = self.node.name.clone();
        let op = if times == 1 { Op::Reshape } else { Op::Concat { axis: 0 } };
        self.graph.nodes.push(Node { name, op, inputs, outputs: vec![output] });
    }

    /// What the state is multiplied with: of GRU the last gate apart.
    fn products(&mut self, weights: ValueId, biases: Option<ValueId>) -> Vec<Product> {
        let hidden = self.of.hidden;
        let gates: &[(usize, usize)] = match self.of.cell {
            Cell::Gru { .. } => &[(0, 2), (2, 1)],
            cell => &[(0, cell.gates())],
        };
        let product = |&(first, count): &(usize, usize)| {
            let (start, rows) = (first * hidden, count * hidden);
            let matrix = [rows, hidden];
            let weights = self.part(weights, &format!("weights{first}"), start, rows, &matrix);
            let name = format!("biases{first}");
            let biases = biases.map(|biases| self.part(biases, &name, start, rows, &[rows]));
            (weights, biases)
        };
        gates.iter().map(product).collect()
    }

    /// `count` rows of a constant from `first` on, in this shape.
    fn part(
        &mut self,
        of: ValueId,
        name: &str,
        first: usize,
        count: usize,
        shape: &[usize],
    ) -> ValueId {
        let each = shape.iter().product::<usize>() / count;
        let constant = self.graph.values[of].constant.as_ref().map(|constant| match constant {
            Constant::Raw(bytes, encoding) => {
                let bytes_of = each * encoding.weight_bytes();
                Constant::Raw(bytes.slice(first * bytes_of..(first + count) * bytes_of), *encoding)
            }
            other => {
                let numbers = (first * each..(first + count) * each).map(|at| other.get(at));
                Constant::Owned(Arc::new(numbers.collect()))
            }
        });
        self.value(name, shape, constant)
    }

    fn value(&mut self, name: &str, shape: &[usize], constant: Option<Constant>) -> ValueId {
        let name = format!("{}/{name}", self.node.name);
        let kind = self.graph.values[self.node.outputs[0]].kind;
        self.graph.values.push(Value { name, shape: shape.to_vec(), kind, constant });
        self.graph.values.len() - 1
    }

    fn nodes(
        &mut self,
        name: &str,
        op: Op,
        inputs: &[ValueId],
        shapes: &[Vec<usize>],
    ) -> Vec<ValueId> {
        let outputs: Vec<ValueId> =
            shapes.iter().map(|shape| self.value(name, shape, None)).collect();
        let inputs = inputs.iter().map(|&input| Some(input)).collect();
        let name = format!("{}/{name}", self.node.name);
        self.graph.nodes.push(Node { name, op, inputs, outputs: outputs.clone() });
        outputs
    }

    fn node(&mut self, name: &str, op: Op, inputs: &[ValueId], shape: &[usize]) -> ValueId {
        self.nodes(name, op, inputs, &[shape.to_vec()])[0]
    }

    /// Of two values of one shape, or a constant of one line of it.
    fn pair(&mut self, name: &str, op: Op, a: ValueId, b: ValueId) -> ValueId {
        let [one, other] = [a, b].map(|value| self.graph.values[value].shape.clone());
        let shape = if one.len() >= other.len() { one } else { other };
        self.node(name, op, &[a, b], &shape)
    }

    /// Zero or one.
    fn number(&mut self, number: usize) -> ValueId {
        if let Some(value) = self.numbers[number] {
            return value;
        }
        let constant = Constant::Owned(Arc::new(vec![number as f32]));
        let value = self.value(["zero", "one"][number], &[1], Some(constant));
        self.numbers[number] = Some(value);
        value
    }

    /// A function of a constant's numbers.
    fn mapped(&mut self, name: &str, constant: ValueId, function: fn(f32) -> f32) -> ValueId {
        let Value { shape, constant, .. } = &self.graph.values[constant];
        let numbers = constant.as_ref().map(|constant| constant.to_vec());
        let numbers = numbers.map(|all| all.iter().copied().map(function).collect());
        self.value(name, &shape.clone(), numbers.map(|all| Constant::Owned(Arc::new(all))))
    }

    /// The product of the state with weights. Of a state of zeros it is the biases, if there are any, added to zero.
    fn product(
        &mut self,
        name: &str,
        (weights, biases): Product,
        state: Option<ValueId>,
        batch: usize,
    ) -> ValueId {
        let rows = self.graph.values[weights].shape[0];
        let Some(state) = state else {
            return match biases {
                Some(biases) => self.mapped(name, biases, |bias| bias + 0.0),
                None => self.number(0),
            };
        };
        let op = Op::Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: true };
        let inputs: Vec<ValueId> = [state, weights].into_iter().chain(biases).collect();
        self.node(name, op, &inputs, &[batch, rows])
    }

    /// Gates that are clipped, and a function of them.
    fn function(&mut self, name: &str, which: usize, mut x: ValueId) -> ValueId {
        let shape = self.graph.values[x].shape.clone();
        if self.of.clip < f32::INFINITY {
            let op = Op::Clip { min: -self.of.clip, max: self.of.clip };
            x = self.node(&format!("{name}.clip"), op, &[x], &shape);
        }
        match operator(&self.of.functions[which]) {
            Some(op) => self.node(name, op, &[x], &shape),
            None => x,
        }
    }

    /// Gates as values of their own.
    fn gates(&mut self, name: &str, all: ValueId, count: usize) -> Vec<ValueId> {
        let hidden = self.of.hidden;
        let batch = self.graph.values[all].shape[0];
        let op = Op::Split { axis: 1, sizes: vec![hidden; count] };
        self.nodes(name, op, &[all], &vec![vec![batch, hidden]; count])
    }

    fn rnn(
        &mut self,
        at: &str,
        given: ValueId,
        products: &[Product],
        [state, _]: [Option<ValueId>; 2],
    ) -> ValueId {
        let batch = self.graph.values[given].shape[0];
        let product = self.product(&format!("{at}.product"), products[0], state, batch);
        let sum = self.pair(&format!("{at}.sum"), Op::Add, product, given);
        self.function(&format!("{at}.h"), 0, sum)
    }

    fn gru(
        &mut self,
        at: &str,
        given: ValueId,
        products: &[Product],
        [state, _]: [Option<ValueId>; 2],
        reset_after: bool,
    ) -> ValueId {
        let hidden = self.of.hidden;
        let batch = self.graph.values[given].shape[0];
        let name = |part: &str| format!("{at}.{part}");
        let op = Op::Split { axis: 1, sizes: vec![2 * hidden, hidden] };
        let shapes = [vec![batch, 2 * hidden], vec![batch, hidden]];
        let parts = self.nodes(&name("parts"), op, &[given], &shapes);
        let product = self.product(&name("product"), products[0], state, batch);
        let both = self.pair(&name("sum"), Op::Add, product, parts[0]);
        let both = self.function(&name("zr"), 0, both);
        let zr = self.gates(&name("gates"), both, 2);
        let (z, r) = (zr[0], zr[1]);
        let from = match (state, reset_after) {
            (Some(state), false) => Some(self.pair(&name("reset"), Op::Mul, r, state)),
            (state, _) => state,
        };
        let mut product = self.product(&name("product_n"), products[1], from, batch);
        if reset_after {
            product = self.pair(&name("reset"), Op::Mul, product, r);
        }
        let n = self.pair(&name("sum_n"), Op::Add, product, parts[1]);
        let n = self.function(&name("n"), 1, n);
        let one = self.number(1);
        let rest = self.pair(&name("rest"), Op::Sub, one, z);
        let new = self.pair(&name("new"), Op::Mul, rest, n);
        let state = state.unwrap_or_else(|| self.number(0));
        let old = self.pair(&name("old"), Op::Mul, z, state);
        self.pair(&name("h"), Op::Add, new, old)
    }

    fn lstm(
        &mut self,
        at: &str,
        given: ValueId,
        products: &[Product],
        [state, cell]: [Option<ValueId>; 2],
        peepholes: Option<[ValueId; 3]>,
    ) -> [ValueId; 2] {
        let batch = self.graph.values[given].shape[0];
        let name = |part: &str| format!("{at}.{part}");
        let product = self.product(&name("product"), products[0], state, batch);
        let all = self.pair(&name("sum"), Op::Add, product, given);
        let gates = self.gates(&name("gates"), all, 4);
        // Peepholes are of i, o and f, as the gates are in ONNX's order.
        let peep = |this: &mut Self, gate: usize, cell: Option<ValueId>| {
            let Some(peepholes) = peepholes else { return gates[gate] };
            let seen = name(&format!("seen{gate}"));
            let seen = match cell {
                Some(cell) => this.pair(&seen, Op::Mul, cell, peepholes[gate]),
                None => this.mapped(&seen, peepholes[gate], |weight| weight * 0.0),
            };
            this.pair(&name(&format!("peeped{gate}")), Op::Add, gates[gate], seen)
        };
        let i = peep(self, 0, cell);
        let i = self.function(&name("i"), 0, i);
        let n = self.function(&name("n"), 1, gates[3]);
        let new = self.pair(&name("in"), Op::Mul, i, n);
        let f = peep(self, 2, cell);
        let f = self.function(&name("f"), 0, f);
        let cell = cell.unwrap_or_else(|| self.number(0));
        let kept = self.pair(&name("kept"), Op::Mul, f, cell);
        let c = self.pair(&name("c"), Op::Add, kept, new);
        let o = peep(self, 1, Some(c));
        let o = self.function(&name("o"), 0, o);
        let shape = self.graph.values[c].shape.clone();
        let out = match operator(&self.of.functions[2]) {
            Some(op) => self.node(&name("function"), op, &[c], &shape),
            None => c,
        };
        [self.pair(&name("h"), Op::Mul, o, out), c]
    }
}

/// The operator of a gate's function; `None` for none.
fn operator(function: &Activation) -> Option<Op> {
    let &Activation { alpha, beta, .. } = function;
    Some(match function.function()? {
        ActivationKind::Sigmoid => Op::Sigmoid,
        ActivationKind::Tanh => Op::Tanh,
        ActivationKind::Clamp if alpha == f32::NEG_INFINITY && beta == f32::INFINITY => {
            return None;
        }
        ActivationKind::Clamp => Op::Clip { min: alpha, max: beta },
        ActivationKind::LeakyRelu => Op::LeakyRelu { alpha },
        ActivationKind::HardSigmoid => Op::HardSigmoid { alpha, beta },
        _ => return None,
    })
}
