//! Who is first: earliest deadline, with inheritance.

use super::jobs::{Engine, Job};
use super::scheduler::Scheduler;

/// A job's place in order: the smallest is first. Begun jobs go first among equals, so that nothing preempts an equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    deadline_ns: u64,
    waiting: bool,
    released_ns: u64,
    task: usize,
}

impl<const N: usize> Scheduler<N> {
    /// The task's own place, without inheritance.
    fn own_place(&self, task: usize) -> Option<Place> {
        let job = self.jobs.get(task).filter(|job| job.pending)?;
        let waiting = !job.begun;
        Some(Place { deadline_ns: job.deadline_ns, waiting, released_ns: job.released_ns, task })
    }

    /// The task's place in order. A begun job inherits from those that cannot begin before it ends.
    pub(super) fn place(&self, task: usize) -> Option<Place> {
        let own = self.own_place(task)?;
        if !self.holds(task) {
            return Some(own);
        }
        let waiting = (0..self.jobs.len()).filter(|&other| self.blocks(task, other));
        let inherited = waiting.filter_map(|other| self.own_place(other)).min();
        Some(match inherited {
            Some(place) => own.min(Place { waiting: false, task, ..place }),
            None => own,
        })
    }

    /// The job has begun and holds chunks.
    pub(super) fn holds(&self, task: usize) -> bool {
        self.job(task).is_some_and(|job| job.begun) && self.chunks(task) > 0
    }

    /// `waiting` cannot begin before `begun` ends.
    fn blocks(&self, begun: usize, waiting: usize) -> bool {
        let unbegun = self.job(waiting).is_some_and(|job| job.pending && !job.begun);
        unbegun
            && self.chunks(waiting) > 0
            && self.holds(begun)
            && self.level(begun) >= self.level(waiting)
    }

    /// The job may use the engine, if that is free: it is begun, or it needs no chunks.
    pub(super) fn ready(&self, task: usize, engine: Engine) -> bool {
        let Some((job, t)) = self.job(task).zip(self.tasks.get(task)) else { return false };
        let needs = if job.loads(t) { Engine::Loader } else { Engine::Processor };
        job.pending && (job.begun || t.chunks == 0) && needs == engine
    }

    /// The first pending job that the filter permits.
    pub(super) fn first(&self, permits: impl Fn(&Self, usize) -> bool) -> Option<usize> {
        let permitted = (0..self.jobs.len()).filter(|&task| permits(self, task));
        permitted.filter_map(|task| self.place(task)).min().map(|place| place.task)
    }

    pub(super) fn job(&self, task: usize) -> Option<&Job> {
        self.jobs.get(task)
    }

    pub(super) fn chunks(&self, task: usize) -> u32 {
        self.tasks.get(task).map_or(0, |t| t.chunks)
    }

    pub(super) fn level(&self, task: usize) -> u16 {
        self.tasks.get(task).map_or(0, |t| t.level)
    }
}
