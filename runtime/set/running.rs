//! A set at work: what the scheduler says is done, one thing after the other.

use super::counts::Counts;
use super::error::JobError;
use super::host::{Host, SetEvent};
use super::state::State;
use super::watch::Watch;
use crate::device::Device;
use crate::executor::{ChunkError, Network, Networks, Progress};
use crate::sys::discard::discard;
use crate::tasks::{Activity, Chunk, ReleaseError, Scheduler, Task, Worker, turn};

/// Why nobody needs to know yet that a chunk does not leave memory.
const STAYS: &str = "a chunk keeps its slot: it leaves when the slot is needed, or the job that needs it hears why not";

/// A set whose networks are at work.
pub struct Running<'r, 'a, const N: usize> {
    pub(super) state: &'r mut State<'a, N>,
    pub(super) networks: &'r mut dyn Networks,
    pub(super) device: &'r dyn Device,
    pub(super) clock: &'r dyn Fn() -> u64,
    pub(super) host: &'r mut dyn Host,
    /// The chunk in flight, and when it began.
    pub(super) loading: Option<(Chunk, u64)>,
    pub(super) watch: Watch,
    /// Chunks are read while steps compute, not by this thread.
    pub(super) reads_go_on: bool,
}

impl<const N: usize> Running<'_, '_, N> {
    /// A job of the task has arrived. One that is lost because its predecessor has not ended counts as a miss.
    pub fn release(&mut self, task: usize, now_ns: u64) -> Result<(), ReleaseError> {
        let status = self.state.tasks.get_mut(task).ok_or(ReleaseError::Unknown)?;
        if status.stopped {
            return Err(ReleaseError::Stopped);
        }
        let result = self.state.scheduler.release(task, now_ns);
        match result {
            Ok(()) => self.host.event(SetEvent::Released { task }, now_ns),
            Err(ReleaseError::Unfinished) => status.counts.misses += 1,
            Err(_) => {}
        }
        result
    }

    /// Does what comes next: at most one step of one network. Reads continue meanwhile.
    ///
    /// This thread itself reads from storage without a queue. A call then reads one piece of a chunk, and calls do nothing
    /// else until the whole chunk is there.
    pub fn step(&mut self) -> Activity {
        turn(&mut Hands(self))
    }

    /// Works until that time, or until nothing is left to do. Waits for chunks by asking over and over.
    pub fn run_until(&mut self, until_ns: u64) -> Activity {
        loop {
            match self.step() {
                Activity::Idle => return Activity::Idle,
                activity if (self.clock)() >= until_ns => return activity,
                Activity::Loading => core::hint::spin_loop(),
                _ => {}
            }
        }
    }

    /// Waits for the chunk in flight, if there is one.
    pub fn wait(&mut self) {
        self.look(true);
    }

    /// Gives up the task's job, and releases none until it is [started](Self::start). Its chunks stay in memory
    /// until others need the room.
    pub fn stop(&mut self, task: usize) {
        if let Some(status) = self.state.tasks.get_mut(task) {
            status.stopped = true;
            self.give_up(task, JobError::Stopped);
        }
    }

    /// Jobs of the task are released again.
    pub fn start(&mut self, task: usize) {
        if let Some(status) = self.state.tasks.get_mut(task) {
            status.stopped = false;
        }
    }

    /// Counts of a task; zeros if there is no such task.
    pub fn counts(&self, task: usize) -> Counts {
        self.state.tasks.get(task).map_or(Counts::default(), |status| status.counts)
    }

    /// A task as the scheduler sees it now; none if there is no such task.
    pub fn task(&self, task: usize) -> Option<&Task> {
        self.state.scheduler.task(task)
    }

    /// Chunks of a task that are in memory.
    pub fn present(&self, task: usize) -> u32 {
        self.state.scheduler.present(task)
    }

    /// The deadline of the task's unfinished job.
    pub fn deadline_ns(&self, task: usize) -> Option<u64> {
        self.state.scheduler.deadline_ns(task)
    }

    /// One step of a job, with the program's part before the first and after the last.
    fn compute(&mut self, task: usize, start_ns: u64) {
        let Self { state, networks, host, .. } = self;
        let Some((network, status)) = networks.network(task).zip(state.tasks.get_mut(task)) else {
            return;
        };
        host.event(SetEvent::StepBegins { task }, start_ns);
        if !status.computing {
            if let Some(ports) = network.ports() {
                host.inputs(task, ports);
            }
            (status.computing, status.computed_ns) = (true, 0);
        }
        let result = network.step(self.device);
        let now_ns = (self.clock)();
        let host = &mut self.host;
        host.event(SetEvent::StepEnds { task }, now_ns);
        self.watch.step_ran();
        let took_ns = now_ns.saturating_sub(start_ns);
        status.computed_ns = status.computed_ns.saturating_add(took_ns);
        let Some(declared) = state.scheduler.task(task).copied() else { return };
        status.counts.step_overruns += u64::from(took_ns > declared.step_ns);
        let progress = match result {
            Ok(progress) => progress,
            Err(error) => return self.give_up(task, JobError::Infer(error)),
        };
        let finished = state.scheduler.step_done(now_ns, progress == Progress::Finished);
        if let Some(job) = finished {
            status.computing = false;
            status.counts.job(&job, status.computed_ns, &declared);
            host.event(SetEvent::Ended { task }, now_ns);
            if let Some(ports) = network.ports() {
                host.outputs(&job, ports);
            }
        }
    }

