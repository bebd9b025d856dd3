//! Plans: how one becomes the plan that is followed, and what it keeps of the one before.

pub(super) mod enter;
pub(super) mod follow;
mod preload;
mod residents;
