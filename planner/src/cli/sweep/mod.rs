//! `eyelet sweep`: predicted latency over the budget, for every strategy.
//!
//! Each point is what `eyelet plan` would make of that one budget, with the same effort: algorithms are chosen for it alone.
//! Nothing is written but the curve.

mod chart;
mod swept;

use super::budgets::Budgets;
use super::model::Reading;
use super::output::{Output, milliseconds};
use super::plan::strategies::{Strategies, Wanted};
use super::plan::{encoding, lower};
use super::progress::Progress;
use super::table::Table;
use super::target::{Costs, Origin, Target};
use super::{Error, lacks};
use eyelet::pack::Encoding;
use eyelet_planner::board::Device;
use eyelet_planner::layout::{distinct_bytes, place_weights};
use eyelet_planner::network::Network;
use eyelet_planner::published;
use eyelet_planner::replace::replace;
use eyelet_planner::search::{Effort, PackRequest, Strategy};
use eyelet_planner::size;
use eyelet_profile::boards::Boards;
use serde::Serialize;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use swept::{Swept, bound_ns};

/// Predicts a model's latency for many budgets, by every strategy, without writing a pack.
///
/// Budgets are spaced evenly on a logarithmic scale. Where a strategy has no plan for a budget, the point is
/// marked as infeasible, with the smallest budget that the strategy can be given.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The model.
    #[arg(value_name = "MODEL")]
    model: Option<PathBuf>,
    /// The smallest and the largest budget, or a list of budgets.
    #[arg(long, alias = "budget", value_name = "SIZE..SIZE|SIZE,…", allow_negative_numbers = true,
        value_parser = Budgets::parse)]
    budgets: Vec<Budgets>,
    /// Budgets of a range, the two ends included.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=1000))]
    points: u32,
    /// Strategies to compare, separated by commas [default: all]. `--strategies list` says what each does.
    #[arg(long, alias = "strategy", value_name = "NAMES", value_delimiter = ',', value_parser = Wanted::parse)]
    strategies: Vec<Wanted>,
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
    costs: Origin,
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
    if args.target.lists_boards() {
        return output.report(&Boards::known()?);
    }
    let Some(wanted) = Wanted::all(&args.strategies) else {
        return output.report(&Strategies::known());
    };
    let model = args.model.ok_or_else(|| lacks("sweep", "<MODEL>"))?;
    if args.budgets.is_empty() {
        return Err(lacks("sweep", "--budgets <SIZE..SIZE|SIZE,…>"));
    }
    let outputs = args.output.iter().map(|file| &file.path);
    let files = args.reading.files(args.target.files().reads_model(&model));
    files.writes("-o", outputs).check()?;
    let Costs { profile, threads, origin } = args.target.choose(&model, output)?;
    let strategies: Vec<&'static dyn Strategy> = match wanted.is_empty() {
        true => published::all().iter().copied().filter(|one| one.serves(&profile)).collect(),
        false => wanted,
    };
    let graph = args.reading.import("`eyelet sweep`", &model)?;
    let request = PackRequest {
        exact: args.exact,
        effort: args.effort,
        weights: args.weights,
        ..PackRequest::new(&published::JOINT, Vec::new(), profile, threads)
    };
    let network = lower(&request, &model, &graph)?;
    let sizes = Budgets::sorted(&args.budgets, args.points);
    let smallest = sizes.first().copied().unwrap_or(0);
    let swept = strategies
        .iter()
        .map(|&strategy| Swept::new(strategy, &request, &model, (&graph, &network), smallest));
    let swept = swept.collect::<Result<Vec<_>, _>>()?;
    let total = sizes.len() * (strategies.len() + 1);
    let progress = Progress::count(output, "planning", total as u64);
    let mut sweep = Sweep {
        network: network.name.clone(),
        board: request.profile.name.clone(),
        device: Device::of(request.profile.isa),
        estimated: request.profile.estimated,
        costs: origin,
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
        let lower_bound_ms = milliseconds(bound_ns(&request, &network, &swept, budget_bytes));
        sweep.budgets.push(Budget { budget_bytes, lower_bound_ms });
        progress.set(sweep.budgets.len() as u64);
    }
    for one in swept {
        one.points(&sizes, |point| {
            sweep.points.push(point);
            progress.set((sweep.budgets.len() + sweep.points.len()) as u64);
        })?;
    }
    drop(progress);
    for Destination { path, form } in &args.output {
        write(&sweep, path, *form)?;
    }
    output.report(&sweep)
}

/// Bytes of all weights as the direct algorithms pack them; those of a table that is also a matrix once.
fn weights_bytes(network: &Network) -> u64 {
    let mut placed = network.clone();
    place_weights(&mut placed);
    distinct_bytes(&placed.layers)
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
        let names = self.strategies.iter().copied();
        let mut table = Table::new(2, ["budget", "bound by costs"].into_iter().chain(names));
        for (index, budget) in self.budgets.iter().enumerate() {
            let keys = [size::human(budget.budget_bytes), format!("{:.2}", budget.lower_bound_ms)];
            let points = self.points.iter().skip(index).step_by(self.budgets.len());
            let cells = points.map(|point| match &point.planned {
                Some(plan) => format!("{:.2}", plan.predicted_ms),
                None => "-".to_owned(),
            });
            table.row(keys.into_iter().chain(cells));
        }
        write!(f, "{table}")?;
        for (number, name) in self.strategies.iter().enumerate() {
            let points = &self.points[number * self.budgets.len()..][..self.budgets.len()];
            if let Some(smallest) = points.iter().filter_map(|point| point.smallest_bytes).max() {
                writeln!(f, "- {name} needs {} at least", size::human(smallest))?;
            }
        }
        writeln!(f, "({})", self.costs)?;
        for file in &self.files {
            writeln!(f, "wrote {}", file.display())?;
        }
        Ok(())
    }
}
