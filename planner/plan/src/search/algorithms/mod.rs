//! Which algorithm computes each layer: a choice between time and bytes, for all budgets of a pack
//! at once.
//!
//! Two choices are planned and simulated before one is taken: each layer's weights in the fewest
//! bytes, and each layer by its fastest algorithm. Choices between them gain nothing, since steps
//! can transform the weights of single layers ([`on_load`]).
//!
//! For each budget, the lower bound of [`bound`](crate::bound) is a maximum over cyclic intervals
//! of layers. It is linear in what the layers cost: those inside count with their time, those
//! outside with the time to read their bytes. So each interval asks for one algorithm of every
//! layer, and a [mixture](bound_of_all_ns) of intervals bounds all choices.
//!
//! The chains of reductions on a GPU ([`conv::chains`]) are chosen before, layer by layer;
//! they cost scratch. To compute all layers directly is always one of the choices.
//!
//! One choice serves all budgets of a pack. So its outputs are the same bits in every budget, also
//! if the budget changes between two inferences.

mod ends;
mod mixture;
mod offers;
pub mod on_load;
#[cfg(test)]
mod tests;

pub use mixture::bound_of_all_ns;

use crate::bound::Bound;
use crate::profile::Profile;
use ends::both_ends;
use eyelet_model::algorithm::Algorithm;
use eyelet_model::network::Network;
use eyelet_model::ops::conv::{self, set_chains};
use offers::offers;
use on_load::panel_need;

/// An algorithm for each layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub algorithms: Vec<Algorithm>,
    /// For each layer: the chains of its reduction, if it is a direct convolution for a GPU.
    chains: Vec<u32>,
    /// The lower bounds of all budgets together.
    pub bound_ns: f64,
}

impl Choice {
    /// Whether every layer is computed directly.
    pub fn is_direct(&self) -> bool {
        self.algorithms.iter().all(|algorithm| *algorithm == Algorithm::Direct)
    }

    /// Whether another one has the same algorithms.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.algorithms, &self.chains) == (&other.algorithms, &other.chains)
    }

    /// Changes a network to this choice.
    pub fn apply(&self, network: &mut Network) {
        for (layer, algorithm) in self.algorithms.iter().enumerate() {
            algorithm.set(network, layer);
            set_chains(network, layer, self.chains[layer]);
        }
    }
}

/// Which algorithms there are to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlgorithmSet {
    /// The direct one alone.
    Exact,
    /// Algorithms that weights can be stored for.
    Stored,
    /// Algorithms for which steps can transform weights that are stored for the direct one.
    Transformed,
    /// Algorithms that weights can be stored for, and those for which steps can transform the
    /// weights.
    All,
}

/// Choices for a network, the one with the least bound first. One of them computes all layers
/// directly; it is the only one if results must be exact.
pub fn choices(
    network: &Network,
    profile: &Profile,
    threads: u32,
    budgets: &[u64],
    set: AlgorithmSet,
) -> Vec<Choice> {
    let bound = Bound::new(network, profile, threads);
    let least = match set {
        AlgorithmSet::Exact => 0,
        _ => budgets.iter().copied().min().unwrap_or(0),
    };
    let choices_with = |network: &Network, chains: &[u32], set| {
        let offers = offers(network, profile, threads, least, &bound, set);
        let choice =
            |(algorithms, bound_ns)| Choice { algorithms, chains: chains.to_vec(), bound_ns };
        both_ends(&offers, &bound, budgets).into_iter().map(choice).collect::<Vec<_>>()
    };
    let mut network = network.clone();
    let ones = vec![1; network.layers.len()];
    for layer in 0..ones.len() {
        set_chains(&mut network, layer, 1);
    }
    if set == AlgorithmSet::Exact {
        return choices_with(&network, &ones, set);
    }
    // Chains take scratch, which is memory that weights could use. Only simulation knows that. So
    // the choices are: chains that fit the least budget, chains that raise no layer above the
    // largest memory of all, and none.
    let peak = |layer| bound.alive(layer) + panel_need(&network, layer, 1);
    let peak = (0..ones.len()).map(peak).fold(0.0, f64::max);
    let mut cuts = Vec::new();
    for most in [least as f64, peak.min(least as f64), 0.0] {
        let chains = cut(&mut network, profile.multiprocessors, most, &bound);
        if !cuts.contains(&chains) {
            cuts.push(chains);
        }
    }
    let mut choices = Vec::new();
    for chains in cuts {
        for (layer, chains) in chains.iter().enumerate() {
            set_chains(&mut network, layer, *chains);
        }
        choices.extend(choices_with(&network, &chains, set));
    }
    choices.sort_by(|a, b| a.bound_ns.total_cmp(&b.bound_ns));
    choices
}

/// Cuts reductions into the chains that suit a GPU, or into half as many, and so on, until a panel
/// next to the activations takes at most `most` bytes. Returns the chains of all layers.
fn cut(network: &mut Network, multiprocessors: u32, most: f64, bound: &Bound) -> Vec<u32> {
    let cut = |layer: usize| {
        let mut chains = conv::chains(network, layer, multiprocessors);
        while chains > 1 {
            set_chains(network, layer, chains);
            if bound.alive(layer) + panel_need(network, layer, 1) <= most {
                return chains;
            }
            chains = conv::fewer_chains(network, layer, chains);
        }
        set_chains(network, layer, 1);
        1
    };
    (0..bound.layers()).map(cut).collect()
}
