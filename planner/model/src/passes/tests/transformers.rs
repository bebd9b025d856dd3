//! What transformers are made of: normalisation, GELU, attention, embeddings, masks.

use super::*;
use crate::graph::Quantised;
use crate::layout::place_weights;
use crate::testing::attention;
use crate::weights::encode;
use eyelet::pack::{ActivationKind, BinaryOp, BinaryParams, Encoding, ReduceOp, params};
use std::sync::Arc;

impl Net {
    /// Layer normalisation over the last axis in seven nodes, scale and shift in two.
    fn decomposed_norm(&mut self, x: ValueId, twice: bool) -> ValueId {
        let mut shape = self.shape(x);
        let width = shape.pop().unwrap();
        let axes = vec![shape.len()];
        shape.push(1);
        let mean = |net: &mut Self, x| {
            net.node(
                Op::Reduce { op: ReduceOp::Mean, axes: axes.clone(), keep: true },
                &[x],
                &shape,
            )
        };
        let average = mean(self, x);
        let difference = self.same(Op::Sub, &[x, average]);
        let again = if twice { self.same(Op::Sub, &[x, average]) } else { difference };
        let square = self.same(Op::Mul, &[again, again]);
        let variance = mean(self, square);
        let sum = self.with(Op::Add, variance, 1e-3);
        let root = self.same(Op::Sqrt, &[sum]);
        let y = self.same(Op::Div, &[difference, root]);
        let (scale, shift) = (self.constant(&[width]), self.constant(&[width]));
        let y = self.same(Op::Mul, &[y, scale]);
        self.same(Op::Add, &[y, shift])
    }

    fn norm(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        let axis = shape.len() - 1;
        let (scale, shift) = (self.constant(&shape[axis..]), self.constant(&shape[axis..]));
        self.same(Op::LayerNorm { axis, epsilon: 1e-3 }, &[x, scale, shift])
    }

    fn erf_gelu(&mut self, x: ValueId, form: usize) -> ValueId {
        let inner = match form {
            0 => self.with(Op::Div, x, std::f32::consts::SQRT_2),
            _ => self.with(Op::Mul, x, std::f32::consts::FRAC_1_SQRT_2),
        };
        let erf = self.same(Op::Erf, &[inner]);
        let gate = self.with(Op::Add, erf, 1.0);
        match form {
            0 => {
                let y = self.same(Op::Mul, &[x, gate]);
                self.with(Op::Mul, y, 0.5)
            }
            1 => {
                let half = self.with(Op::Mul, x, 0.5);
                self.same(Op::Mul, &[gate, half])
            }
            _ => {
                let half = self.with(Op::Mul, gate, 0.5);
                self.same(Op::Mul, &[x, half])
            }
        }
    }

    fn tanh_gelu(&mut self, x: ValueId, form: usize) -> ValueId {
        let square = self.same(Op::Mul, &[x, x]);
        let inner = if form == 0 {
            let cube = self.same(Op::Mul, &[square, x]);
            let cube = self.with(Op::Mul, cube, 0.044715);
            let sum = self.same(Op::Add, &[x, cube]);
            self.with(Op::Mul, sum, 0.797_884_6)
        } else {
            let square = self.with(Op::Mul, square, 0.044715);
            let sum = self.with(Op::Add, square, 1.0);
            let root = self.with(Op::Mul, x, 0.797_884_6);
            self.same(Op::Mul, &[root, sum])
        };
        let tanh = self.same(Op::Tanh, &[inner]);
        let gate = self.with(Op::Add, tanh, 1.0);
        let half = self.with(Op::Mul, x, 0.5);
        self.same(Op::Mul, &[half, gate])
    }

    /// A constant whose first `count` entries of the last axis are NaN, the others `value`.
    fn mask(&mut self, shape: &[usize], count: usize, value: f32) -> ValueId {
        let width = shape[shape.len() - 1];
        let at = |i: usize| if i % width < count { f32::NAN } else { value };
        self.value(shape, Some((0..shape.iter().product()).map(at).collect()))
    }
}

fn functions(network: &Network) -> Vec<ActivationKind> {
    network.layers.iter().map(|layer| layer.activation.function().unwrap()).collect()
}

#[test]
fn gelu_in_every_form_is_an_activation() {
    for form in 0..3 {
        let (mut net, x) = Net::input(&[1, 5, 12]);
        let x = net.linear(x, 20);
        let y = net.erf_gelu(x, form);
        let network = net.check(y);
        assert_eq!(kinds(&network), [OpKind::Conv], "{form}");
        assert_eq!(functions(&network), [ActivationKind::Gelu], "{form}");
    }
    for form in 0..2 {
        let (mut net, x) = Net::input(&[1, 5, 12]);
        let x = net.linear(x, 20);
        let y = net.tanh_gelu(x, form);
        let network = net.check(y);
        assert_eq!(functions(&network), [ActivationKind::GeluTanh], "{form}");
    }
    for tanh in [false, true] {
        let (mut net, x) = Net::input(&[1, 5, 12]);
        let y = net.same(Op::Gelu { tanh }, &[x]);
        assert_eq!(kinds(&net.check(y)), [OpKind::Unary]);
    }
}

