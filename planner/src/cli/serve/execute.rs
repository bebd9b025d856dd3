//! Runs a decided set for some time: opens its networks in one arena, and releases jobs by the clock.

use super::arrivals::{Arrival, Arrivals, Kind};
use super::host::{Jobs, Shown, Tally};
use super::inject::Faults;
use super::live;
use super::machine::{Disturbance, Memory, Meter, Ticks};
use super::measure::How;
use super::measured::{Measured, Solo};
use super::samples::Samples;
use super::threads::with_threads;
use super::watch::{Overruns, Times, Watch};
use crate::cli::Error;
use crate::cli::error::SetsError;
use crate::cli::output::Output;
use eyelet::arena::SharedArena;
use eyelet::device::Device;
use eyelet::executor::{ChunkedError, ChunkedInstance};
use eyelet::set::{Activity, Counts, MAX_TASKS, Member, Running, SetEvent, TaskSet};
use eyelet::storage::{Faulty, MAX_DEPTH, Part, ReadQueue, Storage, StorageError};
use eyelet::tasks::{ReleaseError, Task};
use eyelet_planner::source::Source;
use eyelet_tasks::set::decided::Decided;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Tasks of a set that can be run, at most.
pub const MOST_TASKS: usize = MAX_TASKS;

/// How a set is run.
pub struct Wanted<'a> {
    pub decided: &'a Decided,
    pub measured: &'a Measured,
    pub how: How,
    pub arrivals: Kind,
    pub seed: u64,
    pub duration_ns: u64,
    /// No job is released after so many have ended.
    pub jobs: Option<u64>,
    /// Keeps times of jobs, steps and chunks, and ends when there are so many of each task's jobs, and of chunks.
    pub samples: Option<u64>,
    pub faults: Vec<Faults>,
    /// Records what happens.
    pub trace: bool,
    /// Set when the run is to end.
    pub stop: &'a AtomicBool,
    pub output: Output,
}

/// What a run was.
pub struct Outcome {
    pub tasks: Vec<TaskOutcome>,
    pub elapsed_ns: u64,
    pub open_ns: u64,
    pub memory: Memory,
    pub disturbance: Disturbance,
    /// The longest time that a chunk took to come.
    pub worst_chunk_ns: u64,
    /// Times of chunks.
    pub chunks: Samples,
    /// It was ended by a signal.
    pub stopped: bool,
    pub events: Vec<(u64, SetEvent)>,
}

/// What happened to a task.
pub struct TaskOutcome {
    /// From arrival to end, of all jobs that ended.
    pub responses_ns: Vec<u64>,
    pub lost: u64,
    pub late: u64,
    pub failed: u64,
    pub different: u64,
    pub first_error: Option<String>,
    pub counts: Counts,
    /// What took longer than the test counts.
    pub overruns: Overruns,
    /// Where they are kept.
    pub times: Times,
}

/// A pack that is read, with faults or without.
enum Disk<'s> {
    Sound(Box<Part<Source>>),
    Faulty(Box<Faulty<'s, Part<Source>>>),
}

impl Storage for Disk<'_> {
    fn len(&self) -> Result<u64, StorageError> {
        match self {
            Self::Sound(disk) => disk.len(),
            Self::Faulty(disk) => disk.len(),
        }
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        match self {
            Self::Sound(disk) => disk.read(offset, into),
            Self::Faulty(disk) => disk.read(offset, into),
        }
    }

    fn alignment(&self) -> u64 {
        match self {
            Self::Sound(disk) => disk.alignment(),
            Self::Faulty(disk) => disk.alignment(),
        }
    }

    fn queue(&mut self) -> Option<&mut dyn ReadQueue> {
        match self {
            Self::Sound(disk) => disk.queue(),
            Self::Faulty(disk) => disk.queue(),
        }
    }
}

/// Runs a set. What shows it meanwhile is a thread without priority.
pub fn execute(wanted: &Wanted<'_>) -> Result<Outcome, Error> {
    let tasks = &wanted.decided.set.tasks;
    let names: Vec<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
    let shown: Vec<Shown> = tasks.iter().map(|_| Shown::default()).collect();
    live::beside(wanted.output, &names, &shown, wanted.duration_ns, || {
        wanted.how.first.run(|| opened(wanted, &shown))
    })?
}

