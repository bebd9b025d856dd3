//! Each element of one tensor or another, as a condition says.

use super::broadcast::Broadcast;
use super::builder::Item;
use super::emitter::Emitter;
use super::exact::{self, each_index};
use super::integer::pick;
use super::{INTEGERS, Lines, Operation, Operator, PassError};
use crate::graph::Constant;
use eyelet::pack::{self, Element, OpKind, WhereParams};

/// Row by row, of operands that are not broadcast.
pub(super) const ROW: Operator = Operator {
    lines: |network, layer, slot| {
        let dims = |id: u32| network.tensors[id as usize].dims;
        (dims(layer.inputs[slot]) == dims(layer.output)).then_some(Lines::Own)
    },
    ..Operator::new(OpKind::Where)
};

/// One of two inputs, as a third one says; some may be constants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Where;

impl Operation for Where {
    /// One operand or another.
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let Broadcast { inputs, output, constants, weights } = emitter.broadcast::<3>(item)?;
        let which = (0..3).filter(|&i| constants[i].is_some()).map(|i| 1 << i).sum();
        let extents = constants.map(Option::unwrap_or_default);
        if which & 0b110 == 0b110 {
            let words =
                matches!(emitter.program.values[item.inputs[1]].constant, Some(Constant::Words(_)));
            let element = if words { Element::Word } else { Element::Float };
            emitter.out.chosen.insert(output.buffer, element);
        }
        let params = pack::params_words(&WhereParams { constants: which, extents });
        emitter.layer(item, OpKind::Where, inputs, output, params, weights)
    }

    fn constants(&self) -> usize {
        2
    }

    fn beyond_gpus(&self) -> Option<String> {
        Some(INTEGERS.into())
    }
}

/// The elements that a condition chooses.
pub(crate) fn choose(
    condition: exact::Tensor<'_>,
    a: exact::Tensor<'_>,
    b: exact::Tensor<'_>,
    out: &[usize],
) -> Vec<f64> {
    let mut result = Vec::with_capacity(out.iter().product());
    each_index(out, |index| {
        let chosen = if pick(&condition, index) != 0.0 { &a } else { &b };
        result.push(pick(chosen, index));
    });
    result
}
