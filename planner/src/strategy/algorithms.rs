//! Which algorithm computes each layer: a choice between time and bytes, for all budgets of a pack at once.
//!
//! The lower bound of [`bound`](crate::bound) is, for each budget, a maximum over cyclic intervals of
//! layers, each linear in what the layers cost: those inside count with their time, those outside with
//! the time to read their bytes. So the choice is a game: an adversary names an interval for each budget,
//! we answer with the best algorithm for every layer by itself. Both answer in turns to the average of
//! what the other has said so far (fictitious play, which converges where the choices may be mixed).
//! All choices that came up are ranked by their bound. It knows nothing of slices and addresses, so the
//! first of them are planned and simulated before one is taken.
//!
//! The chains that reductions are cut into for a GPU ([`algorithm::chains`]) are chosen before, layer by layer; what they cost
//! is scratch. To compute all layers directly, as processors do, is always one of the choices.
//!
//! One choice serves all budgets of a pack: its outputs are then the same bits in every budget, also when
//! the budget changes between two inferences.

use super::on_load;
use crate::algorithm::{self, Algorithm, set_chains};
use crate::bound::{Binding, Bound, layer_demand};
use crate::network::Network;
use crate::profile::{Costs, Profile};
use crate::slice::whole;
use crate::slide::slides;
use eyelet::ops::{self, Slice};
use eyelet::pack::{PAGE, Step};
use std::cmp::Ordering;

/// Turns of the game.
const TURNS: usize = 32;

/// The same for a bound.
const BOUND_TURNS: usize = 48;

/// Steps by which the best share of an answer is found: each leaves two thirds.
const THIRDS: usize = 32;

/// Layers, over all choices that are gone through for improvement.
const STARTS: usize = 96;

/// Times that a choice's layers are gone through for improvement.
const SWEEPS: usize = 2;

/// An algorithm with more bytes must take at most this share of the time: less of a gain no prediction can
/// vouch for, and the bytes are certain.
pub(super) const GAIN: f64 = 0.9;

/// An algorithm for each layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub algorithms: Vec<Algorithm>,
    /// For each layer the chains that its reduction is cut into if it is a direct convolution for a GPU.
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

    /// Has a network be computed so.
    pub fn apply(&self, network: &mut Network) {
        for (layer, algorithm) in self.algorithms.iter().enumerate() {
            algorithm.set(network, layer);
            set_chains(network, layer, self.chains[layer]);
        }
    }
}

/// The same where the other one computes as this does, on weights that its steps transform: then the gain is
/// certain.
const SURE_GAIN: f64 = 0.995;

/// Which algorithms there are to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// The direct one alone.
    Exact,
    /// Those that weights can be stored for.
    Stored,
    /// And those for which steps can transform the weights.
    All,
}

/// An algorithm and what it asks for.
#[derive(Clone, Copy, Debug)]
struct Offer {
    algorithm: Algorithm,
    /// What steps compute by: another one, if they transform the weights.
    runs: Algorithm,
    ns: f64,
    bytes: f64,
}

/// Choices for a network, the one with the least bound first. To compute all layers directly is one, and
/// the only one if results are to be exact.
pub fn choices(
    network: &Network,
    profile: &Profile,
    threads: u32,
    budgets: &[u64],
    means: Means,
) -> Vec<Choice> {
    let bound = Bound::new(network, profile);
    let least = match means {
        Means::Exact => 0,
        _ => budgets.iter().copied().min().unwrap_or(0),
    };
    let choices_with = |network: &Network, chains: &[u32], means| {
        let offers = offers(network, profile, threads, least, &bound, means);
        let choice =
            |(algorithms, bound_ns)| Choice { algorithms, chains: chains.to_vec(), bound_ns };
        play(&offers, &bound, budgets).into_iter().map(choice).collect::<Vec<_>>()
    };
    let mut network = network.clone();
    let ones = vec![1; network.layers.len()];
    for layer in 0..ones.len() {
        set_chains(&mut network, layer, 1);
    }
    if means == Means::Exact {
        return choices_with(&network, &ones, means);
    }
    // Chains take scratch, which is memory that weights could use: the bound does not know, simulation does. So those that
    // fit the least budget are a choice, and those that no layer's memory is larger for, and none.
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
        choices.extend(choices_with(&network, &chains, means));
    }
    choices.sort_by(|a, b| a.bound_ns.total_cmp(&b.bound_ns));
    choices
}

