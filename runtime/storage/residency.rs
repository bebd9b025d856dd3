//! What the page cache holds of a file: how tests and reports show that direct reads leave nothing.
#![allow(unsafe_code)]

use super::StorageError;
use super::fd::{Fd, Map, errno};
use core::ffi::CStr;

/// Bytes of a page of the system, a power of two.
pub fn page_bytes() -> usize {
    // SAFETY: a question without pointers.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) });
    page.ok().filter(|page| page.is_power_of_two()).unwrap_or(4096)
}

/// Pages of the file that are in the page cache, and pages that it has, in pages of the system.
///
/// The kernel answers truthfully only to whoever owns the file or may write it; to others every page
/// looks cached.
pub fn cached_pages(path: &CStr) -> Result<(u64, u64), StorageError> {
    let fd = Fd::open(path, 0).map_err(|errno| StorageError::Open { errno })?;
    count_cached(&fd, fd.len()?)
}

/// The same for the first `bytes` of an open file.
pub(super) fn count_cached(fd: &Fd, bytes: u64) -> Result<(u64, u64), StorageError> {
    // Mapping a file does not fetch it.
    let map = Map::new(fd, bytes, 0)?;
    let page = page_bytes();
    let (mut cached, mut done) = (0, 0);
    let mut flags = [0u8; 1024];
    while done < map.len() {
        let bytes = (map.len() - done).min(flags.len() * page);
        // SAFETY: the range is inside the map and starts on a page; the vector has a byte for each of
        // its pages.
        let status =
            unsafe { libc::mincore(map.start().byte_add(done), bytes, flags.as_mut_ptr()) };
        if status != 0 {
            return Err(StorageError::Open { errno: errno() });
        }
        cached += flags[..bytes.div_ceil(page)].iter().map(|flag| (flag & 1) as u64).sum::<u64>();
        done += bytes;
    }
    Ok((cached, map.len().div_ceil(page) as u64))
}

/// Writes the file back and asks the page cache to forget it. Pages that are mapped stay.
pub fn drop_cache(path: &CStr) -> Result<(), StorageError> {
    let fd = Fd::open(path, 0).map_err(|errno| StorageError::Open { errno })?;
    forget(&fd)
}

/// The same for an open file.
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
    use super::super::{BufferedFile, Storage};
    use super::*;

    #[test]
    fn what_is_read_is_cached_until_dropped() {
        let scratch = ScratchFile::new(&contents(2000 * 4096 - 7));
        drop_cache(scratch.path()).unwrap();
        let (cached, pages) = cached_pages(scratch.path()).unwrap();
        assert!(pages > 0 && pages <= 2000);
        // A file system in memory never drops anything.
        if cached == 0 {
            let mut file = BufferedFile::open(scratch.path()).unwrap();
            file.read(0, &mut [0; 4096]).unwrap();
            assert!(cached_pages(scratch.path()).unwrap().0 > 0);
            drop_cache(scratch.path()).unwrap();
            assert_eq!(cached_pages(scratch.path()).unwrap().0, 0);
        }
        let missing = StorageError::Open { errno: libc::ENOENT };
        assert_eq!(cached_pages(c"/does/not/exist"), Err(missing));
        assert_eq!(drop_cache(c"/does/not/exist"), Err(missing));
    }
}
