//! `eyelet plan`: from a model to a pack.

use super::output::{Output, milliseconds, shape};
use super::pack_file::PackFile;
use super::progress::Progress;
use super::run::input::seeded;
use super::target::{Beside, Target};
use super::{Error, report};
use eyelet::pack::{Encoding, OpKind, Step};
use eyelet::storage::residency;
use eyelet_planner::board::Device;
use eyelet_planner::bound::least_bound_ns;
use eyelet_planner::check::check;
use eyelet_planner::graph::Graph;
use eyelet_planner::import::import;
use eyelet_planner::layout::place_weights;
use eyelet_planner::network::Network;
use eyelet_planner::passes::lower;
use eyelet_planner::plan::Plan;
use eyelet_planner::profile::Profile;
use eyelet_planner::simulate::simulate;
use eyelet_planner::strategy::choose::{Chosen, Wanted, choose};
use eyelet_planner::strategy::{self, Effort, Made, PlanError, Request, demand};
use eyelet_planner::{rounding, size, weights, write};
use serde::Serialize;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Plans a model (ONNX) into a pack, for one or several budgets of memory.
///
/// A budget is everything that inference touches: tables, weights, activations, scratch, inputs and
/// outputs. Weights that do not fit are read again in every inference, ahead of their use. A budget that
/// cannot be met ends with the smallest that can.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The model. It comes before the budgets.
    #[arg(value_name = "FILE.onnx")]
    model: PathBuf,
    /// Bytes of memory, as in 24MiB or 512KiB; several make a pack with several plans.
    #[arg(long, value_name = "SIZE", required_unless_present = "min_budget", num_args = 1..,
        value_parser = size::parse)]
    budget: Vec<u64>,
    /// Says the smallest budget that can be met, and which layer sets it. A pack for it is written if
    /// there is an output.
    #[arg(long, conflicts_with = "budget")]
    min_budget: bool,
    #[command(flatten)]
    target: Target,
    /// How to plan: joint, or what to hold against it: flexnn, on-demand, preload, direct, and the pipelines of
    /// whole layers demand-seq, demand-sync, demand-async, demand-2s, demand-async-md, demand-2s-md.
    #[arg(long, value_name = "NAME", default_value = strategy::DEFAULT)]
    strategy: String,
    /// For flexnn: a load waits for the step that needs it to be next.
    #[arg(long)]
    no_preload: bool,
    /// For flexnn: memory as an allocator would give it out while the network runs, not a static plan.
    #[arg(long)]
    dynamic: bool,
    /// For demand-async-md and demand-2s-md: what queues grow by until the delay is the least [default: 1MiB].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
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
    /// How weights are stored: fp16 and bf16 take half the bytes of fp32 and are rounded once; the report says by
    /// how much that changes the outputs.
    #[arg(long, value_name = "TYPE", default_value = "fp32", value_parser = encoding)]
    weights: Encoding,
    /// Where to write the pack [default: beside the model, with the extension .pack].
    #[arg(short, long, value_name = "FILE.pack")]
    output: Option<PathBuf>,
    /// Writes a page that shows the plans: the arena over time, loads beside computing, latency over the budget.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

const EXAMPLE: &str = "\
Example:
  eyelet plan resnet152.onnx --budget 12MiB --budget 24MiB -o resnet152.pack
  eyelet plan resnet152.onnx --budget 24MiB --report resnet152.html";

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    let mut budgets = args.budget;
    budgets.sort_unstable();
    budgets.dedup();
    let (profile, threads) = args.target.choose()?;
    let strategy = strategy_name(args.strategy, args.no_preload, args.dynamic)?;
    let exact = args.exact || strategy::computes_directly(&strategy);
    let (effort, weights) = (args.effort, args.weights);
    let delta = delta(args.delta, &strategy)?;
    let mut order = Order { budgets, profile, strategy, threads, exact, effort, delta, weights };

    let start = Instant::now();
    let graph = import(&args.model)
        .map_err(|error| Error::Import { path: args.model.clone(), source: Box::new(error) })?;
    let import_time = start.elapsed();
    let least = match args.min_budget {
        true => Some(order.least(&args.model, &graph)?),
        false => None,
    };
    let path = match (&least, args.output) {
        (_, Some(path)) => path,
        (None, None) => args.model.with_extension("pack"),
        (Some(least), None) => return output.report(least),
    };
    order.budgets.extend(least.as_ref().map(|least| least.min_budget_bytes));
    let mut packed = order.pack(&args.model, &graph, &path, output)?;
    packed.import_ms = to_ms(import_time);
    if let Some(file) = &args.report {
        report::write(file, &path, &order, output)?;
    }
    packed.least = least;
    output.report(&packed)
}

