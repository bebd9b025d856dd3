//! Blocking in the demand bound test: how long jobs that are due later may be in the way.

use super::utilization::job_ns;
use eyelet::tasks::Task;
use std::collections::{BTreeSet, HashMap};

/// B(t), constant from each deadline to the next.
///
/// Let the operations of a set be the longest step and the longest chunk together, or the longest step that reads and
/// computes, if that is longer. B(t) is the largest of
///
/// - the operations of the tasks with D > t;
/// - for a task with chunks and D > t that shares a level with a task with chunks and D ≤ t: its loading and
///   computing, and the operations of the other tasks with D > t.
pub struct Blocking {
    segments: Vec<Segment>,
}

struct Segment {
    from_ns: u64,
    blocking_ns: u64,
}

impl Blocking {
    pub fn new(tasks: &[Task]) -> Self {
        let mut deadlines: Vec<u64> = tasks.iter().map(|task| task.deadline_ns).collect();
        deadlines.sort_unstable();
        deadlines.dedup();
        let shortest = shortest_of_levels(tasks);
        // From the longest deadline down, tasks come to be due later, and levels lose all tasks that are due earlier.
        let mut coming: Vec<usize> = (0..tasks.len()).collect();
        coming.sort_unstable_by_key(|&k| tasks[k].deadline_ns);
        let mut later = Operations::default();
        let mut in_the_way: BTreeSet<(u64, usize)> = BTreeSet::new();
        let segment = |&from_ns: &u64| {
            while let Some(k) = coming.pop_if(|k| tasks[*k].deadline_ns > from_ns) {
                later.add(k, &tasks[k]);
                if tasks[k].chunks > 0 {
                    in_the_way.insert((job_ns(&tasks[k]), k));
                }
            }
            in_the_way.retain(|(_, k)| {
                shortest.get(&tasks[*k].level).is_some_and(|&shortest_ns| shortest_ns <= from_ns)
            });
            let mut blocking_ns = later.but(None);
            for &(job_ns, k) in in_the_way.iter().rev() {
                if job_ns.saturating_add(later.but(None)) <= blocking_ns {
                    break;
                }
                blocking_ns = job_ns.saturating_add(later.but(Some(k))).max(blocking_ns);
            }
            Segment { from_ns, blocking_ns }
        };
        let mut segments: Vec<Segment> = deadlines.iter().rev().map(segment).collect();
        segments.reverse();
        Self { segments }
    }

    /// The longest deadline.
    pub fn last_ns(&self) -> Option<u64> {
        self.segments.last().map(|segment| segment.from_ns)
    }

    pub fn at_ns(&self, at_ns: u64) -> u64 {
        let after = self.segments.partition_point(|segment| segment.from_ns <= at_ns);
        after.checked_sub(1).map_or(0, |k| self.segments[k].blocking_ns)
    }

    /// The shortest length from which on, up to `at_ns`, this demand and the blocking fit.
    pub fn passes_from(&self, demand_ns: u64, at_ns: u64) -> u64 {
        let below = self.segments.partition_point(|segment| segment.from_ns <= at_ns);
        let mut reach = at_ns;
        for segment in self.segments[..below].iter().rev() {
            let needed_ns = demand_ns.saturating_add(segment.blocking_ns);
            if needed_ns > segment.from_ns {
                // The segment passes from where time covers demand and blocking, if it ends later.
                return reach.min(needed_ns);
            }
            reach = segment.from_ns;
        }
        reach
    }
}

/// The shortest deadline of each level's tasks with chunks.
fn shortest_of_levels(tasks: &[Task]) -> HashMap<u16, u64> {
    let mut shortest: HashMap<u16, u64> = HashMap::new();
    for task in tasks.iter().filter(|task| task.chunks > 0) {
        let least = shortest.entry(task.level).or_insert(task.deadline_ns);
        *least = task.deadline_ns.min(*least);
    }
    shortest
}

/// The longest operations of some tasks.
#[derive(Default)]
struct Operations {
    steps: Longest,
    chunks: Longest,
    /// Steps that occupy both engines.
    streaming: Longest,
}

impl Operations {
    fn add(&mut self, k: usize, task: &Task) {
        match task.streams {
            true => self.streaming.add(k, task.step_ns),
            false => self.steps.add(k, task.step_ns),
        }
        if task.weights() > 0 {
            self.chunks.add(k, task.chunk_ns);
        }
    }

    /// What may be in flight at once, but for a task's own.
    fn but(&self, task: Option<usize>) -> u64 {
        let [steps, chunks, streaming] =
            [&self.steps, &self.chunks, &self.streaming].map(|longest| longest.but(task));
        steps.saturating_add(chunks).max(streaming)
    }
}

/// The two longest operations of one kind, of different tasks.
#[derive(Default)]
struct Longest([Option<(u64, usize)>; 2]);

impl Longest {
    fn add(&mut self, task: usize, ns: u64) {
        let [first, second] = &mut self.0;
        let mut new = Some((ns, task));
        for place in [first, second] {
            if new > *place {
                std::mem::swap(&mut new, place);
            }
        }
    }

    fn but(&self, task: Option<usize>) -> u64 {
        let others = self.0.iter().flatten().filter(|(_, other)| Some(*other) != task);
        others.map(|(ns, _)| *ns).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    /// By the definition, task by task.
    fn plain(tasks: &[Task], at_ns: u64) -> u64 {
        let later =
            |but: usize| move |(k, task): &(usize, &Task)| *k != but && task.deadline_ns > at_ns;
        let most = |but: usize, of: &dyn Fn(&Task) -> u64| {
            let all = tasks.iter().enumerate().filter(later(but));
            all.map(|(_, task)| of(task)).max().unwrap_or(0)
        };
        let operations = |but: usize| {
            let steps = most(but, &|task| if task.streams { 0 } else { task.step_ns });
            let chunks = most(but, &|task| if task.weights() > 0 { task.chunk_ns } else { 0 });
            let streaming = most(but, &|task| if task.streams { task.step_ns } else { 0 });
            (steps + chunks).max(streaming)
        };
        let shares = |task: &Task| {
            let swaps = |other: &&Task| other.chunks > 0 && other.level == task.level;
            tasks.iter().filter(swaps).any(|other| other.deadline_ns <= at_ns)
        };
        let all = tasks.iter().enumerate().filter(later(usize::MAX));
        let whole = all.filter(|(_, task)| task.chunks > 0 && shares(task));
        let whole = whole.map(|(k, task)| job_ns(task) + operations(k)).max().unwrap_or(0);
        whole.max(operations(usize::MAX))
    }

    #[test]
    fn blocking_is_what_the_definition_says() {
        let mut random = crate::generate::random(3, 0);
        for _ in 0..3000 {
            let tasks: Vec<Task> = (0..random.random_range(1..7))
                .map(|_| {
                    let streams = random.random_bool(0.3);
                    let chunks = random.random_range(0..4);
                    Task {
                        level: random.random_range(0..3),
                        chunks,
                        room: if streams { chunks } else { random.random_range(0..=chunks) },
                        chunk_ns: random.random_range(1..9),
                        step_ns: random.random_range(1..9),
                        streams,
                        ..Task::new(random.random_range(3..30), 9)
                    }
                })
                .collect();
            let blocking = Blocking::new(&tasks);
            let first = tasks.iter().map(|task| task.deadline_ns).min().unwrap_or(0);
            for at_ns in first..35 {
                assert_eq!(blocking.at_ns(at_ns), plain(&tasks, at_ns), "{at_ns}: {tasks:#?}");
            }
        }
    }
}