#[test]
fn an_activation_joins_what_lies_behind_views() {
    let (mut net, x) = Net::input(&[5, 12]);
    let x = net.gemm(x, 20);
    let x = net.reshape(x, &[1, 5, 20]);
    let x = net.transpose(x, &[0, 2, 1]);
    let y = net.tanh_gelu(x, 0);
    let network = net.check(y);
    assert_eq!(kinds(&network), [OpKind::Conv, OpKind::Copy]);
    assert_eq!(functions(&network)[0], ActivationKind::GeluTanh);
    // the view is read by others
    let (mut net, x) = Net::input(&[5, 12]);
    let x = net.gemm(x, 20);
    let x = net.reshape(x, &[1, 5, 20]);
    let y = net.relu(x);
    net.output(x);
    assert_eq!(functions(&net.check(y))[0], ActivationKind::None);
}

#[test]
fn what_is_almost_gelu_is_computed_as_it_stands() {
    let (mut net, x) = Net::input(&[1, 5, 12]);
    let inner = net.with(Op::Div, x, 1.5);
    let erf = net.same(Op::Erf, &[inner]);
    let gate = net.with(Op::Add, erf, 1.0);
    let y = net.same(Op::Mul, &[x, gate]);
    let y = net.with(Op::Mul, y, 0.5);
    assert!(!functions(&net.check(y)).contains(&ActivationKind::Gelu));

    // An intermediate value is an output, too.
    let (mut net, x) = Net::input(&[1, 5, 12]);
    let inner = net.with(Op::Div, x, std::f32::consts::SQRT_2);
    let erf = net.same(Op::Erf, &[inner]);
    let gate = net.with(Op::Add, erf, 1.0);
    let y = net.same(Op::Mul, &[x, gate]);
    let y = net.with(Op::Mul, y, 0.5);
    net.output(gate);
    assert!(functions(&net.check(y)).contains(&ActivationKind::Gelu));
}

#[test]
fn layer_norm_in_every_form_is_one_layer() {
    for form in 0..3 {
        let (mut net, x) = Net::input(&[2, 5, 12]);
        let y = match form {
            0 => net.norm(x),
            form => net.decomposed_norm(x, form == 2),
        };
        let network = net.check(y);
        assert_eq!(kinds(&network), [OpKind::LayerNorm], "{form}");
    }
    // over two axes, without scale and shift
    let (mut net, x) = Net::input(&[3, 4, 5]);
    let y = net.same(Op::LayerNorm { axis: 1, epsilon: 1e-3 }, &[x]);
    assert_eq!(kinds(&net.check(y)), [OpKind::LayerNorm]);
    // over the channels of an image that has been turned: no copy, the layout is that of the image
    let (mut net, x) = Net::input(&[1, 6, 4, 5]);
    let x = net.conv1(x, 8);
    let y = net.transpose(x, &[0, 2, 3, 1]);
    let y = net.norm(y);
    let y = net.transpose(y, &[0, 3, 1, 2]);
    let y = net.conv1(y, 4);
    let network = net.check(y);
    assert_eq!(kinds(&network)[1..4], [OpKind::Conv, OpKind::LayerNorm, OpKind::Conv]);
}

#[test]
fn a_norm_whose_parts_others_read_stays_right() {
    let (mut net, x) = Net::input(&[1, 5, 12]);
    let mean =
        net.node(Op::Reduce { op: ReduceOp::Mean, axes: vec![2], keep: true }, &[x], &[1, 5, 1]);
    let difference = net.same(Op::Sub, &[x, mean]);
    let square = net.same(Op::Mul, &[difference, difference]);
    let variance = net.node(
        Op::Reduce { op: ReduceOp::Mean, axes: vec![2], keep: true },
        &[square],
        &[1, 5, 1],
    );
    let sum = net.with(Op::Add, variance, 1e-3);
    let root = net.same(Op::Sqrt, &[sum]);
    let y = net.same(Op::Div, &[difference, root]);
    net.output(variance);
    let y = net.linear(y, 7);
    assert!(kinds(&net.check(y)).contains(&OpKind::LayerNorm));
}

