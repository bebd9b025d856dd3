//! `eyelet schedule`: whether a task set keeps its deadlines, and what runs it.

mod costs;
mod plans;
mod report;
mod simulation;
mod swappable;
mod write;

use super::Error;
use super::calibrate::Calibration;
use super::error::SetsError;
use super::files::Files;
use super::output::Output;
use super::set_file::check_replaced;
pub use costs::{Model, Where, of_model};
use eyelet::set::MAX_TASKS;
use eyelet_planner::open::{LIST, read_to_string};
use eyelet_planner::replace::replace;
use eyelet_tasks::schedule::schedule;
use eyelet_tasks::set::file::{Source, named, parse};
use eyelet_tasks::volumes::search::Freedom;
use plans::Plans;
pub use report::Report;
pub use simulation::Simulation;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
pub use swappable::swappable;
use write::Set;
pub use write::for_device;

/// Judges whether networks fit one memory together and keep their deadlines.
///
/// The file gives memory, storage and tasks. Printed are the swap volumes and levels that were found, the test's
/// numbers, and simulated responses. If the set cannot be scheduled, the exit code is 1 and the changes that would
/// help are printed, the cheapest first. So it is if the simulation misses a deadline, or cannot be done: the simulator
/// holds 64 tasks.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The task set.
    #[arg(value_name = "SET.toml")]
    file: PathBuf,
    /// Writes one file that `eyelet serve` and a device run: the networks' packs, each with the plan that was chosen, and
    /// everything that was decided. Tasks need a pack or a model.
    #[arg(short, long, value_name = "FILE.pack")]
    output: Option<PathBuf>,
    /// Where to draw what the tasks do over time, as a page that a browser shows.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// How many jobs to simulate. With 0 the test judges alone, up to 10000 tasks.
    #[arg(long, default_value_t = 100_000)]
    jobs: u64,
    #[command(flatten)]
    calibration: Calibration,
}

const EXAMPLE: &str = "\
Example:
  eyelet schedule examples/tasksets/uav.toml --report uav.html
  eyelet schedule set.toml -o set.pack && eyelet serve set.pack --duration 60s";

/// The text of a task set's file.
pub fn read_set(path: &Path) -> Result<String, Error> {
    let wrong = |what: &str| {
        let reason = format!(
            "it is {what}, so it is no task set: give a set's .toml file, or the file that `eyelet schedule -o` has written"
        );
        Error::from(SetsError::Serve { path: path.to_owned(), reason })
    };
    if path.is_dir() {
        return Err(wrong("a directory"));
    }
    let text = read_to_string(path, LIST).map_err(|source| match source.kind() {
        ErrorKind::InvalidData => wrong("no text"),
        _ => Error::Read { path: path.to_owned(), source },
    })?;
    if text.trim().is_empty() { Err(wrong("empty")) } else { Ok(text) }
}

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    let text = read_set(&args.file)?;
    let files = Files::default().reads("the task set", [&args.file]).reads_set(&args.file, &text);
    let files = files.writes("--report", &args.report);
    match &args.output {
        Some(to) if to.is_dir() => {
            let (path, what) = (to.clone(), "a directory");
            return Err(SetsError::NoSet { option: "-o", path, what }.into());
        }
        Some(to) => {
            files.writes_packs("-o", [to]).check()?;
            check_replaced("-o", to)?;
            can_be_run(&args.file, &text)?;
        }
        None => files.check()?,
    }
    let mut plans = Plans::new(args.calibration, output);
    let mut costs = |source: &Source, board: Option<&str>| plans.costs(source, board);
    let mut declared = parse(&args.file, &text, &mut costs).map_err(Box::new)?;
    // What a device runs is decided in the order of steps.
    let freedom = match args.output {
        Some(_) => Freedom::Levels,
        None => Freedom::Subsets,
    };
    if args.output.is_some() {
        for_device(&args.file, &mut declared)?;
    }
    let schedule = schedule(&declared, freedom);
    let simulation = Simulation::of(&schedule, args.jobs);
    let mut report = Report::new(&schedule, &simulation);
    if let Some(path) = &args.report {
        let page = report::page(&args.file, &schedule, &report);
        replace(path, |file| file.write_all(page.as_bytes()))
            .map_err(|source| Error::Write { path: path.clone(), source })?;
    }
    if let (Some(to), Some(assignment)) = (&args.output, &schedule.assignment)
        && report.schedulable()
    {
        let set = Set { file: &args.file, declared: &declared, plans: &plans };
        report.written = Some(write::write(to, &set, &schedule, assignment, output)?);
    }
    output.report(&report)?;
    let path = args.file;
    match (schedule.admitted(), simulation.wrong(&schedule)) {
        (true, None) => Ok(()),
        (true, Some(reason)) => Err(SetsError::Serve { path, reason }.into()),
        (false, _) => Err(SetsError::NotSchedulable { path, change: report.cheapest() }.into()),
    }
}

/// Refuses a set of more tasks than can be run, before anything is planned for it.
fn can_be_run(file: &Path, text: &str) -> Result<(), Error> {
    // What is wrong with a set is said by who reads it.
    let tasks = named(file, text).map_or(0, |named| named.tasks.len());
    match tasks > MAX_TASKS {
        true => Err(SetsError::TooMany { path: file.to_owned(), tasks, most: MAX_TASKS }.into()),
        false => Ok(()),
    }
}
