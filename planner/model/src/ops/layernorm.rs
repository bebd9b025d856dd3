//! Normalisation over the last axis, with scale and shift.

use super::builder::{Builder, Item};
use super::emitter::Emitter;
use super::exact;
use super::view::last_axis_last;
use super::{Lines, Operation, Operator, PassError, Work};
use crate::graph::{Constant, Node, ValueId};
use crate::network::Weights;
use eyelet::pack::{self, LayerNormParams, OpKind};
use std::sync::Arc;

/// Row by row.
pub(super) const ROW: Operator =
    Operator { lines: |_, _, _| Some(Lines::Own), ..Operator::new(OpKind::LayerNorm) };

/// Over the last axis.
#[derive(Clone, Debug)]
pub(crate) struct LayerNorm {
    pub epsilon: f32,
    pub about_zero: bool,
    pub scale: Vec<f64>,
    pub shift: Vec<f64>,
}

impl Operation for LayerNorm {
    /// The last axis normalised.
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let Self { epsilon, about_zero, scale, shift } = self;
        let params = LayerNormParams { epsilon: *epsilon, about_zero: (*about_zero).into() };
        let (name, x, y) = (item.name.as_str(), item.inputs[0], item.outputs[0]);
        let order = last_axis_last(&emitter.view(name, x)?);
        let input = emitter.operand(name, x, &order)?;
        let output = emitter.place(name, y, &order)?;
        let constants = scale.iter().chain(shift).map(|&value| value as f32).collect();
        let weights = Weights::Plain(Constant::Owned(Arc::new(constants)));
        let params = pack::params_words(&params);
        emitter.layer(item, OpKind::LayerNorm, [Some(input), None], output, params, weights)
    }

    fn takes_activation(&self) -> bool {
        true
    }
}

impl Builder {
    /// Layer normalisation, over the last axis of a matrix where it is over several.
    pub fn layer_norm(&mut self, node: &Node, axis: usize, epsilon: f32, about_zero: bool) {
        let name = node.name.as_str();
        let (x, y) = (node.inputs[0].unwrap_or_default(), node.outputs[0]);
        let shape = self.shape(x).to_vec();
        let length: usize = shape[axis..].iter().product();
        let all = |builder: &Self, index: usize, neutral| {
            let constant = node.inputs.get(index).copied().flatten();
            match constant.and_then(|constant| builder.constant(constant)) {
                Some(data) => data.to_vec().into_iter().map(f64::from).collect(),
                None => vec![neutral; length],
            }
        };
        let (scale, shift) = (all(self, 1, 1.0), all(self, 2, 0.0));
        let work = Work::LayerNorm(LayerNorm { epsilon, about_zero, scale, shift });
        if axis + 1 == shape.len() {
            return self.push(name, work, &[x], &[y]);
        }
        let folded = [shape[..axis].iter().product(), length];
        let (rows, result) = (self.temporary(name, &folded), self.temporary(name, &folded));
        self.push(name, Work::Reshape, &[x], &[rows]);
        self.push(name, work, &[rows], &[result]);
        self.push(name, Work::Reshape, &[result], &[y]);
    }

    /// Follows the normalisation that makes `x`, for the node at hand alone, by `· scale + shift`.
    pub fn fold_norm(&mut self, x: ValueId, y: ValueId, by: &[f64], to: &[f64]) -> bool {
        let width = self.shape(x).last().copied();
        let Some(item) = self.sole_maker(x).filter(|item| item.takes_activation()) else {
            return false;
        };
        let Work::LayerNorm(LayerNorm { scale, shift, .. }) = &mut item.work else { return false };
        if Some(scale.len()) != width || by.len() != scale.len() {
            return false;
        }
        for ((shift, by), to) in shift.iter_mut().zip(by).zip(to) {
            *shift = *shift * by + to;
        }
        scale.iter_mut().zip(by).for_each(|(scale, by)| *scale *= by);
        self.retarget(x, y);
        true
    }
}

/// Mean 0 and variance 1 over all axes from one on, then scale and shift.
pub(crate) fn layer_norm(
    epsilon: f64,
    x: exact::Tensor<'_>,
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
pub(crate) fn rms_norm(
    epsilon: f64,
    x: exact::Tensor<'_>,
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
