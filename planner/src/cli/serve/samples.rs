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

/// By how much steps were longer than their medians, at worst, of all steps of all networks: what interrupts a network
/// interrupts any of its steps, and any other network's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interruption {
    pub worst_ns: u64,
    /// Of so many steps.
    pub count: u64,
}

impl Interruption {
    /// Of steps of one or several networks.
    pub fn of<'a>(steps: impl IntoIterator<Item = &'a Samples>) -> Self {
        steps.into_iter().fold(Self::default(), |all, step| Self {
            worst_ns: all.worst_ns.max(step.worst_ns.saturating_sub(step.median_ns())),
            count: all.count + step.count,
        })
    }
}

/// How the time that the test counts follows from samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// The median: what a set is rehearsed with.
    Median,
    /// The worst, times this.
    Margin(f64),
    /// The median, and an exponential tail of the longest distance from it.
    Tail,
}

/// One time in so many may be longer than what the tail gives.
const ONE_IN: f64 = 1e9;
/// What the tail gives is at least so many times the worst, and more with few samples.
const LEAST: f64 = 1.25;

/// A distance that was the longest of so many, as far as one in [`ONE_IN`] reaches.
fn tail(worst_ns: u64, count: u64) -> f64 {
    worst_ns as f64 * ONE_IN.ln() / (count.max(2) as f64).ln()
}

impl Rule {
    /// The time to count.
    pub fn counted_ns(self, samples: &Samples, all: Interruption) -> u64 {
        let (worst, median) = (samples.worst_ns as f64, samples.median_ns());
        let ns = match self {
            Self::Median => median as f64,
            Self::Margin(factor) => worst * factor,
            Self::Tail => {
                let own = tail(samples.worst_ns.saturating_sub(median), samples.count);
                let least = worst * (LEAST + (samples.count.max(1) as f64).sqrt().recip());
                (median as f64 + own.max(tail(all.worst_ns, all.count))).max(least)
            }
        };
        ns.ceil() as u64 + 1
    }

    pub fn timed(self, samples: &Samples, all: Interruption) -> Timed {
        let &Samples { count, worst_ns, .. } = samples;
        let (median_ns, counted_ns) = (samples.median_ns(), self.counted_ns(samples, all));
        Timed { samples: count, median_ns, worst_ns, counted_ns }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Median => write!(f, "the median of all samples, before any rehearsal"),
            Self::Margin(factor) => write!(f, "{factor} times the worst of all samples"),
            Self::Tail => write!(
                f,
                "median + d x ln {ONE_IN:e} / ln n, at least worst x ({LEAST} + 1 / sqrt n), of n samples; d is worst - median, \
                 or the largest of all steps"
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
        let none = Interruption::default();
        let tail = |count, worst| Rule::Tail.counted_ns(&of(count, worst), none);
        // ln 1e9 is three times ln 1000.
        assert_eq!(tail(1000, 2000), 1000 + 3 * 1000 + 1);
        assert!(tail(100, 2000) > tail(1000, 2000) && tail(100_000, 2000) < tail(1000, 2000));
        // Without a spread there is still some room.
        assert_eq!(tail(10_000, 1000), 1261);
        assert_eq!(tail(1, 2000), 4501);
        assert_eq!(Rule::Margin(1.5).counted_ns(&of(10, 2000), none), 3001);
        assert_eq!(Rule::Median.counted_ns(&of(10, 2000), none), 1001);
        assert_eq!(Rule::Tail.counted_ns(&Samples::default(), none), 1);
    }

    #[test]
    fn what_interrupts_one_step_may_interrupt_any() {
        let steps =
            [Samples::of(vec![1000; 500]), Samples::of([vec![10; 499], vec![5010]].concat())];
        let all = Interruption::of(&steps);
        assert_eq!(all, Interruption { worst_ns: 5000, count: 1000 });
        assert_eq!(Rule::Tail.counted_ns(&steps[0], all), 1000 + 3 * 5000 + 1);
        assert_eq!(Rule::Margin(2.0).counted_ns(&steps[0], all), 2001);
    }

    #[test]
    fn the_median_is_that_of_the_first_samples() {
        let timed = Rule::Margin(2.0).timed(&Samples::of(1..=101), Interruption::default());
        assert_eq!((timed.samples, timed.median_ns, timed.worst_ns), (101, 51, 101));
        assert_eq!(timed.longer(Timed { counted_ns: 500, ..timed }).counted_ns, 500);
        let many = Samples::of(0..100_000);
        assert_eq!((many.count, many.worst_ns, many.kept.len()), (100_000, 99_999, KEPT));
    }
}
