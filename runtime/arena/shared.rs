//! One memory for several networks, each of which has addresses of its own.
//!
//! A file in memory (`memfd`) holds all physical bytes: those that networks keep, one network after the other,
//! and after them the *pool*, cut into slots of one size. Every network has a range of addresses for life, as
//! long as its plan. What it keeps is mapped there once. Its chunks are addresses without memory, until one is
//! given a slot.
//!
//! All pages are taken when the arena is made. Later, mapping changes page tables only: the kernel neither
//! finds nor clears pages while jobs wait. It fills in a chunk's part of the tables at once. Page by page, as they are
//! touched, that takes five times as long.
#![allow(unsafe_code)]

use super::ArenaError;
use super::chunked::{Mapping, RangeBase};
use super::pool::{Pool, Slots};
use crate::sys::discard::has_room;
use crate::sys::{errno, page_bytes};
use core::cell::Cell;
use core::ops::Range;
use core::ptr::null_mut;
use heapless::Vec;

/// The most networks of an arena.
pub const NETWORKS: usize = 64;

/// The mappings of an arena: one for each network, one for the pool.
type Mapped = Vec<(*mut u8, usize), { NETWORKS + 1 }>;

/// Memory that several networks share.
pub struct SharedArena {
    fd: i32,
    pub(super) bytes: usize,
    pub(super) chunk: usize,
    /// Physical bytes at the front that are kept.
    pub(super) kept: Cell<usize>,
    /// The most slots that networks' stocks have to spare.
    pub(super) spare: Cell<usize>,
    /// There is a pool: no more networks are opened.
    pub(super) pooled: Cell<bool>,
    /// Whether the free memory is lent.
    pub(super) lent: Cell<bool>,
    mapped: Cell<Mapped>,
    /// Mappings that fail.
    #[cfg(test)]
    pub(crate) refusals: super::refusals::Refusals,
}

impl SharedArena {
    /// Takes `bytes` bytes from the system, for networks whose chunks have `chunk` bytes.
    pub fn new(bytes: u64, chunk: u64) -> Result<Self, ArenaError> {
        let page = page_bytes();
        let wrong = ArenaError::Chunk { chunk, page: page as u64 };
        let chunk = usize::try_from(chunk).map_err(|_| wrong)?;
        if chunk == 0 || !chunk.is_multiple_of(page) {
            return Err(wrong);
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX) / page * page;
        let failed = |errno| ArenaError::Map { errno, bytes };
        let length = libc::off_t::try_from(bytes).map_err(|_| failed(libc::ENOMEM))?;
        if length == 0 {
            return Err(failed(libc::EINVAL));
        }
        // SAFETY: a name that ends with zero, and a flag.
        let fd = unsafe { libc::memfd_create(c"eyelet".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(failed(errno()));
        }
        let (kept, spare, mapped) = (Cell::new(0), Cell::new(0), Cell::new(Mapped::new()));
        let (pooled, lent) = (Cell::new(false), Cell::new(false));
        let arena = Self {
            fd,
            bytes,
            chunk,
            kept,
            spare,
            pooled,
            lent,
            mapped,
            #[cfg(test)]
            refusals: Default::default(),
        };
        // SAFETY: calls on a file of our own. The second takes all of its pages.
        let status = unsafe {
            match libc::ftruncate(fd, length) {
                0 => libc::fallocate(fd, 0, 0, length),
                status => status,
            }
        };
        if status == 0 { Ok(arena) } else { Err(failed(errno())) }
    }

    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Bytes of a chunk.
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk as u64
    }

    /// Bytes that no network keeps. After [`pool`](Self::pool) they are the pool's.
    pub fn free_bytes(&self) -> u64 {
        (self.bytes - self.kept.get()) as u64
    }

