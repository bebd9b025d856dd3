//! What a verb reads and what it writes: no output replaces an input, or another output.

use super::Error;
use eyelet_planner::import::external_files;
use eyelet_profile::files::{self, of_board};
use eyelet_tasks::set::file::{Source, named};
use std::path::{Path, PathBuf};

/// The files of a verb. Each is named by what it is to the verb: "the model", "--report".
#[derive(Clone, Debug, Default)]
pub struct Files(files::Files);

impl Files {
    /// Adds files that are read.
    pub fn reads<'p>(
        self,
        what: &'static str,
        paths: impl IntoIterator<Item = &'p PathBuf>,
    ) -> Self {
        Self(self.0.reads(what, paths))
    }

    /// Adds a model and the files that have its data.
    pub fn reads_model(self, model: &Path) -> Self {
        // What is missing may not be needed.
        let data: Vec<_> = external_files(model).into_iter().filter(|path| path.exists()).collect();
        self.reads("the model", [&model.to_owned()]).reads("data of the model", &data)
    }

    /// Adds a board that is a file: its path, or that of its folder.
    pub fn reads_board(self, what: &'static str, board: Option<&str>) -> Self {
        self.reads(what, &of_board(board))
    }

    /// Adds what a task set names: packs, measured runs, models with their data, and its board. What cannot be read adds
    /// nothing: whoever reads it ends the verb, with a better word.
    pub fn reads_set(mut self, set: &Path, text: &str) -> Self {
        let Ok(named) = named(set, text) else { return self };
        for source in &named.sources {
            self = match source {
                Source::Pack(path) if path.exists() => self.reads("a pack of the set", [path]),
                Source::Measured(path) if path.exists() => {
                    self.reads("a measured run of the set", [path])
                }
                Source::Model { path, .. } if path.exists() => self.reads_model(path),
                _ => self,
            };
        }
        let board = named.board.as_deref().filter(|board| Path::new(board).exists());
        self.reads_board("the board of the set", board)
    }

    /// Adds files that are written.
    pub fn writes<'p>(
        self,
        what: &'static str,
        paths: impl IntoIterator<Item = &'p PathBuf>,
    ) -> Self {
        Self(self.0.writes(what, paths))
    }

    /// Adds packs that are written, which must be regular files.
    pub fn writes_packs<'p>(
        self,
        what: &'static str,
        paths: impl IntoIterator<Item = &'p PathBuf>,
    ) -> Self {
        Self(self.0.writes_packs(what, paths))
    }

    /// Refuses outputs that are an input or another output, and those that could not be written.
    pub fn check(&self) -> Result<(), Error> {
        Ok(self.0.check()?)
    }
}
