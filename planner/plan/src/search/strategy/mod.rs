//! Strategies: the trait, and the joint search.

pub mod draft;
mod joint;

pub use joint::Joint;

use super::construct::frugal::refusal;
use super::improve::PlanResult;
use super::improve::effort::Effort;
use super::place::builder::PlanBuilder;
use super::place::design::Built;
use super::place::refusal::PlanError;
use crate::profile::Profile;
use crate::request::Request;
use draft::{Draft, finished};
use eyelet_model::plan::Plan;
use std::fmt;

/// A way to plan.
pub trait Strategy: fmt::Debug + Sync {
    /// Its name on the command line and in packs.
    fn name(&self) -> &'static str;

    /// A description of it, in a line.
    fn about(&self) -> &'static str;

    /// A plan for the budget of the request, or the error that names the smallest budget.
    fn plan(&self, request: &Request<'_>) -> Result<PlanResult, PlanError>;

    /// The fastest plan of this strategy and its variants that takes less than `than_ns`. No layers
    /// of the builder slide. Plans that read count only if they `may_read`. A plan whose lower bound
    /// is no less than the time need not be made. By default the strategy is not compared.
    #[doc(hidden)]
    fn faster(&self, _: &PlanBuilder<'_>, _than_ns: u64, _may_read: bool) -> Option<Built> {
        None
    }

    /// A first plan, without a search. Returns nothing if there is none; [`refusal`] then says why.
    fn begin<'a>(&self, request: &Request<'a>) -> Result<Option<Draft<'a>>, PlanError> {
        Ok(Some(finished(self.name(), request, self.plan(request)?)))
    }

    /// Whether it is for a board.
    fn serves(&self, _: &Profile) -> bool {
        true
    }

    /// Whether it may have steps transform the weights of their layers.
    fn transforms(&self) -> bool {
        false
    }

    /// Whether steps use weights where they lie, in a pack that lies in memory. Published strategies
    /// copy all weights.
    fn uses_in_place(&self) -> bool {
        false
    }

    /// Whether all layers are to be computed by the algorithm with the least memory.
    fn computes_directly(&self) -> bool {
        false
    }
}

impl fmt::Display for dyn Strategy + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Plans with the default effort.
pub fn plan(strategy: &dyn Strategy, request: &Request<'_>) -> Result<Plan, PlanError> {
    make(strategy, request, Effort::Default).map(|made| made.plan)
}

/// Plans by a strategy.
pub fn make(
    strategy: &dyn Strategy,
    request: &Request<'_>,
    effort: Effort,
) -> Result<PlanResult, PlanError> {
    let draft = strategy.begin(request)?;
    Ok(draft.ok_or_else(|| refusal(request))?.finish(effort).0)
}
