//! Inferences in turns that another process asks for: `eyelet bench` has several programs take turns, each in a process of
//! its own, so that what the kernel says of a process's memory is about one of them.
//!
//! A line on standard input is a number of inferences. The answer is a line: the nanoseconds that all of them took, with
//! the host's part, and the latency of each. The end of the input ends the run, and then comes the report.

use super::super::error::RunError;
use super::cache::Cache;
use super::input::Input;
use super::report::Report;
use super::tables;
use super::times::{Samples, digest_of};
use crate::cli::Error;
use crate::cli::output::milliseconds;
use eyelet::arena::give_back_code;
use eyelet::executor::{Feed, Model};
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

/// What a program says when it can be asked.
pub const READY: &str = "ready";

/// Most inferences of a turn.
pub const MOST: u32 = 1_000_000;

/// Serves turns until the input ends.
pub(super) fn serve(
    model: &mut Model<'_, '_, impl Feed>,
    device: &dyn eyelet::device::Device,
    (pack, cache): (&Path, &Cache),
    inputs: &[Input],
    report: &mut Report,
) -> Result<(), Error> {
    let (mut number, mut expected) = (0u32, None);
    let mut samples = Samples::default();
    give_back_code();
    say(READY)?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|source| Error::Read { path: "standard input".into(), source })?;
        let runs = line.trim().parse::<u32>().unwrap_or(0).min(MOST);
        samples.clear();
        let turn = Instant::now();
        for _ in 0..runs {
            for (index, input) in inputs.iter().enumerate() {
                input.write(model, index)?;
            }
            number = number.saturating_add(1);
            let start = Instant::now();
            model
                .infer(device)
                .map_err(|source| tables::failed(model.skeleton(), pack, number, source))?;
            samples.push(start.elapsed().as_nanos() as u64, start, model.stats());
            if number == 1 {
                report.first_ms = milliseconds(start.elapsed().as_nanos() as u64);
                cache.prove(pack)?;
            }
        }
        let turn_ns = turn.elapsed().as_nanos();
        // Once a turn: a digest takes time.
        let found = digest_of(model);
        let expected = *expected.get_or_insert(found);
        if found != expected {
            let (found, expected) = (found.to_string(), expected.to_string());
            return Err(RunError::Unstable { number, found, expected }.into());
        }
        let latency = samples.latency.iter().map(|ns| format!(" {ns}"));
        say(&format!("{turn_ns}{}", latency.collect::<String>()))?;
    }
    report.runs = number;
    samples.report(report);
    report.output_digest = expected.map(|digest| digest.to_string()).unwrap_or_default();
    Ok(())
}

fn say(line: &str) -> Result<(), Error> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).map_err(Error::Print)
}