    /// The memory that no network keeps, in slots. To be called once, when all networks are open.
    pub fn pool(&self) -> Result<Pool<'_>, ArenaError> {
        if self.pooled.get() || self.lent.get() {
            return Err(ArenaError::Shared);
        }
        let (kept, spare, page) = (self.kept.get(), self.spare.get(), page_bytes());
        let free = self.bytes - kept;
        // The most slots, and the list of the free ones.
        let most = free / self.chunk + spare;
        let list = (most * size_of::<u32>()).next_multiple_of(page);
        let count = free.saturating_sub(list) / self.chunk;
        self.pooled.set(true);
        if count + spare == 0 || list > free {
            return Ok(Pool::none());
        }
        let base = self.provide(list, kept)?;
        self.kept.set(kept + list);
        // SAFETY: just mapped for reading and writing, until the arena is dropped; zeros; on a page. Nobody else
        // has these addresses, nor, as they are kept, this memory.
        let places = unsafe { core::slice::from_raw_parts_mut(base.cast::<u32>(), count + spare) };
        let first = u32::try_from((kept + list) / page).map_err(|_| ArenaError::Shared)?;
        let pages = u32::try_from(self.chunk / page).map_err(|_| ArenaError::Shared)?;
        let memory = core::ptr::from_ref(self).addr();
        Ok(Pool::new(memory, places, Slots { first, pages, count }))
    }

    /// Addresses, until the arena is dropped, of physical bytes from `at` on.
    pub(super) fn provide(&self, bytes: usize, at: usize) -> Result<*mut u8, ArenaError> {
        let base = self.reserve(bytes)?;
        match self.place(base, 0..bytes, at, false) {
            Ok(()) => Ok(base),
            Err(error) => {
                self.shorten(0);
                Err(error)
            }
        }
    }

    /// Reserves addresses, without memory, until the arena is dropped.
    fn reserve(&self, bytes: usize) -> Result<*mut u8, ArenaError> {
        let failed = |errno| ArenaError::Map { errno, bytes };
        let mut mapped = self.mapped.take();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the system's choice touches no existing memory.
        let base = match mapped.is_full() {
            true => libc::MAP_FAILED,
            false => unsafe { libc::mmap(null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) },
        };
        let result = match base {
            libc::MAP_FAILED if mapped.is_full() => Err(failed(libc::ENFILE)),
            libc::MAP_FAILED => Err(failed(errno())),
            _ => {
                has_room(mapped.push((base.cast(), bytes)));
                Ok(base.cast())
            }
        };
        self.mapped.set(mapped);
        result
    }

    /// Gives addresses back that were reserved last, as far as they lie after their first `bytes`. If the system refuses
    /// that, they go with the arena.
    pub(super) fn shorten(&self, bytes: usize) {
        let mut mapped = self.mapped.take();
        if let Some((base, all)) = mapped.pop() {
            let kept = if self.unmap_rest(base, all, bytes) { bytes } else { all };
            if kept > 0 {
                // It was there.
                has_room(mapped.push((base, kept)));
            }
        }
        self.mapped.set(mapped);
    }

    /// Gives the addresses of a mapping back that lie after its first `bytes`. Returns whether they are gone.
    fn unmap_rest(&self, base: *mut u8, all: usize, bytes: usize) -> bool {
        if bytes >= all {
            return true;
        }
        #[cfg(test)]
        if self.refusals.ask(super::refusals::Call::Unmap, all - bytes).is_err() {
            return false;
        }
        // SAFETY: a part of a mapping of our own, which nobody uses.
        unsafe { libc::munmap(base.wrapping_add(bytes).cast(), all - bytes) == 0 }
    }

    /// Maps a part of a reserved range to physical bytes from `at` on. `now`: fills in the page tables.
    pub(super) fn place(
        &self,
        base: *mut u8,
        part: Range<usize>,
        at: usize,
        now: bool,
    ) -> Result<(), ArenaError> {
        let (start, bytes) = (base.wrapping_add(part.start), part.len());
        if bytes == 0 {
            return Ok(());
        }
        let failed = |errno| ArenaError::Map { errno, bytes };
        let offset = libc::off_t::try_from(at).map_err(|_| failed(libc::EINVAL))?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fill = if now { libc::MAP_POPULATE } else { 0 };
        let flags = libc::MAP_SHARED | libc::MAP_FIXED | fill;
        #[cfg(test)]
        self.refusals.ask(super::refusals::Call::Map, bytes)?;
        // SAFETY: addresses of a range of our own, which whoever calls this has for itself.
        let got = unsafe { libc::mmap(start.cast(), bytes, protection, flags, self.fd, offset) };
        if got == libc::MAP_FAILED { Err(failed(errno())) } else { Ok(()) }
    }

    /// Has a part of a reserved range be addresses without memory again.
    pub(super) fn close(&self, base: *mut u8, part: Range<usize>) -> Result<(), ArenaError> {
        let (start, bytes) = (base.wrapping_add(part.start), part.len());
        if bytes == 0 {
            return Ok(());
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        #[cfg(test)]
        self.refusals.ask(super::refusals::Call::Unmap, bytes)?;
        // SAFETY: as of `place`.
        let got = unsafe { libc::mmap(start.cast(), bytes, libc::PROT_NONE, flags, -1, 0) };
        match got {
            libc::MAP_FAILED => Err(ArenaError::Map { errno: errno(), bytes }),
            _ => Ok(()),
        }
    }
}

