//! A set for which everything is decided: what `eyelet schedule -o` writes and `eyelet serve` runs.
//!
//! ```toml
//! memory = "16777216B"
//! chunk = "65536B"
//! pool = 40                         # chunks that all swapped chunks share
//! order = "steps"                   # or "classes"
//!
//! [storage]
//! read = "450000000B/s"
//! per_read = "80000ns"
//!
//! [[task]]
//! name = "camera"
//! pack = "camera.pack"              # next to this file
//! budget = "12582912B"              # which of its plans
//! bytes = "12582912B"               # with all weights in memory
//! period = "100000000ns"
//! deadline = "80000000ns"
//! jitter = "2000000ns"
//! urgency = 2.0
//! compute = "20000000ns"            # at worst, all steps
//! step = "2000000ns"                # at worst, the longest
//! streams = false
//! chunks = 24                       # leave memory between two jobs
//! level = 0                         # of preemption
//! ```
//!
//! Units are the smallest, so that what is read is exactly what was written.

use super::error::{Reason, SetError};
use super::file::{MOST_TASKS, Reader, StorageTable};
use super::units::bytes;
use super::{Assignment, Cost, Swappable, Task, TaskSet, Transfer};
use eyelet::pack::PAGE;
use eyelet::tasks::{Policy, Scheduler, SetError as Refused};
use serde::Deserialize;
use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// The name of the file in its folder.
pub const FILE: &str = "set.toml";

/// The first line of what is written.
const HEAD: &str =
    "# What `eyelet schedule` decided for a set of networks: `eyelet serve FOLDER` runs it.";

/// Whether a text is a decided set: one that can be read, or one that was written by another version or edited since.
pub fn is_decided(file: &Path, text: &str) -> bool {
    text.lines().next() == Some(HEAD) || parse(file, text).is_ok()
}

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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    memory: Spanned<String>,
    chunk: Spanned<String>,
    pool: Spanned<u64>,
    order: Spanned<String>,
    storage: StorageTable,
    #[serde(default)]
    task: Vec<Spanned<TaskTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskTable {
    name: Spanned<String>,
    pack: PathBuf,
    budget: Spanned<String>,
    bytes: Spanned<String>,
    period: Spanned<String>,
    deadline: Spanned<String>,
    jitter: Spanned<String>,
    urgency: Spanned<f64>,
    compute: Spanned<String>,
    step: Spanned<String>,
    streams: bool,
    chunks: Spanned<u64>,
    room: Spanned<u64>,
    level: Spanned<u64>,
}

const STEPS: &str = "steps";
const CLASSES: &str = "classes";

/// The name of an order, as reports and files have it.
pub fn order(policy: Policy) -> &'static str {
    match policy {
        Policy::Steps => STEPS,
        Policy::Classes => CLASSES,
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

    /// The set as a file of its own. Paths of packs stand in it as they are; parts of a file are not said.
    pub fn to_toml(&self) -> String {
        let Self { set, assignment, .. } = self;
        let mut text = format!("{HEAD}\n");
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "memory = \"{}B\"\nchunk = \"{}B\"\npool = {}\norder = \"{}\"\n\n[storage]\n",
            set.memory_bytes,
            assignment.chunk_bytes,
            self.pool(),
            order(assignment.policy)
        );
        let transfers =
            [("read", Some(set.storage.read)), ("write", set.storage.write)].into_iter();
        for (name, transfer) in transfers.filter_map(|(name, found)| Some((name, found?))) {
            let Transfer { bytes_per_second, per_chunk_ns } = transfer;
            let _ = write!(
                text,
                "{name} = \"{bytes_per_second}B/s\"\nper_{name} = \"{per_chunk_ns}ns\"\n"
            );
        }
        for k in 0..set.tasks.len() {
            self.write_task(&mut text, k);
        }
        text
    }

    fn write_task(&self, text: &mut String, k: usize) {
        let (task, planned) = (&self.set.tasks[k], &self.packs[k]);
        let string = |text: &str| toml::Value::String(text.to_owned());
        let Cost { compute_ns, step_ns, bytes, streams, .. } = &task.cost;
        let _ = write!(
            text,
            "\n[[task]]\nname = {}\npack = {}\nbudget = \"{}B\"\nbytes = \"{bytes}B\"\nperiod = \"{}ns\"\n\
             deadline = \"{}ns\"\njitter = \"{}ns\"\nurgency = {:?}\ncompute = \"{compute_ns}ns\"\n\
             step = \"{step_ns}ns\"\nstreams = {streams}\nchunks = {}\nroom = {}\nlevel = {}\n",
            string(&task.name),
            string(&planned.pack.path.to_string_lossy()),
            planned.budget,
            task.period_ns,
            task.deadline_ns,
            task.jitter_ns,
            task.urgency,
            self.assignment.chunks[k],
            task.cost.room_of(self.assignment.chunks[k], self.assignment.chunk_bytes),
            self.assignment.levels[k],
        );
    }
}

