//! The pages of a file that the page cache holds. Reports show by them that direct reads leave
//! none.
//!
//! [`PageCache::count`] asks `mincore`. For whoever neither owns the file nor may write it the
//! kernel answers that every page is there; where a file cannot be mapped, nothing can be asked.
//! `cachestat` answers then (since Linux 6.5; since 6.13 under the conditions of `mincore`), but
//! not of overlays, whose files are in the cache under another name. Where neither can be believed,
//! the answer is that it is [unknown](StorageError::CacheUnknown), not a number.
#![allow(unsafe_code)]

use super::fd::{Fd, Map};
use super::{StorageError, TWO_PAGES, aligned_page};
use crate::pack::PAGE;
use crate::sys::{errno, page_bytes};
use core::ffi::CStr;

/// The page cache's share of a file. It follows the file, not its name.
#[derive(Debug)]
pub struct PageCache {
    pub(super) fd: Fd,
}

/// The pages of a file that the page cache holds, in pages of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cached {
    /// Pages in the cache.
    pub pages: u64,
    /// Pages of the file, as far as it was looked at.
    pub of_pages: u64,
    /// The first page in the cache.
    pub(super) first: u64,
}

impl Cached {
    /// Bytes in the cache.
    pub fn bytes(&self) -> u64 {
        self.pages * page_bytes() as u64
    }
}

impl PageCache {
    /// The share of the file at a path.
    pub fn open(path: &CStr) -> Result<Self, StorageError> {
        Ok(Self { fd: Fd::open(path, 0)? })
    }

    /// The share of the file at a path, which is read directly: [`keep_out`](Self::keep_out) needs
    /// that.
    pub fn open_direct(path: &CStr) -> Result<Self, StorageError> {
        Ok(Self { fd: Fd::open(path, libc::O_DIRECT)? })
    }

    /// The share of an open file.
    pub(super) fn of(fd: &Fd) -> Result<Self, StorageError> {
        Ok(Self { fd: fd.duplicate()? })
    }

    /// Counts the pages in the cache of the first `bytes` of the file.
    pub fn count(&self, bytes: u64) -> Result<Cached, StorageError> {
        count(&self.fd, bytes.min(self.fd.len()?))
    }

    /// Writes the file back and has the cache forget it. Pages that are mapped stay.
    pub fn forget(&self) -> Result<(), StorageError> {
        forget(&self.fd)
    }
}

/// Whether a direct read leaves a copy in the cache of a page, a byte of which is at `offset`, and
/// which is not there before.
pub(super) fn leaves_page(fd: &Fd, offset: u64) -> Result<bool, StorageError> {
    let mut room = [0; TWO_PAGES];
    let page = aligned_page(&mut room);
    let offset = offset / PAGE * PAGE;
    loop {
        match fd.pread(offset, page) {
            Ok(_) => break,
            Err(libc::EINTR) => continue,
            Err(errno) => return Err(StorageError::Io { errno, offset }),
        }
    }
    is_cached(fd, offset)
}

/// Whether the page with the byte at `offset` is in the cache.
pub(super) fn is_cached(fd: &Fd, offset: u64) -> Result<bool, StorageError> {
    let system = page_bytes() as u64;
    let start = offset / system * system;
    Ok(count_range(fd, start, system.min(fd.len()?.saturating_sub(start)))?.pages > 0)
}

/// Counts the cached pages of the first `bytes` bytes of an open file.
pub(super) fn count(fd: &Fd, bytes: u64) -> Result<Cached, StorageError> {
    count_range(fd, 0, bytes)
}

/// Counts the cached pages of `bytes` bytes from `start` on, a multiple of the system's page.
fn count_range(fd: &Fd, start: u64, bytes: u64) -> Result<Cached, StorageError> {
    match by_map(fd, start, bytes) {
        // Strangers, too, get the answer that every page is there.
        Ok(found) if found.pages < found.of_pages || found.of_pages == 0 || may_see_pages(fd)? => {
            Ok(found)
        }
        _ if is_overlay(fd)? => Err(StorageError::CacheUnknown),
        _ => by_cachestat(fd, start, bytes).ok_or(StorageError::CacheUnknown),
    }
}

/// Counts by `mincore`.
fn by_map(fd: &Fd, start: u64, bytes: u64) -> Result<Cached, StorageError> {
    // Mapping a file does not fetch it.
    let map = Map::new(fd, start, bytes, 0)?;
    let page = page_bytes();
    let (mut found, mut done) = (None, 0);
    let (mut pages, mut flags) = (0, [0u8; 1024]);
    while done < map.len() {
        let bytes = (map.len() - done).min(flags.len() * page);
        // SAFETY: the range is inside the map and starts on a page; the vector has a byte for each
        // of its pages.
        let status =
            unsafe { libc::mincore(map.start().byte_add(done), bytes, flags.as_mut_ptr()) };
        if status != 0 {
            return Err(StorageError::Open { errno: errno() });
        }
        let flags = &flags[..bytes.div_ceil(page)];
        let is_there = |flag: &u8| flag & 1 != 0;
        let first = || flags.iter().position(is_there).map(|at| done / page + at);
        found = found.or_else(first);
        pages += flags.iter().filter(|flag| is_there(flag)).count() as u64;
        done += bytes;
    }
    let first = start / page as u64 + found.unwrap_or(0) as u64;
    Ok(Cached { pages, of_pages: map.len().div_ceil(page) as u64, first })
}

