//! The reference: every operator in double precision, in plain loops.
//!
//! What eyelet computes is judged against this. Each operator is computed in its file in
//! [`ops`](crate::ops).

#[cfg(test)]
mod tests;

use crate::graph::{Constant, Graph, Op, ValueId};
pub use crate::ops::exact::Tensor;
pub use crate::ops::integer::word;
use crate::ops::reduce::reduce;
pub use crate::ops::unary::erf;
use crate::ops::{
    binary, concat, conv, depthwise, fold, gather, grid_sample, group_norm, integer, layernorm,
    lrn, matmul, pad, pool, recurrent, resample, scatter, select, softmax, suppress, take, top_k,
    unary, views,
};
use eyelet::pack::ReduceOp;
use std::borrow::Cow;

/// Runs the graph. Inputs and outputs are row-major, in the graph's order.
///
/// # Panics
///
/// If the inputs do not have the graph's number and sizes.
pub fn run(graph: &Graph, inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    assert_eq!(inputs.len(), graph.inputs.len(), "number of inputs");
    let mut values: Vec<Option<Vec<f64>>> = vec![None; graph.values.len()];
    for (&id, data) in graph.inputs.iter().zip(inputs) {
        let value = &graph.values[id];
        assert_eq!(data.len(), value.elements(), "elements of input `{}`", value.name);
        values[id] = Some(data.clone());
    }
    let last = last_uses(graph);
    for (index, node) in graph.nodes.iter().enumerate() {
        let made = {
            let data: Vec<Option<Cow<'_, [f64]>>> =
                node.inputs.iter().map(|id| id.map(|id| read(graph, &values, id))).collect();
            let tensors: Vec<Option<Tensor<'_>>> = node
                .inputs
                .iter()
                .zip(&data)
                .map(|(id, data)| {
                    let (id, data) = ((*id)?, data.as_ref()?);
                    Some(Tensor { shape: &graph.values[id].shape, data })
                })
                .collect();
            let shapes: Vec<&[usize]> =
                node.outputs.iter().map(|&id| &graph.values[id].shape[..]).collect();
            evaluate(&node.op, &tensors, &shapes)
        };
        for (&id, data) in node.outputs.iter().zip(made) {
            assert_eq!(data.len(), graph.values[id].elements(), "elements of `{}`", node.name);
            values[id] = Some(data);
        }
        for &id in node.inputs.iter().flatten().chain(&node.outputs) {
            if last[id] <= index {
                values[id] = None;
            }
        }
    }
    graph.outputs.iter().map(|&id| read(graph, &values, id).into_owned()).collect()
}

/// For each value the index of the last node that reads it; the number of nodes for outputs.
fn last_uses(graph: &Graph) -> Vec<usize> {
    let mut last = vec![0; graph.values.len()];
    for (index, node) in graph.nodes.iter().enumerate() {
        node.inputs.iter().flatten().for_each(|&id| last[id] = index);
    }
    graph.outputs.iter().for_each(|&id| last[id] = graph.nodes.len());
    last
}

/// The data of a value: flowing, or constant.
fn read<'a>(graph: &Graph, values: &'a [Option<Vec<f64>>], id: ValueId) -> Cow<'a, [f64]> {
    match (&values[id], &graph.values[id].constant) {
        (Some(data), _) => Cow::Borrowed(data),
        (None, Some(constant)) => Cow::Owned(widen(constant)),
        (None, None) => panic!("`{}` is read before it is computed", graph.values[id].name),
    }
}

/// A constant in double precision.
pub fn widen(constant: &Constant) -> Vec<f64> {
    match constant {
        Constant::Owned(data) => data.iter().map(|&value| f64::from(value)).collect(),
        Constant::Raw(..) | Constant::Quantised(_) => {
            (0..constant.len()).map(|index| f64::from(constant.get(index))).collect()
        }
        Constant::Words(data) => data.iter().map(|&word| f64::from(word)).collect(),
    }
}