/// Reads a decided set strictly. Paths of packs are relative to the file.
pub fn parse(file: &Path, text: &str) -> Result<Decided, SetError> {
    let reader = Reader { file, text };
    let read: File = reader.whole()?;
    let memory_bytes = reader.positive(&read.memory, bytes)?;
    let chunk_bytes = reader.positive(&read.chunk, bytes)?;
    if !chunk_bytes.is_multiple_of(PAGE) {
        let reason = Reason::ChunkOfPages { chunk: chunk_bytes, page: PAGE };
        return Err(reader.at(&read.chunk, reason));
    }
    if chunk_bytes > memory_bytes {
        let reason = Reason::ChunkBeyondMemory { chunk: chunk_bytes, memory: memory_bytes };
        return Err(reader.at(&read.chunk, reason));
    }
    let policy = match read.order.get_ref().as_str() {
        STEPS => Policy::Steps,
        CLASSES => Policy::Classes,
        _ => return Err(reader.at(&read.order, Reason::Order)),
    };
    let storage = reader.storage(&read.storage, chunk_bytes)?;
    let count = read.task.len() as u64;
    if count == 0 || count > MOST_TASKS {
        return Err(reader.error(0, Reason::Tasks { tasks: count, most: MOST_TASKS }));
    }
    let mut names = HashSet::new();
    let (mut tasks, mut packs) = (Vec::new(), Vec::new());
    for table in &read.task {
        let (task, planned) = reader.decided(table.get_ref(), chunk_bytes)?;
        if !names.insert(task.name.clone()) {
            return Err(reader.at(&table.get_ref().name, Reason::Name { name: task.name }));
        }
        tasks.push(task);
        packs.push(planned);
    }
    let tables = || read.task.iter().map(Spanned::get_ref);
    let chunks = tables().map(|table| reader.number(&table.chunks, u32::MAX));
    let levels = tables().map(|table| reader.number(&table.level, u16::MAX));
    let assignment = Assignment {
        chunk_bytes,
        chunks: chunks.collect::<Result<_, _>>()?,
        levels: levels.collect::<Result<_, _>>()?,
        policy,
    };
    let set = TaskSet { memory_bytes, page_bytes: PAGE, storage, tasks };
    let Some(free) = assignment.pool(&set) else {
        let stay = assignment.stay_bytes(&set);
        return Err(reader.at(&read.memory, Reason::Stay { stay, memory: memory_bytes }));
    };
    let pool = reader.number(&read.pool, u32::MAX)?;
    if pool > free {
        return Err(reader.at(&read.pool, Reason::Pool { pool, free }));
    }
    let decided = Decided { set, assignment, packs };
    reader.schedulable(&read, &decided)?;
    Ok(decided)
}

/// Tasks of a scheduler that a set is tried with. Larger sets are not run.
const MOST_RUN: usize = 64;

