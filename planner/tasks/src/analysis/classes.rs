//! The test for [`eyelet::tasks::Policy::Classes`]: storage and processor are two resources.
//!
//! Tasks with chunks form a *chain*: one job at a time loads, then computes. Tasks without chunks are *ahead* of the
//! chain or *after* it. On the processor those ahead go first, the chain next, the others last. So those ahead delay
//! only the chain's computing, and those after compute while the chain loads.
//!
//! `lab/proofs/task-sets.md` states and proves three conditions, one for each class, under which no job ends late.

use super::demand_bound::{Point, Verdict, demand_bound, jobs};
use super::utilization::{job_ns, processor, storage, utilization};
use eyelet::tasks::{LONGEST_NS, Task};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Points that the test tries at most, times the tasks.
const MOST_POINTS: u64 = 2_000_000;

/// The three classes of a set.
struct Classes {
    ahead: Vec<Task>,
    chain: Vec<Task>,
    after: Vec<Task>,
}

impl Classes {
    /// `None`: a task streams, or shares the chain's level without chunks, or the chain has several levels.
    fn of(tasks: &[Task]) -> Option<Self> {
        let (mut ahead, mut chain, mut after) = (Vec::new(), Vec::new(), Vec::new());
        let level = tasks.iter().find(|task| task.chunks > 0)?.level;
        for task in tasks {
            match (task.chunks > 0, task.level.cmp(&level)) {
                _ if task.streams => return None,
                (true, Ordering::Equal) => chain.push(*task),
                (false, Ordering::Greater) => ahead.push(*task),
                (false, Ordering::Less) => after.push(*task),
                _ => return None,
            }
        }
        Some(Self { ahead, chain, after })
    }
}

/// Runs the test. Sets that the policy does not accept do not pass.
pub fn classes(tasks: &[Task]) -> Verdict {
    let whole = utilization(tasks);
    let Some(Classes { ahead, chain, after }) = Classes::of(tasks) else {
        return Verdict::Unknown { utilization: whole, points: 0 };
    };
    if processor(tasks).max(utilization(&chain)) > 1.0 {
        return Verdict::Overloaded { utilization: processor(tasks).max(storage(tasks)) };
    }
    let longest = |tasks: &[Task]| tasks.iter().map(|task| task.step_ns).max().unwrap_or(0);
    let (chain_step_ns, after_step_ns) = (longest(&chain), longest(&after));
    let step_ns = chain_step_ns.max(after_step_ns);
    let other_step_ns = after_step_ns.max(longest(&ahead));
    let verdict = demand_bound(&blocked(&ahead, step_ns));
    if !verdict.kept() {
        return verdict;
    }
    let over = Over { tasks: ahead.iter().map(|task| (*task, task.jitter_ns)).collect(), step_ns };
    // The end of a chunk may be seen after a step of another class, and one more such step may be in the way of a job.
    let waiting: Vec<Task> = chain
        .iter()
        .map(|task| Task {
            compute_ns: task.compute_ns.saturating_add(other_step_ns),
            chunk_ns: task.chunk_ns.saturating_add(other_step_ns),
            ..*task
        })
        .collect();
    let verdict = Chain::new(&waiting, over).verdict(whole);
    if !verdict.kept() {
        return verdict;
    }
    Last::new(&ahead, &chain, &after).verdict(whole)
}

/// Tasks, and a step that may always be in their way.
fn blocked(tasks: &[Task], step_ns: u64) -> Vec<Task> {
    let step = Task { ..Task::new(LONGEST_NS, step_ns) };
    let step = (step_ns > 0 && !tasks.is_empty()).then_some(step);
    tasks.iter().copied().chain(step).collect()
}

/// Calls `exceeded` at every length at which a further job of these tasks may be due, from the shortest on.
fn each_due(
    tasks: &[Task],
    until_ns: u64,
    whole: f64,
    mut exceeded: impl FnMut(u64) -> Option<Point>,
) -> Verdict {
    let due = |k: usize, job: u64| {
        let Task { deadline_ns, jitter_ns, period_ns, .. } = tasks[k];
        let later = job.saturating_mul(period_ns).saturating_sub(jitter_ns);
        Reverse((deadline_ns.saturating_add(later), k, job))
    };
    let mut next: BinaryHeap<_> = (0..tasks.len()).map(|k| due(k, 0)).collect();
    let mut points = 0;
    while let Some(Reverse((at_ns, k, job))) =
        next.pop().filter(|Reverse((at, ..))| *at <= until_ns)
    {
        points += tasks.len() as u64;
        if points > MOST_POINTS {
            return Verdict::Unknown { utilization: whole, points };
        }
        if let Some(point) = exceeded(at_ns) {
            return Verdict::Exceeded(point);
        }
        next.push(due(k, job + 1));
    }
    Verdict::Kept
}

