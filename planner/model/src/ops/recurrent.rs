//! Recurrent networks: the item that a node becomes, and its emission with weights packed by panels
//! of hidden units.

use super::builder::{Builder, Item, input, unsupported};
use super::emitter::{Emitter, field};
use super::exact;
use super::view::row_major;
use super::{Operation, Operator, PassError, Work};
use crate::graph::{Cell, Constant, Node, Recurrence};
use crate::network::Weights;
use eyelet::pack::{self, Activation, ActivationKind, OpKind, RecurrentParams};
use std::sync::Arc;

/// Of all times.
pub(super) const ROW: Operator = Operator::new(OpKind::Recurrent);

/// Over times: what gates are given, and the state at the beginning.
#[derive(Clone, Debug)]
pub(crate) struct Recurrent {
    pub recurrence: Recurrence,
    /// `[gates · hidden, hidden]`
    pub weights: Constant,
    /// Of the weights.
    pub biases: Option<Constant>,
    pub peepholes: Option<Constant>,
}

impl Operation for Recurrent {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let Self { recurrence: of, weights, biases, peepholes } = self;
        let constants = [Some(weights), biases.as_ref(), peepholes.as_ref()];
        let name = item.name.as_str();
        emitter.refuse_gpu(name, "recurrent networks")?;
        let given = emitter.operand(name, item.inputs[0], &row_major(3))?;
        let first = item.inputs.get(1).map(|&first| emitter.operand(name, first, &row_major(2)));
        let first = first.transpose()?;
        let output = emitter.place(name, item.outputs[0], &row_major(3))?;
        let (cell, reset_after) = match of.cell {
            Cell::Rnn => (0, false),
            Cell::Gru { reset_after } => (1, reset_after),
            Cell::Lstm => (2, false),
        };
        let params = RecurrentParams {
            cell,
            hidden: field(name, "the number of hidden units", of.hidden)?,
            reverse: of.reverse.into(),
            reset_after: reset_after.into(),
            peepholes: constants[2].is_some().into(),
            clip: of.clip,
            functions: of.functions,
        };
        let packed = packed(of, constants, emitter.isa.panel());
        let weights = Weights::Plain(Constant::Owned(Arc::new(packed)));
        let words = pack::params_words(&params);
        emitter.layer(item, OpKind::Recurrent, [Some(given), first], output, words, weights)
    }

    fn is_placeable(&self) -> bool {
        false
    }
}

impl Builder {
    pub fn recurrent(&mut self, node: &Node, recurrence: Recurrence) -> Result<(), PassError> {
        let given = input(node, 0)?;
        let optional = |index: usize| node.inputs.get(index).copied().flatten();
        let mut constants =
            [1, 2, 3].map(|index| optional(index).map(|value| self.constant(value).cloned()));
        let computed = constants.iter().any(|constant| matches!(constant, Some(None)));
        let [weights, biases, peepholes] =
            constants.each_mut().map(|constant| constant.take().flatten());
        let Some(weights) = weights.filter(|_| !computed) else {
            let hint = "export them as initializers";
            return Err(unsupported(node, "its recurrent weights are not constant", hint));
        };
        let (hidden, gates) = (recurrence.hidden, recurrence.cell.gates());
        if weights.len() != gates * hidden * hidden {
            return Err(PassError::Mismatch {
                node: node.name.clone(),
                what: "the number of recurrent weights",
                found: weights.len(),
                expected: gates * hidden * hidden,
            });
        }
        let inputs: Vec<_> = [Some(given), optional(4)].into_iter().flatten().collect();
        let work = Work::Recurrent(Recurrent { recurrence, weights, biases, peepholes });
        self.push(&node.name, work, &inputs, &node.outputs);
        Ok(())
    }
}

/// Weights by gate and panel of hidden units, `[bias][from unit][unit]`, then the peepholes.
fn packed(
    of: &Recurrence,
    [weights, biases, peepholes]: [Option<&Constant>; 3],
    nr: usize,
) -> Vec<f32> {
    let (hidden, gates) = (of.hidden, of.cell.gates());
    let panels = gates * hidden.div_ceil(nr);
    let mut packed = Vec::with_capacity(panels * (1 + hidden) * nr + 3 * hidden);
    for gate in 0..gates {
        for first in (0..hidden).step_by(nr) {
            // Units beyond the last have weights of zero.
            let mut line = |of: &dyn Fn(usize) -> f32| {
                let unit = |lane: usize| Some(first + lane).filter(|&unit| unit < hidden);
                let weight = |lane| unit(lane).map_or(0.0, |unit| of(gate * hidden + unit));
                packed.extend((0..nr).map(weight));
            };
            line(&|row| biases.map_or(0.0, |biases| biases.get(row)));
            for from in 0..hidden {
                line(&|row| weights.map_or(0.0, |weights| weights.get(row * hidden + from)));
            }
        }
    }
    packed.extend(peepholes.iter().flat_map(|constant| constant.to_vec()));
    packed
}

