//! The arena: the one static piece of memory that everything lives in.

mod mat;

pub use mat::{MatMut, MatRef};