/// What goes before on the processor.
struct Over {
    /// Each with the longest time from an arrival until it may need the processor.
    tasks: Vec<(Task, u64)>,
    /// A step of another class, during which they may pile up.
    step_ns: u64,
}

impl Over {
    /// Jobs of each that may delay what is done within such a time.
    fn jobs(&self, within_ns: u64) -> impl Iterator<Item = u64> {
        let within_ns = within_ns.saturating_add(self.step_ns);
        self.tasks
            .iter()
            .map(move |(task, late_ns)| within_ns.saturating_add(*late_ns).div_ceil(task.period_ns))
    }

    /// The least time, up to a limit, in which so much gets done besides them, if no more than `most` jobs of
    /// each delay it.
    fn stretched(&self, chain_ns: u64, most: &[u64], until_ns: u64) -> Option<u64> {
        let mut found = chain_ns;
        while found <= until_ns {
            let jobs = self.jobs(found).zip(most).map(|(jobs, most)| jobs.min(*most));
            let work =
                jobs.zip(&self.tasks).map(|(jobs, (t, _))| jobs.saturating_mul(t.compute_ns));
            let needed = work.fold(chain_ns, u64::saturating_add);
            if needed <= found {
                return Some(found);
            }
            found = needed;
        }
        None
    }
}

/// A task of the chain, and how many jobs of each task ahead may delay one job's computing.
struct Link {
    task: Task,
    delayed_by: Vec<u64>,
}

/// A job of the chain that has begun and is due later.
#[derive(Clone, Copy)]
struct InTheWay<'a> {
    link: &'a Link,
    /// A third job's chunk, which it may wait for itself.
    chunk_ns: u64,
}

impl InTheWay<'_> {
    fn ns(self) -> u64 {
        job_ns(&self.link.task).saturating_add(self.chunk_ns)
    }
}

struct Chain {
    links: Vec<Link>,
    over: Over,
}

impl Chain {
    fn new(chain: &[Task], over: Over) -> Self {
        let any = vec![u64::MAX; over.tasks.len()];
        let link = |task: &Task| {
            let until_ns = over.stretched(task.compute_ns, &any, task.deadline_ns);
            let delayed_by = match until_ns {
                Some(ns) => over.jobs(ns).collect(),
                None => any.clone(),
            };
            Link { task: *task, delayed_by }
        };
        Self { links: chain.iter().map(link).collect(), over }
    }

    fn verdict(&self, whole: f64) -> Verdict {
        let tasks: Vec<Task> = self.links.iter().map(|link| link.task).collect();
        let last_ns = tasks.iter().map(|task| task.deadline_ns).max().unwrap_or(0);
        match self.busy_ns() {
            Some(busy_ns) => each_due(&tasks, busy_ns.max(last_ns), whole, |ns| self.exceeded(ns)),
            None => Verdict::Unknown { utilization: whole, points: 0 },
        }
    }

    /// Why jobs that are due within this length may not end in it.
    fn exceeded(&self, at_ns: u64) -> Option<Point> {
        let counts: Vec<u64> = self.links.iter().map(|link| jobs(&link.task, at_ns)).collect();
        let later = || self.links.iter().filter(|link| link.task.deadline_ns > at_ns);
        let in_the_way = later().enumerate().map(|(k, link)| {
            let others = later().enumerate().filter(|(other, _)| *other != k);
            let chunk_ns = others.map(|(_, other)| other.task.chunk_ns).max().unwrap_or(0);
            Some(InTheWay { link, chunk_ns })
        });
        let exceeds = |way: &Option<InTheWay<'_>>| self.time_ns(&counts, *way, at_ns).is_none();
        let way = in_the_way.chain([None]).find(exceeds)?;
        let delays = self.over.jobs(at_ns).zip(&self.over.tasks);
        let delay_ns: u64 = delays.map(|(jobs, (t, _))| jobs.saturating_mul(t.compute_ns)).sum();
        let demand_ns = self.work_ns(&counts, None).saturating_add(delay_ns);
        Some(Point { at_ns, demand_ns, blocking_ns: way.map_or(0, InTheWay::ns) })
    }

