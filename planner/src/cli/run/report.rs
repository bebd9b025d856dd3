//! What `run` tells.

use super::device::Gpu;
use super::layers::{self, LayerTimes};
use crate::cli::output::{milliseconds, plural, shape};
use crate::cli::pictures::{Seen, Unread};
use crate::cli::pin::listed;
use eyelet_planner::size;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// Times in milliseconds are of one inference; medians where nothing else is said.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub network: String,
    /// The name of its shape, of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    pub strategy: String,
    pub budget_bytes: u64,
    pub arena_bytes: u64,
    pub threads: u32,
    pub io: &'static str,
    /// The board or profile whose storage reads were as slow as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_to_board: Option<PathBuf>,
    /// Reads under way at once, at most; not known of a GPU, whose staging buffers are read into one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// The core where loads were read: the one that the board names, or that the storage's interrupts come to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loader_core: Option<usize>,
    /// The cores of the threads that computed, where a board names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_cores: Option<Vec<usize>>,
    pub verify: bool,
    pub runs: u32,
    pub warmup: u32,
    /// From the last input written to the outputs there.
    pub latency_ms: Spread,
    /// With the host's turn: writing inputs, digesting outputs.
    pub period_ms: f64,
    pub compute_ms: f64,
    pub stall_ms: f64,
    pub open_ms: f64,
    /// Latency of the very first inference.
    pub first_ms: f64,
    /// Of the steady state, by the planner.
    pub predicted_ms: Option<f64>,
    /// The threads that the prediction is for, where this run had another number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_threads: Option<u32>,
    /// Where the latency is far from the prediction, and the costs of this machine are known: what is the machine's part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    pub bytes_read_per_inference: u64,
    pub resident_bytes: u64,
    /// None of these three where the system does not say.
    pub peak_rss_bytes: Option<u64>,
    pub rss_before_bytes: Option<u64>,
    pub page_cache_bytes: Option<u64>,
    pub output_digest: String,
    pub outputs: Vec<Tensor>,
    /// What the owner of the inputs should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Files that were written besides the outputs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<Speed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Gpu>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<Vec<LayerTimes>>,
    /// What was found in pictures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<Seen>,
    /// Pictures of a folder that could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
}

/// How fast the processor was during the inferences.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Speed {
    /// Rates of the probe just before and after all inferences: the lowest, the median, the highest.
    pub min_gflops: f64,
    pub median_gflops: f64,
    pub max_gflops: f64,
    /// The inferences, in turn.
    pub inferences: Vec<Probed>,
}

/// One inference, and the probe's rates just before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Probed {
    pub latency_ms: f64,
    pub before_gflops: f64,
    pub after_gflops: f64,
}

impl Speed {
    pub fn of(inferences: Vec<Probed>) -> Self {
        let rates = inferences.iter().flat_map(|one| [one.before_gflops, one.after_gflops]);
        let mut rates: Vec<f64> = rates.collect();
        rates.sort_unstable_by(f64::total_cmp);
        let at = |index: usize| rates.get(index).copied().unwrap_or(0.0);
        let last = rates.len().saturating_sub(1);
        Self {
            min_gflops: at(0),
            median_gflops: at(last / 2).midpoint(at(rates.len() / 2)),
            max_gflops: at(last),
            inferences,
        }
    }
}

/// What of a latency is due to a processor that is slower or faster than when its costs were measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Rates of the probe on the run's threads: when the costs were measured, and after the inferences.
    #[serde(skip)]
    pub threads: u32,
    pub measured_gflops: f64,
    pub gflops: f64,
    /// Milliseconds of the latency that were not there at the measured rate; less than 0 if it is faster now.
    pub more_ms: f64,
}

impl Machine {
    /// Of so much computing.
    pub fn of(compute_ms: f64, threads: u32, measured_gflops: f64, gflops: f64) -> Self {
        let more_ms = compute_ms * (1.0 - gflops / measured_gflops);
        Self { threads, measured_gflops, gflops, more_ms: (more_ms * 1e3).round() / 1e3 }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { threads, measured_gflops, gflops, more_ms } = self;
        let on = if *threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
        let less = if *more_ms < 0.0 { "less" } else { "more" };
        write!(
            f,
            "{:.2} ms {less} since the processor computes {gflops:.1} GFLOP/s on {on} now, and {measured_gflops:.1} \
             when its costs were measured",
            more_ms.abs()
        )
    }
}

