//! `eyelet plan`: from a model to a pack.

mod pack;
mod packed;
mod recurrent;
pub mod strategies;

pub use pack::{forget, least, lower, pack, whole_budget};
pub use recurrent::Forms;

use super::budgets::{POINTS, Word};
use super::error::{PlanningError, ShapesError};
use super::model::Reading;
use super::output::Output;
use super::target::{Costs, Origin, Target, with_present_speed};
use super::{Error, lacks, misused, report};
use clap::error::ErrorKind;
use eyelet::pack::Encoding;
use eyelet_planner::graph::Graph;
use eyelet_planner::open::open;
use eyelet_planner::published::demand::Demand;
use eyelet_planner::search::{Effort, PackRequest, Strategy};
use eyelet_planner::size;
use eyelet_profile::boards::Boards;
use eyelet_tasks::set::units::time_ns;
use pack::{least_of_all, to_ms};
use std::path::PathBuf;
use std::time::Instant;
use strategies::{Strategies, Wanted};

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
    /// The model: ONNX, or a Darknet .cfg.
    #[arg(value_name = "MODEL")]
    model: Option<PathBuf>,
    /// Bytes of memory, as in 24MiB or 512KiB; several make a pack with several plans, as in 12MiB,24MiB. A range such as
    /// 8MiB..64MiB stands for 4 of them, evenly spaced by their ratio [default: what the board's description gives a
    /// network, if it says so].
    #[arg(long, alias = "budgets", value_name = "SIZE", num_args = 1..,
        value_parser = Word::parse, allow_negative_numbers = true)]
    budget: Vec<Word>,
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
    /// or blocks of layers: swapnet. `--strategy list` says what each does.
    #[arg(long, value_name = "NAME", default_value_t, value_parser = Wanted::parse)]
    strategy: Wanted,
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
    let Wanted::This(strategy) = args.strategy else {
        return output.report(&Strategies::known());
    };
    let (model, budgets) = words(args.model, args.budget)?;
    let mut budgets = match args.min_budget {
        true => Vec::new(),
        false => args.target.budgets(budgets)?,
    };
    if budgets.is_empty() && !args.min_budget {
        // A path that leads nowhere is the first thing to mend.
        open(&model).map_err(|source| Error::Read { path: model, source })?;
        return Err(lacks("plan", "--budget <SIZE>..."));
    }
    budgets.sort_unstable();
    budgets.dedup();
    let named = args.output.is_some();
    let path = args.output.unwrap_or_else(|| model.with_extension("pack"));
    // The smallest budget alone writes nothing.
    let written = (named || !args.min_budget).then(|| path.clone());
    let files = args.reading.files(args.target.files().reads_model(&model));
    files.writes_packs("-o", &written).writes("--report", &args.report).check()?;
    let Costs { profile, threads, origin } = args.target.choose(&path, output)?;
    let changed = changed(strategy, args.delta)?;
    let strategy = changed.as_deref().unwrap_or(strategy);
    let exact = args.exact || strategy.computes_directly();
    let (effort, weights, longest_ns) = (args.effort, args.weights, args.longest_step);
    let mut request =
        PackRequest { budgets, profile, threads, strategy, effort, exact, weights, longest_ns };
    let start = Instant::now();
    let shapes = args.reading.import_shapes(&model)?;
    if args.report.is_some() && shapes.len() > 1 {
        return Err(ShapesError::OneShape { what: "--report", shapes: shapes.len() }.into());
    }
    let import_time = start.elapsed();
    let shapes = recurrent::fitting(&request, &model, &shapes)?;
    let least = match args.min_budget {
        true => Some(least_of_all(&request, &model, &shapes)?),
        false => None,
    };
    if let Some(least) = &least {
        if !named {
            return output.report(least);
        }
        request.budgets = args.target.budgets(vec![least.min_budget_bytes])?;
    }
    // Only ranges of plans that are printed use it.
    if matches!(origin, Origin::Here { .. }) {
        request.profile.steadiness = with_present_speed(&request.profile, threads);
    }
    let mut packed = pack(&request, &model, &shapes, &path, output)?;
    packed.import_ms = to_ms(import_time);
    packed.notes = notes(shapes.into_iter().map(|(_, graph)| graph), args.weights);
    packed.costs = Some(origin);
    if let Some(file) = &args.report {
        report::write(file, &path, &request, output)?;
    }
    packed.report = args.report;
    packed.least = least;
    output.report(&packed)
}

/// The model and the budgets. A word after `--budget` that is no size is the model, if no other is.
fn words(model: Option<PathBuf>, words: Vec<Word>) -> Result<(PathBuf, Vec<u64>), Error> {
    let (mut budgets, mut paths) = (Vec::new(), Vec::new());
    for word in words {
        match word {
            Word::Budgets(given) => budgets.extend(given.list(POINTS)),
            Word::Path(path) => paths.push(path),
        }
    }
    match (model, &paths[..]) {
        (Some(model), []) => Ok((model, budgets)),
        (None, [model]) => Ok((model.into(), budgets)),
        (None, []) => Err(lacks("plan", "<MODEL>")),
        (_, [.., word]) => {
            let wrong = size::parse(word).err().unwrap_or_default();
            Err(misused(
                "plan",
                ErrorKind::ValueValidation,
                &format!("invalid value '{word}' for '--budget <SIZE>...': {wrong}"),
            ))
        }
    }
}

/// What the owner of a model should know.
fn notes(graphs: impl Iterator<Item = Graph>, weights: Encoding) -> Vec<String> {
    let mut notes = Vec::new();
    for graph in graphs {
        let stored = graph.weights_stored_as();
        if let (Encoding::F32, Some(Encoding::F16 | Encoding::Bf16)) = (weights, stored) {
            let name = stored.map_or("", Encoding::name);
            notes.push(format!(
                "the model's weights are {name}: with --weights {name} they lose nothing and take half the bytes"
            ));
        }
        notes.extend(graph.notes);
    }
    notes.dedup();
    notes
}

/// A strategy as the options change it, if they do.
fn changed(
    strategy: &dyn Strategy,
    delta: Option<u64>,
) -> Result<Option<Box<dyn Strategy>>, Error> {
    match (delta, Demand::named(strategy.name())) {
        (None, _) => Ok(None),
        (Some(delta), Some(demand)) if demand.least_delay => {
            Ok(Some(Box::new(Demand { delta, ..demand })))
        }
        (Some(_), _) => {
            let (option, of, strategy) = ("--delta", "demand-async-md", strategy.name());
            Err(PlanningError::NotOfStrategy { option, of, strategy }.into())
        }
    }
}

/// The encoding of a name.
pub fn encoding(name: &str) -> Result<Encoding, String> {
    let found = Encoding::ALL.into_iter().find(|encoding| encoding.name() == name);
    let names = || Encoding::ALL.map(Encoding::name).join(", ");
    found.ok_or_else(|| format!("there is no such type; there are: {}", names()))
}
