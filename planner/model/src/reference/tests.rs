//! Small cases, computed by hand from the operators' definitions.

use super::*;
use crate::graph::{Node, Value, Window};
use crate::ops::exact::{each_index, offset};
use eyelet::pack::ReduceOp;
use std::sync::Arc;

/// One output of an operator on tensors given as shape and data.
fn compute(op: Op, inputs: &[(&[usize], &[f64])], out: &[usize]) -> Vec<f64> {
    let tensors: Vec<Option<Tensor<'_>>> =
        inputs.iter().map(|&(shape, data)| Some(Tensor { shape, data })).collect();
    let mut made = evaluate(&op, &tensors, &[out]);
    assert_eq!(made[0].len(), out.iter().product::<usize>());
    made.swap_remove(0)
}

fn window(kernel: [usize; 2], stride: [usize; 2], pads: [usize; 4]) -> Window {
    let [top, left, bottom, right] = pads;
    Window { kernel, stride, dilation: [1, 1], pad_begin: [top, left], pad_end: [bottom, right] }
}

/// 1, 2, … n
fn counted(n: usize) -> Vec<f64> {
    (1..=n).map(|at| at as f64).collect()
}

#[test]
fn conv_pads_strides_and_dilates() {
    let x = counted(9);
    let w = [1.0, 10.0, 100.0, 1000.0];
    let conv = |window, out: &[usize]| {
        let op = Op::Conv { window, groups: 1 };
        compute(op, &[(&[1, 1, 3, 3], &x), (&[1, 1, 2, 2], &w), (&[1], &[0.5])], out)
    };
    let y = conv(window([2, 2], [1, 1], [0; 4]), &[1, 1, 2, 2]);
    assert_eq!(y, [5421.5, 6532.5, 8754.5, 9865.5]);
    let y = conv(window([2, 2], [2, 2], [1, 1, 0, 0]), &[1, 1, 2, 2]);
    assert_eq!(y, [1000.5, 3200.5, 7040.5, 9865.5]);
    let dilated = Window { dilation: [2, 2], ..window([2, 2], [1, 1], [0, 0, 0, 1]) };
    assert_eq!(conv(dilated, &[1, 1, 1, 2]), [9731.5, 802.5]);
}

#[test]
fn conv_keeps_groups_and_images_apart() {
    let x = counted(8);
    let op = Op::Conv { window: window([1, 1], [1, 1], [0; 4]), groups: 2 };
    let w = [1.0, 10.0, 100.0, 1000.0];
    let y = compute(op, &[(&[2, 2, 1, 2], &x), (&[4, 1, 1, 1], &w)], &[2, 4, 1, 2]);
    assert_eq!(y[..8], [1.0, 2.0, 10.0, 20.0, 300.0, 400.0, 3000.0, 4000.0]);
    assert_eq!(y[8..], [5.0, 6.0, 50.0, 60.0, 700.0, 800.0, 7000.0, 8000.0]);
}

