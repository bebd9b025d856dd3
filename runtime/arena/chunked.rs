//! Chunks: parts of a network's range of addresses that have memory only some of the time.
//!
//! Addresses never change: a chunk *enters* when a slot of the pool is mapped where the chunk lies, and
//! *leaves* when that is undone. Who maps is a [`Mapping`]: `SharedArena` on Linux. Where there is none,
//! a network has no chunks, and nothing here does anything.
//!
//! Each plan that a network may follow has chunks of its own, and bytes around them that it keeps: a [`Layout`]. What
//! the network keeps is mapped to its *stock* of physical memory, part after part. A layout that needs less than the
//! stock leaves the rest to the pool.

use super::ArenaError;
use super::pool::Pool;
use bytemuck::{Pod, Zeroable};
use core::ops::Range;
use heapless::Vec;

/// The most plans that a network with chunks may follow.
pub const LAYOUTS: usize = 8;

/// Puts slots of a pool, and physical bytes, at addresses.
pub(crate) trait Mapping: core::fmt::Debug {
    /// Bytes of a chunk, and of a slot.
    fn chunk_bytes(&self) -> u64;

    /// Bytes of a page. Slots are numbered by the page that they start at.
    fn page_bytes(&self) -> u64;

    /// Has byte `start` of a range be the first of a slot.
    fn map(&self, range: RangeBase, start: u64, slot: u32) -> Result<(), ArenaError>;

    /// Takes the slot away from there: whoever touches these addresses then is stopped.
    fn unmap(&self, range: RangeBase, start: u64) -> Result<(), ArenaError>;

    /// Has a part of a range be physical bytes from `at` on.
    fn keep(&self, range: RangeBase, part: Range<u64>, at: u64) -> Result<(), ArenaError>;

    /// Takes all memory away from a part of a range.
    fn clear(&self, range: RangeBase, part: Range<u64>) -> Result<(), ArenaError>;
}

/// Where a network's range of addresses starts.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(all(feature = "linux", target_os = "linux")), allow(dead_code))]
pub(crate) struct RangeBase(pub(super) *mut u8);

/// A chunk of a network.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct ChunkRecord {
    /// Its first byte, from the start of the range.
    pub start: u64,
    /// CRC-32C of what is read into it.
    pub crc: u32,
    /// The slot that is mapped there; [`OUT`] if none is.
    pub slot: u32,
}

/// No slot is mapped.
pub(crate) const OUT: u32 = u32::MAX;

/// Which parts of a network's range a plan keeps, and which are chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Where in the pack the plan lies: no other plan does.
    pub plan: u64,
    /// Where the plan ends in the range: a whole number of pages.
    pub end: u64,
    /// The first of its records, and how many there are: those of weights, then those of room, each by addresses.
    pub first: usize,
    pub count: usize,
    /// How many of them are of room.
    pub room: usize,
    /// CRC-32C of the residents' bytes that it keeps, resident by resident.
    pub crc: u32,
    /// The plan reads weights while it computes.
    pub streams: bool,
}

impl Layout {
    /// Its records of weights, and those of room.
    pub fn kinds<'r>(&self, records: &'r [ChunkRecord]) -> [&'r [ChunkRecord]; 2] {
        let all = records.get(self.first..self.first.saturating_add(self.count));
        let weights = self.count.saturating_sub(self.room);
        all.and_then(|all| all.split_at_checked(weights)).map_or([&[], &[]], |(a, b)| [a, b])
    }

    /// Bytes that the layout keeps if chunks have `chunk_bytes` bytes.
    pub fn kept(&self, chunk_bytes: u64) -> u64 {
        self.end.saturating_sub((self.count as u64).saturating_mul(chunk_bytes))
    }
}

/// The parts of a range that are not chunks, in order. The records of each kind are in order of addresses.
pub(super) fn kept_parts(
    kinds: [&[ChunkRecord]; 2],
    chunk: u64,
    bytes: Range<u64>,
) -> impl Iterator<Item = Range<u64>> + use<'_> {
    // Where the first chunk starts that ends after a byte.
    let next = move |byte: u64| {
        let starts = kinds.map(|records| {
            let before = |record: &ChunkRecord| record.start.saturating_add(chunk) <= byte;
            records.get(records.partition_point(before)).map_or(u64::MAX, |record| record.start)
        });
        starts.into_iter().min().unwrap_or(u64::MAX)
    };
    let (mut from, last) = (bytes.start, bytes.end);
    let parts = core::iter::from_fn(move || {
        let start = Some(from).filter(|from| *from < last)?;
        let until = next(from);
        from = until.saturating_add(chunk.max(1));
        Some(start..until.min(last))
    });
    parts.filter(|part| part.start < part.end)
}

