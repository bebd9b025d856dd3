//! The free memory over time that loads compete for.

use crate::slice::Slices;
use eyelet::pack::PAGE;
use std::cell::Cell;
use std::ops::Range;

/// For every address the last moment at which what was placed there so far is used: FlexNN's
/// ⟨time, address⟩ plane, seen from above. Segments are adjacent and cover `range`.
#[derive(Clone, Debug)]
pub struct Skyline {
    /// Starts, and the last use of the addresses from there to the next start. -1: not used yet.
    segments: Vec<(u64, i64)>,
    end: u64,
    /// The segments as they were once.
    saved: Vec<(u64, i64)>,
    /// How many segments were looked at to find places.
    candidates: Cell<usize>,
}

/// A place in a [`Skyline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub address: u64,
    /// The latest use of any byte there; negative if none in this inference.
    pub last_use: i64,
}

impl Skyline {
    /// Memory that nothing has used.
    pub fn new(range: Range<u64>) -> Self {
        let end = range.end.max(range.start);
        let segments = vec![(range.start, -1)];
        Self { segments, end, saved: Vec::new(), candidates: Cell::new(0) }
    }

    /// How many segments were looked at to find places, which is most of what that takes where
    /// there are many.
    pub fn candidates(&self) -> usize {
        self.candidates.get()
    }

    /// Keeps it as it is, to be had again: only the last time counts.
    pub fn save(&mut self) {
        self.saved.clone_from(&self.segments);
    }

    /// As it was when it was saved.
    pub fn restore(&mut self) {
        std::mem::swap(&mut self.segments, &mut self.saved);
    }

    /// Index of the segment that starts at `address`, which is made if need be.
    fn split(&mut self, address: u64) -> usize {
        match self.segments.binary_search_by_key(&address, |segment| segment.0) {
            Ok(index) => index,
            Err(index) => {
                if address < self.end && index > 0 {
                    self.segments.insert(index, (address, self.segments[index - 1].1));
                }
                index
            }
        }
    }

    /// Marks bytes as used until `last_use`.
    pub fn raise(&mut self, range: Range<u64>, last_use: i64) {
        if range.is_empty() {
            return;
        }
        let first = self.split(range.start);
        let after = self.split(range.end);
        for segment in &mut self.segments[first..after] {
            segment.1 = segment.1.max(last_use);
        }
        // Join equal neighbours, so that the list stays short.
        let low = first.saturating_sub(1);
        let high = (after + 1).min(self.segments.len());
        let mut kept = low + 1;
        for index in low + 1..high {
            if self.segments[index].1 != self.segments[kept - 1].1 {
                self.segments[kept] = self.segments[index];
                kept += 1;
            }
        }
        self.segments.drain(kept.min(high)..high);
    }

    /// Marks a load at an address as used: each page until the last step that uses any of it.
    pub fn raise_load(&mut self, slices: &Slices, read: usize, address: u64) {
        let read = &slices.reads[read];
        let parts = &slices.parts[read.parts.clone()];
        let starts = parts[1..].iter().map(|part| part.start - read.offset);
        let ends = starts.clone().map(|start| start.next_multiple_of(PAGE)).chain([read.bytes]);
        let starts = [0].into_iter().chain(starts.map(|start| start / PAGE * PAGE));
        for ((start, end), part) in starts.zip(ends).zip(parts) {
            self.raise(address + start..address + end, part.last as i64 + 1);
        }
    }

    /// The latest use of any of these bytes; -1 if none.
    pub fn last_use(&self, range: Range<u64>) -> i64 {
        let first = self.segments.partition_point(|segment| segment.0 <= range.start);
        let inside = self.segments[first.saturating_sub(1)..].iter();
        inside.take_while(|s| s.0 < range.end).map(|s| s.1).max().unwrap_or(-1)
    }

    /// The place for `bytes` whose last use is best by `choice`, and before `time`.
    pub fn find(&self, bytes: u64, align: u64, time: i64, choice: Choice) -> Option<Place> {
        self.candidates.set(self.candidates.get() + self.segments.len());
        let best: Cell<Option<Place>> = Cell::new(None);
        let consider = |address: u64, last_use: i64| {
            if best.get().is_none_or(|best| choice.prefers(last_use, best.last_use)) {
                best.set(Some(Place { address, last_use }));
            }
            choice.ends_with(last_use, time)
        };
        // Later uses change nothing any more: the place is worse than the best so far already, or
        // its use is as late as possible.
        let enough = || match choice {
            Choice::Earliest => best.get().map_or(i64::MAX, |best| best.last_use),
            Choice::Latest | Choice::Lowest => time - 1,
        };
        // Runs of segments that are free at that time, if they are long enough.
        let free = |segment: &(u64, i64)| segment.1 < time;
        let mut next = 0;
        while let Some(skipped) = self.segments[next..].iter().position(free) {
            let first = next + skipped;
            let run = self.segments[first..].iter().take_while(|segment| free(segment)).count();
            next = first + run;
            let run_start = self.segments[first].0;
            let run_end = self.segments.get(next).map_or(self.end, |segment| segment.0);
            if run_end - run_start < bytes {
                continue;
            }
            for index in first..next {
                let (start, used) = self.segments[index];
                // Both places below cover some of this segment: they are no better than it.
                if choice == Choice::Earliest
                    && best.get().is_some_and(|best| used >= best.last_use)
                {
                    continue;
                }
                let end = self.segments.get(index + 1).map_or(self.end, |next| next.0);
                let address = start.next_multiple_of(align);
                // If the segment alone has room, any place in it is as good.
                let within = address + bytes <= end;
                if address < end && address + bytes <= run_end {
                    let last_use = match within {
                        true => used,
                        false => self.highest_from(index, address + bytes, enough()),
                    };
                    if consider(address, last_use) {
                        return best.get();
                    }
                    if within {
                        continue;
                    }
                }
                // Aligned to the end of this segment: where what follows is used later.
                let aligned = end.checked_sub(bytes).map(|address| address / align * align);
                if let Some(address) = aligned.filter(|address| *address >= run_start)
                    && consider(address, self.highest_to(index, address, enough()))
                {
                    return best.get();
                }
            }
        }
        best.get()
    }

