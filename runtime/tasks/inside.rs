//! The state of a scheduler, for tests.

use super::jobs::Job;
use super::scheduler::Scheduler;
use std::vec::Vec;

/// A job's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobState {
    pub pending: bool,
    pub begun: bool,
    pub released_ns: u64,
    pub deadline_ns: u64,
    pub next_ns: u64,
    pub computed_ns: u64,
    pub present: u32,
    pub first: u32,
    pub room: u32,
}

/// An operation in flight: whose it is, when it began, and who vouched for it, since when.
pub(crate) type Operation = (usize, u64, Option<(usize, u64)>);

impl<const N: usize> Scheduler<N> {
    pub(crate) fn job_states(&self) -> Vec<JobState> {
        let state = |job: &Job| {
            let Job {
                pending,
                begun,
                released_ns,
                deadline_ns,
                next_ns,
                computed_ns,
                present,
                first,
                room,
            } = *job;
            JobState {
                pending,
                begun,
                released_ns,
                deadline_ns,
                next_ns,
                computed_ns,
                present,
                first,
                room,
            }
        };
        self.jobs.iter().map(state).collect()
    }

    pub(crate) fn free_chunks(&self) -> u32 {
        self.free
    }

    /// The processor's operation in flight, and the loader's.
    pub(crate) fn operations(&self) -> [Option<Operation>; 2] {
        [self.processor, self.loader].map(|op| {
            let op = op?;
            Some((op.task, op.started_ns, op.voucher.map(|by| (by.task, by.released_ns))))
        })
    }
}
