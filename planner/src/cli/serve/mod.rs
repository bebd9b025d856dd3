//! `eyelet serve`: runs a task set on this machine, by the clock.
//!
//! First every network runs alone, and some chunks are read. With these times plans and volumes are chosen. The set is
//! rehearsed, and the test judges it with the times of that. Then jobs are released when they arrive.

mod arrivals;
mod by_clock;
mod costs;
mod execute;
mod host;
mod inject;
mod live;
mod machine;
mod maps;
mod measure;
mod measured;
mod packs;
mod prepare;
mod rehearse;
mod report;
mod samples;
mod solo;
mod sweep;
mod threads;
mod trace;
mod wanted;
mod watch;

use super::Error;
use super::calibrate::Calibration;
use super::error::SetsError;
use super::files::Files;
use super::first::First;
use super::output::Output;
use super::pin::{Pin, Pinned};
use super::schedule::read_set;
use super::set_file::{self, is_set_file};
use arrivals::Kind;
use costs::Refused;
use execute::{Outcome, execute};
use eyelet::device::workers::MAX_THREADS;
use eyelet_planner::cores::Cores;
use eyelet_planner::leftovers;
use eyelet_planner::source::Io;
use eyelet_tasks::set::decided::Decided;
use eyelet_tasks::set::units::duration_ns;
use inject::{Faults, Inject};
use measure::How;
use measured::Measured;
use packs::Packs;
use prepare::{Prepared, Stage, prepare};
use report::{Report, Run};
use samples::Rule;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use solo::Solo;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use wanted::Wanted;

/// Runs several networks in one memory on this machine, each job by its deadline, and prints response times, misses and
/// memory.
///
/// Every network is measured alone first, to choose plans and volumes by medians. Then the set is rehearsed: it runs with jobs that
/// come closer, until every network has had 1000 jobs and 1000 chunks were read, or the time of --rehearsal is over. Of n
/// samples of a step, a job or a chunk counts median + d x ln 1e9 / ln n, at least worst x (1.25 + 1 / sqrt n). d is
/// worst - median, or the largest such distance of all steps of the set, with their n, if that makes more. So fewer samples
/// give more room. The test judges the set with these times. A set that it refuses is not run. Inputs are pseudo-random, as `eyelet run` makes them. The outputs of every job are compared with
/// those of the network alone.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The file that `eyelet schedule -o` has written, or a set whose tasks have packs or models.
    #[arg(value_name = "SET.pack|SET.toml")]
    set: PathBuf,
    /// How long jobs are released.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration_ns)]
    duration: u64,
    /// Releases none after so many jobs have ended.
    #[arg(long, value_name = "N")]
    jobs: Option<u64>,
    /// Compute threads.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=MAX_THREADS as i64))]
    threads: u32,
    #[command(flatten)]
    pin: Pin,
    #[command(flatten)]
    first: First,
    #[command(flatten)]
    calibration: Calibration,
    /// How weights are read: past the page cache, through it, or from a map of the whole pack.
    #[arg(long, value_enum, default_value_t = Io::Direct)]
    io: Io,
    /// What the worst measured times are multiplied with before the test [default: as said above].
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    margin: Option<f64>,
    /// How long the set is rehearsed at most. With 0s it is not, and times of networks alone count.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = duration_ns)]
    rehearsal: u64,
    /// Inferences of each network alone that are measured.
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    alone: u32,
    /// Runs the set even if the test refuses it.
    #[arg(long)]
    anyway: bool,
    /// Jobs arrive at random (a Poisson process), one a period in the mean. The test covers no such arrivals. Jobs that
    /// have to wait are served in the order in which they arrived.
    #[arg(long)]
    poisson: bool,
    /// Which random offsets, jitter and arrivals.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What goes wrong on purpose: overload=TASK:2x (steps take twice as long), late=TASK:5ms (jobs are released late),
    /// io=TASK:every:100 (every hundredth read fails). May be given several times.
    #[arg(long, value_name = "FAULT", value_parser = Inject::parse)]
    inject: Vec<Inject>,
    /// Writes the timeline for Perfetto (ui.perfetto.dev) or chrome://tracing: a track for each task, one for the loader,
    /// and chunks in memory.
    #[arg(long, value_name = "FILE.json", conflicts_with = "rates")]
    trace: Option<PathBuf>,
    /// Serves requests at these rates, in jobs a second of all networks together, one after the other, each for
    /// --duration. Prints latency by throughput. Requests arrive at random.
    #[arg(long, value_name = "RATE", value_delimiter = ',', value_parser = rate, conflicts_with_all = ["inject", "jobs"])]
    rates: Vec<f64>,
    /// With --rates: so many networks, one number after the other. The tasks of the set take turns [default: those of
    /// the set].
    #[arg(long, value_name = "N", value_delimiter = ',', requires = "rates", conflicts_with = "trace",
        value_parser = clap::value_parser!(u32).range(1..=execute::MOST_TASKS as i64))]
    networks: Vec<u32>,
}

