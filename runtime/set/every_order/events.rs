//! Events of a set, and which of them are possible now.

use super::super::*;
use super::program::Program;
use super::{NETWORKS, Setup};
use crate::arena::refusals::{Call, Refusals};
use crate::storage::steered::{Desk, End};
use std::vec::Vec;

/// Something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The program lets the set do what comes next: a step takes so much longer than it could.
    Step { longer_ns: u64 },
    /// A read of the task ends, by its place in order.
    End { task: usize, place: usize, how: End },
    /// The next read of the task fails, where the caller's thread reads.
    Fail(usize),
    /// The program waits for the chunk in flight.
    Wait,
    /// A job is released.
    Release(usize),
    /// Nothing happens until another job may be released.
    Pass { until_ns: u64 },
    /// A task is stopped.
    Stop(usize),
    /// The task is started.
    Start(usize),
    /// All budgets change, to the others of two; or a plan cannot be read, so they stay.
    Change { fails: bool },
    /// The system will refuse to map, or to unmap: once, after `before` calls that it permits.
    Refuse { call: Call, before: u32 },
    /// The scope is left, and another begins.
    Leave,
}

impl Event {
    /// Such events alone have to bring every job to its end.
    pub fn helps(self) -> bool {
        matches!(self, Self::Step { .. } | Self::End { how: End::Good, .. })
    }
}

/// Budgets of all networks, and their tasks then.
pub(super) struct Choice {
    pub budgets: Vec<u64>,
    pub tasks: Vec<Task>,
}

/// How much may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub jobs: [u32; NETWORKS],
    pub faults: u32,
    pub refusals: u32,
    pub stops: u32,
    pub leaves: u32,
    pub changes: u32,
    /// Which of two budgets all networks have.
    pub choice: usize,
}

impl Left {
    pub fn all(setup: &Setup<'_>) -> Self {
        let jobs = core::array::from_fn(|task| setup.parts.get(task).map_or(0, |part| part.jobs));
        let Setup { faults, refusals, stops, leaves, changes, .. } = *setup;
        Self { jobs, faults, refusals, stops, leaves, changes, choice: 0 }
    }
}

/// The events that are possible now.
pub(super) fn possible(
    setup: &Setup<'_>,
    running: &Running<'_, '_, NETWORKS>,
    (desks, refusals): (&[Desk<'_>], &Refusals),
    left: &Left,
    now_ns: u64,
) -> Vec<Event> {
    let mut events = Vec::new();
    if left.leaves > 0 {
        // First: from a state that another event has left alone, one goes on in the same scope.
        events.push(Event::Leave);
    }
    events.push(Event::Step { longer_ns: 0 });
    if setup.longer_ns > 0 {
        events.push(Event::Step { longer_ns: setup.longer_ns });
    }
    for (task, desk) in desks.iter().enumerate() {
        for (place, _) in desk.reads().iter().enumerate().filter(|(_, read)| read.1.is_none()) {
            events.push(Event::End { task, place, how: End::Good });
            let faults = [End::Error, End::Short, End::Damaged];
            let faults = faults.into_iter().filter(|_| left.faults > 0);
            events.extend(faults.map(|how| Event::End { task, place, how }));
        }
    }
    if let Some((chunk, _)) = running.loading {
        events.push(Event::Wait);
        if setup.depth == 0 && left.faults > 0 {
            events.push(Event::Fail(chunk.task));
        }
    }
    if left.refusals > 0 && refusals.next().is_none() {
        // An event asks twice at most, and a change of budgets for each chunk and each part of a plan.
        let most = if left.changes > 0 { 5 } else { 2 };
        let calls = [Call::Map, Call::Unmap].into_iter();
        events.extend(
            calls.flat_map(|call| (0..most).map(move |before| Event::Refuse { call, before })),
        );
    }
    let jobs = running.state.scheduler.job_states();
    let mut next_ns = u64::MAX;
    for (task, (job, status)) in jobs.iter().zip(&running.state.tasks).enumerate() {
        match (status.stopped, left.stops > 0) {
            (true, _) => events.push(Event::Start(task)),
            (false, true) => events.push(Event::Stop(task)),
            (false, false) => {}
        }
        if job.pending || status.stopped || left.jobs[task] == 0 {
            continue;
        }
        match now_ns < job.next_ns {
            true => next_ns = next_ns.min(job.next_ns),
            false => events.push(Event::Release(task)),
        }
    }
    if left.changes > 0 {
        events.extend([false, true].map(|fails| Event::Change { fails }));
    }
    if next_ns < u64::MAX {
        events.push(Event::Pass { until_ns: next_ns });
    }
    events
}

/// Has an event happen, but [`Event::Leave`].
pub(super) fn apply(
    event: Event,
    running: &mut Running<'_, '_, NETWORKS>,
    program: &Program,
    (desks, choices, refusals): (&[Desk<'_>], &[Choice; 2], &Refusals),
    left: &mut Left,
) {
    match event {
        Event::Step { longer_ns } => {
            program.longer_ns.set(longer_ns);
            running.step();
        }
        Event::End { task, place, how } => {
            left.faults -= u32::from(how != End::Good);
            desks[task].end(place, how);
        }
        Event::Fail(task) => {
            left.faults -= 1;
            desks[task].fails.set(true);
        }
        Event::Wait => running.wait(),
        Event::Release(task) => {
            left.jobs[task] -= 1;
            running.release(task, program.clock.get()).unwrap();
        }
        Event::Pass { until_ns } => program.clock.set(until_ns),
        Event::Stop(task) => {
            left.stops -= 1;
            running.stop(task);
        }
        Event::Start(task) => running.start(task),
        Event::Change { fails } => {
            left.changes -= 1;
            let Choice { budgets, tasks } = &choices[1 - left.choice];
            // The last network's: those before it have changed by then.
            desks[tasks.len() - 1].fails.set(fails);
            let armed = refusals.next();
            let result = running.change(budgets, tasks);
            desks[tasks.len() - 1].fails.set(false);
            let refused = armed.is_some() && refusals.next().is_none();
            match result {
                Ok(()) if !fails => left.choice = 1 - left.choice,
                Err(ChangeError::Budget { .. }) if fails || refused => {}
                Err(ChangeError::Leave { .. }) if refused => {}
                Err(ChangeError::Lost { .. }) if fails && refused => {}
                result => panic!("{result:?}, {fails}, {armed:?}"),
            }
        }
        Event::Refuse { call, before } => {
            left.refusals -= 1;
            refusals.refuse(call, before, 1);
        }
        Event::Leave => {}
    }
}
