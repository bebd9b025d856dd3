//! The command line: one file per verb, and what verbs share.
//!
//! Every verb makes a report and prints it once, at the end: one JSON object with `--json`, text
//! otherwise. Errors go to stderr, with exit code 1; clap's own, for a command line that makes no sense,
//! have exit code 2. With `--json` all that stands between a model and a pack is an object on
//! stdout, too.

mod alloc;
mod boards;
mod check;
mod chunks;
mod completions;
mod demo;
mod describe;
mod error;
mod files;
mod forecast;
mod guard;
mod inspect;
mod model;
mod output;
mod pack_file;
mod pictures;
mod plan;
mod printable;
mod profile;
mod progress;
mod report;
mod run;
mod schedule;
mod signals;
mod sizes;
mod sweep;
mod target;
mod taskgen;
mod zoo;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use error::Error;
use eyelet_planner::leftovers;
use output::Output;
use std::process::ExitCode;

/// Runs neural networks that are larger than the memory they are given.
///
/// A model (ONNX, Darknet) is planned into a pack for a budget of memory; the pack is run within that budget, its
/// weights read from storage slice by slice.
#[derive(Debug, Parser)]
#[command(name = "eyelet", version, after_help = EXAMPLE)]
struct Command {
    /// Prints one JSON object instead of text, and no progress.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLE: &str = "\
Example:
  eyelet zoo resnet50 -o resnet50.onnx
  eyelet plan resnet50.onnx --budget 16MiB
  eyelet run resnet50.pack --runs 5";

#[derive(Debug, Subcommand)]
enum Verb {
    Zoo(zoo::Args),
    Profile(profile::Args),
    Plan(plan::Args),
    Sweep(sweep::Args),
    Inspect(inspect::Args),
    Check(check::Args),
    Run(run::Args),
    Demo(demo::Args),
    Alloc(alloc::Args),
    // `chunks` was its name.
    #[command(name = "gpu-chunks", alias = "chunks")]
    Chunks(chunks::Args),
    Schedule(schedule::Args),
    Sizes(sizes::Args),
    Taskgen(taskgen::Args),
    Completions(completions::Completions),
    Man(completions::Man),
}

/// The whole command.
pub fn main() -> ExitCode {
    guard::install();
    let Command { json, verb } = Command::parse();
    let output = Output::new(json);
    leftovers::before_any(signals::clean_up);
    let result = match verb {
        Verb::Zoo(args) => zoo::run(args, output),
        Verb::Profile(args) => profile::run(args, output),
        Verb::Plan(args) => plan::run(args, output),
        Verb::Sweep(args) => sweep::run(args, output),
        Verb::Inspect(args) => inspect::run(args, output),
        Verb::Check(args) => check::run(args, output),
        Verb::Run(args) => run::run(args, output),
        Verb::Demo(args) => demo::run(args, output),
        Verb::Alloc(args) => alloc::run(args, output),
        Verb::Chunks(args) => chunks::run(args, output),
        Verb::Schedule(args) => schedule::run(args, output),
        Verb::Sizes(args) => sizes::run(args, output),
        Verb::Taskgen(args) => taskgen::run(args, output),
        Verb::Completions(args) => completions::completions(&args),
        Verb::Man(args) => completions::man(args, output),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever closed the pipe has seen enough.
        Err(Error::Print(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(Error::Usage(error)) => error.exit(),
        Err(error) => {
            let text = format_args!("eyelet: error: {error}\n");
            // Nobody reads it if that fails.
            let _ = printable::write(&mut std::io::stderr().lock(), text);
            // Why nothing can be printed was said already.
            let _ = output.blockers(&error);
            ExitCode::FAILURE
        }
    }
}

/// Something without which a verb's command line makes no sense, as clap says it.
fn lacks(verb: &str, what: &str) -> Error {
    let mut command = Command::command();
    command.build();
    let text = format!("the following required arguments were not provided:\n  {what}");
    match command.find_subcommand_mut(verb) {
        Some(verb) => verb.error(ErrorKind::MissingRequiredArgument, text).into(),
        None => command.error(ErrorKind::MissingRequiredArgument, text).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Command::command().debug_assert();
    }
}
