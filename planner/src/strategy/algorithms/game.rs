//! The game: an adversary names intervals, and we answer with an algorithm for every layer, in
//! turns.

use super::offers::Offer;
use crate::algorithm::Algorithm;
use crate::bound::{Binding, Bound};
use std::cmp::Ordering;

/// Turns of the game.
const TURNS: usize = 32;

/// All choices that come up with their bounds, the least first.
pub(super) fn play(
    offers: &[Vec<Offer>],
    bound: &Bound,
    budgets: &[u64],
) -> Vec<(Vec<Algorithm>, f64)> {
    let layers = offers.len();
    // The sum of the adversary's answers: the worth of a layer's time, and of its bytes.
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

/// An offer for each layer, and the adversary's answer.
pub(super) struct Played {
    pub(super) picks: Vec<usize>,
    /// The binding interval of each budget. The next field is the sum of their bounds.
    pub(super) bindings: Vec<Binding>,
    pub(super) bound_ns: f64,
    /// Time of computing alone.
    compute_ns: f64,
}

impl Played {
    pub(super) fn new(
        picks: Vec<usize>,
        offers: &[Vec<Offer>],
        bound: &Bound,
        budgets: &[u64],
    ) -> Self {
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

/// The best offer for each layer, given the worth of its time and of its bytes.
pub(super) fn answer(offers: &[Vec<Offer>], worth: &[(f64, f64)]) -> Vec<usize> {
    let best = |(offers, worth): (&Vec<Offer>, &(f64, f64))| {
        let cost = |pick: &usize| worth.0 * offers[*pick].ns + worth.1 * offers[*pick].bytes;
        // Of equal ones the first, which has the fewest bytes.
        (0..offers.len()).min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or(0)
    };
    offers.iter().zip(worth).map(best).collect()
}
