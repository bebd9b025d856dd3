//! Files read with direct I/O: from the device straight into the arena.
//!
//! Nothing is copied and the page cache keeps nothing, so what the process uses is what the budget
//! says. A file system that would quietly go through the cache all the same is refused:
//!
//! - `open` fails with EINVAL: it has no direct I/O.
//! - It lives in memory (tmpfs, ramfs): the cache *is* the file. tmpfs takes the flag since Linux
//!   6.6.
//! - Pages that are read on trial turn up in the cache: the file system decompresses or decrypts
//!   there (btrfs), or lies over one in memory (an overlay). `statx` reports an alignment of zero
//!   for some of these. That alone is not believed: emulators report zero, too, since they do not
//!   know.
//!
//! Kernels before 6.1 and some file systems report no alignment; that a page can be read is then
//! enough.
//!
//! Only some of a file may be compressed: [`DirectFile::page_cache`] says after an inference what
//! is in the cache, and keeps it out.
//!
//! Several reads can be in flight at once: see [`aio`](super::aio).
#![allow(unsafe_code)]

use super::aio::{PIECE, PIECES, Requests};
use super::fd::Fd;
use super::residency::{PageCache, is_overlay};
use super::through_cache::goes_through_cache;
use super::{
    ReadQueue, Storage, StorageError, TWO_PAGES, aligned_page, check_aligned, check_alignment,
    read_exact,
};
use crate::pack::PAGE;
use core::ffi::CStr;
use core::mem::MaybeUninit;

/// A file opened with `O_DIRECT`.
#[derive(Debug)]
pub struct DirectFile {
    fd: Fd,
    alignment: u64,
    /// Made when first asked for: many who open a pack stream nothing.
    requests: Option<Requests>,
}

/// Reads in flight at once. Disks gain by more, most of all by small reads; but a virtual one may
/// answer all that it was given before it came to rest together, so that further reads keep the
/// first one waiting.
const DEPTH: usize = 4;

impl DirectFile {
    /// Opens a file. It is an error if the file system has no direct I/O.
    pub fn open(path: &CStr) -> Result<Self, StorageError> {
        let fd = Fd::open(path, libc::O_DIRECT).map_err(|error| match error {
            StorageError::Open { errno: libc::EINVAL } => StorageError::NoDirectIo,
            error => error,
        })?;
        if lives_in_memory(&fd)? {
            return Err(StorageError::NoDirectIo);
        }
        let declared = declared_alignment(&fd);
        let alignment = match declared {
            Some(0) | None => probe(&fd)?,
            Some(alignment) => alignment,
        };
        if alignment > PAGE || !alignment.is_power_of_two() {
            return Err(StorageError::Coarse { alignment, limit: PAGE });
        }
        if goes_through_cache(&fd, declared == Some(0) || is_overlay(&fd)?)? {
            return Err(StorageError::NoDirectIo);
        }
        Ok(Self { fd, alignment, requests: None })
    }

    /// The page cache's share of the file. After an inference it shows what reads, or others, have
    /// left there.
    pub fn page_cache(&self) -> Result<PageCache, StorageError> {
        PageCache::of(&self.fd)
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

    fn queue(&mut self) -> Option<&mut dyn ReadQueue> {
        let taken = self.requests.get_or_insert_with(Requests::new).taken();
        taken.then_some(self as _)
    }
}

// SAFETY: the kernel writes from `submit` on, until its answer is there or the rest is read by
// `wait`, after which it is free again. Before it is dropped, and with it the kernel's requests,
// these end.
unsafe impl ReadQueue for DirectFile {
    fn depth(&self) -> usize {
        DEPTH
    }

    fn window(&self) -> usize {
        PIECE * PIECES
    }

    unsafe fn submit(&mut self, offset: u64, into: *mut [u8]) -> Result<usize, StorageError> {
        check_alignment(offset, into.len(), into.cast::<u8>().addr(), self.alignment)?;
        let requests = self.requests.get_or_insert_with(Requests::new);
        // SAFETY: the caller's promise.
        unsafe { requests.submit(&self.fd, offset, into) }
    }

