//! Loads: how far the loader has come, and what it does next.

pub(super) mod copied;
pub(super) mod progress;