/// Nanoseconds below which no steady-state inference in `budget` bytes can stay, whatever algorithms its layers are stored for
/// and computed by.
///
/// Every answer of the adversary is a bound that is linear in what layers cost, and so is every mixture of such
/// answers: each layer by itself then takes the least by the algorithm that suits it best, and no choice for all layers
/// takes less than the sum. The mixtures are those of the game.
pub fn bound_of_all_ns(network: &Network, profile: &Profile, threads: u32, budget: u64) -> u64 {
    let offers = all_offers(network, profile, threads);
    least_of(&offers, &Bound::new(network, profile), budget) as u64
}

/// The greatest bound found of a mixture that holds for all choices among these offers.
fn least_of(offers: &[Vec<Offer>], bound: &Bound, budget: u64) -> f64 {
    let layers = offers.len();
    let mut played = Mixture::new(vec![(0.0, 0.0); layers], 0.0);
    let mut best = Mixture::new(vec![(1.0, 0.0); layers], 0.0);
    let mut picks = answer(offers, &best.worth);
    for _ in 0..BOUND_TURNS {
        let Played { picks: given, bindings, .. } = Played::new(picks, offers, bound, &[budget]);
        for binding in &bindings {
            let worth = (0..layers).map(|layer| binding.worth(layer, layers)).collect();
            let mut answer = Mixture::new(worth, 0.0);
            answer.beside_ns = binding.ns - answer.cost(offers, &given);
            played = played.with(&answer, 1.0, 1.0);
            // The bound of a mixture of the best so far and this answer has one maximum.
            let bound_of = |share: f64| best.with(&answer, 1.0 - share, share).bound_ns(offers);
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..THIRDS {
                let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
                if bound_of(left) < bound_of(right) { low = left } else { high = right }
            }
            let mixed = best.with(&answer, 1.0 - low, low);
            if mixed.bound_ns(offers) > best.bound_ns(offers) {
                best = mixed;
            }
        }
        picks = self::answer(offers, &played.worth);
    }
    best.bound_ns(offers)
}

/// Answers of the adversary, mixed: a bound that is linear in what layers cost.
#[derive(Clone)]
struct Mixture {
    /// The worth of each layer's time, and of its bytes.
    worth: Vec<(f64, f64)>,
    /// What the bound has beside these.
    beside_ns: f64,
}

impl Mixture {
    fn new(worth: Vec<(f64, f64)>, beside_ns: f64) -> Self {
        Self { worth, beside_ns }
    }

    /// So much of this and so much of another.
    fn with(&self, other: &Self, this: f64, that: f64) -> Self {
        let both = self.worth.iter().zip(&other.worth);
        let worth = both.map(|(a, b)| (this * a.0 + that * b.0, this * a.1 + that * b.1)).collect();
        Self::new(worth, this * self.beside_ns + that * other.beside_ns)
    }

    fn cost(&self, offers: &[Vec<Offer>], picks: &[usize]) -> f64 {
        let layers = self.worth.iter().zip(offers).zip(picks);
        layers
            .map(|((worth, offers), pick)| {
                worth.0 * offers[*pick].ns + worth.1 * offers[*pick].bytes
            })
            .sum()
    }

    /// What every choice takes at least.
    fn bound_ns(&self, offers: &[Vec<Offer>]) -> f64 {
        self.cost(offers, &answer(offers, &self.worth)) + self.beside_ns
    }
}

