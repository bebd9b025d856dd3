//! The pool of chunks: who gives up room.

use super::jobs::Job;
use super::scheduler::{Action, Chunk, Scheduler};
use super::task::Policy;

impl<const N: usize> Scheduler<N> {
    /// Chunks of the pool: the free ones, those in memory, and the one on its way.
    pub(super) fn pool(&self) -> u32 {
        let coming = self.loader.is_some_and(|op| !self.streams(op.task));
        let present =
            self.jobs.iter().map(Job::in_memory).fold(u32::from(coming), u32::saturating_add);
        self.free.saturating_add(present)
    }

    /// Reads the task's next chunk, in the place of a victim's chunk where the pool is full. `None`: no room.
    /// The loader is free, so that no chunk is on its way.
    pub(super) fn load(&mut self, task: usize, now_ns: u64) -> Option<Action> {
        let evict = match self.free {
            0 => Some(self.evict_for(task, now_ns)?),
            _ => {
                self.free -= 1;
                None
            }
        };
        let t = self.tasks.get(task)?;
        let chunk = Chunk { task, index: self.job(task)?.next_chunk(t) };
        Some(Action::Load { chunk, evict })
    }

    /// Whether a chunk is in memory, as far as was reported. The one in flight is not.
    pub(crate) fn has(&self, Chunk { task, index }: Chunk) -> bool {
        let Some((t, job)) = self.tasks.get(task).zip(self.job(task)) else { return false };
        let weights = t.weights();
        match index.checked_sub(weights) {
            Some(room) => room < job.room,
            None => {
                let from_first =
                    (u64::from(index) + u64::from(weights)).saturating_sub(job.first.into());
                from_first % u64::from(weights) < job.present.into()
            }
        }
    }

    /// Takes a chunk from the victim.
    fn evict_for(&mut self, task: usize, now_ns: u64) -> Option<Chunk> {
        let victim = self.victim(task, now_ns)?;
        let (job, t) = self.jobs.get_mut(victim).zip(self.tasks.get(victim))?;
        Some(Chunk { task: victim, index: job.leaves(t) })
    }

    /// The task that needs its chunks latest: by the next release if it is idle, else by its place in order. Only the
    /// first job takes chunks of begun jobs: of weights, and none of a job whose step is in flight.
    fn victim(&self, task: usize, now_ns: u64) -> Option<usize> {
        let own = self.place(task);
        let first = match self.policy {
            Policy::Steps => self.first(|_, _| true) == Some(task),
            Policy::Classes => self.lead() == Some(task),
            Policy::Regions => false,
        };
        let computes = |other| self.processor.as_ref().is_some_and(|op| op.task == other);
        let candidates = (0..self.jobs.len()).filter(|&other| {
            let Some(job) = self.job(other).filter(|_| other != task) else { return false };
            match job.begun {
                true => first && job.present > 0,
                false => {
                    job.in_memory() > 0
                        && (first || self.place(other).is_none_or(|place| Some(place) > own))
                }
            }
        });
        // An idle task whose next job is overdue may be released at any moment.
        let idle = |other: usize| {
            self.job(other).filter(|job| !job.pending).map(|job| job.next_ns.max(now_ns))
        };
        let begun = |other: usize| self.job(other).is_some_and(|job| job.begun);
        let victim =
            candidates.max_by_key(|&other| (!begun(other), idle(other), self.place(other), other));
        victim.filter(|&other| !computes(other))
    }
}
