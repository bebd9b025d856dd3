//! An open file of Linux: the system calls that the back ends share.
#![allow(unsafe_code)]

use super::StorageError;
use core::ffi::{CStr, c_int};

/// The calling thread's last system error number.
pub(crate) fn errno() -> i32 {
    // SAFETY: the location is the calling thread's own and always valid.
    unsafe { *libc::__errno_location() }
}

/// A file descriptor, closed when dropped.
#[derive(Debug)]
pub(crate) struct Fd(c_int);

impl Fd {
    /// Opens a file for reading; `flags` are added to `O_RDONLY | O_CLOEXEC`. The error is the system's.
    pub(crate) fn open(path: &CStr, flags: c_int) -> Result<Self, i32> {
        loop {
            // SAFETY: the path is a terminated string; without O_CREAT there is no third argument.
            let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC | flags) };
            match fd {
                0.. => return Ok(Self(fd)),
                _ if errno() == libc::EINTR => continue,
                _ => return Err(errno()),
            }
        }
    }

    /// The number, for calls that only one back end makes.
    pub(crate) fn raw(&self) -> c_int {
        self.0
    }

    /// Length in bytes, of a file or a block device.
    pub(crate) fn len(&self) -> Result<u64, StorageError> {
        // SAFETY: the descriptor is open. Reads name their offset, so moving the position harms nobody.
        let end = unsafe { libc::lseek64(self.0, 0, libc::SEEK_END) };
        u64::try_from(end).map_err(|_| StorageError::Open { errno: errno() })
    }

    /// One `pread`: the bytes read, or the system's error.
    pub(crate) fn pread(&self, offset: u64, into: &mut [u8]) -> Result<usize, i32> {
        let offset = libc::off64_t::try_from(offset).map_err(|_| libc::EOVERFLOW)?;
        // SAFETY: `into` is writable for its whole length.
        let got = unsafe { libc::pread64(self.0, into.as_mut_ptr().cast(), into.len(), offset) };
        usize::try_from(got).map_err(|_| errno())
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open, and used by nobody after this.
        unsafe { libc::close(self.0) };
    }
}

/// A shared, read-only map of a whole file.
///
/// The file may change underneath, so no reference into it is ever made: bytes are copied out. If it
/// shrinks, touching what is gone raises SIGBUS.
#[derive(Debug)]
pub(crate) struct Map {
    start: *mut core::ffi::c_void,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and is only read.
unsafe impl Send for Map {}
// SAFETY: likewise.
unsafe impl Sync for Map {}

impl Map {
    /// Maps the first `len` bytes of a file; `flags` are added to `MAP_SHARED`.
    pub(crate) fn new(fd: &Fd, len: u64, flags: c_int) -> Result<Self, StorageError> {
        let too_large = StorageError::Open { errno: libc::EOVERFLOW };
        let len = usize::try_from(len).map_err(|_| too_large)?;
        if len == 0 {
            return Ok(Self { start: core::ptr::null_mut(), len });
        }
        // SAFETY: a new mapping at an address of the system's choice touches no existing memory.
        let start = unsafe {
            let flags = libc::MAP_SHARED | flags;
            libc::mmap(core::ptr::null_mut(), len, libc::PROT_READ, flags, fd.raw(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(StorageError::Open { errno: errno() });
        }
        Ok(Self { start, len })
    }

    /// Bytes mapped.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Its address.
    pub(crate) fn start(&self) -> *mut core::ffi::c_void {
        self.start
    }

    /// Copies the bytes from `offset` on; `false` if they are not all inside the map.
    pub(crate) fn copy(&self, offset: u64, into: &mut [u8]) -> bool {
        let Ok(start) = usize::try_from(offset) else { return false };
        if start.checked_add(into.len()).is_none_or(|end| end > self.len) {
            return false;
        }
        if !into.is_empty() {
            // SAFETY: the source is inside the map, by the check above, and the destination is an
            // exclusive slice, which a shared read-only map cannot overlap.
            unsafe {
                let from = self.start.cast::<u8>().add(start);
                core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len());
            }
        }
        true
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: exactly the mapping that `new` made; no reference into it was ever given out.
            unsafe { libc::munmap(self.start, self.len) };
        }
    }
}