    fn arrived(&mut self, number: usize) -> bool {
        self.requests.as_mut().is_none_or(|requests| requests.arrived(&self.fd, number))
    }

    fn wait(&mut self, number: usize, spin_ns: u64) -> Result<(), StorageError> {
        match &mut self.requests {
            Some(requests) => requests.wait(&self.fd, number, self.alignment, spin_ns),
            None => Ok(()),
        }
    }
}

/// Whether the file's only home is the page cache. (Nodes of devices are in one that is; the
/// devices are not.)
fn lives_in_memory(fd: &Fd) -> Result<bool, StorageError> {
    const TMPFS: u32 = 0x0102_1994;
    const RAMFS: u32 = 0x8584_58f6;
    Ok(matches!(fd.file_system()?, TMPFS | RAMFS) && !fd.is_block_device()?)
}

/// The record of the `statx` system call up to what is needed here; the whole has 256 bytes on
/// every architecture. (The C library's own declaration depends on its age.)
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

/// The alignment that the kernel declares for reads; zero if the file has no direct I/O, `None` if
/// it declares none.
fn declared_alignment(fd: &Fd) -> Option<u64> {
    const DIOALIGN: u32 = 0x2000;
    let mut record = MaybeUninit::<Statx>::zeroed();
    // SAFETY: an empty, terminated path with AT_EMPTY_PATH asks about the descriptor; the call
    // fills the record, which is plain numbers and valid even if it does not.
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

/// Reads a page to see whether direct I/O works with a page's alignment, which is then taken for
/// what the file needs.
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
    use super::super::MAX_DEPTH;
    use super::super::scratch_file::{Aligned, ScratchFile, contents};
    use super::*;

    /// Pages of the file in the cache.
    fn cached(scratch: &ScratchFile) -> u64 {
        PageCache::open(scratch.path()).unwrap().count(u64::MAX).unwrap().pages
    }

    fn forget(scratch: &ScratchFile) {
        PageCache::open(scratch.path()).unwrap().forget().unwrap();
    }

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
        forget(&scratch);
        let Some(mut file) = open(&scratch) else { return };
        assert_eq!(file.len(), Ok(64 * 4096));
        assert!(file.alignment().is_power_of_two() && file.alignment() <= PAGE);
        let mut into = Aligned([0; 8 * 4096]);
        for page in [0, 1, 17, 56] {
            file.read(page * PAGE, &mut into.0).unwrap();
            assert_eq!(into.0, bytes[(page * PAGE) as usize..][..8 * 4096]);
        }
        assert_eq!(cached(&scratch), 0);
    }

