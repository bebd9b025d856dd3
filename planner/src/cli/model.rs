//! Reading the model that a verb is given.

use super::Error;
use eyelet_planner::graph::Graph;
use eyelet_planner::import::{IMPORT_MEMORY, import_within};
use eyelet_planner::size;
use std::path::Path;

/// What reading a model may take.
#[derive(Debug, clap::Args)]
pub struct Reading {
    /// Most memory for constants that are made while the model is read: those that it computes of others, integers, and
    /// doubles. Other weights stay in the file [default: 512MiB].
    #[arg(long, value_name = "SIZE", value_parser = size::parse, allow_negative_numbers = true,
        default_value_t = IMPORT_MEMORY, hide_default_value = true)]
    import_memory: u64,
}

impl Reading {
    /// Reads a model.
    pub fn import(&self, path: &Path) -> Result<Graph, Error> {
        import_within(path, self.import_memory)
            .map_err(|error| Error::Import { path: path.to_owned(), source: Box::new(error) })
    }
}
