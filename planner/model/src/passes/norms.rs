//! Fusion of normalisations, and of softmax.

use super::PassError;
use super::fuse::{input, unsupported};
use super::program::{Builder, Work};
use crate::graph::{Node, ValueId};

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
    pub(super) fn layer_norm(&mut self, node: &Node, axis: usize, epsilon: f32) {
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
        let work = Work::LayerNorm { epsilon, scale: all(self, 1, 1.0), shift: all(self, 2, 0.0) };
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
