//! Fusion of normalisations, and of softmax.

use super::PassError;
use super::arithmetic::activation;
use super::fuse::{input, unsupported};
use super::program::{Builder, Work};
use crate::graph::{Node, ValueId};
use eyelet::pack::{ActivationKind, BinaryOp, ReduceOp};

impl Builder {
    pub(super) fn batch_norm(&mut self, node: &Node, epsilon: f32) -> Result<(), PassError> {
        let (x, y) = (input(node, 0)?, node.outputs[0]);
        let mut constants = Vec::new();
        for index in 1..5 {
            let Some(data) = self.constant(input(node, index)?) else {
                return Err(unsupported(
                    node,
                    "its statistics are not constant",
                    "export in eval mode",
                ));
            };
            constants.push(data.to_vec());
        }
        let [gamma, beta, mean, variance] = &constants[..] else { return Ok(()) };
        let channels = self.shape(x).get(1).copied().unwrap_or(1);
        for data in &constants {
            if data.len() != channels {
                return Err(PassError::Mismatch {
                    node: node.name.clone(),
                    what: "the number of statistics",
                    found: data.len(),
                    expected: channels,
                });
            }
        }
        let scale: Vec<f64> = (gamma.iter().zip(variance))
            .map(|(&gamma, &var)| f64::from(gamma) / (f64::from(var) + f64::from(epsilon)).sqrt())
            .collect();
        let shift: Vec<f64> = (beta.iter().zip(mean).zip(&scale))
            .map(|((&beta, &mean), scale)| f64::from(beta) - f64::from(mean) * scale)
            .collect();
        if !self.fold(x, y, |_, axis| (axis == 1).then(|| (scale.clone(), shift.clone()))) {
            self.scale_shift(&node.name, x, y, &scale, Some(shift));
        }
        Ok(())
    }

    /// Layer normalisation, over the last axis of a matrix where it is over several.
    pub(super) fn layer_norm(&mut self, node: &Node, axis: usize, epsilon: f32, about_zero: bool) {
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
        let work = Work::LayerNorm { epsilon, about_zero, scale, shift };
        if axis + 1 == shape.len() {
            return self.push(name, work, &[x], &[y]);
        }
        let folded = [shape[..axis].iter().product(), length];
        let (rows, result) = (self.temporary(name, &folded), self.temporary(name, &folded));
        self.push(name, Work::Reshape, &[x], &[rows]);
        self.push(name, work, &[rows], &[result]);
        self.push(name, Work::Reshape, &[result], &[y]);
    }

    /// Group normalisation by the statistics of channels, so that an image is read as it lies: first
    /// less the means of groups, which are those of their channels' means; then over the root of the
    /// mean squares of what is left.
    pub(super) fn group_norm(&mut self, node: &Node, groups: usize, epsilon: f32) {
        let name = node.name.as_str();
        let (x, y) = (node.inputs[0].unwrap_or_default(), node.outputs[0]);
        let shape = self.shape(x).to_vec();
        let parameter = |index: usize| node.inputs.get(index).copied().flatten();
        let (scale, shift) = (parameter(1), parameter(2));
        self.read(x);
        let mean = self.group_mean(name, ReduceOp::Mean, x, groups);
        let difference = self.temporary(name, &shape);
        self.push(name, Work::Binary { op: BinaryOp::Sub }, &[x, mean], &[difference]);
        self.read(difference);
        let variance = self.group_mean(name, ReduceOp::SquareMean, difference, groups);
        let small = self.shape(variance).to_vec();
        let epsilon = self.new_constant(name, &[], vec![epsilon]);
        let sum = self.temporary(name, &small);
        let root = activation(ActivationKind::Sqrt, 0.0, 0.0);
        let add = Work::Binary { op: BinaryOp::Add };
        self.push_active(name, add, &[variance, epsilon], &[sum], root);
        let scale = match scale {
            Some(scale) => self.channels(name, scale, &small),
            None => self.new_constant(name, &[], vec![1.0]),
        };
        let factor = self.temporary(name, &small);
        self.push(name, Work::Binary { op: BinaryOp::Div }, &[scale, sum], &[factor]);
        let scaled = if shift.is_some() { self.temporary(name, &shape) } else { y };
        self.push(name, Work::Binary { op: BinaryOp::Mul }, &[difference, factor], &[scaled]);
        if let Some(shift) = shift {
            let shift = self.channels(name, shift, &small);
            self.push(name, Work::Binary { op: BinaryOp::Add }, &[scaled, shift], &[y]);
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

    /// Follows the normalisation that makes `x`, for the node at hand alone, by `· scale + shift`.
    pub(super) fn fold_norm(&mut self, x: ValueId, y: ValueId, by: &[f64], to: &[f64]) -> bool {
        let width = self.shape(x).last().copied();
        let Some(item) = self.sole_maker(x).filter(|item| item.takes_activation()) else {
            return false;
        };
        let Work::LayerNorm { scale, shift, .. } = &mut item.work else { return false };
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

    pub(super) fn softmax(&mut self, name: &str, x: ValueId, y: ValueId, axis: usize, flat: bool) {
        let shape = self.shape(x).to_vec();
        let inner: usize = shape[axis..].iter().product();
        if !flat || inner == shape[axis] {
            return self.push(name, Work::Softmax { axis }, &[x], &[y]);
        }
        let folded = [shape[..axis].iter().product(), inner];
        let (rows, result) = (self.temporary(name, &folded), self.temporary(name, &folded));
        self.push(name, Work::Reshape, &[x], &[rows]);
        self.push(name, Work::Softmax { axis: 1 }, &[rows], &[result]);
        self.push(name, Work::Reshape, &[result], &[y]);
    }
}
