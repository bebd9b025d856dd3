//! Results that are dropped on purpose, and why. Clippy refuses other ways to drop one (`lib.rs`).

use core::fmt::Debug;

/// Drops a result. `why` says where the fault shows up all the same, or why nobody can do anything about it. Where the
/// program has a logger, an error is logged.
pub(crate) fn discard<T, E: Debug>(result: Result<T, E>, why: &str) {
    if let Err(error) = result {
        log::debug!("{why}: {error:?}");
    }
}

/// Drops what a list returns that has room: it was made for all that is put there.
pub(crate) fn has_room<T>(pushed: Result<(), T>) {
    debug_assert!(pushed.is_ok(), "a list is too short");
}
