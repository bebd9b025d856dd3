//! Static allocation: offsets for buffers whose lifetimes are known, in as little memory as they can share.
//!
//! A buffer is a rectangle, its lifetime wide and its size high, that may be moved only up and down; two
//! that live at the same time must not overlap. What is live at the fullest moment is a lower bound of the
//! height (`sweep`). A few greedy orders usually reach it (`greedy`); where they do not, a complete search
//! decides (`search`). Nothing here knows of networks. Times are half open: a buffer that ends at 7 leaves
//! its place to one that starts at 7.
//!
//! Sizes and alignments together must stay below 2^62: [`csv::Table::parse`] sees to it for files.

pub mod csv;
mod greedy;
mod search;
mod sweep;
mod validate;

pub use sweep::{Peak, peak};
pub use validate::{Violation, validate};

use search::{Found, Search};
use std::time::{Duration, Instant};

/// What needs a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// When it begins to live.
    pub lower: i64,
    /// When it has ceased to; above `lower`.
    pub upper: i64,
    /// In bytes, or whatever the capacity is counted in.
    pub size: u64,
    /// Its offset is a multiple of this; at least 1.
    pub align: u64,
}

impl Buffer {
    /// A buffer that may lie anywhere.
    pub fn new(lower: i64, upper: i64, size: u64) -> Self {
        Self { lower, upper, size, align: 1 }
    }

    fn meets(&self, other: &Self) -> bool {
        self.lower < other.upper && other.lower < self.upper
    }
}

/// How long to search. Without a time limit the answer is the same every time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limit {
    /// Sections of time examined; a million take about half a second.
    pub work: Option<u64>,
    pub time: Option<Duration>,
}

impl Limit {
    /// So much work, whatever time it takes.
    pub fn work(sections: u64) -> Self {
        Self { work: Some(sections), time: None }
    }

    /// So much time, whatever is done in it.
    pub fn time(time: Duration) -> Self {
        Self { work: None, time: Some(time) }
    }
}

/// Where buffers lie, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    pub offsets: Vec<u64>,
    /// The end of the highest.
    pub height: u64,
}

impl Placement {
    fn new(buffers: &[Buffer], offsets: Vec<u64>) -> Self {
        let ends = buffers.iter().zip(&offsets).map(|(buffer, offset)| offset + buffer.size);
        Self { height: ends.max().unwrap_or(0), offsets }
    }
}

/// What came of trying to fit into a capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No end is above the capacity.
    Fits(Placement),
    /// The lowest that was found. No placement is lower than `lower_bound`: if that is above the capacity,
    /// nothing fits, else the limit came first.
    Best { placement: Placement, lower_bound: u64 },
}

/// The lowest placement that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minimum {
    pub placement: Placement,
    /// No placement is lower than this: the minimum is proven if the height is equal.
    pub lower_bound: u64,
}

/// Sections examined to lower a placement that is known not to fit.
const CONSOLATION: u64 = 200_000;

/// Fits buffers into a capacity.
pub fn solve(buffers: &[Buffer], capacity: u64, limit: Limit) -> Outcome {
    let mut budget = Budget::new(limit);
    let lower_bound = peak(buffers).bytes;
    let placement = greedy::place(buffers, capacity.max(lower_bound), budget.deadline);
    if placement.height <= capacity {
        return Outcome::Fits(placement);
    }
    let mut best = Minimum { placement, lower_bound };
    if lower_bound <= capacity {
        // The last quarter is for a best that is better than greedy.
        match attempt(buffers, capacity, budget.share(3, 4)) {
            (Found::Placed(offsets), _) => {
                return Outcome::Fits(Placement::new(buffers, offsets));
            }
            (Found::Nothing, work) => {
                budget.spend(work);
                best.lower_bound = capacity + 1;
            }
            (Found::Undecided, work) => budget.spend(work),
        }
    }
    if best.lower_bound > capacity {
        budget.work = Some(budget.work.map_or(CONSOLATION, |work| work.min(CONSOLATION)));
    }
    let Minimum { placement, lower_bound } = lower(buffers, best, capacity + 1, budget);
    Outcome::Best { placement, lower_bound }
}

/// Places buffers as low as it can within the limit; without one, until the minimum is proven.
pub fn minimise(buffers: &[Buffer], limit: Limit) -> Minimum {
    let lower_bound = peak(buffers).bytes;
    let budget = Budget::new(limit);
    let placement = greedy::place(buffers, lower_bound, budget.deadline);
    lower(buffers, Minimum { placement, lower_bound }, lower_bound, budget)
}

/// Lowers the best: tries the height `from`, then bisects between what is undecided and the best, with more
/// effort every round.
fn lower(buffers: &[Buffer], mut best: Minimum, from: u64, mut budget: Budget) -> Minimum {
    // Some lowest placement has a multiple of this as its height: its buffers rest on each other.
    let step =
        buffers.iter().fold(0, |step, buffer| gcd(gcd(step, buffer.size), buffer.align)).max(1);
    let from = from.next_multiple_of(step);
    let mut effort = 1 << 16;
    while best.lower_bound.max(from) < best.placement.height && !budget.is_spent() {
        let mut floor = best.lower_bound.max(from);
        let mut target = floor;
        while floor < best.placement.height && !budget.is_spent() {
            let (found, work) = attempt(buffers, target, budget.at_most(effort));
            budget.spend(work);
            match found {
                Found::Placed(offsets) => best.placement = Placement::new(buffers, offsets),
                Found::Nothing => {
                    best.lower_bound = target + step;
                    floor = best.lower_bound;
                }
                Found::Undecided => floor = target + step,
            }
            let gap = best.placement.height.saturating_sub(floor);
            target = floor + gap / 2 / step * step;
        }
        effort = effort.saturating_mul(4);
    }
    best
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// One complete search; what it found and the work it took.
fn attempt(buffers: &[Buffer], capacity: u64, budget: Budget) -> (Found, u64) {
    // It recurses once a buffer, and the caller's stack may be small.
    let stack = (1 << 20) + 1024 * buffers.len();
    let run = || Search::new(buffers, capacity, budget.work, budget.deadline).run();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(stack).spawn_scoped(scope, run);
        match thread.map(|thread| thread.join()) {
            Ok(Ok(found)) => found,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // No thread to be had: no search.
            Err(_) => (Found::Undecided, u64::MAX),
        }
    })
}

/// What is left of a limit.
#[derive(Clone, Copy, Debug)]
struct Budget {
    work: Option<u64>,
    deadline: Option<Instant>,
}

impl Budget {
    fn new(limit: Limit) -> Self {
        Self {
            work: limit.work,
            deadline: limit.time.and_then(|time| Instant::now().checked_add(time)),
        }
    }

    fn share(self, part: u32, of: u32) -> Self {
        let now = Instant::now();
        let cut = |deadline: Instant| now + deadline.saturating_duration_since(now) * part / of;
        Self {
            work: self.work.map(|work| work / u64::from(of) * u64::from(part)),
            deadline: self.deadline.map(cut),
        }
    }

    fn at_most(self, work: u64) -> Self {
        Self { work: Some(self.work.map_or(work, |left| left.min(work))), ..self }
    }

    fn spend(&mut self, work: u64) {
        self.work = self.work.map(|left| left.saturating_sub(work));
    }

    fn is_spent(&self) -> bool {
        self.work == Some(0) || self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }
}

#[cfg(test)]
mod tests;
