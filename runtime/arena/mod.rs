//! The arena: the one static piece of memory that everything lives in.

mod alloc;
mod mat;

pub use alloc::{Activations, Memory, Weights};
pub(crate) use alloc::{LoadList, Operands};
pub use mat::{MatMut, MatRef};
