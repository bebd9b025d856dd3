//! Reductions of words over axes, and the places of extremes.

use super::builder::Item;
use super::emitter::Emitter;
use super::reduce::Reduction;
use super::{INTEGERS, Operation, Operator, PassError};
use eyelet::pack::{self, FoldOp, FoldParams, OpKind};

/// Of all rows.
pub(super) const ROW: Operator = Operator::new(OpKind::Fold);

/// A reduction of words.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub op: FoldOp,
    pub axes: Vec<usize>,
    pub keep: bool,
    pub last: bool,
}

impl Operation for Fold {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let (op, last) = (self.op as u32, self.last.into());
        let record = |[outer, reduce, inner]: [u32; 3]| {
            let params = FoldParams { outer, reduce, inner, op, last };
            (OpKind::Fold, pack::params_words(&params))
        };
        emitter.reduction(item, Reduction::Words(&record), &self.axes, self.keep)
    }

    fn is_placeable(&self) -> bool {
        false
    }

    fn beyond_gpus(&self) -> Option<String> {
        Some(INTEGERS.into())
    }
}