/// Computes one operator; the outputs' shapes must be those that the importer infers.
///
/// # Panics
///
/// If a required input is absent, or shapes do not fit the operator.
pub fn evaluate(op: &Op, inputs: &[Option<Tensor<'_>>], outputs: &[&[usize]]) -> Vec<Vec<f64>> {
    let input = |index: usize| inputs[index].expect("a required input");
    let optional = |index: usize| inputs.get(index).copied().flatten();
    let data = |index: usize| optional(index).map(|tensor| tensor.data);
    let out = outputs[0];
    if let Op::Split { axis, sizes } = op {
        return views::split(input(0), *axis, sizes);
    }
    vec![match op {
        Op::Conv { window, groups } => {
            conv::conv(window, *groups, input(0), input(1), optional(2), out)
        }
        Op::MaxPool { window, .. } => pool::max_pool(window, input(0), out),
        Op::AveragePool { window, count_include_pad, .. } => {
            pool::average_pool(window, *count_include_pad, input(0), out)
        }
        Op::GlobalAveragePool => {
            let axes: Vec<usize> = (2..input(0).shape.len()).collect();
            reduce(ReduceOp::Mean, input(0), &axes)
        }
        Op::Reduce { op, axes, .. } => reduce(*op, input(0), axes),
        Op::BatchNorm { epsilon } => {
            let parameters = [1, 2, 3, 4].map(|index| input(index).data);
            depthwise::batch_norm(f64::from(*epsilon), input(0), parameters)
        }
        Op::Softmax { axis, flat } => softmax::softmax(input(0), *axis, *flat),
        Op::Lrn { size, alpha, beta, bias } => {
            let [alpha, beta, bias] = [alpha, beta, bias].map(|number| f64::from(*number));
            lrn::lrn(input(0), *size, alpha, beta, bias)
        }
        Op::LayerNorm { axis, epsilon } => {
            layernorm::layer_norm(f64::from(*epsilon), input(0), *axis, data(1), data(2))
        }
        Op::RmsNorm { axis, epsilon } => {
            layernorm::rms_norm(f64::from(*epsilon), input(0), *axis, data(1))
        }
        Op::GroupNorm { groups, epsilon } => {
            group_norm::group_norm(f64::from(*epsilon), input(0), *groups, data(1), data(2))
        }
        Op::Add
        | Op::Sub
        | Op::Mul
        | Op::Div
        | Op::Max
        | Op::Min
        | Op::Pow
        | Op::Mod
        | Op::PRelu
        | Op::Mask => binary::binary(input(0), input(1), out, binary::of_two(op)),
        Op::Take { axis } => take::take(input(0), input(1), *axis),
        Op::Words(op) => integer::apply(*op, input(0), optional(1), out),
        Op::Where => select::choose(input(0), input(1), input(2), out),
        Op::Fold { op, axes, last, .. } => fold::fold(*op, *last, input(0), axes),
        Op::Order { axis, largest, .. } => top_k::order(input(0), *axis, *largest, out),
        Op::Suppress(suppression) => suppress::suppress(suppression, input(0), input(1), out),
        Op::Scatter { op } => scatter::scatter(*op, input(0), input(1), input(2)),
        Op::Gather => gather::gather(input(0), input(1)),
        Op::Gemm { alpha, beta, trans_a, trans_b } => {
            let scale = [f64::from(*alpha), f64::from(*beta)];
            matmul::gemm(scale, [*trans_a, *trans_b], input(0), input(1), optional(2), out)
        }
        Op::MatMul => matmul::matmul(input(0), input(1), out),
        Op::Concat { axis } => {
            concat::concat(&inputs.iter().flatten().copied().collect::<Vec<_>>(), *axis)
        }
        Op::Slice { starts, steps } => views::slice(input(0), starts, steps, out),
        Op::Reshape => input(0).data.to_vec(),
        Op::Expand => views::expand(input(0), out),
        Op::Fill { value } => vec![f64::from(*value); out.iter().product()],
        Op::Transpose { perm } => views::transpose(input(0), perm, out),
        Op::GridSample(sampling) => grid_sample::grid_sample(sampling, input(0), input(1), out),
        Op::Recurrent(recurrence) => {
            recurrent::recurrent(recurrence, [0, 1, 2, 3, 4].map(optional))
        }
        Op::Resample(resampling) => resample::resample(resampling, input(0)),
        Op::Pad { begin, value, .. } => pad::pad(input(0), begin, f64::from(*value), out),
        Op::Split { .. } => unreachable!("handled above"),
        Op::Clip { .. }
        | Op::LeakyRelu { .. }
        | Op::Sigmoid
        | Op::HardSigmoid { .. }
        | Op::HardSwish
        | Op::Tanh
        | Op::Erf
        | Op::Sqrt
        | Op::Exp
        | Op::Log
        | Op::Abs
        | Op::Floor
        | Op::Ceil
        | Op::Round
        | Op::Sign
        | Op::Elu { .. }
        | Op::Softplus
        | Op::Softsign
        | Op::Mish
        | Op::Swish { .. }
        | Op::Shrink { .. }
        | Op::ThresholdedRelu { .. }
        | Op::Quantise { .. }
        | Op::Sin
        | Op::Cos
        | Op::Tan
        | Op::Asin
        | Op::Acos
        | Op::Atan
        | Op::Sinh
        | Op::Cosh
        | Op::Asinh
        | Op::Acosh
        | Op::Atanh
        | Op::Gelu { .. } => input(0).data.iter().map(|&x| unary::unary(op, x)).collect(),
    }]
}
