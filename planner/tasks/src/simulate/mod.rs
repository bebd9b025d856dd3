//! Runs a task set event by event under the device's scheduler, [`eyelet::tasks::Scheduler`].
//!
//! On one thread the simulation follows [`eyelet::tasks::turn`], the order of actions of [`eyelet::set::Running`].
//!
//! Arrivals are legal: strictly periodic from given offsets, sporadic with random pauses, or an adversary's. Each release
//! lies within the task's jitter. Steps and chunks take their worst time, or less.

mod arrivals;
mod engine;
mod one_thread;
mod times;
mod trace;

pub(crate) use arrivals::pick;
pub use engine::{MOST_TASKS, simulate};
pub use trace::{Event, What};

use eyelet::tasks::Policy;

/// Who sees that steps and chunks end and that jobs are released, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Two engines. The scheduler is asked at every end and every release, as by interrupts.
    AtOnce,
    /// Two engines, and one thread, which looks between two steps: `Running` with storage that has a queue.
    BetweenSteps,
    /// One thread computes and reads: `Running` with storage that has no queue.
    OneEngine,
}

impl Mode {
    pub const ALL: [Self; 3] = [Self::AtOnce, Self::BetweenSteps, Self::OneEngine];

    pub fn name(self) -> &'static str {
        match self {
            Self::AtOnce => "two engines, at once",
            Self::BetweenSteps => "two engines, between steps",
            Self::OneEngine => "one engine",
        }
    }
}

/// When jobs arrive.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// The first job of each task at its offset, and one every period.
    Periodic { offsets_ns: Vec<u64> },
    /// A pause after each period, up to this share of it; offsets are random.
    Sporadic { most_pause: f64 },
    /// Jobs are held back, released right after operations begin, and followed by others as soon as jitter permits.
    Adversary,
}

/// How long steps and chunks take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Times {
    /// At least this share of the worst time; 1: always the worst.
    Share(f64),
    /// Drawn for each run: some operations are shorter, and some steps are.
    Adversary,
}

/// How to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub policy: Policy,
    pub mode: Mode,
    pub arrivals: Arrivals,
    pub times: Times,
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
