//! The event loop: two engines and the tasks' arrivals.

use super::{Arrivals, Event, Miss, Options, Outcome, What};
use eyelet::tasks::{Action, Scheduler, SetError, Task};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Tasks that a simulation can hold.
pub const MOST_TASKS: usize = 64;

/// Simulates the tasks, which share a pool of `pool` chunks.
pub fn simulate(tasks: &[Task], pool: u32, options: &Options) -> Result<Outcome, SetError> {
    let scheduler = Scheduler::new(options.policy, tasks, pool)?;
    let mut engine = Engine::new(scheduler, tasks, options);
    while engine.outcome.jobs < options.jobs {
        if !engine.advance() || (options.until_miss && engine.outcome.misses > 0) {
            break;
        }
    }
    engine.outcome.end_ns = engine.now_ns;
    Ok(engine.outcome)
}

/// An operation in flight.
#[derive(Clone, Copy)]
struct Busy {
    task: usize,
    end_ns: u64,
}

/// A task's arrivals and the computing that its job has left.
#[derive(Clone, Copy)]
struct Source {
    arrival_ns: u64,
    release_ns: u64,
    left_ns: u64,
}

struct Engine<'a> {
    scheduler: Scheduler<MOST_TASKS>,
    tasks: &'a [Task],
    options: &'a Options,
    random: ChaCha8Rng,
    sources: Vec<Source>,
    processor: Option<Busy>,
    loader: Option<Busy>,
    now_ns: u64,
    outcome: Outcome,
}

impl<'a> Engine<'a> {
    fn new(scheduler: Scheduler<MOST_TASKS>, tasks: &'a [Task], options: &'a Options) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(options.seed);
        let offset = |k: usize, task: &Task, random: &mut ChaCha8Rng| match &options.arrivals {
            Arrivals::Periodic { offsets_ns } => offsets_ns.get(k).copied().unwrap_or(0),
            Arrivals::Sporadic { .. } => random.random_range(0..task.period_ns),
        };
        let mut sources = Vec::new();
        for (k, task) in tasks.iter().enumerate() {
            let arrival_ns = offset(k, task, &mut random);
            let release_ns = arrival_ns + jitter(task, &mut random);
            sources.push(Source { arrival_ns, release_ns, left_ns: 0 });
        }
        let outcome = Outcome {
            worst_response_ns: vec![0; tasks.len()],
            responses_ns: vec![Vec::new(); tasks.len()],
            ..Outcome::default()
        };
        Self {
            scheduler,
            tasks,
            options,
            random,
            sources,
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
        let releases = self.sources.iter().map(|source| source.release_ns);
        let Some(now_ns) = ends.chain(releases).min() else { return false };
        self.now_ns = now_ns;
        if let Some(busy) = self.processor.take_if(|busy| busy.end_ns == now_ns) {
            self.step_done(busy.task);
        }
        if self.loader.take_if(|busy| busy.end_ns == now_ns).is_some() {
            self.scheduler.chunk_done();
        }
        for task in 0..self.tasks.len() {
            if self.sources[task].release_ns == now_ns {
                self.release(task);
            }
        }
        while self.start() {}
        true
    }

    fn release(&mut self, task: usize) {
        let now_ns = self.now_ns;
        let t = &self.tasks[task];
        let accepted = self.scheduler.release(task, now_ns).is_ok();
        let deadline_ns = now_ns + t.deadline_ns;
        match accepted {
            true => self.sources[task].left_ns = t.compute_ns,
            false => self.miss(Miss { task, deadline_ns, at_ns: now_ns }),
        }
        self.record(
            accepted,
            Event { task, start_ns: now_ns, end_ns: deadline_ns, what: What::Window },
        );
        let pause = match self.options.arrivals {
            Arrivals::Periodic { .. } => 0,
            Arrivals::Sporadic { most_pause } if most_pause > 0.0 => {
                (t.period_ns as f64 * self.random.random_range(0.0..most_pause)) as u64
            }
            Arrivals::Sporadic { .. } => 0,
        };
        let jitter_ns = jitter(t, &mut self.random);
        let source = &mut self.sources[task];
        source.arrival_ns += t.period_ns + pause;
        // Two jobs are never released in the wrong order.
        source.release_ns = (source.arrival_ns + jitter_ns).max(now_ns + 1);
    }

    fn step_done(&mut self, task: usize) {
        let last = self.sources[task].left_ns == 0;
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
                let step_ns = self.tasks[task].step_ns.min(self.sources[task].left_ns);
                self.sources[task].left_ns -= step_ns;
                let took_ns = self.share(step_ns);
                self.outcome.processor_busy_ns += took_ns;
                self.processor = Some(self.busy(task, took_ns, What::Step));
                true
            }
            Action::Load { chunk, evict } => {
                let t = &self.tasks[chunk.task];
                let took_ns = if chunk.index < t.weights() { self.share(t.chunk_ns) } else { 0 };
                self.outcome.loads += 1;
                self.outcome.evictions += u64::from(evict.is_some());
                self.outcome.loader_busy_ns += took_ns;
                let what = What::Load { evicted: evict.map(|chunk| chunk.task) };
                self.loader = Some(self.busy(chunk.task, took_ns, what));
                true
            }
        }
    }

    fn busy(&mut self, task: usize, took_ns: u64, what: What) -> Busy {
        let end_ns = self.now_ns + took_ns;
        self.record(true, Event { task, start_ns: self.now_ns, end_ns, what });
        Busy { task, end_ns }
    }

    /// A random part of the worst time.
    fn share(&mut self, worst_ns: u64) -> u64 {
        let least = self.options.least_share;
        if least >= 1.0 || worst_ns == 0 {
            return worst_ns;
        }
        let share = self.random.random_range(least..=1.0);
        ((worst_ns as f64 * share) as u64).clamp(1, worst_ns)
    }

    fn record(&mut self, happened: bool, event: Event) {
        if happened && self.options.trace {
            self.outcome.trace.push(event);
        }
    }
}

fn jitter(task: &Task, random: &mut ChaCha8Rng) -> u64 {
    match task.jitter_ns {
        0 => 0,
        most => random.random_range(0..=most),
    }
}
