//! A plain evaluation of graphs in double precision, for shapes that tests use.

use crate::graph::{Graph, Node, Op, ValueId, Window};

type Data = Vec<f64>;

/// The outputs of a graph.
pub fn evaluate(graph: &Graph, inputs: &[Data]) -> Vec<Data> {
    let mut values: Vec<Option<Data>> = (graph.values.iter())
        .map(|value| {
            value.constant.as_ref().map(|c| c.to_vec().into_iter().map(f64::from).collect())
        })
        .collect();
    for (&value, data) in graph.inputs.iter().zip(inputs) {
        values[value] = Some(data.clone());
    }
    for node in &graph.nodes {
        for (i, &output) in node.outputs.iter().enumerate() {
            let data = compute(graph, node, i, &values);
            assert_eq!(data.len(), graph.values[output].elements(), "{}", node.name);
            values[output] = Some(data);
        }
    }
    graph.outputs.iter().map(|&value| values[value].clone().unwrap()).collect()
}

/// Every index of a shape, in row-major sequence.
fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..shape.iter().product()).map(move |mut flat| {
        let mut index = vec![0; shape.len()];
        for (i, &extent) in shape.iter().enumerate().rev() {
            index[i] = flat % extent;
            flat /= extent;
        }
        index
    })
}

/// The element of `shape` at an index, broadcast and aligned at the last axis.
fn at(shape: &[usize], index: &[usize]) -> usize {
    let skip = index.len() - shape.len();
    shape.iter().zip(&index[skip..]).fold(0, |flat, (&extent, &i)| flat * extent + i % extent)
}

