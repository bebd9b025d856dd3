//! What can go wrong, with the file it went wrong with.

use eyelet::arena::ArenaError;
use eyelet::device::threads::ThreadError;
use eyelet::executor::{BudgetError, InferError, OpenError};
use eyelet::storage::StorageError;
use eyelet_alloc::csv::CsvError;
use eyelet_alloc::{Peak, Violation as Misplaced};
use eyelet_planner::board::{BoardError, Memory};
use eyelet_planner::check::Violation;
use eyelet_planner::darknet::DarknetError;
use eyelet_planner::import::ImportError;
use eyelet_planner::npy;
use eyelet_planner::passes::PassError;
use eyelet_planner::profile::MeasureError;
use eyelet_planner::profile::ProfileError;
use eyelet_planner::size;
use eyelet_planner::strategy::PlanError;
use eyelet_planner::write::WriteError;
use eyelet_planner::zoo;
use std::io;
use std::path::PathBuf;

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "{what} {}: it is {other} ({}), which would be replaced; give another path",
        path.display(), of.display()
    )]
    Replaces { what: &'static str, path: PathBuf, other: &'static str, of: PathBuf },
    #[error("cannot print: {0}")]
    Print(io::Error),

    #[error("{}{source}{}", named(path, source), match command {
        Some(command) => format!("\n  {command}"),
        None => String::new(),
    })]
    Import { path: PathBuf, source: Box<ImportError>, command: Option<String> },
    #[error("{}: {source}", path.display())]
    Pass { path: PathBuf, source: PassError },
    #[error(transparent)]
    Board(#[from] BoardError),
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error(
        "{}: the profile is for {profile}, and {other} {isa}; measure or choose another profile, or leave one of the two \
         out", path.display()
    )]
    ProfileOfOther { path: PathBuf, profile: &'static str, other: String, isa: &'static str },
    #[error(
        "{threads} threads are asked for, and the GPU of {board} computes in one stream: leave out --threads"
    )]
    ThreadsOfGpu { threads: u32, board: String },
    #[error(
        "the budget of {} is more than the board {board} gives a network, {}: give at most that, or give the regions \
         working and kept of its board.toml more", size::exact(*budget), size::exact(*bytes)
    )]
    BudgetOfBoard { budget: u64, board: String, bytes: u64 },
    #[error("{}: {reason}", path.display())]
    Image { path: PathBuf, reason: String },
    #[error(
        "the board {board} has no memories to compare an image with: describe them as [[memory]] in a board.toml"
    )]
    NoMemories { board: String },
    #[error("{}: {}", path.display(), over.join("; "))]
    Over { path: PathBuf, over: Vec<String> },
    /// A command line that makes no sense, for a reason that the options alone do not show.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    #[error(transparent)]
    Measure(#[from] MeasureError),
    #[error(
        "the board {board} needs kernels for {isa}, which this processor or build does not have; {}", match *isa {
            "cuda" => "only processors are measured",
            _ => "run `eyelet profile` on the board itself",
        }
    )]
    NotHere { board: String, isa: &'static str },
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(
        "{option} is for the strategy {of}, and this is {strategy}: leave it out, or give --strategy {of}"
    )]
    NotOfStrategy { option: &'static str, of: &'static str, strategy: &'static str },
    #[error("shape {shape}: {source}")]
    OfShape { shape: String, source: Box<Error> },
    #[error("{what} is of one shape, and there are {shapes}: give one extent for each --dim")]
    OneShape { what: &'static str, shapes: usize },
    #[error(
        "--dim {first} gives {extents} extents, and --dim {other} gives {others}: shapes take one of each, so give as \
         many, or one for all shapes"
    )]
    Uneven { first: String, extents: usize, other: String, others: usize },
    #[error("--dim gives the shape {0} twice: give each once")]
    Twice(String),
    #[error("GPUs read no weights of int8: give --weights fp16, or plan for a board without one")]
    EightBitsOnGpu,
    #[error(transparent)]
    WritePack(#[from] WriteError),
    #[error(transparent)]
    Zoo(#[from] zoo::Error),
    #[error(
        "internal: the plan for {} breaks {} rules; please report this. The first: {}",
        size::human(*budget), violations.len(), violations[0]
    )]
    Planned { budget: u64, violations: Vec<Violation> },

    #[error("{}: {source}", path.display())]
    Pack { path: PathBuf, source: OpenError },
    #[error(
        "{}: the plan for {} is wrong in {} places; plan the model again. {}",
        path.display(), size::human(*budget), violations.len(), list(violations)
    )]
    Check { path: PathBuf, budget: u64, violations: Vec<Violation> },

    #[error(
        "{}: no plan fits a budget of {}; it has plans for {}: give one of these, or plan the model \
         for less", path.display(), size::exact(*budget), sizes(plans)
    )]
    Budget { path: PathBuf, budget: u64, plans: Vec<u64> },
    #[error(
        "{}: no shape has {asked}; it has {}: give one of these, or plan the model for another with --dim",
        path.display(), named_shapes(shapes)
    )]
    Shape { path: PathBuf, asked: String, shapes: Vec<String> },
    #[error("{}: changing the budget to {}: {source}", path.display(), size::exact(*budget))]
    Switch { path: PathBuf, budget: u64, source: BudgetError },
    #[error("the network has {} ({}), but {given} --input options are given", inputs(names), names.join(", "))]
    Inputs { names: Vec<String>, given: usize },
    #[error("input `{name}`: {source}")]
    Input { name: String, source: npy::Error },
    #[error(transparent)]
    Npy(#[from] npy::Error),
    #[error(transparent)]
    Pictures(#[from] super::pictures::Error),
    #[error(transparent)]
    Arena(#[from] ArenaError),
    #[error(transparent)]
    Threads(#[from] ThreadError),
    #[error(
        "{}: its costs are of {}, and --memory is {}: leave out --memory, or give costs of that", path.display(),
        found.map_or("a processor", Memory::name), wanted.name()
    )]
    MemoryOfProfile { path: PathBuf, wanted: Memory, found: Option<Memory> },
    #[error("this eyelet was built without CUDA: build it with --features cuda")]
    #[cfg_attr(feature = "cuda", allow(dead_code))]
    NoCuda,
    #[error(transparent)]
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    Gpu(Box<dyn std::error::Error + Send + Sync>),
    #[error(
        "{option} is for the processor alone, and a GPU computes: leave it out, or give a pack for the processor and \
         --device cpu"
    )]
    NotOnGpu { option: &'static str },
    #[error("{}: inference {number}: {source}", path.display())]
    Infer { path: PathBuf, number: u32, source: InferError },
    #[error(
        "internal: inference {number} gave other outputs ({found}) than the first ({expected}); please \
         report this"
    )]
    Unstable { number: u32, found: String, expected: String },

    #[error("{}: {source}", path.display())]
    Csv { path: PathBuf, source: CsvError },
    #[error(
        "{}: {}; the best height found is {best} bytes", path.display(),
        unfit(*capacity, *lower_bound, peak, *seconds)
    )]
    DoesNotFit {
        path: PathBuf,
        capacity: u64,
        best: u64,
        /// Nothing is lower: above the capacity if it is proven that nothing fits.
        lower_bound: u64,
        peak: Peak,
        /// The time limit.
        seconds: f64,
    },
    #[error("internal: the allocation found is wrong: {0}; please report this")]
    Misplaced(Misplaced),

    #[error(transparent)]
    TaskSet(#[from] Box<eyelet_tasks::set::SetError>),
    #[error("{}: the set is not schedulable; {change}", path.display())]
    NotSchedulable { path: PathBuf, change: String },

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
            source => Self::Pack { path, source },
        }
    }
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

fn named_shapes(shapes: &[String]) -> String {
    match shapes {
        [one] if one.is_empty() => "one shape without a name".to_owned(),
        shapes => shapes.join(" and "),
    }
}

fn sizes(plans: &[u64]) -> String {
    plans.iter().map(|budget| size::human(*budget)).collect::<Vec<_>>().join(", ")
}

fn unfit(capacity: u64, lower_bound: u64, peak: &Peak, seconds: f64) -> String {
    let Peak { bytes, time } = peak;
    let capacity_of = size::exact(capacity);
    if *bytes > capacity {
        format!(
            "the buffers do not fit {capacity_of}: {bytes} bytes are live at once at time {time}"
        )
    } else if lower_bound > capacity {
        format!(
            "the buffers do not fit {capacity_of}: there is no allocation below {lower_bound} bytes"
        )
    } else {
        format!(
            "no allocation within {capacity_of} was found in {seconds} s, and none is known to be \
             impossible ({bytes} bytes are live at once); give a longer --time-limit or more capacity"
        )
    }
}

fn inputs(names: &[String]) -> String {
    match names.len() {
        1 => "1 input".to_owned(),
        count => format!("{count} inputs"),
    }
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
