//! How a set is run.

use super::arrivals::Kind;
use super::inject::Faults;
use super::measure::How;
use super::measured::Measured;
use crate::cli::output::Output;
use eyelet_tasks::set::decided::Decided;
use std::sync::atomic::AtomicBool;

/// How a set is run.
pub struct Wanted<'a> {
    pub decided: &'a Decided,
    pub measured: &'a Measured,
    pub how: How,
    pub arrivals: Kind,
    pub seed: u64,
    pub duration_ns: u64,
    /// No job is released after so many have ended.
    pub jobs: Option<u64>,
    /// Keeps times of jobs, steps and chunks, and ends when there are so many of each task's jobs, and of chunks.
    pub samples: Option<u64>,
    pub faults: Vec<Faults>,
    /// Records what happens.
    pub trace: bool,
    /// Set when the run is to end.
    pub stop: &'a AtomicBool,
    pub output: Output,
}
