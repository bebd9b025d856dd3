//! RT-Swap's order: loading and computing of a job are one region that nothing preempts.
//!
//! The next job loads while another computes, but only if it is the first of those that wait, so that no less urgent
//! region begins meanwhile, and only if both fit the pool, so that it does not wait with its region begun.

use super::jobs::Engine;
use super::scheduler::{Action, Scheduler};

impl<const N: usize> Scheduler<N> {
    pub(super) fn next_region(&mut self, now_ns: u64) -> Option<Action> {
        let computing = self.begun(|s, task| {
            s.job(task).is_some_and(|job| job.computed_ns > 0) || s.computes(task)
        });
        let region = self.begun(|_, task| Some(task) != computing);
        if self.is_free(Engine::Processor) {
            // A job between two steps goes on; the next region starts when its chunks are in memory.
            let next = computing.or(region).or_else(|| self.begin());
            if let Some(task) = next.filter(|&task| self.ready(task, Engine::Processor)) {
                return self.start(task, Engine::Processor, None, now_ns);
            }
        }
        if !self.is_free(Engine::Loader) {
            return None;
        }
        let region = self.begun(|s, task| s.ready(task, Engine::Loader)).or_else(|| {
            let another = self.begun(|s, task| !s.computes(task));
            another.is_none().then(|| self.begin()).flatten()
        })?;
        match self.ready(region, Engine::Loader) {
            true => self.start(region, Engine::Loader, None, now_ns),
            false => None,
        }
    }

    /// Begins the first job that waits. While another computes it begins only to load, next to the other's
    /// chunks.
    fn begin(&mut self) -> Option<usize> {
        let first = self.first(|s, task| s.job(task).is_some_and(|job| !job.begun))?;
        if let Some(computing) = &self.processor {
            let both = self.chunks(first).saturating_add(self.chunks(computing.task));
            if !self.lacks(first) || both > self.pool() {
                return None;
            }
        }
        self.mark_begun(first);
        Some(first)
    }

    fn begun(&self, permits: impl Fn(&Self, usize) -> bool) -> Option<usize> {
        self.first(|s, task| s.job(task).is_some_and(|job| job.begun) && permits(s, task))
    }

    fn computes(&self, task: usize) -> bool {
        self.processor.as_ref().is_some_and(|op| op.task == task)
    }
}
