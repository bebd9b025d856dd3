//! A set in one file, `FILE.pack`: packs, and the table of their tasks.

use super::Error;
use super::error::SetsError;
pub use super::error::is_set_file;
use super::pack_file::PackFile;
use bytemuck::{cast_slice, cast_slice_mut};
use eyelet::pack::PAGE;
use eyelet::set::{MAX_TASKS, SetFile, SetFileError};
use eyelet_planner::import::import;
use eyelet_planner::open::open;
use eyelet_planner::replace::replace;
use eyelet_planner::size;
use eyelet_tasks::set::decided::{Decided, Pack, Place, order};
use eyelet_tasks::set::packed::{self, table, table_bytes};
use eyelet_tasks::set::units::human_ns;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Refuses to replace a file that is there and is no set.
pub fn check_replaced(option: &'static str, path: &Path) -> Result<(), Error> {
    let Some(found) = path.metadata().ok().filter(|found| found.is_file()) else { return Ok(()) };
    let what = match found.len() {
        0 => "an empty file",
        _ if is_set_file(path) => return Ok(()),
        _ if PackFile::open(path).is_ok() => "a network's pack",
        _ if import(path).is_ok() => "a model",
        _ => "another file",
    };
    Err(SetsError::NoSet { option, path: path.to_owned(), what }.into())
}

/// Writes a set, whose packs are files, to one file. Returns its bytes.
pub fn write(decided: &Decided, to: &Path) -> Result<u64, Error> {
    decided.check().map_err(|wrong| Error::Internal(format!("the set: {wrong}")))?;
    let (tasks, most) = (decided.set.tasks.len(), MAX_TASKS);
    let many = || SetsError::TooMany { path: to.to_owned(), tasks, most };
    let mut end = table_bytes(decided).ok_or_else(many)?;
    let mut places: BTreeMap<&Path, Place> = BTreeMap::new();
    for planned in &decided.packs {
        let path = planned.pack.path.as_path();
        if places.contains_key(path) {
            continue;
        }
        let unreadable = |source| Error::Read { path: path.to_owned(), source };
        let bytes = path.metadata().map_err(unreadable)?.len();
        places.insert(path, Place { offset: end, bytes });
        end += bytes.next_multiple_of(PAGE);
    }
    let of_tasks: Vec<Place> =
        decided.packs.iter().map(|planned| places[planned.pack.path.as_path()]).collect();
    let head = table(decided, &of_tasks, end).ok_or_else(many)?;
    replace(to, |into| {
        into.write_all(&head)?;
        let mut in_order: Vec<_> = places.iter().collect();
        in_order.sort_by_key(|(_, place)| place.offset);
        for (path, place) in in_order {
            let copied = io::copy(&mut open(path)?, into)?;
            if copied != place.bytes {
                return Err(io::Error::other("a pack has changed meanwhile"));
            }
            let rest = place.bytes.next_multiple_of(PAGE) - place.bytes;
            io::copy(&mut io::repeat(0).take(rest), into)?;
        }
        Ok(())
    })
    .map_err(|source| Error::Write { path: to.to_owned(), source })?;
    Ok(end)
}

/// Reads the front of a file.
fn read_front(file: &mut File, words: &mut [u64]) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    file.read_exact(cast_slice_mut(words))
}

/// Reads what a set's file says of its tasks.
pub fn read(path: &Path) -> Result<Decided, Error> {
    let unreadable = |source| Error::Read { path: path.to_owned(), source };
    let refused = |source| SetsError::File { path: path.to_owned(), source };
    let mut file = open(path).map_err(unreadable)?;
    let size = file.seek(SeekFrom::End(0)).map_err(unreadable)?;
    if size < PAGE {
        return Err(refused(SetFileError::Size { found: size, expected: PAGE }).into());
    }
    // In words, since the table's records are aligned.
    let mut words = vec![0u64; PAGE as usize / 8];
    read_front(&mut file, &mut words).map_err(unreadable)?;
    let bytes = SetFile::table_bytes(cast_slice(&words), size).map_err(refused)?;
    words.resize(bytes / 8, 0);
    read_front(&mut file, &mut words).map_err(unreadable)?;
    let set = SetFile::view(cast_slice(&words), size).map_err(refused)?;
    let decided = packed::decided(path, &set);
    match decided.check() {
        Ok(()) => Ok(decided),
        Err(wrong) => Err(SetsError::Decided { path: path.to_owned(), wrong }.into()),
    }
}

/// What is in a set's file, and a report of each of its packs.
#[derive(Debug, Serialize)]
pub struct Report<R> {
    file: PathBuf,
    memory_bytes: u64,
    chunk_bytes: u64,
    pool_chunks: u32,
    order: &'static str,
    tasks: Vec<Row>,
    packs: Vec<R>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    pack: PathBuf,
    budget_bytes: u64,
    bytes: u64,
    chunks: u32,
    level: u16,
    period_ns: u64,
    deadline_ns: u64,
    compute_ns: u64,
    streams: bool,
}

impl<R> Report<R> {
    /// Of a file. `of` reports a pack.
    pub fn new(
        path: &Path,
        decided: &Decided,
        mut of: impl FnMut(PackFile) -> Result<R, Error>,
    ) -> Result<Self, Error> {
        let Decided { set, assignment, packs } = decided;
        let row = |k: usize| {
            let task = &set.tasks[k];
            Row {
                name: task.name.clone(),
                pack: packs[k].pack.name(),
                budget_bytes: packs[k].budget,
                bytes: task.cost.bytes,
                chunks: assignment.chunks[k],
                level: assignment.levels[k],
                period_ns: task.period_ns,
                deadline_ns: task.deadline_ns,
                compute_ns: task.cost.compute_ns,
                streams: task.cost.streams,
            }
        };
        let mut each: Vec<&Pack> = packs.iter().map(|planned| &planned.pack).collect();
        each.sort();
        each.dedup();
        let reports = each.into_iter().map(PackFile::part).map(|pack| pack.and_then(&mut of));
        Ok(Self {
            file: path.to_owned(),
            memory_bytes: set.memory_bytes,
            chunk_bytes: assignment.chunk_bytes,
            pool_chunks: decided.pool(),
            order: order(assignment.policy),
            tasks: (0..set.tasks.len()).map(row).collect(),
            packs: reports.collect::<Result<_, _>>()?,
        })
    }
}

impl<R: fmt::Display> fmt::Display for Report<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: a set of {} in {}, {} chunks of {} are shared, jobs by {}",
            self.file.display(),
            self.tasks.len(),
            size::human(self.memory_bytes),
            self.pool_chunks,
            size::human(self.chunk_bytes),
            self.order
        )?;
        for row in &self.tasks {
            writeln!(
                f,
                "  {}: every {}, due after {}, computes {}, {} in memory, {} chunks leave it, level {}{}; {}",
                row.name,
                human_ns(row.period_ns),
                human_ns(row.deadline_ns),
                human_ns(row.compute_ns),
                size::human(row.bytes),
                row.chunks,
                row.level,
                if row.streams { ", streams" } else { "" },
                row.pack.display()
            )?;
        }
        self.packs.iter().try_for_each(|pack| write!(f, "\n{pack}"))
    }
}
