//! Three classes on the processor, and one job at a time in the pool.
//!
//! Tasks with chunks form a chain: its first job, the *lead*, loads, then computes, before the next one begins. Tasks
//! without chunks need only the processor: those of a higher level go before the lead, those of a lower level after it.

use super::jobs::Engine;
use super::scheduler::{Action, Scheduler};
use core::cmp::Reverse;

impl<const N: usize> Scheduler<N> {
    pub(super) fn next_in_classes(&mut self, now_ns: u64) -> Option<Action> {
        let lead = self.lead();
        if let Some(lead) = lead {
            self.mark_begun(lead);
            // Room comes without a read, so that it comes before a step begins.
            if self.is_free(Engine::Loader)
                && self.lacks_room(lead)
                && let Some(action) = self.start(lead, Engine::Loader, None, now_ns)
            {
                return Some(action);
            }
        }
        if self.is_free(Engine::Processor)
            && let Some(task) = self.highest()
        {
            return self.start(task, Engine::Processor, None, now_ns);
        }
        let lead = lead.filter(|_| self.is_free(Engine::Loader))?;
        match self.ready(lead, Engine::Loader) {
            true => self.start(lead, Engine::Loader, None, now_ns),
            false => self.load_during_step(lead, now_ns),
        }
    }

    /// The chain's first job.
    pub(super) fn lead(&self) -> Option<usize> {
        self.first(|s, task| s.chunks(task) > 0)
    }

    /// The first job of the highest class that can compute.
    fn highest(&self) -> Option<usize> {
        let ready = (0..self.jobs.len()).filter(|&task| self.ready(task, Engine::Processor));
        let placed =
            ready.filter_map(|task| Some((Reverse(self.level(task)), self.place(task)?, task)));
        placed.min().map(|(.., task)| task)
    }
}
