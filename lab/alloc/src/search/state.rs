//! What a search knows at a moment: which buffers are placed, and how low each other one can still lie.
//!
//! Every change is written on a trail, by which it is taken back.

use crate::{Buffer, sweep};
use std::ops::Range;

/// The floor of a section that has no buffer left.
pub const EMPTY: u64 = u64::MAX;

/// Buffers have indices of their own here, by the first section they live in; those without a size, which
/// may lie anywhere, have none.
#[derive(Debug)]
pub struct State {
    /// What an index stands for in the problem.
    pub ids: Vec<usize>,
    pub spans: Vec<Range<usize>>,
    pub sizes: Vec<u64>,
    pub aligns: Vec<u64>,
    pub lifetimes: Vec<u64>,
    /// Whom a buffer meets.
    pub rivals: Vec<Vec<u32>>,
    pub capacity: u64,

    /// Buffers of each section, roughly from the lowest up.
    pub members: Vec<Vec<u32>>,
    /// Per section: bytes that are not placed.
    pub left: Vec<u64>,
    /// Per section: the lowest offset that a buffer may still get, and how many may get it.
    pub floors: Vec<u64>,
    pub on_floor: Vec<u32>,
    /// Per section: buffers that are not placed and live in the next one too.
    pub links: Vec<u32>,

    /// Per buffer: its offset if it is placed, else the lowest that it can have.
    pub lowest: Vec<u64>,
    pub placed: Vec<bool>,
    /// Sections to look at again.
    pub dirty: Bits,
    trail: Vec<Change>,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Placed(u32),
    Lowest(u32, u64),
    Floor(u32, u64),
    OnFloor(u32, u32),
}

/// How far the trail has come.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

impl State {
    pub fn new(buffers: &[Buffer], capacity: u64) -> Self {
        let (all, count) = sweep::sections(buffers);
        let mut ids: Vec<usize> = (0..buffers.len()).filter(|&id| buffers[id].size > 0).collect();
        ids.sort_by_key(|&id| (all[id].start, all[id].end, buffers[id].size, id));
        let spans: Vec<Range<usize>> = ids.iter().map(|&id| all[id].clone()).collect();
        let sizes: Vec<u64> = ids.iter().map(|&id| buffers[id].size).collect();
        let mut members = vec![Vec::new(); count];
        let (mut left, mut links) = (vec![0; count], vec![0; count]);
        for (buffer, span) in spans.iter().enumerate() {
            for section in span.clone() {
                members[section].push(buffer as u32);
                left[section] += sizes[buffer];
            }
            links[span.start..span.end - 1].iter_mut().for_each(|links| *links += 1);
        }
        let mut rivals = vec![Vec::new(); ids.len()];
        for (one, span) in spans.iter().enumerate() {
            let met = |&other: &usize| spans[other].start < span.end;
            for other in (one + 1..ids.len()).take_while(met) {
                rivals[one].push(other as u32);
                rivals[other].push(one as u32);
            }
        }
        let mut dirty = Bits(vec![0; count.div_ceil(64)]);
        if count > 0 {
            dirty.set(0..count);
        }
        Self {
            aligns: ids.iter().map(|&id| buffers[id].align).collect(),
            lifetimes: ids
                .iter()
                .map(|&id| buffers[id].upper.abs_diff(buffers[id].lower))
                .collect(),
            rivals,
            capacity,
            members,
            left,
            floors: vec![0; count],
            on_floor: vec![0; count],
            links,
            lowest: vec![0; ids.len()],
            placed: vec![false; ids.len()],
            dirty,
            trail: Vec::new(),
            spans,
            sizes,
            ids,
        }
    }

