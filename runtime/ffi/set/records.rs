//! The caller's description of a set: its tasks, their times, and how it is opened.

use super::super::choose::plan_bytes;
use super::super::source::Source;
use crate::executor::{self, OpenError, STEP_WORK};
use crate::pack::PAGE;
use crate::storage::Storage;
use crate::tasks::Task;

/// The most tasks of a set.
pub(super) const TASKS: usize = 8;

/// The times of a task.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    /// Least time between two jobs.
    pub period_ns: u64,
    /// From a job's release to its latest end; 0 for the period.
    pub deadline_ns: u64,
    /// A job is released at most this long after it arrives.
    pub jitter_ns: u64,
    /// All steps of a job, at worst.
    pub compute_ns: u64,
    /// The longest step; 0 for all of them.
    pub step_ns: u64,
}

/// A task, by the caller.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TaskOf {
    /// Its network's pack.
    pub pack: Source,
    /// Bytes that the network's first plan may have; 0 for all that are free.
    pub budget: u64,
    /// Bytes of the arena that are the network's, for good; 0 for those that the first plan needs.
    pub room: u64,
    /// Its times.
    pub timing: Timing,
    /// Which of the pack's shapes is computed.
    pub shape: u32,
    /// Zero.
    pub reserved: u32,
}

/// How a set is opened. All zero is what most want.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SetOptions {
    /// Compute threads, as of a model: 0 for the number of the plans, up to the number of cores.
    pub threads: u32,
    /// Not zero: checksums are not compared.
    pub no_verify: u32,
    /// Most reads in flight of one network; 0 for the most that its source supports.
    pub depth: u32,
    /// Null, or for each thread the core that it keeps to, as of a model.
    pub cores: *const u32,
    /// As of a model.
    pub step_work: u64,
}

impl SetOptions {
    /// The usual options.
    pub(super) const DEFAULT: Self =
        Self { threads: 0, no_verify: 0, depth: 0, cores: core::ptr::null(), step_work: 0 };

    /// How a network of the set is opened.
    pub(super) fn opening(&self, threads: u32, budget: u64, shape: u32) -> executor::Options {
        let verify = self.no_verify == 0;
        let depth = if self.depth == 0 { u32::MAX } else { self.depth };
        let step_work = if self.step_work == 0 { STEP_WORK } else { self.step_work };
        executor::Options { verify, threads, budget, shape, depth, step_work }
    }
}

impl TaskOf {
    /// Bytes of arena that its first plan may have.
    pub(super) fn budget(&self) -> u64 {
        let all = |bytes| if bytes == 0 { u64::MAX } else { bytes };
        all(self.budget).min(all(self.room))
    }

    /// Bytes of arena for its network: whole pages.
    pub(super) fn room(&self, storage: &mut impl Storage, threads: u32) -> Result<u64, OpenError> {
        let needed = plan_bytes(storage, self.shape, self.budget(), threads)?;
        let pages = self.room.max(needed).checked_next_multiple_of(PAGE);
        pages.ok_or(OpenError::Budget { arena: self.room, smallest: needed })
    }
}

impl Timing {
    /// The times of a task that the scheduler has.
    pub(super) fn of(task: &Task) -> Self {
        let Task { period_ns, deadline_ns, jitter_ns, compute_ns, step_ns, .. } = *task;
        Self { period_ns, deadline_ns, jitter_ns, compute_ns, step_ns }
    }

    /// The task as the scheduler sees it.
    pub(super) fn task(&self) -> Task {
        let Self { period_ns, deadline_ns, jitter_ns, compute_ns, step_ns } = *self;
        let or = |ns, other| if ns == 0 { other } else { ns };
        Task {
            deadline_ns: or(deadline_ns, period_ns),
            jitter_ns,
            step_ns: or(step_ns, compute_ns),
            ..Task::new(period_ns, compute_ns)
        }
    }
}