/// All there is for each layer, however little it gains: what it takes at least, and its bytes.
fn all_offers(network: &Network, profile: &Profile, threads: u32) -> Vec<Vec<Offer>> {
    let mut changed = network.clone();
    let slides = slides(network);
    // As processors sum, and in as many chains as suit the GPU.
    let mut cuts = vec![0, profile.multiprocessors];
    cuts.dedup();
    let mut offers: Vec<Vec<Offer>> = vec![Vec::new(); network.layers.len()];
    for algorithm in Algorithm::all() {
        for &multiprocessors in &cuts {
            for layer in 0..network.layers.len() {
                if algorithm.serves(network, layer) {
                    algorithm.set(&mut changed, layer);
                    let chains = algorithm::chains(&changed, layer, multiprocessors);
                    set_chains(&mut changed, layer, chains);
                }
            }
            // Where plans for less than the budget would find the weights, too.
            let costs = Costs::new(&changed, profile, threads).within(profile.near_bytes());
            for (layer, offers) in offers.iter_mut().enumerate() {
                let (_, bytes) = layer_demand(&changed, &costs, layer);
                for runs in [0].into_iter().chain(on_load::algorithms(&changed, &costs, layer)) {
                    let step = Step { algorithm: runs, ..whole(&changed, layer) };
                    let ns = costs.least_ns(&step, f64::INFINITY, slides[layer]);
                    offers.push(Offer { algorithm, runs: algorithm, ns, bytes });
                }
            }
        }
    }
    offers
}

/// Cuts reductions into the chains that suit a GPU, or into half as many, and so on, until a panel beside the activations
/// takes no more than so many bytes. Returns the chains of all layers.
fn cut(network: &mut Network, multiprocessors: u32, most: f64, bound: &Bound) -> Vec<u32> {
    let cut = |layer: usize| {
        let mut chains = algorithm::chains(network, layer, multiprocessors);
        while chains > 1 {
            set_chains(network, layer, chains);
            if bound.alive(layer) + panel_need(network, layer, 1) <= most {
                return chains;
            }
            chains = algorithm::fewer_chains(network, layer, chains);
        }
        set_chains(network, layer, 1);
        1
    };
    (0..bound.layers()).map(cut).collect()
}

/// All choices that come up, with their bounds, the least first.
fn play(offers: &[Vec<Offer>], bound: &Bound, budgets: &[u64]) -> Vec<(Vec<Algorithm>, f64)> {
    let layers = offers.len();
    // What the adversary has said so far: the worth of a layer's time, and of its bytes.
    let mut worth = vec![(0.0, 0.0); layers];
    let mut found = vec![Played::new(vec![0; layers], offers, bound, budgets)];
    let mut picks = answer(offers, &vec![(1.0, 0.0); layers]);
    for _ in 0..TURNS {
        let played = Played::new(picks, offers, bound, budgets);
        for binding in &played.bindings {
            for (layer, (time, byte)) in worth.iter_mut().enumerate() {
                let (inside, outside) = binding.worth(layer, layers);
                *time += inside;
                *byte += outside;
            }
        }
        found.push(played);
        picks = answer(offers, &worth);
    }
    found.sort_by(Played::compare);
    found.dedup_by(|a, b| a.picks == b.picks);
    // The game ends in a mixture; what is whole may gain from a change of single layers.
    // Of small networks, of which the mixture says least, that is tried with several.
    let starts = (STARTS / layers.max(1)).clamp(1, found.len());
    let swept = found[..starts].iter().map(|start| sweep(start, offers, bound, budgets));
    let best = swept.min_by(Played::compare).unwrap_or_else(|| found[0].clone());
    found.insert(0, best);
    let mut choices: Vec<(Vec<Algorithm>, f64)> = Vec::new();
    for played in found {
        let pick = |(offers, pick): (&Vec<Offer>, &usize)| offers[*pick].algorithm;
        let algorithms: Vec<Algorithm> = offers.iter().zip(&played.picks).map(pick).collect();
        if choices.iter().all(|(known, _)| *known != algorithms) {
            choices.push((algorithms, played.bound_ns));
        }
    }
    choices
}

