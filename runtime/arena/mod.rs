//! The arena: the one piece of memory that everything lives in.
//!
//! [`ArenaMemory`] is exclusive use of an arena. The arena is a `static` ([`Arena`]), mapped at run
//! time (`MappedArena`), or the caller's own memory. Several networks that take turns in one memory have a
//! `SharedArena`.

mod alloc;
mod chunked;
#[cfg(all(feature = "linux", target_os = "linux"))]
mod code;
mod fixed;
mod lapsing;
#[cfg(all(feature = "linux", target_os = "linux"))]
mod loan;
#[cfg(all(feature = "linux", target_os = "linux"))]
mod map;
mod memory;
#[cfg(all(feature = "linux", target_os = "linux"))]
mod pages;
mod pool;
mod reads;
#[cfg(all(test, feature = "linux", target_os = "linux"))]
pub(crate) mod refusals;
#[cfg(all(feature = "linux", target_os = "linux"))]
mod shared;
mod staging;

pub(crate) use alloc::LoadList;
pub(crate) use alloc::{Activations, PlannedMemory, Weights};
pub(crate) use chunked::Chunks;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub(crate) use chunked::LAYOUTS;
pub(crate) use chunked::Layout;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub use code::{give_back_code, part_code};
pub use fixed::Arena;
#[doc(hidden)]
pub use fixed::ArenaBytes;
pub(crate) use lapsing::Lapsing;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub(crate) use loan::Loan;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub use map::{MapOptions, MappedArena};
pub use memory::{ArenaError, ArenaMemory, Regions};
#[cfg(all(feature = "linux", target_os = "linux"))]
pub use pages::Pages;
pub use pool::Pool;
pub(crate) use reads::{Lane, Reads};
#[cfg(all(feature = "linux", target_os = "linux"))]
pub use shared::{NETWORKS, SharedArena};
pub(crate) use staging::mirrors;
