//! A bound of all choices: the best mixture of the adversary's answers.

use super::ends::{Played, answer};
use super::offers::{Offer, all_offers};
use crate::bound::Bound;
use crate::profile::Profile;
use eyelet_model::network::Network;

/// Turns of a game whose answers are mixed: both sides answer to the average of what the other has
/// said so far.
const BOUND_TURNS: usize = 48;

/// Steps by which the best share of an answer is found: each leaves two thirds.
const THIRDS: usize = 32;

/// Nanoseconds that a steady inference in `budget` bytes takes at least, for all algorithms that
/// its layers are stored for and computed by.
///
/// Every answer of the adversary is a bound that is linear in what layers cost, and so is every
/// mixture of such answers. For a mixture, each layer by itself takes the least with the algorithm
/// that suits it best, and no choice for all layers takes less than the sum. The mixtures are those
/// of the game.
pub fn bound_of_all_ns(network: &Network, profile: &Profile, threads: u32, budget: u64) -> u64 {
    let offers = all_offers(network, profile, threads);
    least_of(&offers, &Bound::new(network, profile, threads), budget) as u64
}

/// The greatest bound found of a mixture that holds for all choices among these offers.
pub(super) fn least_of(offers: &[Vec<Offer>], bound: &Bound, budget: u64) -> f64 {
    let layers = offers.len();
    let mut played = Mixture::new(vec![(0.0, 0.0); layers], 0.0);
    let mut best = Mixture::new(vec![(1.0, 0.0); layers], 0.0);
    let mut picks = answer(offers, &best.worth);
    for _ in 0..BOUND_TURNS {
        let Played { picks: given, bindings, .. } = Played::new(picks, offers, bound, &[budget]);
        for binding in &bindings {
            let worth = (0..layers).map(|layer| binding.worth(layer, layers)).collect();
            let mut answer = Mixture::new(worth, 0.0);
            answer.extra_ns = binding.ns - answer.cost(offers, &given);
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
    /// The part of the bound that does not depend on layers.
    extra_ns: f64,
}

impl Mixture {
    fn new(worth: Vec<(f64, f64)>, extra_ns: f64) -> Self {
        Self { worth, extra_ns }
    }

    /// A mixture of this one and another, with these weights.
    fn with(&self, other: &Self, this: f64, that: f64) -> Self {
        let both = self.worth.iter().zip(&other.worth);
        let worth = both.map(|(a, b)| (this * a.0 + that * b.0, this * a.1 + that * b.1)).collect();
        Self::new(worth, this * self.extra_ns + that * other.extra_ns)
    }

    fn cost(&self, offers: &[Vec<Offer>], picks: &[usize]) -> f64 {
        let layers = self.worth.iter().zip(offers).zip(picks);
        layers
            .map(|((worth, offers), pick)| {
                worth.0 * offers[*pick].ns + worth.1 * offers[*pick].bytes
            })
            .sum()
    }

    /// Lower bound for all choices.
    fn bound_ns(&self, offers: &[Vec<Offer>]) -> f64 {
        self.cost(offers, &answer(offers, &self.worth)) + self.extra_ns
    }
}
