//! `eyelet profile`: what computing and reading cost on this machine.

use super::Error;
use super::output::Output;

#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn run(_args: Args, _output: Output) -> Result<(), Error> {
    Ok(())
}
