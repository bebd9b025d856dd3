//! Which weights stay in the arena: of one plan, and of all plans of a pack.

pub mod pins;
pub mod refit;
pub mod shared;
