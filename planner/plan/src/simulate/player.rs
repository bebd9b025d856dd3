//! Plays one inference after another: finds when each task starts that waits for others.

use super::{Durations, Span};
use crate::profile::Read;
use eyelet::storage::MAX_BEGUN;
use eyelet_model::plan::Plan;

/// The arrival of reads in flight, as long as it is not known.
const UNKNOWN: i64 = i64::MAX / 4;

/// The times of one inference, counted from its host's turn.
#[derive(Default, PartialEq)]
pub(super) struct Inference {
    /// Each read, from its beginning until it is handed over.
    pub(super) reads: Vec<Span>,
    /// When each read arrives, before it is verified.
    come: Vec<i64>,
    /// For each read: up to when the loader had seen arrivals when the read began, and whether these
    /// left no read in flight.
    seen: Vec<(i64, bool)>,
    /// Reads of the next inference that arrive together with the last ones of this.
    ahead: Vec<Arrival>,
    pub(super) copies: Vec<Span>,
    pub(super) steps: Vec<Span>,
}

impl Inference {
    /// The end of the last step: the host's turn of the next inference.
    pub(super) fn end(&self) -> i64 {
        ends(&self.steps, self.steps.len())
    }
}

/// When a read began, arrived and was handed over.
#[derive(Clone, Copy, Default, PartialEq)]
struct Arrival {
    start: i64,
    seen: i64,
    idle: bool,
    come: i64,
    end: i64,
}

/// When a read begins.
struct Beginning {
    start: i64,
    /// Up to when the loader has seen arrivals by then.
    seen: i64,
    /// No read was in flight, and one was to be verified. This read is the only one that begins before
    /// that.
    idle: bool,
}

/// When the first `count` of these are done; 0 for none.
pub(super) fn ends(spans: &[Span], count: usize) -> i64 {
    count.checked_sub(1).map_or(0, |last| spans[last].end)
}

/// One inference being played after another. Each task is timed when something later is known to wait for it, so
/// that all it waits for itself has been timed: anything else would be a deadlock.
pub(super) struct Player<'a> {
    plan: &'a Plan,
    durations: &'a Durations,
    /// The inference before, and when it ended: this one's beginning.
    before: Option<&'a Inference>,
    shift: i64,
    now: &'a mut Inference,
}

