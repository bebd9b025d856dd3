//! An arena mapped at run time, for the host command, where the budget is an option.
//!
//! The memory is anonymous and private: zeros, resident from the first touch but for the last
//! bytes. It starts on a huge page and asks for huge ones (Linux' transparent huge pages), which
//! only ever lie inside of it: whatever is touched, no more than the arena becomes resident.
//! Weights are read once an inference from end to end, and with small pages a good part of that
//! time goes into address translation.
//!
//! The last bytes, which fill no huge page, are cut from one. Small pages that the system picks one
//! by one lie anywhere, and a read into them is a list of pieces, one each, for the device to
//! serve: on a virtual machine that takes two to three times as long as one piece. Of an arena
//! smaller than a huge page that would be all reads. These bytes are resident at once.
//!
//! [`Pages::give_back`] returns memory to the system that a plan does not use. [`Pages::take`] takes
//! it again in the background.
#![allow(unsafe_code)]

use super::{ArenaError, ArenaMemory, Pages};
use crate::sys::{errno, page_bytes};
use core::ptr::{NonNull, null_mut};

/// Bytes of a huge page, as on x86-64 and on ARM with small pages of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

/// Bytes of the least arena that is cut from a huge page, which as a whole is resident for that
/// moment: about what the program itself has yet to touch by then.
const LEAST_CUT: usize = 1 << 20;

/// How the memory of an arena is had from the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapOptions {
    /// All pages are resident before the arena is used. Otherwise the system provides a page when it
    /// is touched first, which the first inference, or a larger budget, waits for.
    pub resident: bool,
    /// The pages are locked: resident at once, and never swapped out. Such an arena gives nothing
    /// back to the system: [`Pages::give_back`] is an error.
    pub locked: bool,
}

/// Memory of a size that is chosen at run time.
#[derive(Debug)]
pub struct MappedArena {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and is only reached through `memory`,
// which borrows exclusively.
unsafe impl Send for MappedArena {}
// SAFETY: likewise; a shared reference gives nothing but the length.
unsafe impl Sync for MappedArena {}

impl MappedArena {
    /// Maps `bytes` bytes of zeros, which become resident as they are touched.
    pub fn new(bytes: usize) -> Result<Self, ArenaError> {
        Self::with(bytes, MapOptions::default())
    }

    /// Maps `bytes` bytes of zeros.
    pub fn with(bytes: usize, options: MapOptions) -> Result<Self, ArenaError> {
        let mut arena = Self::map(bytes)?;
        if options.resident {
            arena.touch();
        }
        if options.locked {
            arena.lock()?;
        }
        Ok(arena)
    }

    /// Has the system provide all pages.
    fn touch(&mut self) {
        for at in (0..self.len).step_by(page_bytes()) {
            // SAFETY: inside of the mapping, which is borrowed exclusively and holds zeros.
            // Volatile: the system looks at it.
            unsafe { self.start.add(at).write_volatile(0) };
        }
    }

    /// Locks all pages in memory, until they are unmapped.
    fn lock(&mut self) -> Result<(), ArenaError> {
        // SAFETY: exactly the mapping. Its contents stay.
        if unsafe { libc::mlock(self.start.as_ptr().cast(), self.len) } == 0 {
            return Ok(());
        }
        let errno = errno();
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a record to be filled.
        unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
        #[allow(clippy::unnecessary_cast, reason = "32-bit systems have another type")]
        Err(ArenaError::Lock { errno, bytes: self.len, limit: limit.rlim_cur as u64 })
    }

