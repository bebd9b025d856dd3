//! Files mapped into memory.
//!
//! For packs that are meant to stay in the page cache: a load is then a copy at the speed of
//! memory. The cache counts against nobody's budget, so this is for comparison and for machines
//! with memory to spare, where the arena is still what bounds the library itself.
//!
//! A mapped file that shrinks, or whose device fails, raises SIGBUS when it is touched. The length
//! is therefore checked before every read, which leaves a race with a file cut *during* a read:
//! packs that may be replaced while in use must be replaced by renaming, never in place. The other
//! back ends have neither problem.

use super::fd::{Fd, Map};
use super::residency::PageCache;
use super::{Storage, StorageError, read_exact};
use crate::pack::{Header, MAGIC};
use core::ffi::CStr;

/// When a mapped file's pages are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Populate {
    /// When first read.
    OnDemand,
    /// All of them, before `open` returns.
    AtOpen,
}

/// A file mapped as a whole.
#[derive(Debug)]
pub struct MappedFile {
    fd: Fd,
    map: Map,
}

impl MappedFile {
    /// Opens and maps a file.
    pub fn open(path: &CStr, populate: Populate) -> Result<Self, StorageError> {
        let fd = Fd::open(path, 0)?;
        let flags = match populate {
            Populate::OnDemand => 0,
            Populate::AtOpen => libc::MAP_POPULATE,
        };
        let map = Map::new(&fd, 0, pack_bytes(&fd)?, flags)?;
        Ok(Self { fd, map })
    }

    /// The page cache's share of the file.
    pub fn page_cache(&self) -> Result<PageCache, StorageError> {
        PageCache::of(&self.fd)
    }
}

/// Bytes of a file, or of the pack that begins it: a partition may be much longer.
fn pack_bytes(fd: &Fd) -> Result<u64, StorageError> {
    let len = fd.len()?;
    let mut start = [0; size_of::<Header>()];
    match read_exact(0, &mut start, 1, |at, into| fd.pread(at, into)) {
        Ok(()) => {
            let header: Header = bytemuck::pod_read_unaligned(&start);
            Ok(if header.magic == MAGIC { header.file_bytes.min(len) } else { len })
        }
        // Too short for a pack.
        Err(StorageError::Short { .. }) => Ok(len),
        Err(error) => Err(error),
    }
}

impl Storage for MappedFile {
    fn len(&self) -> Result<u64, StorageError> {
        Ok(self.map.len() as u64)
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        let wanted = into.len() as u64;
        let there = self.fd.len()?.min(self.map.len() as u64);
        let end = offset.saturating_add(wanted);
        if end > there || !self.map.copy(offset, into) {
            let got = there.saturating_sub(offset).min(wanted);
            return Err(StorageError::Short { offset, wanted, got });
        }
        Ok(())
    }

    fn alignment(&self) -> u64 {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch_file::{ScratchFile, contents};
    use super::*;

    #[test]
    fn reads_any_range() {
        let bytes = contents(10_000);
        let scratch = ScratchFile::new(&bytes);
        for populate in [Populate::OnDemand, Populate::AtOpen] {
            let mut file = MappedFile::open(scratch.path(), populate).unwrap();
            assert_eq!(file.len(), Ok(10_000));
            let mut into = [0; 777];
            for offset in [0, 1, 4095, 4096, 9223] {
                file.read(offset, &mut into).unwrap();
                assert_eq!(into, bytes[offset as usize..][..777]);
            }
            for (offset, got) in [(9224, 776), (10_000, 0), (u64::MAX, 0)] {
                let short = StorageError::Short { offset, wanted: 777, got };
                assert_eq!(file.read(offset, &mut into), Err(short));
            }
        }
    }

    #[test]
    fn a_file_that_has_shrunk_is_an_error_and_not_a_signal() {
        let scratch = ScratchFile::new(&contents(20_000));
        let mut file = MappedFile::open(scratch.path(), Populate::OnDemand).unwrap();
        scratch.truncate(100);
        let short = StorageError::Short { offset: 8192, wanted: 64, got: 0 };
        assert_eq!(file.read(8192, &mut [0; 64]), Err(short));
    }

    #[test]
    fn an_empty_file_has_nothing() {
        let scratch = ScratchFile::new(&[]);
        let mut file = MappedFile::open(scratch.path(), Populate::AtOpen).unwrap();
        assert_eq!(file.is_empty(), Ok(true));
        assert_eq!(file.read(0, &mut []), Ok(()));
        let short = StorageError::Short { offset: 0, wanted: 1, got: 0 };
        assert_eq!(file.read(0, &mut [0]), Err(short));
    }
}