    /// Gives a buffer the lowest offset that it can have. The others that it meets go above it.
    pub fn place(&mut self, buffer: usize) {
        self.placed[buffer] = true;
        self.trail.push(Change::Placed(buffer as u32));
        let span = self.spans[buffer].clone();
        for left in &mut self.left[span.clone()] {
            *left -= self.sizes[buffer];
        }
        for links in &mut self.links[span.start..span.end - 1] {
            *links -= 1;
        }
        self.dirty.set(span);
        let top = self.lowest[buffer] + self.sizes[buffer];
        for index in 0..self.rivals[buffer].len() {
            let rival = self.rivals[buffer][index] as usize;
            if !self.placed[rival] && self.lowest[rival] < top {
                self.raise(rival, top);
            }
        }
    }

    /// A buffer cannot lie below `to`.
    pub fn raise(&mut self, buffer: usize, to: u64) {
        let to = to.next_multiple_of(self.aligns[buffer]);
        self.trail.push(Change::Lowest(buffer as u32, self.lowest[buffer]));
        self.lowest[buffer] = to;
        self.dirty.set(self.spans[buffer].clone());
    }

    /// Keeps what was found out about a section.
    pub fn set_floor(&mut self, section: usize, floor: u64, on_floor: u32) {
        if self.floors[section] != floor {
            self.trail.push(Change::Floor(section as u32, self.floors[section]));
            self.floors[section] = floor;
        }
        if self.on_floor[section] != on_floor {
            self.trail.push(Change::OnFloor(section as u32, self.on_floor[section]));
            self.on_floor[section] = on_floor;
        }
    }

    pub fn mark(&self) -> Mark {
        Mark(self.trail.len())
    }

    /// Back to how it was at the mark.
    pub fn undo(&mut self, mark: Mark) {
        for change in self.trail.drain(mark.0..).rev() {
            match change {
                Change::Placed(buffer) => {
                    let buffer = buffer as usize;
                    self.placed[buffer] = false;
                    let span = self.spans[buffer].clone();
                    for left in &mut self.left[span.clone()] {
                        *left += self.sizes[buffer];
                    }
                    for links in &mut self.links[span.start..span.end - 1] {
                        *links += 1;
                    }
                }
                Change::Lowest(buffer, lowest) => self.lowest[buffer as usize] = lowest,
                Change::Floor(section, floor) => self.floors[section as usize] = floor,
                Change::OnFloor(section, on_floor) => self.on_floor[section as usize] = on_floor,
            }
        }
    }
}

/// A set of sections.
#[derive(Debug)]
pub struct Bits(Vec<u64>);

impl Bits {
    /// Adds a range that is not empty.
    pub fn set(&mut self, range: Range<usize>) {
        let (first, last) = (range.start / 64, (range.end - 1) / 64);
        let head = !0 << (range.start % 64);
        let tail = !0 >> (63 - (range.end - 1) % 64);
        if first == last {
            self.0[first] |= head & tail;
            return;
        }
        self.0[first] |= head;
        self.0[first + 1..last].fill(!0);
        self.0[last] |= tail;
    }

    /// Takes out the first that is not before the word of `from`.
    pub fn take_from(&mut self, from: usize) -> Option<usize> {
        let word = (from / 64..self.0.len()).find(|&word| self.0[word] != 0)?;
        let bits = &mut self.0[word];
        let bit = bits.trailing_zeros() as usize;
        *bits &= *bits - 1;
        Some(word * 64 + bit)
    }

    pub fn clear(&mut self) {
        self.0.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_taken_in_order() {
        let mut bits = Bits(vec![0; 4]);
        bits.set(3..5);
        bits.set(60..200);
        let taken: Vec<usize> = std::iter::from_fn(|| bits.take_from(0)).collect();
        assert_eq!(taken, (3..5).chain(60..200).collect::<Vec<_>>());
    }

    #[test]
    fn placing_is_taken_back() {
        let buffers = [Buffer::new(0, 4, 3), Buffer::new(2, 6, 5), Buffer::new(5, 9, 0)];
        let mut state = State::new(&buffers, 10);
        let before = format!("{state:?}");
        let mark = state.mark();
        state.place(0);
        assert_eq!((state.lowest[1], state.links[0], state.left[0]), (3, 1, 5));
        state.set_floor(0, 3, 1);
        state.undo(mark);
        assert_eq!(format!("{state:?}"), before);
    }
}
