//! How steady a machine was while it was measured.
//!
//! A machine with neighbours is faster and slower from second to second. Its costs are what it does
//! when it is left alone, which a single inference seldom meets. Measuring goes in turns that do the
//! same work. The fastest turn and the slowest one say how far inferences may be from a prediction.

use serde::{Deserialize, Serialize};

/// How steady a machine was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steadiness {
    /// Times of all layers, computed by one thread.
    pub one_thread: Extremes,
    /// Times of all layers, computed by all threads.
    pub all_threads: Extremes,
    /// Times of reads one after the other.
    pub reads: Extremes,
}

/// Times of turns, over what a turn takes by the costs that were measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extremes {
    pub fastest: f64,
    pub slowest: f64,
}

impl Steadiness {
    /// Adds a turn of computing on `threads` threads.
    #[must_use]
    pub fn with(mut self, threads: u32, turn: f64) -> Self {
        let computing = if threads > 1 { &mut self.all_threads } else { &mut self.one_thread };
        *computing = computing.with(turn);
        self
    }

    /// The extremes of computing on `threads` threads.
    pub fn computing(&self, threads: u32) -> Extremes {
        if threads > 1 { self.all_threads } else { self.one_thread }
    }
}

impl Extremes {
    /// Adds a turn that takes this multiple of the predicted time.
    #[must_use]
    pub fn with(self, turn: f64) -> Self {
        Self { fastest: self.fastest.min(turn), slowest: self.slowest.max(turn) }
    }

    /// The extremes of these turns, in nanoseconds, relative to the `expected` time. Without turns
    /// the machine was steady.
    pub fn of(turns: &[f64], expected: f64) -> Self {
        let over = |ns: &f64| ns / expected.max(1.0);
        let fastest = turns.iter().map(over).fold(f64::INFINITY, f64::min);
        let slowest = turns.iter().map(over).fold(0.0, f64::max);
        match fastest <= slowest {
            true => Self { fastest, slowest },
            false => Self { fastest: 1.0, slowest: 1.0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Board;
    use crate::profile::Profile;

    #[test]
    fn turns_are_compared_with_what_costs_say() {
        let turns = Extremes::of(&[120.0, 95.0, 300.0], 100.0);
        assert_eq!([turns.fastest, turns.slowest], [0.95, 3.0]);
        assert_eq!(Extremes::of(&[], 100.0), Extremes { fastest: 1.0, slowest: 1.0 });
    }

    #[test]
    fn a_profile_says_how_steady_the_machine_was() {
        let mut profile = Board::load("jetson-nano").unwrap().profile;
        let turns = |fastest, slowest| Extremes { fastest, slowest };
        let steadiness = Steadiness {
            one_thread: turns(0.98, 1.25),
            all_threads: turns(1.0, 1.5),
            reads: turns(0.9, 2.0),
        };
        assert_eq!([1, 2, 4].map(|n| steadiness.computing(n).slowest), [1.25, 1.5, 1.5]);
        let now = steadiness.with(2, 1.75).with(1, 0.5);
        assert_eq!([now.one_thread, now.all_threads], [turns(0.5, 1.25), turns(1.0, 1.75)]);
        profile.steadiness = Some(steadiness);
        let read = Profile::parse("p", &profile.to_toml()).unwrap();
        assert_eq!(read.steadiness, Some(steadiness));
        profile.steadiness = Some(Steadiness { reads: turns(2.0, 1.0), ..steadiness });
        let error = Profile::parse("p", &profile.to_toml()).unwrap_err().to_string();
        assert!(error.contains("steadiness.reads.slowest: it is 1; it must be"), "{error}");
    }
}
