//! Strategies turn a network and a budget into a [`Plan`], one file each. Before that,
//! [`algorithms`] offers ways to compute the layers, and [`choose`] takes the one with the best
//! plans.

pub mod algorithms;
mod construct;
mod improve;
mod place;
mod request;
mod residents;
mod strategy;

pub use crate::request::Request;
pub use place::refusal::PlanError;
pub use request::chosen::{Chosen, choose, choose_shape};
pub use request::longest_step::choose_bounded;
pub use request::pack_request::PackRequest;
pub use strategy::kind::Strategy;
pub use strategy::own::{Direct, Joint, OnDemand, Preload};

use crate::simulate::simulate;
use eyelet_model::plan::Plan;
use residents::refit::Refit;
use std::str::FromStr;
use std::time::Duration;

/// Parts of strategies, for those of other crates. They change with this crate.
#[doc(hidden)]
pub mod parts {
    pub use super::construct::frugal::{Fit, designs_in, least_of, rooms};
    pub use super::place::builder::PlanBuilder;
    pub use super::place::design::{Built, Design, Pins, SlicingTarget};
    pub use super::place::queue::queue;
    pub use super::place::refusal::{SLICE, refuse};
    pub use super::place::sliced_network::{Loading, Misfit, UNLIMITED};
    pub use super::place::staging::stage;
    pub use super::strategy::guard::{Contest, bounds_ns};
}

/// How long a strategy searches for a better plan, for each budget.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Effort {
    /// Not at all: the constructed plan stays.
    Fast,
    /// For about a second.
    #[default]
    Default,
    /// For about a quarter of a minute.
    Best,
    /// For so many seconds by the clock. Plans can then differ from machine to machine.
    Seconds(f64),
}

impl FromStr for Effort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fast" => Ok(Self::Fast),
            "default" => Ok(Self::Default),
            "best" => Ok(Self::Best),
            _ => match text.parse() {
                Ok(seconds) if (0.0..=86400.0).contains(&seconds) => Ok(Self::Seconds(seconds)),
                _ => Err("it is `fast`, `default`, `best` or a number of seconds".to_owned()),
            },
        }
    }
}

/// A plan, and the time that it took.
#[derive(Clone, Debug, Default)]
pub struct PlanResult {
    pub plan: Plan,
    /// Time until there was a good plan.
    pub constructive: Duration,
    /// Time for improving it.
    pub improvement: Duration,
    /// Changes that were tried while improving it.
    pub tried: u32,
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
    let transformed =
        strategy.transforms().then(|| algorithms::on_load::fastest(request)).flatten();
    let draft = strategy.begin(request, transformed.as_ref())?;
    Ok(draft.ok_or_else(|| refusal(request))?.finish(effort).0)
}

/// A plan with its prediction, which can still be improved.
pub enum Draft<'a> {
    Finished(Box<PlanResult>, Predicted),
    Constructed(Box<construct::constructed::Constructed<'a>>),
}

/// Predicted nanoseconds of a steady inference.
pub type Predicted = u64;

impl<'a> Draft<'a> {
    pub fn predicted_ns(&self) -> Predicted {
        match self {
            Self::Finished(_, predicted_ns) => *predicted_ns,
            Self::Constructed(constructed) => constructed.predicted_ns(),
        }
    }

    /// Whether the plan may read: all weights have no room, or the strategy does not ask.
    fn may_read(&self) -> bool {
        !matches!(self, Self::Constructed(constructed) if constructed.keeps_all)
    }

    /// Improves the plan. Also returns what it was made of, if its residents can still be changed.
    fn finish(self, effort: Effort) -> (PlanResult, Option<Refit<'a>>) {
        match self {
            Self::Finished(made, _) => (*made, None),
            Self::Constructed(constructed) => {
                let (made, refit) = constructed.improve(effort);
                (made, Some(refit))
            }
        }
    }
}

/// Why [`Strategy::begin`] found no plan. The error names the smallest budget, which takes a search.
pub fn refusal(request: &Request<'_>) -> PlanError {
    construct::constructed::refusal(request)
}

/// A plan that is not improved, by the strategy of this name.
fn finished<'a>(strategy: &str, request: &Request<'a>, mut made: PlanResult) -> Draft<'a> {
    made.plan.strategy = strategy.to_owned();
    made.plan.budget = request.budget;
    let Request { network, profile, threads, .. } = *request;
    let predicted_ns = simulate(network, &made.plan, profile, threads).steady_ns;
    Draft::Finished(Box::new(made), predicted_ns)
}

/// A plan in which these groups slide and all weights stay, for tests.
#[cfg(test)]
pub(crate) fn with_groups(request: &Request<'_>, groups: Vec<crate::slide::Group>) -> Plan {
    let builder = place::builder::PlanBuilder::with(
        request,
        place::precomputed::Precomputed::new(request).into(),
        groups,
    );
    let all = place::design::Design::uniform(
        crate::slice::Cutting::RESIDENT,
        &request.network.on_load,
        place::sliced_network::Loading::Cyclic,
    );
    builder.place(&all, request.budget).unwrap()
}
