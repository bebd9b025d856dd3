//! The driver's functions that chunks are made of, with their arguments: safe to call, since what
//! they may do wrong stays on the GPU.

use super::ChunkError;
use crate::device::DeviceError;
use crate::device::cuda::error::given_up;
use crate::device::cuda::{Context, HostMemory};
use core::ffi::c_void;
use core::ops::Range;

/// CUmemLocation.
#[repr(C)]
struct Location {
    /// 1: a device.
    kind: i32,
    id: i32,
}

/// CUmemAllocationProp.
#[repr(C)]
struct Properties {
    /// 1: pinned, the only one there is.
    kind: i32,
    /// 0: shared with no other process.
    handle_types: i32,
    location: Location,
    windows: *const c_void,
    flags: [u8; 8],
}

/// CUmemAccessDesc.
#[repr(C)]
struct Access {
    location: Location,
    /// 3: reading and writing.
    flags: i32,
}

/// Virtual memory management of a GPU that has it.
#[derive(Clone, Copy)]
pub(super) struct Vmm<'a> {
    context: &'a Context<'a>,
}

impl<'a> Vmm<'a> {
    pub fn new(context: &'a Context<'a>) -> Result<Self, ChunkError> {
        if !context.driver().has_virtual_memory() {
            return Err(ChunkError::OldDriver { found: context.driver().version() });
        }
        match context.attributes().virtual_memory {
            true => Ok(Self { context }),
            false => Err(ChunkError::NoVirtualMemory),
        }
    }

    pub fn context(&self) -> &'a Context<'a> {
        self.context
    }

    fn location(&self) -> Location {
        Location { kind: 1, id: self.context.device() }
    }

    fn properties(&self) -> Properties {
        let (kind, handle_types, location) = (1, 0, self.location());
        Properties { kind, handle_types, location, windows: core::ptr::null(), flags: [0; 8] }
    }

    /// The unit of a chunk's size, in bytes.
    pub fn granularity(&self) -> Result<u64, DeviceError> {
        const MINIMUM: i32 = 0;
        let mut bytes = 0;
        let properties = self.properties();
        // SAFETY: it reads one record of this layout, and writes one number.
        unsafe {
            let properties = (&raw const properties).cast::<c_void>();
            self.context.enter()?.mem_get_allocation_granularity(&mut bytes, properties, MINIMUM)
        }?;
        // Zero would be a multiple of nothing.
        Ok((bytes as u64).max(1))
    }

    /// Makes a physical chunk.
    pub fn create(&self, bytes: u64) -> Result<u64, DeviceError> {
        let mut handle = 0;
        let properties = self.properties();
        // SAFETY: it reads one record of this layout, and writes one handle.
        unsafe {
            let properties = (&raw const properties).cast::<c_void>();
            self.context.enter()?.mem_create(&mut handle, bytes as usize, properties, 0)
        }?;
        Ok(handle)
    }

    /// Ends a physical chunk, as soon as it is mapped nowhere.
    pub fn release(&self, handle: u64) -> Result<(), DeviceError> {
        // SAFETY: a number; one that is no handle is refused.
        unsafe { self.context.enter()?.mem_release(handle) }
    }

    /// Maps a chunk to an address.
    pub fn map(&self, address: u64, bytes: u64, handle: u64) -> Result<(), DeviceError> {
        // SAFETY: numbers; what is not reserved, or is mapped, is refused.
        unsafe { self.context.enter()?.mem_map(address, bytes as usize, 0, handle, 0) }
    }

    /// Unmaps whole chunks that lie one after the other.
    pub fn unmap(&self, address: u64, bytes: u64) -> Result<(), DeviceError> {
        // SAFETY: numbers; what is not mapped is refused. A kernel that would still use it fails,
        // on the GPU.
        unsafe { self.context.enter()?.mem_unmap(address, bytes as usize) }
    }

    /// Lets the GPU read and write whole chunks that are mapped one after the other.
    pub fn allow(&self, address: u64, bytes: u64) -> Result<(), DeviceError> {
        let access = Access { location: self.location(), flags: 3 };
        // SAFETY: it reads one record of this layout.
        unsafe {
            let access = (&raw const access).cast::<c_void>();
            self.context.enter()?.mem_set_access(address, bytes as usize, access, 1)
        }
    }

    /// Reserves addresses.
    pub fn reserve(&self, bytes: u64) -> Result<Reserved<'a>, DeviceError> {
        let mut address = 0;
        // SAFETY: it writes one address.
        unsafe {
            self.context.enter()?.mem_address_reserve(&mut address, bytes as usize, 0, 0, 0)
        }?;
        Ok(Reserved { vmm: *self, address, bytes })
    }
}

/// Addresses that are nobody else's. Nothing is mapped there when it is dropped.
pub(super) struct Reserved<'a> {
    vmm: Vmm<'a>,
    address: u64,
    bytes: u64,
}

impl Reserved<'_> {
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let on = self.vmm.context.enter();
        // SAFETY: from `reserve`, freed once; refused where something is mapped still.
        let freed =
            on.and_then(|on| unsafe { on.mem_address_free(self.address, self.bytes as usize) });
        given_up(freed);
    }
}

/// Pinned memory whose copies are waited for before anyone sees it again.
pub(super) struct Pinned<'a>(HostMemory<'a>);

impl<'a> Pinned<'a> {
    /// Zeros.
    pub fn new(context: &'a Context<'a>, bytes: usize) -> Result<Self, ChunkError> {
        Ok(Self(context.host_memory(bytes)?))
    }

    /// A part of it.
    ///
    /// # Panics
    /// When it is not inside.
    pub fn part(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.0.bytes());
        // SAFETY:
        // - The part is inside the allocation, which starts as zeros.
        // - Copies to and from it are done: ranges wait for their streams, and staging for its
        //   events, before they come here again.
        // - After an error that leaves doubt the network is broken. Its memory is neither copied
        //   nor lent.
        unsafe {
            core::slice::from_raw_parts_mut(self.0.memory().as_ptr().add(range.start), range.len())
        }
    }
}