/// The fast loops against the definition, tap by tap, over odd shapes.
#[test]
fn conv_follows_its_definition() {
    for (extent, kernel, stride, dilation, pads) in [
        ([5, 7], [3, 2], [1, 1], [1, 1], [1, 0, 2, 1]),
        ([6, 4], [2, 3], [2, 3], [2, 1], [3, 2, 1, 4]),
        ([3, 3], [3, 3], [1, 2], [2, 2], [4, 4, 3, 3]),
        ([1, 9], [1, 5], [1, 3], [1, 3], [0, 9, 0, 8]),
    ] {
        let window = Window { dilation, ..window(kernel, stride, pads) };
        let outs = [0, 1].map(|axis: usize| {
            let padded = extent[axis] + window.pad_begin[axis] + window.pad_end[axis];
            (padded - (kernel[axis] - 1) * dilation[axis] - 1) / stride[axis] + 1
        });
        let (xs, ws) = ([1, 4, extent[0], extent[1]], [6, 2, kernel[0], kernel[1]]);
        let x: Vec<f64> = counted(xs.iter().product()).iter().map(|v| v * 7.0 % 11.0).collect();
        let w: Vec<f64> = counted(ws.iter().product()).iter().map(|v| v * 5.0 % 13.0).collect();
        let out = [1, 6, outs[0], outs[1]];
        let mut expected = vec![];
        each_index(&out, |index| {
            let mut sum = 0.0;
            each_index(&ws[1..], |tap| {
                let place = [0, 1].map(|axis| {
                    (index[2 + axis] * stride[axis] + tap[1 + axis] * dilation[axis])
                        .checked_sub(window.pad_begin[axis])
                        .filter(|&at| at < extent[axis])
                });
                if let [Some(y), Some(column)] = place {
                    let channel = index[1] / 3 * 2 + tap[0];
                    sum += x[offset(&xs, [0, channel, y, column])]
                        * w[offset(&ws, [index[1], tap[0], tap[1], tap[2]])];
                }
            });
            expected.push(sum);
        });
        let op = Op::Conv { window, groups: 2 };
        assert_eq!(compute(op, &[(&xs, &x), (&ws, &w)], &out), expected);
    }
}

#[test]
fn pooling() {
    let x = [-1.0, -2.0, -3.0, -4.0];
    let window = window([1, 3], [1, 2], [0, 1, 0, 1]);
    let max = Op::MaxPool { window: window.clone(), ceil: true };
    assert_eq!(compute(max, &[(&[1, 1, 1, 4], &x)], &[1, 1, 1, 3]), [-1.0, -2.0, -4.0]);
    for (count_include_pad, expected) in [(false, [-1.5, -3.0, -4.0]), (true, [-1.0, -3.0, -2.0])] {
        let op = Op::AveragePool { window: window.clone(), ceil: true, count_include_pad };
        assert_eq!(compute(op, &[(&[1, 1, 1, 4], &x)], &[1, 1, 1, 3]), expected);
    }
    let x = counted(8);
    assert_eq!(compute(Op::GlobalAveragePool, &[(&[1, 2, 2, 2], &x)], &[1, 2, 1, 1]), [2.5, 6.5]);
}

#[test]
fn functions() {
    let x = [-4.0, -1.0, 0.0, 2.0, 4.0];
    let each = |op| compute(op, &[(&[5], &x)], &[5]);
    assert_eq!(each(Op::Clip { min: -2.0, max: 3.0 }), [-2.0, -1.0, 0.0, 2.0, 3.0]);
    assert_eq!(each(Op::LeakyRelu { alpha: 0.5 }), [-2.0, -0.5, 0.0, 2.0, 4.0]);
    assert_eq!(each(Op::HardSigmoid { alpha: 0.25, beta: 0.5 }), [0.0, 0.25, 0.5, 1.0, 1.0]);
    assert_eq!(each(Op::HardSwish)[..3], [0.0, -(-1.0 / 6.0 + 0.5), 0.0]);
    assert_eq!(each(Op::HardSwish)[4], 4.0);
    let tanh = each(Op::Tanh);
    let sigmoid = each(Op::Sigmoid);
    for (at, &x) in x.iter().enumerate() {
        let e = x.exp();
        assert!((sigmoid[at] - e / (1.0 + e)).abs() < 1e-15);
        assert!((tanh[at] - (e * e - 1.0) / (e * e + 1.0)).abs() < 1e-15);
    }
}

