//! Strategies: each turns a network and a budget into a [`Plan`]. One file each. Before them, [`algorithms`]
//! chooses how layers are computed.

pub mod algorithms;
pub mod baselines;
pub mod flexnn;
pub mod on_load;
mod place;
mod residents;

use crate::network::Network;
use crate::plan::Plan;
use crate::profile::Profile;
use crate::simulate::{Costs, simulate_with};
use eyelet::pack::PAGE;
use place::Misfit;

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
    /// Every layer is computed as it is stored.
    pub exact: bool,
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

/// Plans by the strategy of that name: with steps that transform the weights of their layers, where that is
/// predicted to be faster, and without.
pub fn plan(name: &str, request: &Request<'_>) -> Result<Plan, PlanError> {
    let stored = plan_for(name, request)?;
    let Some(network) = on_load::network(request) else { return Ok(stored) };
    let Ok(transformed) = plan_for(name, &Request { network: &network, ..*request }) else {
        return Ok(stored);
    };
    let costs = Costs::new(&network, request.profile, request.threads);
    let ns = |plan| simulate_with(plan, &costs).steady_ns;
    Ok(if ns(&transformed) < ns(&stored) { transformed } else { stored })
}

/// Plans with the algorithms that the network has.
fn plan_for(name: &str, request: &Request<'_>) -> Result<Plan, PlanError> {
    let plan = match name {
        "flexnn" => flexnn::plan(request),
        "preload" => baselines::preload(request),
        "on-demand" => baselines::on_demand(request),
        _ => return Err(PlanError::Strategy(name.to_owned())),
    };
    plan.map(|plan| Plan { strategy: name.to_owned(), budget: request.budget, ..plan })
}

/// For a budget in which `place` has failed: the smallest in which it succeeds, and the layer that sets
/// it, as an error; `reason` says what of the layer, if it is not the activations. Placing is greedy, so
/// that it can fail in more memory than it needs: then the plan for less.
fn smallest(
    request: &Request<'_>,
    reason: &str,
    place: &dyn Fn(u64) -> Result<Plan, Misfit>,
) -> Result<Plan, PlanError> {
    let (mut low, mut high) = (0u64, 1u64);
    while place(high * PAGE).is_err() {
        (low, high) = (high, high * 2);
    }
    while low + 1 < high {
        let middle = (low + high) / 2;
        if place(middle * PAGE).is_ok() { high = middle } else { low = middle }
    }
    if high * PAGE <= request.budget
        && let Ok(plan) = place(high * PAGE)
    {
        return Ok(plan);
    }
    let misfit = place(low * PAGE).err().unwrap_or(Misfit { layer: 0, activations: true });
    let activations = "its inputs and output, with what else is alive then";
    Err(PlanError::Budget {
        network: request.network.name.clone(),
        budget: request.budget,
        smallest: high * PAGE,
        layer: request.network.names.get(misfit.layer as usize).cloned().unwrap_or_default(),
        reason: if misfit.activations { activations } else { reason }.to_owned(),
    })
}
