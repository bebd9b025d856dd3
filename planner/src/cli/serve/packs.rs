//! The packs of a set's sources: those that it names, and those that its models are planned into for this run.

use crate::cli::Error;
use crate::cli::calibrate::Calibration;
use crate::cli::output::Output;
use crate::cli::plan::pack;
use crate::cli::schedule::{Model, Where, of_model};
use eyelet_planner::leftovers::Scratch;
use eyelet_planner::replace::folder_of;
use eyelet_planner::search::PackRequest;
use eyelet_tasks::set::file::Source;
use std::path::{Path, PathBuf};

/// Packs, by source.
pub struct Packs {
    calibration: Calibration,
    output: Output,
    /// Next to the set. It is removed in the end.
    folder: Option<Scratch>,
    planned: Vec<(Source, PathBuf)>,
}

impl Packs {
    pub fn new(calibration: Calibration, output: Output) -> Self {
        Self { calibration, output, folder: None, planned: Vec::new() }
    }

    /// The pack of a source, for this machine. A model is planned for all of its budgets.
    pub fn of(&mut self, set: &Path, source: &Source) -> Result<PathBuf, Error> {
        let (path, budgets) = match source {
            Source::Pack(path) => return Ok(path.clone()),
            Source::Model { path, budgets } => (path, budgets),
            Source::Measured(path) => return Err(Error::Internal(path.display().to_string())),
        };
        if let Some((_, pack)) = self.planned.iter().find(|(known, _)| known == source) {
            return Ok(pack.clone());
        }
        let folder = match &self.folder {
            Some(folder) => folder.path().to_owned(),
            None => {
                let near = folder_of(set);
                let made = Scratch::folder(near)
                    .map_err(|source| Error::Write { path: near.to_owned(), source })?;
                self.folder.insert(made).path().to_owned()
            }
        };
        let to = folder.join(format!("{}.pack", self.planned.len()));
        let here = Where { board: None, calibration: self.calibration, output: self.output };
        let mut budgets: Vec<u64> =
            of_model(path, budgets, here)?.iter().map(|known| known.budget).collect();
        budgets.sort_unstable();
        budgets.dedup();
        let Model { graph, request } = Model::read(path, here)?;
        let request = PackRequest { budgets, ..request };
        pack(&request, path, &[(String::new(), graph)], &to, self.output)?;
        self.planned.push((source.clone(), to.clone()));
        Ok(to)
    }
}