/// The chunks of one network.
#[derive(Debug)]
pub(crate) struct Chunks<'a> {
    mapping: Option<(&'a dyn Mapping, RangeBase)>,
    /// The chunks of all layouts.
    records: &'a mut [ChunkRecord],
    layouts: Vec<Layout, LAYOUTS>,
    /// The layout that is followed.
    current: usize,
    /// Physical bytes for what is kept.
    stock: Range<u64>,
    /// Chunks that are mapped.
    mapped: usize,
}

impl<'a> Chunks<'a> {
    /// The chunks of a network that stays in memory: none.
    pub fn none() -> Self {
        let (layouts, stock) = (Vec::new(), 0..0);
        Self { mapping: None, records: &mut [], layouts, current: 0, stock, mapped: 0 }
    }

    /// The chunks of these layouts, none of which is mapped. The layout with number `current` is followed.
    #[cfg_attr(not(all(feature = "linux", target_os = "linux")), allow(dead_code))]
    pub(super) fn new(
        mapping: &'a dyn Mapping,
        base: RangeBase,
        records: &'a mut [ChunkRecord],
        (layouts, current): (Vec<Layout, LAYOUTS>, usize),
        stock: Range<u64>,
    ) -> Self {
        records.iter_mut().for_each(|record| record.slot = OUT);
        let mapping = Some((mapping, base));
        Self { mapping, records, layouts, current, stock, mapped: 0 }
    }

    /// The layout that is followed, if the network has any.
    pub fn layout(&self) -> Option<&Layout> {
        self.layouts.get(self.current)
    }

    /// The layout of a plan.
    pub fn layout_of(&self, plan: u64) -> Option<&Layout> {
        self.layouts.iter().find(|layout| layout.plan == plan)
    }

    /// The records of the layout that is followed.
    fn records(&self) -> &[ChunkRecord] {
        let records = self.layout().and_then(|layout| {
            self.records.get(layout.first..layout.first.saturating_add(layout.count))
        });
        records.unwrap_or_default()
    }

    fn record_mut(&mut self, index: usize) -> Option<&mut ChunkRecord> {
        let layout = self.layouts.get(self.current).filter(|layout| index < layout.count)?;
        self.records.get_mut(layout.first.saturating_add(index))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.records().len()
    }

    /// How many of them are of room: the last ones.
    pub fn room(&self) -> usize {
        self.layout().map_or(0, |layout| layout.room)
    }

    /// The parts of these bytes of the range that are not chunks, in order.
    pub fn kept_parts(&self, bytes: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<'_, 'a> {
        let kinds = self.layout().map_or([&[][..]; 2], |layout| layout.kinds(self.records));
        kept_parts(kinds, self.chunk_bytes(), bytes)
    }

    /// Slots that are of the network's stock while a layout is followed, and not needed for it.
    pub fn spare(&self, layout: &Layout) -> impl Iterator<Item = u32> + use<'a> {
        let (chunk, page) = self.mapping.map_or((1, 1), |(mapping, _)| {
            (mapping.chunk_bytes().max(1), mapping.page_bytes().max(1))
        });
        let start = self.stock.start.saturating_add(layout.kept(chunk));
        let count = self.stock.end.saturating_sub(start) / chunk;
        (0..count).filter_map(move |at| u32::try_from((start + at * chunk) / page).ok())
    }

    /// Where the longest layout ends.
    #[cfg_attr(not(all(feature = "linux", target_os = "linux")), allow(dead_code))]
    pub fn end(&self) -> u64 {
        self.layouts.iter().map(|layout| layout.end).max().unwrap_or(0)
    }

    /// Whether all of the network's range has memory, and stays so.
    pub fn is_whole(&self) -> bool {
        self.layouts.len() <= 1 && self.records.is_empty()
    }

