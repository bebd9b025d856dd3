//! What the firmware images in `boards/` share.
//!
//! An image has a startup of its own, a linker script, and a `main` that uses what
//! it needs of this. Everything here works without an operating system and without an allocator.
#![no_std]
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(missing_docs)]

#[cfg(test)]
extern crate std;

pub mod console;
pub mod device;
#[cfg(target_os = "none")]
pub mod link;
pub mod pack;
pub mod paint;
pub mod report;
pub mod rings;
#[cfg(any(target_arch = "arm", target_arch = "aarch64"))]
pub mod semihosting;
pub mod virtio;
