//! `taskset.toml`: read strictly, with errors that name file, line, key and reason.
//!
//! ```toml
//! memory = "843MB"
//! chunks = ["4MB"]                  # chunk sizes to choose from
//!
//! [storage]
//! read = "450MB/s"
//! per_read = "80us"
//! # write = "300MB/s"               # only if leaving memory must write
//!
//! [[task]]
//! name = "camera"
//! period = "100ms"
//! deadline = "80ms"                 # the period, where it is left out
//! jitter = "2ms"
//! instances = 2
//! compute = "20ms"                  # a table of costs, or:
//! step = "2ms"                      # pack = "camera.pack", or:
//! bytes = "120MB"                   # measured = "camera.json", or:
//! swappable = "100MB"               # model = "camera.onnx", with or without:
//! # budgets = ["12MiB", "48MiB"]    # what to plan the model for
//! # streams = true                  # steps read weights: swappable bytes are room only
//! ```

use super::error::{Reason, SetError};
use super::units::{bytes, bytes_per_second, time_ns};
use super::{Cost, Storage, Swappable, Task, TaskSet, Transfer};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Tasks of a set at most, with all instances.
pub const MOST_TASKS: u64 = 10_000;

/// Where a task's costs come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A pack's plan, by simulation.
    Pack(PathBuf),
    /// Measured runs, as `eyelet run --json` prints them.
    Measured(PathBuf),
    /// A model, planned for these budgets, or for some from the smallest to all that it needs.
    Model { path: PathBuf, budgets: Vec<u64> },
}

/// Finds what a task without a table may cost, on the board that the set names: a cost for each plan, at least one.
pub type Costs<'a> = dyn FnMut(&Source, Option<&str>) -> Result<Vec<Cost>, String> + 'a;

/// A set as its file gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    pub set: TaskSet,
    /// What each task may cost: a cost for each of its plans, the largest first. The set has the first of them that fits
    /// its memory.
    pub plans: Vec<Vec<Cost>>,
    /// Where each task's costs come from; `None` for those of a table.
    pub sources: Vec<Option<Source>>,
    /// Chunk sizes to choose from.
    pub chunk_sizes: Vec<u64>,
    /// The board for which models are planned.
    pub board: Option<String>,
}

impl Declared {
    /// The set in another memory, with the largest plans that fit it.
    #[must_use]
    pub fn in_memory(&self, memory_bytes: u64) -> Self {
        let mut other = self.clone();
        other.set.memory_bytes = memory_bytes;
        for (task, plans) in other.set.tasks.iter_mut().zip(&self.plans) {
            task.cost = largest_within(plans, memory_bytes).unwrap_or_else(|| task.cost.clone());
        }
        other
    }

    /// The set with some of its tasks only.
    #[must_use]
    pub fn only(&self, keep: impl Fn(usize) -> bool) -> Self {
        let mut other = self.clone();
        let mut at = 0..;
        let mut kept = || at.next().is_some_and(&keep);
        other.set.tasks.retain(|_| kept());
        let of = |k: &usize| keep(*k);
        other.plans = (0..self.plans.len()).filter(of).map(|k| self.plans[k].clone()).collect();
        other.sources = (0..self.plans.len()).filter(of).map(|k| self.sources[k].clone()).collect();
        other
    }
}

