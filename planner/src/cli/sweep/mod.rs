//! `eyelet sweep`: predicted latency over the budget, for every strategy.
//!
//! Each point is what `eyelet plan` would make of that one budget, with the same effort: algorithms are chosen for it alone.
//! Nothing is written but the curve.

mod chart;

use super::Error;
use super::model::Reading;
use super::output::{Output, milliseconds};
use super::plan::{encoding, lower};
use super::progress::Progress;
use super::target::Target;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use eyelet::pack::{Encoding, PAGE, STRATEGIES};
use eyelet_planner::board::Device;
use eyelet_planner::bound::lower_bound_ns;
use eyelet_planner::network::Network;
use eyelet_planner::replace::replace;
use eyelet_planner::size;
use eyelet_planner::strategy::algorithms::bound_of_all_ns;
use eyelet_planner::strategy::choose::choose;
use eyelet_planner::strategy::{Effort, PackRequest, PlanError, PlanResult, Strategy};
use serde::Serialize;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Predicts a model's latency for many budgets, by every strategy, without writing a pack.
///
/// Budgets are spaced evenly on a logarithmic scale. Where a strategy has no plan for a budget, the point is
/// marked as infeasible, with the smallest budget that the strategy can be given.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The model.
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// The smallest and the largest budget.
    #[arg(long, value_name = "SIZE..SIZE", value_parser = range)]
    budgets: (u64, u64),
    /// Budgets, the two ends included.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=1000))]
    points: u32,
    /// Strategies to compare, separated by commas [default: all].
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = PossibleValuesParser::new(STRATEGIES).try_map(|name| name.parse::<Strategy>()))]
    strategies: Vec<Strategy>,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    target: Target,
    /// Computes each layer by the direct algorithm.
    #[arg(long)]
    exact: bool,
    /// How long to search for each point, as `eyelet plan` does.
    #[arg(long, value_name = "EFFORT", default_value = "fast")]
    effort: Effort,
    /// How weights are stored: fp32, fp16, bf16 or int8.
    #[arg(long, value_name = "TYPE", default_value = "fp32", value_parser = encoding)]
    weights: Encoding,
    /// Where to write the curve, as its extension says: .csv, .json or .svg. May be given several times.
    #[arg(short, long, value_name = "FILE", value_parser = destination)]
    output: Vec<Destination>,
}

const EXAMPLE: &str = "\
Example:
  eyelet sweep resnet152.onnx --budgets 8MiB..256MiB -o curve.svg -o curve.csv
  eyelet sweep vgg19.onnx --budgets 16MiB..1GiB --points 24 --strategies flexnn,preload --json

Exit codes: 0 when the curve is there, also if no point of it is feasible; 1 on an error; 2 when the
command line makes no sense.";

/// `8MiB..256MiB`.
fn range(text: &str) -> Result<(u64, u64), String> {
    let (low, high) = text
        .split_once("..")
        .ok_or_else(|| format!("`{text}` is no range of sizes: write one such as 8MiB..256MiB"))?;
    let (low, high) = (size::parse(low)?, size::parse(high)?);
    match low < high {
        true => Ok((low, high)),
        false => Err(format!("`{text}` is empty: the smaller size comes first")),
    }
}

/// A file of the curve.
#[derive(Clone, Debug)]
struct Destination {
    path: PathBuf,
    form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Csv,
    Json,
    Svg,
}

fn destination(text: &str) -> Result<Destination, String> {
    let path = PathBuf::from(text);
    let form = match path.extension().and_then(|found| found.to_str()) {
        Some("csv") => Form::Csv,
        Some("json") => Form::Json,
        Some("svg") => Form::Svg,
        _ => return Err("its extension must be .csv, .json or .svg".to_owned()),
    };
    Ok(Destination { path, form })
}