    #[test]
    fn a_file_in_the_cache_can_be_opened() {
        let scratch = ScratchFile::new(&contents(4096));
        if open(&scratch).is_none() {
            return;
        }
        let fd = Fd::open(scratch.path(), 0).unwrap();
        for _ in 0..30 {
            assert_eq!(fd.pread(0, &mut [0; 4096]), Ok(4096));
            assert_eq!(DirectFile::open(scratch.path()).err(), None);
        }
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

    /// Begins to read whole pages.
    ///
    /// # Safety
    /// As of `submit`.
    unsafe fn begin(
        file: &mut DirectFile,
        page: u64,
        into: &mut [u8],
    ) -> Result<usize, StorageError> {
        // SAFETY: the caller's promise.
        unsafe { file.submit(page * PAGE, into) }
    }

    #[test]
    fn reads_under_way_may_be_waited_for_in_any_order() {
        const PAGES: usize = 96;
        let bytes = contents(PAGES * 4096);
        let scratch = ScratchFile::new(&bytes);
        forget(&scratch);
        let Some(mut file) = open(&scratch) else { return };
        let refused = file.queue().is_none();
        let (mut state, most) = (1u64, file.depth());
        assert!(most <= MAX_DEPTH);
        let mut room = std::vec![0; (PAGES + 1) * 4096];
        let at = room.as_ptr().addr().next_multiple_of(4096) - room.as_ptr().addr();
        for _ in 0..20 {
            let (mut rest, mut page) = (&mut room[at..at + PAGES * 4096], 0);
            rest.fill(0);
            let mut under_way = std::vec::Vec::new();
            while !rest.is_empty() || !under_way.is_empty() {
                state =
                    state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                let random = (state >> 33) as usize;
                if under_way.len() < most && !rest.is_empty() {
                    let pages = (1 + random % 9).min(rest.len() / 4096);
                    let into = rest.split_off_mut(..pages * 4096).unwrap();
                    // SAFETY: nobody looks at the bytes before all have been waited for.
                    under_way.push(unsafe { begin(&mut file, page, into) }.unwrap());
                    page += pages as u64;
                } else {
                    let number = under_way.swap_remove(random % under_way.len());
                    file.wait(number, 0).unwrap();
                }
            }
            assert!(room[at..at + PAGES * 4096] == bytes);
        }
        assert!(refused || file.requests.as_ref().unwrap().taken());
        assert_eq!(cached(&scratch), 0);
        // A read that was not begun counts as done.
        assert_eq!(file.wait(0, 0), Ok(()));
        assert_eq!(file.wait(1000, 0), Ok(()));
    }

    #[test]
    fn reads_under_way_fail_as_others_do() {
        let bytes = contents(8 * 4096);
        let scratch = ScratchFile::new(&bytes);
        let Some(mut file) = open(&scratch) else { return };
        let alignment = file.alignment();
        scratch.truncate(3 * 4096 + 1024);
        let mut into = [const { Aligned([0; 8192]) }; 3];
        let [a, b, c] = &mut into;
        // SAFETY: nobody looks at the bytes before they have been waited for.
        let numbers = unsafe {
            [
                begin(&mut file, 2, &mut a.0),
                begin(&mut file, 6, &mut b.0),
                begin(&mut file, 0, &mut c.0),
            ]
        };
        let [a, b, c] = numbers.map(Result::unwrap);
        assert_eq!(file.wait(c, 0), Ok(()));
        let short = |offset, got| StorageError::Short { offset, wanted: 8192, got };
        assert_eq!(file.wait(a, 0), Err(short(2 * 4096, 4096 + 1024)));
        assert_eq!(file.wait(b, 0), Err(short(6 * 4096, 0)));
        assert_eq!(into[2].0, bytes[..8192]);
        let address = into[0].0.as_ptr().addr() as u64;
        let error = StorageError::Misaligned { offset: 0, bytes: 4095, address, alignment };
        // SAFETY: nobody looks at the bytes.
        assert_eq!(unsafe { begin(&mut file, 0, &mut into[0].0[..4095]) }, Err(error));
    }

    /// Large ones are in pieces, of which the kernel has those of several reads.
    #[test]
    fn pieces_of_large_reads_come_where_they_belong() {
        const PAGES: usize = 700;
        let bytes = contents(4 * PAGES * 4096);
        let scratch = ScratchFile::new(&bytes);
        forget(&scratch);
        let Some(mut file) = open(&scratch) else { return };
        assert!(PAGES * 4096 > 5 * PIECE && file.depth() == 4);
        let mut room = std::vec![0; (4 * PAGES + 1) * 4096];
        let at = room.as_ptr().addr().next_multiple_of(4096) - room.as_ptr().addr();
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let all = &mut room[at..at + 4 * PAGES * 4096];
            all.fill(0);
            let parts = all.chunks_mut(PAGES * 4096).enumerate();
            // SAFETY: nobody looks at the bytes before all have been waited for.
            let begun = parts
                .map(|(i, into)| unsafe { begin(&mut file, (i * PAGES) as u64, into).unwrap() });
            let numbers: std::vec::Vec<usize> = begun.collect();
            for at in order {
                file.wait(numbers[at], if at == 1 { 0 } else { 1_000_000 }).unwrap();
            }
            assert!(room[at..at + 4 * PAGES * 4096] == bytes);
        }
        // The missing pages do not belong to the read before them.
        scratch.truncate((PAGES as u64 + 300) * PAGE);
        let (first, second) = room[at..].split_at_mut(PAGES * 4096);
        let second = &mut second[..PAGES * 4096];
        // SAFETY: nobody looks at the bytes before both have been waited for.
        let numbers = unsafe {
            [begin(&mut file, 0, first).unwrap(), begin(&mut file, PAGES as u64, second).unwrap()]
        };
        let (offset, got) = (PAGES as u64 * PAGE, 300 * PAGE);
        let wanted = offset;
        assert_eq!(file.wait(numbers[1], 0), Err(StorageError::Short { offset, wanted, got }));
        assert_eq!(file.wait(numbers[0], 0), Ok(()));
        assert!(room[at..at + (PAGES + 300) * 4096] == bytes[..(PAGES + 300) * 4096]);
    }

