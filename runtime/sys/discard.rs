//! Results that are dropped on purpose, and why. Clippy refuses other ways to drop one (`lib.rs`).

/// Drops a result. `why` says where the fault shows up all the same, or why nobody can do anything about it. On Linux an
/// error is logged; firmware would carry the text of all errors for that.
#[cfg(all(feature = "linux", target_os = "linux"))]
pub(crate) fn discard<T, E: core::fmt::Debug>(result: Result<T, E>, why: &str) {
    if let Err(error) = result {
        log::debug!("{why}: {error:?}");
    }
}

#[cfg(not(all(feature = "linux", target_os = "linux")))]
pub(crate) fn discard<T, E>(_: Result<T, E>, _: &str) {}

/// Drops what a list returns that has room: it was made for all that is put there.
pub(crate) fn has_room<T>(pushed: Result<(), T>) {
    debug_assert!(pushed.is_ok(), "a list is too short");
}