    /// Begins to bring a chunk into memory, in the place of another.
    fn load(&mut self, chunk: Chunk, evict: Option<Chunk>, now_ns: u64) {
        let left = evict.map_or(Ok(()), |victim| {
            let Chunk { task, index } = victim;
            self.host.event(SetEvent::ChunkLeaves { task, chunk: index }, now_ns);
            self.put_out(victim)
        });
        self.host.event(SetEvent::ChunkBegins { task: chunk.task, chunk: chunk.index }, now_ns);
        match left.and_then(|()| self.begin(chunk)) {
            Ok(()) => (self.loading, self.watch) = (Some((chunk, now_ns)), Watch::default()),
            Err(error) => self.lose(chunk, error, now_ns),
        }
    }

    /// Looks whether the chunk in flight is there, or waits for it. Returns its task if it has ended.
    fn look(&mut self, wait: bool) -> Option<usize> {
        let (chunk, began_ns) = self.loading?;
        let task = chunk.task;
        let result = self.network(task)?.poll_chunk(wait);
        let now_ns = (self.clock)();
        let after_ns = now_ns.saturating_sub(began_ns);
        // A task does not say what room takes.
        let declared =
            self.state.scheduler.task(task).filter(|declared| chunk.index < declared.weights());
        let declared_ns = declared.map_or(u64::MAX, |declared| declared.chunk_ns);
        let Some(result) = result else {
            self.watch.in_flight(after_ns, declared_ns);
            return None;
        };
        self.loading = None;
        match result {
            Ok(()) => {
                self.state.scheduler.chunk_done();
                self.host.event(SetEvent::ChunkEnds { task, chunk: chunk.index }, now_ns);
                if let Some(status) = self.state.tasks.get_mut(task) {
                    let late = self.watch.has_come(after_ns, declared_ns);
                    status.counts.chunk_overruns += u64::from(late);
                    status.counts.chunks += 1;
                }
            }
            Err(error) => self.lose(chunk, error, now_ns),
        }
        Some(task)
    }

    /// A chunk did not come into memory. Its job is given up, if there is one.
    fn lose(&mut self, chunk: Chunk, error: ChunkError, now_ns: u64) {
        let Chunk { task, index } = chunk;
        self.host.event(SetEvent::ChunkFails { task, chunk: index }, now_ns);
        discard(self.put_out(chunk), STAYS);
        self.state.scheduler.chunk_lost();
        self.give_up(task, JobError::Chunk { chunk: index, error });
    }

    /// Gives up a task's job, if it has one that is unfinished.
    fn give_up(&mut self, task: usize, error: JobError) {
        if !self.drop_job(task) {
            return;
        }
        if let Some(status) = self.state.tasks.get_mut(task) {
            status.counts.failed += 1;
        }
        self.host.event(SetEvent::GivenUp { task }, (self.clock)());
        self.host.failed(task, error);
    }

    fn drop_job(&mut self, task: usize) -> bool {
        if let Some(network) = self.network(task) {
            network.abandon();
        }
        if let Some(status) = self.state.tasks.get_mut(task) {
            status.computing = false;
        }
        self.state.scheduler.abandon(task)
    }

    /// Waits for the chunk in flight, and takes it out of memory.
    pub(super) fn drop_chunk(&mut self) {
        if let Some((chunk, _)) = self.loading.take() {
            discard(self.put_out(chunk), STAYS);
            self.state.scheduler.chunk_lost();
        }
    }

    fn network(&mut self, task: usize) -> Option<&mut dyn Network> {
        self.networks.network(task)
    }

    /// Before the scope is left: gives up all jobs.
    pub(super) fn leave(&mut self) {
        for task in 0..self.state.tasks.len() {
            self.give_up(task, JobError::Stopped);
        }
    }
}

impl<const N: usize> Drop for Running<'_, '_, N> {
    /// Ends the reads in flight, however the scope is left.
    fn drop(&mut self) {
        for task in 0..self.state.tasks.len() {
            self.drop_job(task);
        }
        self.drop_chunk();
    }
}

impl<const N: usize> core::fmt::Debug for Running<'_, '_, N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Running")
            .field("state", &self.state)
            .field("loading", &self.loading)
            .finish()
    }
}

/// The worker of [`turn`], which callers cannot reach.
struct Hands<'x, 'r, 'a, const N: usize>(&'x mut Running<'r, 'a, N>);

impl<const N: usize> Worker<N> for Hands<'_, '_, '_, N> {
    fn scheduler(&mut self) -> &mut Scheduler<N> {
        &mut self.0.state.scheduler
    }

    fn now_ns(&self) -> u64 {
        (self.0.clock)()
    }

    fn reads_go_on(&self) -> bool {
        self.0.reads_go_on
    }

    fn comes_alone(&mut self) -> bool {
        let task = self.0.loading.map(|(chunk, _)| chunk.task);
        task.and_then(|task| self.0.network(task)).is_some_and(|network| network.goes_on())
    }

    fn loading(&self) -> Option<usize> {
        self.0.loading.map(|(chunk, _)| chunk.task)
    }

    fn load(&mut self, chunk: Chunk, evict: Option<Chunk>, now_ns: u64) {
        self.0.load(chunk, evict, now_ns);
    }

    fn look(&mut self) -> Option<usize> {
        self.0.look(false)
    }

    fn compute(&mut self, task: usize, now_ns: u64) {
        self.0.compute(task, now_ns);
    }
}
