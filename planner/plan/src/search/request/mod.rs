//! From a request for a pack to its plans.

pub mod chosen;
pub mod longest_step;
pub mod orders;
pub mod pack_request;
