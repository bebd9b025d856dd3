//! The command line: one file per verb, and what verbs share.
//!
//! Every verb makes a report and prints it once, at the end: one JSON object with `--json`, text
//! otherwise. Errors go to stderr, with exit code 1; clap's own, for a command line that makes no sense,
//! have exit code 2. With `--json` an error is an object on stdout, too; where a model cannot be planned, it has all that
//! stands in the way.

mod bench;
mod budgets;
mod calibrate;
mod check;
mod chunks;
mod completions;
mod decided;
mod demo;
mod describe;
mod error;
mod files;
mod first;
mod forecast;
mod guard;
mod inference;
mod inspect;
mod model;
mod output;
mod pack_file;
mod perfetto;
mod pictures;
mod pin;
mod plan;
mod profile;
mod progress;
mod report;
mod run;
mod schedule;
mod serve;
mod set_file;
mod sizes;
mod sweep;
mod table;
mod target;
mod taskgen;
mod terminal;
mod typed;
mod verbosity;
mod workplace;
mod zoo;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use error::Error;
use eyelet::arena::{give_back_code, part_code};
use eyelet_planner::leftovers;
use eyelet_profile::{printable, signals};
use output::Output;
use std::process::ExitCode;
use std::sync::LazyLock;
use typed::Typed;

/// Runs neural networks that are larger than the memory they are given.
///
/// A model (ONNX, Darknet) is planned into a pack for a budget of memory; the pack is run within that budget, its
/// weights read from storage slice by slice.
#[derive(Debug, Parser)]
#[command(name = "eyelet", version, long_version = LONG_VERSION.as_str(), after_help = EXAMPLE)]
struct Command {
    /// Prints one JSON object instead of text, and no progress.
    #[arg(long, global = true)]
    json: bool,
    /// Says on stderr what is done and why: once for the large steps, twice for every layer and choice. The environment
    /// variable EYELET_LOG does the same, as EYELET_LOG=info or debug.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    verb: Verb,
}

/// What `--version` prints: which packs go with this command, too.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let (own, packs) = (env!("CARGO_PKG_VERSION"), eyelet::pack::VERSION);
    format!("{own}\nreads and writes packs of format version {packs}")
});

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
    Bench(bench::Args),
    Demo(demo::Args),
    // `chunks` was its name.
    #[command(name = "gpu-chunks", alias = "chunks")]
    Chunks(chunks::Args),
    Schedule(schedule::Args),
    Serve(serve::Args),
    Sizes(sizes::Args),
    Taskgen(taskgen::Args),
    Completions(completions::Completions),
    Man(completions::Man),
}

/// The whole command.
pub fn main() -> ExitCode {
    // The system's loader has gone through the whole program, to adapt addresses.
    give_back_code();
    // All that follows takes a few pages here and there.
    part_code();
    guard::install();
    let Command { json, verbose, verb } = parse().unwrap_or_else(|error| misuse(&error));
    let output = Output::new(json);
    if let Err(text) = verbosity::start(verbose).and_then(|()| calibrate::check()) {
        misuse(&Command::command().error(ErrorKind::InvalidValue, text));
    }
    signals::survive_large_files();
    leftovers::before_any(signals::clean_up);
    let result = match verb {
        Verb::Zoo(args) => zoo::run(args, output),
        Verb::Profile(args) => profile::run(args, output),
        Verb::Plan(args) => plan::run(args, output),
        Verb::Sweep(args) => sweep::run(args, output),
        Verb::Inspect(args) => inspect::run(args, output),
        Verb::Check(args) => check::run(args, output),
        Verb::Run(args) => run::run(args, output),
        Verb::Bench(args) => bench::run(args, output),
        Verb::Demo(args) => demo::run(args, output),
        Verb::Chunks(args) => chunks::run(args, output),
        Verb::Schedule(args) => schedule::run(args, output),
        Verb::Serve(args) => serve::run(args, output),
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
        Err(Error::Usage(error)) => misuse(&error),
        Err(error) => {
            let text = format_args!("eyelet: error: {error}\n");
            // Nobody reads it if that fails.
            let _ = printable::write(&mut std::io::stderr().lock(), text);
            // Why nothing can be printed was said already.
            let _ = output.error(&error);
            ExitCode::FAILURE
        }
    }
}

/// What was typed, with what `eyelet.toml` next to the model or pack adds.
fn parse() -> Result<Command, clap::Error> {
    let typed = Typed::new(Command::command, std::env::args_os().collect());
    let typed = typed.map_err(|text| Command::command().error(ErrorKind::InvalidValue, text))?;
    let parsed = Command::try_parse_from(typed.words).map_err(without_aliases)?;
    if let Some(file) = typed.file.filter(|_| parsed.verbose > 0) {
        eprintln!("options from {}", file.display());
    }
    Ok(parsed)
}

/// Has a command line without a verb name the verbs that there are, and no hidden names of them.
fn without_aliases(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::MissingSubcommand {
        let command = Command::command();
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let names = verbs.map(|verb| verb.get_name().to_owned()).collect();
        error.insert(ContextKind::ValidSubcommand, ContextValue::Strings(names));
    }
    error
}

/// Ends the command as clap does; with `--json` it says so on stdout, too, if it is an error and not what was asked for.
fn misuse(error: &clap::Error) -> ! {
    if error.use_stderr() && std::env::args_os().any(|word| word == "--json") {
        let text = error.render().to_string();
        let text = text.trim_start_matches("error: ").trim_end();
        // Nobody reads it if that fails.
        let _ = Output::new(true).object(&serde_json::json!({ "error": text }));
    }
    error.exit()
}

/// Something without which a verb's command line makes no sense, as clap says it.
fn lacks(verb: &str, what: &str) -> Error {
    misused(
        verb,
        ErrorKind::MissingRequiredArgument,
        &format!("the following required arguments were not provided:\n  {what}"),
    )
}

/// A command line that makes no sense, as clap says it.
fn misused(verb: &str, kind: ErrorKind, text: &str) -> Error {
    let mut command = Command::command();
    command.build();
    let command = match command.find_subcommand_mut(verb) {
        Some(verb) => verb.clone(),
        None => command,
    };
    command.clone().error(kind, text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Command::command().debug_assert();
    }
}
