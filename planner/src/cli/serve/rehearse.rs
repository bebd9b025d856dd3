//! A rehearsal: the set runs as it will, only with jobs that come closer, and its steps and chunks are measured.
//!
//! So a step is measured with the caches that other networks leave it, and a chunk on its way through the set's own queue,
//! mapping and checksum, until its end is seen.

use super::arrivals::Kind;
use super::execute::unshown;
use super::inject::Faults;
use super::measured::{Measured, Rehearsed};
use super::wanted::Wanted;
use crate::cli::Error;
use crate::cli::output::Output;
use eyelet_tasks::analysis::utilization::utilization;
use eyelet_tasks::set::decided::Decided;
use std::sync::atomic::AtomicBool;

/// It ends when every task has had so many jobs, and so many chunks were read.
pub const SAMPLES: u64 = 1000;
/// The part of the time that jobs compute and load, by times alone. Where they take longer together, some time must be left:
/// the kernel takes it from threads with priority otherwise, tens of milliseconds at once.
const LOAD: f64 = 0.5;
/// Shorter periods are over before the clock has been looked at for every task.
const SHORTEST_NS: f64 = 20_000.0;

/// Runs a set for at most that long.
pub fn rehearse(
    decided: &Decided,
    measured: &Measured,
    most_ns: u64,
    (seed, stop, output): (u64, &AtomicBool, Output),
) -> Result<Rehearsed, Error> {
    let closer = closer(decided);
    let outcome = unshown(&Wanted {
        decided: &closer,
        measured,
        how: measured.how.clone(),
        arrivals: Kind::Periodic,
        // Other offsets than those of the run.
        seed: !seed,
        duration_ns: most_ns,
        jobs: None,
        samples: Some(SAMPLES),
        faults: vec![Faults::default(); closer.set.tasks.len()],
        trace: false,
        stop,
        output,
    })?;
    let times = outcome.tasks.into_iter().map(|task| task.times).collect();
    Ok(Rehearsed { times, chunks: outcome.chunks })
}

/// The set with all periods and deadlines shorter, so that it has little time to spare.
fn closer(decided: &Decided) -> Decided {
    let mut closer = decided.clone();
    let load = utilization(&decided.assignment.tasks(&decided.set));
    let shortest = closer.set.tasks.iter().map(|task| task.period_ns).min().unwrap_or(1);
    let factor = (load / LOAD).max(SHORTEST_NS / shortest.max(1) as f64).min(1.0);
    for task in &mut closer.set.tasks {
        let shorter = |ns: u64| ((ns as f64 * factor) as u64).max(1);
        // Deadlines keep their order, on which levels depend.
        task.deadline_ns = shorter(task.deadline_ns.saturating_sub(task.jitter_ns));
        (task.period_ns, task.jitter_ns) = (shorter(task.period_ns), 0);
    }
    closer
}