fn compute(graph: &Graph, node: &Node, output: usize, values: &[Option<Data>]) -> Data {
    let id = |i: usize| -> ValueId { node.inputs[i].unwrap() };
    let data = |i: usize| values[id(i)].as_ref().unwrap();
    let shape = |i: usize| graph.values[id(i)].shape.as_slice();
    let has = |i: usize| node.inputs.get(i).copied().flatten().is_some();
    let y = graph.values[node.outputs[output]].shape.as_slice();
    let map = |f: &dyn Fn(f64) -> f64| data(0).iter().map(|&x| f(x)).collect();
    let binary = |f: &dyn Fn(f64, f64) -> f64| {
        let pairs = indices(y).map(|i| (data(0)[at(shape(0), &i)], data(1)[at(shape(1), &i)]));
        pairs.map(|(a, b)| f(a, b)).collect()
    };
    match &node.op {
        Op::Conv { window, groups } => indices(y)
            .map(|i| {
                let (x, w) = (shape(0), shape(1));
                let base = i[1] / (w[0] / groups) * w[1];
                let mut sum = if has(2) { data(2)[i[1]] } else { 0.0 };
                for c in 0..w[1] {
                    for (r, s, h, v) in taps(window, &i[2..], &x[2..]) {
                        sum += data(0)[at(x, &[i[0], base + c, h, v])]
                            * data(1)[at(w, &[i[1], c, r, s])];
                    }
                }
                sum
            })
            .collect(),
        Op::BatchNorm { epsilon } => indices(y)
            .map(|i| {
                let p = |n: usize| data(n)[i[1]];
                let deviation = (p(4) + f64::from(*epsilon)).sqrt();
                (data(0)[at(y, &i)] - p(3)) / deviation * p(1) + p(2)
            })
            .collect(),
        Op::Clip { min, max } => map(&|x| x.max((*min).into()).min((*max).into())),
        Op::LeakyRelu { alpha } => map(&|x| if x >= 0.0 { x } else { x * f64::from(*alpha) }),
        Op::Sigmoid => map(&sigmoid),
        Op::HardSigmoid { alpha, beta } => {
            map(&|x| (x * f64::from(*alpha) + f64::from(*beta)).clamp(0.0, 1.0))
        }
        Op::HardSwish => map(&|x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
        Op::Tanh => map(&f64::tanh),
        Op::PRelu => binary(&|a, b| if a >= 0.0 { a } else { a * b }),
        Op::Add => binary(&|a, b| a + b),
        Op::Sub => binary(&|a, b| a - b),
        Op::Mul => binary(&|a, b| a * b),
        Op::Div => binary(&|a, b| a / b),
        Op::Concat { axis } => indices(y)
            .map(|mut i| {
                let mut part = 0;
                while i[*axis] >= shape(part)[*axis] {
                    i[*axis] -= shape(part)[*axis];
                    part += 1;
                }
                data(part)[at(shape(part), &i)]
            })
            .collect(),
        Op::Split { axis, sizes } => indices(y)
            .map(|mut i| {
                i[*axis] += sizes[..output].iter().sum::<usize>();
                data(0)[at(shape(0), &i)]
            })
            .collect(),
        Op::Slice { starts, steps } => indices(y)
            .map(|i| {
                let from: Vec<usize> =
                    (0..i.len()).map(|axis| starts[axis] + i[axis] * steps[axis]).collect();
                data(0)[at(shape(0), &from)]
            })
            .collect(),
        Op::MaxPool { window, .. } => indices(y)
            .map(|i| {
                taps(window, &i[2..], &shape(0)[2..])
                    .map(|(_, _, h, v)| data(0)[at(shape(0), &[i[0], i[1], h, v])])
                    .fold(f64::NEG_INFINITY, f64::max)
            })
            .collect(),
        Op::AveragePool { window, count_include_pad, .. } => indices(y)
            .map(|i| {
                let taps: Vec<_> = taps(window, &i[2..], &shape(0)[2..]).collect();
                let sum: f64 = (taps.iter())
                    .map(|&(_, _, h, v)| data(0)[at(shape(0), &[i[0], i[1], h, v])])
                    .sum();
                let counted =
                    if *count_include_pad { window.kernel.iter().product() } else { taps.len() };
                sum / counted as f64
            })
            .collect(),
        Op::GlobalAveragePool => mean(shape(0), data(0), &[2, 3]),
        Op::ReduceMean { axes, .. } => mean(shape(0), data(0), axes),
        Op::Gemm { alpha, beta, trans_a, trans_b } => indices(y)
            .map(|i| {
                let k = if *trans_a { shape(0)[0] } else { shape(0)[1] };
                let pick = |swap: bool, r: usize, c: usize| if swap { [c, r] } else { [r, c] };
                let sum: f64 = (0..k)
                    .map(|k| {
                        data(0)[at(shape(0), &pick(*trans_a, i[0], k))]
                            * data(1)[at(shape(1), &pick(*trans_b, k, i[1]))]
                    })
                    .sum();
                let c = if has(2) { data(2)[at(shape(2), &i)] } else { 0.0 };
                f64::from(*alpha) * sum + f64::from(*beta) * c
            })
            .collect(),
        Op::MatMul => {
            let (a, b) = (shape(0), shape(1));
            assert!(a.len() >= 2 && b.len() >= 2);
            indices(y)
                .map(|i| {
                    let (batch, m, n) = (&i[..i.len() - 2], i[i.len() - 2], i[i.len() - 1]);
                    (0..a[a.len() - 1])
                        .map(|k| {
                            data(0)[at(a, &[batch, &[m, k]].concat())]
                                * data(1)[at(b, &[batch, &[k, n]].concat())]
                        })
                        .sum()
                })
                .collect()
        }
        Op::Reshape => data(0).clone(),
        Op::Transpose { perm } => indices(y)
            .map(|i| {
                let mut from = vec![0; i.len()];
                perm.iter().zip(&i).for_each(|(&axis, &i)| from[axis] = i);
                data(0)[at(shape(0), &from)]
            })
            .collect(),
        Op::Softmax { axis, flat } => {
            let axes: Vec<usize> = if *flat { (*axis..y.len()).collect() } else { vec![*axis] };
            let exp: Data = data(0).iter().map(|x| x.exp()).collect();
            let count: usize = axes.iter().map(|&axis| y[axis]).product();
            let sums = mean(y, &exp, &axes);
            let mut kept = y.to_vec();
            axes.iter().for_each(|&axis| kept[axis] = 1);
            indices(y).map(|i| exp[at(y, &i)] / (sums[at(&kept, &i)] * count as f64)).collect()
        }
        Op::Lrn { size, alpha, beta, bias } => indices(y)
            .map(|i| {
                let x = |c: usize| data(0)[at(y, &[i[0], c, i[2], i[3]])];
                let first = i[1].saturating_sub((size - 1) / 2);
                let last = (i[1] + size / 2).min(y[1] - 1);
                let squares: f64 = (first..=last).map(|c| x(c) * x(c)).sum();
                let base = f64::from(*bias) + f64::from(*alpha) / *size as f64 * squares;
                x(i[1]) / base.powf((*beta).into())
            })
            .collect(),
        Op::Pad { begin, value, .. } => indices(y)
            .map(|i| {
                let from: Option<Vec<usize>> = (i.iter().zip(begin).zip(shape(0)))
                    .map(|((i, begin), &extent)| i.checked_sub(*begin).filter(|&i| i < extent))
                    .collect();
                from.map_or((*value).into(), |from| data(0)[at(shape(0), &from)])
            })
            .collect(),
    }
}

pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn mean(shape: &[usize], data: &[f64], axes: &[usize]) -> Data {
    let mut kept = shape.to_vec();
    axes.iter().for_each(|&axis| kept[axis] = 1);
    let mut sums = vec![0.0; kept.iter().product()];
    for (i, value) in indices(shape).zip(data) {
        sums[at(&kept, &i)] += value;
    }
    let count = data.len() / sums.len();
    sums.iter().map(|sum| sum / count as f64).collect()
}

/// The taps of a window that lie inside the image: row, column, and the pixel.
fn taps(
    window: &Window,
    out: &[usize],
    extent: &[usize],
) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    let place = |i: usize, tap: usize| {
        let at = out[i] * window.stride[i] + tap * window.dilation[i];
        at.checked_sub(window.pad_begin[i]).filter(|&at| at < extent[i])
    };
    let [rows, columns] = window.kernel;
    let mut taps = Vec::new();
    for r in 0..rows {
        for s in 0..columns {
            if let (Some(h), Some(v)) = (place(0, r), place(1, s)) {
                taps.push((r, s, h, v));
            }
        }
    }
    taps.into_iter()
}