#[test]
fn arithmetic_broadcasts() {
    let (a, b) = (counted(6), [10.0, 20.0]);
    let both = |op| compute(op, &[(&[3, 2], &a), (&[2], &b)], &[3, 2]);
    assert_eq!(both(Op::Add), [11.0, 22.0, 13.0, 24.0, 15.0, 26.0]);
    assert_eq!(both(Op::Sub), [-9.0, -18.0, -7.0, -16.0, -5.0, -14.0]);
    assert_eq!(both(Op::Mul), [10.0, 40.0, 30.0, 80.0, 50.0, 120.0]);
    assert_eq!(both(Op::Div), [0.1, 0.1, 0.3, 0.2, 0.5, 0.3]);
    let outer = compute(Op::Mul, &[(&[2, 1], &[1.0, 2.0]), (&[1, 2], &b)], &[2, 2]);
    assert_eq!(outer, [10.0, 20.0, 20.0, 40.0]);
    let slopes = [(&[1, 2, 1, 1][..], &[-2.0, -2.0][..]), (&[2, 1, 1], &[0.5, 3.0])];
    assert_eq!(compute(Op::PRelu, &slopes, &[1, 2, 1, 1]), [-1.0, -6.0]);
}

#[test]
fn normalisation() {
    let vectors: [(&[usize], &[f64]); 5] = [
        (&[1, 2, 1, 2], &[1.0, 2.0, 3.0, 4.0]),
        (&[2], &[2.0, 3.0]),
        (&[2], &[0.5, 1.0]),
        (&[2], &[1.0, 2.0]),
        (&[2], &[3.0, 8.0]),
    ];
    let y = compute(Op::BatchNorm { epsilon: 1.0 }, &vectors, &[1, 2, 1, 2]);
    assert_eq!(y, [0.5, 1.5, 2.0, 3.0]);

    let x = [0.0, 3f64.ln(), 0.0, 1f64.exp()];
    let softmax =
        |axis, flat, x: &[f64]| compute(Op::Softmax { axis, flat }, &[(&[1, 2, 2], x)], &[1, 2, 2]);
    let last = softmax(2, false, &x);
    assert!((last[0] - 0.25).abs() < 1e-15 && (last[1] - 0.75).abs() < 1e-15);
    assert_eq!(softmax(1, false, &[5.0; 4]), [0.5; 4]);
    assert_eq!(softmax(1, true, &[5.0; 4]), [0.25; 4]);
    assert_eq!(softmax(1, true, &[5e3; 4]), [0.25; 4]);

    let lrn = |size| Op::Lrn { size, alpha: size as f32, beta: 1.0, bias: 1.0 };
    let x = [1.0, 2.0, 3.0];
    let shape = [1, 3, 1, 1];
    assert_eq!(compute(lrn(3), &[(&shape, &x)], &shape), [1.0 / 6.0, 2.0 / 15.0, 3.0 / 14.0]);
    // An even window reaches further behind.
    assert_eq!(compute(lrn(2), &[(&shape, &x)], &shape), [1.0 / 6.0, 2.0 / 14.0, 3.0 / 10.0]);

    let x = counted(8);
    let mean = |axes: &[usize]| Op::Reduce { op: ReduceOp::Mean, axes: axes.into(), keep: false };
    assert_eq!(compute(mean(&[0, 2]), &[(&[2, 2, 2], &x)], &[2]), [3.5, 5.5]);
    assert_eq!(compute(mean(&[1]), &[(&[2, 2, 2], &x)], &[2, 2]), [2.0, 3.0, 6.0, 7.0]);
}

