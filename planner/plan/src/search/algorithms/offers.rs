//! The algorithms that each layer can be stored for, with their time and bytes.

use super::AlgorithmSet;
use super::on_load::{self, GAIN, panel_need};
use crate::bound::{Bound, layer_demand, step_algorithms};
use crate::profile::{Costs, Outside, Profile};
use crate::slide::slides;
use crate::steps::whole;
use eyelet::pack::{Method, Step};
use eyelet_model::algorithm::Algorithm;
use eyelet_model::network::Network;
use eyelet_model::ops::conv::{self, set_chains};

/// The share if the other one computes by the same algorithm with weights that its steps transform.
/// Then the gain is certain.
const SURE_GAIN: f64 = 0.995;

/// An algorithm with its time and bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) algorithm: Algorithm,
    /// The algorithm of the steps: another one if they transform the weights.
    pub(super) runs: Algorithm,
    pub(super) ns: f64,
    pub(super) bytes: f64,
}

/// All algorithms of each layer, however little they gain, with their least time and their bytes.
pub(super) fn all_offers(network: &Network, profile: &Profile, threads: u32) -> Vec<Vec<Offer>> {
    let mut changed = network.clone();
    let slides = slides(network);
    // Summed as on processors, and in the chains that suit the GPU.
    let mut cuts = vec![0, profile.multiprocessors];
    cuts.dedup();
    let mut offers: Vec<Vec<Offer>> = vec![Vec::new(); network.layers.len()];
    for algorithm in Algorithm::all() {
        for &multiprocessors in &cuts {
            for layer in 0..network.layers.len() {
                if algorithm.serves(network, layer) {
                    algorithm.set(&mut changed, layer);
                    let chains = conv::chains(&changed, layer, multiprocessors);
                    set_chains(&mut changed, layer, chains);
                }
            }
            // Plans for less than the budget may find the weights in the shared cache.
            let costs = Costs::new(&changed, profile, threads).within(profile.llc_bytes());
            for (layer, offers) in offers.iter_mut().enumerate() {
                let (_, bytes) = layer_demand(&changed, &costs, layer);
                for runs in [0].into_iter().chain(step_algorithms(&changed, &costs, layer)) {
                    let step = Step { method: Method::by(runs), ..whole(&changed, layer) };
                    let ns = costs.least_ns(
                        &step,
                        f64::INFINITY,
                        slides[layer].then_some(Outside::NONE),
                    );
                    offers.push(Offer { algorithm, runs: algorithm, ns, bytes });
                }
            }
        }
    }
    offers
}

/// The useful algorithms of each layer. Each is clearly faster than those with fewer bytes, and one
/// panel with its scratch fits next to the activations in the least budget.
pub(super) fn offers(
    network: &Network,
    profile: &Profile,
    threads: u32,
    least: u64,
    bound: &Bound,
    set: AlgorithmSet,
) -> Vec<Vec<Offer>> {
    let mut changed = network.clone();
    let mut offers: Vec<Vec<Offer>> = vec![Vec::new(); network.layers.len()];
    let direct = |algorithm: &Algorithm| *algorithm == Algorithm::Direct;
    for algorithm in Algorithm::all().filter(|a| set != AlgorithmSet::Transformed || direct(a)) {
        for layer in 0..network.layers.len() {
            if algorithm.serves(network, layer) {
                algorithm.set(&mut changed, layer);
            }
        }
        let costs = Costs::new(&changed, profile, threads);
        // Weights that are stored for the direct algorithm can still be transformed by steps.
        if matches!(set, AlgorithmSet::Transformed | AlgorithmSet::All) {
            on_load::choose(&mut changed, &costs, threads, least, bound);
        }
        for (layer, offers) in offers.iter_mut().enumerate() {
            let (ns, bytes) = layer_demand(&changed, &costs, layer);
            let runs = match changed.on_load[layer] {
                0 => Algorithm::of(&changed, layer),
                tile => Algorithm::Winograd { tile: tile as usize },
            };
            let faster = offers.last().is_none_or(|before| {
                ns < if before.runs == runs { SURE_GAIN } else { GAIN } * before.ns
            });
            let fits = || bound.alive(layer) + panel_need(&changed, layer, threads) <= least as f64;
            if offers.is_empty()
                || (Algorithm::of(&changed, layer) == algorithm && faster && fits())
            {
                offers.push(Offer { algorithm: Algorithm::of(&changed, layer), runs, ns, bytes });
            }
        }
    }
    offers
}