    /// Follows a plan's layout: what that keeps has memory, in which anything may be but for what lies before the first
    /// chunk of all layouts. That is never without memory. All chunks have to be out. `None` if there is no such layout.
    ///
    /// On an error parts have no memory. Following a layout again mends that.
    pub fn follow(&mut self, plan: u64) -> Option<Result<(), ArenaError>> {
        let (mapping, base) = self.mapping.filter(|_| self.mapped == 0)?;
        let position = self.layouts.iter().position(|layout| layout.plan == plan)?;
        let first = |layout: &Layout| {
            let kinds = layout.kinds(self.records).into_iter();
            let starts = kinds.filter_map(|records| Some(records.first()?.start));
            starts.min().unwrap_or(layout.end).min(layout.end)
        };
        let stays = self.layouts.iter().map(first).min()?;
        self.current = position;
        let (all, end) = (self.layout()?.end, self.end());
        let map = || {
            mapping.clear(base, stays..end)?;
            let mut at = self.stock.start.saturating_add(stays);
            for part in self.kept_parts(stays..all) {
                let bytes = part.end - part.start;
                mapping.keep(base, part, at)?;
                at += bytes;
            }
            Ok(())
        };
        Some(map())
    }

    /// Bytes of one.
    pub fn chunk_bytes(&self) -> u64 {
        self.mapping.map_or(0, |(mapping, _)| mapping.chunk_bytes())
    }

    /// Whether this pool's slots are of the memory that its chunks are mapped to. No chunk needs none.
    pub fn draws_from(&self, pool: &Pool<'_>) -> bool {
        let own = self.mapping.map(|(mapping, _)| core::ptr::from_ref(mapping).addr());
        self.is_whole() || own == pool.memory
    }

    /// Chunks that have memory.
    pub fn mapped(&self) -> usize {
        self.mapped
    }

    /// The bytes of the range that a chunk has; none if there is no such chunk.
    pub fn bytes(&self, index: usize) -> Range<u64> {
        let record = self.records().get(index);
        let (start, bytes) = record.map_or((0, 0), |record| (record.start, self.chunk_bytes()));
        start..start.saturating_add(bytes)
    }

    /// CRC-32C of what is read into it.
    pub fn crc(&self, index: usize) -> u32 {
        self.records().get(index).map_or(0, |record| record.crc)
    }

    /// Whether it has memory.
    pub fn is_mapped(&self, index: usize) -> bool {
        self.slot(index).is_some()
    }

    /// The slot that it has.
    pub fn slot(&self, index: usize) -> Option<u32> {
        self.records().get(index).map(|record| record.slot).filter(|slot| *slot != OUT)
    }

    /// Gives a chunk the memory of a slot, in which anything may be. Returns whether it took it: not if it has some.
    pub fn enter(&mut self, index: usize, slot: u32) -> Result<bool, ArenaError> {
        let Some((mapping, base)) = self.mapping else { return Ok(false) };
        let Some(record) = self.record_mut(index).filter(|record| record.slot == OUT) else {
            return Ok(false);
        };
        mapping.map(base, record.start, slot)?;
        record.slot = slot;
        self.mapped += 1;
        Ok(true)
    }