impl Reader<'_> {
    /// A number of a type that holds no more than this.
    fn number<T: TryFrom<u64> + Into<u64>>(
        &self,
        value: &Spanned<u64>,
        most: T,
    ) -> Result<T, SetError> {
        let found = *value.get_ref();
        let too_large = |_| self.at(value, Reason::TooLarge { found, most: most.into() });
        T::try_from(found).map_err(too_large)
    }

    /// Refuses what the device's scheduler would refuse, and says which key is wrong.
    fn schedulable(&self, read: &File, decided: &Decided) -> Result<(), SetError> {
        let Decided { set, assignment, .. } = decided;
        let free = assignment.pool(set).unwrap_or(0);
        let scheduler = Scheduler::<MOST_RUN>::new(assignment.policy, &assignment.tasks(set), free);
        let Err(error) = scheduler else { return Ok(()) };
        let table = |task: usize| read.task[task].get_ref();
        Err(match error {
            Refused::Level { task } => self.at(&table(task).level, Reason::Level),
            Refused::Class { task } => {
                let task = set.tasks[task].name.clone();
                self.at(&read.order, Reason::Class { task })
            }
            Refused::Pool { task, needed, chunks } => {
                let reason = Reason::ChunksBeyondPool { needed, pool: chunks };
                self.at(&table(task).chunks, reason)
            }
            Refused::Deadline { task }
            | Refused::Time { task }
            | Refused::Room { task, .. }
            | Refused::Reload { task, .. } => {
                self.at(&table(task).chunks, Reason::Unscheduled(error))
            }
            _ => return Ok(()),
        })
    }

    fn decided(&self, table: &TaskTable, chunk_bytes: u64) -> Result<(Task, Planned), SetError> {
        let (period_ns, deadline_ns) = (self.time(&table.period)?, self.time(&table.deadline)?);
        if deadline_ns > period_ns {
            let reason = Reason::DeadlineBeyondPeriod { deadline_ns, period_ns };
            return Err(self.at(&table.deadline, reason));
        }
        let jitter_ns = self.read(&table.jitter, super::units::time_ns)?;
        if jitter_ns >= deadline_ns {
            let reason = Reason::JitterBeyondDeadline { jitter_ns, deadline_ns };
            return Err(self.at(&table.jitter, reason));
        }
        let (compute_ns, step_ns) = (self.time(&table.compute)?, self.time(&table.step)?);
        if step_ns > compute_ns {
            let reason = Reason::StepBeyondComputing { step_ns, compute_ns };
            return Err(self.at(&table.step, reason));
        }
        let all = self.positive(&table.bytes, bytes)?;
        let (chunks, room) =
            (self.number(&table.chunks, u32::MAX)?, self.number(&table.room, u32::MAX)?);
        let swappable = u64::from(chunks).saturating_mul(chunk_bytes);
        if swappable > all {
            let reason = Reason::SwappableBeyondBytes { swappable, bytes: all };
            return Err(self.at(&table.chunks, reason));
        }
        if room > chunks || (table.streams && room < chunks) {
            let reason = Reason::Room { room, chunks, streams: table.streams };
            return Err(self.at(&table.room, reason));
        }
        let room = u64::from(room).saturating_mul(chunk_bytes);
        let cost = Cost {
            compute_ns,
            step_ns,
            bytes: all,
            weights: Swappable::of(swappable.saturating_sub(room)),
            room: Swappable::of(room),
            streams: table.streams,
        };
        let name = self.name(&table.name)?;
        let urgency = self.urgency(&table.urgency)?;
        let folder = self.file.parent().unwrap_or(Path::new(""));
        let pack = Pack::from(folder.join(&table.pack));
        let planned = Planned { pack, budget: self.positive(&table.budget, bytes)? };
        Ok((Task { name, period_ns, deadline_ns, jitter_ns, urgency, cost }, planned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::Storage;

    fn decided() -> Decided {
        let read = Transfer { per_chunk_ns: 80_000, bytes_per_second: 450_000_001 };
        let cost = |chunks: u64| Cost {
            compute_ns: 20_000_001,
            step_ns: 2_000_000,
            bytes: 10 * 65536 + 4096,
            weights: Swappable::of(chunks * 65536),
            room: Swappable::default(),
            streams: false,
        };
        let task = |name: &str, chunks| Task {
            name: name.to_owned(),
            period_ns: 100_000_000,
            deadline_ns: 80_000_000,
            jitter_ns: 3,
            urgency: 1.5,
            cost: cost(chunks),
        };
        let planned = |name: &str| Planned { pack: PathBuf::from(name).into(), budget: 655_360 };
        Decided {
            set: TaskSet {
                memory_bytes: 19 * 65536 + 3 * PAGE,
                page_bytes: PAGE,
                storage: Storage { chunk_bytes: 65536, read, write: None },
                tasks: vec![task("a \"quoted\" one", 4), task("b", 3)],
            },
            assignment: Assignment {
                chunk_bytes: 65536,
                chunks: vec![4, 3],
                levels: vec![0, 0],
                policy: Policy::Steps,
            },
            packs: vec![planned("a.pack"), planned("b.pack")],
        }
    }

    #[test]
    fn what_was_decided_is_read_back() {
        let decided = decided();
        let text = decided.to_toml();
        let read = parse(Path::new(FILE), &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(read, decided);
        let read = parse(Path::new("folder/set.toml"), &text).unwrap();
        assert_eq!(read.packs[1].pack.name(), Path::new("folder/b.pack"));
    }

    #[test]
    fn faults_have_lines_and_reasons() {
        let text = decided().to_toml();
        for (from, to, reason) in [
            ("pool = 4", "pool = 5", "pool: the pool of 5 chunks"),
            ("memory = \"1257472B\"", "memory = \"65536B\"", "memory: what stays in memory takes"),
            ("chunk = \"65536B\"", "chunk = \"3B\"", "chunk: chunks of 3 bytes are no whole pages"),
            ("chunk = \"65536B\"", "chunk = \"4096MiB\"", "chunk: a chunk of 4.29 GB is more than"),
            ("urgency = 1.5", "urgency = nan", "urgency: it is not a finite"),
            ("urgency = 1.5", "urgency = -1.0", "urgency: it is not a finite"),
            ("name = \"b\"", "name = \"\"", "name: a task needs a name"),
            ("\"steps\"", "\"later\"", "steps or classes"),
            ("chunks = 4", "chunks = 40", "are swappable of"),
            (
                "chunks = 4",
                "chunks = 4294967296",
                "chunks: 4294967296 is too large: the most is 4294967295",
            ),
            ("level = 0", "level = 65536", "level: 65536 is too large: the most is 65535"),
            (
                "\"100000000ns\"",
                "\"9999999s\"",
                "`9999999s` is too long: the longest time is 1000000 s",
            ),
            ("name = \"b\"", "name = \"a \\\"quoted\\\" one\"", "occurs twice"),
            ("level = 0", "level = 0\nmore = 1", "unknown field `more`"),
            ("period = \"100000000ns\"", "period = \"7ns\"", "exceeds the period"),
        ] {
            assert!(text.contains(from), "{from} is not in: {text}");
            let wrong = parse(Path::new(FILE), &text.replacen(from, to, 1)).unwrap_err();
            assert!(wrong.to_string().contains(reason) && wrong.line > 1, "{wrong}");
        }
    }

    #[test]
    fn what_the_scheduler_refuses_has_its_key() {
        let mut decided = decided();
        decided.set.tasks[1].deadline_ns += 1000;
        decided.assignment.levels = vec![1, 0];
        parse(Path::new(FILE), &decided.to_toml()).unwrap();
        let text = decided.to_toml().replace("steps", "classes");
        let wrong = parse(Path::new(FILE), &text).unwrap_err();
        assert_eq!((wrong.key.as_str(), wrong.line), ("order", 5), "{wrong}");
        decided.assignment.levels = vec![0, 1];
        let wrong = parse(Path::new(FILE), &decided.to_toml()).unwrap_err();
        assert_eq!((wrong.key.as_str(), wrong.line), ("level", 25), "{wrong}");
        // What streams below keeps its chunks.
        decided.assignment.levels = vec![1, 0];
        let cost = &mut decided.set.tasks[1].cost;
        (cost.room, cost.weights, cost.streams) =
            (cost.weights.clone(), Swappable::default(), true);
        let wrong = parse(Path::new(FILE), &decided.to_toml()).unwrap_err();
        assert_eq!((wrong.key.as_str(), wrong.line), ("chunks", 23), "{wrong}");
        assert!(wrong.to_string().contains("7 chunks are needed at once, and the pool has 4"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let text = decided().to_toml();
        let without = text.replace("pool = 4\n", "");
        let wrong = parse(Path::new(FILE), &without).unwrap_err();
        assert_eq!(wrong.key, "pool", "{wrong}");
        let none = text.split("[[task]]").next().unwrap();
        let wrong = parse(Path::new(FILE), none).unwrap_err();
        assert_eq!(wrong.key, "task", "{wrong}");
    }
}
