//! Why there is no plan.

use super::sliced_network::Misfit;
use crate::request::Request;
use eyelet::pack::PAGE;
use eyelet_model::plan::Plan;
use std::time::Duration;

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

impl PlanError {
    /// The smallest budget, where the budget is too small; else no budget will do.
    pub(in crate::search) fn smallest(&self) -> u64 {
        match self {
            Self::Budget { smallest, .. } => *smallest,
            _ => u64::MAX,
        }
    }
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
