//! Files read through the page cache.
//!
//! For file systems without direct I/O, and for comparison. The kernel keeps a copy of what is
//! read, in memory that no budget counts, and fetches ahead of sequential reads.

use super::fd::Fd;
use super::residency::PageCache;
use super::{Storage, StorageError, read_exact};
use core::ffi::CStr;

/// A file read with `pread`.
#[derive(Debug)]
pub struct BufferedFile {
    fd: Fd,
}

impl BufferedFile {
    /// Opens a file.
    pub fn open(path: &CStr) -> Result<Self, StorageError> {
        Ok(Self { fd: Fd::open(path, 0)? })
    }

    /// The page cache's share of the file.
    pub fn page_cache(&self) -> Result<PageCache, StorageError> {
        PageCache::of(&self.fd)
    }
}

impl Storage for BufferedFile {
    fn len(&self) -> Result<u64, StorageError> {
        self.fd.len()
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        read_exact(offset, into, self.alignment(), |at, into| self.fd.pread(at, into))
    }

    fn alignment(&self) -> u64 {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::super::NoFile;
    use super::super::scratch_file::{ScratchFile, contents};
    use super::*;

    #[test]
    fn reads_any_range() {
        let bytes = contents(10_000);
        let scratch = ScratchFile::new(&bytes);
        let mut file = BufferedFile::open(scratch.path()).unwrap();
        assert_eq!(file.len(), Ok(10_000));
        let mut into = [0; 777];
        for offset in [0, 1, 4095, 4096, 9223] {
            file.read(offset, &mut into).unwrap();
            assert_eq!(into, bytes[offset as usize..][..777]);
        }
        let short = StorageError::Short { offset: 9224, wanted: 777, got: 776 };
        assert_eq!(file.read(9224, &mut into), Err(short));
        scratch.truncate(100);
        let short = StorageError::Short { offset: 0, wanted: 777, got: 100 };
        assert_eq!(file.read(0, &mut into), Err(short));
        assert_eq!(file.len(), Ok(100));
        let cached = file.page_cache().unwrap().count(u64::MAX).unwrap();
        assert_eq!((cached.pages, cached.of_pages), (1, 1));
    }

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let refused = |path: &CStr| BufferedFile::open(path).unwrap_err();
        assert_eq!(refused(c"/does/not/exist"), StorageError::Open { errno: libc::ENOENT });
        assert_eq!(refused(c"/"), StorageError::NoFile(NoFile::Directory));
        assert_eq!(refused(c"/dev/null"), StorageError::NoFile(NoFile::CharacterDevice));
    }

    #[test]
    fn offsets_beyond_the_systems_are_errors() {
        let scratch = ScratchFile::new(b"short");
        let mut file = BufferedFile::open(scratch.path()).unwrap();
        let offset = 1 << 63;
        let error = StorageError::Io { errno: libc::EOVERFLOW, offset };
        assert_eq!(file.read(offset, &mut [0; 8]), Err(error));
    }
}
