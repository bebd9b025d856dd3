//! Errors of `eyelet alloc`.

use eyelet_alloc::csv::CsvError;
use eyelet_alloc::{Peak, Violation as Misplaced};
use eyelet_planner::size;
use std::path::PathBuf;

/// Why buffers could not be placed.
#[derive(Debug, thiserror::Error)]
pub enum AllocError {
    #[error("{}: {source}", path.display())]
    Csv { path: PathBuf, source: CsvError },
    #[error(
        "{}: {}; the best height found is {best} bytes", path.display(),
        unfit(*capacity, *lower_bound, peak, *seconds)
    )]
    DoesNotFit {
        path: PathBuf,
        capacity: u64,
        best: u64,
        /// Nothing is lower: above the capacity if it is proven that nothing fits.
        lower_bound: u64,
        peak: Peak,
        /// The time limit.
        seconds: f64,
    },
    #[error("internal: the allocation found is wrong: {0}; please report this")]
    Misplaced(Misplaced),
}

fn unfit(capacity: u64, lower_bound: u64, peak: &Peak, seconds: f64) -> String {
    let Peak { bytes, time } = peak;
    let capacity_of = size::exact(capacity);
    if *bytes > capacity {
        format!(
            "the buffers do not fit {capacity_of}: {bytes} bytes are live at once at time {time}"
        )
    } else if lower_bound > capacity {
        format!(
            "the buffers do not fit {capacity_of}: there is no allocation below {lower_bound} bytes"
        )
    } else {
        format!(
            "no allocation within {capacity_of} was found in {seconds} s, and none is known to be \
             impossible ({bytes} bytes are live at once); give a longer --time-limit or more capacity"
        )
    }
}
