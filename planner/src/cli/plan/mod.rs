//! `eyelet plan`: from a model to a pack.

mod pack;
mod packed;

pub use pack::{least, lower, pack};

use super::boards::Boards;
use super::model::Reading;
use super::output::Output;
use super::target::Target;
use super::{Error, lacks, report};
use eyelet::pack::Encoding;
use eyelet_planner::size;
use eyelet_planner::strategy::{Effort, PackRequest, Parts, Strategy, demand};
use eyelet_tasks::set::units::time_ns;
use pack::{least_of_all, to_ms};
use std::path::PathBuf;
use std::time::Instant;

/// Plans a model (ONNX, Darknet) into a pack, for one or several budgets of memory.
///
/// A budget is everything that inference touches: tables, weights, activations, scratch, inputs and
/// outputs. Weights that do not fit are read again in every inference, ahead of their use. A budget that
/// cannot be met ends with the smallest that can.
///
/// Several extents of a dimension (--dim seq=32,64) make a pack of several shapes, which share their weights. Each has
/// a plan for every budget.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The model: ONNX, or a Darknet .cfg. It comes before the budgets.
    #[arg(value_name = "MODEL", required_unless_present = "board")]
    model: Option<PathBuf>,
    /// Bytes of memory, as in 24MiB or 512KiB; several make a pack with several plans [default: what the board's
    /// description gives a network, if it says so].
    #[arg(long, value_name = "SIZE", num_args = 1..,
        value_parser = size::parse, allow_negative_numbers = true)]
    budget: Vec<u64>,
    /// Says the smallest budget that can be met, and which layer sets it. A pack for it is written if
    /// there is an output.
    #[arg(long, conflicts_with = "budget")]
    min_budget: bool,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    target: Target,
    /// How to plan: joint, or what to hold against it: flexnn, on-demand, preload, direct, and the pipelines of
    /// whole layers demand-seq, demand-sync, demand-async, demand-2s, demand-async-md, demand-2s-md,
    /// or blocks of layers: swapnet.
    #[arg(long, value_name = "NAME", default_value_t)]
    strategy: Strategy,
    /// For flexnn: a load waits for the step that needs it to be next.
    #[arg(long)]
    no_preload: bool,
    /// For flexnn: memory as an allocator would give it out while the network runs, not a static plan.
    #[arg(long)]
    dynamic: bool,
    /// For demand-async-md and demand-2s-md: what queues grow by until the delay is the least [default: 1MiB].
    #[arg(long, value_name = "SIZE", value_parser = size::parse, allow_negative_numbers = true)]
    delta: Option<u64>,
    /// How long to search, for each budget: fast (not at all), default (about a second), best (about a
    /// quarter of a minute), or so many seconds by the clock.
    #[arg(long, value_name = "EFFORT", default_value = "default")]
    effort: Effort,
    /// Computes each layer by the same algorithm whatever the budgets, the direct one, so that outputs are
    /// the same bit for bit in all packs of a model. Otherwise each 3x3 convolution may use Winograd's
    /// algorithm, where that is predicted to make the pack faster, in sum over the budgets.
    #[arg(long)]
    exact: bool,
    /// How weights are stored: fp16 and bf16 take half the bytes of fp32, int8 (with a scale for each output
    /// channel) a quarter, and are rounded once; the report says by how much that changes the outputs.
    #[arg(long, value_name = "TYPE", default_value = "fp32", value_parser = encoding)]
    weights: Encoding,
    /// No step may take longer than this by the board's costs, as in 5ms or 800us: firmware comes back between two
    /// steps. Steps that take too long are divided. A time that cannot be kept is refused with the layer's name.
    #[arg(long, value_name = "TIME", value_parser = time_ns)]
    longest_step: Option<u64>,
    /// Where to write the pack [default: next to the model, with the extension .pack].
    #[arg(short, long, value_name = "FILE.pack")]
    output: Option<PathBuf>,
    /// Writes a page that shows the plans: the arena over time, loads next to computing, latency over the budget.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

