//! Plans in which no step takes longer than a limit: firmware comes back between two steps, to kick a watchdog or to
//! answer something more urgent.
//!
//! Plans are made as ever. Then steps that take too long are divided: into runs of panels, and where that is not
//! enough into rows. Every part finds its weights, scratch and rows where the whole step had them. A load that waited
//! for a step waits for its last part. So nothing moves but the tables, which become longer. The pack is planned for
//! budgets that are smaller by what they grow.

use super::chosen::Chosen;
use super::pack_request::PackRequest;
use crate::search::place::refusal::PlanError;
use crate::simulate::Costs;
use crate::steps::even;
use eyelet::ops::{self, Problem, Slice};
use eyelet::pack::{FAST, INPUTS, OpKind, PAGE, Step};
use eyelet_model::network::Network;
use eyelet_model::plan::{Plan, step_weights};
use eyelet_model::tables::Tables;

/// How often the budgets are reduced for longer tables. Each time, plans are made anew.
const TURNS: usize = 4;
/// How often steps are divided. Each time, those that take too long become at least two.
const ROUNDS: usize = 64;

/// Plans of a network by `choose`, with no step that takes longer than the request allows. `choose` is called with the
/// request, or with one for smaller budgets.
pub fn choose_bounded(
    request: &PackRequest<'_>,
    choose: impl Fn(&PackRequest<'_>) -> Result<Chosen, PlanError>,
) -> Result<Chosen, PlanError> {
    let Some(limit_ns) = request.longest_ns else { return choose(request) };
    // Bytes that each budget keeps for the longer tables.
    let mut reserve = 0;
    for _ in 0..TURNS {
        let budgets = request.budgets.iter().map(|budget| budget.saturating_sub(reserve)).collect();
        let smaller = PackRequest { budgets, ..request.clone() };
        let mut chosen = choose(&smaller).map_err(|error| error.with(reserve))?;
        let network = &chosen.network;
        let costs = Costs::new(network, &request.profile, request.threads);
        let mut longer = 0;
        for (made, &budget) in chosen.made.iter_mut().zip(&request.budgets) {
            let plan = moved(network, &made.plan, reserve, budget);
            let plan = divided(network, plan, &costs, limit_ns)?;
            let tables = Tables::of(network).of_plan(&plan);
            longer = longer.max(tables.saturating_sub(made.plan.tables));
            made.plan = Plan { tables: tables.max(made.plan.tables), ..plan };
        }
        if longer <= reserve {
            return Ok(chosen);
        }
        reserve = longer.next_multiple_of(PAGE);
    }
    Err(PlanError::Tables { limit_ns })
}

impl PlanError {
    /// The plans of budgets that were smaller by `bytes`.
    fn with(mut self, bytes: u64) -> Self {
        if let Self::Budget { budget, smallest, .. } = &mut self {
            (*budget, *smallest) = (*budget + bytes, *smallest + bytes);
        }
        self
    }
}

/// A plan with everything after its tables moved up by `bytes`, in a larger budget.
fn moved(network: &Network, plan: &Plan, bytes: u64, budget: u64) -> Plan {
    let mut plan = Plan { budget, arena_bytes: plan.arena_bytes + bytes, ..plan.clone() };
    let places = plan.places.iter_mut().filter(|place| place.address < FAST);
    places.for_each(|place| place.address += bytes);
    let loads = plan.resident.iter_mut().chain(&mut plan.loads);
    loads.for_each(|load| load.address += bytes);
    for step in &mut plan.steps {
        // Weights or scratch without bytes have no address.
        if !step_weights(network, step).is_empty() {
            step.weights += bytes;
        }
        if step.scratch_bytes > 0 && step.scratch < FAST {
            step.scratch += bytes;
        }
    }
    plan
}

/// A plan with its steps divided until none takes too long.
fn divided(
    network: &Network,
    mut plan: Plan,
    costs: &Costs,
    limit_ns: u64,
) -> Result<Plan, PlanError> {
    let rings: Vec<u32> = plan.places.iter().map(|place| place.lines).collect();
    let costs = costs.clone().sliding(network, &rings);
    for _ in 0..ROUNDS {
        let times = costs.steps_ns(&plan);
        let too_long = |ns: &i64| *ns as u64 > limit_ns;
        if !times.iter().any(too_long) {
            return Ok(plan);
        }
        let parts: Vec<Vec<Step>> = plan
            .steps
            .iter()
            .zip(&times)
            .map(|(step, ns)| match too_long(ns) {
                true => divide(network, &rings, step, (*ns as u64).div_ceil(limit_ns.max(1))),
                false => vec![*step],
            })
            .collect();
        if parts.iter().all(|parts| parts.len() == 1) {
            let longest = times.iter().enumerate().max_by_key(|(_, ns)| **ns);
            let (index, ns) = longest.map_or((0, 0), |(index, ns)| (index, *ns as u64));
            let layer = plan.steps[index].layer as usize;
            let layer = network.names.get(layer).cloned().unwrap_or_default();
            return Err(PlanError::LongestStep { layer, ns, limit_ns });
        }
        plan = with_parts(plan, &parts);
    }
    Err(PlanError::Tables { limit_ns })
}

/// A step divided into `parts` parts, or the most possible.
fn divide(network: &Network, rings: &[u32], step: &Step, parts: u64) -> Vec<Step> {
    let layer = &network.layers[step.layer as usize];
    let most = |whole: u32| u64::from(whole).div_ceil(parts);
    let has_panels = OpKind::from_code(layer.kind).is_some_and(OpKind::has_panels);
    if has_panels && step.chains() == 0 && step.count > 1 {
        let panel = u64::from(layer.panel_bytes);
        let part = |(at, count)| Step {
            first: step.first + at,
            count,
            weights: step.weights + u64::from(at) * panel,
            ..*step
        };
        return even(step.count, most(step.count)).map(part).collect();
    }
    let Some(unit) = row_unit(network, rings, step) else { return vec![*step] };
    // The last part has what is beyond whole units.
    let units = step.rows / unit;
    let part = |(at, count): (u32, u32)| {
        let end = if at + count == units { step.rows } else { (at + count) * unit };
        Step { row: step.row + at * unit, rows: end - at * unit, ..*step }
    };
    even(units, most(units)).map(part).collect()
}

/// Rows of which parts of a step make multiples: lines, or where a step has one only, rows; none where it makes all.
fn row_unit(network: &Network, rings: &[u32], step: &Step) -> Option<u32> {
    let layer = &network.layers[step.layer as usize];
    let record = |id: u32| network.tensors.get(id as usize).copied().unwrap_or_default();
    let (inputs, output): ([_; INPUTS], _) = (layer.inputs.map(record), record(layer.output));
    let line = output.dims[2].max(1);
    let ids = layer.inputs.iter().chain([&layer.output]);
    let in_ring = ids
        .filter_map(|id| network.tensors.get(*id as usize))
        .any(|tensor| rings.get(tensor.buffer as usize).is_some_and(|lines| *lines > 0));
    let valid = |row: u32, rows: u32| {
        let slice = Slice::from(&Step { row, rows, ..*step });
        let (layer, inputs, output, isa) = (layer, &inputs, &output, network.isa);
        let problem = Problem { layer, inputs, output, slice, threads: 1, isa };
        ops::validate_slice(&problem).is_ok()
    };
    // Lines of tiles are up to six lines.
    let lines = [1, 2, 4, 6].map(|lines| lines * line);
    let rows = [1].into_iter().filter(|_| !in_ring);
    lines.into_iter().chain(rows).find(|&unit| {
        unit < step.rows
            && valid(step.row, unit)
            && valid(step.row + unit, step.rows - unit)
            && step.rows / unit >= 2
    })
}

/// A plan with each step in parts. Loads and steps that waited for a step wait for its last part.
fn with_parts(plan: Plan, parts: &[Vec<Step>]) -> Plan {
    let old = plan.period();
    // For each number of old steps that are done: the new steps that are done, the host's turn
    // included.
    let mut done = vec![0, 1];
    for parts in parts {
        done.push(done[done.len() - 1] + parts.len() as i64);
    }
    let new = done[done.len() - 1];
    let threshold = |count: i32| {
        let count = i64::from(count);
        let (inferences, rest) = (count.div_euclid(old), count.rem_euclid(old));
        (inferences * new + done[rest as usize]) as i32
    };
    let mut plan = plan;
    plan.steps = parts.concat();
    plan.loads.iter_mut().for_each(|load| load.release = threshold(load.release));
    plan.stages.iter_mut().for_each(|stage| stage.steps = threshold(stage.steps));
    plan
}
