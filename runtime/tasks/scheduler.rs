//! The scheduler: what was reported, and what to do next.

use super::jobs::{Engine, InFlight, Job, Voucher};
use super::task::{Policy, SetError, Task, check};
use heapless::Vec;

/// Decides, for at most `N` tasks, which job works next. See the [module](super) for the policy.
#[derive(Clone, Debug)]
pub struct Scheduler<const N: usize> {
    pub(super) policy: Policy,
    pub(super) tasks: Vec<Task, N>,
    pub(super) jobs: Vec<Job, N>,
    /// Chunks of the pool that hold nothing.
    pub(super) free: u32,
    pub(super) processor: Option<InFlight>,
    pub(super) loader: Option<InFlight>,
}

/// A chunk of a task's swap volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The task.
    pub task: usize,
    /// Which of its chunks.
    pub index: u32,
}

/// What to start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run the next step of the task's job, and report [`Scheduler::step_done`].
    Step {
        /// The task.
        task: usize,
    },
    /// Read a chunk and report [`Scheduler::chunk_done`].
    Load {
        /// The chunk that is read.
        chunk: Chunk,
        /// The chunk that leaves memory first. Weights are read-only, so that leaving writes nothing.
        evict: Option<Chunk>,
    },
    /// Nothing to start before the next report.
    Wait,
}

/// A job that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its task.
    pub task: usize,
    /// From its release to its end.
    pub response_ns: u64,
    /// It ended after its deadline.
    pub missed: bool,
}

/// Why a job is not released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseError {
    /// There is no such task.
    Unknown,
    /// The task's last job has not ended.
    Unfinished,
    /// The task's period does not allow a job before this time.
    Early {
        /// The earliest time.
        next_ns: u64,
    },
}

impl core::fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Unknown => write!(f, "the set has no such task"),
            Self::Unfinished => write!(f, "the task's last job has not ended: this one is lost"),
            Self::Early { next_ns } => {
                write!(f, "the task's period allows no job before {next_ns} ns: release it then")
            }
        }
    }
}

impl core::error::Error for ReleaseError {}

impl<const N: usize> Scheduler<N> {
    /// A scheduler for these tasks, which share a pool of `pool` chunks. At first no chunk is in memory.
    pub fn new(policy: Policy, tasks: &[Task], pool: u32) -> Result<Self, SetError> {
        let too_many = SetError::Tasks { tasks: tasks.len(), most: N };
        let mut jobs = Vec::new();
        jobs.resize(tasks.len(), Job::NONE).map_err(|_| too_many)?;
        check(policy, tasks, pool)?;
        let tasks = Vec::from_slice(tasks).map_err(|_| too_many)?;
        Ok(Self { policy, tasks, jobs, free: pool, processor: None, loader: None })
    }

    /// A job of the task is released now.
    pub fn release(&mut self, task: usize, now_ns: u64) -> Result<(), ReleaseError> {
        let (t, job) =
            self.tasks.get(task).zip(self.jobs.get_mut(task)).ok_or(ReleaseError::Unknown)?;
        if job.pending {
            return Err(ReleaseError::Unfinished);
        }
        if now_ns < job.next_ns {
            return Err(ReleaseError::Early { next_ns: job.next_ns });
        }
        // The job arrived at most its jitter ago, and not before its predecessor permits.
        let arrived_ns = job.next_ns.max(now_ns.saturating_sub(t.jitter_ns));
        *job = Job {
            pending: true,
            begun: false,
            released_ns: now_ns,
            deadline_ns: now_ns.saturating_add(t.deadline_ns),
            next_ns: arrived_ns.saturating_add(t.period_ns),
            computed_ns: 0,
            ..*job
        };
        Ok(())
    }

    /// The step in flight has ended; `last` if it was the job's last.
    pub fn step_done(&mut self, now_ns: u64, last: bool) -> Option<Finished> {
        let InFlight { task, started_ns, .. } = self.processor.take()?;
        if self.streams(task) {
            self.loader = None;
        }
        let job = self.jobs.get_mut(task)?;
        job.computed_ns = job.computed_ns.saturating_add(now_ns.saturating_sub(started_ns));
        if !last {
            return None;
        }
        job.pending = false;
        job.begun = false;
        let response_ns = now_ns.saturating_sub(job.released_ns);
        Some(Finished { task, response_ns, missed: now_ns > job.deadline_ns })
    }

    /// The load in flight has ended.
    pub fn chunk_done(&mut self) {
        let Some(InFlight { task, .. }) = self.loader.take() else { return };
        if let Some(job) = self.jobs.get_mut(task) {
            job.present = job.present.saturating_add(1);
        }
    }

    /// Chunks of a task that are in memory.
    pub fn present(&self, task: usize) -> u32 {
        self.jobs.get(task).map_or(0, |job| job.present)
    }

    /// The deadline of the task's unfinished job.
    pub fn deadline_ns(&self, task: usize) -> Option<u64> {
        self.jobs.get(task).filter(|job| job.pending).map(|job| job.deadline_ns)
    }

