//! Pages of a mapped arena: given back to the system while a plan leaves them unused, and taken
//! again, in the background if need be.
#![allow(unsafe_code)]

use super::ArenaError;
use crate::sys::{errno, page_bytes};
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::without_provenance_mut;

/// Provides pages as a write to each would, but writes nothing.
const MADV_POPULATE_WRITE: i32 = 23;

/// No kernel has it. Emulators may accept any advice, and do nothing.
const UNKNOWN_ADVICE: i32 = i32::MAX;

/// The pages of a mapped arena, for as long as its memory is borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Pages<'a> {
    start: usize,
    len: usize,
    lifetime: PhantomData<&'a [u8]>,
}

impl Pages<'_> {
    /// The pages of `len` bytes from address `start` on.
    ///
    /// # Safety
    /// They are a private, anonymous mapping that starts on a page and holds initialised bytes. It
    /// stays for the lifetime.
    pub(super) unsafe fn from_raw(start: usize, len: usize) -> Self {
        Self { start, len, lifetime: PhantomData }
    }

    /// Bytes of the arena.
    pub fn bytes(&self) -> u64 {
        self.len as u64
    }

    /// Gives the whole pages of a part of the arena back to the system, and returns their bytes.
    /// Afterwards they are zeros, and not resident until they are touched again. The last page goes
    /// as a whole if the part reaches to the arena's end.
    ///
    /// If the part starts inside a huge page, the system divides that page. It may join the halves
    /// again when both are in use.
    pub fn give_back(&self, part: &mut [u8]) -> Result<u64, ArenaError> {
        let (address, bytes) = (part.as_ptr().addr(), part.len());
        let inside = address.checked_sub(self.start).filter(|at| at + bytes <= self.len);
        let Some(at) = inside else {
            return Err(ArenaError::Map { errno: libc::EINVAL, bytes });
        };
        let (before, whole) = whole_pages(address, bytes, at + bytes == self.len, page_bytes());
        if whole == 0 {
            return Ok(0);
        }
        let first = part.as_mut_ptr().wrapping_add(before);
        // SAFETY: whole pages of an anonymous, private mapping (`lifetime` keeps it), which hold
        // bytes of `part` and nothing else. That is borrowed exclusively, and its bytes, which
        // become zeros, are still bytes.
        match unsafe { libc::madvise(first.cast(), whole, libc::MADV_DONTNEED) } {
            0 => Ok(whole as u64),
            _ => Err(ArenaError::Map { errno: errno(), bytes: whole }),
        }
    }

    /// Has the system provide all pages that hold a byte of a part of the arena, and returns their
    /// bytes. Contents stay. Without this the system provides each page when it is touched first.
    ///
    /// The arena may be in use meanwhile, the part included: a thread can take the pages of a larger
    /// budget while inferences go on. Begin only once that memory is granted. From then on the pages
    /// count as the process's, until they are [given back](Self::give_back).
    ///
    /// Linux before 5.14 cannot do this. Then nothing is taken, 0 is returned, and the pages come
    /// when they are touched.
    pub fn take(&self, part: Range<u64>) -> Result<u64, ArenaError> {
        let outside = ArenaError::Outside { start: part.start, end: part.end, arena: self.bytes() };
        if part.start > part.end || part.end > self.bytes() {
            return Err(outside);
        }
        if part.is_empty() {
            return Ok(0);
        }
        let (offset, bytes) = all_pages(part.start as usize..part.end as usize, page_bytes());
        match self.populate(offset, bytes, MADV_POPULATE_WRITE) {
            Err(ArenaError::Map { errno: libc::EINVAL, .. }) => Ok(0),
            taken => taken.map(|()| bytes as u64),
        }
    }

    /// Gives advice that provides pages.
    fn populate(&self, offset: usize, bytes: usize, advice: i32) -> Result<(), ArenaError> {
        debug_assert!([MADV_POPULATE_WRITE, UNKNOWN_ADVICE].contains(&advice));
        let first = without_provenance_mut(self.start + offset);
        // SAFETY:
        // - These are whole pages of an anonymous, private mapping, which `lifetime` keeps.
        // - Others may hold `&mut` to bytes of them, and write there now.
        // - The call reads and writes no byte as far as Rust is concerned. The kernel maps a
        //   missing page filled with zeros, as the first touch would. It leaves all other contents
        //   as they are.
        // - The kernel orders faults of several threads on one page, and maps it once.
        // - The pointer is only an address to the kernel; nothing here follows it.
        match unsafe { libc::madvise(first, bytes, advice) } {
            0 => Ok(()),
            _ => Err(ArenaError::Map { errno: errno(), bytes }),
        }
    }
}

