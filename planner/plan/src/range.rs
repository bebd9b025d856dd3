//! Between what bounds a measured latency lies, by how steady the machine was.

use crate::profile::{Extremes, Profile};
use crate::simulate::{Timeline, simulate};
use eyelet_model::network::Network;
use eyelet_model::plan::Plan;

/// How far the median of many inferences is from the prediction on a steady machine: at most this
/// share of it for most plans.
const MODEL_ERROR: f64 = 0.1;

/// Nanoseconds between which the median of steady inferences lies for most plans, if the machine is
/// as it was when its costs were measured. `None` where costs are estimates.
pub fn range_ns(
    network: &Network,
    plan: &Plan,
    profile: &Profile,
    threads: u32,
) -> Option<[u64; 2]> {
    let steadiness = profile.steadiness?;
    let computing = steadiness.computing(threads);
    let ns = |of: fn(&Extremes) -> f64, model: f64| {
        let storage = profile.storage.faster(1.0 / of(&steadiness.reads));
        let changed = Profile { storage, ..profile.clone() };
        let Timeline { steady_ns, stall_ns, .. } = simulate(network, plan, &changed, threads);
        let computed_ns = steady_ns.saturating_sub(stall_ns) as f64 * of(&computing);
        ((computed_ns + stall_ns as f64) * model) as u64
    };
    let least = ns(|turns| turns.fastest.min(1.0), 1.0 - MODEL_ERROR);
    Some([least, ns(|turns| turns.slowest.max(1.0), 1.0 + MODEL_ERROR)])
}
