//! `eyelet bench`: how fast a pack or a model is, measured for some seconds, alone or in turns with others.
//!
//! Each program under test is a process of its own (`contender`), which runs inferences when it is asked. So the kernel says of
//! each how much memory it takes, and other engines are measured by the same clock as packs.

mod contender;
mod energy;
mod report;
mod rounds;
pub(super) mod statistics;
mod subject;

use super::Error;
use super::calibrate::Calibration;
use super::files::Files;
use super::inference::Inference;
use super::model::dim;
use super::output::Output;
use super::progress::Progress;
use super::run::turns;
use clap::ValueEnum;
use contender::Contender;
use energy::Sensor;
use eyelet_planner::size;
use eyelet_tasks::set::units::time_ns;
use report::Report;
use rounds::Plan;
use std::path::PathBuf;
use std::time::Duration;
use subject::Subject;

/// Measures the latency, throughput and memory of a pack or a model.
///
/// Inferences run for some seconds, after others that are not counted. A model is planned first: into a budget, or with
/// all of its weights in memory.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// A pack, or a model to plan first.
    #[arg(value_name = "PACK|MODEL")]
    subject: PathBuf,
    /// Runs the plan of the pack with the largest budget up to this, or plans the model for it [default: the largest of
    /// the pack; for a model, as much as holds all of its weights].
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = size::parse)]
    budget: Option<u64>,
    /// Computes the shape of a pack of several that has this dimension, as in --dim seq=64.
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dim)]
    dims: Vec<(String, usize)>,
    /// Measures this pack in turns with the first, and prints the ratio of their medians. Its plan is chosen by the same
    /// --budget. Once for each.
    #[arg(long, value_name = "OTHER.pack")]
    compare: Vec<PathBuf>,
    /// Measures another engine in turns with the pack, with the same model and number of threads. Python must have it.
    #[arg(long, value_name = "ENGINE", value_enum)]
    against: Option<Engine>,
    /// How long to measure each, and 10 inferences at least.
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = time_ns)]
    duration: u64,
    /// Inferences to measure of each, however long they take.
    #[arg(long, value_name = "N", conflicts_with = "duration", value_parser = clap::value_parser!(u32).range(1..=turns::MOST as i64))]
    runs: Option<u32>,
    /// How long to run before that, and one inference at least.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = time_ns)]
    warmup: u64,
    #[command(flatten)]
    inference: Inference,
    #[command(flatten)]
    calibration: Calibration,
    /// Writes the latency of each inference.
    #[arg(long, value_name = "FILE.csv")]
    export: Option<PathBuf>,
}

/// Another engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    Onnxruntime,
}

const EXAMPLE: &str = "\
Example:
  eyelet bench resnet50.pack
  eyelet bench resnet50.pack --budget 24MiB --duration 10s --export latency.csv
  eyelet bench resnet50.pack --compare resnet50-fp16.pack
  eyelet bench resnet50.onnx --against onnxruntime";

impl Args {
    fn files(&self) -> Files {
        Files::default()
            .reads("the pack or model", [&self.subject])
            .reads("--compare", &self.compare)
            .reads_board("--slow-to-board", self.inference.pace())
            .writes("--export", &self.export)
    }

    /// How many inferences, or for how long.
    fn plan(&self) -> Plan {
        Plan {
            warmup: Duration::from_nanos(self.warmup),
            duration: Duration::from_nanos(self.duration),
            runs: self.runs,
        }
    }
}

/// Numbers those that have the name of an earlier one.
fn tell_apart(contenders: &mut [Contender]) {
    for index in 1..contenders.len() {
        let (earlier, rest) = contenders.split_at_mut(index);
        let taken = |name: &str| earlier.iter().any(|other| other.name == name);
        let name = &mut rest[0].name;
        if taken(name) {
            let free = (2..).map(|n| format!("{name} ({n})")).find(|name| !taken(name));
            *name = free.unwrap_or_default();
        }
    }
}

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    args.files().check()?;
    let subject = Subject::new(&args, output)?;
    let mut contenders = vec![subject.contender(&args)?];
    for pack in &args.compare {
        contenders.push(subject::of_pack(pack, None, &args)?);
    }
    if let Some(Engine::Onnxruntime) = args.against {
        contenders.push(subject.onnxruntime(&args)?);
    }
    tell_apart(&mut contenders);
    let sensor = Sensor::find();
    let progress = Progress::elapsed(output, "measuring");
    let measured = rounds::measure(&mut contenders, &args.plan(), sensor.as_ref())?;
    drop(progress);
    let peaks: Vec<Option<u64>> = contenders.iter().map(Contender::peak_bytes).collect();
    let outputs: Vec<String> =
        contenders.into_iter().map(Contender::finish).collect::<Result<_, _>>()?;
    let mut report = Report::new(&measured, &peaks, &outputs, sensor.as_ref())?;
    if let Some(path) = &args.export {
        report::export(path, &measured)?;
    }
    report.export = args.export;
    output.report(&report)
}
