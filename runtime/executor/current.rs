//! The plan that is followed.

use crate::arena::Lapsing;
use crate::pack::{PlanEntry, PlanView};
use crate::proof::Proven;

/// The plan that is followed.
#[derive(Debug)]
pub(super) struct Current<'a> {
    pub entry: PlanEntry,
    /// None after a change of budget that failed, and during one.
    pub proven: Lapsing<Proven<'a>>,
}

impl Current<'_> {
    pub fn plan(&self) -> &PlanView<'_> {
        self.proven.get().map_or(&PlanView::EMPTY, Proven::plan)
    }
}
