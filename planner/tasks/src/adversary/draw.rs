//! Random sets that a test just admits.

use super::admits;
use crate::analysis::levels::{full_pool, least_pool};
use crate::generate::random;
use crate::simulate::pick;
use eyelet::tasks::{Policy, Scheduler, Task, set_reloads};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// The kind of a random set.
#[derive(Clone, Copy, Debug)]
struct Shape {
    tasks: usize,
    /// Times are multiples of this many nanoseconds.
    unit_ns: u64,
    /// The longest period, as a multiple of the shortest.
    spread: f64,
    /// Probability that a task has chunks, that it streams, that it has jitter, that its deadline is below its period.
    chunks: f64,
    streams: f64,
    jitter: f64,
    early: f64,
    /// Probability that a step takes all of a job.
    long_steps: f64,
    /// Chunks are long next to computing.
    long_chunks: bool,
    /// Tasks have [`Role`]s.
    roles: bool,
    /// No task alone can have a much shorter period.
    tight: bool,
}

/// A kind of task that blocks others, or is blocked.
#[derive(Clone, Copy, Debug)]
enum Role {
    /// Short and often; its steps need both engines.
    Stream,
    /// Short and often.
    Urgent,
    /// Many short steps, without chunks.
    Whole,
    /// A long step, without chunks.
    Long,
    /// Many chunks of weights, seldom.
    Swap,
    /// Many chunks of room.
    Room,
}

impl Role {
    const ALL: [Self; 6] =
        [Self::Stream, Self::Urgent, Self::Whole, Self::Long, Self::Swap, Self::Room];

    /// A task of this role.
    fn play(self, task: Task, unit: u64, random: &mut ChaCha8Rng) -> Task {
        let mut draw = |least: u64, most: u64| random.random_range(least..=most);
        // Computing, the longest step, chunks, room of them, and the period next to that of others.
        let (compute, step, chunks, room, period) = match self {
            Self::Stream => (draw(1, 8), draw(1, 8), 0, 0, draw(1, 4)),
            Self::Urgent => (draw(1, 8), draw(1, 8), draw(0, 4), draw(0, 2), draw(1, 4)),
            Self::Whole => (draw(20, 80), draw(1, 3), 0, 0, draw(4, 16)),
            Self::Long => (draw(10, 40), 40, 0, 0, draw(4, 32)),
            Self::Swap => (draw(1, 10), draw(1, 10), draw(4, 12), 0, draw(8, 64)),
            Self::Room => (draw(1, 10), draw(1, 10), draw(4, 12), draw(3, 12), draw(2, 32)),
        };
        let factor = |ns: u64| ns * period / 4;
        let (jitter_ns, deadline_ns) = (factor(task.jitter_ns), factor(task.deadline_ns).max(1));
        let streams = matches!(self, Self::Stream);
        Task {
            period_ns: factor(task.period_ns).max(jitter_ns + deadline_ns),
            jitter_ns,
            deadline_ns,
            chunks: chunks as u32,
            room: if streams { chunks } else { room.min(chunks) } as u32,
            compute_ns: compute * unit,
            step_ns: step.min(compute) * unit,
            streams,
            ..task
        }
    }
}

impl Shape {
    fn random(policy: Policy, random: &mut ChaCha8Rng) -> Self {
        let streams = match policy {
            Policy::Steps => *pick(&[0.0, 0.2, 0.5], random),
            Policy::Classes | Policy::Regions => 0.0,
        };
        let regions = policy == Policy::Regions;
        Self {
            tasks: *pick(&[2, 3, 3, 4, 4, 5, 6, 7, 8], random),
            unit_ns: *pick(&[1, 7, 1000], random),
            spread: *pick(&[1.5, 4.0, 12.0, 60.0], random),
            chunks: *pick(&[0.3, 0.6, 1.0], random),
            streams,
            jitter: if regions { 0.0 } else { *pick(&[0.0, 0.3, 1.0], random) },
            early: if regions { 0.0 } else { *pick(&[0.0, 0.3, 1.0], random) },
            long_steps: *pick(&[0.0, 0.3, 1.0], random),
            long_chunks: random.random(),
            roles: random.random(),
            tight: random.random_bool(0.7),
        }
    }

