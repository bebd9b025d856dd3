//! Recurrent networks: the item that a node becomes, and its emission with weights packed by panels
//! of hidden units.

use super::builder::{Builder, Item, input, unsupported};
use super::emitter::{Emitter, field};
use super::view::row_major;
use super::{Operation, Operator, PassError, Work};
use crate::graph::{Cell, Constant, Node, Recurrence};
use crate::network::Weights;
use eyelet::pack::{self, OpKind, RecurrentParams};
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
