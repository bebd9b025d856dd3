//! Everything hand-tuned: sources per instruction set, and `table`, which says what serves what.

mod portable;
pub mod table;

#[cfg(test)]
pub mod testing;

pub use table::{Isa, Kernels};
