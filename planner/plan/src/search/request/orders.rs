//! Another order of the layers, where the memory does not suffice for the one at hand.

use crate::order::leaner;
use crate::search::place::refusal::PlanError;
use crate::search::strategy::Strategy;
use eyelet_model::network::Network;

/// Plans a network by `plan`. If its budget is too small for the order in which the layers are, plans it in the
/// [other orders](leaner) that may need less. The first that fits is taken; if none does, the error names the least
/// of their smallest budgets. Strategies of publications keep the order.
pub fn in_orders<T>(
    strategy: &dyn Strategy,
    network: &Network,
    plan: impl Fn(&Network) -> Result<T, PlanError>,
) -> Result<T, PlanError> {
    let mut refused = match plan(network) {
        Err(error @ PlanError::Budget { .. }) if strategy.transforms() => error,
        made => return made,
    };
    for other in leaner(network) {
        match plan(&other) {
            Err(error) if error.smallest() < refused.smallest() => refused = error,
            Err(_) => (),
            made => return made,
        }
    }
    Err(refused)
}
