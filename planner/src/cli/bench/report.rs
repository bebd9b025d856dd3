//! What `bench` reports.

use super::super::error::BenchError;
use super::energy::{Energy, Sensor};
use super::rounds::Measured;
use super::statistics::{Bin, Latency, histogram, percentile};
use crate::cli::Error;
use crate::cli::pin::listed;
use crate::cli::terminal;
use eyelet_planner::replace::replace;
use eyelet_planner::size;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// The report.
#[derive(Debug, Serialize)]
pub struct Report {
    programs: Vec<Program>,
    /// Of every other program to the first.
    ratios: Vec<Ratio>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export: Option<PathBuf>,
}

/// A program that was measured.
#[derive(Debug, Serialize)]
struct Program {
    name: String,
    /// None of another engine.
    pack: Option<Ran>,
    /// The version of another engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    inferences: usize,
    latency_ms: Latency,
    /// Inferences a second, with what the host does between two.
    throughput: f64,
    /// Of the process, as the kernel counts it.
    peak_rss_bytes: Option<u64>,
    /// An inference's, if there is a sensor that may be read.
    energy: Option<Energy>,
    histogram: Vec<Bin>,
}

/// What `eyelet run` says of a pack.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ran {
    network: String,
    strategy: String,
    budget_bytes: u64,
    arena_bytes: u64,
    threads: u32,
    io: String,
    bytes_read_per_inference: u64,
    predicted_ms: Option<f64>,
    page_cache_bytes: Option<u64>,
    output_digest: String,
    /// Where a board names cores: which computed, and which read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compute_cores: Option<Vec<usize>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    loader_core: Option<usize>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// What another engine says.
#[derive(Debug, Deserialize)]
struct Engine {
    version: String,
}

/// How many times as long a program takes as the first.
#[derive(Debug, PartialEq, Serialize)]
struct Ratio {
    name: String,
    first: String,
    of_medians: f64,
    /// Of the medians of single rounds.
    least: f64,
    most: f64,
    rounds: usize,
}

impl Report {
    /// Of what was measured, with the most memory of each program and what each told at the end.
    pub fn new(
        measured: &[Measured],
        peaks: &[Option<u64>],
        printed: &[String],
        sensor: Option<&Sensor>,
    ) -> Result<Self, Error> {
        let programs = measured.iter().zip(peaks).zip(printed);
        let programs = programs.map(|((measured, peak), printed)| {
            let sorted = sorted(&measured.latencies_ns);
            let seconds = measured.elapsed_ns.max(1) as f64 / 1e9;
            let energy = sensor.zip(measured.joules).map(|(sensor, joules)| sensor.energy(joules));
            let (pack, version) = match serde_json::from_str::<Engine>(printed) {
                Ok(engine) => (None, Some(engine.version)),
                Err(_) => (Some(of_pack(&measured.name, printed)?), None),
            };
            Ok(Program {
                name: measured.name.clone(),
                pack,
                version,
                inferences: sorted.len(),
                latency_ms: Latency::of(&sorted),
                throughput: sorted.len() as f64 / seconds,
                peak_rss_bytes: *peak,
                energy,
                histogram: histogram(&sorted),
            })
        });
        let programs = programs.collect::<Result<_, Error>>()?;
        let others = measured.iter().skip(1);
        let ratios = others.map(|other| Ratio::of(other, &measured[0])).collect();
        Ok(Self { programs, ratios, export: None })
    }
}

fn of_pack(name: &str, printed: &str) -> Result<Ran, Error> {
    let failed = |error: serde_json::Error| BenchError::Contender {
        name: name.to_owned(),
        message: error.to_string(),
    };
    Ok(serde_json::from_str(printed).map_err(failed)?)
}

fn sorted(ns: &[u64]) -> Vec<u64> {
    let mut sorted = ns.to_vec();
    sorted.sort_unstable();
    sorted
}

impl Ratio {
    fn of(other: &Measured, first: &Measured) -> Self {
        let ratio = |other: u64, first: u64| other as f64 / first.max(1) as f64;
        let medians = [other, first].map(|one| percentile(&sorted(&one.latencies_ns), 50));
        let rounds = other.medians_ns.iter().zip(&first.medians_ns);
        let of_rounds: Vec<f64> = rounds.map(|(other, first)| ratio(*other, *first)).collect();
        Self {
            name: other.name.clone(),
            first: first.name.clone(),
            of_medians: ratio(medians[0], medians[1]),
            least: of_rounds.iter().copied().fold(f64::INFINITY, f64::min),
            most: of_rounds.iter().copied().fold(0.0, f64::max),
            rounds: of_rounds.len(),
        }
    }
}

