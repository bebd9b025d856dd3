//! Which layers are computed by Winograd's algorithm with weights that their steps transform: they are stored,
//! read and held as for the direct algorithm, so that nothing is paid for the time saved but the scratch for
//! what is transformed at once. The choice belongs to a plan, not to the pack.

use super::Request;
use super::algorithms::{GAIN, panel_need};
use crate::algorithm::Algorithm;
use crate::bound::{Bound, layer_demand};
use crate::network::Network;
use crate::profile::Costs;

/// The network with every layer computed so where it is clearly faster by itself and fits the budget beside
/// the activations; `None` where there is no such layer, or results are to be exact.
pub fn network(request: &Request<'_>) -> Option<Network> {
    let mut network = request.network.clone();
    let costs = Costs::new(&network, request.profile, request.threads);
    if !request.exact {
        let bound = Bound::new(&network, request.profile);
        choose(&mut network, &costs, request.threads, request.budget, &bound);
    }
    network.on_load.iter().any(|algorithm| *algorithm != 0).then_some(network)
}

/// Chooses for every layer: the least time, of what fits.
pub(super) fn choose(
    network: &mut Network,
    costs: &Costs,
    threads: u32,
    budget: u64,
    bound: &Bound,
) {
    for layer in 0..network.layers.len() {
        network.on_load[layer] = 0;
        let (mut least, _) = layer_demand(network, costs, layer);
        least *= GAIN;
        let mut best = 0;
        for algorithm in costs.on_load(layer) {
            network.on_load[layer] = algorithm;
            let (ns, _) = layer_demand(network, costs, layer);
            let need = || bound.alive(layer) + panel_need(network, layer, threads);
            let serves = || Algorithm::Winograd { tile: algorithm as usize }.serves(network, layer);
            if ns < least && need() <= budget as f64 && serves() {
                (least, best) = (ns, algorithm);
            }
        }
        network.on_load[layer] = best;
    }
}