/// The curve.
#[derive(Debug, Serialize)]
struct Sweep {
    network: String,
    board: String,
    device: Device,
    /// Whether the costs are estimates and not measured.
    estimated: bool,
    threads: u32,
    exact: bool,
    weights: &'static str,
    weights_bytes: u64,
    strategies: Vec<&'static str>,
    /// In ascending request.
    budgets: Vec<Budget>,
    /// Strategy by strategy, each in ascending order of budgets.
    points: Vec<Point>,
    files: Vec<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Budget {
    budget_bytes: u64,
    /// No plan for this budget is faster, by the same costs, whatever the algorithms.
    lower_bound_ms: f64,
}

#[derive(Debug, Serialize)]
struct Point {
    strategy: &'static str,
    budget_bytes: u64,
    feasible: bool,
    #[serde(flatten)]
    planned: Option<Planned>,
    /// What the strategy needs at least, where it is more than the budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    smallest_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Planned {
    predicted_ms: f64,
    bytes_read_per_inference: u64,
    resident_bytes: u64,
    arena_bytes: u64,
    steps: usize,
    loads: usize,
    /// Choosing algorithms and planning.
    plan_ms: f64,
}

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    let (profile, threads) = args.target.choose()?;
    let strategies: Vec<Strategy> = match args.strategies.is_empty() {
        true => Strategy::ALL.into_iter().filter(|one| one.serves(&profile)).collect(),
        false => args.strategies,
    };
    let outputs = args.output.iter().map(|file| &file.path);
    let files = args.reading.files(args.target.files().reads_model(&args.model));
    files.writes("-o", outputs).check()?;
    let graph = args.reading.import("`eyelet sweep`", &args.model)?;
    let mut request = PackRequest {
        exact: args.exact,
        effort: args.effort,
        weights: args.weights,
        ..PackRequest::new(Vec::new(), profile, threads)
    };
    let network = lower(&request, &args.model, &graph)?;
    let sizes = spaced(args.budgets, args.points);
    let total = sizes.len() * (strategies.len() + 1);
    let progress = Progress::count(output, "planning", total as u64);
    let mut sweep = Sweep {
        network: network.name.clone(),
        board: request.profile.name.clone(),
        device: Device::of(request.profile.isa),
        estimated: request.profile.estimated,
        threads,
        exact: args.exact,
        weights: args.weights.name(),
        weights_bytes: weights_bytes(&network),
        strategies: strategies.iter().map(|one| one.name()).collect(),
        budgets: Vec::new(),
        points: Vec::new(),
        files: args.output.iter().map(|file| file.path.clone()).collect(),
    };
    for &budget_bytes in &sizes {
        let profile = &request.profile;
        let bound_ns = match args.exact {
            true => lower_bound_ns(&network, budget_bytes, profile, threads),
            false => bound_of_all_ns(&network, profile, threads, budget_bytes),
        };
        let lower_bound_ms = milliseconds(bound_ns);
        sweep.budgets.push(Budget { budget_bytes, lower_bound_ms });
        progress.set(sweep.budgets.len() as u64);
    }
    for strategy in strategies {
        request.strategy = strategy;
        request.exact = args.exact || strategy.computes_directly();
        // What is too little for a strategy needs no search to be found too little again.
        let mut smallest = 0;
        for &budget in &sizes {
            request.budgets = vec![budget];
            let planned = match budget < smallest {
                true => None,
                false => point(&request, &network, &mut smallest)?,
            };
            sweep.points.push(Point {
                strategy: strategy.name(),
                budget_bytes: budget,
                feasible: planned.is_some(),
                smallest_bytes: planned.is_none().then_some(smallest),
                planned,
            });
            progress.set((sweep.budgets.len() + sweep.points.len()) as u64);
        }
    }
    drop(progress);
    for Destination { path, form } in &args.output {
        write(&sweep, path, *form)?;
    }
    output.report(&sweep)
}