/// As [`execute`], without anything on the terminal.
pub fn unshown(wanted: &Wanted<'_>) -> Result<Outcome, Error> {
    let shown: Vec<Shown> = wanted.decided.set.tasks.iter().map(|_| Shown::default()).collect();
    wanted.how.first.run(|| opened(wanted, &shown))?
}

/// Opens a set's networks in one arena, and runs them.
fn opened(wanted: &Wanted<'_>, shown: &[Shown]) -> Result<Outcome, Error> {
    let Wanted { decided, measured, how, .. } = wanted;
    let solos: Vec<&Solo> = decided
        .packs
        .iter()
        .map(|planned| {
            let unknown =
                || Error::Internal(format!("{} was not measured", planned.pack.name().display()));
            measured.solo(planned).ok_or_else(unknown)
        })
        .collect::<Result<_, _>>()?;
    let meter = Meter::start();
    let start = Instant::now();
    let (memory_bytes, chunk_bytes) = (decided.set.memory_bytes, decided.assignment.chunk_bytes);
    let arena = SharedArena::new(memory_bytes, chunk_bytes)?;
    let (mut networks, mut disks) = (Vec::new(), Vec::new());
    for ((planned, &chunks), faults) in
        decided.packs.iter().zip(&decided.assignment.chunks).zip(&wanted.faults)
    {
        let mut disk = how.open(&planned.pack)?;
        let network = ChunkedInstance::open(&mut disk, &arena, how.options(planned.budget), chunks);
        networks.push(network.map_err(|source| match source {
            ChunkedError::Open(source) => Error::pack(&planned.pack.name(), source),
            source => SetsError::Open { path: planned.pack.name(), source }.into(),
        })?);
        disks.push(match faults.script.as_slice() {
            [] => Disk::Sound(Box::new(disk)),
            script => Disk::Faulty(Box::new(Faulty::new(disk, script).queued(MAX_DEPTH).prompt(1))),
        });
    }
    let pool = arena.pool()?;
    if pool.chunks() < decided.pool() {
        let (memory, wanted, found) = (memory_bytes, decided.pool(), pool.chunks());
        return Err(SetsError::Pool { memory, wanted, found }.into());
    }
    let tasks = scheduled(decided, wanted.arrivals);
    let members = networks.iter_mut().zip(&mut disks).zip(&tasks);
    let members =
        members.map(|((network, storage), task)| Member { task: *task, network, storage });
    let mut set: TaskSet<'_, '_, Disk<'_>, MOST_TASKS> =
        TaskSet::new(decided.assignment.policy, members, pool).map_err(SetsError::Refused)?;
    let open_ns = start.elapsed().as_nanos() as u64;
    let outcome = with_threads(how.threads, how.cores.as_ref(), |device| {
        run((wanted, shown), &solos, (&tasks, &mut set), device)
    })?;
    let outcome = outcome?;
    let memory = meter.stop(memory_bytes, arena.bytes());
    Ok(Outcome { open_ns, memory, ..outcome })
}

/// Tasks as the device's scheduler has them. Random arrivals may come closer than periods allow. So periods and deadlines
/// are next to nothing there, in proportion: jobs are served in the order of their releases.
fn scheduled(decided: &Decided, arrivals: Kind) -> Vec<Task> {
    let mut tasks = decided.assignment.tasks(&decided.set);
    if arrivals == Kind::Poisson {
        let shortest = tasks.iter().map(|task| task.deadline_ns).min().unwrap_or(1);
        for task in &mut tasks {
            task.deadline_ns = (task.deadline_ns / shortest.max(1)).max(1);
            (task.period_ns, task.jitter_ns) = (task.deadline_ns, 0);
        }
    }
    tasks
}

/// Jobs for which there is room before the run begins: for more, memory is taken meanwhile.
const ROOM: u64 = 1 << 20;