#[test]
fn products() {
    let (a, b) = (counted(6), counted(6));
    for (trans_a, trans_b) in [(false, false), (false, true), (true, false), (true, true)] {
        // a is 2x3 and b 3x2, whichever way they are stored.
        let turn = |data: &[f64], rows: usize, columns: usize| -> Vec<f64> {
            (0..rows * columns).map(|at| data[at % rows * columns + at / rows]).collect()
        };
        let stored_a = if trans_a { turn(&a, 2, 3) } else { a.clone() };
        let stored_b = if trans_b { turn(&b, 3, 2) } else { b.clone() };
        let shape_a = if trans_a { [3, 2] } else { [2, 3] };
        let shape_b = if trans_b { [2, 3] } else { [3, 2] };
        let op = Op::Gemm { alpha: 2.0, beta: 10.0, trans_a, trans_b };
        let c: (&[usize], &[f64]) = (&[2, 1], &[1.0, 2.0]);
        let y = compute(op, &[(&shape_a, &stored_a), (&shape_b, &stored_b), c], &[2, 2]);
        assert_eq!(y, [54.0, 66.0, 118.0, 148.0]);
    }
    let stacks: [(&[usize], &[f64]); 2] = [(&[2, 1, 1, 2], &a[..4]), (&[2, 2, 1], &b[..4])];
    assert_eq!(compute(Op::MatMul, &stacks, &[2, 2, 1, 1]), [5.0, 11.0, 11.0, 25.0]);
    // Many columns of few rows take the other path.
    let wide: Vec<f64> = counted(2 * 130);
    let y = compute(Op::MatMul, &[(&[1, 2], &[1.0, 1.0]), (&[2, 130], &wide)], &[1, 130]);
    assert!(y.iter().enumerate().all(|(at, &y)| y == (2 * at + 132) as f64));
}

#[test]
fn movement() {
    let x = counted(6);
    let one = |op, out: &[usize]| compute(op, &[(&[2, 3], &x)], out);
    let turned = one(Op::Transpose { perm: vec![1, 0] }, &[3, 2]);
    assert_eq!(turned, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    assert_eq!(one(Op::Reshape, &[3, 2]), x);
    let slice = Op::Slice { starts: vec![1, 0], steps: vec![1, 2] };
    assert_eq!(one(slice, &[1, 2]), [4.0, 6.0]);
    let pad = Op::Pad { begin: vec![0, 1], end: vec![1, 0], value: 9.0 };
    let expected = [9.0, 1.0, 2.0, 3.0, 9.0, 4.0, 5.0, 6.0, 9.0, 9.0, 9.0, 9.0];
    assert_eq!(one(pad, &[3, 4]), expected);
    let joined = compute(Op::Concat { axis: 1 }, &[(&[2, 3], &x), (&[2, 1], &[7.0, 8.0])], &[2, 4]);
    assert_eq!(joined, [1.0, 2.0, 3.0, 7.0, 4.0, 5.0, 6.0, 8.0]);
    let op = Op::Split { axis: 1, sizes: vec![1, 2] };
    let parts = evaluate(&op, &[Some(Tensor { shape: &[2, 3], data: &x })], &[&[2, 1], &[2, 2]]);
    assert_eq!(parts, [vec![1.0, 4.0], vec![2.0, 3.0, 5.0, 6.0]]);
    // A rank that moves three axes.
    let x = counted(24);
    let turned = compute(Op::Transpose { perm: vec![2, 0, 1] }, &[(&[2, 3, 4], &x)], &[4, 2, 3]);
    assert_eq!(turned[..7], [1.0, 5.0, 9.0, 13.0, 17.0, 21.0, 2.0]);
}

/// y = relu(x + c); the graph's outputs are y, x and c.
#[test]
fn a_graph_runs() {
    let value = |name: &str, constant| Value {
        name: name.into(),
        shape: vec![2],
        kind: Default::default(),
        constant,
    };
    let constant = Constant::Owned(Arc::new(vec![1.0, -5.0]));
    let node = |op, inputs: &[usize], output| Node {
        name: "node".into(),
        op,
        inputs: inputs.iter().map(|&id| Some(id)).collect(),
        outputs: vec![output],
    };
    let graph = Graph {
        name: String::new(),
        notes: vec![],
        values: vec![
            value("x", None),
            value("c", Some(constant)),
            value("sum", None),
            value("y", None),
        ],
        nodes: vec![
            node(Op::Add, &[0, 1], 2),
            node(Op::Clip { min: 0.0, max: f32::INFINITY }, &[2], 3),
        ],
        inputs: vec![0],
        outputs: vec![3, 0, 1],
    };
    let results = run(&graph, &[vec![2.0, 3.0]]);
    assert_eq!(results, [[3.0, 0.0], [2.0, 3.0], [1.0, -5.0]]);
}
