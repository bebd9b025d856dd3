//! In which order a group makes its lines, and how many of them its rings hold.
//!
//! Layers begin in their order, and end in it: what the [bound](crate::bound) says of an interval
//! of layers holds of that.

use super::group::Chain;
use std::ops::Range;

/// Lines that one step makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The number of the layer in its group.
    pub member: usize,
    pub lines: Range<u32>,
}

/// In which order a group makes its lines.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    pub pieces: Vec<Piece>,
    /// For each inner buffer of the chain the lines of its ring, or 0 if all of it is needed.
    pub rings: Vec<u32>,
}

impl Schedule {
    /// Makes lines of the last layer one chunk after the other, and each time of the others what
    /// that needs and has not been made. `lines` are those of a chunk of the tallest layer; layers
    /// with fewer lines have smaller chunks.
    pub fn new(chain: &Chain, lines: u32) -> Self {
        let tallest = chain.members.iter().map(|member| member.height).max().unwrap_or(1).max(1);
        let chunks =
            chain.members.iter().map(|member| chunk(lines, member.height, tallest, member.tile));
        let mut run = Run {
            chain,
            chunks: chunks.collect(),
            done: vec![0; chain.members.len()],
            pieces: Vec::new(),
            row: (usize::MAX, 0),
            rings: vec![0; chain.inner.len()],
        };
        let Some(last) = chain.members.len().checked_sub(1) else { return Self::default() };
        let height = chain.members[last].height;
        while run.done[last] < height {
            run.advance(last, (run.done[last] + run.chunks[last]).min(height));
            // The others that no one waits for keep up.
            for index in (0..last).filter(|&index| chain.members[index].sink) {
                let own = u64::from(chain.members[index].height);
                let share = own * u64::from(run.done[last]) / u64::from(height);
                run.advance(index, share as u32);
            }
        }
        run.finish()
    }
}

/// The lines that a layer makes at a time, whole tiles of them, if the tallest layer of its group
/// makes `lines`.
pub(super) fn chunk(lines: u32, height: u32, tallest: u32, tile: u32) -> u32 {
    let share = u64::from(lines) * u64::from(height) / u64::from(tallest);
    (share as u32).max(1).next_multiple_of(tile)
}

struct Run<'a> {
    chain: &'a Chain,
    chunks: Vec<u32>,
    /// Lines of each member that have been made.
    done: Vec<u32>,
    pieces: Vec<Piece>,
    /// Who made the last pieces in a row, and its first line of these.
    row: (usize, u32),
    /// Most lines of each inner buffer that had to be kept at once.
    rings: Vec<u32>,
}

impl Run<'_> {
    fn advance(&mut self, index: usize, target: u32) {
        let chain = self.chain;
        let member = &chain.members[index];
        let target = target.next_multiple_of(member.tile).min(member.height);
        while self.done[index] < target {
            let (done, chunk) = (self.done[index], self.chunks[index]);
            let left = target - done;
            let end = done + if left < 2 * chunk { left } else { chunk };
            for link in &member.links {
                let wanted = link.wanted(end, chain.members[link.from].height);
                // Most often that has been made.
                if wanted > self.done[link.from] {
                    self.advance(link.from, wanted);
                }
            }
            self.follow(index, end);
            self.make(index, end);
        }
    }

    /// Before a member begins all members before it have begun, and before it ends they have ended.
    fn follow(&mut self, index: usize, end: u32) {
        let Some(before) = index.checked_sub(1) else { return };
        let height = self.chain.members[before].height;
        if end >= self.chain.members[index].height {
            self.advance(before, height);
        } else if self.done[before] == 0 {
            self.advance(before, 1.min(height));
        }
    }

    fn make(&mut self, index: usize, end: u32) {
        let lines = self.done[index]..end;
        // Lines that a layer makes in a row may be made slice by slice. Then all of them are there
        // at once, whichever are read.
        if self.row.0 != index {
            self.row = (index, lines.start);
        }
        let start = self.row.1;
        for &at in &self.chain.written[index] {
            let (inner, kept) = (&self.chain.inner[at], &mut self.rings[at]);
            let members = &self.chain.members;
            let (mut high, mut low) = (end, start);
            for &writer in &inner.writers {
                let done = self.done[writer];
                high = high.max(done);
                if done < members[writer].height {
                    low = low.min(done);
                }
            }
            for (reader, window) in &inner.readers {
                let done = self.done[*reader];
                if done < members[*reader].height {
                    low = low.min(window.first(done));
                }
            }
            *kept = (*kept).max(high.saturating_sub(low));
        }
        self.done[index] = end;
        self.pieces.push(Piece { member: index, lines });
    }

    /// Rings as large as they must be, and pieces cut where rings end.
    fn finish(self) -> Schedule {
        let mut ends: Vec<Vec<u32>> = vec![Vec::new(); self.chain.members.len()];
        let mut rings = self.rings;
        for (inner, ring) in self.chain.inner.iter().zip(&mut rings) {
            let tile = inner.straight.iter().map(|&index| self.chain.members[index].tile).max();
            *ring = ring.next_multiple_of(tile.unwrap_or(1));
            if *ring >= inner.height {
                *ring = 0;
                continue;
            }
            inner.straight.iter().for_each(|&index| ends[index].push(*ring));
        }
        let mut pieces = Vec::with_capacity(self.pieces.len());
        for Piece { member, lines } in self.pieces {
            let mut start = lines.start;
            while start < lines.end {
                let next = ends[member].iter().map(|ring| (start / ring + 1) * ring).min();
                let end = next.map_or(lines.end, |next| next.min(lines.end));
                pieces.push(Piece { member, lines: start..end });
                start = end;
            }
        }
        Schedule { pieces, rings }
    }
}
