//! Kernels that a GPU has loaded, and launching them.

use super::context::Context;
use super::driver::Handle;
use super::error::{ModuleError, given_up};
use super::image::{Image, suitable};
use super::stream::Stream;
use crate::device::DeviceError;
use crate::device::accelerator::{Launch, Queue};
use crate::kernels::table::cuda::Function;
use core::ffi::c_void;

/// Codes by which the driver says that it wants another image: INVALID_IMAGE, NO_BINARY_FOR_GPU,
/// INVALID_PTX, UNSUPPORTED_PTX_VERSION, JIT_COMPILER_NOT_FOUND.
const WRONG_IMAGE: [i32; 5] = [200, 209, 218, 222, 221];

impl Context<'_> {
    /// Loads the best of these images that the driver takes, with all kernels.
    pub fn load(&self, images: &[Image]) -> Result<Module<'_>, ModuleError> {
        Module::load(self, images)
    }
}

/// All kernels, on a GPU.
#[derive(Debug)]
pub struct Module<'c> {
    context: &'c Context<'c>,
    raw: Handle,
    functions: [Handle; Function::ALL.len()],
}

// SAFETY: the driver's functions may be called from any thread.
unsafe impl Send for Module<'_> {}
// SAFETY: likewise.
unsafe impl Sync for Module<'_> {}

impl<'c> Module<'c> {
    pub(super) fn load(context: &'c Context<'_>, images: &[Image]) -> Result<Self, ModuleError> {
        let on = context.enter().map_err(ModuleError::Call)?;
        let (device, version) = (context.attributes().arch, on.version());
        let mut refused = None;
        for image in suitable(images, device, version) {
            let mut raw = core::ptr::null_mut();
            // SAFETY: an image ends where its own lengths, or its zero byte, say so.
            match unsafe { on.module_load_data(&mut raw, image.bytes.as_ptr().cast()) } {
                Ok(()) => return Self::with_functions(context, raw),
                Err(error) if WRONG_IMAGE.contains(&error.code) => refused = Some(error),
                Err(error) => return Err(ModuleError::Call(error)),
            }
        }
        Err(ModuleError::NoImage { device, version, refused })
    }

    fn with_functions(context: &'c Context<'_>, raw: Handle) -> Result<Self, ModuleError> {
        // From here on it is unloaded when dropped.
        let mut this =
            Self { context, raw, functions: [core::ptr::null_mut(); Function::ALL.len()] };
        for (function, handle) in Function::ALL.iter().zip(&mut this.functions) {
            let name = function.symbol();
            // SAFETY: the module is alive; it writes one handle.
            unsafe {
                context.enter().and_then(|on| on.module_get_function(handle, raw, name.as_ptr()))
            }
            .map_err(|error| ModuleError::NoFunction {
                name: name.to_str().unwrap_or(""),
                error,
            })?;
        }
        Ok(this)
    }

    /// Launches into a stream.
    ///
    /// # Safety
    /// A launch touches only memory that is there until it is done, and that nobody else touches
    /// meanwhile.
    pub unsafe fn launches<'a>(&'a self, stream: &'a Stream<'a>) -> Launches<'a> {
        Launches { module: self, stream }
    }
}

impl Drop for Module<'_> {
    fn drop(&mut self) {
        let on = self.context.enter();
        // SAFETY: from `load`, unloaded once.
        given_up(on.and_then(|on| unsafe { on.module_unload(self.raw) }));
    }
}

/// A stream as a queue of launches.
#[derive(Clone, Copy, Debug)]
pub struct Launches<'a> {
    module: &'a Module<'a>,
    stream: &'a Stream<'a>,
}

impl Queue for Launches<'_> {
    fn launch(&mut self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        if launch.grid.contains(&0) {
            return Ok(());
        }
        // The record as one buffer: CU_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE and _END.
        let mut bytes = launch.args.len();
        let mut extra: [*mut c_void; 5] = [
            core::ptr::without_provenance_mut(1),
            launch.args.as_ptr().cast_mut().cast(),
            core::ptr::without_provenance_mut(2),
            (&raw mut bytes).cast(),
            core::ptr::null_mut(),
        ];
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (launch.grid, launch.block);
        // SAFETY: the kernel is of a module that is alive, and the record is read before the call
        // returns. The maker of the queue promises what the kernel may touch.
        unsafe {
            self.module.context.driver().launch_kernel(
                self.module.functions[launch.function as usize],
                grid_x,
                grid_y,
                grid_z,
                block_x,
                block_y,
                block_z,
                launch.shared_bytes,
                self.stream.raw(),
                core::ptr::null_mut(),
                extra.as_mut_ptr(),
            )
        }
    }
}
