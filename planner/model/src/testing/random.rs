//! Random small networks: whatever is drawn must lower and compute what the graph says.

use super::{Net, window};
use crate::graph::{Op, ValueId};
use eyelet::pack::ReduceOp;

/// One decision of the generator: which operation, on which values, with which sizes.
pub type Draw = (u8, u8, u8, u8);

/// Adds one node, if the values drawn allow it.
fn grow(net: &mut Net, live: &mut Vec<ValueId>, (kind, a, b, size): Draw) {
    let x = live[a as usize % live.len()];
    let shape = net.shape(x);
    let size = size as usize;
    // another value that can stand beside x along an axis
    let matching = |net: &Net, axis: usize| {
        let fits = |&&y: &&ValueId| {
            let other = net.shape(y);
            other.len() == shape.len()
                && (0..shape.len()).all(|i| i == axis || other[i] == shape[i])
        };
        let found: Vec<ValueId> = live.iter().filter(fits).copied().collect();
        found[b as usize % found.len()]
    };
    let image = shape.len() == 4;
    let last = shape.len() - 1;
    let y = match kind % 24 {
        0 | 1 if image => net.conv1(x, 1 + size % 11),
        2 | 3 if image => {
            let window = window(1 + 2 * (size % 2), 1 + size / 2 % 2, size % 2);
            net.conv(x, 1 + b as usize % 9, window, 1)
        }
        4 if image => net.conv(x, shape[1], window(3, 1, 1), shape[1]),
        5 if image && shape[1].is_multiple_of(2) => {
            net.conv(x, 2 * (1 + size % 3), window(1, 1, 0), 2)
        }
        6 | 7 if image => net.batch_norm(x),
        8 | 9 => net.relu(x),
        10 => match size % 5 {
            0 => net.same(Op::Sigmoid, &[x]),
            1 => net.same(Op::Tanh, &[x]),
            2 => net.same(Op::HardSwish, &[x]),
            3 => net.same(Op::LeakyRelu { alpha: 0.2 }, &[x]),
            _ => {
                let gate = net.same(Op::Sigmoid, &[x]);
                net.same(Op::Mul, &[x, gate])
            }
        },
        11 | 12 => {
            let other = matching(net, usize::MAX);
            net.same([Op::Add, Op::Sub, Op::Mul][size % 3].clone(), &[x, other])
        }
        13 => {
            let mut own = shape.clone();
            own.iter_mut()
                .enumerate()
                .for_each(|(i, e)| *e = if size >> i & 1 == 1 { 1 } else { *e });
            let c = net.positive(&own);
            let op = [Op::Add, Op::Mul, Op::Div, Op::PRelu][b as usize % 4].clone();
            net.same(op, &[x, c])
        }
        14 | 15 => {
            let axis = if size.is_multiple_of(4) { b as usize % shape.len() } else { 1.min(last) };
            if shape.iter().product::<usize>() > 600 {
                return;
            }
            let other = matching(net, axis);
            let third = live[size % live.len()];
            let fits = net.shape(third).len() == shape.len()
                && net
                    .shape(third)
                    .iter()
                    .zip(&shape)
                    .enumerate()
                    .all(|(i, (a, b))| i == axis || a == b);
            if fits { net.concat(&[x, other, third], axis) } else { net.concat(&[x, other], axis) }
        }
        16 => {
            let axis = b as usize % shape.len();
            let cut = size % shape[axis];
            if cut == 0 {
                return;
            }
            let sizes = vec![cut, shape[axis] - cut];
            let (mut left, mut right) = (shape.clone(), shape.clone());
            (left[axis], right[axis]) = (sizes[0], sizes[1]);
            let parts = net.nodes(Op::Split { axis, sizes }, &[x], &[&left, &right]);
            live.push(parts[0]);
            parts[1]
        }
        17 if image && shape[2] > 1 && shape[3] > 1 => {
            let out = [shape[0], shape[1], shape[2] / 2, shape[3] / 2];
            let window = window(2, 2, 0);
            let op = match size % 2 {
                0 => Op::MaxPool { window, ceil: false },
                _ => Op::AveragePool { window, ceil: false, count_include_pad: false },
            };
            net.node(op, &[x], &out)
        }
        18 if image => {
            let s = net.node(Op::GlobalAveragePool, &[x], &[shape[0], shape[1], 1, 1]);
            let s = net.same(Op::Sigmoid, &[s]);
            net.same(Op::Mul, &[x, s])
        }
        19 if image => {
            let groups = if shape[1].is_multiple_of(2) { 2 } else { 1 };
            let inner = [shape[0], groups, shape[1] / groups, shape[2], shape[3]];
            let y = net.reshape(x, &inner);
            let y = net.transpose(y, &[0, 2, 1, 3, 4]);
            net.reshape(y, &shape)
        }
        20 => {
            let inner: usize = shape[1..].iter().product();
            let flat = net.reshape(x, &[shape[0], inner]);
            if size % 2 == 1 {
                live.push(flat);
            }
            net.gemm(flat, 1 + size % 9)
        }
        21 => {
            let mut perm: Vec<usize> = (0..shape.len()).collect();
            perm.swap(b as usize % shape.len(), size % shape.len());
            net.transpose(x, &perm)
        }
        22 => {
            let inner = shape[last];
            let w = net.constant(&[inner, 1 + size % 7]);
            let mut out = shape.clone();
            out[last] = 1 + size % 7;
            let y = net.node(Op::MatMul, &[x, w], &out);
            let c = net.constant(&[1 + size % 7]);
            net.same(Op::Add, &[y, c])
        }
        23 => {
            let axis = b as usize % shape.len();
            match size % 3 {
                0 => net.same(Op::Softmax { axis, flat: false }, &[x]),
                1 => {
                    let mut out = shape.clone();
                    out[axis] = 1;
                    net.node(
                        Op::Reduce { op: ReduceOp::Mean, axes: vec![axis], keep: true },
                        &[x],
                        &out,
                    )
                }
                _ => {
                    let (mut begin, mut end) = (vec![0; shape.len()], vec![0; shape.len()]);
                    (begin[axis], end[last]) = (size / 3 % 3, size / 9 % 2);
                    let out: Vec<usize> =
                        (0..shape.len()).map(|i| begin[i] + shape[i] + end[i]).collect();
                    net.node(Op::Pad { begin, end, value: 0.0 }, &[x], &out)
                }
            }
        }
        _ => return,
    };
    live.push(y);
}

/// A network with an input of that shape and the last of what is drawn as its outputs.
pub fn grown(shape: &[usize; 4], seed: u64, draws: Vec<Draw>, outputs: usize) -> Net {
    let (mut net, x) = Net::input(shape);
    net.seed = seed;
    let mut live = vec![x];
    for draw in draws {
        grow(&mut net, &mut live, draw);
    }
    for &value in live.iter().rev().take(outputs) {
        net.output(value);
    }
    net
}