fn run(
    (wanted, shown): (&Wanted<'_>, &[Shown]),
    solos: &[&Solo],
    (scheduled, set): (&[Task], &mut TaskSet<'_, '_, Disk<'_>, MOST_TASKS>),
    device: &dyn Device,
) -> Result<Outcome, Error> {
    let declared = &wanted.decided.set;
    let tally = |task: &eyelet_tasks::set::Task| {
        let jobs = (wanted.duration_ns / task.period_ns.max(1) + 16).min(ROOM);
        Tally::new(task.deadline_ns, jobs as usize)
    };
    let tallies: Vec<Tally> = declared.tasks.iter().map(tally).collect();
    let start = Instant::now();
    let clock = || start.elapsed().as_nanos() as u64;
    let sampled = Cell::new(0);
    let mut host = Jobs {
        tallies: &tallies,
        shown,
        solos,
        overload: wanted.faults.iter().map(|faults| faults.overload).collect(),
        step: vec![0; tallies.len()],
        watch: Watch::new(scheduled, wanted.samples.is_some()),
        chunks: &sampled,
        clock: &clock,
        events: wanted.trace.then(|| Vec::with_capacity(1 << 16)),
    };
    let ticks = Ticks::now();
    set.run(device, &clock, &mut host, |running| {
        let reads = scheduled.iter().any(|task| task.weights() > 0);
        let (full, chunks) = (Cell::new(false), &sampled);
        Loop { wanted, tallies: &tallies, shown, clock: &clock, reads, chunks, full }.go(running);
    });
    let elapsed_ns = clock();
    let disturbance = Ticks::now().since(ticks);
    let events = host.events.take().unwrap_or_default();
    let (worst_chunk_ns, chunks) = (host.watch.worst_chunk_ns, host.watch.chunks.clone());
    let found = host.watch.found();
    let tasks = tallies.into_iter().zip(found).enumerate();
    let tasks = tasks.map(|(task, (tally, (overruns, times)))| TaskOutcome {
        responses_ns: tally.responses_ns.into_inner(),
        lost: tally.lost.get(),
        late: tally.late.get(),
        failed: tally.failed.get(),
        different: tally.different.get(),
        first_error: tally.first_error.into_inner(),
        counts: set.counts(task),
        overruns,
        times,
    });
    Ok(Outcome {
        tasks: tasks.collect(),
        elapsed_ns,
        open_ns: 0,
        memory: Memory::default(),
        disturbance,
        worst_chunk_ns,
        chunks,
        stopped: wanted.stop.load(Ordering::Relaxed),
        events,
    })
}

/// Releases jobs and lets the set work.
struct Loop<'a> {
    wanted: &'a Wanted<'a>,
    tallies: &'a [Tally],
    shown: &'a [Shown],
    clock: &'a dyn Fn() -> u64,
    /// Chunks are read.
    reads: bool,
    /// Times of chunks that there are.
    chunks: &'a Cell<u64>,
    /// There are all samples that are wanted.
    full: Cell<bool>,
}

/// Before a release the thread looks at the clock over and over, since to be woken takes about as long.
const AWAKE_NS: u64 = 150_000;
/// How long it sleeps while a chunk is on its way.
const GLANCE: Duration = Duration::from_micros(20);
/// It looks for signals at least so often.
const NAP_NS: u64 = 50_000_000;
/// Jobs that are unfinished when the time is over have so long to end.
const REST_NS: u64 = 5_000_000_000;

/// Arrivals that wait, at most. More are lost.
const MOST_WAITING: usize = 1 << 20;

impl Loop<'_> {
    fn go<const N: usize>(&self, running: &mut Running<'_, '_, N>) {
        let Self { wanted, clock, .. } = self;
        let set = &wanted.decided.set;
        let mut arrivals = Arrivals::new(set, wanted.arrivals, wanted.seed);
        let mut waiting = VecDeque::new();
        let end_ns = wanted.duration_ns;
        while !wanted.stop.load(Ordering::Relaxed) {
            let now_ns = clock();
            self.look_for_samples();
            if !self.enough() {
                while let Some(arrival) = arrivals.due(now_ns.min(end_ns.saturating_sub(1))) {
                    match waiting.len() < MOST_WAITING {
                        true => waiting.push_back(self.delayed(arrival)),
                        false => self.lose(arrival.task),
                    }
                }
                self.release(running, &mut waiting, now_ns);
            }
            let over = now_ns >= end_ns || self.enough();
            let done = self.idle() && (waiting.is_empty() || self.enough());
            if over && done {
                break;
            }
            if now_ns >= end_ns.saturating_add(REST_NS) {
                self.give_up(&waiting);
                break;
            }
            let next_ns = waiting.iter().map(|arrival: &Arrival| arrival.release_ns);
            let next_ns = next_ns.filter(|ns| *ns > now_ns).min().unwrap_or(u64::MAX);
            match running.step() {
                Activity::Idle => self.sleep(next_ns.min(arrivals.next_ns())),
                Activity::Loading => std::thread::sleep(GLANCE),
                _ => {}
            }
        }
    }

    /// Counts what has arrived and has not ended as lost.
    fn give_up(&self, waiting: &VecDeque<Arrival>) {
        let busy = (0..self.tallies.len()).filter(|task| self.tallies[*task].busy.get());
        busy.for_each(|task| self.lose(task));
        if !self.enough() {
            waiting.iter().for_each(|arrival| self.lose(arrival.task));
        }
    }

    fn lose(&self, task: usize) {
        Jobs::lose(&self.tallies[task], &self.shown[task]);
    }

    /// So many jobs have ended as are wanted.
    fn enough(&self) -> bool {
        let ended =
            || self.shown.iter().map(|shown| shown.jobs.load(Ordering::Relaxed)).sum::<u64>();
        self.full.get() || self.wanted.jobs.is_some_and(|jobs| ended() >= jobs)
    }

    /// Looks whether there are all samples that are wanted.
    fn look_for_samples(&self) {
        let Some(samples) = self.wanted.samples.filter(|_| !self.full.get()) else { return };
        let jobs = self.shown.iter().map(|shown| shown.jobs.load(Ordering::Relaxed)).min();
        if jobs.is_none_or(|jobs| jobs >= samples) && (!self.reads || self.chunks.get() >= samples)
        {
            self.full.set(true);
        }
    }

    fn idle(&self) -> bool {
        self.tallies.iter().all(|tally| !tally.busy.get())
    }

    /// With the lateness that is injected.
    fn delayed(&self, arrival: Arrival) -> Arrival {
        let late_ns = self.wanted.faults[arrival.task].late_ns;
        Arrival { release_ns: arrival.release_ns.saturating_add(late_ns), ..arrival }
    }

    /// Releases what is due. A periodic job whose predecessor is unfinished is lost; others wait.
    fn release<const N: usize>(
        &self,
        running: &mut Running<'_, '_, N>,
        waiting: &mut VecDeque<Arrival>,
        now_ns: u64,
    ) {
        waiting.retain_mut(|arrival| {
            let &mut Arrival { release_ns, arrival_ns, task } = arrival;
            let tally = &self.tallies[task];
            if release_ns > now_ns {
                return true;
            }
            if tally.busy.get() {
                if self.wanted.arrivals == Kind::Periodic {
                    self.lose(task);
                    return false;
                }
                return true;
            }
            // A job that had to wait is released when it can begin.
            let release_ns = match self.wanted.arrivals {
                Kind::Periodic => release_ns,
                Kind::Poisson => now_ns,
            };
            tally.late_ns.set(release_ns.saturating_sub(arrival_ns));
            match running.release(task, release_ns) {
                Ok(()) => tally.busy.set(true),
                Err(ReleaseError::Early { next_ns }) => {
                    arrival.release_ns = next_ns;
                    return true;
                }
                Err(_) => self.lose(task),
            }
            false
        });
    }

    /// Sleeps until the next release, or for a while.
    fn sleep(&self, next_ns: u64) {
        let now_ns = (self.clock)();
        let until_ns = next_ns.min(now_ns.saturating_add(NAP_NS));
        match until_ns.saturating_sub(now_ns) {
            ns if ns > AWAKE_NS => std::thread::sleep(Duration::from_nanos(ns - AWAKE_NS)),
            _ => std::thread::yield_now(),
        }
    }
}