/// An output.
#[derive(Debug, Serialize)]
pub struct Tensor {
    pub name: String,
    pub shape: Vec<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

/// Samples in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

impl Spread {
    /// Of samples in nanoseconds, which are sorted.
    pub fn of(ns: &mut [u64]) -> Self {
        ns.sort_unstable();
        let at = |index: usize| ns.get(index).copied().unwrap_or(0);
        let (half, last) = (ns.len() / 2, ns.len().saturating_sub(1));
        let median = match ns.len() % 2 {
            0 if half > 0 => at(half - 1).midpoint(at(half)),
            _ => at(half),
        };
        Self { min: milliseconds(at(0)), median: milliseconds(median), max: milliseconds(at(last)) }
    }
}

/// A size that may not be known.
pub fn known(bytes: Option<u64>) -> String {
    bytes.map_or("unknown bytes".to_owned(), size::human)
}

/// FNV-1a, 64 bits, over the bytes of all outputs in order (little-endian floats).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    pub fn add(&mut self, floats: &[f32]) {
        for byte in floats.iter().flat_map(|x| x.to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Names the shape of a network, of several.
pub fn of_shape(shape: Option<&String>) -> String {
    shape.map_or(String::new(), |shape| format!(" ({shape})"))
}

impl Report {
    /// What was run, and how.
    fn heading(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_board = self.slow_to_board.as_ref();
        writeln!(
            f,
            "{}{}: budget {} ({}), {} thread{}, {} I/O{}{}",
            self.network,
            of_shape(self.shape.as_ref()),
            size::human(self.budget_bytes),
            self.strategy,
            self.threads,
            plural(self.threads),
            self.io,
            of_board.map_or(String::new(), |pace| format!(" as of {}", pace.display())),
            if self.verify { "" } else { ", checksums not compared" }
        )
    }

    /// How long it took.
    fn times(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread { min, median, max } = self.latency_ms;
        let runs = self.runs;
        writeln!(
            f,
            "latency      {median:.2} ms (median of {runs}, {min:.2} to {max:.2}): {:.2} computing, \
             {:.2} waiting for weights",
            self.compute_ms, self.stall_ms
        )?;
        let threads = self
            .predicted_threads
            .map_or(String::new(), |threads| format!(" for {threads} thread{}", plural(threads)));
        let predicted =
            self.predicted_ms.map_or(String::new(), |ms| format!(", {ms:.2} predicted{threads}"));
        writeln!(
            f,
            "             {:.2} ms the first, {:.2} ms to open{predicted}",
            self.first_ms, self.open_ms
        )?;
        self.machine.map_or(Ok(()), |machine| writeln!(f, "             {machine}"))
    }

    /// The memory of the arena and of the process.
    fn memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arena = size::human(self.arena_bytes);
        let (process, cached) = (known(self.peak_rss_bytes), known(self.page_cache_bytes));
        match &self.gpu {
            None => writeln!(
                f,
                "memory       {process} of the process at most, its arena of {arena} included; {cached} of the pack in the \
                 page cache"
            ),
            Some(gpu) => writeln!(
                f,
                "{gpu}, arena of {arena}; {process} of the process at most, {cached} of the pack in the page cache"
            ),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.heading(f)?;
        self.times(f)?;
        writeln!(
            f,
            "read         {} each inference, {} stay",
            size::human(self.bytes_read_per_inference),
            size::human(self.resident_bytes)
        )?;
        if let Some(cores) = &self.compute_cores {
            writeln!(f, "cores        {}", listed(cores, self.loader_core))?;
        }
        self.memory(f)?;
        if let Some(Speed { min_gflops, median_gflops, max_gflops, .. }) = &self.speed {
            writeln!(
                f,
                "speed        {median_gflops:.1} GFLOP/s during the inferences ({min_gflops:.1} to {max_gflops:.1}), on one \
                 thread"
            )?;
        }
        writeln!(f, "digest       {}", self.output_digest)?;
        for output in &self.outputs {
            let file = output.file.as_ref();
            let file = file.map_or(String::new(), |file| format!(", {}", file.display()));
            writeln!(f, "output       {} {}{file}", output.name, shape(&output.shape))?;
        }
        self.pictures.iter().try_for_each(|seen| write!(f, "{seen}"))?;
        self.unread.iter().try_for_each(|unread| writeln!(f, "not read: {}", unread.error))?;
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))?;
        self.files.iter().try_for_each(|path| writeln!(f, "wrote {}", path.display()))?;
        self.layers.as_deref().map_or(Ok(()), |layers| layers::table(layers, f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_even_and_odd() {
        let spread = |ns: &mut [u64]| Spread::of(ns);
        assert_eq!(spread(&mut []), Spread::default());
        let of_three = Spread { min: 1.0, median: 2.0, max: 5.0 };
        assert_eq!(spread(&mut [5_000_000, 1_000_000, 2_000_000]), of_three);
        assert_eq!(spread(&mut [4_000_000, 1_000_000]).median, 2.5);
    }

    #[test]
    fn the_probe_has_its_rates_before_and_after_each_inference() {
        let inference =
            |before_gflops, after_gflops| Probed { latency_ms: 1.0, before_gflops, after_gflops };
        let inferences = vec![inference(80.0, 40.0), inference(40.0, 60.0)];
        let speed = Speed::of(inferences.clone());
        assert_eq!([speed.min_gflops, speed.median_gflops, speed.max_gflops], [40.0, 50.0, 80.0]);
        assert_eq!(speed.inferences, inferences);
        assert_eq!(Speed::of(Vec::new()), Speed::default());
    }

    #[test]
    fn a_slower_processor_has_its_part_of_the_latency() {
        let machine = Machine::of(90.0, 1, 100.0, 60.0);
        assert_eq!(machine.more_ms, 36.0);
        let text = machine.to_string();
        assert!(text.starts_with("36.00 ms more since the processor computes 60.0"), "{text}");
        assert!(Machine::of(90.0, 2, 50.0, 60.0).to_string().starts_with("18.00 ms less"));
    }

    #[test]
    fn the_digest_is_fnv_1a_of_the_bytes() {
        // "foobarba" in two floats.
        let mut digest = Digest::default();
        digest.add(&[f32::from_le_bytes(*b"foob"), f32::from_le_bytes(*b"arba")]);
        let expected = b"foobarba".iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        assert_eq!(digest.to_string(), format!("{expected:016x}"));
        assert_ne!(digest, Digest::default());
    }
}
