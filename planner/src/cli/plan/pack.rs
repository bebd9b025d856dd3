//! From a graph to a pack: lowered, planned for each budget, proved, written, and proved again as it will be read.

use super::packed::{Least, Packed, Planned};
use crate::cli::Error;
use crate::cli::error::PlanningError;
use crate::cli::output::{Output, milliseconds};
use crate::cli::pack_file::PackFile;
use crate::cli::progress::Progress;
use crate::cli::run::input::seeded;
use crate::cli::target::MemoryUse;
use eyelet::kernels::Isa;
use eyelet::pack::{Encoding, MAX_PLANS, MAX_SHAPES, Step};
use eyelet::storage::residency::PageCache;
use eyelet_planner::bound::least_bound_ns;
use eyelet_planner::check::check;
use eyelet_planner::graph::Graph;
use eyelet_planner::layout::{SharedWeights, place_weights};
use eyelet_planner::network::Network;
use eyelet_planner::passes;
use eyelet_planner::plan::Plan;
use eyelet_planner::range::range_ns;
use eyelet_planner::search::{
    self, Effort, PackRequest, PlanError, PlanResult, Request, choose_bounded, in_orders,
};
use eyelet_planner::search::{Chosen, choose, choose_shape};
use eyelet_planner::simulate::simulate;
use eyelet_planner::write::WriteError;
use eyelet_planner::{limits, rounding, weights, write};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Names and graphs of the shapes of a pack. One alone has no name.
type Shapes<'a> = &'a [(String, Graph)];

/// A budget that holds all weights of a model: padded to panels and pages, with activations and tables. It is more than enough.
pub fn whole_budget(graph: &Graph) -> u64 {
    let constants = graph.values.iter().filter_map(|value| value.constant.as_ref());
    constants.map(|data| 4 * data.len() as u64).sum::<u64>() * 5 / 4 + (64 << 20)
}

/// The smallest budget that can be met in all shapes.
pub(super) fn least_of_all(
    request: &PackRequest<'_>,
    model: &Path,
    shapes: Shapes<'_>,
) -> Result<Least, Error> {
    let mut most: Option<Least> = None;
    for (name, graph) in shapes {
        let least = least(request, model, graph).map_err(|error| error.of_shape(name))?;
        most = match most {
            Some(most) if most.min_budget_bytes >= least.min_budget_bytes => Some(most),
            _ => Some(least),
        };
    }
    most.ok_or(Error::Internal("a model without a shape".to_owned()))
}

/// The smallest budget that can be met.
pub fn least(request: &PackRequest<'_>, model: &Path, graph: &Graph) -> Result<Least, Error> {
    let network = lower(request, model, graph)?;
    let (strategy, threads) = (request.strategy, request.threads);
    // For direct algorithms, which are what a network is lowered to. Larger weights need more memory, but for odd cases.
    let refused = in_orders(strategy, &network, |network| {
        let mut network = network.clone();
        let weights_bytes = place_weights(&mut network);
        let request = Request { exact: true, ..request.of(&network, weights_bytes, 0) };
        search::make(strategy, &request, Effort::Fast)
    });
    match refused {
        Err(PlanError::Budget { network, smallest, layer, reason, .. }) => {
            let strategy = strategy.name();
            Ok(Least { network, strategy, threads, min_budget_bytes: smallest, layer, reason })
        }
        Err(error) => Err(error.into()),
        Ok(_) => unreachable!("no plan is without tables"),
    }
}

/// A graph's network, with weights as the model has them.
fn lowered(request: &PackRequest<'_>, model: &Path, graph: &Graph) -> Result<Network, Error> {
    let lowered = passes::lower(graph, request.profile.isa);
    Ok(lowered.map_err(|source| PlanningError::Pass { path: model.to_owned(), source })?)
}

/// A graph's network, with a name and the encoding of its weights.
pub fn lower(request: &PackRequest<'_>, model: &Path, graph: &Graph) -> Result<Network, Error> {
    if request.weights == Encoding::I8 && request.profile.isa == Isa::Cuda {
        return Err(PlanningError::EightBitsOnGpu.into());
    }
    let mut network = lowered(request, model, graph)?;
    // What exporters write in place of a name says nothing.
    if ["", "main_graph", "torch_jit", "torch-jit-export", "graph", "main"]
        .contains(&&*network.name)
    {
        network.name = model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    }
    weights::encode(&mut network, request.weights);
    network.mapped = request.mapped(&network);
    Ok(network)
}