/// A strategy's name, with what is left out of it.
fn strategy_name(mut name: String, no_preload: bool, dynamic: bool) -> Result<String, Error> {
    for (left_out, option, suffix) in
        [(dynamic, "--dynamic", "-dynamic"), (no_preload, "--no-preload", "-no-preload")]
    {
        if left_out {
            if !name.starts_with("flexnn") {
                return Err(Error::NotOfStrategy { option, of: "flexnn", strategy: name });
            }
            name += suffix;
        }
    }
    Ok(name)
}

/// What queues grow by: only of a strategy that looks for a least delay can that be said.
fn delta(asked: Option<u64>, strategy: &str) -> Result<u64, Error> {
    match (asked, demand::of_name(strategy)) {
        (None, _) => Ok(demand::DELTA),
        (Some(delta), Some((_, true))) => Ok(delta),
        (Some(_), _) => {
            let (of, strategy) = ("demand-async-md", strategy.to_owned());
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

/// What to plan for.
pub struct Order {
    /// In ascending order, each once.
    pub budgets: Vec<u64>,
    pub profile: Profile,
    pub strategy: String,
    pub threads: u32,
    pub exact: bool,
    pub effort: Effort,
    /// What queues grow by where a pipeline's least delay is looked for.
    pub delta: u64,
    pub weights: Encoding,
}

impl Order {
    /// The smallest budget that can be met.
    fn least(&self, model: &Path, graph: &Graph) -> Result<Least, Error> {
        let mut network = self.lower(model, graph)?;
        let weights_bytes = place_weights(&mut network);
        let (threads, profile) = (self.threads, &self.profile);
        let request =
            Request { network: &network, weights_bytes, budget: 0, threads, profile, exact: true };
        // For direct algorithms, which are what a network is lowered to. Larger weights need more memory, but for odd cases.
        match strategy::make(&self.strategy, &request, Effort::Fast) {
            Err(PlanError::Budget { network, smallest, layer, reason, .. }) => {
                let strategy = self.strategy.clone();
                Ok(Least { network, strategy, threads, min_budget_bytes: smallest, layer, reason })
            }
            Err(error) => Err(error.into()),
            Ok(_) => unreachable!("no plan is without tables"),
        }
    }

    /// A graph's network, with a name and the encoding of its weights.
    pub fn lower(&self, model: &Path, graph: &Graph) -> Result<Network, Error> {
        let mut network = lower(graph, self.profile.isa)
            .map_err(|source| Error::Pass { path: model.to_owned(), source })?;
        if network.name.is_empty() {
            network.name = model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        }
        weights::encode(&mut network, self.weights);
        Ok(network)
    }

    /// Plans a graph and writes the pack.
    pub fn pack(
        &self,
        model: &Path,
        graph: &Graph,
        path: &Path,
        output: Output,
    ) -> Result<Packed, Error> {
        let start = Instant::now();
        let network = self.lower(model, graph)?;
        let passes_ms = to_ms(start.elapsed());
        let Chosen { network, weights_bytes, made, .. } = self.choose(&network)?;
        let prove = |made: &Made| self.prove(&network, weights_bytes, made);
        let planned = made.iter().map(prove).collect::<Result<_, _>>()?;
        let plans: Vec<Plan> = made.into_iter().map(|made| made.plan).collect();
        let mut report = Packed::new(path, &network, weights_bytes, self);
        report.passes_ms = passes_ms;
        report.plans = planned;
        report.planning_ms = to_ms(start.elapsed());

        let start = Instant::now();
        let progress = Progress::bytes(output, "writing weights", weights_bytes);
        let predicted: Vec<u64> = report.plans.iter().map(|plan| plan.predicted_ns).collect();
        write::write_pack(path, &network, weights_bytes, &plans, &predicted, &mut |bytes| {
            progress.set(bytes);
        })?;
        drop(progress);
        // What the board will prove before it runs the pack is proved here first.
        let pack = PackFile::open(path)?;
        for entry in &pack.entries {
            pack.prove(entry)?;
        }
        drop(pack);
        forget(path);
        report.write_ms = to_ms(start.elapsed());
        report.file_bytes = std::fs::metadata(path).map_or(0, |found| found.len());
        if self.weights != Encoding::F32 {
            let start = Instant::now();
            let layers = network.layers.len() as u64;
            let progress = Progress::count(output, "comparing with fp32", layers);
            let error = rounding::error(&network, seeded, &mut |layer| progress.set(layer));
            report.rounding_error = error.map_err(|error| Error::Internal(error.to_string()))?;
            report.rounding_ms = to_ms(start.elapsed());
        }
        Ok(report)
    }

    /// Chooses the algorithms of a network's layers and plans it for all budgets.
    pub fn choose(&self, network: &Network) -> Result<Chosen, PlanError> {
        let Self { budgets, profile, strategy, threads, exact, effort, delta, .. } = self;
        let (threads, exact, effort, delta) = (*threads, *exact, *effort, *delta);
        choose(network, &Wanted { budgets, profile, strategy, threads, exact, effort, delta })
    }

    /// Proves and predicts a plan that took so much to make.
    fn prove(&self, network: &Network, weights_bytes: u64, made: &Made) -> Result<Planned, Error> {
        let Made { plan, constructive, improvement, tried } = made;
        let (threads, profile, budget) = (self.threads, &self.profile, plan.budget);
        let start = Instant::now();
        let proof = check(network, plan, weights_bytes)
            .map_err(|violations| Error::Planned { budget, violations })?;
        let checked = start.elapsed();
        let start = Instant::now();
        let timeline = simulate(network, plan, profile, threads);
        let request =
            Request { network, weights_bytes, budget, threads, profile, exact: self.exact };
        let bound_ns = least_bound_ns(&request);
        let simulated = start.elapsed();
        Ok(Planned {
            budget_bytes: budget,
            arena_bytes: plan.arena_bytes,
            beside: Beside::new(
                network.isa,
                plan.arena_bytes,
                plan.staging_bytes,
                &network.tensors,
                network.ports(),
            ),
            tables_bytes: plan.tables,
            peak_activation_bytes: proof.peak_activation_bytes,
            resident_bytes: plan.resident_bytes(),
            weight_buffer_bytes: plan.weight_buffer_bytes(),
            bytes_read_per_inference: plan.bytes_per_inference(),
            steps: plan.steps.len(),
            loads: plan.loads.len(),
            resident_loads: plan.resident.len(),
            transformed_layers: transformed_layers(&plan.steps),
            predicted_ms: milliseconds(timeline.steady_ns),
            predicted_first_ms: milliseconds(timeline.first_ns),
            predicted_compute_ms: milliseconds(timeline.compute_ns),
            predicted_stall_ms: milliseconds(timeline.stall_ns),
            lower_bound_ms: milliseconds(bound_ns),
            gap_percent: percent_above(timeline.steady_ns, bound_ns),
            predicted_ns: timeline.steady_ns,
            constructive_ms: to_ms(*constructive),
            improvement_ms: to_ms(*improvement),
            designs_tried: *tried,
            check_ms: to_ms(checked),
            simulate_ms: to_ms(simulated),
        })
    }
}

/// Layers that are computed by an algorithm of their steps' own.
fn transformed_layers(steps: &[Step]) -> usize {
    let layers: BTreeSet<u32> =
        steps.iter().filter(|step| step.algorithm != 0).map(|step| step.layer).collect();
    layers.len()
}

/// Has the page cache write a pack back and forget it: who runs it reads it past the cache, and a copy
/// there is memory nobody asked for. Where that fails the pack is as good.
fn forget(path: &Path) {
    if let Ok(path) = CString::new(path.as_os_str().as_bytes()) {
        let _ = residency::drop_cache(&path);
    }
}

/// By how many per cent a latency is above the bound, to a tenth.
fn percent_above(ns: u64, bound_ns: u64) -> f64 {
    ((ns as f64 / bound_ns.max(1) as f64 - 1.0) * 1e3).round() / 10.0
}

fn to_ms(time: Duration) -> f64 {
    milliseconds(time.as_nanos() as u64)
}

/// What was planned and written.
#[derive(Debug, Serialize)]
pub struct Packed {
    file: PathBuf,
    file_bytes: u64,
    network: String,
    isa: &'static str,
    device: Device,
    board: String,
    /// Whether the costs are estimates and not measured.
    estimated: bool,
    strategy: String,
    threads: u32,
    exact: bool,
    layers: usize,
    /// Layers that are computed by Winograd's algorithm.
    winograd_layers: usize,
    pub weights_bytes: u64,
    weights: &'static str,
    /// Of all outputs the largest difference that rounding the weights makes, relative to the largest magnitude of
    /// the output with fp32. None where nothing is rounded, or this machine lacks the instruction set.
    rounding_error: Option<f64>,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    pub plans: Vec<Planned>,
    import_ms: f64,
    /// Everything between reading the model and writing the pack: passes, plans, checks, predictions.
    pub planning_ms: f64,
    passes_ms: f64,
    write_ms: f64,
    rounding_ms: f64,
    /// The smallest budget that can be met, if it was asked for.
    #[serde(flatten)]
    least: Option<Least>,
}

/// The smallest budget that can be met.
#[derive(Debug, Serialize)]
struct Least {
    #[serde(skip)]
    network: String,
    #[serde(skip)]
    strategy: String,
    #[serde(skip)]
    threads: u32,
    min_budget_bytes: u64,
    /// The layer that sets it, and with what.
    #[serde(rename = "min_budget_layer")]
    layer: String,
    #[serde(rename = "min_budget_reason")]
    reason: String,
}

impl fmt::Display for Least {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { network, strategy, threads, min_budget_bytes, layer, reason } = self;
        let bytes = size::exact(*min_budget_bytes);
        writeln!(
            f,
            "{network}: the smallest feasible budget is {bytes} ({strategy}, up to {threads} threads), set by \
             layer `{layer}` ({reason})"
        )
    }
}

#[derive(Debug, Serialize)]
struct Port {
    name: String,
    shape: Vec<usize>,
}

/// A plan of a pack.
#[derive(Debug, Serialize)]
pub struct Planned {
    pub budget_bytes: u64,
    pub arena_bytes: u64,
    #[serde(flatten)]
    beside: Beside,
    tables_bytes: u64,
    peak_activation_bytes: u64,
    resident_bytes: u64,
    /// Bytes of the arena that weights are ever in.
    weight_buffer_bytes: u64,
    pub bytes_read_per_inference: u64,
    steps: usize,
    loads: usize,
    resident_loads: usize,
    /// Layers whose steps transform their weights, for Winograd's algorithm.
    transformed_layers: usize,
    /// A steady inference, of many.
    predicted_ms: f64,
    /// The first one, with residents in place and nothing loaded ahead.
    predicted_first_ms: f64,
    predicted_compute_ms: f64,
    predicted_stall_ms: f64,
    /// No plan for this budget is faster, by the same costs.
    lower_bound_ms: f64,
    /// How far above it the prediction is.
    gap_percent: f64,
    #[serde(skip)]
    predicted_ns: u64,
    /// Until there was a good plan, and until there was no better one.
    constructive_ms: f64,
    improvement_ms: f64,
    designs_tried: u32,
    check_ms: f64,
    simulate_ms: f64,
}

impl Packed {
    fn new(path: &Path, network: &Network, weights_bytes: u64, order: &Order) -> Self {
        let port = |port: &eyelet_planner::network::Port| Port {
            name: port.name.clone(),
            shape: port.shape.clone(),
        };
        Self {
            file: path.to_owned(),
            file_bytes: 0,
            network: network.name.clone(),
            isa: network.isa.name(),
            device: Device::of(network.isa),
            board: order.profile.name.clone(),
            estimated: order.profile.estimated,
            strategy: order.strategy.clone(),
            threads: order.threads,
            exact: order.exact,
            layers: network.layers.len(),
            winograd_layers: network
                .layers
                .iter()
                .filter(|layer| layer.kind == OpKind::Winograd as u32)
                .count(),
            weights_bytes,
            weights: order.weights.name(),
            rounding_error: None,
            inputs: network.inputs.iter().map(port).collect(),
            outputs: network.outputs.iter().map(port).collect(),
            plans: Vec::new(),
            import_ms: 0.0,
            planning_ms: 0.0,
            passes_ms: 0.0,
            write_ms: 0.0,
            least: None,
            rounding_ms: 0.0,
        }
    }
}

impl fmt::Display for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {}, {} layers ({} by Winograd's algorithm), {} of weights ({}), for {} with up to {} threads ({})",
            self.file.display(),
            self.network,
            self.layers,
            self.winograd_layers,
            size::human(self.weights_bytes),
            self.weights,
            self.isa,
            self.threads,
            self.board
        )?;
        for (what, ports) in [("input", &self.inputs), ("output", &self.outputs)] {
            for port in ports {
                writeln!(f, "{what} {} {}", port.name, shape(&port.shape))?;
            }
        }
        if let Some(least) = &self.least {
            write!(f, "{least}")?;
        }
        writeln!(
            f,
            "\n{:>10} {:>10} {:>10} {:>14} {:>7} {:>7} {:>11} {:>12} {:>12} {:>12} {:>12} {:>7}",
            "budget",
            "arena",
            "resident",
            "read each time",
            "steps",
            "loads",
            "transformed",
            "first time",
            "predicted",
            "of that wait",
            "lower bound",
            "gap"
        )?;
        for plan in &self.plans {
            writeln!(
                f,
                "{:>10} {:>10} {:>10} {:>14} {:>7} {:>7} {:>11} {:>9.2} ms {:>9.2} ms {:>9.2} ms \
                 {:>9.2} ms {:>5.1} %",
                size::human(plan.budget_bytes),
                size::human(plan.arena_bytes),
                size::human(plan.resident_bytes),
                size::human(plan.bytes_read_per_inference),
                plan.steps,
                plan.loads,
                plan.transformed_layers,
                plan.predicted_first_ms,
                plan.predicted_ms,
                plan.predicted_stall_ms,
                plan.lower_bound_ms,
                plan.gap_percent
            )?;
        }
        if self.device == Device::Cuda {
            writeln!(f)?;
        }
        for plan in self.plans.iter().filter(|_| self.device == Device::Cuda) {
            writeln!(f, "{:>10} lies {}", size::human(plan.budget_bytes), plan.beside)?;
        }
        if let Some(error) = self.rounding_error {
            writeln!(
                f,
                "\n{} weights change the outputs by up to {error:.1e} of the largest magnitude (random inputs, \
                 measured in {:.1} s)",
                self.weights,
                self.rounding_ms / 1e3
            )?;
        } else if self.weights != Encoding::F32.name() {
            writeln!(
                f,
                "\nhow much {} weights change the outputs was not measured: this machine has no kernels for {}",
                self.weights, self.isa
            )?;
        }
        if self.estimated {
            writeln!(
                f,
                "(predicted from estimated costs of {}; `eyelet profile` measures those of this machine)",
                self.board
            )?;
        }
        writeln!(
            f,
            "\nimport {:.1} ms, planning {:.1} ms (passes {:.1}, construction {:.1}, improvement {:.1}, \
             checks {:.1}, predictions {:.1}), writing {:.1} ms",
            self.import_ms,
            self.planning_ms,
            self.passes_ms,
            self.plans.iter().map(|plan| plan.constructive_ms).sum::<f64>(),
            self.plans.iter().map(|plan| plan.improvement_ms).sum::<f64>(),
            self.plans.iter().map(|plan| plan.check_ms).sum::<f64>(),
            self.plans.iter().map(|plan| plan.simulate_ms).sum::<f64>(),
            self.write_ms
        )
    }
}
