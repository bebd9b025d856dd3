//! A folder with everything that a set needs to run: packs, and what was decided.
//!
//! It is made next to its place, and moved there when it is complete. If the folder is there already, the new one is made
//! in it, and replaces an earlier one's files one by one, the set last.

use super::costs::Model;
use super::plans::Plans;
use crate::cli::Error;
use crate::cli::error::SetsError;
use crate::cli::files::Files;
use crate::cli::output::Output;
use crate::cli::pack_file::PackFile;
use crate::cli::plan::{Forms, forget, pack};
use crate::cli::run::stems;
use crate::cli::set_file;
use eyelet::pack::{PAGE, PlanEntry};
use eyelet_planner::leftovers::Scratch;
use eyelet_planner::open::{LIST, open, read_to_string};
use eyelet_planner::replace::{folder_of, replace};
use eyelet_planner::search::PackRequest;
use eyelet_planner::write::WriteError;
use eyelet_tasks::schedule::Schedule;
use eyelet_tasks::set::decided::{Decided, FILE, Planned, is_decided};
use eyelet_tasks::set::file::{Declared, Source, named};
use eyelet_tasks::set::{Assignment, Task};
use serde::Serialize;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What was written.
#[derive(Debug, Serialize)]
pub struct Written {
    pub folder: PathBuf,
    pub packs: usize,
    pub bytes: u64,
}

/// Longest name of a pack, without its extension.
const LONGEST_NAME: usize = 64;

/// The set's file, to name it in errors.
pub struct Set<'a> {
    pub file: &'a Path,
    pub declared: &'a Declared,
    pub plans: &'a Plans,
}

/// Makes a set one of a device, on which memory comes in pages: chunks of other sizes are refused.
pub fn for_device(file: &Path, declared: &mut Declared) -> Result<(), Error> {
    declared.set.page_bytes = PAGE;
    match declared.chunk_sizes.iter().find(|bytes| !bytes.is_multiple_of(PAGE)) {
        Some(&chunk) => {
            Err(SetsError::ChunkOfPages { path: file.to_owned(), chunk, page: PAGE }.into())
        }
        None => Ok(()),
    }
}

/// Refuses a folder in which a source of the set would be replaced, or what is not an earlier schedule.
pub fn check(folder: &Path, file: &Path, text: &str, files: Files) -> Result<(), Error> {
    let Ok(found) = folder.metadata() else {
        return files.writes("-o", [&folder.to_owned()]).check();
    };
    if !found.is_dir() {
        let source = io::Error::from_raw_os_error(libc::ENOTDIR);
        return Err(Error::Write { path: folder.to_owned(), source });
    }
    // What is wrong with a set is said by who reads it.
    let tasks = named(file, text).map(|named| named.tasks).unwrap_or_default();
    let names: Vec<&str> = tasks.iter().map(String::as_str).collect();
    let packs = stems(&names, LONGEST_NAME).into_iter().map(|stem| folder.join(stem + ".pack"));
    let set = folder.join(FILE);
    let outputs: Vec<PathBuf> = packs.chain([set.clone()]).collect();
    files.writes_packs("-o", &outputs).check()?;
    let earlier = earlier(&set);
    let ours = |path: &PathBuf| earlier.as_ref().is_some_and(|ours| ours.contains(path));
    let foreign = |path: &PathBuf| path.symlink_metadata().is_ok() && !ours(path);
    match outputs.into_iter().find(foreign) {
        Some(path) => Err(SetsError::Foreign { path, folder: folder.to_owned() }.into()),
        None => Ok(()),
    }
}

/// What an earlier schedule wrote in a set's folder: its file, and the packs that this names. `None` without one.
fn earlier(set: &Path) -> Option<Vec<PathBuf>> {
    let text = read_to_string(set, LIST).ok().filter(|text| is_decided(set, text))?;
    let mut written = vec![set.to_owned()];
    // The file may have been edited since.
    let table = text.parse::<toml::Table>().unwrap_or_default();
    let tasks = table.get("task").and_then(toml::Value::as_array).into_iter().flatten();
    let packs = tasks.filter_map(|task| task.get("pack")?.as_str());
    written.extend(packs.map(|pack| folder_of(set).join(pack)));
    Some(written)
}

