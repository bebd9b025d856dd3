//! Addresses for pieces, and for what is of one plan alone.

use super::pieces::{Holdings, Item, Piece, pages};
use std::cmp::Reverse;
use std::ops::Range;

/// Holes of fewer bytes are not filled with what has to be cut for it.
const LEAST_HOLE: u64 = 256 << 10;

/// Where the pieces of all plans lie.
pub(super) struct Slots {
    placed: Vec<Placed>,
}

/// A piece, or a part of one.
struct Placed {
    piece: Piece,
    address: u64,
}

impl Placed {
    fn range(&self) -> Range<u64> {
        self.address..self.address + pages(&self.piece.bytes).1
    }
}

impl Slots {
    /// Places pieces from an address on.
    pub(super) fn new(all: &[Holdings], shared: &[Piece], start: u64) -> Self {
        let mut slots = Self { placed: Vec::new() };
        for plan in 0..all.len() {
            let has = |piece: &&Piece| piece.plans.contains(&plan);
            if !shared.iter().any(|piece| has(&piece)) {
                continue;
            }
            let mut new: Vec<Piece> =
                shared.iter().filter(|piece| *piece.plans.start() == plan).cloned().collect();
            new.sort_by_key(|piece| (Reverse(*piece.plans.end()), piece.bytes.start));
            let within: Vec<&Piece> = shared.iter().filter(has).collect();
            for item in &all[plan].items {
                let own = rest(item, &within);
                new.extend(own.map(|bytes| Piece { bytes, plans: plan..=plan }));
            }
            for piece in new {
                slots.put(all, piece, start);
            }
        }
        slots
    }

    /// What a plan keeps: bytes of the weights section, and the address of the first page that they lie in.
    pub(super) fn of_plan(&self, plan: usize) -> impl Iterator<Item = (Range<u64>, u64)> {
        let here = self.placed.iter().filter(move |placed| placed.piece.plans.contains(&plan));
        here.map(|placed| (placed.piece.bytes.clone(), placed.address))
    }

    /// Places a piece at the lowest place that is free in its plans, which is free in the first of them; cut, if that fills a hole.
    fn put(&mut self, all: &[Holdings], mut piece: Piece, start: u64) {
        let plan = *piece.plans.start();
        let here = self.placed.iter().filter(|placed| placed.piece.plans.contains(&plan));
        let mut taken: Vec<Range<u64>> = here.map(Placed::range).collect();
        taken.sort_by_key(|range| range.start);
        let mut address = start;
        for range in taken {
            let hole = range.start.saturating_sub(address);
            if pages(&piece.bytes).1 <= hole {
                break;
            }
            let cut = if hole >= LEAST_HOLE { cut(all, &piece, hole) } else { piece.bytes.start };
            if cut - piece.bytes.start >= LEAST_HOLE / 2 {
                let bytes = piece.bytes.start..cut;
                self.placed.push(Placed { piece: Piece { bytes, ..piece.clone() }, address });
                piece.bytes.start = cut;
            }
            address = address.max(range.end);
        }
        self.placed.push(Placed { piece, address });
    }
}

/// Where a piece can be cut in all its plans so that what is before takes no more than these bytes; its first byte if nowhere.
fn cut(all: &[Holdings], piece: &Piece, room: u64) -> u64 {
    let (first, _) = pages(&piece.bytes);
    let mut cut = (first + room).min(piece.bytes.end);
    loop {
        let items = all[piece.plans.clone()].iter().flat_map(|of| &of.items);
        let around = items.filter(|item| item.bytes.contains(&piece.bytes.start));
        let last = around.map(|item| item.cut_before(cut)).min().unwrap_or(0);
        if last <= piece.bytes.start {
            return piece.bytes.start;
        }
        if last == cut {
            return cut;
        }
        cut = last;
    }
}

/// What of an item is in none of these pieces, which are in ascending order.
fn rest(item: &Item, pieces: &[&Piece]) -> impl Iterator<Item = Range<u64>> {
    let own = item.bytes.clone();
    let inside = pieces.iter().map(|piece| piece.bytes.clone());
    let inside = inside.filter(|bytes| item.has(bytes));
    let (mut starts, mut ends) = (vec![own.start], Vec::new());
    for bytes in inside {
        ends.push(bytes.start);
        starts.push(bytes.end);
    }
    ends.push(own.end);
    starts.into_iter().zip(ends).map(|(start, end)| start..end).filter(|bytes| !bytes.is_empty())
}
