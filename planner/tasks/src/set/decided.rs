//! A set for which everything is decided: what `eyelet schedule -o` writes and `eyelet serve` runs.
//!
//! [`packed`](super::packed) is its form in a file.

use super::error::Reason;
use super::units::MOST;
use super::{Assignment, TaskSet, Transfer};
use eyelet::set::MAX_TASKS;
use eyelet::tasks::{LONGEST_NS, Policy, Scheduler, SetError as Refused};
use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;

/// A set, what was decided for it, and the packs that run it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    pub set: TaskSet,
    pub assignment: Assignment,
    /// One for each task.
    pub packs: Vec<Planned>,
}

/// A plan in a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    pub pack: Pack,
    /// The budget of its plan.
    pub budget: u64,
}

/// A pack: a file, or a part of a set's file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pack {
    pub path: PathBuf,
    /// Where it lies in the file, if that holds a set.
    pub place: Option<Place>,
}

/// Bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub offset: u64,
    pub bytes: u64,
}

impl Pack {
    /// What errors and reports call it: its path, and the byte at which it begins in a set's file.
    pub fn name(&self) -> PathBuf {
        match self.place {
            Some(place) => PathBuf::from(format!("{}:{}", self.path.display(), place.offset)),
            None => self.path.clone(),
        }
    }
}

impl From<PathBuf> for Pack {
    fn from(path: PathBuf) -> Self {
        Self { path, place: None }
    }
}

/// The name of an order, as reports have it.
pub fn order(policy: Policy) -> &'static str {
    match policy {
        Policy::Steps => "steps",
        Policy::Classes => "classes",
        Policy::Regions => "regions",
    }
}

impl Decided {
    /// Chunks of the pool: no more than there are chunks to hold.
    pub fn pool(&self) -> u32 {
        let all: u64 = self.assignment.chunks.iter().map(|&chunks| u64::from(chunks)).sum();
        let free = self.assignment.pool(&self.set).unwrap_or(0);
        u32::try_from(all).unwrap_or(u32::MAX).min(free)
    }

    /// Refuses a set that cannot be run: names, sizes and rates that are no set's, and what the device's scheduler refuses.
    /// Times were checked by who read them.
    pub fn check(&self) -> Result<(), Wrong> {
        let Self { set, assignment, .. } = self;
        let (memory, chunk) = (set.memory_bytes, assignment.chunk_bytes);
        if chunk > memory {
            return Err(Reason::ChunkBeyondMemory { chunk, memory }.into());
        }
        let of = |name, value, most| (name, value, most);
        let mut sizes = vec![of("memory", memory, MOST)];
        for Transfer { per_chunk_ns, bytes_per_second } in
            [set.storage.read].into_iter().chain(set.storage.write)
        {
            sizes.push(of("bytes a second of the storage", bytes_per_second, MOST));
            sizes.push(of("nanoseconds of a read or write", per_chunk_ns, LONGEST_NS));
        }
        sizes.extend(set.tasks.iter().map(|task| of("bytes of a task", task.cost.bytes, MOST)));
        if let Some((what, found, most)) = sizes.into_iter().find(|(_, found, most)| found > most) {
            return Err(Reason::TooLarge { what, found, most }.into());
        }
        self.check_tasks()?;
        if assignment.pool(set).is_none() {
            let stay = assignment.stay_bytes(set);
            return Err(Reason::Stay { stay, memory }.into());
        }
        self.schedulable()
    }

    fn check_tasks(&self) -> Result<(), Wrong> {
        let Self { set, assignment, .. } = self;
        let mut names = HashSet::new();
        for (task, &chunks) in set.tasks.iter().zip(&assignment.chunks) {
            if task.name.trim().is_empty() {
                return Err(Reason::NoName.into());
            }
            if !names.insert(&task.name) {
                return Err(Reason::Name { name: task.name.clone() }.into());
            }
            let room = task.cost.room_of(chunks, assignment.chunk_bytes);
            if task.cost.streams && room < chunks {
                return Err(Wrong::of(&task.name, Reason::Streams { room, chunks }));
            }
        }
        Ok(())
    }

    /// Refuses what the device's scheduler would refuse.
    fn schedulable(&self) -> Result<(), Wrong> {
        let Self { set, assignment, .. } = self;
        let free = assignment.pool(set).unwrap_or(0);
        let tasks = assignment.tasks(set);
        let scheduler = Scheduler::<MAX_TASKS>::new(assignment.policy, &tasks, free);
        let Err(error) = scheduler else { return Ok(()) };
        let (task, reason) = match error {
            Refused::Level { task } => (task, Reason::Level),
            Refused::Class { task } => (task, Reason::Class),
            Refused::Pool { task, needed, chunks } => {
                (task, Reason::ChunksBeyondPool { needed, pool: chunks })
            }
            Refused::Deadline { task }
            | Refused::Time { task }
            | Refused::Room { task, .. }
            | Refused::Reload { task, .. } => (task, Reason::Unscheduled(error)),
            // As many tasks as there may be are the file's matter.
            _ => return Ok(()),
        };
        Err(Wrong::of(&set.tasks[task].name, reason))
    }
}

