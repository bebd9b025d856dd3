//! Sets drawn as in RT-Swap's evaluation (section VII-B), from its Table III.

use super::table3::{GPU_GB, NETWORKS, Network};
use crate::generate::random;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// A set as drawn: which network at which resolution, how often.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    pub members: Vec<Member>,
}

/// A network, one of its three resolutions, a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    pub network: usize,
    pub resolution: usize,
    pub period_ms: f64,
}

impl Member {
    fn draw(random: &mut ChaCha8Rng) -> Self {
        Self {
            network: random.random_range(0..NETWORKS.len()),
            resolution: random.random_range(0..3),
            period_ms: random.random_range(3000.0..=5000.0),
        }
    }

    pub fn of(&self) -> &'static Network {
        &NETWORKS[self.network]
    }

    pub fn gigabytes(&self) -> f64 {
        self.of().memory_gb[self.resolution]
    }
}

impl Drawn {
    pub fn gigabytes(&self) -> f64 {
        self.members.iter().map(Member::gigabytes).sum()
    }
}

/// Fig. 7(a): from four tasks whose footprint is 23 to 24 GB, one task is added at a time, up to thirteen.
/// The sets for 4, 5, … tasks.
pub fn growing(seed: u64, index: u64) -> Vec<Drawn> {
    let mut random = random(seed, index);
    let mut drawn = loop {
        let members = (0..4).map(|_| Member::draw(&mut random)).collect();
        let drawn = Drawn { members };
        // Table III has one decimal: sums are exact to rounding.
        if (GPU_GB - 1.001..=GPU_GB + 0.001).contains(&drawn.gigabytes()) {
            break drawn;
        }
    };
    let mut sets = vec![drawn.clone()];
    while drawn.members.len() < 13 {
        drawn.members.push(Member::draw(&mut random));
        sets.push(drawn.clone());
    }
    sets
}

/// Fig. 7(c): ten tasks of the lowest resolution; one random task at a time gets the highest. The sets
/// for 0, 1, … 10 tasks of the highest.
pub fn sharpening(seed: u64, index: u64) -> Vec<Drawn> {
    let mut random = random(seed, index + (1 << 32));
    let low = |_| Member { resolution: 0, ..Member::draw(&mut random) };
    let mut drawn = Drawn { members: (0..10).map(low).collect() };
    let mut order: Vec<usize> = (0..10).collect();
    for k in (1..order.len()).rev() {
        order.swap(k, random.random_range(0..=k));
    }
    let mut sets = vec![drawn.clone()];
    for task in order {
        drawn.members[task].resolution = 2;
        sets.push(drawn.clone());
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_as_published_and_repeatable() {
        let sets = growing(1, 0);
        assert_eq!(sets, growing(1, 0));
        assert_ne!(sets, growing(1, 1));
        assert_eq!(sets.len(), 10);
        assert!((22.99..=24.01).contains(&sets[0].gigabytes()), "{}", sets[0].gigabytes());
        for (k, set) in sets.iter().enumerate() {
            assert_eq!(set.members.len(), 4 + k);
            assert!(set.members.iter().all(|m| (3000.0..=5000.0).contains(&m.period_ms)));
        }
        let sharper = sharpening(1, 0);
        let high = |set: &Drawn| set.members.iter().filter(|m| m.resolution == 2).count();
        assert_eq!(sharper.iter().map(high).collect::<Vec<_>>(), (0..=10).collect::<Vec<_>>());
    }
}
