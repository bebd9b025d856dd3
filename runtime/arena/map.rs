//! An arena mapped at run time, for the host command, where the budget is an option.
//!
//! The memory is anonymous and private: zeros, resident from the first touch. It starts on a huge page and
//! asks for huge ones (Linux' transparent huge pages), which only ever lie inside of it: whatever is
//! touched, no more than the arena becomes resident. Weights are read once an inference from end to end,
//! and with small pages a good part of that time goes into address translation.
#![allow(unsafe_code)]

use super::{ArenaError, ArenaMemory};
use crate::storage::fd::errno;
use core::ptr::{NonNull, null_mut};

/// Bytes of a huge page, as on x86-64 and on ARM with small pages of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

/// Bytes of the largest small page that there is: nothing within one of the arena's end is given back.
const SMALL_PAGE: usize = 64 * 1024;

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
        let failed = |errno| ArenaError::Map { errno, bytes };
        if bytes == 0 {
            return Err(failed(libc::EINVAL));
        }
        // More address space than is kept, so that there is a huge page's border in it; it costs nothing.
        let spare = if bytes < HUGE_PAGE { 0 } else { HUGE_PAGE };
        let mapped = bytes.checked_add(spare).ok_or(failed(libc::ENOMEM))?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the system's choice touches no existing memory.
        let base = unsafe { libc::mmap(null_mut(), mapped, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(failed(errno()));
        }
        let base = base.cast::<u8>();
        let before = if spare == 0 { 0 } else { base.align_offset(HUGE_PAGE) };
        // SAFETY: `before` is less than `spare`, so that `bytes` from there on are inside the mapping; what
        // is given back and what is advised about are parts of it, which nobody else knows. A kernel
        // without huge pages refuses the advice, one that cannot split the mapping keeps it whole: both
        // change nothing that matters.
        let start = unsafe {
            let start = base.add(before);
            if before > 0 {
                libc::munmap(base.cast(), before);
            }
            let end = bytes.next_multiple_of(SMALL_PAGE);
            if before + end < mapped {
                libc::munmap(start.add(end).cast(), mapped - before - end);
            }
            libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE);
            start
        };
        NonNull::new(start).map(|start| Self { start, len: bytes }).ok_or(failed(libc::ENOMEM))
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
        for bytes in [1, 4096, 5000, 3 << 20, HUGE_PAGE, 5 * HUGE_PAGE + 1] {
            let mut arena = MappedArena::new(bytes).unwrap();
            let mut memory = arena.memory();
            assert_eq!(memory.len(), bytes);
            let page = if bytes < HUGE_PAGE { 4096 } else { HUGE_PAGE };
            assert_eq!(memory.as_slice().as_ptr().addr() % page, 0);
            assert!(memory.as_slice().iter().all(|byte| *byte == 0));
            memory.as_mut_slice().fill(3);
            drop(memory);
            assert_eq!(arena.memory().as_slice()[bytes - 1], 3);
            assert_eq!((arena.len(), arena.is_empty()), (bytes, false));
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
    fn only_pages_of_the_arena_are_resident() {
        let mut arena = MappedArena::new(8 << 20).unwrap();
        assert_eq!(resident(&arena), 0);
        for page in [0, 700, 1999] {
            arena.memory().as_mut_slice()[page * 4096 + 17] = 1;
        }
        assert!((3..=2048).contains(&resident(&arena)));
    }
}