/// Whether a pack has room for the plans of so many shapes.
fn within_limits(request: &PackRequest<'_>, shapes: Shapes<'_>) -> Result<(), WriteError> {
    let plans = shapes.len() * request.budgets.len();
    match (shapes.len(), plans) {
        (shapes, _) if shapes > MAX_SHAPES => Err(WriteError::Shapes(shapes)),
        (_, plans) if plans > MAX_PLANS => Err(WriteError::Plans(plans)),
        _ => Ok(()),
    }
}

/// The largest error of any shape's outputs by weights that are rounded.
fn rounding_error(
    request: &PackRequest<'_>,
    model: &Path,
    shapes: Shapes<'_>,
    planned: &[PlannedShape],
    output: Output,
) -> Result<Option<f64>, Error> {
    let layers = planned.iter().map(|shape| shape.network.layers.len() as u64).sum();
    let progress = Progress::count(output, "comparing with fp32", layers);
    let (mut done, mut largest) = (0, None);
    for (shape, (_, graph)) in planned.iter().zip(shapes) {
        let exact = lowered(request, model, graph)?;
        let mut set = |layer| progress.set(done + layer);
        let error = rounding::error(&shape.network, &exact, seeded, &mut set);
        let error = error.map_err(|error| Error::Internal(error.to_string()))?;
        largest = match (largest, error) {
            (Some(most), Some(error)) => Some(f64::max(most, error)),
            (most, error) => most.or(error),
        };
        done += shape.network.layers.len() as u64;
    }
    Ok(largest)
}

/// Plans a model in its shapes and writes the pack.
pub fn pack(
    request: &PackRequest<'_>,
    model: &Path,
    shapes: Shapes<'_>,
    path: &Path,
    output: Output,
) -> Result<Packed, Error> {
    let start = Instant::now();
    within_limits(request, shapes)?;
    let mut planned = Vec::new();
    let progress = Progress::elapsed(output, "searching plans");
    let mut shared = SharedWeights::default();
    for (name, graph) in shapes {
        let shape = PlannedShape::new(request, model, (name, graph), shapes.len(), &shared);
        let shape = shape.map_err(|error| error.of_shape(name))?;
        shared.add(&shape.network);
        planned.push(shape);
    }
    let [first, ..] = &planned[..] else {
        return Err(Error::Internal("a model without a shape".to_owned()));
    };
    // Each has the weights of those before it, too.
    let weights_bytes = planned.iter().map(|shape| shape.weights_bytes).max().unwrap_or(0);
    let mut report = Packed::new(path, &first.network, weights_bytes, request);
    report.passes_ms = planned.iter().map(|shape| shape.passes_ms).sum();
    report.same_bits = planned.iter().all(|shape| {
        let algorithms: Vec<_> = shape.plans.iter().map(|plan| of_their_own(&plan.steps)).collect();
        algorithms.windows(2).all(|two| two[0] == two[1])
    });
    report.planning_ms = to_ms(start.elapsed());
    drop(progress);

    let start = Instant::now();
    let progress = Progress::bytes(output, "writing weights", weights_bytes);
    let written: Vec<write::Shape<'_>> = planned.iter().map(PlannedShape::to_write).collect();
    let mut set = |bytes| progress.set(bytes);
    write::prove(&written, weights_bytes)?;
    report.denormal_weights = write::write_shapes(path, &written, weights_bytes, &mut set)?;
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
    if request.weights != Encoding::F32 {
        let start = Instant::now();
        report.rounding_error = rounding_error(request, model, shapes, &planned, output)?;
        report.rounding_ms = to_ms(start.elapsed());
    }
    report.add(planned.into_iter().map(|shape| (shape.name, shape.network, shape.proved)));
    Ok(report)
}

/// A shape of a pack that is being made.
struct PlannedShape {
    name: String,
    network: Network,
    /// Of this shape and those before it.
    weights_bytes: u64,
    plans: Vec<Plan>,
    proved: Vec<Planned>,
    predicted_ns: Vec<u64>,
    passes_ms: f64,
}

