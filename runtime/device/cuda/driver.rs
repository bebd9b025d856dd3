//! The table of the driver's functions.
//!
//! Their types are declared here, and return numbers: bindings that return enumerations would turn
//! the codes of newer drivers into values that do not exist. With the feature `cuda` the library is
//! looked for when the table is made, with `cuda-linked` the program was linked to it (and does not
//! start without); functions newer than CUDA 10.2 are looked up by name in both.

use super::capability::Version;
use super::error::OpenError;
use crate::device::DeviceError;
use core::ffi::{CStr, c_char, c_void};

/// The oldest driver whose functions suffice: CUDA 10.2's.
pub const NEEDED_VERSION: Version = Version(10020);

/// A handle of the driver's: of a context, a stream, an event, a module, a kernel.
pub type Handle = *mut c_void;

/// The result of a function that succeeded.
const SUCCESS: i32 = 0;
/// Code of a function that a driver does not have: CUDA_ERROR_NOT_SUPPORTED.
const NOT_SUPPORTED: i32 = 801;

/// Declares the table, a method for each function, and how it is filled.
macro_rules! functions {
    (
        required { $($name:ident = $symbol:ident($($arg:ident: $type:ty),*);)* }
        optional { $($extra:ident = $extra_symbol:ident($($extra_arg:ident: $extra_type:ty),*);)* }
    ) => {
        /// The functions of the driver. A method calls the function of its name in `cuda.h`, and
        /// turns its code into a result; the driver's documentation says what each expects.
        #[derive(Clone, Copy, Debug)]
        pub struct Driver {
            version: Version,
            $($name: unsafe extern "C" fn($($type),*) -> i32,)*
            $($extra: Option<unsafe extern "C" fn($($extra_type),*) -> i32>,)*
        }

        /// The driver's documentation is each method's contract.
        #[allow(dead_code, missing_docs, clippy::missing_safety_doc, clippy::too_many_arguments)]
        impl Driver {
            $(pub(crate) unsafe fn $name(&self, $($arg: $type),*) -> Result<(), DeviceError> {
                // SAFETY: the caller keeps the function's contract.
                result(stringify!($symbol), unsafe { (self.$name)($($arg),*) })
            })*
            $(pub(crate) unsafe fn $extra(&self, $($extra_arg: $extra_type),*) -> Result<(), DeviceError> {
                let call = stringify!($extra_symbol);
                match self.$extra {
                    // SAFETY: the caller keeps the function's contract.
                    Some(function) => result(call, unsafe { function($($extra_arg),*) }),
                    None => Err(DeviceError { call, code: NOT_SUPPORTED }),
                }
            })*

            /// Whether the driver has all functions that came after CUDA 10.2.
            fn has_all_extras(&self) -> bool {
                [$(self.$extra.is_some()),*].iter().all(|there| *there)
            }
        }

        #[cfg(not(feature = "cuda-linked"))]
        fn fill(version: Version) -> Result<Driver, OpenError> {
            Ok(Driver {
                version,
                $($name: {
                    let name = concat!(stringify!($symbol), "\0");
                    let found = symbol(name).ok_or(OpenError::Symbol {
                        name: stringify!($symbol),
                        version,
                    })?;
                    // SAFETY: the driver's function of this name has this type.
                    unsafe { core::mem::transmute::<*const c_void, unsafe extern "C" fn($($type),*) -> i32>(found) }
                },)*
                $($extra: symbol(concat!(stringify!($extra_symbol), "\0")).map(|found| {
                    // SAFETY: the driver's function of this name has this type.
                    unsafe { core::mem::transmute::<*const c_void, unsafe extern "C" fn($($extra_type),*) -> i32>(found) }
                }),)*
            })
        }

        #[cfg(feature = "cuda-linked")]
        mod linked {
            use super::*;
            // cust's part in this: it has the program linked to the driver's library.
            use cust as _;
            #[allow(non_snake_case)]
            unsafe extern "C" {
                $(pub(super) fn $symbol($($arg: $type),*) -> i32;)*
            }
        }

        #[cfg(feature = "cuda-linked")]
        fn fill(version: Version) -> Result<Driver, OpenError> {
            Ok(Driver {
                version,
                $($name: linked::$symbol,)*
                $($extra: symbol(concat!(stringify!($extra_symbol), "\0")).map(|found| {
                    // SAFETY: the driver's function of this name has this type.
                    unsafe { core::mem::transmute::<*const c_void, unsafe extern "C" fn($($extra_type),*) -> i32>(found) }
                }),)*
            })
        }
    };
}

