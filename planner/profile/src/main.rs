//! The `eyelet-profile` command: measures the board that it runs on, and nothing else.

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use eyelet_model::leftovers;
use eyelet_plan::board::BoardError;
use eyelet_plan::profile::ProfileError;
use eyelet_profile::boards::Boards;
use eyelet_profile::measure::MeasureError;
use eyelet_profile::{Error, Options, fault, print, print_object, printable, signals};
use std::io;
use std::process::ExitCode;

/// Measures this machine: throughput of the kernels, and of its storage by the size of reads.
///
/// `eyelet plan --profile` plans with what was measured instead of a board's estimates. Takes some
/// seconds; the machine should do nothing else meanwhile.
#[derive(Debug, Parser)]
#[command(name = "eyelet-profile", version, after_help = EXAMPLE, override_usage = USAGE)]
struct Command {
    /// Prints one JSON object instead of text, and no progress.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: Options,
}

const USAGE: &str = "eyelet-profile [OPTIONS] --output <FILE.toml>";

const EXAMPLE: &str = "\
Example, on the board, and then where the model is:
  eyelet-profile -o board.toml
  eyelet plan resnet50.onnx --budget 16MiB --board raspberry-pi-4 --profile board.toml";

fn main() -> ExitCode {
    let Command { json, options } =
        Command::try_parse().unwrap_or_else(|error| misuse(&error, asked_for_json()));
    signals::survive_large_files();
    leftovers::before_any(signals::clean_up);
    let printed = match options.lists_boards() {
        true => Boards::known().map_err(Error::from).map(|boards| print(&boards, json)),
        false => options.measure(!json).map(|report| print(&report, json)),
    };
    match printed {
        Ok(Ok(())) => ExitCode::SUCCESS,
        // Whoever closed the pipe has seen enough.
        Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Ok(Err(error)) => fails(format_args!("cannot print: {error}")),
        Err(Error::NoOutput) => misuse(&no_output(), json),
        Err(error) => {
            if json {
                // The other stream says it, too.
                let _ = print_object(&object(&error));
            }
            fails(format_args!("{error}"))
        }
    }
}

fn fails(text: std::fmt::Arguments<'_>) -> ExitCode {
    // Nobody reads it if that fails.
    let _ =
        printable::write(&mut io::stderr().lock(), format_args!("eyelet-profile: error: {text}\n"));
    ExitCode::FAILURE
}

/// An error with `--json`: with the place where a file is wrong, if that is the error.
fn object(error: &Error) -> serde_json::Value {
    match error {
        Error::Board(BoardError::File(wrong))
        | Error::Measure(MeasureError::Profile(ProfileError::File(wrong))) => fault(wrong),
        _ => serde_json::json!({ "error": error.to_string() }),
    }
}

/// The error of clap for the missing option `-o`. It is needed unless boards are listed.
fn no_output() -> clap::Error {
    let text = "the following required arguments were not provided:\n  --output <FILE.toml>";
    Command::command().error(ErrorKind::MissingRequiredArgument, text)
}

fn asked_for_json() -> bool {
    std::env::args_os().any(|word| word == "--json")
}

/// Ends the command as clap does; with `--json` an error is an object on stdout, too.
fn misuse(error: &clap::Error, json: bool) -> ! {
    if json && error.use_stderr() {
        let text = error.render().to_string();
        let text = text.trim_start_matches("error: ").trim_end();
        // Nobody reads it if that fails.
        let _ = print_object(&serde_json::json!({ "error": text }));
    }
    error.exit()
}