/// Why a set is refused for which everything is decided.
#[derive(Debug)]
pub struct Wrong {
    /// The task that is at fault, if one is.
    pub task: Option<String>,
    pub reason: Reason,
}

impl Wrong {
    fn of(task: &str, reason: Reason) -> Self {
        Self { task: Some(task.to_owned()), reason }
    }
}

impl From<Reason> for Wrong {
    fn from(reason: Reason) -> Self {
        Self { task: None, reason }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.task {
            Some(task) => write!(f, "task {task:?}: {}", self.reason),
            None => self.reason.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::{Cost, Storage, Swappable, Task};
    use eyelet::pack::PAGE;

    const CHUNK: u64 = 65536;

    fn decided() -> Decided {
        let read = Transfer { per_chunk_ns: 80_000, bytes_per_second: 450_000_001 };
        let cost = |chunks: u64| Cost {
            compute_ns: 20_000_001,
            step_ns: 2_000_000,
            bytes: 10 * CHUNK + 4096,
            weights: Swappable::of(chunks * CHUNK),
            room: Swappable::default(),
            streams: false,
        };
        let task = |name: &str, chunks| Task {
            name: name.to_owned(),
            period_ns: 100_000_000,
            deadline_ns: 80_000_000,
            jitter_ns: 3,
            cost: cost(chunks),
        };
        let planned = |name: &str| Planned { pack: PathBuf::from(name).into(), budget: 655_360 };
        Decided {
            set: TaskSet {
                memory_bytes: 19 * CHUNK + 3 * PAGE,
                page_bytes: PAGE,
                storage: Storage { chunk_bytes: CHUNK, read, write: None },
                tasks: vec![task("a \"quoted\" one", 4), task("b", 3)],
            },
            assignment: Assignment {
                chunk_bytes: CHUNK,
                chunks: vec![4, 3],
                levels: vec![0, 0],
                policy: Policy::Steps,
            },
            packs: vec![planned("a.pack"), planned("b.pack")],
        }
    }

    type Change = fn(&mut Decided);

    fn refused(change: Change) -> String {
        let mut decided = decided();
        change(&mut decided);
        decided.check().unwrap_err().to_string()
    }

    #[test]
    fn faults_have_reasons() {
        decided().check().unwrap();
        let faults: [(Change, &str); 9] = [
            (|d| d.set.memory_bytes = CHUNK, "what stays in memory takes"),
            (|d| d.assignment.chunk_bytes = 4096 << 20, "a chunk of 4.29 GB is more than"),
            (|d| d.set.memory_bytes = u64::MAX, "memory: 18446744073709551615 is too large"),
            (|d| d.set.tasks[1].cost.bytes = MOST + 1, "bytes of a task: 9000000000000001 is"),
            (|d| d.set.storage.read.bytes_per_second = u64::MAX, "bytes a second of the storage"),
            (|d| d.set.storage.read.per_chunk_ns = u64::MAX, "the most is 1000000000000000"),
            (|d| d.set.tasks[1].name = " ".to_owned(), "a task needs a name"),
            (|d| d.set.tasks[1].name = d.set.tasks[0].name.clone(), "occurs twice"),
            (|d| d.set.tasks[1].cost.streams = true, "task \"b\": 0 of its 3 chunks are room"),
        ];
        for (change, reason) in faults {
            let found = refused(change);
            assert!(found.contains(reason), "{found}");
        }
    }

    #[test]
    fn what_the_scheduler_refuses_has_its_task() {
        let later: Change = |decided| {
            decided.set.tasks[1].deadline_ns += 1000;
            decided.assignment.levels = vec![1, 0];
        };
        let mut sound = decided();
        later(&mut sound);
        sound.check().unwrap();
        let found = refused(|d| {
            d.set.tasks[1].deadline_ns += 1000;
            d.assignment.levels = vec![1, 0];
            d.assignment.policy = Policy::Classes;
        });
        assert!(found.contains("has no place in an order by classes"), "{found}");
        let found = refused(|d| {
            d.set.tasks[1].deadline_ns += 1000;
            d.assignment.levels = vec![0, 1];
        });
        assert!(found.contains("one\": its level is lower than"), "{found}");
        // What streams below keeps its chunks.
        let found = refused(|d| {
            d.set.tasks[1].deadline_ns += 1000;
            d.assignment.levels = vec![1, 0];
            let cost = &mut d.set.tasks[1].cost;
            (cost.room, cost.weights, cost.streams) =
                (cost.weights.clone(), Swappable::default(), true);
        });
        assert!(found.contains("7 chunks are needed at once, and the pool has 4"), "{found}");
    }
}
