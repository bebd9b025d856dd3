//! A set in one file, `FILE.pack`: packs, and the table of their tasks. The folder that `eyelet schedule -o` writes, and
//! this file, hold the same.

use super::Error;
pub use super::error::is_set_file;
use bytemuck::{cast_slice, cast_slice_mut};
use eyelet::pack::PAGE;
use eyelet::set::{SetFile, SetFileError};
use eyelet_planner::leftovers::Scratch;
use eyelet_planner::open::{open, read_to_string};
use eyelet_planner::replace::{folder_of, replace};
use eyelet_planner::size;
use eyelet_tasks::set::decided::{self, Decided, FILE};
use eyelet_tasks::set::packed::{self, Place, table, table_bytes};
use eyelet_tasks::set::units::human_ns;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Whether a path that is written to names one file, and not a folder.
pub fn names_file(path: &Path) -> bool {
    !path.is_dir() && path.extension().is_some_and(|extension| extension == "pack")
}

/// Writes a folder's set to one file. Returns its bytes.
pub fn write(folder: &Path, to: &Path) -> Result<u64, Error> {
    let file = folder.join(FILE);
    let text =
        read_to_string(&file).map_err(|source| Error::Read { path: file.clone(), source })?;
    let decided = decided::parse(&file, &text).map_err(Box::new)?;
    let many = || {
        let reason = "a set in one file has at most 64 tasks: give a folder".to_owned();
        Error::Serve { path: to.to_owned(), reason }
    };
    let mut end = table_bytes(&decided).ok_or_else(many)?;
    let mut places: BTreeMap<&Path, Place> = BTreeMap::new();
    for planned in &decided.packs {
        let path = planned.path.as_path();
        if places.contains_key(path) {
            continue;
        }
        let unreadable = |source| Error::Read { path: path.to_owned(), source };
        let bytes = path.metadata().map_err(unreadable)?.len();
        places.insert(path, Place { offset: end, bytes });
        end += bytes.next_multiple_of(PAGE);
    }
    let of_tasks: Vec<Place> =
        decided.packs.iter().map(|planned| places[planned.path.as_path()]).collect();
    let head = table(&decided, &of_tasks, end).ok_or_else(many)?;
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

/// A set's file in a folder of its own, which is removed in the end.
pub struct Unpacked {
    folder: Scratch,
    pub decided: Decided,
}

impl Unpacked {
    /// Unpacks a set's file next to it.
    pub fn of(path: &Path) -> Result<Self, Error> {
        let unreadable = |source| Error::Read { path: path.to_owned(), source };
        let refused = |source| Error::SetFile { path: path.to_owned(), source };
        let mut file = open(path).map_err(unreadable)?;
        let size = file.seek(SeekFrom::End(0)).map_err(unreadable)?;
        if size < PAGE {
            return Err(refused(SetFileError::Size { found: size, expected: PAGE }));
        }
        // In words, since the table's records are aligned.
        let mut words = vec![0u64; PAGE as usize / 8];
        read_front(&mut file, &mut words).map_err(unreadable)?;
        let bytes = SetFile::table_bytes(cast_slice(&words), size).map_err(refused)?;
        words.resize(bytes / 8, 0);
        read_front(&mut file, &mut words).map_err(unreadable)?;
        let set = SetFile::view(cast_slice(&words), size).map_err(refused)?;
        let near = folder_of(path);
        let unwritable = |source| Error::Write { path: near.to_owned(), source };
        let folder = Scratch::folder(near).map_err(unwritable)?;
        let name = |offset: u64| PathBuf::from(format!("{offset}.pack"));
        for entry in set.tasks() {
            let to = folder.path().join(name(entry.pack_offset));
            if !to.exists() {
                file.seek(SeekFrom::Start(entry.pack_offset)).map_err(unreadable)?;
                let mut pack = (&mut file).take(entry.pack_bytes);
                replace(&to, |into| io::copy(&mut pack, into).map(drop)).map_err(unwritable)?;
            }
        }
        let relative = packed::decided(&set, |entry| name(entry.pack_offset));
        let text = relative.to_toml();
        // Names, times and memory, as of a set that one has written by hand.
        decided::parse(path, &text).map_err(Box::new)?;
        replace(&folder.path().join(FILE), |into| into.write_all(text.as_bytes()))
            .map_err(unwritable)?;
        let decided = packed::decided(&set, |entry| folder.path().join(name(entry.pack_offset)));
        Ok(Self { folder, decided })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
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
    /// Of a file. `of` reports a pack that lies at a path for a while, and is called something else.
    pub fn new(
        path: &Path,
        mut of: impl FnMut(&Path, PathBuf) -> Result<R, Error>,
    ) -> Result<Self, Error> {
        let unpacked = Unpacked::of(path)?;
        let Decided { set, assignment, packs } = &unpacked.decided;
        let label = |pack: &Path| {
            let offset = pack.file_stem().unwrap_or_default().to_string_lossy();
            PathBuf::from(format!("{}:{offset}", path.display()))
        };
        let row = |k: usize| {
            let task = &set.tasks[k];
            Row {
                name: task.name.clone(),
                pack: label(&packs[k].path),
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
        let mut paths: Vec<&PathBuf> = packs.iter().map(|planned| &planned.path).collect();
        paths.sort();
        paths.dedup();
        let reports = paths.into_iter().map(|pack| of(pack, label(pack)));
        Ok(Self {
            file: path.to_owned(),
            memory_bytes: set.memory_bytes,
            chunk_bytes: assignment.chunk_bytes,
            pool_chunks: unpacked.decided.pool(),
            order: decided::order(assignment.policy),
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