const EXAMPLE: &str = "\
Example:
  eyelet plan resnet152.onnx --budget 12MiB --budget 24MiB -o resnet152.pack
  eyelet plan resnet152.onnx --budget 24MiB --report resnet152.html
  eyelet plan bert.onnx --dim batch=1 --dim seq=32,64,128 --budget 24MiB";

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    if args.target.lists_boards() {
        return output.report(&Boards::known()?);
    }
    let model = args.model.ok_or_else(|| lacks("plan", "<MODEL>"))?;
    let mut budgets = match args.min_budget {
        true => Vec::new(),
        false => args.target.budgets(args.budget)?,
    };
    if budgets.is_empty() && !args.min_budget {
        return Err(lacks("plan", "--budget <SIZE>..."));
    }
    budgets.sort_unstable();
    budgets.dedup();
    let (profile, threads) = args.target.choose()?;
    let strategy = without(args.strategy, args.no_preload, args.dynamic)?;
    let exact = args.exact || strategy.computes_directly();
    let (effort, weights, longest_ns) = (args.effort, args.weights, args.longest_step);
    let delta = delta(args.delta, strategy)?;
    let mut request = PackRequest {
        budgets,
        profile,
        threads,
        strategy,
        effort,
        exact,
        weights,
        delta,
        longest_ns,
    };

    let path = match args.min_budget {
        true => args.output,
        false => Some(args.output.unwrap_or_else(|| model.with_extension("pack"))),
    };
    let files = args.reading.files(args.target.files().reads_model(&model));
    files.writes("-o", &path).writes("--report", &args.report).check()?;

    let start = Instant::now();
    let shapes = args.reading.import_shapes(&model)?;
    if args.report.is_some() && shapes.len() > 1 {
        return Err(Error::OneShape { what: "--report", shapes: shapes.len() });
    }
    let import_time = start.elapsed();
    let least = match args.min_budget {
        true => Some(least_of_all(&request, &model, &shapes)?),
        false => None,
    };
    let path = match (&least, path) {
        (_, Some(path)) => path,
        (Some(least), None) => return output.report(least),
        (None, None) => return Err(Error::Internal("no path for the pack".to_owned())),
    };
    if let Some(least) = &least {
        request.budgets = args.target.budgets(vec![least.min_budget_bytes])?;
    }
    let mut packed = pack(&request, &model, &shapes, &path, output)?;
    packed.import_ms = to_ms(import_time);
    packed.notes = shapes.into_iter().flat_map(|(_, graph)| graph.notes).collect();
    packed.notes.dedup();
    if let Some(file) = &args.report {
        report::write(file, &path, &request, output)?;
    }
    packed.least = least;
    output.report(&packed)
}

/// A strategy without some of its parts.
fn without(strategy: Strategy, no_preload: bool, dynamic: bool) -> Result<Strategy, Error> {
    match (strategy, dynamic, no_preload) {
        (Strategy::FlexNn(parts), ..) => Ok(Strategy::FlexNn(Parts {
            static_plan: parts.static_plan && !dynamic,
            preload: parts.preload && !no_preload,
        })),
        (_, false, false) => Ok(strategy),
        (_, dynamic, _) => {
            let option = if dynamic { "--dynamic" } else { "--no-preload" };
            Err(Error::NotOfStrategy { option, of: "flexnn", strategy: strategy.name() })
        }
    }
}

/// What queues grow by: only of a strategy that looks for a least delay can that be said.
fn delta(asked: Option<u64>, strategy: Strategy) -> Result<u64, Error> {
    match asked {
        None => Ok(demand::DELTA),
        Some(delta) if strategy.has_least_delay() => Ok(delta),
        Some(_) => {
            let (of, strategy) = ("demand-async-md", strategy.name());
            Err(Error::NotOfStrategy { option: "--delta", of, strategy })
        }
    }
}

/// The encoding of a name.
pub fn encoding(name: &str) -> Result<Encoding, String> {
    let found = Encoding::ALL.into_iter().find(|encoding| encoding.name() == name);
    let names = || Encoding::ALL.map(Encoding::name).join(", ");
    found.ok_or_else(|| format!("there is no such type; there are: {}", names()))
}
