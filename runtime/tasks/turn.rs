//! The order in which one thread does what a scheduler decides.
//!
//! A step runs to its end on this thread. Meanwhile nothing is decided: releases, and ends of chunks, are seen between two
//! steps. [`crate::set::Running`] works in this order, and so does the simulator of the host.

use super::scheduler::{Action, Chunk, Scheduler};
use super::task::Policy;

/// Carries out actions of a scheduler, on one thread.
pub trait Worker<const N: usize> {
    /// The scheduler that decides.
    fn scheduler(&mut self) -> &mut Scheduler<N>;

    /// The time.
    fn now_ns(&self) -> u64;

    /// Whether the chunks of all tasks are read while steps compute. If not, a chunk is one operation.
    fn reads_go_on(&self) -> bool;

    /// Whether the chunk in flight is read while this thread does something else. If not, this thread reads it, piece by
    /// piece.
    fn comes_alone(&mut self) -> bool;

    /// The task of the chunk in flight.
    fn loading(&self) -> Option<usize>;

    /// Begins to bring a chunk into memory, in the place of another.
    fn load(&mut self, chunk: Chunk, evict: Option<Chunk>, now_ns: u64);

    /// Reports the chunk in flight to the scheduler if it has ended, and returns its task then. Reads a piece of it if reads
    /// do not go on by themselves.
    fn look(&mut self) -> Option<usize>;

    /// Computes a step of the task's job to its end, and reports it to the scheduler.
    fn compute(&mut self, task: usize, now_ns: u64);
}

/// A single thing that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activity {
    /// A step of this task's job.
    Step {
        /// The task.
        task: usize,
    },
    /// No step: a chunk came into memory, or failed to.
    Chunk {
        /// The task.
        task: usize,
    },
    /// This thread has read a piece of a chunk. More of it is to be read.
    Piece {
        /// The task.
        task: usize,
    },
    /// Nothing: all that may go on waits for the chunk in flight.
    Loading,
    /// Nothing: no job is unfinished, or none of those that are can go on.
    Idle,
}

/// Does the next thing: at most one step.
///
/// Where not all chunks are read while steps compute, a chunk is one operation: nothing else is done before it has ended.
pub fn turn<const N: usize>(worker: &mut impl Worker<N>) -> Activity {
    worker.look();
    if let Some(activity) = occupied(worker) {
        return activity;
    }
    loop {
        let now_ns = worker.now_ns();
        match worker.scheduler().next(now_ns) {
            Action::Step { task } => {
                // The next region would get one chunk a step, and all wait for the region that has begun.
                let regions = worker.scheduler().policy() == Policy::Regions;
                if worker.reads_go_on() && !regions {
                    load_during_step(worker, now_ns);
                }
                worker.compute(task, now_ns);
                worker.look();
                return Activity::Step { task };
            }
            Action::Load { chunk, evict } => {
                worker.load(chunk, evict, now_ns);
                if let Some(task) = worker.look() {
                    return Activity::Chunk { task };
                }
                if let Some(activity) = occupied(worker) {
                    return activity;
                }
            }
            Action::Wait => {
                return match worker.look() {
                    Some(task) => Activity::Chunk { task },
                    None if worker.loading().is_some() => Activity::Loading,
                    None => Activity::Idle,
                };
            }
        }
    }
}

/// With one engine nothing else is done while a chunk is in flight.
fn occupied<const N: usize>(worker: &mut impl Worker<N>) -> Option<Activity> {
    let task = worker.loading().filter(|_| !worker.reads_go_on())?;
    match worker.comes_alone() {
        true => Some(Activity::Loading),
        false => Some(Activity::Piece { task }),
    }
}

/// Before a step computes: begins the chunk that comes meanwhile.
fn load_during_step<const N: usize>(worker: &mut impl Worker<N>, now_ns: u64) {
    while let Action::Load { chunk, evict } = worker.scheduler().next(now_ns) {
        worker.load(chunk, evict, now_ns);
    }
}
