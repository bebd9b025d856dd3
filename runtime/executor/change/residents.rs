//! Residents of one plan that are residents of the next: found by what they are in the file, and
//! moved to where the next plan wants them, within the arena and without other memory.
//!
//! The records of the old residents are saved to a place where no old resident lies and no table of
//! the new plan will, before those tables are read over the old ones. They are matched by ranges of
//! the file: a new load whose bytes are all there, in one old load or in adjacent parts of several,
//! need not be read. Then each part is moved as soon as no other part that is still to be moved
//! lies where it goes. Plans with residents in the same order need one pass over them, up or down.
//! Parts that wait for one another in a circle are given up and read.
//!
//! Everything here works on bytes that nobody else uses, in safe code: a mistake could move wrong
//! weights, not touch anything else.

use crate::pack::stored::LoadRecord;
use crate::pack::{Load, PAGE, PlanView, ReadWith, Records};
use bytemuck::{Pod, Zeroable};
use core::ops::Range;

/// Most times that a move is tried again while its target is not free. It bounds the work, whatever
/// the pack.
const ROUNDS: usize = 16;

/// An old resident, or a part of one, in pages. As large as the record of the load that it was.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Part {
    /// First page, from the start of the weights section.
    offset: u32,
    /// Where it lies: pages from the start of the arena.
    address: u32,
    pages: u32,
    state: u32,
    /// Where it shall lie.
    target: u32,
}

const _: () = assert!(size_of::<Part>() == size_of::<LoadRecord>());

/// No new resident has these bytes.
const UNUSED: u32 = 0;
/// To be moved.
const PENDING: u32 = 1;
/// Where it shall be.
const DONE: u32 = 2;
/// Too much else is in its way.
const GIVEN_UP: u32 = 3;

impl Part {
    /// One past its last page in the weights section.
    fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.pages)
    }

    fn lies(&self) -> Range<u64> {
        pages(self.address, self.pages)
    }

    fn goes(&self) -> Range<u64> {
        pages(self.target, self.pages)
    }

    /// Its bytes.
    fn bytes(&self) -> u64 {
        u64::from(self.pages) * PAGE
    }
}

fn pages(first: u32, count: u32) -> Range<u64> {
    let first = u64::from(first);
    first..first + u64::from(count)
}

/// The pages of a load, in the file and in the arena.
fn pages_of(load: &Load) -> [Range<u64>; 2] {
    let count = u64::from(load.bytes) / PAGE;
    [load.offset, load.address].map(|first| first / PAGE..first / PAGE + count)
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// The bytes that a load fills.
fn target(load: &Load) -> Range<u64> {
    load.address..load.address.saturating_add(load.bytes.into())
}

/// The old residents' records, saved in the arena.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::executor) struct Saved {
    /// Where: bytes from the start of the arena.
    address: u64,
    count: usize,
}

/// Bytes of residents that were not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::executor) struct Moved {
    pub kept_bytes: u64,
    pub moved_bytes: u64,
}

/// Room for the records of the residents of `old` where none of them lies, from `from` to `to`.
pub(in crate::executor) fn room(old: &PlanView<'_>, from: u64, to: u64) -> Option<u64> {
    let bytes = size_of_val(old.resident.stored()) as u64;
    let mut room = from..from.checked_add(bytes)?;
    // Once, for residents in the order of their addresses.
    for _ in 0..ROUNDS {
        let before = room.start;
        for resident in old.resident.iter().map(|load| target(&load)) {
            if overlap(&resident, &room) {
                room = resident.end..resident.end.checked_add(bytes)?;
            }
        }
        if room.start == before {
            return (room.end <= to).then_some(room.start);
        }
    }
    None
}

impl Saved {
    /// Saves the records of a plan's residents, which lie in `bytes` (the arena from byte `start`
    /// on) at `records`, at byte `address` of the arena. Those that lie below `tables`, where the
    /// next plan's tables go, are lost.
    pub(in crate::executor) fn new(
        bytes: &mut [u8],
        start: u64,
        records: Range<usize>,
        address: u64,
        tables: u64,
    ) -> Self {
        let count = records.len() / size_of::<LoadRecord>();
        let saved = Self { address, count };
        let Some(at) = address.checked_sub(start).and_then(|at| usize::try_from(at).ok()) else {
            return Self::default();
        };
        let fits = at.checked_add(records.len()).is_some_and(|end| end <= bytes.len());
        if !fits || records.end > bytes.len() || records.start > records.end {
            return Self::default();
        }
        bytes.copy_within(records, at);
        for part in saved.parts(bytes, start) {
            let record: LoadRecord = bytemuck::cast(*part);
            let LoadRecord { offset, address, bytes, .. } = record;
            let lost = Load::read(&record, ()).address < tables;
            let pages = if lost { 0 } else { bytes / PAGE as u32 };
            *part = Part { offset, address, pages, state: UNUSED, target: 0 };
        }
        saved
    }