const EXAMPLE: &str = "\
Example:
  eyelet serve set.toml --duration 60s --trace set.json
  eyelet serve set.toml --inject overload=camera:2x --jobs 1000
  eyelet serve set.toml --rates 1,2,5,10 --networks 1,4,16 --duration 30s";

/// A factor of at least one.
fn factor(text: &str) -> Result<f64, String> {
    let found = text.parse::<f64>().ok().filter(|factor| (1.0..=100.0).contains(factor));
    found.ok_or_else(|| format!("`{text}` is no factor: write a number from 1 to 100, such as 1.5"))
}

/// Jobs a second.
fn rate(text: &str) -> Result<f64, String> {
    let found = text.parse::<f64>().ok().filter(|rate| (1e-3..=1e6).contains(rate));
    found.ok_or_else(|| {
        format!("`{text}` is no rate: write jobs a second, from 0.001 to 1000000, such as 2.5")
    })
}

/// What worst times alone are multiplied with for --rates, where the test does not decide.
const RATES_MARGIN: f64 = 1.5;

impl Args {
    fn how(&self, cores: Option<Cores>) -> How {
        let &Self { io, threads, first, margin, alone, .. } = self;
        let rule = margin.map_or(Rule::Tail, Rule::Margin);
        let rough = match (self.rates.is_empty(), self.rehearsal) {
            (false, _) => Rule::Margin(margin.unwrap_or(RATES_MARGIN)),
            (true, 0) => rule,
            // Whether that is too little is for the rehearsal to say.
            (true, _) => Rule::Median,
        };
        How { io, threads, cores, first, runs: alone, rule, rough }
    }

    fn kind(&self) -> Kind {
        if self.poisson { Kind::Poisson } else { Kind::Periodic }
    }
}

/// What a set's file says.
enum Set {
    /// All that is decided for it, in a file with its packs.
    Decided(Decided),
    /// Text.
    Declared(String),
}