    fn map(bytes: usize) -> Result<Self, ArenaError> {
        let failed = |errno| ArenaError::Map { errno, bytes };
        if bytes == 0 {
            return Err(failed(libc::EINVAL));
        }
        let page = page_bytes();
        let huge = bytes >= LEAST_CUT;
        let unit = if huge { HUGE_PAGE } else { page };
        // More address space than is kept, so that there is a huge page's border in it; it costs
        // nothing.
        let spare = if huge { HUGE_PAGE } else { 0 };
        let mapped =
            bytes.checked_next_multiple_of(unit).and_then(|whole| whole.checked_add(spare));
        let mapped = mapped.ok_or(failed(libc::ENOMEM))?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the system's choice touches no existing memory.
        let base = unsafe { libc::mmap(null_mut(), mapped, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(failed(errno()));
        }
        let base = base.cast::<u8>();
        let before = if huge { base.align_offset(HUGE_PAGE) } else { 0 };
        // SAFETY:
        // - `before` is less than `spare`, so `bytes` bytes from there on, up to the next border,
        //   are inside the mapping.
        // - The parts that are given back or advised about are parts of it, which nobody else
        //   knows.
        // - A kernel without huge pages refuses the advice, and one that cannot split the mapping
        //   keeps it whole: both are harmless.
        let start = unsafe {
            let start = base.add(before);
            if before > 0 {
                libc::munmap(base.cast(), before);
            }
            if huge {
                let whole = bytes - bytes % HUGE_PAGE;
                libc::madvise(start.cast(), mapped - before, libc::MADV_HUGEPAGE);
                cut(start.add(whole), (bytes - whole).next_multiple_of(page));
            }
            let end = bytes.next_multiple_of(page);
            if before + end < mapped {
                libc::munmap(start.add(end).cast(), mapped - before - end);
            }
            start
        };
        NonNull::new(start).map(|start| Self { start, len: bytes }).ok_or(failed(libc::ENOMEM))
    }

    /// The mapping, which nobody unmaps any more, as an address and its length in bytes.
    pub(crate) fn into_raw(self) -> (NonNull<u8>, usize) {
        let this = core::mem::ManuallyDrop::new(self);
        (this.start, this.len)
    }

    /// The mapping again.
    ///
    /// # Safety
    /// Both are from [`into_raw`](Self::into_raw), given back once, and nothing borrows the memory.
    pub(crate) unsafe fn from_raw(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes; it always has some.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The memory, exclusively, with what the last user left there.
    pub fn memory(&mut self) -> ArenaMemory<'_> {
        // SAFETY: the mapping is this value's own, borrowed exclusively, initialised to zeros by
        // the system, and starts on a page.
        unsafe { ArenaMemory::from_raw(self.start, self.len, None) }
    }

    /// The memory, and its pages, which give parts of it back to the system while these are not
    /// used.
    pub fn memory_and_pages(&mut self) -> (ArenaMemory<'_>, Pages<'_>) {
        let (start, len) = (self.start.addr().get(), self.len);
        // SAFETY: exactly the mapping, which is borrowed as long.
        let pages = unsafe { Pages::from_raw(start, len) };
        (self.memory(), pages)
    }
}

/// Divides a huge page into small ones, of which the first `kept` bytes keep what they have of it.
///
/// # Safety
/// `start` is on a huge page's border, with all of that page's zeros mapped, and nobody else knows
/// of it.
unsafe fn cut(start: *mut u8, kept: usize) {
    if kept == 0 {
        return;
    }
    let fill = |value: u8| {
        for at in (0..kept).step_by(4096) {
            // SAFETY: inside of the page, by the caller's promise. Volatile: the system looks at it
            // in between.
            unsafe { start.add(at).write_volatile(value) };
        }
    };
    // The system drops zero pages when it divides the huge page.
    fill(1);
    if kept < HUGE_PAGE {
        // SAFETY: the rest of the page holds nothing. Who discards a part of a huge page has it
        // divided; a system that does that differently has no reason to keep the parts together,
        // and refuses nothing that matters.
        unsafe { libc::madvise(start.add(kept).cast(), HUGE_PAGE - kept, libc::MADV_FREE) };
    }
    fill(0);
}

impl Drop for MappedArena {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that was made; nothing borrows it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::pages::has_small_pages;
    use super::*;

