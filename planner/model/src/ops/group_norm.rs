//! Group normalisation, made of reductions and arithmetic.

use super::Work;
use super::binary::Binary;
use super::builder::Builder;
use super::exact;
use super::layernorm::layer_norm;
use super::unary::activation;
use crate::graph::{Node, ValueId};
use eyelet::pack::{ActivationKind, BinaryOp, ReduceOp};

impl Builder {
    /// Group normalisation by the statistics of channels, so that an image is read as it lies: first
    /// less the means of groups, which are those of their channels' means; then over the root of the
    /// mean squares of what is left.
    pub fn group_norm(&mut self, node: &Node, groups: usize, epsilon: f32) {
        let name = node.name.as_str();
        let (x, y) = (node.inputs[0].unwrap_or_default(), node.outputs[0]);
        let shape = self.shape(x).to_vec();
        let parameter = |index: usize| node.inputs.get(index).copied().flatten();
        let (scale, shift) = (parameter(1), parameter(2));
        self.read(x);
        let mean = self.group_mean(name, ReduceOp::Mean, x, groups);
        let difference = self.temporary(name, &shape);
        self.push(name, Work::Binary(Binary { op: BinaryOp::Sub }), &[x, mean], &[difference]);
        self.read(difference);
        let variance = self.group_mean(name, ReduceOp::SquareMean, difference, groups);
        let small = self.shape(variance).to_vec();
        let epsilon = self.new_constant(name, &[], vec![epsilon]);
        let sum = self.temporary(name, &small);
        let root = activation(ActivationKind::Sqrt, 0.0, 0.0);
        let add = Work::Binary(Binary { op: BinaryOp::Add });
        self.push_active(name, add, &[variance, epsilon], &[sum], root);
        let scale = match scale {
            Some(scale) => self.channels(name, scale, &small),
            None => self.new_constant(name, &[], vec![1.0]),
        };
        let factor = self.temporary(name, &small);
        self.push(name, Work::Binary(Binary { op: BinaryOp::Div }), &[scale, sum], &[factor]);
        let scaled = if shift.is_some() { self.temporary(name, &shape) } else { y };
        self.push(
            name,
            Work::Binary(Binary { op: BinaryOp::Mul }),
            &[difference, factor],
            &[scaled],
        );
        if let Some(shift) = shift {
            let shift = self.channels(name, shift, &small);
            self.push(name, Work::Binary(Binary { op: BinaryOp::Add }), &[scaled, shift], &[y]);
        }
    }

    /// One number a channel, in the shape that the channels of `small` have.
    fn channels(&mut self, name: &str, value: ValueId, small: &[usize]) -> ValueId {
        let shape: Vec<usize> = [&[small[1]][..], &small[2..]].concat();
        match self.constant(value) {
            Some(constant) => {
                let data = constant.to_vec();
                self.new_constant(name, &shape, data)
            }
            None => {
                let channels = self.temporary(name, &shape);
                self.push(name, Work::Reshape, &[value], &[channels]);
                channels
            }
        }
    }

    /// A mean over the axes after the channels, and over the channels of groups; one number for each
    /// channel.
    fn group_mean(&mut self, name: &str, op: ReduceOp, x: ValueId, groups: usize) -> ValueId {
        let shape = self.shape(x).to_vec();
        let mut small = shape.clone();
        small[2..].fill(1);
        let each = self.temporary(name, &small);
        self.reduce(name, op, x, each, (2..shape.len()).collect(), true);
        if groups == shape[1] {
            return each;
        }
        let size = shape[1] / groups;
        let divided = self.temporary(name, &[shape[0], groups, size]);
        self.push(name, Work::Reshape, &[each], &[divided]);
        let mean = self.temporary(name, &[shape[0], groups, 1]);
        self.reduce(name, ReduceOp::Mean, divided, mean, vec![2], true);
        let all = self.temporary(name, &[shape[0], groups, size]);
        self.push(name, Work::Expand, &[mean], &[all]);
        let joined = self.temporary(name, &small);
        self.push(name, Work::Reshape, &[all], &[joined]);
        joined
    }
}

/// Mean 0 and variance 1 over groups of channels, then scale and shift of each channel.
pub(crate) fn group_norm(
    epsilon: f64,
    x: exact::Tensor<'_>,
    groups: usize,
    scale: Option<&[f64]>,
    shift: Option<&[f64]>,
) -> Vec<f64> {
    let (channels, plane) = (x.shape[1], x.shape[2..].iter().product::<usize>());
    let length = channels / groups * plane;
    let folded = [x.shape[0] * groups, length];
    let normal = layer_norm(epsilon, exact::Tensor { shape: &folded, data: x.data }, 1, None, None);
    let scaled = normal.iter().enumerate().map(|(at, x)| {
        let channel = at / plane % channels;
        let (scale, shift) = (scale.map(|scale| scale[channel]), shift.map(|shift| shift[channel]));
        x * scale.unwrap_or(1.0) + shift.unwrap_or(0.0)
    });
    scaled.collect()
}