impl Set {
    fn read(args: &Args) -> Result<Self, Error> {
        let file = &args.set;
        let files = Files::default().reads("the task set", [file]);
        let files = files.reads_board("--pin", args.pin.pin.as_deref());
        let files = files.writes("--trace", &args.trace);
        files.check()?;
        if is_set_file(file) {
            return Ok(Self::Decided(set_file::read(file)?));
        }
        let text = read_set(file)?;
        files.reads_set(file, &text).check()?;
        Ok(Self::Declared(text))
    }
}

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    let set = Set::read(&args)?;
    let file = &args.set;
    // A signal ends the run, not the command: the report is printed, and what is left behind is removed at the end.
    leftovers::before_any(|| {});
    let stop = on_signals();
    let Pinned { cores, note } = args.pin.find(args.threads)?;
    if let Some(note) = &note {
        output.line(format_args!("note: {note}"))?;
    }
    let mut measured = Measured::new(args.how(cores));
    if !args.rates.is_empty() {
        return match set {
            Set::Decided(_) => Err(SetsError::RatesOfDecided { path: file.clone() }.into()),
            Set::Declared(text) => sweep::run(&args, (file, &text), measured, &stop, output),
        };
    }
    let injected = |names: &[&str]| inject::faults(names, &args.inject);
    let packs = Packs::new(args.calibration, output);
    let stage = Stage {
        most_ns: args.rehearsal,
        anyway: args.anyway,
        seed: args.seed,
        stop: &stop,
        output,
    };
    let prepared = match prepare(file, set, injected, &mut measured, packs, &stage) {
        Err(Error::Sets(error @ SetsError::NotSchedulable { .. })) => {
            return refuse(error, &measured, output);
        }
        prepared => prepared?,
    };
    let Prepared { decided, faults, refused, .. } = &prepared;
    inject::reads(decided, faults)
        .map_err(|reason| SetsError::Serve { path: file.clone(), reason })?;
    if let Some(change) = refused.as_ref().filter(|_| !args.anyway) {
        let change = format!("{change}, or run it all the same with --anyway");
        let error = SetsError::NotSchedulable { path: file.clone(), change };
        return refuse(error, &measured, output);
    }
    let outcome = execute(&args.wanted(&prepared, &measured, faults.clone(), &stop, output))?;
    let traced = match &args.trace {
        Some(to) => write_trace(to, &prepared, &outcome),
        None => Ok(()),
    };
    let run = Run {
        decided,
        admitted: refused.is_none(),
        threads: args.threads,
        compute_cores: measured.how.cores.as_ref().and_then(Cores::of_workers),
        notes: note.into_iter().collect(),
        io: args.io.name(),
        arrivals: if args.poisson { report::POISSON } else { report::PERIODIC },
        seed: args.seed,
        costs: measured.costs(),
    };
    let solos: Vec<&Solo> =
        decided.packs.iter().filter_map(|planned| measured.solo(planned)).collect();
    // The jobs are done, whatever became of their timeline.
    output.report(&Report::new(&run, &solos, outcome))?;
    traced
}

/// Reports what was measured of a set that is refused.
fn refuse(error: SetsError, measured: &Measured, output: Output) -> Result<(), Error> {
    let (admitted, costs) = (false, measured.costs());
    output.report(&Refused { admitted, error: error.to_string(), costs })?;
    Err(error.into())
}

impl Args {
    fn wanted<'a>(
        &self,
        prepared: &'a Prepared,
        measured: &'a Measured,
        faults: Vec<Faults>,
        stop: &'a AtomicBool,
        output: Output,
    ) -> Wanted<'a> {
        Wanted {
            decided: &prepared.decided,
            measured,
            how: measured.how.clone(),
            arrivals: self.kind(),
            seed: self.seed,
            duration_ns: self.duration,
            jobs: self.jobs,
            samples: None,
            faults,
            trace: self.trace.is_some(),
            stop,
            output,
        }
    }
}

fn write_trace(to: &std::path::Path, prepared: &Prepared, outcome: &Outcome) -> Result<(), Error> {
    let tasks = &prepared.decided.set.tasks;
    let names: Vec<String> = tasks.iter().map(|task| task.name.clone()).collect();
    let deadlines: Vec<u64> =
        tasks.iter().map(|task| task.deadline_ns.saturating_sub(task.jitter_ns)).collect();
    trace::write(to, &names, &deadlines, &outcome.events)
}

/// A flag that the first signal to end sets. The second ends the command.
fn on_signals() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Where that is not possible, signals end the command as they always do.
        let _ = flag::register_conditional_shutdown(signal, 128 + signal, stop.clone());
        let _ = flag::register(signal, stop.clone());
    }
    stop
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_and_rates_have_bounds() {
        assert_eq!((factor("1.5"), rate("2.5")), (Ok(1.5), Ok(2.5)));
        for text in ["", "0.5", "x", "inf", "NaN", "1e9"] {
            assert!(factor(text).unwrap_err().contains("such as 1.5"), "{text}");
        }
        for text in ["", "0", "-1", "NaN", "inf"] {
            assert!(rate(text).unwrap_err().contains("jobs a second"), "{text}");
        }
    }
}
