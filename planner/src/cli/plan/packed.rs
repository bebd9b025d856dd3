//! What `eyelet plan` says: of the pack, of each of its plans, and of the smallest budget.

use crate::cli::output::{is_zero, shape};
use crate::cli::pin::listed;
use crate::cli::table::Table;
use crate::cli::target::{MemoryUse, Origin};
use eyelet::pack::Encoding;
use eyelet_planner::board::Device;
use eyelet_planner::layout::distinct_bytes;
use eyelet_planner::network::Network;
use eyelet_planner::ops::winograd;
use eyelet_planner::profile::Placement;
use eyelet_planner::search::PackRequest;
use eyelet_planner::size;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// From this on a machine is not steady whose slowest turn took so many times the fastest one's time.
const UNSTEADY: f64 = 1.15;

/// What was planned and written.
#[derive(Debug, Serialize)]
pub struct Packed {
    pub(super) file: PathBuf,
    pub(super) file_bytes: u64,
    pub(super) network: String,
    pub(super) isa: &'static str,
    pub(super) device: Device,
    pub(super) board: String,
    /// Whether the costs are estimates and not measured.
    pub(super) estimated: bool,
    pub(super) strategy: &'static str,
    pub(super) threads: u32,
    /// Which cores compute, and which loads, where the board has two kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cores: Option<Placement>,
    pub(super) exact: bool,
    /// Whether a longest step was asked for.
    #[serde(skip)]
    pub(super) bounded: bool,
    pub(super) layers: usize,
    /// Layers that are stored for Winograd's algorithm. Plans compute more by it:
    /// [`Planned::transformed_layers`].
    pub(super) winograd_layers: usize,
    /// Whether all plans compute each layer by the same algorithm, so that their outputs are the
    /// same bits.
    pub(super) same_bits: bool,
    pub weights_bytes: u64,
    pub(super) weights: &'static str,
    /// Weights that are closer to zero than normal numbers of 32 bits, and stored as zeros.
    pub(super) denormal_weights: u64,
    /// Of all outputs the largest difference that rounding the weights makes, relative to the largest magnitude of
    /// the output with fp32. None where nothing is rounded, or this machine lacks the instruction set.
    pub(super) rounding_error: Option<f64>,
    /// Of the first shape, as the layers are.
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
    /// All shapes, of several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) shapes: Vec<Shape>,
    /// What is computed otherwise than the model says.
    pub(super) notes: Vec<String>,
    /// How many times as slow as at another the machine was at one moment, on the threads of the plans: of those while
    /// its costs were measured and, if they are this machine's, now.
    #[serde(rename = "machine_varied", skip_serializing_if = "Option::is_none")]
    pub(super) varied: Option<f64>,
    /// Where the costs are from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) costs: Option<Origin>,
    /// The page that shows the plans.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) report: Option<PathBuf>,
    pub plans: Vec<Planned>,
    pub(super) import_ms: f64,
    /// Everything between reading the model and writing the pack: passes, plans, checks, predictions.
    pub planning_ms: f64,
    pub(super) passes_ms: f64,
    pub(super) write_ms: f64,
    pub(super) rounding_ms: f64,
    /// The smallest budget that can be met, if it was asked for.
    #[serde(flatten)]
    pub(super) least: Option<Least>,
}

/// The smallest budget that can be met.
#[derive(Debug, Serialize)]
pub struct Least {
    #[serde(skip)]
    pub(super) network: String,
    #[serde(skip)]
    pub(super) strategy: &'static str,
    #[serde(skip)]
    pub(super) threads: u32,
    pub(in crate::cli) min_budget_bytes: u64,
    /// The layer that sets it, and with what.
    #[serde(rename = "min_budget_layer")]
    pub(super) layer: String,
    #[serde(rename = "min_budget_reason")]
    pub(super) reason: String,
}

impl fmt::Display for Least {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { network, strategy, threads, min_budget_bytes, layer, reason } = self;
        let bytes = size::exact(*min_budget_bytes);
        writeln!(
            f,
            "{network}: the smallest feasible budget is {bytes} ({strategy}, {}), set by layer `{layer}` ({reason})",
            up_to(*threads)
        )
    }
}

/// A shape of a pack of several.
#[derive(Debug, Serialize)]
pub(super) struct Shape {
    name: String,
    layers: usize,
    /// Of its layers, whether other shapes have them, too, or not.
    weights_bytes: u64,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
}

#[derive(Debug, Serialize)]
pub(super) struct Port {
    name: String,
    shape: Vec<usize>,
}

