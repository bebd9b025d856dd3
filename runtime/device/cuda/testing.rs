//! A GPU for the tests of kernels: what they launch runs, and is waited for.
//!
//! Without a GPU it is the fake driver's (`tools/fake-cuda.sh`); without any driver the tests fail
//! and say so.

use super::{Context, DeviceMemory, Driver, Image, Kind, Module, Stream, images};
use crate::device::DeviceError;
use crate::device::accelerator::{Launch, Queue};
use bytemuck::{AnyBitPattern, NoUninit};
use std::sync::OnceLock;
use std::vec::Vec;
use std::{boxed::Box, vec};

/// The process's driver.
pub fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        Driver::load().unwrap_or_else(|error| {
            panic!("{error} (for tests: LD_LIBRARY_PATH=$(tools/fake-cuda.sh) runs the kernels on the processor)")
        })
    })
}

/// Whether the driver is the fake one.
pub fn is_fake(context: &Context<'_>) -> bool {
    context.attributes().name().starts_with("no GPU")
}

/// For the fake driver, which has kernels of its own.
pub const STAND_IN: Image =
    Image { arch: 10, kind: Kind::Ptx, ptx_version: 10, bytes: b"for the fake driver\0" };

/// All kernels: those that were built, and on the fake driver, the stand-in.
pub fn load<'c>(context: &'c Context<'_>) -> Module<'c> {
    let loaded = match images() {
        [] if is_fake(context) => context.load(&[STAND_IN]),
        images => context.load(images),
    };
    loaded.unwrap_or_else(|error| panic!("{error}"))
}

/// A stream on the process's GPU. Made for one thread, whose context it sets.
#[derive(Debug)]
pub struct Gpu {
    context: &'static Context<'static>,
    module: &'static Module<'static>,
    stream: Stream<'static>,
}

impl Default for Gpu {
    fn default() -> Self {
        Self::new()
    }
}

impl Gpu {
    /// The first GPU.
    pub fn new() -> Self {
        static SHARED: OnceLock<(&'static Context<'static>, Module<'static>)> = OnceLock::new();
        let (context, module) = SHARED.get_or_init(|| {
            let context = Context::open(driver(), 0).unwrap_or_else(|error| panic!("{error}"));
            let context: &'static Context<'static> = Box::leak(Box::new(context));
            (context, load(context))
        });
        context.bind().unwrap();
        Self { context, module, stream: context.stream().unwrap() }
    }

    /// Multiprocessors.
    pub fn multiprocessors(&self) -> u32 {
        self.context.attributes().multiprocessors
    }

    /// Memory full of NaN (bytes 0xff).
    pub fn poison(&self, bytes: usize) -> DeviceMemory<'static> {
        let mut memory = self.context.device_memory(bytes.max(1)).unwrap();
        memory.write(0, &vec![0xff; bytes]).unwrap();
        memory
    }

    /// A copy on the GPU.
    pub fn upload<T: NoUninit>(&self, data: &[T]) -> DeviceMemory<'static> {
        let mut memory = self.poison(size_of_val(data));
        memory.write(0, bytemuck::cast_slice(data)).unwrap();
        memory
    }

    /// Copies memory of the GPU.
    pub fn download<T: AnyBitPattern + NoUninit>(&self, memory: &DeviceMemory<'_>) -> Vec<T> {
        let mut data = vec![T::zeroed(); memory.bytes() / size_of::<T>()];
        memory.read(0, bytemuck::cast_slice_mut(&mut data)).unwrap();
        data
    }
}

impl Queue for Gpu {
    fn launch(&mut self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        // SAFETY: tests pass addresses of their own memory, and wait here until the kernel is done.
        // A wrong kernel harms only the GPU's memory.
        unsafe { self.module.launches(&self.stream) }.launch(launch)?;
        self.stream.synchronize()
    }
}

/// Whether both have the same bits, or NaN: a GPU has NaNs of its own.
#[track_caller]
pub fn assert_same(found: &[f32], truth: &[f32], what: &dyn core::fmt::Debug) {
    assert_eq!(found.len(), truth.len(), "{what:?}");
    for (i, (x, y)) in found.iter().zip(truth).enumerate() {
        let same = x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
        assert!(same, "{what:?}: element {i} is {x:e} ({:#x}), not {y:e}", x.to_bits());
    }
}
