//! Answers to an adversary that names intervals: an algorithm for every layer. The two ends of all
//! answers, where only bytes or only time count, are the choices that are planned.

use super::offers::Offer;
use crate::bound::{Binding, Bound};
use eyelet_model::algorithm::Algorithm;
use std::cmp::Ordering;

/// Two choices with their bounds, the least first: the fewest bytes and the least time of each layer.
pub(super) fn both_ends(
    offers: &[Vec<Offer>],
    bound: &Bound,
    budgets: &[u64],
) -> Vec<(Vec<Algorithm>, f64)> {
    let fastest = answer(offers, &vec![(1.0, 0.0); offers.len()]);
    let picks = [vec![0; offers.len()], fastest];
    let mut played = picks.map(|picks| Played::new(picks, offers, bound, budgets));
    played.sort_by(Played::compare);
    let choice = |played: &Played| {
        let pick = |(offers, pick): (&Vec<Offer>, &usize)| offers[*pick].algorithm;
        (offers.iter().zip(&played.picks).map(pick).collect(), played.bound_ns)
    };
    let mut choices: Vec<(Vec<Algorithm>, f64)> = played.iter().map(choice).collect();
    choices.dedup_by(|one, other| one.0 == other.0);
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
        // The first of equal ones has the fewest bytes.
        (0..offers.len()).min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or(0)
    };
    offers.iter().zip(worth).map(best).collect()
}