/// A plan of a pack.
#[derive(Debug, Serialize)]
pub struct Planned {
    /// The shape that it computes, of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shape: Option<String>,
    pub budget_bytes: u64,
    pub arena_bytes: u64,
    /// Bytes of fast memory, on a board that has it.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) fast_bytes: u64,
    #[serde(flatten)]
    pub(super) memory_use: MemoryUse,
    pub(super) tables_bytes: u64,
    pub(super) peak_activation_bytes: u64,
    pub(super) resident_bytes: u64,
    /// Bytes of weights that steps use where they lie in the pack, of one that lies in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) in_place_bytes: Option<u64>,
    /// Bytes of the arena that weights are ever in.
    pub(super) weight_buffer_bytes: u64,
    pub bytes_read_per_inference: u64,
    pub(super) steps: usize,
    pub(super) loads: usize,
    pub(super) resident_loads: usize,
    /// Layers whose steps transform their weights, for Winograd's algorithm.
    pub(super) transformed_layers: usize,
    /// A steady inference, of many.
    pub(super) predicted_ms: f64,
    /// Between these the median of many lies for most plans, by how steady the machine was when it was measured. None
    /// where costs are estimates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) predicted_range_ms: Option<[f64; 2]>,
    /// The first one, with residents in place and nothing loaded ahead.
    pub(super) predicted_first_ms: f64,
    pub(super) predicted_compute_ms: f64,
    pub(super) predicted_stall_ms: f64,
    /// The step that takes longest, and its layer: so long firmware does not come back.
    pub(super) longest_step_ms: f64,
    pub(super) longest_step_layer: String,
    /// No plan for this budget is faster, by the same costs.
    pub(super) lower_bound_ms: f64,
    /// How far above it the prediction is.
    pub(super) gap_percent: f64,
    #[serde(skip)]
    pub(super) predicted_ns: u64,
    /// Until there was a good plan, and until there was no better one.
    pub(super) constructive_ms: f64,
    pub(super) improvement_ms: f64,
    pub(super) designs_tried: u32,
    pub(super) check_ms: f64,
    pub(super) simulate_ms: f64,
}

impl Packed {
    pub(super) fn new(
        path: &Path,
        network: &Network,
        weights_bytes: u64,
        request: &PackRequest<'_>,
    ) -> Self {
        Self {
            file: path.to_owned(),
            file_bytes: 0,
            network: network.name.clone(),
            isa: network.isa.name(),
            device: Device::of(network.isa),
            board: request.profile.name.clone(),
            estimated: request.profile.estimated,
            strategy: request.strategy.name(),
            threads: request.threads,
            cores: request.profile.cores.as_ref().map(|cores| cores.placement(request.threads)),
            exact: request.exact,
            bounded: request.longest_ns.is_some(),
            layers: network.layers.len(),
            winograd_layers: network
                .layers
                .iter()
                .filter(|layer| winograd::tile(layer).is_some())
                .count(),
            same_bits: true,
            weights_bytes,
            weights: request.weights.name(),
            denormal_weights: 0,
            rounding_error: None,
            inputs: ports(&network.inputs),
            outputs: ports(&network.outputs),
            shapes: Vec::new(),
            notes: Vec::new(),
            varied: request.profile.steadiness.map(|steadiness| {
                let turns = steadiness.computing(request.threads);
                turns.slowest / turns.fastest
            }),
            costs: None,
            report: None,
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

/// Threads that a plan has scratch for.
fn up_to(threads: u32) -> String {
    match threads {
        1 => "1 thread".to_owned(),
        _ => format!("up to {threads} threads"),
    }
}

/// How far a latency is above the bound: as a share, or how many times it is.
fn above(percent: f64) -> String {
    match percent {
        0.0..100.0 => format!("{percent:.1} %"),
        _ => format!("{:.1} times", 1.0 + percent / 100.0),
    }
}

fn ports(ports: &[eyelet_planner::network::Port]) -> Vec<Port> {
    ports.iter().map(|port| Port { name: port.name.clone(), shape: port.shape.clone() }).collect()
}

impl Packed {
    /// Adds the plans of all shapes.
    pub(super) fn add(&mut self, shapes: impl Iterator<Item = (String, Network, Vec<Planned>)>) {
        for (name, network, plans) in shapes {
            let shape = Some(name.clone()).filter(|name| !name.is_empty());
            let plans = plans.into_iter().map(|plan| Planned { shape: shape.clone(), ..plan });
            self.plans.extend(plans);
            if shape.is_none() {
                continue;
            }
            self.shapes.push(Shape {
                name,
                layers: network.layers.len(),
                weights_bytes: distinct_bytes(&network.layers),
                inputs: ports(&network.inputs),
                outputs: ports(&network.outputs),
            });
        }
    }

    /// How many layers are computed by Winograd's algorithm.
    fn by_winograd(&self) -> String {
        let stored = self.winograd_layers;
        let transformed = || self.plans.iter().map(|plan| plan.transformed_layers);
        let range = match (transformed().min(), transformed().max()) {
            (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
            (_, most) => most.unwrap_or(0).to_string(),
        };
        format!("{stored} stored for Winograd's algorithm, {range} transformed on load for it")
    }
}

impl fmt::Display for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.network(f)?;
        self.table(f)?;
        self.remarks(f)?;
        self.times(f)
    }
}

impl Packed {
    /// What was planned, for what, with what was noticed in the model.
    fn network(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {}, {} layers ({}), {} of weights ({}), for {} with {} ({})",
            self.file.display(),
            self.network,
            self.layers,
            self.by_winograd(),
            size::human(self.weights_bytes),
            self.weights,
            self.isa,
            up_to(self.threads),
            self.board
        )?;
        if let Some(Placement { compute_cores, loader_core, .. }) = &self.cores {
            writeln!(f, "{}", listed(compute_cores, Some(*loader_core)))?;
        }
        let list = |f: &mut fmt::Formatter<'_>, inputs: &[Port], outputs: &[Port]| {
            for (what, ports) in [("input", inputs), ("output", outputs)] {
                for port in ports {
                    writeln!(f, "{what} {} {}", port.name, shape(&port.shape))?;
                }
            }
            Ok(())
        };
        if self.shapes.is_empty() {
            list(f, &self.inputs, &self.outputs)?;
        }
        for shape in &self.shapes {
            let weights = size::human(shape.weights_bytes);
            writeln!(f, "shape {}: {} layers, {weights} of weights", shape.name, shape.layers)?;
            list(f, &shape.inputs, &shape.outputs)?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        match &self.least {
            Some(least) => write!(f, "{least}"),
            None => Ok(()),
        }
    }

    /// A line for each plan.
    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shapes = !self.shapes.is_empty();
        let headers = [
            "budget",
            "arena",
            "resident weights",
            "read each time",
            "first (ms)",
            "predicted (ms)",
            "of that waiting",
            "bound by costs",
            "above bound",
        ];
        let shape = shapes.then_some("shape");
        let mut table = Table::new(1 + usize::from(shapes), shape.into_iter().chain(headers));
        if shapes {
            table = table.names();
        }
        for plan in &self.plans {
            let cells = [
                size::human(plan.budget_bytes),
                size::human(plan.arena_bytes),
                size::human(plan.resident_bytes),
                size::human(plan.bytes_read_per_inference),
                format!("{:.2}", plan.predicted_first_ms),
                format!("{:.2}", plan.predicted_ms),
                format!("{:.2}", plan.predicted_stall_ms),
                format!("{:.2}", plan.lower_bound_ms),
                above(plan.gap_percent),
            ];
            let shape = shapes.then(|| plan.shape.clone().unwrap_or_default());
            table.row(shape.into_iter().chain(cells));
        }
        write!(f, "\n{table}")
    }

