//! Everything hand-tuned: sources per instruction set, and [`table`], which says what serves what.

pub mod table;

pub use table::{Isa, Kernels};
