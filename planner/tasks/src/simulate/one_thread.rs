//! The event loop on one thread: the order of actions is [`turn`], as on the device.

use super::Mode;
use super::engine::{Busy, Engine, MOST_TASKS};
use eyelet::tasks::{Activity, Chunk, Scheduler, Worker, turn};

/// Pieces in which a thread reads a chunk, at most.
const PIECES: u64 = 3;

impl Engine<'_> {
    /// Releases what is due, does the next thing, and goes to the next event if there is nothing to do. `false`: nothing will
    /// ever happen.
    pub fn turn(&mut self) -> bool {
        self.release_due();
        let next_ns = match turn(self) {
            Activity::Idle => self.releases.next_ns().or_else(|| {
                self.releases.idle(self.now_ns);
                self.releases.next_ns()
            }),
            Activity::Loading => {
                let end_ns = self.loader.map(|busy| busy.end_ns);
                end_ns.into_iter().chain(self.releases.next_ns()).min()
            }
            _ => Some(self.now_ns),
        };
        self.now_ns = next_ns.map_or(self.now_ns, |ns| ns.max(self.now_ns));
        next_ns.is_some()
    }
}

impl Worker<MOST_TASKS> for Engine<'_> {
    fn scheduler(&mut self) -> &mut Scheduler<MOST_TASKS> {
        &mut self.scheduler
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn reads_go_on(&self) -> bool {
        self.options.mode == Mode::BetweenSteps
    }

    fn comes_alone(&mut self) -> bool {
        self.reads_go_on()
    }

    fn loading(&self) -> Option<usize> {
        self.loader.map(|busy| busy.task)
    }

    fn load(&mut self, chunk: Chunk, evict: Option<Chunk>, _: u64) {
        self.loader = Some(self.begin_chunk(chunk, evict));
    }

    fn look(&mut self) -> Option<usize> {
        let Busy { task, end_ns } = self.loader?;
        if end_ns > self.now_ns {
            if !self.reads_go_on() {
                self.now_ns += (end_ns - self.now_ns).div_ceil(PIECES);
            }
            if end_ns > self.now_ns {
                return None;
            }
        }
        self.loader = None;
        self.scheduler.chunk_done();
        Some(task)
    }

    fn compute(&mut self, task: usize, _: u64) {
        self.now_ns = self.begin_step(task).end_ns;
        self.step_done(task);
    }
}