/// Writes the latency of each inference.
pub fn export(path: &Path, measured: &[Measured]) -> Result<(), Error> {
    let failed = |source: std::io::Error| Error::Write { path: path.to_owned(), source };
    replace(path, |sink| {
        let mut csv = csv::Writer::from_writer(sink);
        csv.write_record(["program", "inference", "latency_ns"])?;
        for one in measured {
            for (number, ns) in (1u64..).zip(&one.latencies_ns) {
                csv.write_record([&one.name, &number.to_string(), &ns.to_string()])?;
            }
        }
        csv.flush()
    })
    .map_err(failed)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, program) in self.programs.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{program}")?;
        }
        if !self.ratios.is_empty() {
            writeln!(f)?;
        }
        for Ratio { name, first, of_medians, least, most, rounds } in &self.ratios {
            writeln!(
                f,
                "{name} takes {of_medians:.3} times as long as {first}, by the medians ({least:.3} to {most:.3} in \
                 {rounds} rounds)"
            )?;
        }
        match &self.export {
            Some(path) => writeln!(f, "wrote {}", path.display()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.title(f)?;
        let Latency { min, mean, p50, p90, p99, max } = self.latency_ms;
        writeln!(f, "latency      {p50:.3} ms (median of {}), mean {mean:.3}", self.inferences)?;
        writeln!(
            f,
            "             90 % within {p90:.3} ms, 99 % within {p99:.3}; {min:.3} to {max:.3}"
        )?;
        if let Some(ms) = self.pack.as_ref().and_then(|pack| pack.predicted_ms) {
            writeln!(f, "             {ms:.3} ms predicted")?;
        }
        writeln!(f, "throughput   {:.1} inferences a second", self.throughput)?;
        let peak = self.peak_rss_bytes.map_or("unknown".to_owned(), size::human);
        match &self.pack {
            Some(pack) => writeln!(
                f,
                "memory       {peak} of the process at most, its arena of {} included",
                size::human(pack.arena_bytes)
            )?,
            None => writeln!(f, "memory       {peak} of the process at most, Python included")?,
        }
        if let Some(Energy { of, joules }) = &self.energy {
            let watts = joules * self.throughput;
            writeln!(f, "energy       {joules:.4} J an inference, {watts:.1} W ({of})")?;
        }
        self.bars(f)
    }
}

impl Program {
    fn title(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(pack) = &self.pack else {
            let version = self.version.as_deref().unwrap_or("of unknown version");
            return writeln!(f, "{} ({version})", self.name);
        };
        writeln!(
            f,
            "{}: {}, {}, {} thread{}, {} I/O, {} read each inference",
            self.name,
            pack.network,
            pack.strategy,
            pack.threads,
            if pack.threads == 1 { "" } else { "s" },
            pack.io,
            size::human(pack.bytes_read_per_inference)
        )?;
        if let Some(cores) = &pack.compute_cores {
            writeln!(f, "{}", listed(cores, pack.loader_core))?;
        }
        pack.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }

    /// The histogram.
    fn bars(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.histogram.iter().map(|bin| bin.inferences).max().unwrap_or(0).max(1);
        let label = |bin: &Bin| format!("{:.3} to {:.3}", bin.from_ms, bin.to_ms);
        let labels = self.histogram.iter().map(|bin| label(bin).len());
        let width = labels.max().unwrap_or(0);
        let digits = most.to_string().len().max("inferences".len());
        let room = terminal::columns().saturating_sub(width + digits + 4).min(60);
        writeln!(f, "\n{:>width$}  {:>digits$}", "ms", "inferences")?;
        for bin in &self.histogram {
            let length = (bin.inferences * room).div_ceil(most);
            writeln!(
                f,
                "{:>width$}  {:>digits$}  {}",
                label(bin),
                bin.inferences,
                "#".repeat(length)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &str, each: &[u64]) -> Measured {
        Measured {
            name: name.to_owned(),
            latencies_ns: each.to_vec(),
            elapsed_ns: each.iter().sum(),
            joules: None,
            medians_ns: each.to_vec(),
        }
    }

    #[test]
    fn ratios_are_to_the_first() {
        let first = measured("a", &[10, 20, 30]);
        let other = measured("b", &[20, 20, 90]);
        let ratio = Ratio::of(&other, &first);
        assert_eq!((ratio.of_medians, ratio.least, ratio.most, ratio.rounds), (1.0, 1.0, 3.0, 3));
    }

    #[test]
    fn an_engine_is_told_from_a_pack() {
        let two = [measured("a", &[1_000_000]), measured("b", &[2_000_000])];
        let pack = r#"{"network":"n","strategy":"joint","budget_bytes":1,"arena_bytes":2048,"threads":1,
            "io":"direct","bytes_read_per_inference":0,"predicted_ms":null,"page_cache_bytes":null,
            "output_digest":"0","compute_cores":[4],"loader_core":0,"notes":["cold"]}"#;
        let printed = [pack.to_owned(), r#"{"version":"1.20"}"#.to_owned()];
        let report = Report::new(&two, &[Some(4096), None], &printed, None).unwrap();
        let text = report.to_string();
        for part in [
            "a: n, joint, 1 thread,",
            "b (1.20)",
            "1000.0 inferences",
            "4 KiB",
            "b takes 2.000",
            "core 4 computes, core 0 loads\n",
            "note: cold\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            Report::new(&two, &[None, None], &["{}".to_owned(), printed[1].clone()], None).is_err()
        );
    }
}