/// All pages that hold one of these bytes of an arena: the offset of the first, and their bytes. The
/// arena starts on a page, and its mapping goes on to the end of its last.
fn all_pages(part: Range<usize>, page: usize) -> (usize, usize) {
    let start = part.start - part.start % page;
    (start, part.end.next_multiple_of(page) - start)
}

/// The whole pages within `bytes` bytes at an address: their offset, and their bytes. The last page
/// of an arena is whole: its mapping goes on to the end of that page.
fn whole_pages(address: usize, bytes: usize, is_last: bool, page: usize) -> (usize, usize) {
    let end = address + bytes;
    let last = if is_last { end.next_multiple_of(page) } else { end - end % page };
    let before = address.next_multiple_of(page) - address;
    (before, last.saturating_sub(address + before))
}

#[cfg(test)]
impl Pages<'_> {
    /// Pages of a part of the arena, which starts on a page, that are resident.
    pub(super) fn resident(&self, part: Range<u64>) -> usize {
        assert!(part.end <= self.bytes() && part.start.is_multiple_of(4096));
        let bytes = (part.end - part.start) as usize;
        let mut flags = std::vec![0u8; bytes.div_ceil(4096)];
        let first = without_provenance_mut(self.start + part.start as usize);
        // SAFETY: the vector has a byte for each page of the part, pages being at least this large.
        let status = unsafe { libc::mincore(first, bytes, flags.as_mut_ptr()) };
        assert_eq!(status, 0);
        flags.iter().filter(|flag| **flag & 1 != 0).count()
    }
}

/// Whether the system has pages of 4 KiB, as tests count them. An emulator may state larger ones
/// that it does not have.
#[cfg(test)]
pub(super) fn has_small_pages() -> bool {
    let small = page_bytes() == 4096;
    if !small {
        std::eprintln!("skipped: pages of {} bytes", page_bytes());
    }
    small
}

#[cfg(test)]
mod tests {
    use super::super::MappedArena;
    use super::*;

    /// A plan's arena is whole pages of 4 KiB. Boards have pages of 16 or 64 KiB.
    #[test]
    fn parts_of_larger_pages_stay() {
        let start = 1 << 20;
        for page in [4096, 16384, 65536] {
            // From the second page of a plan on, to the end of an arena of 17 of them.
            let (before, whole) = whole_pages(start + 4096, 16 * 4096, true, page);
            assert_eq!(before, if page == 4096 { 0 } else { page - 4096 });
            assert_eq!((start + 4096 + before + whole) % page, 0);
            assert!(before + whole >= 16 * 4096);
            // Up to a page of a plan that is in use.
            let (before, whole) = whole_pages(start, 3 * 4096, false, page);
            assert_eq!((before, whole), (0, 3 * 4096 / page * page));
        }
        assert_eq!(whole_pages(start + 4096, 4096, false, 16384), (12288, 0));
    }