    /// The latest use from a segment on to an address, or one that is `enough`.
    fn highest_from(&self, first: usize, end: u64, enough: i64) -> i64 {
        let mut highest = i64::MIN;
        for &(_, used) in self.segments[first..].iter().take_while(|segment| segment.0 < end) {
            highest = highest.max(used);
            if highest >= enough {
                break;
            }
        }
        highest
    }

    /// The latest use from an address on to a segment, or one that is `enough`.
    fn highest_to(&self, last: usize, start: u64, enough: i64) -> i64 {
        let mut highest = i64::MIN;
        for &(address, used) in self.segments[..=last].iter().rev() {
            highest = highest.max(used);
            if highest >= enough || address <= start {
                break;
            }
        }
        highest
    }
}

/// Which of the possible places to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The one that has been free the longest: a load there can start first.
    Earliest,
    /// The one that was used last: scratch there delays no load.
    Latest,
    /// The lowest address: wastes least.
    Lowest,
}

impl Choice {
    /// Whether a place with this last use is better than one that was found before.
    fn prefers(self, last_use: i64, found: i64) -> bool {
        match self {
            Self::Earliest => last_use < found,
            Self::Latest => last_use > found,
            Self::Lowest => false,
        }
    }

    /// Whether no place that is free at `time` is better than one with this last use: nothing that is free was used later.
    fn ends_with(self, last_use: i64, time: i64) -> bool {
        match self {
            Self::Earliest => false,
            Self::Latest => last_use + 1 == time,
            Self::Lowest => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slice::{Part, Read};
    use proptest::prelude::*;

    #[test]
    fn skyline_prefers_what_has_been_free_longest() {
        let mut sky = Skyline::new(0..100);
        sky.raise(0..40, 5);
        sky.raise(40..70, 3);
        sky.raise(70..100, 9);
        let find = |bytes, time, choice| sky.find(bytes, 1, time, choice).map(|p| p.address);
        assert_eq!(find(20, 9, Choice::Earliest), Some(40));
        assert_eq!(find(40, 9, Choice::Earliest), Some(0));
        assert_eq!(find(71, 9, Choice::Earliest), None);
        assert_eq!(find(20, 10, Choice::Latest), Some(70));
        assert_eq!(find(35, 9, Choice::Lowest), Some(0));
    }

    #[test]
    fn a_load_goes_slice_by_slice() {
        // Three slices, of which the second begins within a page of the first; the third is used
        // again before it.
        let part = |start, last| Part { start, last };
        let parts = vec![part(PAGE + 8, 3), part(3 * PAGE + 100, 5), part(6 * PAGE, 4)];
        let (offset, bytes) = (PAGE, 7 * PAGE);
        let read = Read { offset, bytes, first: 3, last: 5, parts: 0..3, resident: false };
        let (steps, read_of) = Default::default();
        let slices = Slices { steps, reads: vec![read], read_of, parts };
        let mut sky = Skyline::new(0..20 * PAGE);
        sky.raise_load(&slices, 0, 10 * PAGE);
        // A page that both need is there as long as either does.
        let used: Vec<i64> = (10..18).map(|at| sky.last_use(at * PAGE..(at + 1) * PAGE)).collect();
        assert_eq!(used, [4, 4, 6, 6, 6, 5, 5, -1]);
    }

    proptest! {
        #[test]
        fn skyline_agrees_with_bytes(
            raises in prop::collection::vec((0u64..64, 1u64..20, 0i64..30), 0..30),
            bytes in 1u64..30, time in 0i64..30,
        ) {
            let mut sky = Skyline::new(0..64);
            let mut plain = [-1i64; 64];
            for (start, len, used) in raises {
                let end = (start + len).min(64);
                sky.raise(start..end, used);
                for byte in &mut plain[start as usize..end as usize] {
                    *byte = (*byte).max(used);
                }
            }
            let best = (0..=(64 - bytes) as usize)
                .map(|at| *plain[at..at + bytes as usize].iter().max().unwrap())
                .filter(|used| *used < time).min();
            let found = sky.find(bytes, 1, time, Choice::Earliest);
            prop_assert_eq!(found.map(|place| place.last_use), best);
            if let Some(place) = found {
                let at = place.address as usize;
                let used = *plain[at..at + bytes as usize].iter().max().unwrap();
                prop_assert_eq!(used, place.last_use);
            }
        }
    }
}
