//! Results that are dropped on purpose, and why.

use core::fmt::Debug;

/// Drops a result. `why` says where the fault shows up all the same, or why nobody can do anything about it. Where the
/// program has a logger, an error is logged.
pub(crate) fn discard<T, E: Debug>(result: Result<T, E>, why: &str) {
    if let Err(error) = result {
        log::debug!("{why}: {error:?}");
    }
}