/// What changes of single layers make of a choice.
fn sweep(start: &Played, offers: &[Vec<Offer>], bound: &Bound, budgets: &[u64]) -> Played {
    let mut best = start.clone();
    for _ in 0..SWEEPS {
        for (layer, offers_here) in offers.iter().enumerate().filter(|(_, all)| all.len() > 1) {
            for pick in 0..offers_here.len() {
                let mut picks = best.picks.clone();
                picks[layer] = pick;
                let other = Played::new(picks, offers, bound, budgets);
                if other.compare(&best).is_lt() {
                    best = other;
                }
            }
        }
    }
    best
}

/// An offer for each layer, and what the adversary answers.
#[derive(Clone)]
struct Played {
    picks: Vec<usize>,
    /// One for each budget, and their sum.
    bindings: Vec<Binding>,
    bound_ns: f64,
    /// Computing, reads left aside.
    compute_ns: f64,
}

impl Played {
    fn new(picks: Vec<usize>, offers: &[Vec<Offer>], bound: &Bound, budgets: &[u64]) -> Self {
        let at = |(offers, pick): (&Vec<Offer>, &usize)| (offers[*pick].ns, offers[*pick].bytes);
        let (compute, bytes): (Vec<f64>, Vec<f64>) = offers.iter().zip(&picks).map(at).unzip();
        let binding = |budget: &u64| bound.binding(&compute, &bytes, *budget);
        let bindings: Vec<Binding> = budgets.iter().map(binding).collect();
        let bound_ns = bindings.iter().map(|binding| binding.ns).sum();
        Self { picks, bindings, bound_ns, compute_ns: compute.iter().sum() }
    }

    fn compare(&self, other: &Self) -> Ordering {
        let bounds = self.bound_ns.total_cmp(&other.bound_ns);
        bounds.then(self.compute_ns.total_cmp(&other.compute_ns))
    }
}

/// The best offer for each layer, when its time and its bytes are worth so much.
fn answer(offers: &[Vec<Offer>], worth: &[(f64, f64)]) -> Vec<usize> {
    let best = |(offers, worth): (&Vec<Offer>, &(f64, f64))| {
        let cost = |pick: &usize| worth.0 * offers[*pick].ns + worth.1 * offers[*pick].bytes;
        // Of equals the first, which has the fewest bytes.
        (0..offers.len()).min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or(0)
    };
    offers.iter().zip(worth).map(best).collect()
}

