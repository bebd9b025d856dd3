//! Everything hand-tuned: sources per instruction set, and `table`, which says what serves what.

mod fma;
mod portable;
pub mod table;

#[cfg(test)]
pub mod testing;

pub use crate::pack::Isa;
pub use table::Kernels;
