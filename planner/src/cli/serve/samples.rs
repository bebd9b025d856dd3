//! From times that were measured to the time that the test counts.

use eyelet_tasks::set::units::human_ns;
use serde::Serialize;
use std::fmt;

/// Times of one thing, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    pub count: u64,
    pub worst_ns: u64,
    /// The first of them, for the median.
    kept: Vec<u64>,
}

/// Samples that are kept.
const KEPT: usize = 4096;

impl Samples {
    pub fn add(&mut self, ns: u64) {
        self.count += 1;
        self.worst_ns = self.worst_ns.max(ns);
        if self.kept.len() < KEPT {
            self.kept.push(ns);
        }
    }

    /// Of times as they were measured.
    pub fn of(times_ns: impl IntoIterator<Item = u64>) -> Self {
        let mut samples = Self::default();
        times_ns.into_iter().for_each(|ns| samples.add(ns));
        samples
    }

    fn median_ns(&self) -> u64 {
        let mut kept = self.kept.clone();
        kept.sort_unstable();
        kept.get(kept.len() / 2).copied().unwrap_or(0)
    }
}

/// How the time that the test counts follows from samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// The worst, times this.
    Margin(f64),
    /// An exponential tail through median and worst.
    Tail,
}

/// One time in so many may be longer than what the tail gives.
const ONE_IN: f64 = 1e9;
/// What the tail gives is at least so many times the worst, and more with few samples.
const LEAST: f64 = 1.25;

impl Rule {
    /// The time to count.
    pub fn counted_ns(self, samples: &Samples) -> u64 {
        let worst = samples.worst_ns as f64;
        let ns = match self {
            Self::Margin(factor) => worst * factor,
            Self::Tail => {
                let median = samples.median_ns() as f64;
                let count = samples.count.max(1) as f64;
                let tail = ONE_IN.ln() / count.max(2.0).ln();
                (median + (worst - median) * tail).max(worst * (LEAST + count.sqrt().recip()))
            }
        };
        ns.ceil() as u64 + 1
    }

    pub fn timed(self, samples: &Samples) -> Timed {
        let &Samples { count, worst_ns, .. } = samples;
        let (median_ns, counted_ns) = (samples.median_ns(), self.counted_ns(samples));
        Timed { samples: count, median_ns, worst_ns, counted_ns }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Margin(factor) => write!(f, "{factor} times the worst of all samples"),
            Self::Tail => write!(
                f,
                "median + (worst - median) x ln {ONE_IN:e} / ln n of n samples, at least worst x ({LEAST} + 1 / sqrt n)"
            ),
        }
    }
}

/// What was measured of one thing, and the time that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timed {
    pub samples: u64,
    pub median_ns: u64,
    pub worst_ns: u64,
    pub counted_ns: u64,
}

impl Timed {
    /// The one that counts more.
    pub fn longer(self, other: Self) -> Self {
        if other.counted_ns > self.counted_ns { other } else { self }
    }
}

impl fmt::Display for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { samples, median_ns, worst_ns, counted_ns } = *self;
        let [median, worst, counted] = [median_ns, worst_ns, counted_ns].map(human_ns);
        write!(f, "median {median}, worst {worst} of {samples}, counted as {counted}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_samples_and_a_wider_spread_count_as_longer() {
        let of = |count: u64, worst: u64| {
            Samples::of((0..count).map(|n| if n == 0 { worst } else { 1000 }))
        };
        let tail = |count, worst| Rule::Tail.counted_ns(&of(count, worst));
        // ln 1e9 is three times ln 1000.
        assert_eq!(tail(1000, 2000), 1000 + 3 * 1000 + 1);
        assert!(tail(100, 2000) > tail(1000, 2000) && tail(100_000, 2000) < tail(1000, 2000));
        // Without a spread there is still some room.
        assert_eq!(tail(10_000, 1000), 1261);
        assert_eq!(tail(1, 2000), 4501);
        assert_eq!(Rule::Margin(1.5).counted_ns(&of(10, 2000)), 3001);
        assert_eq!(Rule::Tail.counted_ns(&Samples::default()), 1);
    }

    #[test]
    fn the_median_is_that_of_the_first_samples() {
        let timed = Rule::Margin(2.0).timed(&Samples::of(1..=101));
        assert_eq!((timed.samples, timed.median_ns, timed.worst_ns), (101, 51, 101));
        assert_eq!(timed.longer(Timed { counted_ns: 500, ..timed }).counted_ns, 500);
        let many = Samples::of(0..100_000);
        assert_eq!((many.count, many.worst_ns, many.kept.len()), (100_000, 99_999, KEPT));
    }
}
