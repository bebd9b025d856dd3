//! Tests of GPUs: plans for them, and packs that run on one, which may be the fake driver's (`tools/fake-cuda.sh`).

mod cli;
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "cuda")]
mod hostile;
#[cfg(feature = "cuda")]
mod networks;
mod order;
mod plans;
