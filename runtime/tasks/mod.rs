//! Several networks that share one memory, one storage and one compute device: which works next.
//!
//! A [`Task`] is a network that runs again and again; each run is a *job*, released at some time and due
//! [`deadline_ns`](Task::deadline_ns) later. Part of a network's weights stays in memory, the rest is its *swap
//! volume*: chunks that share the *pool* with other networks' chunks. A job first needs all its chunks in
//! memory, then it computes, step by step.
//!
//! [`Scheduler::next`] decides, [`Scheduler::release`], [`Scheduler::step_done`] and [`Scheduler::chunk_done`] report
//! what happened. The scheduler keeps no clock, does no work itself, and never waits: the runtime
//! drives it on the device, and the simulator drives the same code on the host.
//!
//! # Policy
//!
//! Two engines work at once: the *processor* runs steps, the *loader* reads chunks. Neither interrupts a step or a
//! chunk. The order of jobs is earliest deadline first.
//!
//! - **Begin.** A job with chunks begins when it is first in order and no begun job has its preemption level
//!   or a higher one. A job in the way inherits the deadline of the job that waits for it.
//! - **Gate.** The first job in order is served as soon as its engine is free. Another job may use the other engine only
//!   for an operation that ends, at worst, before the first job may need that engine: a step during the first
//!   job's chunk in flight, a chunk during its remaining computing.
//! - **Ahead of time.** While the first job computes, the loader reads chunks for the next job that lacks some.
//! - **Victims.** A chunk leaves memory when another needs the room: first those of the idle network
//!   whose next release is latest. Only the first job in order takes chunks of begun jobs, which read them again.
//!
//! [`Policy::Classes`] keeps both engines busier: tasks without chunks compute whenever another job loads.
//!
//! `lab/proofs/task-sets.md` proves what these orders guarantee. [`Policy::Regions`] is RT-Swap's published order instead:
//! loading and computing of a job are one region that nothing preempts.

mod classes;
mod jobs;
mod pool;
mod priority;
mod regions;
mod scheduler;
mod task;
mod turn;

pub use scheduler::{Action, Chunk, Finished, ReleaseError, Scheduler};
pub use task::{LONGEST_NS, Policy, SetError, Task, set_reloads};
pub use turn::{Activity, Worker, turn};

#[cfg(test)]
pub(crate) mod inside;
#[cfg(test)]
mod tests;
