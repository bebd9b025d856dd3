//! A complete search for a placement within a capacity.
//!
//! As in Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning"
//! (ASPLOS 2023), only placements are looked for in which every buffer rests on another or on the ground
//! (any other can be lowered into one), what follows from a placement is inferred section by section
//! ([`infer`]), and what falls apart in time is searched apart. Beyond it:
//!
//! - A step decides one buffer in the lowest part of some valley of the skyline: it lies there, or it does
//!   not, and then it lies above one of those that it meets. Every placement is reached one way only.
//! - What failed is remembered by what was left and how low that could lie: other ways to the same skyline,
//!   such as two buffers of one lifetime swapped, fail at once, in later runs too.
//! - A run gives up after some failures and the next decides in another order, later ones with noise. The
//!   limit grows, so that in the end a run completes: the search decides every problem, given time.

mod infer;
mod state;

use super::Buffer;
use infer::Job;
use state::{EMPTY, State};
use std::ops::Range;
use std::time::Instant;

/// What a search came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Placed(Vec<u64>),
    /// There is no placement.
    Nothing,
    /// The limit came first.
    Undecided,
}

/// Failures after which the first run gives up; each later one takes a tenth more.
const FAILURES: f64 = 100.0;
/// Entries of the memory of failures.
const MEMORY: usize = 1 << 20;
/// Pairs of buffers that meet, above which a problem is not searched: it would take too much memory.
const PAIRS: usize = 1 << 24;

#[derive(Debug)]
pub struct Search {
    state: State,
    buffers: usize,
    /// The most live bytes a buffer meets, as a part of the capacity.
    crowd: Vec<f64>,
    max_work: u64,
    deadline: Option<Instant>,

    work: u64,
    nodes: u64,
    failures: u64,
    max_failures: u64,
    style: Style,
    /// Which buffer comes first where several may.
    priority: Vec<f64>,
    failed: Vec<u128>,
    jobs: Vec<Job>,
}

/// Where a run decides next.
#[derive(Clone, Copy, Debug)]
enum Style {
    /// Where the fewest buffers may lie, then lowest.
    Fewest,
    /// Lowest, then where the fewest may lie.
    Lowest,
    /// Where the least may be wasted, then fewest.
    Tightest,
}

/// The run gave up.
struct Abort;

impl Search {
    pub fn new(
        buffers: &[Buffer],
        capacity: u64,
        max_work: Option<u64>,
        deadline: Option<Instant>,
    ) -> Self {
        let pairs = too_many_pairs(buffers);
        let state = State::new(if pairs { &[] } else { buffers }, capacity);
        let crowd = |span: &Range<usize>| {
            let most = state.left[span.clone()].iter().max().copied().unwrap_or(0);
            most as f64 / capacity.max(1) as f64
        };
        Self {
            crowd: state.spans.iter().map(crowd).collect(),
            max_work: if pairs { 0 } else { max_work.unwrap_or(u64::MAX) },
            priority: vec![0.0; state.ids.len()],
            state,
            buffers: buffers.len(),
            deadline,
            work: 0,
            nodes: 0,
            failures: 0,
            max_failures: 0,
            style: Style::Fewest,
            failed: Vec::new(),
            jobs: Vec::new(),
        }
    }

    /// Searches, and says how much work it was.
    pub fn run(mut self) -> (Found, u64) {
        let found = self.runs();
        (found, self.work.max(1))
    }

    fn runs(&mut self) -> Found {
        if self.is_over() {
            return Found::Undecided;
        }
        if !self.propagate() {
            return Found::Nothing;
        }
        self.failed = vec![0; MEMORY];
        let sections = self.state.floors.len();
        let mut random = Random(1);
        let mut patience = FAILURES;
        for run in 0.. {
            self.style = [Style::Fewest, Style::Lowest, Style::Tightest][run % 3];
            // Each order with each style as it is, and from then on with noise.
            self.prioritise(run / 3 % 4, (run >= 12).then_some(&mut random));
            self.max_failures = self.failures + patience as u64;
            patience *= 1.1;
            match self.parts(0..sections) {
                Ok(true) => return Found::Placed(self.offsets()),
                Ok(false) => return Found::Nothing,
                Err(Abort) if self.is_over() => return Found::Undecided,
                Err(Abort) => {}
            }
        }
        Found::Undecided
    }

    fn offsets(&self) -> Vec<u64> {
        let mut offsets = vec![0; self.buffers];
        for (&id, &offset) in self.state.ids.iter().zip(&self.state.lowest) {
            offsets[id] = offset;
        }
        offsets
    }

    fn prioritise(&mut self, order: usize, mut noise: Option<&mut Random>) {
        for (index, priority) in self.priority.iter_mut().enumerate() {
            let size = self.state.sizes[index] as f64;
            let life = self.state.lifetimes[index] as f64;
            let crowd = self.crowd[index];
            // The most crowded first, then the largest: a power that makes a small difference count.
            let crowded = (0..6).fold(crowd, |power, _| power * power);
            let most = match order {
                0 => size * life,
                1 => crowded * size * life,
                2 => size * life * life,
                _ => size * size * life,
            };
            *priority = most * noise.as_mut().map_or(1.0, |random| 1.0 + 19.0 * random.next());
        }
    }

