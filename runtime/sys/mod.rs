//! The interface to the processor and the operating system: a clock, waiting, checksums, error
//! numbers.
//!
//! Without Linux there is no clock, and waiting spins.
#![allow(unsafe_code)]

mod clock;
pub mod crc32c;
pub(crate) mod discard;
pub mod futex;
#[cfg(all(feature = "linux", target_os = "linux"))]
mod linux;
#[cfg(all(feature = "linux", target_os = "linux"))]
mod restraint;
pub(crate) mod spin;

pub(crate) use clock::now_ns;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub(crate) use linux::{errno, page_bytes};
