//! When jobs are released, legally: at least a period between two arrivals, each release within the jitter.

use super::Arrivals;
use eyelet::tasks::Task;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// A task's next release.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    /// The next job arrives then; the adversary's not before.
    arrival_ns: u64,
    /// `None`: the adversary holds it back.
    pub release_ns: Option<u64>,
}

/// The tasks' releases.
pub(super) struct Releases<'a> {
    tasks: &'a [Task],
    arrivals: &'a Arrivals,
    pub random: ChaCha8Rng,
    pub next: Vec<Next>,
    adversary: Adversary,
}

/// Whom an adversary releases when an operation begins.
#[derive(Clone, Copy, Debug, Default)]
enum Whom {
    #[default]
    All,
    /// Those of shorter deadlines than the operation's task.
    Urgent,
    /// The one of these with the longest deadline, so that the next operation brings the next one.
    NextUrgent,
}

/// How an adversary acts in a run.
#[derive(Clone, Copy, Debug, Default)]
struct Adversary {
    /// A held task is released right after an operation begins, with this probability.
    strikes: f64,
    whom: Whom,
    /// Further jobs follow as soon as they may, with this probability.
    bursts: f64,
}

impl<'a> Releases<'a> {
    pub fn new(tasks: &'a [Task], arrivals: &'a Arrivals, mut random: ChaCha8Rng) -> Self {
        let next = |(k, task): (usize, &Task)| {
            let arrival_ns = match arrivals {
                Arrivals::Periodic { offsets_ns } => offsets_ns.get(k).copied().unwrap_or(0),
                Arrivals::Sporadic { .. } => random.random_range(0..task.period_ns),
                Arrivals::Adversary => 0,
            };
            let held = *arrivals == Arrivals::Adversary;
            let release_ns = (!held).then(|| arrival_ns + jitter(task, &mut random));
            Next { arrival_ns, release_ns }
        };
        let next = tasks.iter().enumerate().map(next).collect();
        let adversary = Adversary {
            strikes: *pick(&[0.1, 0.3, 0.7, 1.0], &mut random),
            whom: *pick(
                &[Whom::All, Whom::Urgent, Whom::NextUrgent, Whom::NextUrgent],
                &mut random,
            ),
            bursts: *pick(&[0.2, 0.6, 0.95], &mut random),
        };
        Self { tasks, arrivals, random, next, adversary }
    }

    /// The next time at which a job is released.
    pub fn next_ns(&self) -> Option<u64> {
        self.next.iter().filter_map(|next| next.release_ns).min()
    }

    /// A job of the task was released at this time, with its predecessor done: determines the next one.
    pub fn released(&mut self, task: usize, at_ns: u64) {
        let t = &self.tasks[task];
        let next = &mut self.next[task];
        let pause_ns = match self.arrivals {
            Arrivals::Periodic { .. } => 0,
            Arrivals::Sporadic { most_pause } if *most_pause > 0.0 => {
                (t.period_ns as f64 * self.random.random_range(0.0..*most_pause)) as u64
            }
            Arrivals::Sporadic { .. } => 0,
            Arrivals::Adversary => {
                // It may have arrived as early as its jitter allows.
                next.arrival_ns =
                    next.arrival_ns.max(at_ns.saturating_sub(t.jitter_ns)) + t.period_ns;
                let follows = self.random.random_bool(self.adversary.bursts);
                next.release_ns = follows.then_some(next.arrival_ns);
                return;
            }
        };
        next.arrival_ns += t.period_ns + pause_ns;
        // Two jobs are never released in the wrong order.
        let release_ns = next.arrival_ns + jitter(t, &mut self.random);
        next.release_ns = Some(release_ns.max(at_ns + 1));
    }

    /// An operation of the task begins. The adversary releases others right afterwards.
    pub fn begins(&mut self, task: usize, at_ns: u64) {
        if *self.arrivals != Arrivals::Adversary {
            return;
        }
        let Adversary { strikes, whom, .. } = self.adversary;
        let deadline_ns = self.tasks[task].deadline_ns;
        let ready =
            |k: &usize| self.next[*k].release_ns.is_none() && self.next[*k].arrival_ns <= at_ns + 1;
        let urgent = |k: &usize| self.tasks[*k].deadline_ns < deadline_ns;
        let held = (0..self.tasks.len()).filter(ready);
        let chosen: Vec<usize> = match whom {
            Whom::All => held.collect(),
            Whom::Urgent => held.filter(urgent).collect(),
            Whom::NextUrgent => {
                held.filter(urgent).max_by_key(|k| self.tasks[*k].deadline_ns).into_iter().collect()
            }
        };
        for k in chosen {
            if self.random.random_bool(strikes) {
                self.next[k].release_ns = Some(at_ns + 1);
            }
        }
    }

    /// Nothing is unfinished. The adversary releases a job, the more likely one that is due late.
    pub fn idle(&mut self, now_ns: u64) {
        let tasks = 0..self.tasks.len();
        let held = tasks.filter(|&task| self.next[task].release_ns.is_none());
        let mut held: Vec<usize> = held.collect();
        held.sort_by_key(|&task| std::cmp::Reverse(self.tasks[task].deadline_ns));
        let Some(last) = held.len().checked_sub(1) else { return };
        let task = match self.random.random_bool(0.5) {
            true => held[0],
            false => held[self.random.random_range(0..=last)],
        };
        let next = &mut self.next[task];
        next.release_ns = Some(next.arrival_ns.max(now_ns));
    }
}

fn jitter(task: &Task, random: &mut ChaCha8Rng) -> u64 {
    match task.jitter_ns {
        0 => 0,
        most => random.random_range(0..=most),
    }
}

/// One of these.
pub(crate) fn pick<'c, T>(choices: &'c [T], random: &mut ChaCha8Rng) -> &'c T {
    &choices[random.random_range(0..choices.len())]
}
