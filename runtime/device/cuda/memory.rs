//! Memory of the GPU, and memory of the host that the GPU can address.

use super::context::Context;
use super::error::{MemoryError, given_up};
use crate::device::DeviceError;
use core::ffi::c_void;
use core::ptr::NonNull;

/// CUDA_ERROR_OUT_OF_MEMORY.
pub(super) const OUT_OF_MEMORY: i32 = 2;

/// CU_MEMHOSTALLOC_PORTABLE and _DEVICEMAP.
const PORTABLE_AND_MAPPED: u32 = 1 | 2;

/// A refusal for want of memory, with how much there is.
pub(super) fn explained(context: &Context<'_>, wanted: usize, error: DeviceError) -> MemoryError {
    match context.free_bytes() {
        Ok((free, total)) if error.code == OUT_OF_MEMORY => {
            MemoryError::Exhausted { wanted, free, total }
        }
        _ => MemoryError::Call(error),
    }
}

impl Context<'_> {
    /// Memory of the GPU, not initialised, aligned to 256 bytes.
    pub fn device_memory(&self, bytes: usize) -> Result<DeviceMemory<'_>, MemoryError> {
        DeviceMemory::new(self, bytes)
    }

    /// Memory of the host that stays where it is, in whole pages, and that the GPU addresses too.
    pub fn host_memory(&self, bytes: usize) -> Result<HostMemory<'_>, MemoryError> {
        HostMemory::new(self, bytes)
    }
}

/// An allocation on the GPU.
#[derive(Debug)]
pub struct DeviceMemory<'c> {
    context: &'c Context<'c>,
    address: u64,
    bytes: usize,
}

impl<'c> DeviceMemory<'c> {
    pub(super) fn new(context: &'c Context<'_>, bytes: usize) -> Result<Self, MemoryError> {
        let mut address = 0;
        // SAFETY: it writes one address.
        unsafe { context.enter().map_err(MemoryError::Call)?.mem_alloc(&mut address, bytes) }
            .map_err(|error| explained(context, bytes, error))?;
        Ok(Self { context, address, bytes })
    }

    /// Where it begins, on the GPU.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes from `offset` on, and waits.
    ///
    /// # Panics
    /// When it is more than is there.
    pub fn write(&mut self, offset: usize, data: &[u8]) -> Result<(), DeviceError> {
        assert!(offset <= self.bytes && data.len() <= self.bytes - offset);
        if data.is_empty() {
            return Ok(());
        }
        let on = self.context.enter()?;
        // SAFETY: inside the allocation, by the check. Of memory that is not pinned the driver
        // takes a copy, and returns before that is there: it goes through the stream that has no
        // name, for which others do not wait.
        unsafe {
            let from = data.as_ptr().cast::<c_void>();
            on.memcpy_htod(self.address + offset as u64, from, data.len())?;
            on.stream_synchronize(core::ptr::null_mut())
        }
    }

    /// Reads from `offset` on, and waits.
    ///
    /// # Panics
    /// When it is more than is there.
    pub fn read(&self, offset: usize, data: &mut [u8]) -> Result<(), DeviceError> {
        assert!(offset <= self.bytes && data.len() <= self.bytes - offset);
        if data.is_empty() {
            return Ok(());
        }
        // SAFETY: inside the allocation, by the check.
        unsafe {
            let to = data.as_mut_ptr().cast::<c_void>();
            self.context.enter()?.memcpy_dtoh(to, self.address + offset as u64, data.len())
        }
    }
}

impl Drop for DeviceMemory<'_> {
    fn drop(&mut self) {
        let on = self.context.enter();
        // SAFETY: from `new`, freed once. It waits for what runs on it. After an error that stays
        // it goes with the context.
        given_up(on.and_then(|on| unsafe { on.mem_free(self.address) }));
    }
}

/// An allocation of the host's memory that stays where it is.
#[derive(Debug)]
pub struct HostMemory<'c> {
    context: &'c Context<'c>,
    memory: NonNull<u8>,
    address: u64,
    bytes: usize,
}

// SAFETY: memory like any other; whoever makes references to it says why that is sound.
unsafe impl Send for HostMemory<'_> {}
// SAFETY: likewise.
unsafe impl Sync for HostMemory<'_> {}

impl<'c> HostMemory<'c> {
    pub(super) fn new(context: &'c Context<'_>, bytes: usize) -> Result<Self, MemoryError> {
        let on = context.enter().map_err(MemoryError::Call)?;
        let mut memory = core::ptr::null_mut();
        // SAFETY: it writes one address.
        unsafe { on.mem_host_alloc(&mut memory, bytes, PORTABLE_AND_MAPPED) }.map_err(|error| {
            match context.attributes().integrated {
                true => explained(context, bytes, error),
                // How much the GPU has left says nothing about the host.
                false => MemoryError::Call(error),
            }
        })?;
        let refused =
            MemoryError::Call(DeviceError { call: "cuMemHostAlloc", code: OUT_OF_MEMORY });
        let memory = NonNull::new(memory.cast::<u8>()).ok_or(refused)?;
        // SAFETY: just allocated, that many bytes; zeros make it initialised.
        unsafe { memory.write_bytes(0, bytes) };
        // From here on it is freed when dropped.
        let mut this = Self { context, memory, address: 0, bytes };
        // SAFETY: it writes one address.
        unsafe { on.mem_host_get_device_pointer(&mut this.address, memory.as_ptr().cast(), 0) }
            .map_err(MemoryError::Call)?;
        Ok(this)
    }

    /// Where it begins, on the host.
    pub fn memory(&self) -> NonNull<u8> {
        self.memory
    }

    /// Where it begins, on the GPU.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for HostMemory<'_> {
    fn drop(&mut self) {
        let memory = self.memory.as_ptr().cast();
        let on = self.context.enter();
        // SAFETY: from `new`, freed once. Whoever has issued copies of it has waited for them.
        given_up(on.and_then(|on| unsafe { on.mem_free_host(memory) }));
    }
}
