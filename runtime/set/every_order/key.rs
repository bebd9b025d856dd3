//! The part of a set's state that decides what happens next.
//!
//! Two states with one key behave alike. Times count from now. Where they are past, only their order decides: of
//! deadlines, and of releases. Slots are all the same, so a chunk has one or none.

use super::super::*;
use super::events::Left;
use super::program::Program;
use super::{NETWORKS, Setup};
use crate::arena::refusals::Refusals;
use crate::storage::steered::Desk;
use crate::tasks::inside::JobState;
use std::vec::Vec;

pub(super) type Key = Vec<u64>;

/// The state's key.
pub(super) fn key(
    setup: &Setup<'_>,
    running: &mut Running<'_, '_, NETWORKS>,
    program: &Program,
    (desks, refusals): (&[Desk<'_>], &Refusals),
    left: &Left,
) -> Key {
    let now_ns = program.clock.get();
    let mut key = left.jobs.map(u64::from).to_vec();
    key.extend([left.faults, left.stops, left.leaves, left.changes].map(u64::from));
    key.push(left.choice as u64);
    key.push(left.refusals.into());
    key.extend(refusals.next().map(|(call, before)| u64::from(before) << 1 | call as u64));
    let jobs = running.state.scheduler.job_states();
    for (task, job) in jobs.iter().enumerate() {
        of_job(&mut key, job, &jobs, now_ns, running.state.scheduler.task(task).unwrap());
        let status = running.state.tasks[task];
        key.push(u64::from(status.computing) << 1 | u64::from(status.stopped));
        key.push(u64::from(program.begun[task].get() % 2));
    }
    for (task, started_ns, by) in running.state.scheduler.operations().into_iter().flatten() {
        let chunk_ns = running.state.scheduler.task(task).unwrap().chunk_ns;
        let vouches = by.is_some_and(|(by, released_ns)| jobs[by].released_ns == released_ns);
        let by = by.filter(|_| vouches).map_or(0, |(by, _)| by as u64 + 1);
        key.extend([u64::MAX, task as u64, (now_ns - started_ns).min(chunk_ns + 1), by]);
    }
    for (task, desk) in desks.iter().enumerate().take(setup.parts.len()) {
        key.extend([u64::MAX - 1, u64::from(desk.fails.get())]);
        of_network(&mut key, running, task);
        for (offset, ended) in desk.reads() {
            key.extend([offset, ended.map_or(2, u64::from)]);
        }
    }
    key
}

fn of_job(key: &mut Key, job: &JobState, jobs: &[JobState], now_ns: u64, task: &Task) {
    let pending = || jobs.iter().filter(|job| job.pending);
    let deadline = match now_ns < job.deadline_ns {
        true => 1000 + job.deadline_ns - now_ns,
        false => pending().filter(|other| other.deadline_ns < job.deadline_ns).count() as u64,
    };
    let released = match now_ns == job.released_ns {
        true => 1000,
        false => pending().filter(|other| other.released_ns < job.released_ns).count() as u64,
    };
    let state = u64::from(job.pending) << 1 | u64::from(job.begun);
    let next_ns = job.next_ns.saturating_sub(now_ns);
    key.extend([state, next_ns, job.present.into(), job.first.into()]);
    if job.pending {
        key.extend([deadline, released, job.computed_ns.min(task.compute_ns)]);
    }
}

fn of_network(key: &mut Key, running: &mut Running<'_, '_, NETWORKS>, task: usize) {
    let inside = running.networks.network(task).unwrap().inside();
    let has_plan = running.networks.network(task).unwrap().plan().is_some();
    key.push((inside.position as u64) << 1 | u64::from(has_plan));
    key.extend(inside.slots.iter().map(|slot| u64::from(slot.is_some())));
    key.extend(inside.loads.map(u64::from));
    if let Some((chunk, next, crc)) = inside.coming {
        key.extend([chunk.into(), next as u64, crc.into()]);
    }
}