#[test]
fn a_table_is_packed_as_weights() {
    for shape in [&[1, 7][..], &[3], &[2, 3, 2]] {
        let (mut net, _) = Net::input(&[1]);
        net.graph.inputs.clear();
        let table = net.constant(&[9, 21]);
        let indices = net.add_input(shape);
        let y = net.node(Op::Gather, &[table, indices], &[shape, &[21]].concat());
        let scale = net.constant(&[21]);
        let y = net.same(Op::Add, &[y, scale]);
        net.output(y);
        let network = lower(&net.graph, Isa::Avx512).unwrap();
        assert_eq!(kinds(&network), [OpKind::Gather]);
        let count = shape.iter().product();
        let inputs = vec![(0..count).map(|i| (i * 5 % 9) as f64).collect::<Vec<f64>>()];
        let expected = crate::reference::run(&net.graph, &inputs).swap_remove(0);
        let found = interpret::run(&network, &inputs).swap_remove(0);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-6);
        }
    }
}

/// A network that looks rows of a table up, and ends with a product with another. What it makes is
/// `scores · scale`.
fn looked_up(
    [table, matrix]: [Constant; 2],
    scale: Option<f32>,
    transposed: bool,
    biased: bool,
) -> (Net, ValueId) {
    let (mut net, _) = Net::input(&[1]);
    net.graph.inputs.clear();
    let constant = |net: &mut Net, shape: [usize; 2], data: Constant| {
        let value = net.value(&shape, Some(Vec::new()));
        net.graph.values[value].constant = Some(data);
        value
    };
    let table = constant(&mut net, [ENTRIES, COLUMNS], table);
    let ids = net.add_input(&[1, 5]);
    let mut x = net.node(Op::Gather, &[table, ids], &[1, 5, COLUMNS]);
    if let Some(scale) = scale {
        x = net.with(Op::Mul, x, scale);
    }
    if biased {
        let bias = net.constant(&[COLUMNS]);
        x = net.same(Op::Add, &[x, bias]);
    }
    let y = net.norm(x);
    let y = match transposed {
        true => {
            let matrix = constant(&mut net, [COLUMNS, ENTRIES], matrix);
            net.node(Op::MatMul, &[y, matrix], &[1, 5, ENTRIES])
        }
        false => {
            let rows = net.reshape(y, &[5, COLUMNS]);
            let matrix = constant(&mut net, [ENTRIES, COLUMNS], matrix);
            let op = Op::Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: true };
            let c = net.constant(&[ENTRIES]);
            net.node(op, &[rows, matrix, c], &[5, ENTRIES])
        }
    };
    (net, y)
}

const ENTRIES: usize = 700;
const COLUMNS: usize = 70;

/// A table in both orders, as initializers have it: as floats, as fewer bits, or as integers.
fn tables() -> Vec<[Constant; 2]> {
    let turned = |index: usize| index % ENTRIES * COLUMNS + index / ENTRIES;
    let all = || 0..ENTRIES * COLUMNS;
    let float = |index: usize| (index * 37 % 1009) as f32 / 512.0 - 1.0;
    let owned = |of: &dyn Fn(usize) -> f32| Constant::Owned(Arc::new(all().map(of).collect()));
    let half = |index: usize| (0x3800u16 + (index * 41 % 1024) as u16).to_le_bytes();
    let raw = |of: &dyn Fn(usize) -> [u8; 2]| {
        let bytes: Vec<u8> = all().flat_map(of).collect();
        Constant::Raw(bytes.into(), Encoding::F16)
    };
    // Scales of rows lie along one axis of the table and along the other of the matrix.
    let eight = |of: &dyn Fn(usize) -> usize, inner: usize| {
        let data: Vec<u8> = all().map(|index| (of(index) * 13 % 256) as u8).collect();
        let scale = (0..ENTRIES).map(|entry| 0.01 + entry as f32 * 1e-4).collect();
        let zero = (0..ENTRIES).map(|entry| (entry % 7) as i8 - 3).collect();
        Constant::Quantised(Arc::new(Quantised { data: data.into(), flip: 0, scale, zero, inner }))
    };
    let same = |index: usize| index;
    vec![
        [owned(&float), owned(&|index| float(turned(index)))],
        [raw(&half), raw(&|index| half(turned(index)))],
        [eight(&same, COLUMNS), eight(&turned, 1)],
    ]
}

fn assert_tied(network: &Network, tied: bool) {
    use OpKind::{Conv, Gather, LayerNorm, Lookup};
    let first = if tied { Lookup } else { Gather };
    assert_eq!(kinds(network), [first, LayerNorm, Conv]);
    let mut network = network.clone();
    let bytes = place_weights(&mut network);
    let table = u64::from(network.layers[2].panels) * u64::from(network.layers[2].panel_bytes);
    assert_eq!(network.layers[0].weights == network.layers[2].weights, tied);
    assert!(!tied || bytes < 2 * table, "{bytes} for {table}");
}