functions! {
    required {
        init = cuInit(flags: u32);
        device_get_count = cuDeviceGetCount(count: *mut i32);
        device_get = cuDeviceGet(device: *mut i32, ordinal: i32);
        device_get_name = cuDeviceGetName(name: *mut c_char, length: i32, device: i32);
        device_get_attribute = cuDeviceGetAttribute(value: *mut i32, attribute: i32, device: i32);
        device_total_mem = cuDeviceTotalMem_v2(bytes: *mut usize, device: i32);
        ctx_create = cuCtxCreate_v2(context: *mut Handle, flags: u32, device: i32);
        ctx_destroy = cuCtxDestroy_v2(context: Handle);
        ctx_set_current = cuCtxSetCurrent(context: Handle);
        ctx_push = cuCtxPushCurrent_v2(context: Handle);
        ctx_pop = cuCtxPopCurrent_v2(context: *mut Handle);
        ctx_synchronize = cuCtxSynchronize();
        mem_get_info = cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
        mem_alloc = cuMemAlloc_v2(address: *mut u64, bytes: usize);
        mem_free = cuMemFree_v2(address: u64);
        mem_host_alloc = cuMemHostAlloc(memory: *mut *mut c_void, bytes: usize, flags: u32);
        mem_free_host = cuMemFreeHost(memory: *mut c_void);
        mem_host_get_device_pointer = cuMemHostGetDevicePointer_v2(address: *mut u64, memory: *mut c_void, flags: u32);
        memcpy_htod = cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize);
        memcpy_dtoh = cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize);
        memcpy_htod_async = cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Handle);
        memcpy_dtoh_async = cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Handle);
        memcpy_dtod_async = cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle);
        memset_d8_async = cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: Handle);
        stream_create = cuStreamCreate(stream: *mut Handle, flags: u32);
        stream_destroy = cuStreamDestroy_v2(stream: Handle);
        stream_synchronize = cuStreamSynchronize(stream: Handle);
        stream_query = cuStreamQuery(stream: Handle);
        stream_wait_event = cuStreamWaitEvent(stream: Handle, event: Handle, flags: u32);
        event_create = cuEventCreate(event: *mut Handle, flags: u32);
        event_destroy = cuEventDestroy_v2(event: Handle);
        event_record = cuEventRecord(event: Handle, stream: Handle);
        event_query = cuEventQuery(event: Handle);
        event_synchronize = cuEventSynchronize(event: Handle);
        event_elapsed_time = cuEventElapsedTime(ms: *mut f32, start: Handle, end: Handle);
        module_load_data = cuModuleLoadData(module: *mut Handle, image: *const c_void);
        module_unload = cuModuleUnload(module: Handle);
        module_get_function = cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char);
        launch_kernel = cuLaunchKernel(
            function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
            shared_bytes: u32, stream: Handle, params: *mut *mut c_void, extra: *mut *mut c_void
        );
    }
    optional {
        mem_address_reserve = cuMemAddressReserve(address: *mut u64, bytes: usize, alignment: usize, hint: u64, flags: u64);
        mem_address_free = cuMemAddressFree(address: u64, bytes: usize);
        mem_create = cuMemCreate(handle: *mut u64, bytes: usize, prop: *const c_void, flags: u64);
        mem_release = cuMemRelease(handle: u64);
        mem_map = cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, flags: u64);
        mem_unmap = cuMemUnmap(address: u64, bytes: usize);
        mem_set_access = cuMemSetAccess(address: u64, bytes: usize, access: *const c_void, count: usize);
        mem_get_allocation_granularity = cuMemGetAllocationGranularity(bytes: *mut usize, prop: *const c_void, option: i32);
    }
}

impl Driver {
    /// Finds the driver, looks up its functions, and initialises it.
    pub fn load() -> Result<Self, OpenError> {
        let version = Self::installed_version()?;
        if version < NEEDED_VERSION {
            return Err(OpenError::OldDriver { found: version, needed: NEEDED_VERSION });
        }
        let driver = fill(version)?;
        // SAFETY: no conditions.
        unsafe { driver.init(0) }.map_err(|error| match error.code {
            NO_DEVICE => OpenError::NoDevice { version },
            _ => OpenError::Call(error),
        })?;
        Ok(driver)
    }

    /// The version of CUDA that the driver is for.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether it can reserve addresses apart from memory.
    pub fn has_virtual_memory(&self) -> bool {
        self.has_all_extras()
    }

    fn installed_version() -> Result<Version, OpenError> {
        if !is_present() {
            return Err(OpenError::NoLibrary);
        }
        let name = "cuDriverGetVersion";
        let found = symbol("cuDriverGetVersion\0")
            .ok_or(OpenError::Symbol { name, version: Version::UNKNOWN })?;
        // SAFETY: the driver's function of this name has this type.
        let get = unsafe {
            core::mem::transmute::<*const c_void, unsafe extern "C" fn(*mut i32) -> i32>(found)
        };
        let mut version = 0;
        // SAFETY: it writes one number, also before `cuInit`.
        result(name, unsafe { get(&mut version) }).map_err(OpenError::Call)?;
        Ok(Version(version))
    }
}

/// CUDA_ERROR_NO_DEVICE.
const NO_DEVICE: i32 = 100;

fn result(call: &'static str, code: i32) -> Result<(), DeviceError> {
    if code == SUCCESS { Ok(()) } else { Err(DeviceError { call, code }) }
}

#[cfg(not(feature = "cuda-linked"))]
fn is_present() -> bool {
    // SAFETY: loading the driver's library has no conditions.
    unsafe { cudarc::driver::sys::is_culib_present() }
}

/// Whatever the library calls by this name, which ends with a zero byte. The library must be there.
#[cfg(not(feature = "cuda-linked"))]
fn symbol(name: &str) -> Option<*const c_void> {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
    // SAFETY: the library is there, and is never unloaded; a symbol's address is a pointer.
    unsafe { cudarc::driver::sys::culib().get::<*const c_void>(name).ok().map(|symbol| *symbol) }
}

#[cfg(feature = "cuda-linked")]
fn is_present() -> bool {
    true
}

#[cfg(feature = "cuda-linked")]
fn symbol(name: &str) -> Option<*const c_void> {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
    // SAFETY: the name ends with a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found.cast_const())
}
