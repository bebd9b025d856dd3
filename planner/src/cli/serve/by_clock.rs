//! Releases jobs by the clock, and lets the set work.

use super::arrivals::{Arrival, Arrivals, Kind};
use super::host::{Jobs, Shown, Tally};
use super::wanted::Wanted;
use super::watch::Exceeded;
use eyelet::set::{Activity, Running};
use eyelet::tasks::ReleaseError;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Releases jobs and lets the set work.
pub struct Loop<'a> {
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
    /// When this thread did not look, although nothing computed.
    pauses: &'a Cell<Exceeded>,
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

/// The test counts that a thread with nothing to compute sees releases and ends of chunks at once. A longer time than this in
/// which it does not look is a pause: the system, or the host of a virtual machine, ran others.
const PAUSE_NS: u64 = 500_000;

impl<'a> Loop<'a> {
    pub fn new(
        (wanted, tallies, shown): (&'a Wanted<'a>, &'a [Tally], &'a [Shown]),
        clock: &'a dyn Fn() -> u64,
        (reads, chunks): (bool, &'a Cell<u64>),
        pauses: &'a Cell<Exceeded>,
    ) -> Self {
        let full = Cell::new(false);
        Self { wanted, tallies, shown, clock, reads, chunks, full, pauses }
    }

    /// Works until the time is over, or there are all jobs or samples that are wanted.
    pub fn go<const N: usize>(&self, running: &mut Running<'_, '_, N>) {
        let Self { wanted, clock, .. } = self;
        let set = &wanted.decided.set;
        let mut arrivals = Arrivals::new(set, wanted.arrivals, wanted.seed);
        let mut waiting = VecDeque::new();
        let end_ns = wanted.duration_ns;
        // When this thread looks next, if nothing keeps it.
        let mut looks_ns = clock();
        while !wanted.stop.load(Ordering::Relaxed) {
            let now_ns = clock();
            self.pause(now_ns.saturating_sub(looks_ns));
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
            looks_ns = match running.step() {
                Activity::Idle => self.sleep(next_ns.min(arrivals.next_ns())),
                Activity::Loading => self.glance(),
                _ => clock(),
            };
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

    fn pause(&self, ns: u64) {
        let mut pauses = self.pauses.get();
        pauses.add(ns, PAUSE_NS);
        self.pauses.set(pauses);
    }

    /// Sleeps until the next release, or for a while. Returns when the sleep was to end.
    fn sleep(&self, next_ns: u64) -> u64 {
        let now_ns = (self.clock)();
        let until_ns = next_ns.min(now_ns.saturating_add(NAP_NS));
        match until_ns.saturating_sub(now_ns) {
            ns if ns > AWAKE_NS => {
                std::thread::sleep(Duration::from_nanos(ns - AWAKE_NS));
                until_ns - AWAKE_NS
            }
            _ => {
                std::thread::yield_now();
                now_ns
            }
        }
    }

    /// Sleeps for a moment. Returns when the sleep was to end.
    fn glance(&self) -> u64 {
        let now_ns = (self.clock)();
        std::thread::sleep(GLANCE);
        now_ns + GLANCE.as_nanos() as u64
    }
}