    /// What users should know of these plans.
    fn remarks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.same_bits {
            writeln!(
                f,
                "\nthe plans compute some layers by different algorithms: their outputs differ by up to 1e-4 of the \
                 largest magnitude; with --exact all plans give the same bits"
            )?;
        }
        for plan in &self.plans {
            let Some(bytes) = plan.in_place_bytes else { continue };
            writeln!(
                f,
                "{:>10} uses {} of weights where they lie in the pack",
                size::human(plan.budget_bytes),
                size::human(bytes)
            )?;
        }
        if self.bounded {
            writeln!(f)?;
        }
        for plan in self.plans.iter().filter(|_| self.bounded) {
            let (ms, layer) = (plan.longest_step_ms, &plan.longest_step_layer);
            writeln!(
                f,
                "{:>10}: the longest step takes {ms} ms, of layer `{layer}`",
                size::human(plan.budget_bytes)
            )?;
        }
        if self.device == Device::Cuda {
            writeln!(f)?;
        }
        for plan in self.plans.iter().filter(|_| self.device == Device::Cuda) {
            writeln!(f, "{:>10} lies {}", size::human(plan.budget_bytes), plan.memory_use)?;
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
        if self.denormal_weights > 0 {
            writeln!(
                f,
                "\nnote: {} weights are denormal (closer to zero than 1.18e-38), which processors multiply by very slowly: they are \
                 stored as zeros",
                self.denormal_weights
            )?;
        }
        self.ranges(f)?;
        if let Some(origin) = &self.costs {
            writeln!(f, "({origin})")?;
        }
        if let Some(path) = &self.report {
            writeln!(f, "wrote {}", path.display())?;
        }
        Ok(())
    }

    /// Between what bounds latencies are likely.
    fn ranges(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = || {
            let plans = self.plans.iter();
            plans.filter_map(|plan| Some((plan, plan.predicted_range_ms?)))
        };
        if let Some(varied) = self.varied.filter(|varied| *varied > UNSTEADY) {
            writeln!(
                f,
                "\nnote: this machine was {varied:.2} times as slow at one moment as at another: of those while its costs were \
                 measured, and now"
            )?;
        } else if ranges().next().is_some() {
            writeln!(f)?;
        }
        for (plan, [least, most]) in ranges() {
            let budget = size::human(plan.budget_bytes);
            writeln!(f, "{budget:>10}: {least:.2} to {most:.2} ms are likely")?;
        }
        Ok(())
    }

    /// How long planning took.
    fn times(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
