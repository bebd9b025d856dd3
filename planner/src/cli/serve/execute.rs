//! Runs a decided set for some time: opens its networks in one arena, and releases jobs by the clock.

use super::arrivals::Kind;
use super::by_clock::Loop;
use super::host::{Jobs, Shown, Tally};
use super::live;
use super::machine::{Disturbance, Memory, Meter, Ticks};
use super::samples::Samples;
use super::solo::Solo;
use super::threads::with_threads;
use super::wanted::Wanted;
use super::watch::{Exceeded, Overruns, Times, Watch};
use crate::cli::Error;
use crate::cli::error::SetsError;
use eyelet::arena::SharedArena;
use eyelet::device::Device;
use eyelet::executor::{ChunkedError, ChunkedInstance};
use eyelet::set::{Counts, MAX_TASKS, Member, SetEvent, TaskSet};
use eyelet::storage::{Faulty, MAX_DEPTH, Part, ReadQueue, Storage, StorageError};
use eyelet::tasks::Task;
use eyelet_planner::source::Source;
use eyelet_tasks::set::decided::Decided;
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Tasks of a set that can be run, at most.
pub const MOST_TASKS: usize = MAX_TASKS;

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
    /// When the thread that computes did not look although it had nothing to compute.
    pub pauses: Exceeded,
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
    live::with_display(wanted.output, &names, &shown, wanted.duration_ns, || {
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
    let pauses = Cell::new(Exceeded::default());
    let ticks = Ticks::now();
    set.run(device, &clock, &mut host, |running| {
        let reads = scheduled.iter().any(|task| task.weights() > 0);
        Loop::new((wanted, &tallies, shown), &clock, (reads, &sampled), &pauses).go(running);
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
        pauses: pauses.get(),
        stopped: wanted.stop.load(Ordering::Relaxed),
        events,
    })
}