    #[test]
    fn what_is_given_back_is_not_resident() {
        if !has_small_pages() {
            return;
        }
        const BYTES: usize = 12 << 20;
        let mut arena = MappedArena::new(BYTES + 100).unwrap();
        arena.memory().as_mut_slice().fill(5);
        assert_eq!(resident(&mut arena), BYTES / 4096 + 1);
        let (mut memory, pages) = arena.memory_and_pages();
        // From inside of a page inside of a huge page.
        let given = pages.give_back(&mut memory.as_mut_slice()[(3 << 20) + 5..]).unwrap();
        assert_eq!(given, (9 << 20));
        drop(memory);
        assert_eq!(resident(&mut arena), (3 << 20) / 4096 + 1);
        let memory = arena.memory();
        assert_eq!(memory.as_slice()[3 << 20..][..4097], [&[5; 4096][..], &[0]].concat());
        drop(memory);
        // Taken again, where the system can do that.
        let (mut memory, pages) = arena.memory_and_pages();
        let taken = pages.take(4 << 20..6 << 20);
        assert_eq!(memory.as_slice()[0], 5);
        if taken == Ok(2 << 20) {
            assert!(pages.resident(4 << 20..6 << 20) == 512 || ignores_advice(&pages));
        }
        let given = pages.give_back(&mut memory.as_mut_slice()[3 << 20..]);
        assert_eq!(given, Ok((9 << 20) + 4096));
        drop(memory);
        // The middle, of which only whole pages go.
        let (mut memory, pages) = arena.memory_and_pages();
        assert_eq!(pages.give_back(&mut memory.as_mut_slice()[1..4096]), Ok(0));
        assert_eq!(pages.give_back(&mut memory.as_mut_slice()[1..12288]), Ok(8192));
        assert_eq!(
            pages.give_back(&mut []),
            Err(ArenaError::Map { errno: libc::EINVAL, bytes: 0 })
        );
        let mut other = [0; 10];
        assert!(pages.give_back(&mut other).is_err());
        drop(memory);
        assert_eq!(resident(&mut arena), (3 << 20) / 4096 - 2);
    }

    fn resident(arena: &mut MappedArena) -> usize {
        let (_memory, pages) = arena.memory_and_pages();
        pages.resident(0..pages.bytes())
    }

    /// As some emulators do.
    fn ignores_advice(pages: &Pages<'_>) -> bool {
        let ignores = pages.populate(0, page_bytes(), UNKNOWN_ADVICE).is_ok();
        if ignores {
            std::eprintln!("skipped: the system ignores advice");
        }
        ignores
    }

    #[test]
    fn pages_are_taken_while_others_write() {
        const MIB: usize = 1 << 20;
        let mut arena = MappedArena::new(16 * MIB + 100).unwrap();
        let (mut memory, pages) = arena.memory_and_pages();
        let bytes = memory.as_mut_slice();
        bytes[..8 * MIB].fill(5);
        let (written, kept) = bytes.split_at_mut(4 * MIB);
        let (taken, rounds) = std::thread::scope(|scope| {
            let taking = scope.spawn(move || pages.take((4 * MIB) as u64..pages.bytes()));
            let mut rounds = 0u8;
            while rounds == 0 || !taking.is_finished() {
                rounds = rounds.wrapping_add(1).max(1);
                written.fill(rounds);
                // In the part that is taken, too.
                kept[9 * MIB] = rounds;
            }
            (taking.join().unwrap().unwrap(), rounds)
        });
        assert!(written.iter().all(|byte| *byte == rounds));
        assert_eq!(core::mem::take(&mut kept[9 * MIB]), rounds);
        assert!(kept[..4 * MIB].iter().all(|byte| *byte == 5));
        if taken > 0 && has_small_pages() && !ignores_advice(&pages) {
            assert_eq!(taken, (12 * MIB + 4096) as u64);
            let part = (4 * MIB) as u64..pages.bytes();
            assert_eq!(pages.resident(part), 12 * MIB / 4096 + 1);
        }
        // Last: this touches every page.
        assert!(kept[4 * MIB..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn parts_outside_of_the_arena_are_refused() {
        let mut arena = MappedArena::new(5000).unwrap();
        let (_memory, pages) = arena.memory_and_pages();
        for (start, end) in [(0, 5001), (4096, u64::MAX), (4096, 100), (u64::MAX, u64::MAX)] {
            let error = ArenaError::Outside { start, end, arena: 5000 };
            assert_eq!(pages.take(start..end), Err(error));
            let text = std::string::ToString::to_string(&error);
            assert!(text.contains(&std::format!("{end}")) && text.contains("5000"), "{text}");
        }
        assert_eq!(pages.take(5000..5000), Ok(0));
    }

    /// All pages of a part, on systems with larger ones, too.
    #[test]
    fn pages_that_hold_a_byte_are_taken() {
        assert_eq!(all_pages(4096..8192, 4096), (4096, 4096));
        assert_eq!(all_pages(4097..8193, 4096), (4096, 8192));
        assert_eq!(all_pages(4096..8192, 16384), (0, 16384));
        assert_eq!(all_pages(16384..16385, 16384), (16384, 16384));
        assert_eq!(all_pages(70000..140000, 65536), (65536, 131072));
    }
}