    fn propagate(&mut self) -> bool {
        self.state.propagate(&mut self.jobs, &mut self.work)
    }

    fn is_over(&self) -> bool {
        self.work >= self.max_work
            || self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Places what is left in these sections, each part that shares no buffer with the others by itself: if
    /// one fails, other ways to do the ones before it do not help.
    fn parts(&mut self, sections: Range<usize>) -> Result<bool, Abort> {
        let mut start = sections.start;
        while start < sections.end {
            let links = &self.state.links[start..sections.end];
            let end = start + 1 + links.iter().take_while(|links| **links > 0).count();
            if self.state.floors[start] != EMPTY && !self.part(start..end)? {
                return Ok(false);
            }
            start = end;
        }
        Ok(true)
    }

    fn part(&mut self, sections: Range<usize>) -> Result<bool, Abort> {
        self.nodes += 1;
        if self.failures > self.max_failures
            || self.work >= self.max_work
            || (self.nodes.is_multiple_of(64) && self.is_over())
        {
            return Err(Abort);
        }
        let key = self.key(sections.clone());
        let slot = (key >> 64) as usize % MEMORY;
        if self.failed[slot] == key {
            return Ok(false);
        }
        let entry = self.state.mark();
        loop {
            let buffer = self.choose(sections.clone());
            let mark = self.state.mark();
            self.state.place(buffer);
            if self.propagate() {
                match self.parts(sections.clone()) {
                    Ok(false) => {}
                    Ok(true) => return Ok(true),
                    Err(Abort) => {
                        self.state.undo(entry);
                        return Err(Abort);
                    }
                }
            }
            self.state.undo(mark);
            self.failures += 1;
            if !self.lift(buffer) || !self.propagate() {
                break;
            }
        }
        self.state.undo(entry);
        self.failed[slot] = key;
        Ok(false)
    }

    /// The buffer does not lie at its lowest offset: then it rests on one that it meets.
    fn lift(&mut self, buffer: usize) -> bool {
        let state = &mut self.state;
        let rivals = state.rivals[buffer].iter().map(|&rival| rival as usize);
        let tops = rivals
            .filter(|&rival| !state.placed[rival])
            .map(|rival| state.lowest[rival] + state.sizes[rival]);
        let Some(above) = tops.min() else { return false };
        if above + state.sizes[buffer] > state.capacity {
            return false;
        }
        state.raise(buffer, above);
        true
    }

    /// What is left in these sections and how low it can lie, from which alone follows whether it fits.
    fn key(&self, sections: Range<usize>) -> u128 {
        let starts = |section: usize| self.state.spans.partition_point(|span| span.start < section);
        let (mut high, mut low) = (0u64, 0u64);
        for buffer in starts(sections.start)..starts(sections.end) {
            if !self.state.placed[buffer] {
                let hash = mix(mix(buffer as u64 + 1) ^ self.state.lowest[buffer]);
                high = high.wrapping_add(hash);
                low ^= mix(hash.wrapping_add(0x9e37_79b9_7f4a_7c15));
            }
        }
        // Odd: 0 is an empty entry.
        u128::from(high) << 64 | u128::from(low) | 1
    }

    /// A buffer that may lie on the floor of a valley: of a run of sections with one floor between higher
    /// ones, which it cannot leave.
    fn choose(&self, sections: Range<usize>) -> usize {
        let State { floors, on_floor, left, capacity, .. } = &self.state;
        let mut best = ((u64::MAX, u64::MAX), sections.start);
        let mut start = sections.start;
        while start < sections.end {
            let floor = floors[start];
            let same = floors[start..sections.end].iter().take_while(|other| **other == floor);
            let end = start + same.count();
            let valley = floor != EMPTY
                && (start == sections.start || floors[start - 1] > floor)
                && (end == sections.end || floors[end] > floor);
            for section in if valley { start..end } else { 0..0 } {
                let few = u64::from(on_floor[section]);
                let score = match self.style {
                    Style::Fewest => (few, floor),
                    Style::Lowest => (floor, few),
                    Style::Tightest => (capacity - floor - left[section], few),
                };
                if score < best.0 {
                    best = (score, section);
                }
            }
            start = end;
        }
        let floor = floors[best.1];
        let members = self.state.members[best.1].iter().map(|&member| member as usize);
        let may = members.filter(|&b| !self.state.placed[b] && self.state.lowest[b] == floor);
        // The order of members depends on the way here; that of the answer must not.
        let rank = |&b: &usize| (self.priority[b], std::cmp::Reverse(b));
        may.max_by(|a, b| {
            let (a, b) = (rank(a), rank(b));
            a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
        })
        .expect("a section with a floor has a buffer on it")
    }
}

fn too_many_pairs(buffers: &[Buffer]) -> bool {
    let mut starts: Vec<i64> = buffers.iter().map(|buffer| buffer.lower).collect();
    starts.sort_unstable();
    // Each pair once: by the one that starts first.
    let pairs = buffers.iter().map(|buffer| {
        let before = |time| starts.partition_point(|start| *start < time);
        before(buffer.upper) - before(buffer.lower)
    });
    pairs.sum::<usize>() > PAIRS
}

/// Spreads the bits of a number over all.
fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ x >> 32
}

/// Numbers from 0 to 1, the same every time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mix(self.0) >> 11) as f64 / (1u64 << 53) as f64
    }
}
