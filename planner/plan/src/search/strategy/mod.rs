//! The trait of strategies, and the strategies of this crate.

pub mod guard;
pub mod kind;
pub mod own;
