//! Strategies: each turns a network and a budget into a [`Plan`]. One file each.

pub mod flexnn;
mod residents;

use crate::network::Network;
use crate::plan::Plan;
use crate::profile::Profile;

/// What a plan is wanted for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub network: &'a Network,
    /// Bytes of the weights section.
    pub weights_bytes: u64,
    /// Bytes of arena.
    pub budget: u64,
    /// Compute threads that the scratch must serve.
    pub threads: u32,
    pub profile: &'a Profile,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error(
        "a budget of {} is too small for {network}: the smallest feasible one is {}, set by layer \
         `{layer}` ({reason}); give at least that much",
        crate::size::exact(*budget), crate::size::exact(*smallest)
    )]
    Budget { network: String, budget: u64, smallest: u64, layer: String, reason: String },
    #[error("there is no strategy `{0}`; there are: {list}", list = eyelet::pack::STRATEGIES.join(", "))]
    Strategy(String),
}

/// Plans by the strategy of that name.
pub fn plan(name: &str, request: &Request<'_>) -> Result<Plan, PlanError> {
    match name {
        "flexnn" => flexnn::plan(request),
        _ => Err(PlanError::Strategy(name.to_owned())),
    }
}