    #[test]
    fn maps_zeros_on_a_page() {
        for bytes in
            [1, 4096, 5000, LEAST_CUT, 3 << 20, HUGE_PAGE - 1, HUGE_PAGE, 5 * HUGE_PAGE + 1]
        {
            let mut arena = MappedArena::new(bytes).unwrap();
            let mut memory = arena.memory();
            assert_eq!(memory.len(), bytes);
            let page = if bytes < LEAST_CUT { 4096 } else { HUGE_PAGE };
            assert_eq!(memory.as_slice().as_ptr().addr() % page, 0);
            assert!(memory.as_slice().iter().all(|byte| *byte == 0));
            memory.as_mut_slice().fill(3);
            drop(memory);
            assert_eq!(arena.memory().as_slice()[bytes - 1], 3);
            assert_eq!((arena.len(), arena.is_empty()), (bytes, false));
        }
    }

    #[test]
    fn pages_are_resident_before_they_are_used() {
        if !has_small_pages() {
            return;
        }
        for bytes in [5000, 3 << 20] {
            let options = MapOptions { resident: true, locked: false };
            let mut arena = MappedArena::with(bytes, options).unwrap();
            assert_eq!(resident(&mut arena), bytes.div_ceil(4096));
        }
    }

    #[test]
    fn locked_pages_stay() {
        let locked = MapOptions { resident: false, locked: true };
        // Every system lets a process lock a few pages; emulators may not.
        let mut arena = match MappedArena::with(8192, locked) {
            Err(ArenaError::Lock { bytes: 8192, .. }) => return,
            arena => arena.unwrap(),
        };
        assert_eq!(resident(&mut arena), 2);
        let (mut memory, pages) = arena.memory_and_pages();
        assert!(pages.give_back(memory.as_mut_slice()).is_err());
        drop(memory);
        assert_eq!(resident(&mut arena), 2);
        let error = ArenaError::Lock { errno: libc::ENOMEM, bytes: 1 << 20, limit: 65536 };
        let text = std::string::ToString::to_string(&error);
        assert!(["1048576", "65536", "ulimit -l"].iter().all(|part| text.contains(part)), "{text}");
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
    fn resident(arena: &mut MappedArena) -> usize {
        let (_memory, pages) = arena.memory_and_pages();
        pages.resident(0..pages.bytes())
    }

    /// Pieces that the arena is in, in physical memory; none where the system does not know.
    fn pieces(arena: &mut MappedArena) -> Option<usize> {
        use std::os::unix::fs::FileExt;
        arena.memory().as_mut_slice().fill(1);
        let map = std::fs::File::open("/proc/self/pagemap").ok()?;
        let mut entries = std::vec![0; arena.len.div_ceil(4096) * 8];
        map.read_exact_at(&mut entries, (arena.start.addr().get() / 4096 * 8) as u64).ok()?;
        let frame = |entry: &[u8; 8]| u64::from_le_bytes(*entry) & ((1 << 55) - 1);
        let frames: std::vec::Vec<u64> = entries.as_chunks().0.iter().map(frame).collect();
        let known = frames.iter().all(|frame| *frame != 0);
        known.then(|| 1 + frames.windows(2).filter(|pair| pair[0] + 1 != pair[1]).count())
    }

    #[test]
    fn what_fills_no_huge_page_is_in_one_piece() {
        let mut whole = MappedArena::new(HUGE_PAGE).unwrap();
        if page_bytes() != 4096 || pieces(&mut whole) != Some(1) {
            std::eprintln!("skipped: no huge pages, or nobody tells where they are");
            return;
        }
        for bytes in [LEAST_CUT, 1_434 << 10, HUGE_PAGE - 4096] {
            let mut arena = MappedArena::new(bytes).unwrap();
            assert_eq!(pieces(&mut arena), Some(1), "{bytes}");
        }
        let mut arena = MappedArena::new(HUGE_PAGE + 5000).unwrap();
        assert!(pieces(&mut arena).is_some_and(|pieces| pieces <= 2));
    }

    #[test]
    fn only_pages_of_the_arena_are_resident() {
        let mut arena = MappedArena::new(8 << 20).unwrap();
        assert_eq!(resident(&mut arena), 0);
        for page in [0, 700, 1999] {
            arena.memory().as_mut_slice()[page * 4096 + 17] = 1;
        }
        assert!((3..=2048).contains(&resident(&mut arena)));
    }
}
