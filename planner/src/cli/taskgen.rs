//! `eyelet taskgen`: random task sets.

use super::Error;
use super::files::Files;
use super::output::Output;
use eyelet_planner::replace::replace;
use eyelet_tasks::generate::{self, harder, table3, uniform};
use eyelet_tasks::set::TaskSet;
use serde::Serialize;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;

/// Draws a random task set; the same numbers give the same set everywhere.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// How sets are drawn.
    #[arg(long, value_enum, default_value_t = Kind::Uniform)]
    kind: Kind,
    /// Which random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Which of the sets with this seed.
    #[arg(long, default_value_t = 0)]
    index: u64,
    /// Number of tasks.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    tasks: u64,
    /// Part of the time that the tasks compute (all but table3).
    #[arg(long, default_value_t = 0.5, value_parser = part)]
    load: f64,
    /// Part of all bytes that does not fit the memory (all but table3).
    #[arg(long, default_value_t = 0.25, value_parser = part)]
    overflow: f64,
    /// Where to write the set [default: standard output].
    #[arg(short, long, value_name = "SET.toml")]
    output: Option<PathBuf>,
}

/// How sets are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Shares of the load by UUniFast, periods from 20 ms to 1 s.
    Uniform,
    /// Periods from 50 to 500 ms, storage at 2.5 GB/s.
    Harder,
    /// Networks of RT-Swap's Table III on a GPU of 24 GB; 4 to 13 tasks.
    Table3,
}

const EXAMPLE: &str = "\
Example:
  eyelet taskgen --tasks 6 --load 0.4 --seed 7 -o set.toml && eyelet schedule set.toml";

fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if (0.0..1.0).contains(&part) => Ok(part),
        _ => Err(format!("`{text}` is not a part: write a number from 0 to below 1, such as 0.25")),
    }
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    tasks: usize,
    memory_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<String>,
}

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    Files::default().writes("--output", &args.output).check()?;
    let (set, chunks) = draw(&args);
    let text = generate::toml::to_toml(&set, &chunks);
    let mut report = Report {
        file: args.output.clone(),
        tasks: set.tasks.len(),
        memory_bytes: set.memory_bytes,
        set: None,
    };
    match &args.output {
        Some(path) => replace(path, |file| file.write_all(text.as_bytes()))
            .map_err(|source| Error::Write { path: path.clone(), source })?,
        None => report.set = Some(text),
    }
    output.report(&report)
}

fn draw(args: &Args) -> (TaskSet, Vec<u64>) {
    let tasks = usize::try_from(args.tasks).unwrap_or(usize::MAX);
    match args.kind {
        Kind::Harder => {
            (harder::set(args.load, args.overflow, args.seed, args.index), harder::CHUNKS.to_vec())
        }
        Kind::Table3 => {
            let sets = table3::growing(args.seed, args.index);
            let drawn = &sets[tasks.clamp(4, 13) - 4];
            (drawn.set(1.0, true), table3::CHUNKS.to_vec())
        }
        Kind::Uniform => {
            let shape = uniform::Shape {
                tasks,
                load: args.load,
                least_period_ms: 20.0,
                most_period_ms: 1000.0,
                least_bytes: 1_000_000,
                most_bytes: 100_000_000,
                swappable: 0.9,
                overflow: args.overflow,
                step: 0.1,
                bytes_per_second: 1_000_000_000,
                writes: false,
            };
            let mut random = generate::random(args.seed, args.index);
            (uniform::draw(&shape, &mut random), vec![1_000_000, 256_000, 4_000_000])
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.set, &self.file) {
            (Some(set), _) => write!(f, "{set}"),
            (None, file) => {
                let path = file.as_ref().map_or(String::new(), |path| path.display().to_string());
                writeln!(f, "{path}: {} tasks in {} bytes", self.tasks, self.memory_bytes)
            }
        }
    }
}
