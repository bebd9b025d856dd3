//! The plan that is followed.

use crate::arena::Lapsing;
use crate::pack::{PlanEntry, PlanView, Skeleton};
use crate::proof::Proven;

/// The plan that is followed.
#[derive(Debug)]
pub(super) struct Current<'a> {
    pub entry: PlanEntry,
    /// Bytes of arena that plans may have, as asked for last.
    pub budget: u64,
    /// None after a change of budget or shape that failed, and during one.
    pub proven: Lapsing<Proven<'a>>,
}

impl Current<'_> {
    pub fn plan(&self) -> &PlanView<'_> {
        self.proven.get().map_or(&PlanView::EMPTY, Proven::plan)
    }

    pub fn skeleton(&self) -> &Skeleton<'_> {
        self.proven.get().map_or(&Skeleton::EMPTY, Proven::skeleton)
    }
}
