//! An arena mapped at run time, for the host command, where the budget is an option.
//!
//! The memory is anonymous and private: zeros, resident from the first touch, a page at a time.
//! Transparent huge pages are off, or the kernel might make two megabytes resident for one touched byte,
//! and a plan that fits its budget would be measured not to.
#![allow(unsafe_code)]

use super::{ArenaError, ArenaMemory};
use crate::storage::fd::errno;
use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};

/// Pages that a mapped arena is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// The system's own; what is resident is what was touched.
    #[default]
    Small,
    /// Huge ones where the system has them: fewer address translations, but untouched bytes around
    /// touched ones become resident.
    Huge,
}

/// Memory of a size that is chosen at run time.
#[derive(Debug)]
pub struct MappedArena {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and is only reached through `memory`, which
// borrows exclusively.
unsafe impl Send for MappedArena {}
// SAFETY: likewise; a shared reference gives nothing but the length.
unsafe impl Sync for MappedArena {}

impl MappedArena {
    /// Maps that many bytes of zeros.
    pub fn new(bytes: usize) -> Result<Self, ArenaError> {
        Self::with_pages(bytes, Pages::Small)
    }

    /// Maps that many bytes of zeros, made of small or huge pages.
    pub fn with_pages(bytes: usize, pages: Pages) -> Result<Self, ArenaError> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the system's choice touches no existing memory.
        let start = unsafe { libc::mmap(null_mut(), bytes, protection, flags, -1, 0) };
        let arena = match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast::<c_void>() != libc::MAP_FAILED => {
                Self { start, len: bytes }
            }
            _ => return Err(ArenaError::Map { errno: errno(), bytes }),
        };
        let advice = match pages {
            Pages::Small => libc::MADV_NOHUGEPAGE,
            Pages::Huge => libc::MADV_HUGEPAGE,
        };
        // SAFETY: advice about the mapping just made. A kernel without huge pages refuses it, which
        // changes nothing.
        unsafe { libc::madvise(start, bytes, advice) };
        Ok(arena)
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes; it always has some.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The memory, exclusively, with whatever was left there.
    pub fn memory(&mut self) -> ArenaMemory<'_> {
        // SAFETY: the mapping is this value's own, borrowed exclusively, initialised to zeros by the
        // system, and starts on a page.
        unsafe { ArenaMemory::from_raw(self.start, self.len, None) }
    }
}

impl Drop for MappedArena {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that was made; nothing borrows it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_zeros_on_a_page() {
        for pages in [Pages::Small, Pages::Huge] {
            for bytes in [1, 4096, 5000, 3 << 20] {
                let mut arena = MappedArena::with_pages(bytes, pages).unwrap();
                let mut memory = arena.memory();
                assert_eq!(memory.len(), bytes);
                assert_eq!(memory.as_slice().as_ptr().addr() % 4096, 0);
                assert!(memory.as_slice().iter().all(|byte| *byte == 0));
                memory.as_mut_slice().fill(3);
                drop(memory);
                assert_eq!(arena.memory().as_slice()[bytes - 1], 3);
                assert_eq!((arena.len(), arena.is_empty()), (bytes, false));
            }
        }
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let bytes = usize::MAX - 8192;
        let error = MappedArena::new(bytes).unwrap_err();
        assert_eq!(error, ArenaError::Map { errno: libc::ENOMEM, bytes });
        let error = MappedArena::new(0).unwrap_err();
        assert_eq!(error, ArenaError::Map { errno: libc::EINVAL, bytes: 0 });
    }

    /// Pages of an arena that are resident.
    fn resident(arena: &MappedArena) -> usize {
        let mut flags = std::vec![0u8; arena.len.div_ceil(4096)];
        // SAFETY: the vector has a byte for each page of the mapping, pages being at least this large.
        let status =
            unsafe { libc::mincore(arena.start.as_ptr().cast(), arena.len, flags.as_mut_ptr()) };
        assert_eq!(status, 0);
        flags.iter().filter(|flag| **flag & 1 != 0).count()
    }

    #[test]
    fn only_what_is_touched_is_resident() {
        let mut arena = MappedArena::new(8 << 20).unwrap();
        for page in [0, 700, 1999] {
            arena.memory().as_mut_slice()[page * 4096 + 17] = 1;
        }
        assert_eq!(resident(&arena), 3);
    }
}
