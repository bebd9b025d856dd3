//! Strategies turn a network and a budget into a [`Plan`], one file each. Before that,
//! [`algorithms`] offers ways to compute the layers, and [`choose`] takes the one with the best
//! plans.

mod activations;
pub mod algorithms;
mod baseline_guard;
mod builder;
pub mod choose;
mod compact;
mod construct;
mod construction;
mod design;
mod fast;
mod fit;
mod frugal;
mod improve;
mod in_place;
mod joint;
mod kind;
mod longest;
pub mod on_load;
mod own;
mod pack_request;
mod place;
mod precomputed;
mod queue;
mod refit;
mod residents;
mod shared_residents;
mod staging;

pub use crate::request::Request;
pub use kind::Strategy;
pub use longest::choose_bounded;
pub use own::{Direct, Joint, OnDemand, Preload};
pub use pack_request::PackRequest;

use crate::simulate::simulate;
use eyelet::pack::PAGE;
use eyelet_model::plan::Plan;
use place::Misfit;
use refit::Refit;
use std::str::FromStr;
use std::time::Duration;

/// Parts of strategies, for those of other crates. They change with this crate.
#[doc(hidden)]
pub mod parts {
    pub use super::baseline_guard::{Contest, bounds_ns};
    pub use super::builder::PlanBuilder;
    pub use super::design::{Built, Design, Pins, SlicingTarget};
    pub use super::frugal::{Fit, designs_in, least_of, rooms};
    pub use super::place::{Loading, Misfit, UNLIMITED};
    pub use super::queue::queue;
    pub use super::staging::stage;
    pub use super::{SLICE, refuse};
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error(
        "a budget of {} is too small for {network}: the smallest feasible one is {}, set by layer \
         `{layer}` ({reason}); give at least that much",
        eyelet_model::size::exact(*budget), eyelet_model::size::exact(*smallest)
    )]
    Budget { network: String, budget: u64, smallest: u64, layer: String, reason: String },
    /// The strategy's own reason why it is not for a board.
    #[error("{0}")]
    Unsuited(String),
    #[error(
        "no step may take longer than {:?}, and the smallest step of layer `{layer}` takes {:?} by the costs of the board: \
         give --longest-step at least that, or plan for a faster board",
        Duration::from_nanos(*limit_ns), Duration::from_nanos(*ns)
    )]
    LongestStep { layer: String, ns: u64, limit_ns: u64 },
    #[error(
        "steps of at most {:?} are so many that the plan's tables have no room: give a longer --longest-step or a \
         larger budget", Duration::from_nanos(*limit_ns)
    )]
    Tables { limit_ns: u64 },
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
    let transformed = strategy.transforms().then(|| on_load::fastest(request)).flatten();
    let draft = strategy.begin(request, transformed.as_ref())?;
    Ok(draft.ok_or_else(|| refusal(request))?.finish(effort).0)
}

/// A plan with its prediction, which can still be improved.
pub enum Draft<'a> {
    Finished(Box<PlanResult>, Predicted),
    Constructed(Box<joint::Constructed<'a>>),
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
    joint::refusal(request)
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
    let builder =
        builder::PlanBuilder::with(request, precomputed::Precomputed::new(request).into(), groups);
    let all = design::Design::uniform(
        crate::slice::Cutting::RESIDENT,
        &request.network.on_load,
        place::Loading::Cyclic,
    );
    builder.place(&all, request.budget).unwrap()
}

/// Why a layer can be too large for a budget, apart from its activations.
pub const SLICE: &str = "one slice of its weights and its scratch beside the activations";

/// The error that names the smallest budget and the layer that sets it. That layer is the one for
/// which `place` has no room in one page less. `reason` says what of the layer is too large, unless
/// its activations are.
pub fn refuse(
    request: &Request<'_>,
    smallest: u64,
    reason: &str,
    place: &dyn Fn(u64) -> Result<Plan, Misfit>,
) -> PlanError {
    let misfit = place(smallest.saturating_sub(PAGE)).err();
    let misfit = misfit.unwrap_or(Misfit { layer: 0, activations: true });
    let activations = "its inputs and output, with what else is alive then";
    PlanError::Budget {
        network: request.network.name.clone(),
        budget: request.budget,
        smallest,
        layer: request.network.names.get(misfit.layer as usize).cloned().unwrap_or_default(),
        reason: if misfit.activations { activations } else { reason }.to_owned(),
    }
}
