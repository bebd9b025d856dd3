//! A first plan of a strategy, which can still be improved.

use crate::request::Request;
use crate::search::construct::Constructed;
use crate::search::improve::PlanResult;
use crate::search::improve::effort::Effort;
use crate::search::residents::refit::Refit;
use crate::simulate::simulate;

/// A plan with its prediction, which can still be improved.
pub enum Draft<'a> {
    Finished(Box<PlanResult>, u64),
    Constructed(Box<Constructed<'a>>),
}

impl<'a> Draft<'a> {
    /// Predicted nanoseconds of a steady inference.
    pub fn predicted_ns(&self) -> u64 {
        match self {
            Self::Finished(_, predicted_ns) => *predicted_ns,
            Self::Constructed(constructed) => constructed.predicted_ns(),
        }
    }

    /// Whether the plan may read: all weights have no room, or the strategy does not ask.
    pub(in crate::search) fn may_read(&self) -> bool {
        !matches!(self, Self::Constructed(constructed) if constructed.keeps_all)
    }

    /// Improves the plan. Also returns what it was made of, if its residents can still be changed.
    pub(in crate::search) fn finish(self, effort: Effort) -> (PlanResult, Option<Refit<'a>>) {
        match self {
            Self::Finished(made, _) => (*made, None),
            Self::Constructed(constructed) => {
                let (made, refit) = constructed.improve(effort);
                (made, Some(refit))
            }
        }
    }
}

/// A plan that is not improved, by the strategy of this name.
pub(in crate::search) fn finished<'a>(
    strategy: &str,
    request: &Request<'a>,
    mut made: PlanResult,
) -> Draft<'a> {
    made.plan.strategy = strategy.to_owned();
    made.plan.budget = request.budget;
    let Request { network, profile, threads, .. } = *request;
    let predicted_ns = simulate(network, &made.plan, profile, threads).steady_ns;
    Draft::Finished(Box::new(made), predicted_ns)
}