    /// A task, with a period that is to be lengthened.
    fn task(&self, common_ns: u64, random: &mut ChaCha8Rng) -> Task {
        let unit = self.unit_ns;
        let period_ns = (60.0 * self.spread.powf(random.random::<f64>())) as u64 * unit;
        let compute = random.random_range(1..=30u64);
        let step = match random.random_bool(self.long_steps) {
            true => compute,
            false => random.random_range(1..=compute),
        };
        let chunks =
            if random.random_bool(self.chunks) { random.random_range(1..=6u32) } else { 0 };
        let streams = random.random_bool(self.streams);
        let room = match (streams, random.random_range(0..3)) {
            (true, _) => chunks,
            (_, 0) => 0,
            _ => random.random_range(0..=chunks),
        };
        let early = match random.random_bool(self.early) {
            true => random.random_range(0.0..0.5),
            false => 0.0,
        };
        let jitter = match random.random_bool(self.jitter) {
            true => random.random_range(0.0..0.5),
            false => 0.0,
        };
        let share = |of: f64| (period_ns as f64 * of) as u64;
        let jitter_ns = share(jitter) / 2;
        let own_ns = random.random_range(1..=if self.long_chunks { 20 } else { 3 }) * unit;
        let task = Task {
            jitter_ns,
            deadline_ns: (period_ns - jitter_ns).saturating_sub(share(early)).max(1),
            chunks,
            room,
            chunk_ns: if random.random_bool(0.7) { common_ns } else { own_ns },
            step_ns: step * unit,
            streams,
            ..Task::new(period_ns, compute * unit)
        };
        if !self.roles {
            return task;
        }
        let role = *pick(&Role::ALL, random);
        match role {
            Role::Stream if self.streams == 0.0 => Role::Urgent.play(task, unit, random),
            role => role.play(task, unit, random),
        }
    }
}

/// A set that the order's test just admits, and its pool: no period can be much shorter. `None`: no periods help the set
/// that was drawn.
pub fn draw(policy: Policy, seed: u64) -> Option<(Vec<Task>, u32)> {
    let mut random = random(seed, 77);
    let random = &mut random;
    let shape = Shape::random(policy, random);
    let common_ns = random.random_range(1..=if shape.long_chunks { 20 } else { 3 }) * shape.unit_ns;
    let mut tasks: Vec<Task> = (0..shape.tasks).map(|_| shape.task(common_ns, random)).collect();
    tasks.sort_by_key(|task| std::cmp::Reverse(task.deadline_ns));
    set_levels(policy, &mut tasks, random);
    let (least, full) = (least_pool(&tasks), full_pool(&tasks));
    let full = u32::try_from(full).unwrap_or(u32::MAX).max(least);
    let pool = random.random_range(least..=full);
    let passes = |mut tasks: Vec<Task>| {
        set_reloads(&mut tasks, pool);
        let runs = Scheduler::<64>::new(policy, &tasks, pool).is_ok();
        (runs && admits(policy, &tasks)).then_some(tasks)
    };
    let every = |factor: f64| passes(tasks.iter().map(|task| scaled(task, factor)).collect());
    let first = every(64.0)?;
    let mut found = shortest((0.02, 64.0), 1.002, every).unwrap_or(first);
    // Then each task for itself, in any order.
    for _ in 0..if shape.tight { 2 * found.len() } else { 0 } {
        let k = random.random_range(0..found.len());
        let before = found.clone();
        let one = |factor: f64| {
            let mut tasks = before.clone();
            tasks[k] = scaled(&before[k], factor);
            passes(tasks)
        };
        found = shortest((0.1, 1.0), 1.03, one).unwrap_or(before);
    }
    Some((found, pool))
}

/// Halves the interval between a factor that does not pass and one that does, until their ratio is small. Returns the set
/// of the least factor that passes.
fn shortest(
    (mut low, mut high): (f64, f64),
    ratio: f64,
    passes: impl Fn(f64) -> Option<Vec<Task>>,
) -> Option<Vec<Task>> {
    let mut found = None;
    while high / low > ratio {
        let middle = f64::sqrt(low * high);
        match passes(middle) {
            Some(tasks) => (high, found) = (middle, Some(tasks)),
            None => low = middle,
        }
    }
    found
}

/// Levels that the order accepts. The tasks are in order of falling deadlines.
fn set_levels(policy: Policy, tasks: &mut [Task], random: &mut ChaCha8Rng) {
    let cuts = *pick(&[0.0, 0.3, 1.0], random);
    let mut level = 1;
    for task in tasks {
        task.level = level;
        match policy {
            Policy::Steps if random.random_bool(cuts) => level += 1,
            Policy::Classes if task.chunks == 0 => task.level = if random.random() { 2 } else { 0 },
            _ => {}
        }
    }
}

/// A task with period, deadline and jitter by a factor.
fn scaled(task: &Task, factor: f64) -> Task {
    let by = |ns: u64| (ns as f64 * factor) as u64;
    let period_ns = by(task.period_ns).max(1);
    let jitter_ns = by(task.jitter_ns).min(period_ns - 1);
    let deadline_ns = by(task.deadline_ns).clamp(1, period_ns - jitter_ns);
    Task { period_ns, jitter_ns, deadline_ns, ..*task }
}
