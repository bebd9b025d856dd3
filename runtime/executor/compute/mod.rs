//! Inferences: the compute side and the loader, and what the host does between two of them.

pub(super) mod budget;
pub(super) mod loader;
pub(super) mod model;
pub(super) mod times;