impl<'a> Player<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        durations: &'a Durations,
        before: Option<&'a Inference>,
        now: &'a mut Inference,
    ) -> Self {
        now.reads.clear();
        now.come.clear();
        now.seen.clear();
        now.copies.clear();
        now.steps.clear();
        now.ahead.clear();
        let shift = before.map_or(0, Inference::end);
        for read in before.into_iter().flat_map(|before| &before.ahead) {
            now.come.push(read.come - shift);
            now.seen.push((read.seen - shift, read.idle));
            now.reads.push(Span { start: read.start - shift, end: read.end - shift });
        }
        Self { plan, durations, before, shift, now }
    }

    pub(super) fn run(&mut self) {
        for (index, step) in self.plan.steps.iter().enumerate() {
            let loaded = self.arrived(step.ready as usize);
            let start =
                ends(&self.now.steps, index).max(loaded).max(self.read(step.reads as usize));
            self.now.steps.push(Span { start, end: start + self.durations.steps[index] });
        }
        let loads = self.plan.loads.len();
        self.arrived(loads);
        let behind = loads + 1..=self.now.reads.len();
        self.now.ahead = behind.filter_map(|index| self.earlier(index, 1)).collect();
        self.now.reads.truncate(loads);
        self.now.come.truncate(loads);
        self.now.seen.truncate(loads);
    }

    fn staged(&self) -> bool {
        !self.plan.stages.is_empty()
    }

    /// When `count` loads are in the arena, and all of those of the inference before.
    fn arrived(&mut self, count: usize) -> i64 {
        if !self.staged() {
            return self.read(count);
        }
        while self.now.copies.len() < count {
            let index = self.now.copies.len();
            let read = self.read(index + 1);
            let copied = self.done(index as i64, Of::Copies);
            let released = self.done(self.plan.loads[index].release.into(), Of::Steps);
            let start = read.max(copied).max(released);
            self.now.copies.push(Span { start, end: start + self.durations.copies[index] });
        }
        self.done(count as i64, Of::Copies)
    }

    /// When `count` loads have been read, and all of those of the inference before.
    fn read(&mut self, count: usize) -> i64 {
        while self.now.reads.len() < count {
            let first = self.now.reads.len();
            let mut come = self.earlier(first, 1).unwrap_or_default().come;
            let released = self.released(first);
            let mut next = Some(self.begins(first, released));
            while let Some(Beginning { start, seen, idle }) = next {
                come = self.comes(self.now.reads.len(), start, come);
                self.now.come.push(UNKNOWN);
                self.now.seen.push((seen, idle));
                self.now.reads.push(Span { start, end: UNKNOWN });
                next = self.joins(come);
            }
            for index in first..self.now.reads.len() {
                let last = self.earlier(index, 1).unwrap_or_default().end;
                self.now.come[index] = come;
                self.now.reads[index].end = come.max(last) + self.duration(index).check;
            }
        }
        self.done(count as i64, Of::Reads)
    }

    /// When a read may begin by what it waits for.
    fn released(&mut self, index: usize) -> i64 {
        let Some(stage) = self.plan.stages.get(index) else {
            return self.done(self.plan.loads[index].release.into(), Of::Steps);
        };
        if let Ok(copies @ 1..) = usize::try_from(stage.copies) {
            assert!(
                copies <= index,
                "deadlock: read {index} waits until {copies} loads are copied"
            );
            self.arrived(copies);
        }
        let copied = self.done(stage.copies.into(), Of::Copies);
        copied.max(self.done(stage.steps.into(), Of::Steps))
    }

    /// The times of a read of this inference, or of the next one.
    fn duration(&self, index: usize) -> Read {
        self.durations.reads[index % self.plan.loads.len()]
    }

    /// The most reads in flight when this one has begun, itself included.
    fn places(&self, index: usize) -> usize {
        self.durations.places(index % self.plan.loads.len())
    }

    /// When storage has done a read that begins at `start`, and all those before it.
    fn comes(&self, index: usize, start: i64, last: i64) -> i64 {
        let read = self.duration(index);
        match self.places(index) {
            // Storage that has not rested goes on.
            1 if index > 0 || self.before.is_some() => {
                start + read.latency.min(start - last) + read.transfer
            }
            _ => (start + read.latency).max(last) + read.transfer,
        }
    }

    /// How the next read begins, if storage answers reads together and the read begins before those in
    /// flight are done. Then they arrive with it.
    ///
    /// Steps that have not been timed wait for these, or for others that do.
    fn joins(&self, come: i64) -> Option<Beginning> {
        let index = self.now.reads.len();
        let (inference, number) = (index / self.plan.loads.len(), index % self.plan.loads.len());
        if !self.durations.together || inference > 1 {
            return None;
        }
        let release = i64::from(self.plan.loads[number].release);
        let (timed, all) = (self.now.steps.len() as i64, self.plan.steps.len() as i64);
        let released = match inference {
            0 => (release - 1 <= timed).then(|| self.done(release, Of::Steps))?,
            // Nothing follows reads without steps.
            _ if all == 0 || release > 1 || all + release.min(0) > timed => return None,
            _ => ends(&self.now.steps, (all + release.min(0)).max(0) as usize),
        };
        Some(self.begins(index, released)).filter(|next| next.start < come)
    }

    /// When a read begins that is released at `released`. All reads before it have begun, and the loader
    /// knows that another may be in flight. It looks when the first read that it has not handed over
    /// arrives. If none is in flight then, it begins one more at once. Otherwise it begins more when it
    /// has verified and handed over that read.
    fn begins(&self, index: usize, released: i64) -> Beginning {
        let at = |start, seen| Beginning { start, seen, idle: false };
        let Some(last) = self.earlier(index, 1) else { return at(released, released) };
        if self.durations.depth <= 1 {
            return at(released.max(last.end), last.end);
        }
        let holder = self.earlier(index, self.places(index));
        let free = |seen: i64| holder.is_none_or(|holder| holder.come <= seen);
        let oldest = self.earlier(index, MAX_BEGUN);
        let remembered = |start: i64| oldest.is_none_or(|oldest| oldest.end <= start);
        // With the one before it.
        let others = !last.idle && released <= last.start;
        if others && free(last.seen) && remembered(last.start) {
            return at(last.start, last.seen);
        }
        let least = released.max(last.start);
        for back in (1..=MAX_BEGUN).rev() {
            if self
                .place(index, back)
                .is_none_or(|(of, at, shift)| of.reads[at].end - shift < least)
            {
                continue;
            }
            let Some(first) = self.earlier(index, back) else { continue };
            let busy = self.earlier(index, back + 1).map_or(i64::MIN, |other| other.end);
            let looks = first.come.max(busy);
            if !free(looks) {
                continue;
            }
            if looks >= least && last.come <= looks && remembered(looks) {
                return Beginning { start: looks, seen: looks, idle: true };
            }
            return at(first.end, looks);
        }
        at(released.max(last.end), released.max(last.end))
    }

    /// The arrival `back` reads before one, if there was any.
    fn earlier(&self, index: usize, back: usize) -> Option<Arrival> {
        let (inference, at, shift) = self.place(index, back)?;
        let Span { start, end } = inference.reads[at];
        let ((seen, idle), come) = (inference.seen[at], inference.come[at]);
        let [start, seen, come, end] = [start, seen, come, end].map(|at| at - shift);
        Some(Arrival { start, seen, idle, come, end })
    }

    /// The inference and the number of the read `back` before one, and how much later the times of that
    /// inference are.
    fn place(&self, index: usize, back: usize) -> Option<(&Inference, usize, i64)> {
        if let Some(at) = index.checked_sub(back) {
            return Some((&*self.now, at, 0));
        }
        let before = self.before?;
        // Arrivals before the last inference are not kept.
        let at = (before.reads.len() + index).checked_sub(back)?;
        Some((before, at, self.shift))
    }

    /// When `count` tasks of a kind are done. Fewer than one step, or fewer than none of the others, counts
    /// back into the inference before. Nothing happened before the first.
    fn done(&self, count: i64, of: Of) -> i64 {
        let all = |inference: &'a Inference| match of {
            Of::Reads => &inference.reads,
            Of::Copies => &inference.copies,
            Of::Steps => &inference.steps,
        };
        let (own, host) = match of {
            Of::Reads => (&self.now.reads, 0),
            Of::Copies => (&self.now.copies, 0),
            // The host's turn is a step, at time 0.
            Of::Steps => (&self.now.steps, 1),
        };
        if count > host {
            let last = (count - host - 1) as usize;
            return own.get(last).map_or_else(|| self.deadlock(count), |task| task.end);
        }
        if of == Of::Steps && count >= 0 {
            return 0;
        }
        self.before.map_or(0, |before| {
            let tasks = all(before);
            let done = tasks.len() as i64 + count;
            assert!(done >= 0, "a threshold of {count} is out of range");
            ends(tasks, done as usize) - self.shift
        })
    }

    fn deadlock(&self, steps: i64) -> i64 {
        panic!(
            "deadlock: step {} waits for load {}, which waits until {steps} steps are done",
            self.now.steps.len() + 1,
            if self.staged() { self.now.copies.len() } else { self.now.reads.len() }
        )
    }
}

/// A kind of task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Reads,
    Copies,
    Steps,
}
