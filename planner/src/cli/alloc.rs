//! `eyelet alloc`: offsets for buffers whose lifetimes are known.

use super::Error;
use super::error::AllocError;
use super::files::Files;
use super::output::Output;
use super::progress::Progress;
use eyelet_alloc::csv::Table;
use eyelet_alloc::{Limit, Outcome, Placement, peak, solve, validate};
use eyelet_planner::open::{LIST, read_to_string};
use eyelet_planner::{replace::replace, size};
use serde::Serialize;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Places buffers with fixed lifetimes within a capacity.
///
/// The file has a line `id,lower,upper,size` and one such line for each buffer: it lives from time lower
/// until before upper, and takes size bytes. A column `alignment` is heeded, others are carried along. The
/// answer is the same lines with the column `offset`; buffers that live at the same time do not overlap. If
/// the buffers do not fit, the exit code is 1 and the lowest height found is printed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
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

const EXAMPLE: &str = "\
Example:
  eyelet alloc --capacity 1MiB buffers.csv -o placed.csv";

/// What takes less than this shows no sign of life.
const PATIENCE: Duration = Duration::from_secs(2);

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=1e9).contains(&seconds) => Ok(seconds),
        _ => Err(format!("`{text}` is not a time: write seconds, such as 10 or 0.5")),
    }
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    capacity_bytes: u64,
    height_bytes: u64,
    /// No height is lower.
    live_bytes: u64,
    seconds: f64,
    buffers: Vec<Placed>,
    #[serde(skip)]
    csv: String,
}

#[derive(Debug, Serialize)]
struct Placed {
    id: String,
    lower: i64,
    upper: i64,
    size: u64,
    offset: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(file) = &self.file else { return f.write_str(&self.csv) };
        writeln!(
            f,
            "{}: {} buffers in {} of {} bytes, {} live at once ({:.3} s)",
            file.display(),
            self.buffers.len(),
            self.height_bytes,
            self.capacity_bytes,
            self.live_bytes,
            self.seconds
        )
    }
}

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    let Args { file, capacity, time_limit, output: to } = args;
    Files::default().reads("the file of buffers", [&file]).writes("-o", &to).check()?;
    let text =
        read_to_string(&file, LIST).map_err(|source| Error::Read { path: file.clone(), source })?;
    let table =
        Table::parse(&text).map_err(|source| AllocError::Csv { path: file.clone(), source })?;
    let buffers = &table.buffers;
    let start = Instant::now();
    let limit = Limit::time(Duration::from_secs_f64(time_limit));
    let outcome = patiently(output, || solve(buffers, capacity, limit))?;
    let seconds = (start.elapsed().as_secs_f64() * 1e6).round() / 1e6;
    let Placement { offsets, height } = match &outcome {
        Outcome::Fits(placement) | Outcome::Best { placement, .. } => placement,
    };
    validate(buffers, offsets, *height).map_err(AllocError::Misplaced)?;
    let peak = peak(buffers);
    if let Outcome::Best { lower_bound, .. } = outcome {
        let (best, seconds) = (*height, time_limit);
        return Err(AllocError::DoesNotFit {
            path: file,
            capacity,
            best,
            lower_bound,
            peak,
            seconds,
        }
        .into());
    }
    let csv = table.with_offsets(offsets);
    if let Some(path) = &to {
        replace(path, |sink| sink.write_all(csv.as_bytes()))
            .map_err(|source| Error::Write { path: path.clone(), source })?;
    }
    let placed = table.ids.iter().zip(buffers).zip(offsets).map(|((id, buffer), &offset)| Placed {
        id: id.clone(),
        lower: buffer.lower,
        upper: buffer.upper,
        size: buffer.size,
        offset,
    });
    output.report(&Report {
        file: to,
        capacity_bytes: capacity,
        height_bytes: *height,
        live_bytes: peak.bytes,
        seconds,
        buffers: placed.collect(),
        csv,
    })
}

/// Does work; after a while, shows that it is being done.
fn patiently<T: Send>(output: Output, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let (done, wait) = mpsc::channel();
        scope.spawn(move || done.send(work()));
        let result = wait.recv_timeout(PATIENCE).or_else(|_| {
            let _progress = Progress::elapsed(output, "searching");
            wait.recv()
        });
        result.map_err(|_| Error::Internal("the search stopped without an answer".to_owned()))
    })
}
