//! The program's side of a set: inputs, outputs and events.

use super::error::JobError;
use crate::executor::Ports;
use crate::tasks::Finished;

/// The program's side of a set.
pub trait Host {
    /// A job of the task is about to compute: its inputs are to be written.
    fn inputs(&mut self, task: usize, ports: &mut dyn Ports);

    /// A job has ended: its outputs are there until this returns.
    fn outputs(&mut self, job: &Finished, ports: &mut dyn Ports);

    /// The task's job was given up. The next one tries again.
    #[allow(unused_variables)]
    fn failed(&mut self, task: usize, error: JobError) {}

    /// Something began or ended, at a time of the set's clock: for traces.
    #[allow(unused_variables)]
    fn event(&mut self, event: SetEvent, now_ns: u64) {}
}

/// An event: something began or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetEvent {
    /// A job of the task is released.
    Released {
        /// The task.
        task: usize,
    },
    /// A step of the task's job begins.
    StepBegins {
        /// The task.
        task: usize,
    },
    /// It has ended.
    StepEnds {
        /// The task.
        task: usize,
    },
    /// A chunk begins to come into memory.
    ChunkBegins {
        /// The task.
        task: usize,
        /// Which of its chunks.
        chunk: u32,
    },
    /// It is there.
    ChunkEnds {
        /// The task.
        task: usize,
        /// Which of its chunks.
        chunk: u32,
    },
    /// It does not come: the read has failed, or budgets have changed meanwhile.
    ChunkFails {
        /// The task.
        task: usize,
        /// Which of its chunks.
        chunk: u32,
    },
    /// A chunk leaves memory: no job can use it any more.
    ChunkLeaves {
        /// The task.
        task: usize,
        /// Which of its chunks.
        chunk: u32,
    },
    /// Budgets have changed: the task's job, which was in the middle of an inference, starts over.
    StartsOver {
        /// The task.
        task: usize,
    },
    /// The task's job is given up: [`Host::failed`] says why.
    GivenUp {
        /// The task.
        task: usize,
    },
    /// The task's job has ended.
    Ended {
        /// The task.
        task: usize,
    },
}
