//! The program's side of a set at work: inputs, outputs, and what is counted and recorded of each job.

use super::measure::{crc_of, write_inputs};
use super::solo::Solo;
use super::watch::Watch;
use eyelet::executor::Ports;
use eyelet::set::{Host, JobError, SetEvent};
use eyelet::tasks::Finished;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A task as its jobs go by. Loop and host share it.
#[derive(Debug)]
pub struct Tally {
    /// A job is released and has not ended.
    pub busy: Cell<bool>,
    /// From the arrival of the current job to its release.
    pub late_ns: Cell<u64>,
    /// Latest end after arrival.
    pub deadline_ns: u64,
    pub responses_ns: RefCell<Vec<u64>>,
    /// Jobs that arrived while their predecessor was unfinished, and never began. Those that were unfinished at the end.
    pub lost: Cell<u64>,
    pub late: Cell<u64>,
    pub failed: Cell<u64>,
    /// Jobs whose outputs were others than those of the network alone.
    pub different: Cell<u64>,
    pub first_error: RefCell<Option<String>>,
}

impl Tally {
    pub fn new(deadline_ns: u64, jobs: usize) -> Self {
        Self {
            busy: Cell::new(false),
            late_ns: Cell::new(0),
            deadline_ns,
            responses_ns: RefCell::new(Vec::with_capacity(jobs)),
            lost: Cell::new(0),
            late: Cell::new(0),
            failed: Cell::new(0),
            different: Cell::new(0),
            first_error: RefCell::new(None),
        }
    }
}

fn count(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

/// What another thread shows while the set runs.
#[derive(Debug, Default)]
pub struct Shown {
    pub jobs: AtomicU64,
    pub missed: AtomicU64,
    pub worst_ns: AtomicU64,
}

/// Events that are kept for a timeline, at most.
const MOST_EVENTS: usize = 4 << 20;

/// The host of a set.
pub struct Jobs<'a> {
    pub tallies: &'a [Tally],
    pub shown: &'a [Shown],
    pub solos: &'a [&'a Solo],
    /// How many times as long each task's steps take, where that is injected, and the number of the next step.
    pub overload: Vec<Option<f64>>,
    pub step: Vec<usize>,
    pub watch: Watch,
    /// Times of chunks that there are.
    pub chunks: &'a Cell<u64>,
    pub clock: &'a dyn Fn() -> u64,
    pub events: Option<Vec<(u64, SetEvent)>>,
}

impl Jobs<'_> {
    /// Computes nothing for as long as a step of the task takes alone, so many times less one.
    fn dawdle(&mut self, task: usize) {
        let at = self.step[task];
        self.step[task] += 1;
        let Some(factor) = self.overload[task] else { return };
        let alone_ns = self.solos[task].step_ns(at);
        let (start, ns) = (Instant::now(), (alone_ns as f64 * (factor - 1.0)) as u128);
        while start.elapsed().as_nanos() < ns {
            std::hint::spin_loop();
        }
    }

    fn missed(&self, task: usize) {
        self.shown[task].missed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Host for Jobs<'_> {
    fn inputs(&mut self, task: usize, ports: &mut dyn Ports) {
        if let Err(error) = write_inputs(&self.solos[task].example.inputs, ports) {
            self.tallies[task].first_error.borrow_mut().get_or_insert(error.to_string());
        }
    }

    fn outputs(&mut self, job: &Finished, ports: &mut dyn Ports) {
        let (tally, shown) = (&self.tallies[job.task], &self.shown[job.task]);
        if crc_of(ports) != self.solos[job.task].example.crc {
            count(&tally.different);
        }
        let response_ns = job.response_ns.saturating_add(tally.late_ns.get());
        tally.responses_ns.borrow_mut().push(response_ns);
        tally.busy.set(false);
        shown.jobs.fetch_add(1, Ordering::Relaxed);
        shown.worst_ns.fetch_max(response_ns, Ordering::Relaxed);
        if response_ns > tally.deadline_ns {
            count(&tally.late);
            self.missed(job.task);
        }
        self.watch.outputs((self.clock)());
    }

    fn failed(&mut self, task: usize, error: JobError) {
        let tally = &self.tallies[task];
        tally.busy.set(false);
        // The run has ended, not the job.
        if error == JobError::Stopped {
            return;
        }
        count(&tally.failed);
        self.missed(task);
        tally.first_error.borrow_mut().get_or_insert(error.to_string());
    }

    fn event(&mut self, event: SetEvent, now_ns: u64) {
        self.watch.event(event, now_ns);
        self.chunks.set(self.watch.chunks.count);
        match event {
            SetEvent::Released { task } => self.step[task] = 0,
            SetEvent::StepBegins { task } => self.dawdle(task),
            _ => {}
        }
        if let Some(events) = self.events.as_mut().filter(|events| events.len() < MOST_EVENTS) {
            events.push((now_ns, event));
        }
    }
}

impl Jobs<'_> {
    /// A job that arrived while its predecessor was unfinished.
    pub fn lose(tally: &Tally, shown: &Shown) {
        count(&tally.lost);
        shown.missed.fetch_add(1, Ordering::Relaxed);
    }
}
