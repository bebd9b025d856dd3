//! A device of as many threads as are asked for.

use crate::cli::Error;
use eyelet::device::threads::{confine_current, cores as cores_here};
use eyelet::device::workers::Pool;
use eyelet::device::{Device, Inline};
use eyelet_planner::cores::Cores;

/// The most cores of a machine that are looked at.
const MAX_CORES: usize = 1024;

/// Calls `body` with a device of so many threads, the caller's included, on the cores that are named. The caller is free to run
/// anywhere afterwards.
pub fn with_threads<T>(
    threads: u32,
    cores: Option<&Cores>,
    body: impl FnOnce(&dyn Device) -> T,
) -> Result<T, Error> {
    let before = cores_here::<MAX_CORES>();
    // Threads that this one starts may not run where it does: they have cores of their own.
    let workers = cores.and_then(Cores::of_workers);
    let done = match threads {
        0 | 1 => {
            cores.inspect(|cores| cores.compute());
            body(&Inline)
        }
        more => Pool::new().scope(more as usize, workers, |workers| {
            cores.inspect(|cores| cores.compute());
            body(workers)
        })?,
    };
    if cores.is_some() {
        // What was allowed before is allowed again.
        let _ = confine_current(&before);
    }
    Ok(done)
}
