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

/// A chunk of a task's swap volume: of weights, or from [`Task::weights`] on of room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The task.
    pub task: usize,
    /// Which of its chunks.
    pub index: u32,
}

/// The operation to start now.
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
    /// The task is stopped.
    Stopped,
}

impl core::fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Unknown => write!(f, "the set has no such task"),
            Self::Unfinished => write!(f, "the task's last job has not ended: this one is lost"),
            Self::Early { next_ns } => {
                write!(f, "the task's period allows no job before {next_ns} ns: release it then")
            }
            Self::Stopped => write!(f, "the task is stopped: start it first"),
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
        if let Some((job, t)) = self.jobs.get_mut(task).zip(self.tasks.get(task)) {
            job.comes(t);
        }
    }

    /// The load in flight has failed: its chunk is not in memory, and its room is free.
    pub fn chunk_lost(&mut self) {
        if self.loader.take().is_some() {
            self.free = self.free.saturating_add(1);
        }
    }

    /// The task's job is given up, between two steps or instead of the end of the one in flight. Returns whether there was
    /// one. Its chunks stay. Its load in flight goes on, and is still reported. For the other jobs it
    /// is as if this one had ended early.
    pub fn abandon(&mut self, task: usize) -> bool {
        if self.processor.is_some_and(|op| op.task == task) {
            self.processor = None;
            if self.streams(task) {
                self.loader = None;
            }
        }
        let Some(job) = self.jobs.get_mut(task).filter(|job| job.pending) else { return false };
        (job.pending, job.begun) = (false, false);
        true
    }

    /// Gives the tasks other times and numbers of chunks, of other plans, and a pool of another size. All chunks have to
    /// leave memory. Not while a step or a chunk is in flight. On an error nothing has changed.
    pub fn change(&mut self, tasks: &[Task], pool: u32) -> Result<(), SetError> {
        if tasks.len() != self.tasks.len() {
            return Err(SetError::Tasks { tasks: tasks.len(), most: self.tasks.len() });
        }
        if let Some(InFlight { task, .. }) = self.processor.or(self.loader) {
            return Err(SetError::Changed { task });
        }
        check(self.policy, tasks, pool)?;
        for (task, (old, new)) in self.tasks.iter_mut().zip(tasks).enumerate() {
            let chunks = old.chunks > 0 || new.chunks > 0;
            *old = *new;
            if let Some(job) = self.jobs.get_mut(task).filter(|_| chunks) {
                job.start_over();
            }
        }
        self.all_out(pool);
        Ok(())
    }

    /// All chunks have left memory, and the pool has `pool` chunks. No chunk is in flight.
    pub(crate) fn all_out(&mut self, pool: u32) {
        self.free = pool;
        self.jobs.iter_mut().for_each(Job::all_out);
    }

    /// The results of the task's job are lost, between two steps. Its deadline stays.
    pub(crate) fn start_over(&mut self, task: usize) {
        if let Some(job) = self.jobs.get_mut(task) {
            job.start_over();
        }
    }

    /// The order of jobs.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// How many tasks there are.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there are no tasks.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// A task as it was declared.
    pub fn task(&self, task: usize) -> Option<&Task> {
        self.tasks.get(task)
    }

    /// Chunks of a task that are in memory.
    pub fn present(&self, task: usize) -> u32 {
        self.jobs.get(task).map_or(0, Job::in_memory)
    }

    /// The deadline of the task's unfinished job.
    pub fn deadline_ns(&self, task: usize) -> Option<u64> {
        self.jobs.get(task).filter(|job| job.pending).map(|job| job.deadline_ns)
    }

    /// Returns the operation to start now. Call it after every report until it says [`Action::Wait`].
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
        let needs = match self.ready(first, Engine::Loader) {
            true => Engine::Loader,
            false => Engine::Processor,
        };
        let (processor, loader) = (self.is_free(Engine::Processor), self.is_free(Engine::Loader));
        if self.is_free(needs)
            && (!self.streams(first) || (processor && loader))
            && let Some(action) = self.start(first, needs, None, now_ns)
        {
            return Some(action);
        }
        // A job that streams waits for the loader, too.
        match needs == Engine::Loader || (self.streams(first) && !loader) {
            true if processor => self.step_during_load(first, now_ns),
            false if loader => self.load_during_step(first, now_ns),
            _ => None,
        }
    }

    pub(super) fn mark_begun(&mut self, task: usize) {
        if let Some(job) = self.jobs.get_mut(task) {
            job.begun = true;
        }
    }

    /// A step while the first job loads: of the job that vouched for the chunk in the way, or of a job without chunks, if
    /// at worst the step ends before the first job's chunk in flight does.
    fn step_during_load(&mut self, first: usize, now_ns: u64) -> Option<Action> {
        if let Some(voucher) = self.voucher() {
            return self.start(voucher, Engine::Processor, None, now_ns);
        }
        let ready = |s: &Self, task| {
            s.ready(task, Engine::Processor) && s.chunks(task) == 0 && !s.streams(task)
        };
        let task = self.first(|s, task| task != first && ready(s, task))?;
        let chunk = self.loader.filter(|op| op.task == first)?;
        let (step, chunk_ns) = (self.tasks.get(task)?.step_ns, self.next_chunk_ns(first)?);
        let left_ns = chunk_ns.saturating_sub(now_ns.saturating_sub(chunk.started_ns));
        if left_ns < step {
            return None;
        }
        self.start(task, Engine::Processor, None, now_ns)
    }

    /// A chunk while the first job computes, for the next job that lacks one, if at worst the chunk comes before the first
    /// job ends. A job that streams may need the loader at any time.
    pub(super) fn load_during_step(&mut self, first: usize, now_ns: u64) -> Option<Action> {
        let begun = self.first(|s, task| task != first && s.ready(task, Engine::Loader));
        let next = begun.or_else(|| self.first(|s, task| s.lacks(task) && !s.streams(task)))?;
        let chunk_ns = self.next_chunk_ns(next)?;
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

    /// The time of the task's next chunk, or of the one in flight. Room takes none.
    fn next_chunk_ns(&self, task: usize) -> Option<u64> {
        let (t, job) = self.tasks.get(task).zip(self.job(task))?;
        Some(if job.room < t.room { 0 } else { t.chunk_ns })
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

    /// The pending job lacks chunks of room.
    pub(super) fn lacks_room(&self, task: usize) -> bool {
        let Some((t, job)) = self.tasks.get(task).zip(self.job(task)) else { return false };
        job.pending && job.room < t.room
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
