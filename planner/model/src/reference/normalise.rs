//! Normalisation and reduction.

use super::{Tensor, each_index, offset, outer};
use crate::graph::Op;
use eyelet::pack::ReduceOp;

/// Computes one of these operators.
pub(super) fn evaluate(op: &Op, inputs: &[Option<Tensor<'_>>]) -> Vec<f64> {
    let x = inputs[0].expect("a required input");
    let data = |index: usize| inputs.get(index).copied().flatten().map(|tensor| tensor.data);
    match *op {
        Op::GlobalAveragePool => {
            let axes: Vec<usize> = (2..x.shape.len()).collect();
            reduce(ReduceOp::Mean, x, &axes)
        }
        Op::Reduce { op, ref axes, .. } => reduce(op, x, axes),
        Op::BatchNorm { epsilon } => {
            let parameters = [1, 2, 3, 4].map(|index| data(index).expect("a required input"));
            batch_norm(f64::from(epsilon), x, parameters)
        }
        Op::Softmax { axis, flat } => softmax(x, axis, flat),
        Op::Lrn { size, alpha, beta, bias } => {
            let [alpha, beta, bias] = [alpha, beta, bias].map(f64::from);
            lrn(x, size, alpha, beta, bias)
        }
        Op::LayerNorm { axis, epsilon } => {
            layer_norm(f64::from(epsilon), x, axis, data(1), data(2))
        }
        Op::RmsNorm { axis, epsilon } => rms_norm(f64::from(epsilon), x, axis, data(1)),
        Op::GroupNorm { groups, epsilon } => {
            group_norm(f64::from(epsilon), x, groups, data(1), data(2))
        }
        _ => unreachable!("neither a normalisation nor a reduction: {op:?}"),
    }
}

/// Reductions over axes. Whether these stay with extent 1 makes no difference to the data.
pub(super) fn reduce(op: ReduceOp, x: Tensor<'_>, axes: &[usize]) -> Vec<f64> {
    let mut shape = x.shape.to_vec();
    axes.iter().for_each(|&axis| shape[axis] = 1);
    let start = match op {
        ReduceOp::Max => f64::NEG_INFINITY,
        ReduceOp::Min => f64::INFINITY,
        ReduceOp::Product => 1.0,
        _ => 0.0,
    };
    let mut results = vec![start; shape.iter().product()];
    let mut data = x.data.iter();
    each_index(x.shape, |index| {
        let kept = index.iter().zip(&shape).map(|(&at, &e)| if e == 1 { 0 } else { at });
        let result = &mut results[offset(&shape, kept)];
        let x = *data.next().expect("as many elements as indices");
        match op {
            ReduceOp::Mean | ReduceOp::Sum => *result += x,
            ReduceOp::Max => *result = outer(*result, x, true),
            ReduceOp::Min => *result = outer(*result, x, false),
            ReduceOp::Product => *result *= x,
            ReduceOp::SquareSum | ReduceOp::SquareMean => *result += x * x,
        }
    });
    let mean = matches!(op, ReduceOp::Mean | ReduceOp::SquareMean);
    let count = if mean { (x.data.len() / results.len()) as f64 } else { 1.0 };
    results.iter().map(|result| result / count).collect()
}

pub(super) fn batch_norm(
    epsilon: f64,
    x: Tensor<'_>,
    [scale, bias, mean, variance]: [&[f64]; 4],
) -> Vec<f64> {
    let plane: usize = x.shape[2..].iter().product();
    let normalised = x.data.iter().enumerate().map(|(at, x)| {
        let c = at / plane % scale.len();
        (x - mean[c]) / (variance[c] + epsilon).sqrt() * scale[c] + bias[c]
    });
    normalised.collect()
}

/// Mean 0 and variance 1 over all axes from one on, then scale and shift.
pub(super) fn layer_norm(
    epsilon: f64,
    x: Tensor<'_>,
    axis: usize,
    scale: Option<&[f64]>,
    shift: Option<&[f64]>,
) -> Vec<f64> {
    let length: usize = x.shape[axis..].iter().product();
    let mut result = Vec::with_capacity(x.data.len());
    for row in x.data.chunks(length) {
        let mean = row.iter().sum::<f64>() / length as f64;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / length as f64;
        result.extend(row.iter().enumerate().map(|(at, x)| {
            let normal = (x - mean) / (variance + epsilon).sqrt();
            normal * scale.map_or(1.0, |scale| scale[at]) + shift.map_or(0.0, |shift| shift[at])
        }));
    }
    result
}

/// Mean square 1 over all axes from one on, then a scale.
pub(super) fn rms_norm(
    epsilon: f64,
    x: Tensor<'_>,
    axis: usize,
    scale: Option<&[f64]>,
) -> Vec<f64> {
    let length: usize = x.shape[axis..].iter().product();
    let mut result = Vec::with_capacity(x.data.len());
    for row in x.data.chunks(length) {
        let square = row.iter().map(|x| x * x).sum::<f64>() / length as f64;
        let root = (square + epsilon).sqrt();
        let scaled = |(at, x): (usize, &f64)| x / root * scale.map_or(1.0, |scale| scale[at]);
        result.extend(row.iter().enumerate().map(scaled));
    }
    result
}

/// Mean 0 and variance 1 over groups of channels, then scale and shift of each channel.
pub(super) fn group_norm(
    epsilon: f64,
    x: Tensor<'_>,
    groups: usize,
    scale: Option<&[f64]>,
    shift: Option<&[f64]>,
) -> Vec<f64> {
    let (channels, plane) = (x.shape[1], x.shape[2..].iter().product::<usize>());
    let length = channels / groups * plane;
    let folded = [x.shape[0] * groups, length];
    let normal = layer_norm(epsilon, Tensor { shape: &folded, data: x.data }, 1, None, None);
    let scaled = normal.iter().enumerate().map(|(at, x)| {
        let channel = at / plane % channels;
        let (scale, shift) = (scale.map(|scale| scale[channel]), shift.map(|shift| shift[channel]));
        x * scale.unwrap_or(1.0) + shift.unwrap_or(0.0)
    });
    scaled.collect()
}

/// Softmax over one axis, or over all axes from it on.
pub(super) fn softmax(x: Tensor<'_>, axis: usize, flat: bool) -> Vec<f64> {
    let outer: usize = x.shape[..axis].iter().product();
    let (length, inner) = match flat {
        true => (x.shape[axis..].iter().product(), 1),
        false => (x.shape[axis], x.shape[axis + 1..].iter().product::<usize>()),
    };
    let mut result = vec![0.0; x.data.len()];
    for block in 0..outer {
        for lane in 0..inner {
            let at = |k: usize| (block * length + k) * inner + lane;
            let maximum = (0..length).map(|k| x.data[at(k)]).fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = (0..length).map(|k| (x.data[at(k)] - maximum).exp()).sum();
            (0..length).for_each(|k| result[at(k)] = (x.data[at(k)] - maximum).exp() / sum);
        }
    }
    result
}

/// `x / (bias + alpha/size · Σ x²)^beta`, the sum over `size` channels around each.
pub(super) fn lrn(x: Tensor<'_>, size: usize, alpha: f64, beta: f64, bias: f64) -> Vec<f64> {
    let channels = x.shape[1];
    let plane: usize = x.shape[2..].iter().product();
    let result = x.data.iter().enumerate().map(|(at, value)| {
        let channel = at / plane % channels;
        let first = channel.saturating_sub((size - 1) / 2);
        let last = (channel + size / 2).min(channels - 1);
        let squares: f64 =
            (first..=last).map(|other| x.data[at - channel * plane + other * plane].powi(2)).sum();
        value / (bias + alpha / size as f64 * squares).powf(beta)
    });
    result.collect()
}
