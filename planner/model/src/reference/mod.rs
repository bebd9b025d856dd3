//! The reference: every operator in double precision, in plain loops.
//!
//! What eyelet computes is judged against this, so it shares no code with the kernels and follows the
//! operators' definitions word by word, in the model's own layout. Speed matters only where networks of
//! real size would otherwise take minutes: convolutions and products of matrices use all cores.

mod grid_sample;
mod layout;
mod linear;
mod normalise;
mod places;
mod pointwise;
mod recurrent;
mod resample;
#[cfg(test)]
mod tests;
mod window;
mod words;

use crate::graph::{Constant, Graph, Op, ValueId};
pub use pointwise::erf;
use pointwise::outer;
use std::borrow::Cow;
pub use words::word;

/// A tensor that is read.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    pub shape: &'a [usize],
    pub data: &'a [f64],
}

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
    let out = outputs[0];
    if let Op::Split { axis, sizes } = op {
        return layout::split(input(0), *axis, sizes);
    }
    vec![match op {
        Op::Conv { window, groups } => {
            window::conv(window, *groups, input(0), input(1), optional(2), out)
        }
        Op::MaxPool { window, .. } => window::max_pool(window, input(0), out),
        Op::AveragePool { window, count_include_pad, .. } => {
            window::average_pool(window, *count_include_pad, input(0), out)
        }
        Op::GlobalAveragePool
        | Op::Reduce { .. }
        | Op::BatchNorm { .. }
        | Op::Softmax { .. }
        | Op::Lrn { .. }
        | Op::LayerNorm { .. }
        | Op::RmsNorm { .. }
        | Op::GroupNorm { .. } => normalise::evaluate(op, inputs),
        Op::Add
        | Op::Sub
        | Op::Mul
        | Op::Div
        | Op::Max
        | Op::Min
        | Op::Pow
        | Op::Mod
        | Op::PRelu
        | Op::Mask => pointwise::binary(input(0), input(1), out, pointwise::of_two(op)),
        Op::Take { axis } => layout::take(input(0), input(1), *axis),
        Op::Words(op) => words::apply(*op, input(0), optional(1), out),
        Op::Where => words::choose(input(0), input(1), input(2), out),
        Op::Fold { op, axes, last, .. } => words::fold(*op, *last, input(0), axes),
        Op::Order { axis, largest, .. } => places::order(input(0), *axis, *largest, out),
        Op::Suppress(suppression) => places::suppress(suppression, input(0), input(1), out),
        Op::Scatter { op } => places::scatter(*op, input(0), input(1), input(2)),
        Op::Gather => layout::gather(input(0), input(1)),
        Op::Gemm { alpha, beta, trans_a, trans_b } => {
            let scale = [f64::from(*alpha), f64::from(*beta)];
            linear::gemm(scale, [*trans_a, *trans_b], input(0), input(1), optional(2), out)
        }
        Op::MatMul => linear::matmul(input(0), input(1), out),
        Op::Concat { axis } => {
            layout::concat(&inputs.iter().flatten().copied().collect::<Vec<_>>(), *axis)
        }
        Op::Slice { starts, steps } => layout::slice(input(0), starts, steps, out),
        Op::Reshape => input(0).data.to_vec(),
        Op::Expand => layout::expand(input(0), out),
        Op::Fill { value } => vec![f64::from(*value); out.iter().product()],
        Op::Transpose { perm } => layout::transpose(input(0), perm, out),
        Op::GridSample(sampling) => grid_sample::grid_sample(sampling, input(0), input(1), out),
        Op::Recurrent(recurrence) => {
            recurrent::recurrent(recurrence, [0, 1, 2, 3, 4].map(optional))
        }
        Op::Resample(resampling) => resample::resample(resampling, input(0)),
        Op::Pad { begin, value, .. } => layout::pad(input(0), begin, f64::from(*value), out),
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
        | Op::Gelu { .. } => input(0).data.iter().map(|&x| pointwise::unary(op, x)).collect(),
    }]
}

/// Calls `task` for each item of `output` cut into chunks, on all cores.
fn parallel(output: &mut [f64], chunk: usize, task: impl Fn(usize, &mut [f64]) + Sync) {
    let count = output.len() / chunk;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count).max(1);
    if threads == 1 {
        output.chunks_exact_mut(chunk).enumerate().for_each(|(index, part)| task(index, part));
        return;
    }
    let each = count.div_ceil(threads);
    std::thread::scope(|scope| {
        for (thread, run) in output.chunks_mut(each * chunk).enumerate() {
            let task = &task;
            scope.spawn(move || {
                for (index, part) in run.chunks_exact_mut(chunk).enumerate() {
                    task(thread * each + index, part);
                }
            });
        }
    });
}

/// Calls `visit` with every index of a shape, in row-major order.
fn each_index(shape: &[usize], mut visit: impl FnMut(&[usize])) {
    if shape.contains(&0) {
        return;
    }
    let mut index = vec![0; shape.len()];
    'next: loop {
        visit(&index);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                continue 'next;
            }
            index[axis] = 0;
        }
        return;
    }
}

/// Row-major offset of an index.
fn offset(shape: &[usize], index: impl IntoIterator<Item = usize>) -> usize {
    shape.iter().zip(index).fold(0, |offset, (&extent, at)| offset * extent + at)
}
