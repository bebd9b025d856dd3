//! `eyelet profile`: what computing and reading cost on this machine. `eyelet-profile` does the same, and is small.

use super::output::Output;
use super::{Error, lacks};
use eyelet_profile::boards::Boards;
use eyelet_profile::{Error as ProfileError, Options};

/// Measures this machine: throughput of the kernels, and of its storage by the size of reads.
///
/// `eyelet plan --profile` plans with what was measured instead of a board's estimates. Takes some
/// seconds; the machine should do nothing else meanwhile.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, override_usage = "eyelet profile [OPTIONS] --output <FILE.toml>")]
pub struct Args {
    #[command(flatten)]
    options: Options,
}

const EXAMPLE: &str = "\
Example:
  eyelet profile -o here.toml
  eyelet plan resnet50.onnx --budget 16MiB --profile here.toml";

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    if args.options.lists_boards() {
        return output.report(&Boards::known()?);
    }
    let measured = args.options.measure(!output.json()).map_err(|error| match error {
        ProfileError::NoOutput => lacks("profile", "--output <FILE.toml>"),
        error => error.into(),
    });
    output.report(&measured?)
}
