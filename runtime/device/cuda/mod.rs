//! NVIDIA's GPUs, through the functions of CUDA's driver.
//!
//! | | |
//! |---|---|
//! | [`Driver`] | the table of the driver's functions: found at run time (`cuda`), or linked (`cuda-linked`) |
//! | [`Context`] | a GPU that is in use: what it is, its memory, streams, events |
//! | [`Image`], [`Module`] | the compiled kernels, and those that this GPU has loaded |
//! | [`Stream`], [`Event`] | queues of work, and marks in them |
//! | [`Gpu`] | all of these together, as what the executor gives its steps to |
//! | [`chunks`] | the memory of several networks that take turns |
//! | [`DeviceMemory`], [`HostMemory`] | memory of the GPU; memory of the host that does not move, which the GPU addresses too |
//!
//! The base is what a driver of CUDA 10.2 has (Jetson Nano's last); functions that came later are
//! optional in the table. All objects are thin: a handle and the context it belongs to, freed when
//! dropped. Only opening allocates, in the driver; a launch or a copy is one call through a
//! pointer.
//!
//! **Threads.** The driver's calls work on the context that is current to the calling thread. Calls
//! that make, free, read or write memory, modules, streams and events enter their own context from
//! any thread. Calls that use a stream, or wait for one, need the context to be the thread's
//! already: [`Context::open`] makes it so for the thread that opens, others call [`Context::bind`]
//! before.
//!
//! **Errors that stay.** When a kernel fails (an address that is nobody's, a time limit), every
//! later call on its context returns that error. The process recovers by dropping the context and
//! opening another.
//!
//! There need not be a GPU to test any of this: `tools/fake-cuda.sh` builds a driver that runs the
//! kernels on the processor.

mod accelerator;
mod capability;
pub mod chunks;
mod context;
mod driver;
mod error;
mod image;
mod memory;
mod module;
mod stream;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;

pub use accelerator::{Gpu, GpuError, Memory};
pub use capability::{Arch, Version};
pub use context::{Attributes, Context};
pub use driver::{Driver, NEEDED_VERSION};
pub use error::{MemoryError, ModuleError, OpenError};
pub use image::{Image, Kind, images};
pub use memory::{DeviceMemory, HostMemory};
pub use module::{Launches, Module};
pub use stream::{Event, Stream};
