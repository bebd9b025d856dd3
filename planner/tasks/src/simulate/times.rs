//! How long steps and chunks take: at most their worst times.

use super::Times;
use super::arrivals::pick;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// How the steps and chunks of a run take less than their worst times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shorter {
    /// The least share of a worst time.
    least: f64,
    /// The probability that an operation takes less than its worst time.
    often: f64,
    /// The probability that a step is planned shorter than the longest one.
    short_steps: f64,
}

impl Shorter {
    pub fn new(times: Times, random: &mut ChaCha8Rng) -> Self {
        match times {
            Times::Share(least) => Self { least, often: 1.0, short_steps: 0.0 },
            Times::Adversary => Self {
                least: *pick(&[0.0, 0.5, 0.9], random),
                often: *pick(&[0.0, 0.05, 0.3, 0.9], random),
                short_steps: *pick(&[0.0, 0.1, 0.5], random),
            },
        }
    }

    /// The computing of a job's next step, at worst.
    pub fn step_ns(self, longest_ns: u64, left_ns: u64, random: &mut ChaCha8Rng) -> u64 {
        let most_ns = longest_ns.min(left_ns);
        match most_ns > 1 && self.short_steps > 0.0 && random.random_bool(self.short_steps) {
            true => random.random_range(1..most_ns),
            false => most_ns,
        }
    }

    /// The time of an operation.
    pub fn taken_ns(self, worst_ns: u64, random: &mut ChaCha8Rng) -> u64 {
        if self.least >= 1.0 || worst_ns == 0 || !random.random_bool(self.often) {
            return worst_ns;
        }
        let share = random.random_range(self.least..=1.0);
        ((worst_ns as f64 * share) as u64).clamp(1, worst_ns)
    }
}