    /// What to start now. Call it after every report until it says [`Action::Wait`].
    pub fn next(&mut self, now_ns: u64) -> Action {
        let action = match self.policy {
            Policy::Steps => self.next_step(now_ns),
            Policy::Classes => self.next_in_classes(now_ns),
            Policy::Regions => self.next_region(now_ns),
        };
        action.unwrap_or(Action::Wait)
    }

    fn next_step(&mut self, now_ns: u64) -> Option<Action> {
        let first = self.first(|_, _| true)?;
        self.mark_begun(first);
        let (needs, other) = match self.ready(first, Engine::Loader) {
            true => (Engine::Loader, Engine::Processor),
            false => (Engine::Processor, Engine::Loader),
        };
        if self.is_free(needs)
            && (!self.streams(first) || self.is_free(other))
            && let Some(action) = self.start(first, needs, None, now_ns)
        {
            return Some(action);
        }
        match self.is_free(other) {
            true => self.next_beside(first, other, now_ns),
            false => None,
        }
    }

    pub(super) fn mark_begun(&mut self, task: usize) {
        if let Some(job) = self.jobs.get_mut(task) {
            job.begun = true;
        }
    }

    /// Work for the engine that the first job does not need.
    fn next_beside(&mut self, first: usize, on: Engine, now_ns: u64) -> Option<Action> {
        match on {
            Engine::Processor => self.step_beside(first, now_ns),
            Engine::Loader => self.load_beside(first, now_ns),
        }
    }

    /// A step while the first job loads: of the job that vouched for the chunk in the way, or of a job without chunks, if
    /// at worst the step ends before the first job's chunk in flight does.
    fn step_beside(&mut self, first: usize, now_ns: u64) -> Option<Action> {
        if let Some(voucher) = self.voucher() {
            return self.start(voucher, Engine::Processor, None, now_ns);
        }
        let ready = |s: &Self, task| {
            s.ready(task, Engine::Processor) && s.chunks(task) == 0 && !s.streams(task)
        };
        let task = self.first(|s, task| task != first && ready(s, task))?;
        let chunk = self.loader.filter(|op| op.task == first)?;
        let (step, chunk_ns) = (self.tasks.get(task)?.step_ns, self.tasks.get(first)?.chunk_ns);
        let left_ns = chunk_ns.saturating_sub(now_ns.saturating_sub(chunk.started_ns));
        if left_ns < step {
            return None;
        }
        self.start(task, Engine::Processor, None, now_ns)
    }

    /// A chunk while the first job computes, for the next job that lacks one, if at worst the chunk comes before the first
    /// job ends. A job that streams may need the loader at any time.
    pub(super) fn load_beside(&mut self, first: usize, now_ns: u64) -> Option<Action> {
        let begun = self.first(|s, task| task != first && s.ready(task, Engine::Loader));
        let next = begun.or_else(|| self.first(|s, task| s.lacks(task) && !s.streams(task)))?;
        let chunk_ns = self.tasks.get(next)?.chunk_ns;
        if self.streams(first) || self.left_ns(first, now_ns) < chunk_ns {
            return None;
        }
        let vouching =
            self.job(first).map(|job| Voucher { task: first, released_ns: job.released_ns });
        self.start(next, Engine::Loader, vouching, now_ns)
    }

    /// The chunk in flight was begun on the promise that this job computes on: it keeps the processor, although it is not
    /// first, while the first job waits for the loader.
    fn voucher(&self) -> Option<usize> {
        let Voucher { task, released_ns } = self.loader?.voucher?;
        let same = self.job(task).is_some_and(|job| job.released_ns == released_ns);
        (same && self.ready(task, Engine::Processor)).then_some(task)
    }

    /// Computing that the job may still need, at worst.
    fn left_ns(&self, task: usize, now_ns: u64) -> u64 {
        let Some((t, job)) = self.tasks.get(task).zip(self.job(task)) else { return 0 };
        let running = self.processor.filter(|op| op.task == task);
        let running_ns = running.map_or(0, |op| now_ns.saturating_sub(op.started_ns));
        t.compute_ns.saturating_sub(job.computed_ns).saturating_sub(running_ns)
    }

    pub(super) fn streams(&self, task: usize) -> bool {
        self.tasks.get(task).is_some_and(|t| t.streams)
    }

    /// The pending job has not begun and lacks chunks.
    pub(super) fn lacks(&self, task: usize) -> bool {
        let Some((t, job)) = self.tasks.get(task).zip(self.job(task)) else { return false };
        job.pending && !job.begun && job.loads(t)
    }

    pub(super) fn is_free(&self, engine: Engine) -> bool {
        match engine {
            Engine::Processor => self.processor.is_none(),
            Engine::Loader => self.loader.is_none(),
        }
    }

    pub(super) fn start(
        &mut self,
        task: usize,
        on: Engine,
        voucher: Option<Voucher>,
        now_ns: u64,
    ) -> Option<Action> {
        let in_flight = Some(InFlight { task, started_ns: now_ns, voucher });
        match on {
            Engine::Processor => {
                self.mark_begun(task);
                if self.streams(task) {
                    self.loader = in_flight;
                }
                self.processor = in_flight;
                Some(Action::Step { task })
            }
            Engine::Loader => {
                let action = self.load(task, now_ns)?;
                self.loader = in_flight;
                Some(action)
            }
        }
    }
}