/// Whether `mincore` answers truthfully: it does for those who own the file, or may write it.
fn may_see_pages(fd: &Fd) -> Result<bool, StorageError> {
    // SAFETY: a question without pointers.
    if fd.stat()?.st_uid == unsafe { libc::geteuid() } {
        return Ok(true);
    }
    let flags = libc::AT_EMPTY_PATH | libc::AT_EACCESS;
    // SAFETY: an empty, terminated path with AT_EMPTY_PATH asks about the descriptor.
    let may =
        unsafe { libc::syscall(libc::SYS_faccessat2, fd.raw(), c"".as_ptr(), libc::W_OK, flags) };
    Ok(may == 0)
}

/// Whether the file is one of an overlay.
pub(super) fn is_overlay(fd: &Fd) -> Result<bool, StorageError> {
    const OVERLAY: u32 = 0x794c_7630;
    Ok(fd.file_system()? == OVERLAY)
}

/// Counts by `cachestat`, if the kernel has it.
fn by_cachestat(fd: &Fd, start: u64, bytes: u64) -> Option<Cached> {
    /// The number on all architectures but alpha, as of all system calls since 424.
    const CACHESTAT: libc::c_long = 451;
    let range = [start, bytes];
    // Pages in the cache, dirty, being written back, evicted, recently evicted.
    let mut answer = [0u64; 5];
    // SAFETY: the call reads two numbers and fills five.
    let status =
        unsafe { libc::syscall(CACHESTAT, fd.raw(), range.as_ptr(), answer.as_mut_ptr(), 0) };
    let page = page_bytes() as u64;
    let (of_pages, first) = (bytes.div_ceil(page), start / page);
    (status == 0).then_some(Cached { pages: answer[0].min(of_pages), of_pages, first })
}

/// Writes an open file back and has the cache forget it.
pub(super) fn forget(fd: &Fd) -> Result<(), StorageError> {
    // SAFETY: calls without pointers on an open descriptor.
    let status = unsafe {
        match libc::fdatasync(fd.raw()) {
            0 => libc::posix_fadvise(fd.raw(), 0, 0, libc::POSIX_FADV_DONTNEED),
            _ => errno(),
        }
    };
    match status {
        0 => Ok(()),
        errno => Err(StorageError::Open { errno }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch_file::{ScratchFile, contents};
    use super::super::{BufferedFile, DirectFile, Storage};
    use super::*;

    #[test]
    fn what_is_read_is_cached_until_dropped() {
        let scratch = ScratchFile::new(&contents(2000 * 4096 - 7));
        let cache = PageCache::open(scratch.path()).unwrap();
        cache.forget().unwrap();
        let found = cache.count(u64::MAX).unwrap();
        assert!(found.of_pages > 0 && found.of_pages <= 2000);
        // A file system in memory never drops anything.
        if found.pages == 0 {
            let mut file = BufferedFile::open(scratch.path()).unwrap();
            file.read(0, &mut [0; 4096]).unwrap();
            assert!(cache.count(u64::MAX).unwrap().pages > 0);
            // A file without a name has them, too.
            drop(scratch);
            assert!(cache.count(4096).unwrap().pages == 1);
            cache.forget().unwrap();
            assert_eq!(cache.count(u64::MAX).unwrap().pages, 0);
        }
        let missing = StorageError::Open { errno: libc::ENOENT };
        assert_eq!(PageCache::open(c"/does/not/exist").unwrap_err(), missing);
    }

    #[test]
    fn what_others_leave_is_dropped_and_what_reads_leave_is_an_error() {
        let scratch = ScratchFile::new(&contents(64 * 4096));
        let Ok(direct) = DirectFile::open(scratch.path()) else {
            std::eprintln!("skipped: the test program lies where there is no direct I/O");
            return;
        };
        let direct = direct.page_cache().unwrap();
        direct.forget().unwrap();
        assert_eq!(direct.keep_out(u64::MAX).unwrap().pages, 0);
        let mut file = BufferedFile::open(scratch.path()).unwrap();
        file.read(17 * 4096, &mut [0; 1]).unwrap();
        assert!(direct.keep_out(u64::MAX).unwrap().pages > 0);
        assert_eq!(direct.count(u64::MAX).unwrap().pages, 0);
        // These bring back what was forgotten.
        file.read(17 * 4096, &mut [0; 1]).unwrap();
        let error = file.page_cache().unwrap().keep_out(u64::MAX).unwrap_err();
        assert!(matches!(error, StorageError::StaysCached { pages: 1.., .. }), "{error:?}");
        // Bytes after the pack do not belong to it.
        direct.forget().unwrap();
        file.read(60 * 4096, &mut [0; 1]).unwrap();
        assert_eq!(direct.count(8 * 4096).unwrap().pages, 0);
    }

    #[test]
    fn both_ways_of_asking_agree() {
        let scratch = ScratchFile::new(&contents(100 * 4096));
        let fd = Fd::open(scratch.path(), 0).unwrap();
        for bytes in [0, 1, 4096, 65 * 4096 + 1, 100 * 4096] {
            let by_map = by_map(&fd, 0, bytes).unwrap();
            // Older kernels lack the one, and overlays answer it with nothing.
            if let Some(by_call) = by_cachestat(&fd, 0, bytes).filter(|_| bytes > 0)
                && !is_overlay(&fd).unwrap()
            {
                assert_eq!((by_call.pages, by_call.of_pages), (by_map.pages, by_map.of_pages));
            }
        }
    }
}
