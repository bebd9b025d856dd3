//! An open file of Linux: the system calls that the back ends share.
#![allow(unsafe_code)]

use super::{NoFile, StorageError};
use crate::sys::errno;
use core::ffi::{CStr, c_int};
use core::mem::MaybeUninit;

/// The record of a call that fills it.
fn stat(call: impl FnOnce(*mut libc::stat) -> c_int) -> Result<libc::stat, StorageError> {
    let mut found = MaybeUninit::<libc::stat>::zeroed();
    match call(found.as_mut_ptr()) {
        // SAFETY: plain numbers, valid as zeros and as the call has filled them.
        0 => Ok(unsafe { found.assume_init() }),
        _ => Err(StorageError::Open { errno: errno() }),
    }
}

/// Refuses what is neither a regular file nor a block device.
fn refuse_others(found: &libc::stat) -> Result<(), StorageError> {
    Err(StorageError::NoFile(match found.st_mode & libc::S_IFMT {
        libc::S_IFREG | libc::S_IFBLK => return Ok(()),
        libc::S_IFDIR => NoFile::Directory,
        libc::S_IFIFO => NoFile::Fifo,
        libc::S_IFSOCK => NoFile::Socket,
        _ => NoFile::CharacterDevice,
    }))
}

/// A file descriptor, closed when dropped.
#[derive(Debug)]
pub(crate) struct Fd(c_int);

impl Fd {
    /// Opens a regular file or a block device for reading; `flags` are added to
    /// `O_RDONLY | O_CLOEXEC`. Anything else is refused at once: a FIFO without a writer would keep
    /// its reader waiting.
    pub(crate) fn open(path: &CStr, flags: c_int) -> Result<Self, StorageError> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | flags;
        let fd = loop {
            // SAFETY: the path is a terminated string; without O_CREAT there is no third argument.
            match unsafe { libc::open(path.as_ptr(), flags) } {
                fd @ 0.. => break Self(fd),
                _ if errno() == libc::EINTR => continue,
                _ => {
                    let errno = errno();
                    // A socket cannot be opened, and most of what is no file not with all flags.
                    let found = stat(|into| {
                        // SAFETY: the path is a terminated string, and the call fills the record.
                        unsafe { libc::stat(path.as_ptr(), into) }
                    });
                    found.map_or(Ok(()), |found| refuse_others(&found))?;
                    return Err(StorageError::Open { errno });
                }
            }
        };
        refuse_others(&fd.stat()?)?;
        // The flag means nothing for a file; it may for a device. SAFETY: a call without pointers
        // on an open descriptor.
        unsafe { libc::fcntl(fd.0, libc::F_SETFL, flags & !libc::O_NONBLOCK) };
        Ok(fd)
    }

    /// Another descriptor of the same open file.
    pub(crate) fn duplicate(&self) -> Result<Self, StorageError> {
        // SAFETY: a call without pointers on an open descriptor.
        match unsafe { libc::fcntl(self.0, libc::F_DUPFD_CLOEXEC, 0) } {
            fd @ 0.. => Ok(Self(fd)),
            _ => Err(StorageError::Open { errno: errno() }),
        }
    }

    /// The system's record of the file.
    pub(crate) fn stat(&self) -> Result<libc::stat, StorageError> {
        stat(|into| {
            // SAFETY: the descriptor is open, and the call fills the record.
            unsafe { libc::fstat(self.0, into) }
        })
    }

    /// Whether it is a block device, such as a partition.
    pub(crate) fn is_block_device(&self) -> Result<bool, StorageError> {
        Ok(self.stat()?.st_mode & libc::S_IFMT == libc::S_IFBLK)
    }

    /// The number of the file system that it is on.
    pub(crate) fn file_system(&self) -> Result<u32, StorageError> {
        let mut found = MaybeUninit::<libc::statfs>::zeroed();
        // SAFETY: the call fills the record, which is plain numbers and valid even if it does not.
        match unsafe { (libc::fstatfs(self.0, found.as_mut_ptr()), found.assume_init()) } {
            (0, found) => Ok(found.f_type as u32),
            _ => Err(StorageError::Open { errno: errno() }),
        }
    }

    /// The number, for calls that only one back end makes.
    pub(crate) fn raw(&self) -> c_int {
        self.0
    }

    /// Length in bytes, of a file or a block device.
    pub(crate) fn len(&self) -> Result<u64, StorageError> {
        // SAFETY: the descriptor is open. Reads name their offset, so moving the position harms
        // nobody.
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

/// A shared, read-only map of a part of a file.
///
/// The file may change underneath, so no reference into it is ever made: bytes are copied out. If
/// it shrinks, touching what is gone raises SIGBUS.
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
    /// Maps `len` bytes of a file from `offset` on, a multiple of the system's page; `flags` are
    /// added to `MAP_SHARED`.
    pub(crate) fn new(fd: &Fd, offset: u64, len: u64, flags: c_int) -> Result<Self, StorageError> {
        let too_large = StorageError::Open { errno: libc::EOVERFLOW };
        let len = usize::try_from(len).map_err(|_| too_large)?;
        let offset = libc::off64_t::try_from(offset).map_err(|_| too_large)?;
        if len == 0 {
            return Ok(Self { start: core::ptr::null_mut(), len });
        }
        // SAFETY: a new mapping at an address of the system's choice touches no existing memory.
        let start = unsafe {
            let flags = libc::MAP_SHARED | flags;
            libc::mmap64(core::ptr::null_mut(), len, libc::PROT_READ, flags, fd.raw(), offset)
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

#[cfg(test)]
mod tests {
    use super::super::DirectFile;
    use super::*;
    use std::ffi::CString;
    use std::os::unix::net::UnixListener;

    #[test]
    fn fifos_and_sockets_are_refused_at_once() {
        let folder = std::env::temp_dir().join(std::format!("fifos-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| CString::new(folder.join(name).to_str().unwrap()).unwrap();
        let (fifo, socket) = (path("fifo"), path("socket"));
        // SAFETY: a terminated path.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
        let _socket = UnixListener::bind(folder.join("socket")).unwrap();
        for (path, what) in [(&fifo, NoFile::Fifo), (&socket, NoFile::Socket)] {
            let error = StorageError::NoFile(what);
            assert_eq!(Fd::open(path, 0).unwrap_err(), error);
            assert_eq!(DirectFile::open(path).unwrap_err(), error);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_read_later_waits() {
        // Open files do not keep the flag by which FIFOs are found.
        let program = std::env::current_exe().unwrap();
        let fd = Fd::open(&CString::new(program.to_str().unwrap()).unwrap(), 0).unwrap();
        // SAFETY: a call without pointers on an open descriptor.
        let flags = unsafe { libc::fcntl(fd.raw(), libc::F_GETFL) };
        assert_eq!(flags & libc::O_NONBLOCK, 0);
    }
}