/// For each layer the algorithms that are of use: each clearly faster than those with fewer
/// bytes, and such that one panel of weights and its scratch fit beside the activations in the least budget.
fn offers(
    network: &Network,
    profile: &Profile,
    threads: u32,
    least: u64,
    bound: &Bound,
    means: Means,
) -> Vec<Vec<Offer>> {
    let mut changed = network.clone();
    let mut offers: Vec<Vec<Offer>> = vec![Vec::new(); network.layers.len()];
    for algorithm in Algorithm::all() {
        for layer in 0..network.layers.len() {
            if algorithm.serves(network, layer) {
                algorithm.set(&mut changed, layer);
            }
        }
        let costs = Costs::new(&changed, profile, threads);
        // What is stored as it is can still be computed by the other algorithm.
        if means == Means::All {
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

/// Bytes that a step with one panel of a layer takes beside the activations.
pub(super) fn panel_need(network: &Network, index: usize, threads: u32) -> f64 {
    let layer = &network.layers[index];
    let record = |id: u32| network.tensors.get(id as usize).copied().unwrap_or_default();
    let output = record(layer.output);
    let slice = Slice {
        first: 0,
        count: layer.panels.min(1),
        row: 0,
        rows: output.rows() as u32,
        algorithm: network.on_load[index],
    };
    let inputs = layer.inputs.map(record);
    let scratch = ops::least_scratch_bytes(layer, &inputs, &output, &slice, threads, network.isa);
    let weights = u64::from(layer.panel_bytes).next_multiple_of(PAGE);
    (scratch + weights) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Layers with three offers each: the time of the slowest, and shares of it; bytes and activations.
    fn layers() -> impl Strategy<Value = Vec<(f64, f64, f64, f64)>> {
        let layer = (1e3..1e6f64, 0.3..0.9f64, 1e3..1e6f64, 0.0..1e5f64);
        proptest::collection::vec(layer, 1..7)
    }

    fn game(layers: &[(f64, f64, f64, f64)]) -> (Vec<Vec<Offer>>, Bound) {
        let offers = |&(ns, share, bytes, _): &(f64, f64, f64, f64)| {
            let algorithms =
                Algorithm::all().zip([(1.0, 1.0), (share, 1.78), (share * share, 4.0)]);
            let offer = |(algorithm, (time, size))| Offer {
                algorithm,
                runs: algorithm,
                ns: ns * time,
                bytes: bytes * size,
            };
            algorithms.map(offer).collect()
        };
        let alive = layers.iter().map(|layer| layer.3).collect();
        (layers.iter().map(offers).collect(), Bound::of(alive, 1.0))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_choice_is_below_the_bound_of_all(layers in layers(), share in 0.1..6.0f64) {
            let (offers, bound) = game(&layers);
            let all: f64 = layers.iter().map(|layer| layer.2).sum();
            let budget = (all * share) as u64 + 100_000;
            let least = least_of(&offers, &bound, budget);
            let mut best = f64::INFINITY;
            for number in 0..3usize.pow(offers.len() as u32) {
                let picks = (0..offers.len()).map(|layer| number / 3usize.pow(layer as u32) % 3);
                let played = Played::new(picks.collect(), &offers, &bound, &[budget]);
                best = best.min(played.bound_ns);
            }
            prop_assert!(least <= best * (1.0 + 1e-9), "{least} above {best}");
            // It may mix two offers of a layer, which are at most that far apart.
            prop_assert!(least >= best * 0.3 * (1.0 - 1e-9), "{least} far below {best}");
        }

        #[test]
        fn never_far_from_the_best_of_all(layers in layers(), share in 0.1..6.0f64) {
            let (offers, bound) = game(&layers);
            let all: f64 = layers.iter().map(|layer| layer.2).sum();
            let budgets = [(all * share) as u64 + 100_000, (all * share * 2.0) as u64 + 100_000];
            let mut least = f64::INFINITY;
            for number in 0..3usize.pow(offers.len() as u32) {
                let pick = |layer: usize| offers[layer][number / 3usize.pow(layer as u32) % 3];
                let compute: Vec<f64> = (0..offers.len()).map(|layer| pick(layer).ns).collect();
                let bytes: Vec<f64> = (0..offers.len()).map(|layer| pick(layer).bytes).collect();
                let of = |budget: &u64| bound.binding(&compute, &bytes, *budget).ns;
                least = least.min(budgets.iter().map(of).sum());
            }
            let found = play(&offers, &bound, &budgets);
            let (_, bound_ns) = found[0];
            prop_assert!(bound_ns >= least * (1.0 - 1e-9));
            prop_assert!(bound_ns <= least * 1.25, "{bound_ns} for {least}");
            let direct = |all: &[Algorithm]| all.iter().all(|found| *found == Algorithm::Direct);
            prop_assert!(found.iter().any(|(all, _)| direct(all)));
            prop_assert!(found.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        }

        #[test]
        fn memory_in_plenty_makes_it_the_fastest(layers in layers()) {
            let (offers, bound) = game(&layers);
            let found = play(&offers, &bound, &[1 << 40]);
            let largest = Algorithm::Winograd { tile: 4 };
            prop_assert!(found[0].0.iter().all(|found| *found == largest));
        }
    }
}
