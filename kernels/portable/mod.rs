//! Kernels in plain Rust. They run anywhere, and they define correctness: every other kernel gives the
//! same bits.

mod fma;
pub mod igemm;

pub use fma::software as software_fma;
