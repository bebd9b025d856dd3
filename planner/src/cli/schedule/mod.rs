//! `eyelet schedule`: whether a task set keeps its deadlines.

mod costs;
mod report;

use super::Error;
use super::files::Files;
use super::output::Output;
use eyelet_planner::open::read_to_string;
use eyelet_planner::replace::replace;
use eyelet_tasks::schedule::schedule;
use eyelet_tasks::set::file::{Source, parse};
use eyelet_tasks::set::measured;
use report::Report;
use std::io::Write;
use std::path::PathBuf;

/// Judges whether networks fit one memory together and keep their deadlines.
///
/// The file gives memory, storage and tasks. Printed are the swap volumes and levels that were found, the test's
/// numbers, and simulated responses. If the set cannot be scheduled, the exit code is 1 and the changes that would
/// help are printed, the cheapest first.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The task set.
    #[arg(value_name = "SET.toml")]
    file: PathBuf,
    /// Where to draw what the tasks do over time, as a page that a browser shows.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// How many jobs to simulate.
    #[arg(long, default_value_t = 100_000)]
    jobs: u64,
}

const EXAMPLE: &str = "\
Example:
  eyelet schedule examples/tasksets/uav.toml --report uav.html";

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    Files::default()
        .reads("the task set", [&args.file])
        .writes("--report", &args.report)
        .check()?;
    let text = read_to_string(&args.file)
        .map_err(|source| Error::Read { path: args.file.clone(), source })?;
    let mut costs = |source: &Source, board: Option<&str>| match source {
        Source::Pack(path) => costs::of_pack(path, board).map_err(|error| error.to_string()),
        Source::Measured(path) => {
            let json = read_to_string(path).map_err(|error| error.to_string())?;
            measured(&json).map(|cost| vec![cost])
        }
        Source::Model { path, budgets } => {
            costs::of_model(path, budgets, board, output).map_err(|error| error.to_string())
        }
    };
    let declared = parse(&args.file, &text, &mut costs).map_err(Box::new)?;
    let schedule = schedule(&declared);
    let report = Report::new(&schedule, args.jobs);
    if let Some(path) = &args.report {
        let page = report::page(&args.file, &schedule, &report);
        replace(path, |file| file.write_all(page.as_bytes()))
            .map_err(|source| Error::Write { path: path.clone(), source })?;
    }
    output.report(&report)?;
    match schedule.admitted() {
        true => Ok(()),
        false => Err(Error::NotSchedulable { path: args.file, change: report.cheapest() }),
    }
}