    #[test]
    fn no_more_are_taken_than_there_is_room_for() {
        let bytes = contents(64 * 4096);
        let scratch = ScratchFile::new(&bytes);
        let Some(mut file) = open(&scratch) else { return };
        let mut into = [const { Aligned([0; 4096]) }; MAX_DEPTH + 1];
        let numbers: std::vec::Vec<_> = into
            .iter_mut()
            .enumerate()
            // SAFETY: nobody looks at the bytes before they have been waited for.
            .map(|(page, into)| unsafe { begin(&mut file, page as u64, &mut into.0) })
            .collect();
        for (page, number) in numbers.into_iter().enumerate() {
            if page == MAX_DEPTH {
                let offset = page as u64 * PAGE;
                let full = StorageError::Io { errno: libc::EAGAIN, offset };
                assert_eq!(number, Err(full));
                break;
            }
            file.wait(number.unwrap(), 0).unwrap();
            assert_eq!(into[page].0, bytes[page * 4096..][..4096]);
        }
    }

    #[test]
    fn what_the_kernel_does_not_take_is_read_when_waited_for() {
        let bytes = contents(8 * 4096);
        let scratch = ScratchFile::new(&bytes);
        let Some(mut file) = open(&scratch) else { return };
        file.requests = Some(Requests::refused());
        assert!(file.queue().is_none());
        let mut into = Aligned([0; 8192]);
        // SAFETY: nobody looks at the bytes before they have been waited for.
        let number = unsafe { begin(&mut file, 3, &mut into.0) }.unwrap();
        assert_eq!(file.wait(number, 0), Ok(()));
        assert_eq!(into.0, bytes[3 * 4096..][..8192]);
    }

    #[test]
    fn dropped_with_reads_under_way_it_waits_for_them() {
        const PAGES: usize = 128;
        let bytes = contents(3 * PAGES * 4096);
        let scratch = ScratchFile::new(&bytes);
        forget(&scratch);
        let mut into: std::boxed::Box<[_; 3]> =
            std::boxed::Box::new([const { Aligned([0; PAGES * 4096]) }; 3]);
        for _ in 0..10 {
            let Some(mut file) = open(&scratch) else { return };
            for (number, into) in into.iter_mut().enumerate() {
                // SAFETY: nobody looks at the bytes before the file is gone.
                unsafe { begin(&mut file, (PAGES * number) as u64, &mut into.0) }.unwrap();
            }
            if file.queue().is_none() {
                return;
            }
            drop(file);
            // A later write would be seen.
            const MARK: u8 = 0xa5;
            into.iter_mut().for_each(|into| into.0.fill(MARK));
            std::thread::sleep(std::time::Duration::from_millis(5));
            let marks = |byte: &u8| *core::hint::black_box(byte) == MARK;
            assert!(into.iter().all(|into| into.0.iter().all(marks)));
        }
    }
}
