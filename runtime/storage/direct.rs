//! Files read with direct I/O: from the device straight into the arena.
//!
//! Nothing is copied and the page cache keeps nothing, so what the process uses is what the budget
//! says. A file system that would quietly go through the cache all the same is refused:
//!
//! - `open` fails with EINVAL: it has no direct I/O.
//! - It lives in memory (tmpfs, ramfs): the cache *is* the file. tmpfs takes the flag since Linux 6.6.
//! - `statx` tells an alignment of zero: this file cannot (encrypted, compressed, data journalling). It
//!   is believed if a page read on trial turns up in the cache: emulators tell zero for want of knowing.
//!
//! Kernels before 6.1 and some file systems tell nothing; that a page can be read is then enough.

use super::fd::{Fd, errno};
use super::residency::{count_cached, forget};
use super::{Storage, StorageError, TWO_PAGES, aligned_page, check_aligned, read_exact};
use crate::pack::PAGE;
use core::ffi::CStr;
use core::mem::MaybeUninit;

/// A file opened with `O_DIRECT`.
#[derive(Debug)]
pub struct DirectFile {
    fd: Fd,
    alignment: u64,
}

impl DirectFile {
    /// Opens a file, or says that its file system has no direct I/O.
    pub fn open(path: &CStr) -> Result<Self, StorageError> {
        let fd = Fd::open(path, libc::O_DIRECT).map_err(|errno| match errno {
            libc::EINVAL => StorageError::NoDirectIo,
            errno => StorageError::Open { errno },
        })?;
        if lives_in_memory(&fd)? {
            return Err(StorageError::NoDirectIo);
        }
        let alignment = match told_alignment(&fd) {
            Some(0) => {
                // What cannot be forgotten is found below.
                let _ = forget(&fd);
                let alignment = probe(&fd)?;
                if count_cached(&fd, fd.len()?.min(PAGE))?.0 > 0 {
                    return Err(StorageError::NoDirectIo);
                }
                alignment
            }
            Some(alignment) => alignment,
            None => probe(&fd)?,
        };
        if alignment > PAGE || !alignment.is_power_of_two() {
            return Err(StorageError::Coarse { alignment, limit: PAGE });
        }
        Ok(Self { fd, alignment })
    }
}

impl Storage for DirectFile {
    fn len(&self) -> Result<u64, StorageError> {
        self.fd.len()
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        check_aligned(offset, into, self.alignment)?;
        read_exact(offset, into, self.alignment, |at, into| self.fd.pread(at, into))
    }

    fn alignment(&self) -> u64 {
        self.alignment
    }
}

/// Whether the file's only home is the page cache.
#[allow(unsafe_code)]
fn lives_in_memory(fd: &Fd) -> Result<bool, StorageError> {
    const TMPFS: u32 = 0x0102_1994;
    const RAMFS: u32 = 0x8584_58f6;
    let mut stats = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the call fills the record, which is plain numbers and valid even if it does not.
    let stats = unsafe {
        if libc::fstatfs(fd.raw(), stats.as_mut_ptr()) != 0 {
            return Err(StorageError::Open { errno: errno() });
        }
        stats.assume_init()
    };
    Ok(matches!(stats.f_type as u32, TMPFS | RAMFS))
}

/// The record of the `statx` system call up to what is needed here; the whole has 256 bytes on every
/// architecture. (The C library's own declaration depends on its age.)
#[repr(C)]
struct Statx {
    mask: u32,
    before: [u32; 37],
    memory_alignment: u32,
    offset_alignment: u32,
    after: [u32; 24],
}

const _: () = {
    assert!(size_of::<Statx>() == 256);
    assert!(core::mem::offset_of!(Statx, memory_alignment) == 0x98);
};

/// What the kernel says that reads must be aligned to; zero if the file has no direct I/O, `None` if it
/// does not say.
#[allow(unsafe_code)]
fn told_alignment(fd: &Fd) -> Option<u64> {
    const DIOALIGN: u32 = 0x2000;
    let mut record = MaybeUninit::<Statx>::zeroed();
    // SAFETY: an empty, terminated path with AT_EMPTY_PATH asks about the descriptor; the call fills the
    // record, which is plain numbers and valid even if it does not.
    let record = unsafe {
        let flags = libc::AT_EMPTY_PATH;
        let (path, into) = (c"".as_ptr(), record.as_mut_ptr());
        if libc::syscall(libc::SYS_statx, fd.raw(), path, flags, DIOALIGN, into) != 0 {
            return None;
        }
        record.assume_init()
    };
    let alignment = record.memory_alignment.max(record.offset_alignment);
    (record.mask & DIOALIGN != 0).then_some(alignment as u64)
}