impl PlannedShape {
    /// Plans one of `count` shapes, of which those before it have the weights in `shared`.
    fn new(
        request: &PackRequest<'_>,
        model: &Path,
        (name, graph): (&str, &Graph),
        count: usize,
        shared: &SharedWeights,
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let network = lower(request, model, graph)?;
        limits::network(&network).map_err(WriteError::from)?;
        let passes_ms = to_ms(start.elapsed());
        let chosen = choose_bounded(request, |request| match count {
            1 => choose(&network, request),
            _ => choose_shape(&network, request, shared),
        })?;
        let Chosen { network, weights_bytes, made, .. } = chosen;
        let prove = |made: &PlanResult| prove(request, &network, weights_bytes, made);
        let proved = made.iter().map(prove).collect::<Result<Vec<_>, _>>()?;
        let predicted_ns = proved.iter().map(|plan| plan.predicted_ns).collect();
        let plans = made.into_iter().map(|made| made.plan).collect();
        let name = name.to_owned();
        Ok(Self { name, network, weights_bytes, plans, proved, predicted_ns, passes_ms })
    }

    fn to_write(&self) -> write::Shape<'_> {
        let Self { name, network, plans, predicted_ns, .. } = self;
        write::Shape { name, network, plans, predicted_ns }
    }
}

/// Proves and predicts a plan that took so much to make.
fn prove(
    request: &PackRequest<'_>,
    network: &Network,
    weights_bytes: u64,
    made: &PlanResult,
) -> Result<Planned, Error> {
    let PlanResult { plan, constructive, improvement, tried, .. } = made;
    let budget = plan.budget;
    let start = Instant::now();
    let proof = check(network, plan, weights_bytes)
        .map_err(|violations| PlanningError::Broken { budget, violations })?;
    let checked = start.elapsed();
    let start = Instant::now();
    let timeline = simulate(network, plan, &request.profile, request.threads);
    let bound_ns = least_bound_ns(&request.of(network, weights_bytes, budget));
    let simulated = start.elapsed();
    let steps = timeline.steps.iter().map(|span| (span.end - span.start) as u64);
    let longest = steps.zip(&plan.steps).max_by_key(|(ns, _)| *ns);
    let longest_layer = longest.and_then(|(_, step)| network.names.get(step.layer as usize));
    Ok(Planned {
        shape: None,
        longest_step_ms: milliseconds(longest.map_or(0, |(ns, _)| ns)),
        longest_step_layer: longest_layer.cloned().unwrap_or_default(),
        budget_bytes: budget,
        arena_bytes: plan.arena_bytes,
        fast_bytes: plan.fast_bytes,
        memory_use: MemoryUse::of(network, plan),
        tables_bytes: plan.tables,
        peak_activation_bytes: proof.peak_activation_bytes,
        resident_bytes: plan.resident_bytes(),
        in_place_bytes: network.mapped.is_some().then(|| plan.in_place_bytes(network)),
        weight_buffer_bytes: plan.weight_buffer_bytes(),
        bytes_read_per_inference: plan.bytes_per_inference(),
        steps: plan.steps.len(),
        loads: plan.loads.len(),
        resident_loads: plan.resident.len(),
        transformed_layers: transformed_layers(&plan.steps),
        predicted_ms: milliseconds(timeline.steady_ns),
        predicted_range_ms: range_ns(network, plan, &request.profile, request.threads)
            .map(|ends| ends.map(milliseconds)),
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

/// Layers that are computed by an algorithm of their steps' own.
fn transformed_layers(steps: &[Step]) -> usize {
    let layers: BTreeSet<u32> = of_their_own(steps).into_iter().map(|(layer, _)| layer).collect();
    layers.len()
}

/// Layers whose steps compute by an algorithm of their own, and which.
fn of_their_own(steps: &[Step]) -> BTreeSet<(u32, u32)> {
    let own = steps.iter().filter(|step| step.algorithm() != 0);
    own.map(|step| (step.layer, step.algorithm())).collect()
}

/// Has the page cache write a pack back and forget it: who runs it reads it past the cache, and a copy
/// there is memory nobody asked for. Where that fails the pack is as good.
pub fn forget(path: &Path) {
    if let Ok(path) = CString::new(path.as_os_str().as_bytes()) {
        let _ = PageCache::open(&path).and_then(|cache| cache.forget());
    }
}

/// By how many per cent a latency is above the bound, to a tenth.
fn percent_above(ns: u64, bound_ns: u64) -> f64 {
    ((ns as f64 / bound_ns.max(1) as f64 - 1.0) * 1e3).round() / 10.0
}

pub(super) fn to_ms(time: Duration) -> f64 {
    milliseconds(time.as_nanos() as u64)
}
