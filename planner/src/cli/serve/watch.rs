//! How long jobs, steps and chunks of a set at work take, by its events: against what the test counts, and as samples.
//!
//! A job's outputs are taken after its last step, on the same thread, so they are a part of that step. The end of a chunk is
//! seen between steps. A chunk that is seen late behind a step was late only if it was not there before: so none counts as
//! too long if the last step before its end was seen was running when it should have ended.

use super::samples::Samples;
use eyelet::set::SetEvent;
use eyelet::tasks::Task;
use serde::Serialize;

/// What took longer than the test counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Exceeded {
    pub count: u64,
    /// By how much, at worst.
    pub worst_ms: f64,
    /// How many times as long as counted, at worst.
    pub worst_factor: f64,
}

impl Exceeded {
    pub fn add(&mut self, took_ns: u64, counted_ns: u64) {
        if took_ns > counted_ns {
            self.count += 1;
            self.worst_ms = ((took_ns - counted_ns) as f64 / 1e6).max(self.worst_ms);
            self.worst_factor = (took_ns as f64 / counted_ns.max(1) as f64).max(self.worst_factor);
        }
    }

    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            worst_ms: self.worst_ms.max(other.worst_ms),
            worst_factor: self.worst_factor.max(other.worst_factor),
        }
    }
}

/// What of a task took longer than the test counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Overruns {
    /// Computing of whole jobs.
    pub jobs: Exceeded,
    pub steps: Exceeded,
    pub chunks: Exceeded,
}

impl Overruns {
    pub fn all(&self) -> Exceeded {
        self.jobs.and(self.steps).and(self.chunks)
    }
}

/// Times of a task's jobs, and of each of their steps.
#[derive(Clone, Debug, Default)]
pub struct Times {
    pub jobs: Samples,
    pub steps: Vec<Samples>,
}

/// A task, and where its job is.
#[derive(Debug)]
struct Watched {
    counted: Task,
    /// The number of the job's next step.
    step: usize,
    computed_ns: u64,
    overruns: Overruns,
    times: Times,
}

/// A step, with the host's part.
#[derive(Clone, Copy, Debug)]
struct Step {
    task: usize,
    began_ns: u64,
    ended_ns: u64,
    /// The job's last.
    last: bool,
}

/// Watches the events of a set.
#[derive(Debug)]
pub struct Watch {
    tasks: Vec<Watched>,
    /// When the current step began.
    began_ns: u64,
    /// The last step. It may still get the host's part.
    step: Option<Step>,
    /// It is counted.
    counted: bool,
    /// When the chunk in flight began.
    chunk_began_ns: Option<u64>,
    pub chunks: Samples,
    /// The longest that a chunk took, whatever ran meanwhile.
    pub worst_chunk_ns: u64,
    /// Times of steps are kept, not only compared.
    keeps: bool,
}

impl Watch {
    /// Of a set's tasks, as the test counts them. `keeps`: keeps samples of jobs and steps.
    pub fn new(counted: &[Task], keeps: bool) -> Self {
        let watched = |counted: &Task| Watched {
            counted: *counted,
            step: 0,
            computed_ns: 0,
            overruns: Overruns::default(),
            times: Times::default(),
        };
        Self {
            tasks: counted.iter().map(watched).collect(),
            began_ns: 0,
            step: None,
            counted: true,
            chunk_began_ns: None,
            chunks: Samples::default(),
            worst_chunk_ns: 0,
            keeps,
        }
    }

    /// An event of the set.
    pub fn event(&mut self, event: SetEvent, now_ns: u64) {
        match event {
            // Nothing is known of the step but its end.
            SetEvent::Ended { .. } => {
                self.step.iter_mut().for_each(|step| step.last = true);
                return;
            }
            _ => self.count(),
        }
        match event {
            SetEvent::Released { task } | SetEvent::GivenUp { task } => {
                (self.tasks[task].step, self.tasks[task].computed_ns) = (0, 0);
            }
            SetEvent::StepBegins { .. } => self.began_ns = now_ns,
            SetEvent::StepEnds { task } => {
                let began_ns = self.began_ns;
                self.step = Some(Step { task, began_ns, ended_ns: now_ns, last: false });
                self.counted = false;
            }
            SetEvent::ChunkBegins { task, chunk } => {
                let read = chunk < self.tasks[task].counted.weights();
                self.chunk_began_ns = read.then_some(now_ns);
            }
            SetEvent::ChunkEnds { task, .. } => self.chunk(task, now_ns),
            SetEvent::ChunkFails { .. } => self.chunk_began_ns = None,
            _ => {}
        }
    }

    /// The host has taken the outputs of the job that has just ended.
    pub fn outputs(&mut self, now_ns: u64) {
        self.step.iter_mut().for_each(|step| step.ended_ns = now_ns);
        self.count();
    }

