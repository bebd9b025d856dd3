//! Kernels in plain Rust. They run anywhere, and they define correctness: every other kernel gives the
//! same bits.

pub mod fma;
pub mod igemm;
pub mod winograd;
