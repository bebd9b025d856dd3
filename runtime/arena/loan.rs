//! A network is opened in what is free of a shared arena.
//!
//! In a *loan* all of the network's range is mapped, in order, to what is still free. There it is
//! read and verified like any other. Then the loan is settled: what is kept moves together, chunks lose their
//! memory, and the rest is free again. So the arena has to have as much free as the network's plan is long,
//! which is no more than its kept bytes and a pool in which its chunks fit. A network that may follow several plans
//! keeps what the one needs that keeps most: its *stock*.
#![allow(unsafe_code)]

use super::ArenaError;
use super::chunked::{ChunkRecord, Chunks, LAYOUTS, Layout, OUT, RangeBase, kept_parts};
use super::shared::SharedArena;
use crate::sys::page_bytes;
use core::ops::Range;
use heapless::Vec;

impl SharedArena {
    /// Lends at most `most` free bytes, in which a network is opened. Each of its layouts has at most `chunks` chunks.
    pub(crate) fn lend(
        &self,
        most: u64,
        chunks: impl Iterator<Item = u32>,
    ) -> Result<Loan<'_>, ArenaError> {
        if self.pooled.get() || self.lent.get() {
            return Err(ArenaError::Shared);
        }
        let (kept, page) = (self.kept.get(), page_bytes());
        let free = self.bytes - kept;
        let bytes = usize::try_from(most).unwrap_or(usize::MAX).min(free) / page * page;
        let chunks = chunks.map(|chunks| (bytes / self.chunk).min(chunks as usize));
        let records =
            chunks.fold(0, usize::saturating_add).saturating_mul(size_of::<ChunkRecord>());
        let records = records.min(free).next_multiple_of(page);
        let bytes = bytes.min(free.saturating_sub(records));
        if bytes == 0 {
            return Err(ArenaError::Map { errno: libc::ENOMEM, bytes: page });
        }
        let base = self.provide(records + bytes, kept)?;
        self.lent.set(true);
        Ok(Loan { arena: self, base, records, bytes, layouts: Vec::new() })
    }
}

/// Free memory that is lent to one network while it is opened. Unless the loan is [settled](Self::settle), all of
/// it is free again when this is dropped. Then nothing may refer to its memory any more.
#[derive(Debug)]
pub(crate) struct Loan<'a> {
    arena: &'a SharedArena,
    base: *mut u8,
    /// Bytes at its start for the records of chunks.
    records: usize,
    bytes: usize,
    layouts: Vec<Layout, LAYOUTS>,
}

