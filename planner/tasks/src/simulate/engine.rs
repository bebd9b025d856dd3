//! The state of a simulation, and its event loop where the scheduler is asked at once.

use super::arrivals::Releases;
use super::times::Shorter;
use super::{Event, Miss, Mode, Options, Outcome, What};
use eyelet::tasks::{Action, Chunk, Scheduler, SetError, Task};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Tasks that a simulation can hold.
pub const MOST_TASKS: usize = 64;

/// Simulates the tasks, which share a pool of `pool` chunks.
pub fn simulate(tasks: &[Task], pool: u32, options: &Options) -> Result<Outcome, SetError> {
    let scheduler = Scheduler::new(options.policy, tasks, pool)?;
    let mut engine = Engine::new(scheduler, tasks, options);
    while engine.outcome.jobs < options.jobs {
        let goes_on = match options.mode {
            Mode::AtOnce => engine.advance(),
            Mode::BetweenSteps | Mode::OneEngine => engine.turn(),
        };
        if !goes_on || (options.until_miss && engine.outcome.misses > 0) {
            break;
        }
    }
    engine.outcome.end_ns = engine.now_ns;
    Ok(engine.outcome)
}

/// An operation in flight.
#[derive(Clone, Copy)]
pub(super) struct Busy {
    pub task: usize,
    pub end_ns: u64,
}

pub(super) struct Engine<'a> {
    pub scheduler: Scheduler<MOST_TASKS>,
    tasks: &'a [Task],
    pub options: &'a Options,
    pub releases: Releases<'a>,
    shorter: Shorter,
    /// The computing that each task's job has left, at worst.
    left_ns: Vec<u64>,
    processor: Option<Busy>,
    pub loader: Option<Busy>,
    pub now_ns: u64,
    outcome: Outcome,
}

impl<'a> Engine<'a> {
    fn new(scheduler: Scheduler<MOST_TASKS>, tasks: &'a [Task], options: &'a Options) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(options.seed);
        let shorter = Shorter::new(options.times, &mut random);
        let outcome = Outcome {
            worst_response_ns: vec![0; tasks.len()],
            responses_ns: vec![Vec::new(); tasks.len()],
            ..Outcome::default()
        };
        Self {
            scheduler,
            tasks,
            options,
            releases: Releases::new(tasks, &options.arrivals, random),
            shorter,
            left_ns: vec![0; tasks.len()],
            processor: None,
            loader: None,
            now_ns: 0,
            outcome,
        }
    }

    /// Goes to the next event, reports what ended and what arrived, and starts what the scheduler says. `false`: nothing
    /// will ever happen.
    fn advance(&mut self) -> bool {
        let ends = [self.processor, self.loader].into_iter().flatten().map(|busy| busy.end_ns);
        let Some(now_ns) = ends.chain(self.releases.next_ns()).min() else {
            self.releases.idle(self.now_ns);
            return self.releases.next_ns().is_some();
        };
        self.now_ns = now_ns.max(self.now_ns);
        if let Some(busy) = self.processor.take_if(|busy| busy.end_ns == now_ns) {
            self.step_done(busy.task);
        }
        if self.loader.take_if(|busy| busy.end_ns == now_ns).is_some() {
            self.scheduler.chunk_done();
        }
        self.release_due();
        while self.start() {}
        true
    }

    /// Releases the jobs whose time has come.
    pub fn release_due(&mut self) {
        for task in 0..self.tasks.len() {
            if let Some(ns) = self.releases.next[task].release_ns.filter(|ns| *ns <= self.now_ns) {
                self.release(task, ns);
            }
        }
    }

    fn release(&mut self, task: usize, at_ns: u64) {
        let t = &self.tasks[task];
        let accepted = self.scheduler.release(task, at_ns).is_ok();
        let deadline_ns = at_ns + t.deadline_ns;
        match accepted {
            true => self.left_ns[task] = t.compute_ns,
            false => self.miss(Miss { task, deadline_ns, at_ns: self.now_ns }),
        }
        let window = Event { task, start_ns: at_ns, end_ns: deadline_ns, what: What::Window };
        self.record(accepted, window);
        self.releases.released(task, at_ns);
    }

    pub fn step_done(&mut self, task: usize) {
        let last = self.left_ns[task] == 0;
        let Some(finished) = self.scheduler.step_done(self.now_ns, last) else { return };
        self.outcome.jobs += 1;
        let worst = &mut self.outcome.worst_response_ns[task];
        *worst = finished.response_ns.max(*worst);
        if self.options.trace {
            self.outcome.responses_ns[task].push(finished.response_ns);
        }
        if finished.missed {
            let deadline_ns = self.now_ns - finished.response_ns + self.tasks[task].deadline_ns;
            self.miss(Miss { task, deadline_ns, at_ns: self.now_ns });
            self.record(
                true,
                Event { task, start_ns: deadline_ns, end_ns: self.now_ns, what: What::Missed },
            );
        }
    }

    fn miss(&mut self, miss: Miss) {
        self.outcome.misses += 1;
        self.outcome.first_miss.get_or_insert(miss);
    }

    /// Starts what the scheduler says. `false`: nothing.
    fn start(&mut self) -> bool {
        match self.scheduler.next(self.now_ns) {
            Action::Wait => false,
            Action::Step { task } => {
                self.processor = Some(self.begin_step(task));
                true
            }
            Action::Load { chunk, evict } => {
                self.loader = Some(self.begin_chunk(chunk, evict));
                true
            }
        }
    }

    /// A step of the task's job begins now.
    pub fn begin_step(&mut self, task: usize) -> Busy {
        let (longest_ns, left_ns) = (self.tasks[task].step_ns, self.left_ns[task]);
        let random = &mut self.releases.random;
        let step_ns = self.shorter.step_ns(longest_ns, left_ns, random);
        let took_ns = self.shorter.taken_ns(step_ns, random);
        self.left_ns[task] -= step_ns;
        self.outcome.processor_busy_ns += took_ns;
        self.busy(task, took_ns, What::Step)
    }

    /// A chunk begins to come into memory now.
    pub fn begin_chunk(&mut self, chunk: Chunk, evict: Option<Chunk>) -> Busy {
        let t = &self.tasks[chunk.task];
        let worst_ns = if chunk.index < t.weights() { t.chunk_ns } else { 0 };
        let took_ns = self.shorter.taken_ns(worst_ns, &mut self.releases.random);
        self.outcome.loads += 1;
        self.outcome.evictions += u64::from(evict.is_some());
        self.outcome.loader_busy_ns += took_ns;
        self.busy(chunk.task, took_ns, What::Load { evicted: evict.map(|chunk| chunk.task) })
    }

    fn busy(&mut self, task: usize, took_ns: u64, what: What) -> Busy {
        let end_ns = self.now_ns + took_ns;
        self.record(true, Event { task, start_ns: self.now_ns, end_ns, what });
        self.releases.begins(task, self.now_ns);
        Busy { task, end_ns }
    }

    fn record(&mut self, happened: bool, event: Event) {
        if happened && self.options.trace {
            self.outcome.trace.push(event);
        }
    }
}
