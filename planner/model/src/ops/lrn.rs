//! Local response normalisation across channels.

use super::builder::Item;
use super::emitter::Emitter;
use super::{Lines, Operation, Operator, PassError};
use eyelet::pack::{self, LrnParams, OpKind};

/// Row by row.
pub(super) const ROW: Operator =
    Operator { lines: |_, _, _| Some(Lines::Own), ..Operator::new(OpKind::Lrn) };

/// Over windows of channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lrn {
    pub params: LrnParams,
}

impl Operation for Lrn {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let order = emitter.image(item)?;
        emitter.simple(item, OpKind::Lrn, &order, pack::params_words(&self.params))
    }
}
