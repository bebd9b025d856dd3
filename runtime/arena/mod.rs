//! The arena: the one piece of memory that everything lives in.
//!
//! [`ArenaMemory`] is exclusive use of an arena. The arena is a `static` ([`Arena`]), mapped at run
//! time (`MappedArena`), or the caller's own memory.

mod alloc;
#[cfg(all(feature = "linux", target_os = "linux"))]
mod code;
mod fixed;
mod lapsing;
#[cfg(all(feature = "linux", target_os = "linux"))]
mod map;
mod memory;
mod reads;
mod staging;

pub(crate) use alloc::LoadList;
pub(crate) use alloc::{Activations, PlannedMemory, Weights};
#[cfg(all(feature = "linux", target_os = "linux"))]
pub use code::give_back_code;
pub use fixed::Arena;
pub(crate) use lapsing::Lapsing;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub use map::{MappedArena, Pages};
pub use memory::{ArenaError, ArenaMemory};
pub(crate) use reads::Reads;
pub(crate) use staging::mirrors;
