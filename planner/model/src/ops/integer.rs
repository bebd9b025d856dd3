//! Operations on words: integers, truth values and conversions.

use super::broadcast::Broadcast;
use super::builder::Item;
use super::emitter::Emitter;
use super::{INTEGERS, Lines, Operation, Operator, PassError};
use eyelet::pack::{self, IntegerOp, IntegerParams, OpKind};

/// Row by row, of operands that are not broadcast.
pub(super) const ROW: Operator = Operator {
    lines: |network, layer, slot| {
        let dims = |id: u32| network.tensors[id as usize].dims;
        (dims(layer.inputs[slot]) == dims(layer.output)).then_some(Lines::Own)
    },
    ..Operator::new(OpKind::Integer)
};

/// An operation on words; one of two inputs may be a constant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    pub op: IntegerOp,
}

impl Operation for Words {
    /// Operations on words.
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let op = self.op;
        let mut params = IntegerParams { op: op as u32, ..IntegerParams::default() };
        if op.operands() == 1 {
            let Broadcast { inputs, output, weights, .. } = emitter.broadcast::<1>(item)?;
            let params = pack::params_words(&params);
            return emitter.layer(item, OpKind::Integer, inputs, output, params, weights);
        }
        let Broadcast { inputs, output, constants, weights } = emitter.broadcast::<2>(item)?;
        if let Some(which) = constants.iter().position(Option::is_some) {
            params.constants = which as u32 + 1;
            params.extents = constants.map(Option::unwrap_or_default);
        }
        emitter.layer(item, OpKind::Integer, inputs, output, pack::params_words(&params), weights)
    }

    fn constants(&self) -> usize {
        1
    }

    fn beyond_gpus(&self) -> Option<String> {
        Some(INTEGERS.into())
    }
}