impl<'a> Loan<'a> {
    /// The network's range of addresses, all of it with memory.
    ///
    /// Once, and nobody has it any more when this value is dropped or settled, but by what
    /// [`settle`](Self::settle) leaves.
    pub fn memory(&mut self) -> &'a mut [u8] {
        // SAFETY: mapped for reading and writing, initialised by the system, nobody else's: what is free is lent once.
        unsafe { core::slice::from_raw_parts_mut(self.base.add(self.records), self.bytes) }
    }

    /// Adds a layout of the range: all up to its end is kept but for chunks that start there. `crc` is asked for each chunk.
    /// Its records' numbers do not matter.
    ///
    /// `weights` and `room` are multiples of the system's page, each ascending, and chunks neither overlap nor pass the end.
    /// Returns false if there are too many layouts.
    pub fn add(
        &mut self,
        layout: Layout,
        weights: impl Iterator<Item = u64>,
        room: impl Iterator<Item = u64>,
        mut crc: impl FnMut(u64) -> u32,
    ) -> bool {
        let first = self.layouts.last().map_or(0, |last| last.first + last.count);
        let most = (self.records / size_of::<ChunkRecord>()).saturating_sub(first);
        let starts = weights.map(|start| (start, 0)).chain(room.map(|start| (start, 1)));
        let (mut count, mut of_room) = (0, 0);
        for (start, is_room) in starts.take(most) {
            let record = ChunkRecord { start, crc: crc(start), slot: OUT };
            // SAFETY: inside of the loan's first bytes, which are for records, on a page, and ours.
            unsafe { self.base.cast::<ChunkRecord>().add(first + count).write(record) };
            (count, of_room) = (count + 1, of_room + is_room);
        }
        let end = layout.end.min(self.bytes as u64).next_multiple_of(page_bytes() as u64);
        self.layouts.push(Layout { end, first, count, room: of_room, ..layout }).is_ok()
    }

    /// The parts of these bytes that the layout that was added last keeps.
    pub fn kept_parts(&self, bytes: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        kept_parts(
            self.layouts.last().map_or([&[][..]; 2], |last| self.kinds(last)),
            self.chunk(),
            bytes,
        )
    }

    /// The checksum of what the layout that was added last keeps of residents.
    pub fn set_crc(&mut self, crc: u32) {
        if let Some(last) = self.layouts.last_mut() {
            last.crc = crc;
        }
    }

    /// The layout of a plan, if it has been added.
    pub fn layout_of(&self, plan: u64) -> Option<&Layout> {
        self.layouts.iter().find(|layout| layout.plan == plan)
    }

    fn chunk(&self) -> u64 {
        self.arena.chunk as u64
    }

    fn of(&self, layout: &Layout) -> &[ChunkRecord] {
        // SAFETY: records that `add` has written, on a page, and ours.
        unsafe {
            let first = self.base.cast::<ChunkRecord>().add(layout.first);
            core::slice::from_raw_parts(first, layout.count)
        }
    }

    fn kinds(&self, layout: &Layout) -> [&[ChunkRecord]; 2] {
        Layout { first: 0, ..*layout }.kinds(self.of(layout))
    }

    /// Follows the layout of a plan, which has been added. Chunks lose their memory; addresses and contents of all else
    /// stay. The network also keeps the bytes that its larger layouts need.
    ///
    /// Only while nobody views bytes after the start of the first chunk. Returns the bytes that the network has for good.
    pub fn settle(mut self, plan: u64) -> Result<(Chunks<'a>, u64), ArenaError> {
        let (arena, base, room, chunk) = (self.arena, self.base, self.records, self.chunk());
        let range = base.wrapping_add(room);
        let none = ArenaError::Map { errno: libc::EINVAL, bytes: self.bytes };
        let position = self.layouts.iter().position(|layout| layout.plan == plan).ok_or(none)?;
        let layout = *self.layouts.get(position).ok_or(none)?;
        let kept = |layout: &Layout| layout.kept(chunk) as usize;
        let stock = self.layouts.iter().map(kept).max().unwrap_or(0);
        let least = self.layouts.iter().map(kept).min().unwrap_or(0);
        let end = self.layouts.iter().map(|layout| layout.end as usize).max().unwrap_or(0);
        // The kept parts between chunks: their place in the range, and their place in physical
        // memory.
        let parts = || {
            let parts = kept_parts(self.kinds(&layout), chunk, 0..layout.end);
            parts.scan(room, |at, part| {
                let here = *at;
                let part = part.start as usize..part.end as usize;
                *at += part.len();
                Some((part, here))
            })
        };
        for (part, at) in parts() {
            // SAFETY:
            // - The loan is mapped in the order of physical memory, so the part belongs at byte
            //   `at` of it.
            // - That is where the part lies or before it, and after all parts before it.
            // - Both places are inside of the loan, which is ours.
            // - The bytes that are overwritten were a chunk's, or those of a part that has been
            //   copied.
            // - By the caller's promise nobody views either. They see the same bytes again when the
            //   part is mapped below.
            unsafe { core::ptr::copy(range.add(part.start), base.add(at), part.len()) };
        }
        let physical = arena.kept.get();
        for (part, at) in parts() {
            arena.place(range, part, physical + at, true)?;
        }
        for record in self.of(&layout) {
            arena.close(range, record.start as usize..record.start as usize + arena.chunk)?;
        }
        arena.close(range, layout.end as usize..end)?;
        arena.shorten(room + end);
        arena.kept.set(physical + room + stock);
        arena.spare.set(arena.spare.get() + (stock - least) / arena.chunk);
        arena.lent.set(false);
        let count = self.layouts.last().map_or(0, |last| last.first + last.count);
        let layouts = (core::mem::take(&mut self.layouts), position);
        core::mem::forget(self);
        // SAFETY: the first bytes of the loan, which are kept, on a page, and nobody else's. Any bytes are records.
        let records = unsafe { core::slice::from_raw_parts_mut(base.cast::<ChunkRecord>(), count) };
        let stock = (physical + room) as u64..(physical + room + stock) as u64;
        let total = room as u64 + stock.end - stock.start;
        Ok((Chunks::new(arena, RangeBase(range), records, layouts, stock), total))
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.arena.shorten(0);
        self.arena.lent.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::super::NETWORKS;
    use super::*;
    use crate::sys::errno;
    use core::iter::{empty, once};

    const CHUNK: u64 = 1 << 16;

    fn layout(end: u64) -> Layout {
        Layout { end, ..Layout::default() }
    }

    /// Fills each page of a range with its number, which starts at `first`.
    fn fill(memory: &mut [u8], first: u8) {
        for (page, bytes) in memory.chunks_mut(4096).enumerate() {
            bytes.fill(first.wrapping_add(page as u8));
        }
    }

    #[test]
    fn what_is_kept_stays_where_it_is_and_chunks_take_turns() {
        let arena = SharedArena::new(1 << 20, CHUNK).unwrap();
        let mut networks = std::vec::Vec::new();
        for first in [1, 101] {
            let mut loan = arena.lend(6 * CHUNK, once(u32::MAX)).unwrap();
            assert_eq!(arena.lend(CHUNK, once(1)).unwrap_err(), ArenaError::Shared);
            let memory = loan.memory();
            assert_eq!(memory.len() as u64, 6 * CHUNK);
            fill(memory, first);
            let base = memory.as_mut_ptr();
            // A chunk after some pages, one after half a chunk, and a last one.
            let starts = [8192, 2 * CHUNK, 4 * CHUNK];
            let mut crcs = 0..;
            let crc = |_| crcs.next().unwrap();
            assert!(loan.add(layout(5 * CHUNK), starts.into_iter(), empty(), crc));
            let (chunks, kept) = loan.settle(0).unwrap();
            assert_eq!((chunks.len(), chunks.crc(2), kept), (3, 2, 2 * CHUNK + 4096));
            networks.push((chunks, base, first));
        }
        assert_eq!(arena.free_bytes(), (1 << 20) - 2 * (2 * CHUNK + 4096));
        let mut pool = arena.pool().unwrap();
        assert_eq!(arena.pool().unwrap_err(), ArenaError::Shared);
        assert_eq!(arena.lend(CHUNK, once(1)).unwrap_err(), ArenaError::Shared);
        assert_eq!(u64::from(pool.chunks()), ((1 << 20) - 4 * CHUNK - 3 * 4096) / CHUNK);
        // SAFETY: bytes of this test, with memory: of what is kept, or of a chunk that is in.
        let byte = |base: *mut u8, at: u64| unsafe { base.add(at as usize) };
        let kept = |(_, base, first): &(Chunks<'_>, *mut u8, u8)| {
            for at in [0, 4096, 8192 + CHUNK, 2 * CHUNK - 1, 3 * CHUNK, 4 * CHUNK - 4096] {
                // SAFETY: as above.
                let found = unsafe { byte(*base, at).read() };
                assert_eq!(found, first.wrapping_add((at / 4096) as u8), "{at}");
            }
        };
        networks.iter().for_each(kept);
        // One slot goes from chunk to chunk.
        let slot = pool.take().unwrap();
        for value in 0..20u8 {
            let (chunks, base, _) = &mut networks[usize::from(value % 2)];
            let index = usize::from(value % 3);
            let range = chunks.bytes(index);
            assert_eq!(chunks.enter(index, slot), Ok(true));
            let ends = [range.start, range.end - 1].map(|at| byte(*base, at));
            for end in ends {
                // SAFETY: as above.
                unsafe {
                    if value > 0 {
                        assert_eq!(end.read(), value - 1);
                    }
                    end.write(value);
                }
            }
            assert_eq!(chunks.leave(index), Ok(Some(slot)));
            networks.iter().for_each(kept);
        }
        let beyond = networks[0].0.enter(0, (1 << 20) / 4096);
        assert!(matches!(beyond, Err(ArenaError::Map { .. })));
    }

    #[test]
    fn a_loan_that_is_not_settled_is_free_again() {
        let arena = SharedArena::new(1 << 20, CHUNK).unwrap();
        for _ in 0..2 * NETWORKS {
            let mut loan = arena.lend(u64::MAX, once(u32::MAX)).unwrap();
            loan.memory()[0] = 1;
        }
        assert_eq!(arena.free_bytes(), 1 << 20);
        for kept in 1..=NETWORKS as u64 {
            let mut loan = arena.lend(4096, once(0)).unwrap();
            assert!(loan.add(layout(4096), empty(), empty(), |_| 0));
            loan.settle(0).unwrap();
            assert_eq!(arena.free_bytes(), (1 << 20) - kept * 4096);
        }
        // The last place is the pool's.
        assert!(arena.pool().is_ok());
    }

    /// Whoever touches a chunk that is out is stopped.
    #[test]
    fn a_chunk_that_is_out_cannot_be_touched() {
        let arena = SharedArena::new(1 << 20, CHUNK).unwrap();
        let mut loan = arena.lend(2 * CHUNK, once(u32::MAX)).unwrap();
        let base = loan.memory().as_mut_ptr();
        assert!(loan.add(layout(2 * CHUNK), once(CHUNK), empty(), |_| 0));
        let (chunks, _) = loan.settle(0).unwrap();
        let mut flags = [0u8; 1];
        let at = base.wrapping_add(CHUNK as usize);
        let mut pipe = [0; 2];
        // SAFETY: `write` from memory that cannot be read fails, as `EFAULT`, and reads nothing.
        unsafe {
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            assert_eq!(libc::write(pipe[1], at.cast(), 1), -1);
            assert_eq!(errno(), libc::EFAULT);
            assert_eq!(libc::write(pipe[1], base.cast(), 1), 1);
            assert_eq!(libc::read(pipe[0], flags.as_mut_ptr().cast(), 1), 1);
            pipe.iter().for_each(|fd| assert_eq!(libc::close(*fd), 0));
        }
        assert_eq!(chunks.mapped(), 0);
    }
}