/// Through a transposition or not, scaled or not, of every type that initializers have.
#[test]
fn a_table_that_is_also_a_matrix_is_stored_once() {
    for (at, [table, turned]) in tables().into_iter().enumerate() {
        for (transposed, scale) in [(true, None), (false, None), (true, Some(1.5))] {
            let matrix = if transposed { &turned } else { &table };
            let constants = [table.clone(), matrix.clone()];
            let (mut net, y) = looked_up(constants, scale, transposed, false);
            net.output(y);
            let ids: Vec<f64> = (0..5).map(|at| (at * 71 % ENTRIES) as f64).collect();
            let expected = crate::reference::run(&net.graph, std::slice::from_ref(&ids)).remove(0);
            for isa in [Isa::Portable, Isa::Avx512, Isa::Cuda] {
                let network = lower(&net.graph, isa).unwrap();
                assert_tied(&network, isa != Isa::Cuda);
                let plain = Encoding::from_code(network.layers[0].encoding).unwrap();
                assert_eq!(plain == Encoding::I8, at == 2 && isa != Isa::Cuda);
                if plain == Encoding::I8 {
                    continue;
                }
                let found = interpret::run(&network, std::slice::from_ref(&ids)).remove(0);
                for (found, expected) in found.iter().zip(&expected) {
                    assert!((found - expected).abs() < 1e-4, "{found}, not {expected}");
                }
                for encoding in Encoding::ALL {
                    let mut network = network.clone();
                    encode(&mut network, encoding);
                    assert_tied(&network, isa != Isa::Cuda);
                }
            }
        }
    }
}

/// Other numbers, numbers that are scaled for the product, and rows that something is added to.
#[test]
fn other_tables_are_stored_as_they_were() {
    let [table, turned] = tables().remove(0);
    let mut other = turned.to_vec();
    other[ENTRIES * COLUMNS - 1] += 1.0;
    let other = Constant::Owned(Arc::new(other));
    for (matrix, biased) in [(other, false), (turned.clone(), true)] {
        let (mut net, y) = looked_up([table.clone(), matrix], None, true, biased);
        net.output(y);
        assert_tied(&lower(&net.graph, Isa::Avx2).unwrap(), false);
    }
    let (mut net, y) = looked_up([table, turned], None, true, false);
    let y = net.with(Op::Mul, y, 0.5);
    net.output(y);
    assert_tied(&lower(&net.graph, Isa::Avx2).unwrap(), false);
}

#[test]
fn a_mask_is_arithmetic_with_a_constant() {
    let (mut net, x) = Net::input(&[1, 2, 4, 6]);
    let mask = net.mask(&[1, 1, 4, 6], 4, -7.0);
    let y = net.same(Op::Mask, &[x, mask]);
    let y = net.same(Op::Softmax { axis: 3, flat: false }, &[y]);
    let network = net.check(y);
    assert_eq!(kinds(&network), [OpKind::Binary, OpKind::Softmax]);
    let p: BinaryParams = params(&network.layers[0]);
    assert_eq!(p.op, BinaryOp::Mask as u32);
}

#[test]
fn a_block_is_its_products_and_one_copy() {
    for gathered in [false, true] {
        let (mut net, x) = Net::input(&[1, 7, 24]);
        let y = net.norm(x);
        let y = attention(&mut net, y, 3, gathered);
        let x = net.same(Op::Add, &[y, x]);
        let y = net.norm(x);
        let y = net.linear(y, 40);
        let y = net.erf_gelu(y, 0);
        let y = net.linear(y, 24);
        let y = net.same(Op::Add, &[x, y]);
        use OpKind::{Conv, Copy, LayerNorm, MatMul, Softmax};
        let network = net.check(y);
        let expected =
            [LayerNorm, Conv, MatMul, Softmax, MatMul, Copy, Conv, LayerNorm, Conv, Conv];
        assert_eq!(kinds(&network), expected, "{gathered}");
    }
}

/// Scores are made in rows that begin at lines of the cache, normalised in place, and read by rows: some heads at a time.
#[test]
fn attention_reads_rows() {
    for (tokens, pitch) in [(30, 32), (7, 7), (48, 48)] {
        let (mut net, x) = Net::input(&[1, tokens, 24]);
        let y = attention(&mut net, x, 3, false);
        let network = net.check(y);
        let at = kinds(&network).iter().position(|kind| *kind == OpKind::Softmax).unwrap();
        let [scores, softmax, values] = [at - 1, at, at + 1].map(|layer| network.layers[layer]);
        assert_eq!([scores.output, softmax.output], [softmax.inputs[0]; 2]);
        assert_eq!(values.inputs[0], softmax.output);
        let rows = network.tensors[softmax.output as usize];
        assert_eq!((rows.dims, rows.pitch), ([1, 3, tokens as u32, tokens as u32], pitch));
    }
}