impl Mapping for SharedArena {
    fn chunk_bytes(&self) -> u64 {
        self.chunk as u64
    }

    fn page_bytes(&self) -> u64 {
        page_bytes() as u64
    }

    fn map(&self, range: RangeBase, start: u64, slot: u32) -> Result<(), ArenaError> {
        let at = (slot as usize).saturating_mul(page_bytes());
        if at.saturating_add(self.chunk) > self.bytes {
            return Err(ArenaError::Map { errno: libc::EINVAL, bytes: self.chunk });
        }
        self.place(range.0, start as usize..start as usize + self.chunk, at, true)
    }

    fn unmap(&self, range: RangeBase, start: u64) -> Result<(), ArenaError> {
        self.close(range.0, start as usize..start as usize + self.chunk)
    }

    fn keep(&self, range: RangeBase, part: Range<u64>, at: u64) -> Result<(), ArenaError> {
        let part = part.start as usize..part.end as usize;
        if (at as usize).saturating_add(part.len()) > self.bytes {
            return Err(ArenaError::Map { errno: libc::EINVAL, bytes: part.len() });
        }
        self.place(range.0, part, at as usize, true)
    }

    fn clear(&self, range: RangeBase, part: Range<u64>) -> Result<(), ArenaError> {
        self.close(range.0, part.start as usize..part.end as usize)
    }
}

impl core::fmt::Debug for SharedArena {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { bytes, chunk, kept, .. } = self;
        f.debug_struct("SharedArena")
            .field("bytes", bytes)
            .field("chunk", chunk)
            .field("kept", &kept.get())
            .finish()
    }
}

impl Drop for SharedArena {
    fn drop(&mut self) {
        for (base, bytes) in self.mapped.take() {
            // SAFETY: exactly what was reserved; what borrowed it borrowed the arena.
            unsafe { libc::munmap(base.cast(), bytes) };
        }
        // SAFETY: a file of our own.
        unsafe { libc::close(self.fd) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::refusals::Call;
    use super::*;

    #[test]
    fn sizes_that_cannot_be_mapped_are_refused() {
        for chunk in [0, 1, 4095, (1 << 16) + 1] {
            let error = SharedArena::new(1 << 20, chunk).unwrap_err();
            assert_eq!(error, ArenaError::Chunk { chunk, page: page_bytes() as u64 });
        }
        assert!(matches!(SharedArena::new(0, 1 << 16), Err(ArenaError::Map { .. })));
        assert!(matches!(SharedArena::new(u64::MAX, 1 << 16), Err(ArenaError::Map { .. })));
    }

    #[test]
    fn addresses_that_cannot_be_given_back_go_with_the_arena() {
        let (page, all) = (page_bytes(), 8 * page_bytes());
        let arena = SharedArena::new(all as u64, page as u64).unwrap();
        for refused in [0, 1] {
            let base = arena.provide(all, 0).unwrap();
            arena.refusals.refuse(Call::Unmap, 0, refused);
            arena.shorten(page);
            let mapped = arena.mapped.take();
            let bytes = if refused == 0 { page } else { all };
            assert_eq!(mapped.last(), Some(&(base, bytes)));
            arena.mapped.set(mapped);
        }
    }
}
