//! Runs a task set event by event under the device's scheduler, [`eyelet::tasks::Scheduler`].
//!
//! Arrivals are legal: strictly periodic from given offsets, or sporadic with random pauses, each with release jitter within the
//! task's bound. Steps and chunks take their worst time, or a random part of it.

mod engine;
mod trace;

pub use engine::{MOST_TASKS, simulate};
pub use trace::{Event, What};

use eyelet::tasks::Policy;

/// When jobs arrive.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// The first job of each task at its offset, and one every period.
    Periodic { offsets_ns: Vec<u64> },
    /// A pause after each period, up to this share of it; offsets are random.
    Sporadic { most_pause: f64 },
}

/// How to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub policy: Policy,
    pub arrivals: Arrivals,
    /// Steps and chunks take at least this share of their worst time; 1: always the worst.
    pub least_share: f64,
    /// Stops after so many jobs have ended.
    pub jobs: u64,
    /// Stops at the first miss.
    pub until_miss: bool,
    /// Keeps the events, for pictures.
    pub trace: bool,
    pub seed: u64,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Jobs that ended.
    pub jobs: u64,
    /// Jobs that ended late, or were lost because their predecessor was unfinished.
    pub misses: u64,
    pub first_miss: Option<Miss>,
    /// Responses, by task: the longest, and all of them where events are kept.
    pub worst_response_ns: Vec<u64>,
    pub responses_ns: Vec<Vec<u64>>,
    /// Chunks read, and those of them that took another's place.
    pub loads: u64,
    pub evictions: u64,
    pub processor_busy_ns: u64,
    pub loader_busy_ns: u64,
    pub end_ns: u64,
    pub trace: Vec<Event>,
}

/// A job that ended late or was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    pub task: usize,
    pub deadline_ns: u64,
    /// When this was known.
    pub at_ns: u64,
}