    /// Takes a chunk's memory away, and returns its slot; `None` if it had none. On an error it keeps its memory, and the
    /// slot.
    ///
    /// Only while no step of the network runs and no read into the chunk is in flight.
    pub fn leave(&mut self, index: usize) -> Result<Option<u32>, ArenaError> {
        let Some((mapping, base)) = self.mapping else { return Ok(None) };
        let Some(record) = self.record_mut(index).filter(|record| record.slot != OUT) else {
            return Ok(None);
        };
        mapping.unmap(base, record.start)?;
        let slot = core::mem::replace(&mut record.slot, OUT);
        self.mapped -= 1;
        Ok(Some(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool::Slots;
    use super::*;
    use core::cell::RefCell;

    /// Writes down what it is asked for, and refuses one slot.
    #[derive(Debug, Default)]
    struct Book(RefCell<std::vec::Vec<(u64, Option<u64>)>>);

    const REFUSED: u32 = 9;

    impl Mapping for Book {
        fn chunk_bytes(&self) -> u64 {
            4096
        }

        fn map(&self, _: RangeBase, start: u64, slot: u32) -> Result<(), ArenaError> {
            if slot == REFUSED {
                return Err(ArenaError::Map { errno: 12, bytes: 4096 });
            }
            self.0.borrow_mut().push((start, Some(slot.into())));
            Ok(())
        }

        fn page_bytes(&self) -> u64 {
            4096
        }

        fn keep(&self, _: RangeBase, part: Range<u64>, at: u64) -> Result<(), ArenaError> {
            self.0.borrow_mut().push((part.start, Some(at)));
            Ok(())
        }

        fn clear(&self, _: RangeBase, part: Range<u64>) -> Result<(), ArenaError> {
            self.0.borrow_mut().push((part.start, None));
            Ok(())
        }

        fn unmap(&self, _: RangeBase, start: u64) -> Result<(), ArenaError> {
            self.0.borrow_mut().push((start, None));
            Ok(())
        }
    }

    fn memory(book: &Book) -> usize {
        core::ptr::from_ref(book).addr()
    }

    fn record(start: u64, crc: u32) -> ChunkRecord {
        ChunkRecord { start, crc, slot: 0 }
    }

    fn layout(plan: u64, end: u64, first: usize, count: usize) -> Layout {
        Layout { plan, end, first, count, ..Layout::default() }
    }

    #[test]
    fn chunks_enter_and_leave_with_their_slots() {
        let book = Book::default();
        let mut records = [record(8192, 5), record(40960, 6)];
        let base = RangeBase(core::ptr::null_mut());
        let layouts = (Vec::from_iter([layout(1, 45056, 0, 2)]), 0);
        let mut chunks = Chunks::new(&book, base, &mut records, layouts, 0..36864);
        assert_eq!((chunks.len(), chunks.mapped(), chunks.crc(1)), (2, 0, 6));
        assert_eq!((chunks.bytes(1), chunks.bytes(2)), (40960..45056, 0..0));
        assert_eq!(chunks.leave(0), Ok(None), "it is not there");
        assert_eq!(chunks.enter(1, 7), Ok(true));
        assert_eq!(chunks.enter(1, 3), Ok(false), "it has one");
        assert!(chunks.enter(0, REFUSED).is_err());
        assert_eq!((chunks.mapped(), chunks.is_mapped(0), chunks.is_mapped(1)), (1, false, true));
        assert_eq!(chunks.enter(2, 3), Ok(false), "there is none");
        assert_eq!(chunks.leave(1), Ok(Some(7)));
        assert_eq!((chunks.mapped(), chunks.leave(1)), (0, Ok(None)));
        assert_eq!(*book.0.borrow(), [(40960, Some(7)), (40960, None)]);
        let (other, mut list, mut same) = (Book::default(), [0; 1], [0; 1]);
        assert!(!chunks.draws_from(&Pool::new(
            memory(&other),
            &mut list,
            Slots { first: 20, pages: 1, count: 1 }
        )));
        assert!(!chunks.draws_from(&Pool::none()));
        assert!(chunks.draws_from(&Pool::new(
            memory(&book),
            &mut same,
            Slots { first: 20, pages: 1, count: 1 }
        )));
        assert!(Chunks::none().draws_from(&Pool::none()));
        let mut none = Chunks::none();
        assert_eq!((none.len(), none.enter(0, 1), none.leave(0)), (0, Ok(false), Ok(None)));
        assert!(none.follow(1).is_none());
    }

    #[test]
    fn what_a_layout_does_not_need_of_the_stock_is_spare() {
        let book = Book::default();
        let mut records = [record(4096, 1), record(12288, 2), record(8192, 3)];
        let base = RangeBase(core::ptr::null_mut());
        let layouts = [layout(9, 24576, 2, 1), layout(7, 20480, 0, 2)];
        let layouts = (Vec::from_iter(layouts), 1);
        let mut chunks = Chunks::new(&book, base, &mut records, layouts, 40960..61440);
        let parts = |chunks: &Chunks<'_>, bytes| chunks.kept_parts(bytes).collect::<Vec<_, 4>>();
        assert_eq!(parts(&chunks, 0..20480), [0..4096, 8192..12288, 16384..20480]);
        assert!(parts(&chunks, 5000..12300).iter().eq([&(8192..12288)]));
        assert!(parts(&chunks, 10..20).iter().eq([&(10..20)]));
        assert_eq!(parts(&chunks, 4096..8192), []);
        let spare = |chunks: &Chunks<'_>, plan| {
            chunks.spare(chunks.layout_of(plan).unwrap()).collect::<Vec<_, 4>>()
        };
        assert_eq!((spare(&chunks, 7), spare(&chunks, 9)), (Vec::from_iter([13, 14]), Vec::new()));
        assert!(chunks.follow(8).is_none());
        assert_eq!(chunks.enter(0, 13), Ok(true));
        assert!(chunks.follow(9).is_none(), "a chunk is in");
        chunks.leave(0).unwrap();
        book.0.borrow_mut().clear();
        assert_eq!(chunks.follow(9), Some(Ok(())));
        assert_eq!((chunks.len(), chunks.bytes(0), chunks.crc(0)), (1, 8192..12288, 3));
        let kept = [(4096, None), (4096, Some(45056)), (12288, Some(49152))];
        assert_eq!(*book.0.borrow(), kept);
    }
}
