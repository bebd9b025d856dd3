//! Places buffers with fixed lifetimes within a capacity: `alloc --capacity 1MiB buffers.csv -o placed.csv`.
//!
//! The file has a line `id,lower,upper,size` and one such line for each buffer: it lives from time lower until before
//! upper, and takes size bytes. A column `alignment` is obeyed, others are carried along. The answer is the same lines
//! with the column `offset`; buffers that live at the same time do not overlap. If the buffers do not fit, the exit code
//! is 1 and the lowest height found is printed.

use clap::Parser;
use eyelet_alloc::csv::{CsvError, Table};
use eyelet_alloc::{Limit, Outcome, Peak, Placement, Violation, peak, solve, validate};
use eyelet_model::open::{LIST, read_to_string};
use eyelet_model::{replace::replace, size};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Debug, Parser)]
#[command(about = "Places buffers with fixed lifetimes within a capacity")]
struct Args {
    /// The buffers.
    #[arg(value_name = "FILE.csv")]
    file: PathBuf,
    /// Into how much they must fit: bytes, or with a unit, as in 1MiB.
    #[arg(long, allow_negative_numbers = true, value_parser = size::parse)]
    capacity: u64,
    /// How long to search at most.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds, allow_negative_numbers = true)]
    time_limit: f64,
    /// Where to write the answer [default: standard output].
    #[arg(short, long, value_name = "FILE.csv")]
    output: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=1e9).contains(&seconds) => Ok(seconds),
        _ => Err(format!("`{text}` is not a time: write seconds, such as 10 or 0.5")),
    }
}

/// Why buffers could not be placed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
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
    #[error("the allocation found is wrong: {0}")]
    Misplaced(Violation),
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

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("alloc: error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<(), Error> {
    let Args { file, capacity, time_limit, output } = args;
    let text =
        read_to_string(&file, LIST).map_err(|source| Error::Read { path: file.clone(), source })?;
    let table = Table::parse(&text).map_err(|source| Error::Csv { path: file.clone(), source })?;
    let buffers = &table.buffers;
    let start = Instant::now();
    let outcome = solve(buffers, capacity, Limit::time(Duration::from_secs_f64(time_limit)));
    let took = start.elapsed().as_secs_f64();
    let Placement { offsets, height } = match &outcome {
        Outcome::Fits(placement) | Outcome::Best { placement, .. } => placement,
    };
    validate(buffers, offsets, *height).map_err(Error::Misplaced)?;
    let peak = peak(buffers);
    if let Outcome::Best { lower_bound, .. } = outcome {
        let (best, seconds) = (*height, time_limit);
        return Err(Error::DoesNotFit { path: file, capacity, best, lower_bound, peak, seconds });
    }
    write(output.as_deref(), &table.with_offsets(offsets))?;
    if let Some(path) = output {
        println!(
            "{}: {} buffers in {height} of {capacity} bytes, {} live at once ({took:.3} s)",
            path.display(),
            buffers.len(),
            peak.bytes
        );
    }
    Ok(())
}

/// Writes the answer to a file, or to standard output.
fn write(to: Option<&Path>, csv: &str) -> Result<(), Error> {
    let (path, written) = match to {
        Some(path) => (path, replace(path, |sink| sink.write_all(csv.as_bytes()))),
        None => (Path::new("standard output"), io::stdout().write_all(csv.as_bytes())),
    };
    written.map_err(|source| Error::Write { path: path.to_owned(), source })
}