/// A function of a gate; only those that the importer gives one.
fn apply(function: &Activation, x: f64) -> f64 {
    let (alpha, beta) = (f64::from(function.alpha), f64::from(function.beta));
    match function.function() {
        None | Some(ActivationKind::None) => x,
        Some(ActivationKind::Sigmoid) => 1.0 / (1.0 + (-x).exp()),
        Some(ActivationKind::Tanh) => x.tanh(),
        Some(ActivationKind::Clamp) => x.max(alpha).min(beta),
        Some(ActivationKind::LeakyRelu) if x >= 0.0 => x,
        Some(ActivationKind::LeakyRelu) => alpha * x,
        Some(ActivationKind::HardSigmoid) => (alpha * x + beta).clamp(0.0, 1.0),
        Some(other) => panic!("{other:?} is no function of a gate"),
    }
}

/// The state at each time, in double precision.
pub(crate) fn recurrent(of: &Recurrence, inputs: [Option<exact::Tensor<'_>>; 5]) -> Vec<f64> {
    let [given, weights, biases, peepholes, first] = inputs;
    let (given, weights) = (given.expect("gates"), weights.expect("weights"));
    let (times, batch) = (given.shape[0], given.shape[1]);
    let (hidden, gates, states) = (of.hidden, of.cell.gates(), of.cell.states());
    let width = states * hidden;
    let mut result = vec![0.0; times * batch * width];
    for sequence in 0..batch {
        let mut now = match first {
            Some(first) => first.data[sequence * width..][..width].to_vec(),
            None => vec![0.0; width],
        };
        for step in 0..times {
            let time = if of.reverse { times - 1 - step } else { step };
            let row = &given.data[(time * batch + sequence) * gates * hidden..][..gates * hidden];
            let peep = |gate: usize, unit: usize, c: f64| {
                peepholes.map_or(0.0, |weights| weights.data[gate * hidden + unit] * c)
            };
            now = state(of, &now, row, (weights, biases), &peep);
            result[(time * batch + sequence) * width..][..width].copy_from_slice(&now);
        }
    }
    result
}

/// The state after one time.
fn state(
    of: &Recurrence,
    before: &[f64],
    given: &[f64],
    (weights, biases): (exact::Tensor<'_>, Option<exact::Tensor<'_>>),
    peep: &dyn Fn(usize, usize, f64) -> f64,
) -> Vec<f64> {
    let hidden = of.hidden;
    let bound = f64::from(of.clip);
    let f = |which: usize, x: f64| apply(&of.functions[which], x.max(-bound).min(bound));
    let product = |row: usize, h: &[f64]| {
        let row_of = &weights.data[row * hidden..][..hidden];
        let sum: f64 = row_of.iter().zip(h).map(|(weight, h)| weight * h).sum();
        sum + biases.map_or(0.0, |biases| biases.data[row])
    };
    let h = &before[..hidden];
    let sum = |gate: usize, unit: usize| {
        let row = gate * hidden + unit;
        given[row] + product(row, h)
    };
    match of.cell {
        Cell::Rnn => (0..hidden).map(|unit| f(0, sum(0, unit))).collect(),
        Cell::Gru { reset_after } => {
            let r: Vec<f64> = (0..hidden).map(|unit| f(0, sum(1, unit))).collect();
            let reset: Vec<f64> = r.iter().zip(h).map(|(r, h)| r * h).collect();
            let next = |unit: usize| {
                let (z, row) = (f(0, sum(0, unit)), 2 * hidden + unit);
                let n = match reset_after {
                    true => given[row] + r[unit] * product(row, h),
                    false => given[row] + product(row, &reset),
                };
                (1.0 - z) * f(1, n) + z * h[unit]
            };
            (0..hidden).map(next).collect()
        }
        Cell::Lstm => {
            let mut after = vec![0.0; 2 * hidden];
            for unit in 0..hidden {
                let c = before[hidden + unit];
                let i = f(0, sum(0, unit) + peep(0, unit, c));
                let forget = f(0, sum(2, unit) + peep(2, unit, c));
                let c = forget * c + i * f(1, sum(3, unit));
                let o = f(0, sum(1, unit) + peep(1, unit, c));
                after[unit] = o * apply(&of.functions[2], c);
                after[hidden + unit] = c;
            }
            after
        }
    }
}
