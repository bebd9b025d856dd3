//! Instances: how packs are opened, and the ways in which the loader works next to the steps.

pub(super) mod chunked;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub(super) mod concurrent;
pub(super) mod instance;
pub(super) mod overlapped;
pub(super) mod together;