/// The first of some plans, the largest of which comes first, that fits a memory.
fn largest_within(plans: &[Cost], memory_bytes: u64) -> Option<Cost> {
    plans.iter().find(|cost| cost.bytes <= memory_bytes).cloned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    memory: Spanned<String>,
    board: Option<String>,
    chunks: Option<Spanned<Vec<Spanned<String>>>>,
    storage: StorageTable,
    #[serde(default)]
    task: Vec<Spanned<TaskTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StorageTable {
    read: Spanned<String>,
    per_read: Option<Spanned<String>>,
    write: Option<Spanned<String>>,
    per_write: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskTable {
    name: Spanned<String>,
    period: Spanned<String>,
    deadline: Option<Spanned<String>>,
    jitter: Option<Spanned<String>>,
    instances: Option<Spanned<u64>>,
    compute: Option<Spanned<String>>,
    step: Option<Spanned<String>>,
    bytes: Option<Spanned<String>>,
    swappable: Option<Spanned<String>>,
    room: Option<Spanned<String>>,
    streams: Option<bool>,
    pack: Option<Spanned<PathBuf>>,
    measured: Option<Spanned<PathBuf>>,
    model: Option<Spanned<PathBuf>>,
    budgets: Option<Vec<Spanned<String>>>,
}

/// Reads a set. `costs` finds the costs of tasks that have no table; paths are relative to the file.
pub fn parse(file: &Path, text: &str, costs: &mut Costs<'_>) -> Result<Declared, SetError> {
    let reader = Reader { file, text };
    let read: File = reader.whole()?;
    let memory_bytes = reader.positive(&read.memory, bytes)?;
    let chunk_sizes = match &read.chunks {
        None => DEFAULT_CHUNKS.to_vec(),
        Some(sizes) if sizes.get_ref().is_empty() => {
            return Err(reader.at(sizes, Reason::NoChunkSize));
        }
        Some(sizes) => {
            let sizes = sizes.get_ref().iter();
            let read = sizes.clone().map(|size| reader.positive(size, bytes));
            let read = read.collect::<Result<Vec<_>, _>>()?;
            if let Some((at, &chunk)) = sizes.zip(&read).min_by_key(|(_, bytes)| **bytes)
                && chunk > memory_bytes
            {
                let reason = Reason::ChunkBeyondMemory { chunk, memory: memory_bytes };
                return Err(reader.at(at, reason));
            }
            read
        }
    };
    let storage =
        reader.storage(&read.storage, chunk_sizes.first().copied().unwrap_or(DEFAULT_CHUNKS[0]))?;
    let mut tasks: Vec<Task> = Vec::new();
    let (mut plans, mut sources) = (Vec::new(), Vec::new());
    let mut names = HashSet::new();
    for table in &read.task {
        let (task, its, source) =
            reader.task(table.get_ref(), memory_bytes, read.board.as_deref(), costs)?;
        reader.add(&mut tasks, &mut names, task, table)?;
        plans.resize(tasks.len(), its);
        sources.resize(tasks.len(), source);
    }
    if tasks.is_empty() {
        return Err(reader.error(0, Reason::Tasks { tasks: 0, most: MOST_TASKS }));
    }
    let set = TaskSet { memory_bytes, page_bytes: 0, storage, tasks };
    Ok(Declared { set, plans, sources, chunk_sizes, board: read.board })
}

/// What a set's file names. Nothing of it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Tasks, with all instances.
    pub tasks: Vec<String>,
    /// Each once for each entry that it is of.
    pub sources: Vec<Source>,
    pub board: Option<String>,
}

/// Finds what a set names.
pub fn named(file: &Path, text: &str) -> Result<Named, SetError> {
    let (compute_ns, step_ns) = (1, 1);
    let (weights, room) = Default::default();
    let nothing = Cost { compute_ns, step_ns, bytes: 1, weights, room, streams: false };
    let mut sources = Vec::new();
    let mut cost = |source: &Source, _: Option<&str>| {
        sources.push(source.clone());
        Ok(vec![nothing.clone()])
    };
    let Declared { set, board, .. } = parse(file, text, &mut cost)?;
    Ok(Named { tasks: set.tasks.into_iter().map(|task| task.name).collect(), sources, board })
}

/// Chunk sizes that are tried where the file names none.
const DEFAULT_CHUNKS: [u64; 6] = [4 << 20, 1 << 20, 16 << 20, 256 << 10, 64 << 20, 64 << 10];

/// What is wrong with a text, with the range of a whole number in words.
fn plain(message: &str) -> String {
    let number = message
        .split('`')
        .nth(1)
        .filter(|_| message.contains("integer `") && message.ends_with("expected u64"));
    match number {
        Some(number) => {
            format!("{number} is out of range: give a whole number from 0 to {}", u32::MAX)
        }
        None => message.to_owned(),
    }
}

/// The file, for errors that say where.
struct Reader<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    /// The whole text as a table.
    fn whole<T: DeserializeOwned>(&self) -> Result<T, SetError> {
        toml::from_str(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.error(at, Reason::Syntax(plain(error.message())))
        })
    }

    fn error(&self, at: usize, reason: Reason) -> SetError {
        let before = self.text.get(..at).unwrap_or_default();
        let line = before.matches('\n').count();
        let content = self.text.lines().nth(line).unwrap_or_default();
        let key = match &reason {
            // What is missing stands in no line.
            Reason::Syntax(error) if error.starts_with("missing field") => {
                error.split('`').nth(1).unwrap_or_default()
            }
            Reason::Tasks { .. } if at == 0 => "task",
            _ => content.split('=').next().unwrap_or_default().trim(),
        };
        let key = key.to_owned();
        SetError { file: self.file.to_owned(), line: line + 1, key, reason }
    }

    fn at<T>(&self, value: &Spanned<T>, reason: Reason) -> SetError {
        self.error(value.span().start, reason)
    }

    fn read(
        &self,
        value: &Spanned<String>,
        parse: fn(&str) -> Result<u64, String>,
    ) -> Result<u64, SetError> {
        parse(value.get_ref()).map_err(|error| self.at(value, Reason::Quantity(error)))
    }

    fn positive(
        &self,
        value: &Spanned<String>,
        parse: fn(&str) -> Result<u64, String>,
    ) -> Result<u64, SetError> {
        match self.read(value, parse)? {
            0 => Err(self.at(value, Reason::Zero)),
            found => Ok(found),
        }
    }

    /// A time within the range in which sums do not overflow.
    fn time(&self, value: &Spanned<String>) -> Result<u64, SetError> {
        self.positive(value, time_ns)
    }

    /// A task's name, which has letters: packs are called by it.
    fn name(&self, value: &Spanned<String>) -> Result<String, SetError> {
        match value.get_ref().trim().is_empty() {
            true => Err(self.at(value, Reason::NoName)),
            false => Ok(value.get_ref().clone()),
        }
    }

    fn storage(&self, table: &StorageTable, chunk_bytes: u64) -> Result<Storage, SetError> {
        let transfer = |rate: &Spanned<String>, per: Option<&Spanned<String>>| {
            let per_chunk_ns = per.map_or(Ok(0), |per| self.read(per, time_ns))?;
            Ok(Transfer { per_chunk_ns, bytes_per_second: self.read(rate, bytes_per_second)? })
        };
        let read = transfer(&table.read, table.per_read.as_ref())?;
        let write = table
            .write
            .as_ref()
            .map(|rate| transfer(rate, table.per_write.as_ref()))
            .transpose()?;
        Ok(Storage { chunk_bytes, read, write })
    }

    fn task(
        &self,
        table: &TaskTable,
        memory: u64,
        board: Option<&str>,
        costs: &mut Costs<'_>,
    ) -> Result<(Task, Vec<Cost>, Option<Source>), SetError> {
        let period_ns = self.time(&table.period)?;
        let deadline_ns =
            table.deadline.as_ref().map_or(Ok(period_ns), |value| self.time(value))?;
        if let Some(value) = table.deadline.as_ref().filter(|_| deadline_ns > period_ns) {
            return Err(self.at(value, Reason::DeadlineBeyondPeriod { deadline_ns, period_ns }));
        }
        let jitter_ns = table.jitter.as_ref().map_or(Ok(0), |value| self.read(value, time_ns))?;
        if let Some(value) = table.jitter.as_ref().filter(|_| jitter_ns >= deadline_ns) {
            return Err(self.at(value, Reason::JitterBeyondDeadline { jitter_ns, deadline_ns }));
        }
        let name = self.name(&table.name)?;
        let (mut plans, source) = self.costs(table, board, costs)?;
        plans.sort_by_key(|cost| std::cmp::Reverse(cost.bytes));
        let Some(cost) = largest_within(&plans, memory) else {
            let at = table.bytes.as_ref().unwrap_or(&table.name);
            let bytes = plans.last().map_or(0, |cost| cost.bytes);
            return Err(self.at(at, Reason::AloneTooLarge { bytes, memory }));
        };
        let task = Task { name, period_ns, deadline_ns, jitter_ns, cost };
        Ok((task, plans, source))
    }

    fn costs(
        &self,
        table: &TaskTable,
        board: Option<&str>,
        costs: &mut Costs<'_>,
    ) -> Result<(Vec<Cost>, Option<Source>), SetError> {
        let budgets = table.budgets.iter().flatten().map(|size| self.positive(size, bytes));
        let budgets = budgets.collect::<Result<Vec<_>, _>>()?;
        if let Some(first) = table.budgets.iter().flatten().next().filter(|_| table.model.is_none())
        {
            return Err(self.at(first, Reason::BudgetsWithoutModel));
        }
        let model = |path| Source::Model { path, budgets: budgets.clone() };
        let files: [(_, &dyn Fn(PathBuf) -> Source); 3] = [
            (&table.pack, &Source::Pack),
            (&table.measured, &Source::Measured),
            (&table.model, &model),
        ];
        let given: Vec<_> = files
            .iter()
            .filter_map(|(path, source)| path.as_ref().map(|path| (path, source)))
            .collect();
        let in_table = [&table.compute, &table.step, &table.bytes, &table.swappable]
            .into_iter()
            .any(Option::is_some);
        match (given.as_slice(), in_table, &table.compute, &table.bytes) {
            ([(path, source)], false, ..) => {
                let folder = self.file.parent().unwrap_or(Path::new(""));
                let full = folder.join(path.get_ref());
                let source = source(full.clone());
                let found = costs(&source, board)
                    .map_err(|error| self.at(path, Reason::Cost { path: full, error }))?;
                Ok((found, Some(source)))
            }
            ([], true, Some(compute), Some(size)) => {
                self.table(table, compute, size).map(|cost| (vec![cost], None))
            }
            _ => {
                let given = given.len() + usize::from(in_table);
                Err(self.at(&table.name, Reason::Source { given }))
            }
        }
    }

    fn table(
        &self,
        table: &TaskTable,
        compute: &Spanned<String>,
        size: &Spanned<String>,
    ) -> Result<Cost, SetError> {
        let compute_ns = self.time(compute)?;
        let step_ns = table.step.as_ref().map_or(Ok(compute_ns), |value| self.time(value))?;
        if let Some(value) = table.step.as_ref().filter(|_| step_ns > compute_ns) {
            return Err(self.at(value, Reason::StepBeyondComputing { step_ns, compute_ns }));
        }
        let all = self.positive(size, bytes)?;
        let optional = |value: &Option<Spanned<String>>| {
            value.as_ref().map_or(Ok(0), |value| self.read(value, bytes))
        };
        let (weights, room) = (optional(&table.swappable)?, optional(&table.room)?);
        let swappable = weights.saturating_add(room);
        let at = table.room.as_ref().or(table.swappable.as_ref());
        if let Some(value) = at.filter(|_| swappable > all) {
            return Err(self.at(value, Reason::SwappableBeyondBytes { swappable, bytes: all }));
        }
        let streams = table.streams.unwrap_or(false);
        // What streams swaps nothing but room.
        let (weights, room) = if streams { (0, swappable) } else { (weights, room) };
        let (weights, room) = (Swappable::of(weights), Swappable::of(room));
        Ok(Cost { compute_ns, step_ns, bytes: all, weights, room, streams })
    }

    /// Adds the task's instances.
    fn add(
        &self,
        tasks: &mut Vec<Task>,
        names: &mut HashSet<String>,
        task: Task,
        table: &Spanned<TaskTable>,
    ) -> Result<(), SetError> {
        let at = &table.get_ref().name;
        let given = table.get_ref().instances.as_ref();
        let instances = given.map_or(1, |value| *value.get_ref());
        let all = instances.saturating_add(tasks.len() as u64);
        if instances == 0 || all > MOST_TASKS {
            let start = given.map_or(at.span().start, |value| value.span().start);
            return Err(self.error(start, Reason::Tasks { tasks: all, most: MOST_TASKS }));
        }
        for n in 1..=instances {
            let name =
                if instances == 1 { task.name.clone() } else { format!("{} {n}", task.name) };
            if !names.insert(name.clone()) {
                return Err(self.at(at, Reason::Name { name }));
            }
            tasks.push(Task { name, ..task.clone() });
        }
        Ok(())
    }
}
