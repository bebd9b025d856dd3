//! When jobs arrive: by periods, or at random.

use eyelet_tasks::set::TaskSet;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A job that arrives, and is released a little later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    pub release_ns: u64,
    pub arrival_ns: u64,
    pub task: usize,
}

/// How jobs follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One a period, from an offset that is drawn, each released within the task's jitter.
    Periodic,
    /// At random, independently, one a period in the mean. They may come closer than the test assumes.
    Poisson,
}

/// The jobs of a set, in the order of their releases. The same seed gives the same jobs.
#[derive(Debug)]
pub struct Arrivals {
    kind: Kind,
    random: ChaCha8Rng,
    periods_ns: Vec<u64>,
    jitters_ns: Vec<u64>,
    /// The next job of each task.
    next: Vec<Arrival>,
}

impl Arrivals {
    /// The jobs of a set.
    pub fn new(set: &TaskSet, kind: Kind, seed: u64) -> Self {
        let periods_ns: Vec<u64> = set.tasks.iter().map(|task| task.period_ns).collect();
        let jitters_ns = set.tasks.iter().map(|task| task.jitter_ns).collect();
        let random = ChaCha8Rng::seed_from_u64(seed);
        let mut arrivals = Self { kind, random, periods_ns, jitters_ns, next: Vec::new() };
        for task in 0..set.tasks.len() {
            let period_ns = arrivals.periods_ns[task];
            let offset_ns = match kind {
                Kind::Periodic => arrivals.random.random_range(0..period_ns.max(1)),
                Kind::Poisson => arrivals.gap_ns(task),
            };
            let first = arrivals.at(task, offset_ns, 0);
            arrivals.next.push(first);
        }
        arrivals
    }

    /// When the next job of any task is released.
    pub fn next_ns(&self) -> u64 {
        self.next.iter().map(|next| next.release_ns).min().unwrap_or(u64::MAX)
    }

    /// The next job that is released by this time.
    pub fn due(&mut self, now_ns: u64) -> Option<Arrival> {
        let due = self.next.iter().copied().filter(|next| next.release_ns <= now_ns).min()?;
        let arrival_ns = due.arrival_ns.saturating_add(self.gap_ns(due.task));
        self.next[due.task] = self.at(due.task, arrival_ns, due.release_ns + 1);
        Some(due)
    }

    /// A job that arrives then, and is released no earlier than its predecessor.
    fn at(&mut self, task: usize, arrival_ns: u64, least_ns: u64) -> Arrival {
        let jitter_ns = match (self.kind, self.jitters_ns[task]) {
            (Kind::Poisson, _) | (_, 0) => 0,
            (Kind::Periodic, most) => self.random.random_range(0..=most),
        };
        let release_ns = arrival_ns.saturating_add(jitter_ns).max(least_ns);
        Arrival { release_ns, arrival_ns, task }
    }

    /// Time to the task's next arrival.
    fn gap_ns(&mut self, task: usize) -> u64 {
        let period_ns = self.periods_ns[task];
        match self.kind {
            Kind::Periodic => period_ns,
            Kind::Poisson => {
                let share: f64 = self.random.random_range(f64::MIN_POSITIVE..1.0);
                (-share.ln() * period_ns as f64) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eyelet_tasks::set::{Cost, Storage, Swappable, Task, Transfer};

    fn set() -> TaskSet {
        let cost = Cost {
            compute_ns: 1,
            step_ns: 1,
            bytes: 1,
            weights: Swappable::default(),
            room: Swappable::default(),
            streams: false,
        };
        let task = |period_ns: u64, jitter_ns: u64| Task {
            name: period_ns.to_string(),
            period_ns,
            deadline_ns: period_ns,
            jitter_ns,
            cost: cost.clone(),
        };
        let read = Transfer { per_chunk_ns: 0, bytes_per_second: 1 };
        TaskSet {
            memory_bytes: 2,
            page_bytes: 0,
            storage: Storage { chunk_bytes: 1, read, write: None },
            tasks: vec![task(1000, 100), task(300, 0)],
        }
    }

    fn jobs(kind: Kind, seed: u64, until_ns: u64) -> Vec<Arrival> {
        let mut arrivals = Arrivals::new(&set(), kind, seed);
        std::iter::from_fn(|| arrivals.due(until_ns)).collect()
    }

    #[test]
    fn periodic_jobs_come_once_a_period_within_their_jitter() {
        let all = jobs(Kind::Periodic, 7, 1_000_000);
        assert_eq!(all, jobs(Kind::Periodic, 7, 1_000_000));
        assert_ne!(all, jobs(Kind::Periodic, 8, 1_000_000));
        assert!(all.is_sorted());
        for (task, period_ns, jitter_ns) in [(0, 1000, 100), (1, 300, 0)] {
            let its: Vec<_> = all.iter().filter(|job| job.task == task).collect();
            assert!(its.len() as u64 >= 1_000_000 / period_ns - 1);
            assert!(its.windows(2).all(|two| two[1].arrival_ns - two[0].arrival_ns == period_ns));
            assert!(its.iter().all(|job| job.release_ns - job.arrival_ns <= jitter_ns));
            let late = its.iter().filter(|job| job.release_ns > job.arrival_ns).count();
            assert_eq!(late > 0, jitter_ns > 0);
        }
    }

    #[test]
    fn poisson_arrivals_have_the_rate_of_the_period() {
        let all = jobs(Kind::Poisson, 3, 30_000_000);
        let its: Vec<_> = all.iter().filter(|job| job.task == 1).collect();
        assert!((95_000..105_000).contains(&its.len()), "{}", its.len());
        let short = its.windows(2).filter(|two| two[1].arrival_ns - two[0].arrival_ns < 300);
        // Of exponential gaps 1 - 1/e are below the mean.
        let share = short.count() as f64 / its.len() as f64;
        assert!((0.62..0.645).contains(&share), "{share}");
    }
}
