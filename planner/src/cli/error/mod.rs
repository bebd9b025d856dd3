//! What can go wrong, with the file it went wrong with: what several verbs share, and an enum for each of the others.

mod bench;
mod planning;
mod run;
mod sets;
mod shapes;
mod sizes;
mod target;

pub use bench::BenchError;
pub use planning::PlanningError;
pub use run::RunError;
pub use sets::SetsError;
pub use shapes::ShapesError;
pub use sizes::SizesError;
pub use target::TargetError;

use eyelet::arena::ArenaError;
use eyelet::device::threads::ThreadError;
use eyelet::executor::{InferError, OpenError};
use eyelet::set::{SET_MAGIC, is_set};
use eyelet::storage::StorageError;
use eyelet_planner::board::BoardError;
use eyelet_planner::check::Violation;
use eyelet_planner::darknet::DarknetError;
use eyelet_planner::import::ImportError;
use eyelet_planner::npy;
use eyelet_planner::open::open;
use eyelet_planner::profile::ProfileError;
use eyelet_planner::search::PlanError;
use eyelet_planner::size;
use eyelet_planner::write::WriteError;
use eyelet_planner::zoo;
use eyelet_profile::files;
use eyelet_profile::measure::MeasureError;
use std::io::{self, Read};
use std::path::PathBuf;

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Files(#[from] files::Error),
    #[error("cannot print: {0}")]
    Print(io::Error),

    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error(transparent)]
    Planning(#[from] PlanningError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Sets(#[from] SetsError),
    #[error(transparent)]
    Shapes(#[from] ShapesError),
    #[error(transparent)]
    Sizes(#[from] SizesError),
    #[error(transparent)]
    Target(#[from] TargetError),

    #[error("{}{source}{}", named(path, source), match command {
        Some(command) => format!("\n  {command}"),
        None => String::new(),
    })]
    Import { path: PathBuf, source: Box<ImportError>, command: Option<String> },
    #[error(transparent)]
    Board(#[from] BoardError),
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A command line that makes no sense, for a reason that the options alone do not show.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    #[error(transparent)]
    Measure(#[from] MeasureError),
    #[error(transparent)]
    Measuring(eyelet_profile::Error),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("shape {shape}: {source}")]
    OfShape { shape: String, source: Box<Error> },
    #[error(transparent)]
    WritePack(#[from] WriteError),
    #[error(transparent)]
    Zoo(#[from] zoo::Error),

    #[error("{}: {source}", path.display())]
    Pack { path: PathBuf, source: OpenError },
    #[error(
        "{}: a set of several packs, not one: `eyelet serve` runs it, `eyelet inspect` and `eyelet check` take it, and a \
         program reads it by `eyelet::set::SetFile`", path.display()
    )]
    Set { path: PathBuf },
    #[error(
        "{}: the plan for {} is wrong in {} places; plan the model again. {}",
        path.display(), size::human(*budget), violations.len(), list(violations)
    )]
    Check { path: PathBuf, budget: u64, violations: Vec<Violation> },

    #[error(transparent)]
    Npy(#[from] npy::Error),
    #[error(transparent)]
    Pictures(#[from] super::pictures::Error),
    #[error(transparent)]
    Arena(#[from] ArenaError),
    #[error(transparent)]
    Threads(#[from] ThreadError),
    #[error("a thread cannot be started: {0}; end other programs, or raise ulimit -u")]
    Thread(std::io::Error),
    #[error(
        "no thread may have real-time priority {priority}: {source}; this process may have {allowed} at most: raise that by \
         ulimit -r, grant CAP_SYS_NICE, or leave out --priority"
    )]
    Priority { priority: u8, allowed: u64, source: std::io::Error },
    #[error(transparent)]
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    Gpu(Box<dyn std::error::Error + Send + Sync>),
    #[error("{}: inference {number}: {source}", path.display())]
    Infer { path: PathBuf, number: u32, source: InferError },
    #[error("{}: inference {number}: {source}; the index follows from {inputs}", path.display())]
    Index { path: PathBuf, number: u32, source: InferError, inputs: String },
    #[error(transparent)]
    TaskSet(#[from] Box<eyelet_tasks::set::SetError>),

    #[error("`eyelet {verb}` failed: {message}")]
    Child { verb: &'static str, message: String },
    #[error("internal: {0}; please report this")]
    Internal(String),
}

impl Error {
    /// An error of reading a model.
    pub fn of_import(path: &std::path::Path, source: ImportError) -> Self {
        Self::Import { path: path.to_owned(), source: Box::new(source), command: None }
    }

    /// An error of one of several shapes.
    pub fn of_shape(self, shape: &str) -> Self {
        match shape {
            "" => self,
            shape => Self::OfShape { shape: shape.to_owned(), source: Box::new(self) },
        }
    }

    /// An error of a GPU.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    pub fn gpu(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Gpu(Box::new(error))
    }

    /// An error of a pack; what the system says about the file is said in words.
    pub fn pack(path: &std::path::Path, source: OpenError) -> Self {
        let path = path.to_owned();
        match source {
            OpenError::Storage(StorageError::Open { errno } | StorageError::Io { errno, .. }) => {
                Self::Read { path, source: io::Error::from_raw_os_error(errno) }
            }
            OpenError::Storage(StorageError::NoFile(what)) => {
                let text = format!("it is {what}; give a file or a block device");
                Self::Read { path, source: io::Error::new(io::ErrorKind::InvalidInput, text) }
            }
            OpenError::NotMapped { .. } => {
                let text = "it is for flash that is read like memory, and is used where it lies; give --io memory";
                Self::Read { path, source: io::Error::new(io::ErrorKind::InvalidInput, text) }
            }
            OpenError::NotAPack if is_set_file(&path) => Self::Set { path },
            source => Self::Pack { path, source },
        }
    }
}

impl From<eyelet_profile::Error> for Error {
    fn from(error: eyelet_profile::Error) -> Self {
        match error {
            // Where a description is wrong is a part of the error as an object.
            eyelet_profile::Error::Board(error) => Self::Board(error),
            error => Self::Measuring(error),
        }
    }
}

/// Whether the file there is a set of packs.
pub fn is_set_file(path: &std::path::Path) -> bool {
    let mut start = [0; SET_MAGIC.len()];
    let read = open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && is_set(&start)
}

/// The path, unless the error names it.
fn named(path: &std::path::Path, source: &ImportError) -> String {
    match source {
        ImportError::Open { .. }
        | ImportError::Darknet(DarknetError::Open { .. } | DarknetError::Weights { .. }) => {
            String::new()
        }
        _ => format!("{}: ", path.display()),
    }
}

/// Sizes to the byte.
fn exact_sizes(sizes: &[u64]) -> String {
    sizes.iter().map(|&bytes| size::exact(bytes)).collect::<Vec<_>>().join(", ")
}

fn list(violations: &[Violation]) -> String {
    let most = 5;
    let mut text: Vec<String> =
        violations.iter().take(most).map(|violation| format!("\n  {violation}")).collect();
    if violations.len() > most {
        text.push(format!("\n  and {} more", violations.len() - most));
    }
    text.concat()
}
