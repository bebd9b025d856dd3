//! The `eyelet` command.

#![allow(clippy::result_large_err, reason = "an error of the command is made once and ends it")]

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
