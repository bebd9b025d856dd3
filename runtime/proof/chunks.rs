//! Which parts of a plan's arena may lose their memory between two inferences.
//!
//! There are two kinds of chunks. *Room* holds nothing between two inferences: buffers, scratch, and where a plan
//! streams what it reads. *Weights* are the residents of a plan that streams nothing: they can be read again.
//! Tables stay, and so do the residents of a plan that streams.
//!
//! The chunks depend on the plan alone. The host asks how many chunks there are when it makes a schedule, and
//! the device finds the same ones.

use super::{Proven, Range64, image};
use core::ops::Range;
use heapless::Vec;

/// Most times that all records are looked at: stretches that take longer to find stay in memory. It bounds
/// the work, whatever the pack.
const ROUNDS: usize = 4096;

/// The most stretches of weights that are known at once: what lies in further ones stays in memory.
const STRETCHES: usize = 32;

impl Proven<'_> {
    /// Whether the plan reads weights while it computes.
    pub fn streams(&self) -> bool {
        !self.plan.loads.is_empty()
    }

    /// Where chunks of weights of `bytes` bytes may start: bytes from the start of the arena, ascending, multiples of `page`.
    /// They overlap neither each other nor room.
    pub fn weight_chunks(&self, bytes: u64, page: u64) -> impl Iterator<Item = u64> + Clone {
        starts(self.weight_stretches(page.max(1)), bytes)
    }

    /// Where chunks of room may start, as those of weights.
    pub fn room_chunks(&self, bytes: u64, page: u64) -> impl Iterator<Item = u64> + Clone {
        let page = page.max(1);
        let weights: Vec<Range64, STRETCHES> = self
            .weight_stretches(page)
            .map(|range| Range64 { start: range.start, end: range.end })
            .collect();
        let kept = move || self.residents().chain(weights.clone());
        starts(Stretches::new(self, page, kept), bytes)
    }

    /// How many chunks of `bytes` bytes may leave memory between two inferences, on a system with pages of `page`.
    pub fn chunks(&self, bytes: u64, page: u64) -> u32 {
        let all = self.weight_chunks(bytes, page).count() + self.room_chunks(bytes, page).count();
        u32::try_from(all).unwrap_or(u32::MAX)
    }

    /// Stretches of pages that hold weights alone, or nothing.
    fn weight_stretches(&self, page: u64) -> impl Iterator<Item = Range<u64>> + Clone {
        let all = Stretches::new(self, page, move || self.working());
        let streams = self.streams();
        let found = all.take_while(move |_| !streams).filter(|range| range.start < range.end);
        found.take(STRETCHES)
    }

    fn residents(&self) -> impl Iterator<Item = Range64> + Clone {
        self.plan.resident.iter().map(|load| image(&load))
    }

    /// Where buffers and scratch lie.
    fn working(&self) -> impl Iterator<Item = Range64> + Clone {
        let buffers = self.skeleton.tensors.iter().map(|tensor| self.buffer_range(tensor));
        let steps = self.plan.steps.iter();
        buffers.chain(steps.map(|step| Range64::of(step.scratch, step.scratch_bytes)))
    }
}

/// Where chunks of `bytes` bytes start that fit these stretches.
fn starts(
    stretches: impl Iterator<Item = Range<u64>> + Clone,
    bytes: u64,
) -> impl Iterator<Item = u64> + Clone {
    let step = bytes.max(1);
    stretches.flat_map(move |stretch| {
        let count = (stretch.end - stretch.start) / step;
        (0..count).map(move |at| stretch.start + at * step)
    })
}

/// The longest stretches of whole pages in which nothing lies that is kept.
#[derive(Clone)]
struct Stretches<K> {
    kept: K,
    page: u64,
    at: u64,
    end: u64,
    rounds: usize,
}

impl<K: Fn() -> I, I: Iterator<Item = Range64>> Stretches<K> {
    fn new(proven: &Proven<'_>, page: u64, kept: K) -> Self {
        let at = proven.arena.start.next_multiple_of(page);
        Self { kept, page, at, end: proven.arena.end / page * page, rounds: ROUNDS }
    }

    fn kept(&self) -> impl Iterator<Item = Range64> {
        (self.kept)().filter(|range| range.start < range.end)
    }

    /// The first page at `at` or later in which nothing lies that is kept.
    fn after_kept(&mut self, mut at: u64) -> Option<u64> {
        loop {
            self.rounds = self.rounds.checked_sub(1)?;
            let before = at;
            for kept in self.kept() {
                if kept.start < at + self.page && at < kept.end {
                    at = kept.end.next_multiple_of(self.page);
                }
            }
            if at == before {
                return Some(at);
            }
        }
    }
}

impl<K: Fn() -> I, I: Iterator<Item = Range64>> Iterator for Stretches<K> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        let (page, end) = (self.page, self.end);
        let at = self.after_kept(self.at).filter(|at| *at < end)?;
        self.rounds = self.rounds.checked_sub(1)?;
        let ahead = self.kept().filter(|kept| kept.start >= at).map(|kept| kept.start);
        let until = ahead.min().unwrap_or(end).min(end) / page * page;
        let stretch = at..until.max(at);
        // Past what ended it, or past all.
        self.at = if until < end { until.max(at) + page } else { end };
        Some(stretch)
    }
}