/// Writes an admitted set.
pub fn write(
    folder: &Path,
    set: &Set<'_>,
    schedule: &Schedule,
    assignment: &Assignment,
    output: Output,
) -> Result<Written, Error> {
    let failed = |source| Error::Write { path: folder.to_owned(), source };
    // A folder that is there may be on a file system of its own, to which nothing can be moved from others.
    let near = if folder.is_dir() { folder } else { folder_of(folder) };
    let scratch = Scratch::folder(near).map_err(failed)?;
    let tasks = &schedule.set.tasks;
    let names: Vec<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
    let stems = stems(&names, LONGEST_NAME);
    let mut made: Vec<(&Source, Planned)> = Vec::new();
    let mut packs = Vec::new();
    for ((task, source), stem) in tasks.iter().zip(&set.declared.sources).zip(stems) {
        let (source, budget) = set.plan(task, source.as_ref())?;
        let known =
            made.iter().find(|(known, planned)| *known == source && planned.budget == budget);
        let planned = match known {
            Some((_, planned)) => planned.clone(),
            None => {
                let path = PathBuf::from(stem + ".pack");
                let wrote = set.write_pack(&scratch.path().join(&path), source, budget, output);
                wrote.map_err(|error| in_place(error, folder))?;
                let planned = Planned { pack: path.into(), budget };
                made.push((source, planned.clone()));
                planned
            }
        };
        let path = scratch.path().join(&planned.pack.path);
        verify(&path, &planned, task, assignment.chunk_bytes)?;
        forget(&path);
        packs.push(planned);
    }
    let decided = Decided { set: schedule.set.clone(), assignment: assignment.clone(), packs };
    let text = decided.to_toml();
    replace(&scratch.path().join(FILE), |file| file.write_all(text.as_bytes())).map_err(failed)?;
    let files: Vec<PathBuf> = made.into_iter().map(|(_, planned)| planned.pack.path).collect();
    let bytes = files.iter().filter_map(|name| fs::metadata(scratch.path().join(name)).ok());
    let bytes = bytes.map(|found| found.len()).sum();
    let packs = files.len();
    install(scratch, folder, files).map_err(failed)?;
    Ok(Written { folder: folder.to_owned(), packs, bytes })
}

/// Writes an admitted set to one file.
pub fn write_file(
    to: &Path,
    set: &Set<'_>,
    schedule: &Schedule,
    assignment: &Assignment,
    output: Output,
) -> Result<Written, Error> {
    let near = folder_of(to);
    let failed = |source| Error::Write { path: near.to_owned(), source };
    let scratch = Scratch::folder(near).map_err(failed)?;
    let written = write(scratch.path(), set, schedule, assignment, output);
    let written = written.map_err(|error| match error {
        Error::Write { source, .. } => Error::Write { path: to.to_owned(), source },
        error => error,
    })?;
    let bytes = set_file::write(scratch.path(), to)?;
    Ok(Written { folder: to.to_owned(), packs: written.packs, bytes })
}

impl Set<'_> {
    /// The source of a task's plan, and its budget.
    fn plan<'s>(
        &self,
        task: &Task,
        source: Option<&'s Source>,
    ) -> Result<(&'s Source, u64), Error> {
        let nothing =
            || SetsError::NothingToRun { path: self.file.to_owned(), task: task.name.clone() };
        match source.ok_or_else(nothing)? {
            Source::Measured(_) => Err(nothing().into()),
            source => {
                let unknown = || Error::Internal(format!("no plan of {} costs so much", task.name));
                Ok((source, self.plans.budget(source, &task.cost).ok_or_else(unknown)?))
            }
        }
    }

    /// Plans a model, or copies a pack.
    fn write_pack(
        &self,
        to: &Path,
        source: &Source,
        budget: u64,
        output: Output,
    ) -> Result<(), Error> {
        match source {
            Source::Model { path, .. } => {
                let Model { graph, request } =
                    Model::read(path, self.plans.place(self.declared.board.as_deref()))?;
                let request = PackRequest { budgets: vec![budget], ..request };
                let graph = Forms::new(&request, path, &graph, budget)?.of_budget(budget);
                pack(&request, path, &[(String::new(), graph)], to, output)?;
            }
            Source::Pack(path) | Source::Measured(path) => {
                let read = |source| Error::Read { path: path.clone(), source };
                let mut from = open(path).map_err(read)?;
                replace(to, |file| std::io::copy(&mut from, file).map(drop))
                    .map_err(|source| Error::Write { path: to.to_owned(), source })?;
            }
        }
        Ok(())
    }
}

/// Refuses a pack that does not hold what was decided: the plan, and as many chunks of it as the device finds.
fn verify(path: &Path, planned: &Planned, task: &Task, chunk_bytes: u64) -> Result<(), Error> {
    let pack = PackFile::open(path)?;
    let bytes = task.cost.bytes;
    let wanted = |entry: &&PlanEntry| entry.budget == planned.budget && entry.arena_bytes == bytes;
    let Some(entry) = pack.entries.iter().find(wanted) else {
        return Err(Error::Internal(format!(
            "the pack of {} has no plan of {bytes} bytes for a budget of {}",
            task.name, planned.budget
        )));
    };
    let (has, promised) =
        (pack.prove(entry)?.chunks(chunk_bytes, PAGE), task.cost.chunks(chunk_bytes));
    match has == promised {
        true => Ok(()),
        false => Err(Error::Internal(format!(
            "the plan of {} has {has} chunks of {chunk_bytes} bytes, {promised} were counted",
            task.name
        ))),
    }
}

/// An error of writing a file that is not in its place yet, with that place.
fn in_place(error: Error, folder: &Path) -> Error {
    let at = |path: &Path| folder.join(path.file_name().unwrap_or_default());
    match error {
        Error::Write { path, source } => Error::Write { path: at(&path), source },
        Error::WritePack(WriteError::Io { path, error }) => {
            Error::Write { path: at(&path), source: error }
        }
        error => error,
    }
}

/// Moves a folder to its place, or its files into what is there: the set last.
fn install(scratch: Scratch, folder: &Path, packs: Vec<PathBuf>) -> std::io::Result<()> {
    if !folder.exists() {
        return scratch.persist(folder);
    }
    for name in packs.iter().map(PathBuf::as_path).chain([Path::new(FILE)]) {
        fs::rename(scratch.path().join(name), folder.join(name))?;
    }
    Ok(())
}
