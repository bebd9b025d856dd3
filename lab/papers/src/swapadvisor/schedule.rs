//! Schedules as chromosomes: how two are crossed, and how one is mutated (section 5.2).

use super::graph::Graph;
use rand::Rng;

/// A random schedule: each next operator is any of those that may run.
pub fn random(graph: &Graph, random: &mut impl Rng) -> Vec<usize> {
    graph.dependencies.order_by(|ready| random.random_range(0..ready.len()))
}

/// A child of two schedules: the first `cut` operators of one, and the others as the other one has them.
pub fn crossed(first: &[usize], others: &[usize], cut: usize) -> Vec<usize> {
    let mut child = first[..cut].to_vec();
    let mut taken = vec![false; first.len()];
    child.iter().for_each(|&at| taken[at] = true);
    child.extend(others.iter().filter(|&&at| !taken[at]));
    child
}

/// A schedule that mostly follows another: of the operators that may run, the next is any with the probability
/// `share`, else the one that comes first in the other schedule.
pub fn mutated(graph: &Graph, schedule: &[usize], share: f64, random: &mut impl Rng) -> Vec<usize> {
    let mut place = vec![0; schedule.len()];
    schedule.iter().enumerate().for_each(|(at, &operator)| place[operator] = at);
    graph.dependencies.order_by(|ready| {
        if random.random_bool(share) {
            return random.random_range(0..ready.len());
        }
        let first = (0..ready.len()).min_by_key(|&at| place[ready[at]]);
        first.unwrap_or_default()
    })
}