    /// The chain's own time for so many jobs of each task, and for what is in their way.
    fn work_ns(&self, counts: &[u64], way: Option<InTheWay<'_>>) -> u64 {
        let jobs = self.links.iter().zip(counts);
        let work = jobs.map(|(link, &count)| count.saturating_mul(job_ns(&link.task)));
        work.fold(way.map_or(0, InTheWay::ns), u64::saturating_add)
    }

    /// The time that these jobs take with what delays them, up to a limit.
    fn time_ns(&self, counts: &[u64], way: Option<InTheWay<'_>>, until_ns: u64) -> Option<u64> {
        let none = || vec![0; self.over.tasks.len()];
        let mut most = way.map_or_else(none, |way| way.link.delayed_by.clone());
        for (link, &count) in self.links.iter().zip(counts) {
            for (most, delayed_by) in most.iter_mut().zip(&link.delayed_by) {
                *most = most.saturating_add(count.saturating_mul(*delayed_by));
            }
        }
        self.over.stretched(self.work_ns(counts, way), &most, until_ns)
    }

    /// The longest time for which the chain can work without a pause.
    fn busy_ns(&self) -> Option<u64> {
        let chunk_ns = self.links.iter().map(|link| link.task.chunk_ns).max().unwrap_or(0);
        let longest = |link: &Link| {
            let mut busy = 1u64;
            for _ in 0..10_000 {
                let count = |link: &Link| {
                    busy.saturating_add(link.task.jitter_ns).div_ceil(link.task.period_ns)
                };
                let counts: Vec<u64> = self.links.iter().map(count).collect();
                let next =
                    self.time_ns(&counts, Some(InTheWay { link, chunk_ns }), u64::MAX / 4)?;
                if next <= busy {
                    return Some(busy);
                }
                busy = next;
            }
            None
        };
        self.links.iter().map(longest).try_fold(0, |most, busy| Some(busy?.max(most)))
    }
}

/// The last class: it has what the others leave of the processor.
struct Last {
    tasks: Vec<Task>,
    over: Over,
}

impl Last {
    fn new(ahead: &[Task], chain: &[Task], last: &[Task]) -> Self {
        // A job of the chain may compute as late as its deadline permits.
        let late = |t: &Task| (*t, (t.jitter_ns + t.deadline_ns).saturating_sub(t.compute_ns));
        let ahead = ahead.iter().map(|task| (*task, task.jitter_ns));
        let tasks = ahead.chain(chain.iter().map(late)).collect();
        Self { tasks: last.to_vec(), over: Over { tasks, step_ns: 0 } }
    }

    fn verdict(&self, whole: f64) -> Verdict {
        let any = vec![u64::MAX; self.over.tasks.len()];
        let last_ns = self.tasks.iter().map(|task| task.deadline_ns).max().unwrap_or(0);
        let most_ns = u64::MAX / 4;
        let mut busy_ns = 1u64;
        for _ in 0..10_000 {
            let work = self.tasks.iter().fold(0, |sum: u64, t| {
                let jobs = busy_ns.saturating_add(t.jitter_ns).div_ceil(t.period_ns);
                sum.saturating_add(jobs.saturating_mul(t.compute_ns))
            });
            match self.over.stretched(work, &any, most_ns) {
                None => break,
                Some(next) if next <= busy_ns => {
                    let until_ns = busy_ns.max(last_ns);
                    return each_due(&self.tasks, until_ns, whole, |ns| self.exceeded(ns, &any));
                }
                Some(next) => busy_ns = next,
            }
        }
        Verdict::Unknown { utilization: whole, points: 0 }
    }

    fn exceeded(&self, at_ns: u64, any: &[u64]) -> Option<Point> {
        let later = self.tasks.iter().filter(|task| task.deadline_ns > at_ns);
        let blocking_ns = later.map(|task| task.step_ns).max().unwrap_or(0);
        let demand = |sum: u64, t: &Task| sum + jobs(t, at_ns).saturating_mul(t.compute_ns);
        let demand_ns = self.tasks.iter().fold(0, demand);
        let all_ns = demand_ns.saturating_add(blocking_ns);
        match self.over.stretched(all_ns, any, at_ns) {
            Some(_) => None,
            None => Some(Point { at_ns, demand_ns, blocking_ns }),
        }
    }
}