/// Reads a page to see whether direct I/O works with a page's alignment, which is then taken for what
/// the file needs.
fn probe(fd: &Fd) -> Result<u64, StorageError> {
    let mut room = [0; TWO_PAGES];
    let page = aligned_page(&mut room);
    loop {
        return match fd.pread(0, page) {
            Ok(_) => Ok(PAGE),
            Err(libc::EINTR) => continue,
            Err(libc::EINVAL) => Err(StorageError::NoDirectIo),
            Err(errno) => Err(StorageError::Io { errno, offset: 0 }),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::residency::{cached_pages, drop_cache};
    use super::super::scratch_file::{Aligned, ScratchFile, contents};
    use super::*;

    /// The file, unless the tests run where there is no direct I/O.
    fn open(scratch: &ScratchFile) -> Option<DirectFile> {
        match DirectFile::open(scratch.path()) {
            Err(StorageError::NoDirectIo) => {
                std::eprintln!("skipped: the test program lies where there is no direct I/O");
                None
            }
            file => Some(file.unwrap()),
        }
    }

    #[test]
    fn reads_pages_and_leaves_nothing_in_the_cache() {
        let bytes = contents(64 * 4096);
        let scratch = ScratchFile::new(&bytes);
        drop_cache(scratch.path()).unwrap();
        let Some(mut file) = open(&scratch) else { return };
        assert_eq!(file.len(), Ok(64 * 4096));
        assert!(file.alignment().is_power_of_two() && file.alignment() <= PAGE);
        let mut into = Aligned([0; 8 * 4096]);
        for page in [0, 1, 17, 56] {
            file.read(page * PAGE, &mut into.0).unwrap();
            assert_eq!(into.0, bytes[(page * PAGE) as usize..][..8 * 4096]);
        }
        assert_eq!(cached_pages(scratch.path()).unwrap().0, 0);
    }

    #[test]
    fn misaligned_reads_are_refused() {
        let scratch = ScratchFile::new(&contents(3 * 4096));
        let Some(mut file) = open(&scratch) else { return };
        let alignment = file.alignment();
        let mut into = Aligned([0; 8192]);
        let address = into.0.as_ptr().addr() as u64;
        let error = StorageError::Misaligned { offset: 1, bytes: 4096, address, alignment };
        assert_eq!(file.read(1, &mut into.0[..4096]), Err(error));
        let error = StorageError::Misaligned { offset: 0, bytes: 4095, address, alignment };
        assert_eq!(file.read(0, &mut into.0[..4095]), Err(error));
        let address = address + 1;
        let error = StorageError::Misaligned { offset: 0, bytes: 4096, address, alignment };
        assert_eq!(file.read(0, &mut into.0[1..4097]), Err(error));
    }

    #[test]
    fn the_end_of_the_file_is_found() {
        for (bytes, got) in [(4096, 4096), (5000, 5000), (4096 + 512, 4096 + 512)] {
            let scratch = ScratchFile::new(&contents(bytes));
            let Some(mut file) = open(&scratch) else { return };
            let mut into = Aligned([0; 8192]);
            let short = StorageError::Short { offset: 0, wanted: 8192, got };
            assert_eq!(file.read(0, &mut into.0), Err(short));
            let short = StorageError::Short { offset: 8192, wanted: 8192, got: 0 };
            assert_eq!(file.read(8192, &mut into.0), Err(short));
        }
    }

    #[test]
    fn files_in_memory_are_refused() {
        let folder = std::path::Path::new("/dev/shm");
        if !folder.is_dir() {
            return;
        }
        let scratch = ScratchFile::in_folder(folder, &contents(4096));
        assert_eq!(DirectFile::open(scratch.path()).unwrap_err(), StorageError::NoDirectIo);
        let missing = DirectFile::open(c"/does/not/exist").unwrap_err();
        assert_eq!(missing, StorageError::Open { errno: libc::ENOENT });
    }

    #[test]
    fn a_page_is_enough_to_see() {
        let scratch = ScratchFile::new(&contents(100));
        if open(&scratch).is_none() {
            return;
        }
        let fd = Fd::open(scratch.path(), libc::O_DIRECT).unwrap();
        assert_eq!(probe(&fd), Ok(PAGE));
    }
}