    /// Its bytes in the arena.
    fn range(&self) -> Range<u64> {
        self.address..self.address + (self.count * size_of::<Part>()) as u64
    }

    /// The records, in the arena from byte `start` on.
    fn parts<'b>(&self, bytes: &'b mut [u8], start: u64) -> &'b mut [Part] {
        let at = self.address.saturating_sub(start) as usize;
        bytes
            .get_mut(at..at.saturating_add(self.count * size_of::<Part>()))
            .and_then(|bytes| bytemuck::try_cast_slice_mut(bytes).ok())
            .unwrap_or_default()
    }

    /// Whether a load's place meets that of the records: it is to be filled when they have been
    /// used.
    pub(in crate::executor) fn meets(&self, load: &Load) -> bool {
        self.count > 0 && overlap(&target(load), &self.range())
    }

    /// Moves what residents of the new plan are made of to where they lie. `bytes` are the arena's
    /// from byte `start` on, after the new plan's tables.
    pub(in crate::executor) fn relocate(
        &self,
        bytes: &mut [u8],
        start: u64,
        new: Records<'_, Load>,
    ) -> Moved {
        let mut moved = Moved::default();
        let parts = self.parts(bytes, start);
        parts.sort_unstable_by_key(|part| part.offset);
        for load in new.iter().filter(|load| !self.meets(load)) {
            assign(parts, &load);
        }
        for part in parts.iter_mut().filter(|part| part.state == PENDING) {
            if part.address == part.target {
                part.state = DONE;
                moved.kept_bytes += part.bytes();
            }
        }
        parts.sort_unstable_by_key(|part| (part.state == UNUSED, part.address));
        let used = parts.partition_point(|part| part.state != UNUSED);
        for _ in 0..ROUNDS {
            let (mut stuck, mut progress) = (None, false);
            // Pages that move down are copied from the lowest one on, pages that move up from the
            // highest one on.
            for at in (0..used).chain((0..used).rev()) {
                let parts = self.parts(bytes, start);
                let Some(&part) = parts.get(at).filter(|part| part.state == PENDING) else {
                    continue;
                };
                if !free(&parts[..used], at) {
                    stuck = Some(at);
                    continue;
                }
                let done = shift(bytes, start, &part).is_some();
                moved.moved_bytes += if done { part.bytes() } else { 0 };
                self.parts(bytes, start)[at].state = if done { DONE } else { GIVEN_UP };
                progress = true;
            }
            match stuck {
                None => break,
                Some(at) if !progress => self.parts(bytes, start)[at].state = GIVEN_UP,
                Some(_) => {}
            }
        }
        self.parts(bytes, start).sort_unstable_by_key(|part| (part.state != DONE, part.target));
        moved
    }

    /// Whether all of a new resident is where it belongs, after [`relocate`](Self::relocate).
    pub(in crate::executor) fn holds(&self, bytes: &mut [u8], start: u64, load: &Load) -> bool {
        if self.meets(load) {
            return false;
        }
        let parts = &*self.parts(bytes, start);
        let done = &parts[..parts.partition_point(|part| part.state == DONE)];
        let [from, wanted] = pages_of(load);
        let first = done.partition_point(|part| part.goes().end <= wanted.start);
        let mut at = wanted.start;
        for part in &done[first..] {
            let goes = part.goes();
            if goes.start != at || from.start + (at - wanted.start) != part.offset.into() {
                break;
            }
            at = goes.end;
            if at >= wanted.end {
                break;
            }
        }
        at == wanted.end
    }
}

/// Gives a new resident the parts that it is made of, if all of its bytes are there.
fn assign(parts: &mut [Part], load: &Load) {
    let [from, to] = pages_of(load);
    // Neighbours have a page in common where weights of both lie in it: that one is taken may not
    // keep the other from being found.
    let continues = |part: &Part, at: u64| {
        part.state == UNUSED && u64::from(part.offset) <= at && part.end() > at
    };
    let first = parts.partition_point(|part| part.end() <= from.start);
    let (mut at, mut last) = (from.start, first);
    while at < from.end {
        match parts.get(last) {
            Some(part) if continues(part, at) => at = part.end(),
            // A lost one has no pages.
            Some(part) if part.pages == 0 || u64::from(part.offset) <= at => {}
            _ => return,
        }
        last += 1;
    }
    let mut at = from.start;
    for part in parts[first..last].iter_mut() {
        if !continues(part, at) {
            continue;
        }
        // Both ends are the part's own, which are of 32 bits.
        let skip = at.saturating_sub(part.offset.into()) as u32;
        at = part.end();
        let rest = part.end().saturating_sub(from.end) as u32;
        part.offset += skip;
        part.address = part.address.saturating_add(skip);
        part.pages -= skip + rest;
        part.target = (to.start + (u64::from(part.offset) - from.start)) as u32;
        part.state = PENDING;
    }
}