    /// Counts the last step, once.
    fn count(&mut self) {
        let Some(step) = self.step.filter(|_| !std::mem::replace(&mut self.counted, true)) else {
            return;
        };
        let Watched { counted, step: at, computed_ns, overruns, times } =
            &mut self.tasks[step.task];
        let took_ns = step.ended_ns.saturating_sub(step.began_ns);
        overruns.steps.add(took_ns, counted.step_ns);
        *computed_ns += took_ns;
        if self.keeps {
            if times.steps.len() <= *at {
                times.steps.resize_with(*at + 1, Samples::default);
            }
            times.steps[*at].add(took_ns);
        }
        *at += 1;
        if step.last {
            overruns.jobs.add(*computed_ns, counted.compute_ns);
            times.jobs.add(*computed_ns);
        }
    }

    fn chunk(&mut self, task: usize, now_ns: u64) {
        let Some(began_ns) = self.chunk_began_ns.take() else { return };
        let took_ns = now_ns.saturating_sub(began_ns);
        self.worst_chunk_ns = self.worst_chunk_ns.max(took_ns);
        let Watched { counted, overruns, .. } = &mut self.tasks[task];
        let due_ns = began_ns.saturating_add(counted.chunk_ns);
        let hides = |step: Step| step.began_ns <= due_ns && due_ns < step.ended_ns;
        if !self.step.is_some_and(hides) {
            overruns.chunks.add(took_ns, counted.chunk_ns);
            self.chunks.add(took_ns);
        }
    }

    /// What was found of each task.
    pub fn found(mut self) -> Vec<(Overruns, Times)> {
        self.count();
        self.tasks.into_iter().map(|watched| (watched.overruns, watched.times)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> Watch {
        let task = Task { chunks: 2, room: 1, chunk_ns: 100, step_ns: 50, ..Task::new(1000, 80) };
        Watch::new(&[task, Task { chunks: 0, room: 0, ..task }], true)
    }

    /// Steps of the second task while nothing else happens.
    fn step(watch: &mut Watch, task: usize, began_ns: u64, ended_ns: u64) {
        watch.event(SetEvent::StepBegins { task }, began_ns);
        watch.event(SetEvent::StepEnds { task }, ended_ns);
    }

    #[test]
    fn steps_and_jobs_count_with_the_hosts_part() {
        let mut watch = watch();
        watch.event(SetEvent::Released { task: 0 }, 0);
        step(&mut watch, 0, 10, 50);
        step(&mut watch, 0, 60, 95);
        watch.event(SetEvent::Ended { task: 0 }, 95);
        watch.outputs(125);
        watch.event(SetEvent::Released { task: 0 }, 1000);
        step(&mut watch, 0, 1000, 1050);
        step(&mut watch, 0, 1050, 1080);
        watch.event(SetEvent::Ended { task: 0 }, 1080);
        watch.outputs(1080);
        let found = watch.found();
        let (overruns, times) = &found[0];
        // 40 and 65, then 50 and 30, of 50 a step and 80 a job.
        assert_eq!((overruns.steps.count, overruns.jobs.count, overruns.chunks.count), (1, 1, 0));
        assert_eq!((overruns.steps.worst_ms, overruns.steps.worst_factor), (15e-6, 1.3));
        assert_eq!(overruns.jobs.worst_ms, 25e-6);
        assert_eq!((times.jobs.count, times.jobs.worst_ns), (2, 105));
        assert_eq!(times.steps.iter().map(|step| step.worst_ns).collect::<Vec<_>>(), [50, 65]);
        assert_eq!(found[1].0, Overruns::default());
    }

    /// A chunk of the first task begins at 0 and should end at 100.
    fn chunk(steps: &[(u64, u64)], seen_ns: u64, chunk: u32) -> Exceeded {
        let mut watch = watch();
        watch.event(SetEvent::ChunkBegins { task: 0, chunk }, 0);
        steps.iter().for_each(|&(began_ns, ended_ns)| step(&mut watch, 1, began_ns, ended_ns));
        watch.event(SetEvent::ChunkEnds { task: 0, chunk }, seen_ns);
        watch.found()[0].0.chunks
    }

    #[test]
    fn a_chunk_that_a_step_hid_is_not_too_long() {
        assert_eq!(chunk(&[], 100, 0).count, 0);
        assert_eq!(chunk(&[], 130, 0), Exceeded { count: 1, worst_ms: 30e-6, worst_factor: 1.3 });
        // A step ran when it should have ended.
        assert_eq!(chunk(&[(90, 140)], 141, 0).count, 0);
        // The step had ended, or began later.
        assert_eq!(chunk(&[(60, 90)], 141, 0).count, 1);
        assert_eq!(chunk(&[(120, 140)], 141, 0).count, 1);
        // After the step that hid it, it was not there: another one ran.
        assert_eq!(chunk(&[(90, 120), (121, 140)], 141, 0).count, 1);
        // Room takes no time that is counted.
        assert_eq!(chunk(&[], 300, 1).count, 0);
    }
}
