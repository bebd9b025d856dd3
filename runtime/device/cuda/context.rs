//! A GPU that is in use.

use super::capability::Arch;
use super::driver::{Driver, Handle};
use super::error::{OpenError, given_up};
use crate::device::DeviceError;
use core::marker::PhantomData;
use core::ops::Deref;

/// The properties of a GPU.
#[derive(Clone, Debug)]
pub struct Attributes {
    /// Its compute capability.
    pub arch: Arch,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Whether it shares the host's memory.
    pub integrated: bool,
    /// Whether it can address memory of the host.
    pub maps_host_memory: bool,
    /// Whether addresses can be reserved apart from memory.
    pub virtual_memory: bool,
    /// Bytes of its memory.
    pub total_bytes: usize,
    name: heapless::String<NAME_BYTES>,
}

const NAME_BYTES: usize = 96;

impl Attributes {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Codes of attributes.
mod attribute {
    pub const MULTIPROCESSORS: i32 = 16;
    pub const INTEGRATED: i32 = 18;
    pub const CAN_MAP_HOST_MEMORY: i32 = 19;
    pub const CAPABILITY_MAJOR: i32 = 75;
    pub const CAPABILITY_MINOR: i32 = 76;
    pub const VIRTUAL_MEMORY: i32 = 102;
}

/// CU_CTX_MAP_HOST: pinned memory of the host has addresses on the GPU.
const MAP_HOST: u32 = 8;

/// A context on a GPU: all that belongs to it borrows it, and goes first.
#[derive(Debug)]
pub struct Context<'d> {
    driver: &'d Driver,
    raw: Handle,
    device: i32,
    attributes: Attributes,
}

// SAFETY: the driver's functions may be called from any thread; that the context is current to it,
// the module's page asks for, and a call without one is refused.
unsafe impl Send for Context<'_> {}
// SAFETY: likewise.
unsafe impl Sync for Context<'_> {}

impl<'d> Context<'d> {
    /// Opens GPU number `ordinal`, with a context of its own that becomes the calling thread's.
    pub fn open(driver: &'d Driver, ordinal: u32) -> Result<Self, OpenError> {
        let (mut count, mut device) = (0, 0);
        // SAFETY: it writes one number.
        unsafe { driver.device_get_count(&mut count) }.map_err(OpenError::Call)?;
        let count = count.max(0) as u32;
        if count == 0 {
            return Err(OpenError::NoDevice { version: driver.version() });
        }
        if ordinal >= count {
            return Err(OpenError::Ordinal { wanted: ordinal, count });
        }
        // SAFETY: it writes one number.
        unsafe { driver.device_get(&mut device, ordinal as i32) }.map_err(OpenError::Call)?;
        let attributes = attributes(driver, device).map_err(OpenError::Call)?;
        let mut raw = core::ptr::null_mut();
        // SAFETY: it writes one handle.
        unsafe { driver.ctx_create(&mut raw, MAP_HOST, device) }.map_err(OpenError::Call)?;
        Ok(Self { driver, raw, device, attributes })
    }

    /// The driver.
    pub fn driver(&self) -> &'d Driver {
        self.driver
    }

    /// The GPU's number, as the driver has it.
    pub fn device(&self) -> i32 {
        self.device
    }

    /// The properties of the GPU.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Makes it the calling thread's.
    pub fn bind(&self) -> Result<(), DeviceError> {
        // SAFETY: the context is alive.
        unsafe { self.driver.ctx_set_current(self.raw) }
    }

    /// Makes it the calling thread's until the value is dropped, and then what was before.
    pub(super) fn enter(&self) -> Result<Entered<'_>, DeviceError> {
        // SAFETY: the context is alive.
        unsafe { self.driver.ctx_push(self.raw) }?;
        Ok(Entered { driver: self.driver, here: PhantomData })
    }

    /// Waits for all that was launched.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        // SAFETY: no conditions.
        unsafe { self.enter()?.ctx_synchronize() }
    }

    /// Bytes of the GPU's memory that are free, of all users', and all there are.
    pub fn free_bytes(&self) -> Result<(usize, usize), DeviceError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: it writes two numbers.
        unsafe { self.enter()?.mem_get_info(&mut free, &mut total) }?;
        Ok((free, total))
    }
}

/// The driver, while a context is the calling thread's.
pub(super) struct Entered<'c> {
    driver: &'c Driver,
    /// Keeps the value on its thread.
    here: PhantomData<*mut ()>,
}

impl Deref for Entered<'_> {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        self.driver
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut left = core::ptr::null_mut();
        // SAFETY: it writes one handle.
        given_up(unsafe { self.driver.ctx_pop(&mut left) });
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `open`, destroyed once. After an error that stays, it returns that error,
        // and destroys.
        given_up(unsafe { self.driver.ctx_destroy(self.raw) });
    }
}

fn attributes(driver: &Driver, device: i32) -> Result<Attributes, DeviceError> {
    let get = |attribute| {
        let mut value = 0;
        // SAFETY: it writes one number.
        unsafe { driver.device_get_attribute(&mut value, attribute, device) }?;
        Ok(value.max(0) as u32)
    };
    let mut total_bytes = 0;
    // SAFETY: it writes one number.
    unsafe { driver.device_total_mem(&mut total_bytes, device) }?;
    let mut bytes = [0u8; NAME_BYTES];
    // SAFETY: it writes no more than `NAME_BYTES` bytes.
    unsafe { driver.device_get_name(bytes.as_mut_ptr().cast(), NAME_BYTES as i32, device) }?;
    let name =
        core::ffi::CStr::from_bytes_until_nul(&bytes).ok().and_then(|name| name.to_str().ok());
    Ok(Attributes {
        arch: Arch {
            major: get(attribute::CAPABILITY_MAJOR)?,
            minor: get(attribute::CAPABILITY_MINOR)?,
        },
        multiprocessors: get(attribute::MULTIPROCESSORS)?,
        integrated: get(attribute::INTEGRATED)? != 0,
        maps_host_memory: get(attribute::CAN_MAP_HOST_MEMORY)? != 0,
        // A driver that does not know the attribute has none of it.
        virtual_memory: driver.has_virtual_memory()
            && get(attribute::VIRTUAL_MEMORY).is_ok_and(|value| value != 0),
        total_bytes,
        name: heapless::String::try_from(name.unwrap_or("unnamed")).unwrap_or_default(),
    })
}