/// Moves a part to where it shall lie in the arena, given from byte `start` on.
fn shift(bytes: &mut [u8], start: u64, part: &Part) -> Option<()> {
    let place =
        |page: u64| (page * PAGE).checked_sub(start).and_then(|at| usize::try_from(at).ok());
    let (from, to) = (part.lies(), part.goes());
    let (from, to) = (place(from.start)?..place(from.end)?, place(to.start)?);
    let fits = from.end.max(to.checked_add(from.len())?) <= bytes.len();
    fits.then(|| bytes.copy_within(from, to))
}

/// Whether nothing that is to be moved, but itself, lies where a part goes. Parts are sorted by
/// where they lie.
fn free(parts: &[Part], at: usize) -> bool {
    let Some(part) = parts.get(at) else { return false };
    let goes = part.goes();
    let first = parts.partition_point(|part| part.lies().end <= goes.start);
    parts[first..]
        .iter()
        .take_while(|other| other.lies().start < goes.end)
        .all(|other| other.state != PENDING || other.address == part.address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// An arena whose bytes say of which byte of the weights they are a copy, if of any.
    struct Fixture {
        /// As aligned as records are.
        words: Vec<u64>,
        saved: Saved,
        new: Vec<LoadRecord>,
        start: u64,
    }

    fn load(offset: u64, address: u64, bytes: u64) -> Load {
        let (offset, address) = (offset * PAGE, address * PAGE);
        Load { offset, address, bytes: (bytes * PAGE) as u32, ..Load::default() }
    }

    /// The offsets that are compared: the same in each page, and few in an interpreter.
    fn looked_at(bytes: u32) -> impl Iterator<Item = u64> {
        (0..u64::from(bytes)).step_by(if cfg!(miri) { 512 } else { 1 })
    }

    fn weight(offset: u64) -> u8 {
        (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 | 1
    }

    impl Fixture {
        /// Old residents in an arena of `pages` pages, whose tables take `old_tables` pages at
        /// first and `tables` later.
        fn new(pages: u64, [old_tables, tables]: [u64; 2], old: &[Load], new: &[Load]) -> Self {
            let stored = |loads: &[Load]| -> Vec<LoadRecord> {
                loads.iter().map(|load| load.store().unwrap()).collect()
            };
            let (old_records, new) = (stored(old), stored(new));
            let mut words = std::vec![0u64; (pages * PAGE / 8) as usize];
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
            for load in old {
                for at in looked_at(load.bytes) {
                    bytes[(load.address + at) as usize] = weight(load.offset + at);
                }
            }
            let records = 8..8 + size_of_val(&old_records[..]);
            assert!(records.end as u64 <= old_tables * PAGE);
            bytes[records.clone()].copy_from_slice(bytemuck::cast_slice(&old_records));
            let start = tables * PAGE;
            let plan = PlanView { resident: Records::of(&old_records), ..PlanView::EMPTY };
            let room = room(&plan, start, pages * PAGE);
            let saved =
                room.map_or(Saved::default(), |room| Saved::new(bytes, 0, records, room, start));
            bytes[..start as usize].fill(0);
            Self { words, saved, new, start }
        }

        /// Moves, and says which of the new residents are there; those are.
        fn relocate(mut self) -> (Moved, Vec<bool>) {
            let Self { words, saved, new, start } = &mut self;
            let bytes = &mut bytemuck::cast_slice_mut(words)[*start as usize..];
            let new = Records::<Load>::of(new);
            let moved = saved.relocate(bytes, *start, new);
            let held: Vec<bool> =
                new.iter().map(|load| saved.holds(bytes, *start, &load)).collect();
            for (load, _) in new.iter().zip(&held).filter(|(_, held)| **held) {
                for at in looked_at(load.bytes) {
                    let found = bytes[(load.address + at - *start) as usize];
                    assert_eq!(found, weight(load.offset + at), "{load:?}");
                }
            }
            (moved, held)
        }
    }

    #[test]
    fn in_order_all_are_moved_up_and_down() {
        let old = [load(0, 40, 4), load(9, 44, 4), load(20, 48, 2)];
        let up = [load(0, 42, 4), load(9, 46, 4), load(20, 50, 2)];
        let moved = Moved { kept_bytes: 0, moved_bytes: 10 * PAGE };
        for new in [up, up.map(|load| Load { address: load.address - 12 * PAGE, ..load })] {
            let (found, held) = Fixture::new(60, [4, 5], &old, &new).relocate();
            assert_eq!((found, &held[..]), (moved, &[true; 3][..]));
        }
        let (found, held) = Fixture::new(60, [5, 4], &old, &old).relocate();
        assert_eq!(found, Moved { kept_bytes: 10 * PAGE, moved_bytes: 0 });
        assert_eq!(held, [true; 3]);
    }

    #[test]
    fn loads_are_joined_and_divided() {
        let old = [load(0, 40, 4), load(4, 50, 4), load(20, 44, 6)];
        let (found, held) =
            Fixture::new(60, [4, 4], &old, &[load(0, 20, 8), load(22, 10, 3)]).relocate();
        assert_eq!(found, Moved { kept_bytes: 0, moved_bytes: 11 * PAGE });
        assert_eq!(held, [true; 2]);
        // Where a byte is missing, the whole is read.
        let (found, held) = Fixture::new(60, [4, 4], &old, &[load(0, 20, 9)]).relocate();
        assert_eq!((found, &held[..]), (Moved::default(), &[false][..]));
    }

    #[test]
    fn neighbours_have_a_page_in_common() {
        let old = [load(0, 40, 4), load(3, 50, 4), load(6, 30, 2)];
        let new = [load(0, 20, 4), load(3, 10, 4), load(6, 30, 2)];
        let (found, held) = Fixture::new(60, [4, 4], &old, &new).relocate();
        assert_eq!(found, Moved { kept_bytes: 2 * PAGE, moved_bytes: 8 * PAGE });
        assert_eq!(held, [true; 3]);
        let (found, held) = Fixture::new(60, [4, 4], &old, &[load(0, 20, 8)]).relocate();
        assert_eq!((found.moved_bytes, &held[..]), (8 * PAGE, &[true][..]));
    }

    #[test]
    fn a_circle_is_broken() {
        let old = [load(0, 40, 4), load(4, 44, 4), load(8, 50, 2)];
        let new = [load(0, 44, 4), load(4, 40, 4), load(8, 30, 2)];
        let (found, held) = Fixture::new(60, [4, 4], &old, &new).relocate();
        assert_eq!(found.moved_bytes, 6 * PAGE);
        assert_eq!(held.iter().filter(|held| **held).count(), 2);
        assert!(held[2]);
    }

    #[test]
    fn what_the_tables_or_the_records_cover_is_read() {
        let old = [load(0, 6, 4), load(4, 44, 4)];
        // The new tables end in the first.
        let (_, held) =
            Fixture::new(60, [4, 8], &old, &[load(0, 20, 4), load(4, 30, 4)]).relocate();
        assert_eq!(held, [false, true]);
        // Records lie after the first resident that leaves room for them.
        let between = load(4, 10, 2);
        for (old, records) in
            [([old[0], old[1]], 10), ([old[0], between], 12), ([between, old[0]], 12)]
        {
            let fixture = Fixture::new(50, [4, 6], &old, &[load(4, records, 2), load(5, 20, 1)]);
            assert_eq!(fixture.saved.address, records * PAGE);
            let (_, held) = fixture.relocate();
            assert_eq!(held, [false, true]);
        }
        // None at all.
        let full = [load(0, 4, 46)];
        let (found, held) = Fixture::new(50, [4, 4], &full, &[load(0, 4, 2)]).relocate();
        assert_eq!((found, &held[..]), (Moved::default(), &[false][..]));
    }

    #[test]
    fn any_arrangement_is_moved_right() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) % below
        };
        let (mut there, mut all) = (0, 0);
        for _ in 0..2000 {
            let pages = 60 + random(200);
            let tables = [7 + random(9), 7 + random(9)];
            let mut plan = |tables: u64| {
                // Disjoint in the arena and in the file, in either order.
                let (mut loads, mut address, mut offset) = (Vec::new(), tables, random(6));
                loop {
                    address += random(2) * random(20);
                    let bytes = 1 + random(9);
                    if address + bytes > pages || loads.len() == 12 {
                        break;
                    }
                    loads.push(load(offset, address, bytes));
                    (address, offset) = (address + bytes, offset + bytes + random(2) * random(3));
                }
                for at in 1..loads.len() {
                    let other = random(at as u64 + 1) as usize;
                    if random(3) == 0 && loads[at].bytes == loads[other].bytes {
                        let address = loads[at].address;
                        loads[at].address = loads[other].address;
                        loads[other].address = address;
                    }
                }
                loads
            };
            let (old, new) = (plan(tables[0]), plan(tables[1]));
            let (moved, held) = Fixture::new(pages, tables, &old, &new).relocate();
            let bytes: u64 = new
                .iter()
                .zip(&held)
                .filter(|(_, held)| **held)
                .map(|(l, _)| u64::from(l.bytes))
                .sum();
            assert!(moved.kept_bytes + moved.moved_bytes >= bytes);
            there += held.iter().filter(|held| **held).count();
            all += held.len();
        }
        assert!(there * 20 > all, "{there} of {all}");
    }
}