/// The plan for a request's budget. Where there is none, `smallest` becomes the budget of the smallest.
fn point(
    request: &PackRequest,
    network: &Network,
    smallest: &mut u64,
) -> Result<Option<Planned>, Error> {
    let start = Instant::now();
    let chosen = match choose(network, request) {
        Ok(chosen) => chosen,
        Err(PlanError::Budget { smallest: found, .. }) => {
            *smallest = found;
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    let plan_ms = milliseconds(start.elapsed().as_nanos() as u64);
    let planned = chosen.made.first().zip(chosen.predicted_ns.first());
    Ok(planned.map(|(PlanResult { plan, .. }, predicted_ns)| Planned {
        predicted_ms: milliseconds(*predicted_ns),
        bytes_read_per_inference: plan.bytes_per_inference(),
        resident_bytes: plan.resident_bytes(),
        arena_bytes: plan.arena_bytes,
        steps: plan.steps.len(),
        loads: plan.loads.len(),
        plan_ms,
    }))
}

/// Budgets evenly spaced in their logarithms, in whole pages but for the ends, each once.
fn spaced((low, high): (u64, u64), points: u32) -> Vec<u64> {
    let ratio = high as f64 / low as f64;
    let at = |index: u32| match index {
        0 => low,
        last if last + 1 == points => high,
        index => {
            let share = f64::from(index) / f64::from(points - 1);
            let bytes = (low as f64 * ratio.powf(share)) as u64;
            bytes.next_multiple_of(PAGE).clamp(low, high)
        }
    };
    let mut budgets: Vec<u64> = (0..points).map(at).collect();
    budgets.dedup();
    budgets
}

/// Bytes of all weights as the direct algorithms pack them.
fn weights_bytes(network: &Network) -> u64 {
    let bytes =
        |layer: &eyelet::pack::Layer| u64::from(layer.panels) * u64::from(layer.panel_bytes);
    network.layers.iter().map(bytes).sum()
}

fn write(sweep: &Sweep, path: &Path, form: Form) -> Result<(), Error> {
    let text = match form {
        Form::Csv => csv(sweep),
        Form::Json => serde_json::to_string_pretty(sweep)
            .map_err(|error| Error::Internal(format!("the curve as JSON: {error}")))?,
        Form::Svg => chart::draw(sweep)
            .map_err(|error| Error::Internal(format!("the curve as a drawing: {error}")))?,
    };
    replace(path, |sink| sink.write_all(text.as_bytes()))
        .map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// A line for each point; what an infeasible one does not have is left empty.
fn csv(sweep: &Sweep) -> String {
    let mut text = "strategy,budget_bytes,feasible,predicted_ms,lower_bound_ms,\
                    bytes_read_per_inference,resident_bytes,arena_bytes,steps,loads,plan_ms,smallest_bytes\n"
        .to_owned();
    for (point, budget) in sweep.points.iter().zip(sweep.budgets.iter().cycle()) {
        let Point { strategy, budget_bytes, feasible, planned, smallest_bytes } = point;
        let bound = budget.lower_bound_ms;
        let plan = planned.as_ref().map_or(",,,,,".to_owned(), |plan| {
            format!(
                "{},{},{},{},{},{}",
                plan.bytes_read_per_inference,
                plan.resident_bytes,
                plan.arena_bytes,
                plan.steps,
                plan.loads,
                plan.plan_ms
            )
        });
        let predicted =
            planned.as_ref().map_or(String::new(), |plan| plan.predicted_ms.to_string());
        let smallest = smallest_bytes.map_or(String::new(), |bytes| bytes.to_string());
        text += &format!(
            "{strategy},{budget_bytes},{feasible},{predicted},{bound},{plan},{smallest}\n"
        );
    }
    text
}

impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} of weights ({}), {} on {} thread{} ({}{}); predicted milliseconds\n",
            self.network,
            size::human(self.weights_bytes),
            self.weights,
            self.device.name(),
            self.threads,
            if self.threads == 1 { "" } else { "s" },
            self.board,
            if self.estimated { ", estimated costs" } else { "" }
        )?;
        let width = |name: &str| name.len().max(9);
        write!(f, "{:>10} {:>11}", "budget", "lower bound")?;
        for name in &self.strategies {
            write!(f, " {name:>w$}", w = width(name))?;
        }
        writeln!(f)?;
        for (index, budget) in self.budgets.iter().enumerate() {
            let human = size::human(budget.budget_bytes);
            write!(f, "{human:>10} {:>11.2}", budget.lower_bound_ms)?;
            for (number, name) in self.strategies.iter().enumerate() {
                let point = &self.points[number * self.budgets.len() + index];
                let text = match &point.planned {
                    Some(plan) => format!("{:.2}", plan.predicted_ms),
                    None => "-".to_owned(),
                };
                write!(f, " {text:>w$}", w = width(name))?;
            }
            writeln!(f)?;
        }
        for (number, name) in self.strategies.iter().enumerate() {
            let points = &self.points[number * self.budgets.len()..][..self.budgets.len()];
            if let Some(smallest) = points.iter().filter_map(|point| point.smallest_bytes).max() {
                writeln!(f, "- {name} needs {} at least", size::human(smallest))?;
            }
        }
        for file in &self.files {
            writeln!(f, "wrote {}", file.display())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_spaced_by_their_ratio() {
        assert_eq!(spaced((8 << 20, 64 << 20), 4), [8 << 20, 16 << 20, 32 << 20, 64 << 20]);
        assert_eq!(spaced((4096, 8192), 9), [4096, 8192]);
        let odd = spaced((10_000, 1_000_001), 7);
        assert_eq!((odd[0], odd[6]), (10_000, 1_000_001));
        assert!(odd.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn ranges_are_read() {
        assert_eq!(range("8MiB..256MiB"), Ok((8 << 20, 256 << 20)));
        for (bad, says) in [
            ("8MiB", "no range"),
            ("8MiB..4MiB", "the smaller size comes first"),
            ("8MiB..x", "is not a size"),
        ] {
            assert!(range(bad).unwrap_err().contains(says), "{bad}");
        }
    }
}
