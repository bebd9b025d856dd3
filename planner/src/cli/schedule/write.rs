//! One file with everything that a set needs to run: packs, and the table of what was decided.
//!
//! The packs are made in a folder next to it, which is removed.

use super::costs::Model;
use super::plans::Plans;
use crate::cli::Error;
use crate::cli::error::SetsError;
use crate::cli::output::Output;
use crate::cli::pack_file::PackFile;
use crate::cli::plan::{Forms, forget, pack};
use crate::cli::set_file;
use eyelet::pack::{PAGE, PlanEntry};
use eyelet_planner::leftovers::Scratch;
use eyelet_planner::open::open;
use eyelet_planner::replace::{folder_of, replace};
use eyelet_planner::search::PackRequest;
use eyelet_planner::write::WriteError;
use eyelet_tasks::schedule::Schedule;
use eyelet_tasks::set::decided::{Decided, Planned};
use eyelet_tasks::set::file::{Declared, Source};
use eyelet_tasks::set::{Assignment, Task};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What was written.
#[derive(Debug, Serialize)]
pub struct Written {
    pub file: PathBuf,
    pub packs: usize,
    pub bytes: u64,
}

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

/// Writes an admitted set.
pub fn write(
    to: &Path,
    set: &Set<'_>,
    schedule: &Schedule,
    assignment: &Assignment,
    output: Output,
) -> Result<Written, Error> {
    let failed = |source| Error::Write { path: to.to_owned(), source };
    let scratch = Scratch::folder(folder_of(to)).map_err(failed)?;
    let mut made: Vec<(&Source, Planned)> = Vec::new();
    let mut packs = Vec::new();
    for (task, source) in schedule.set.tasks.iter().zip(&set.declared.sources) {
        let (source, budget) = set.plan(task, source.as_ref())?;
        let known =
            made.iter().find(|(known, planned)| *known == source && planned.budget == budget);
        let planned = match known {
            Some((_, planned)) => planned.clone(),
            None => {
                let path = scratch.path().join(format!("{}.pack", made.len()));
                let wrote = set.write_pack(&path, source, budget, output);
                wrote.map_err(|error| in_place(error, to))?;
                let planned = Planned { pack: path.into(), budget };
                made.push((source, planned.clone()));
                planned
            }
        };
        verify(&planned, task, assignment.chunk_bytes)?;
        forget(&planned.pack.path);
        packs.push(planned);
    }
    let decided = Decided { set: schedule.set.clone(), assignment: assignment.clone(), packs };
    let bytes = set_file::write(&decided, to)?;
    Ok(Written { file: to.to_owned(), packs: made.len(), bytes })
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
fn verify(planned: &Planned, task: &Task, chunk_bytes: u64) -> Result<(), Error> {
    let pack = PackFile::open(&planned.pack.path)?;
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

/// An error of writing a pack that will be a part of a file, with that file.
fn in_place(error: Error, to: &Path) -> Error {
    match error {
        Error::Write { source, .. } => Error::Write { path: to.to_owned(), source },
        Error::WritePack(WriteError::Io { error, .. }) => {
            Error::Write { path: to.to_owned(), source: error }
        }
        error => error,
    }
}
