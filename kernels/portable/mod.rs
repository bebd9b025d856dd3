//! Kernels in plain Rust. They run anywhere, and they define correctness: every other kernel gives
//! the same bits.

pub mod elementwise;
pub mod fold;
pub mod igemm;
pub mod math;
pub mod pool;
pub mod rows;
pub mod sums;
pub mod wide;
pub mod widen;
pub mod winograd;
