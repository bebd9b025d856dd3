//! FlexNN's joint slicing, loading and computing (MobiCom '24, Algorithm 1), made cyclic and exact.
//!
//! Activations are placed first. Then, layer by layer, weights are preloaded: each load takes the place
//! that has been free the longest, and so can start as early as possible; the step's intermediates take
//! the place that was freed last. Where that fails, the step is placed again without preloading: scratch
//! and weights at the lowest addresses that are free at that moment. If that fails too, the slices were
//! too large for the budget, or the budget is infeasible.
//!
//! Around this, two things are searched, each candidate judged by simulation: the size of slices (large
//! ones use storage well, small ones leave memory for preloading), and the memory set aside for
//! residents. The released and ready thresholds follow exactly from the addresses, so that loads run
//! ahead into the next inference without the placement having to know about it.

use super::{PlanError, Request, residents};
use crate::memory::{Choice, Lifetime, Skyline, Use, lifetimes, place_buffers, set_releases};
use crate::plan::Plan;
use crate::simulate::{Costs, simulate_with};
use crate::slice::{Slices, slice};
use crate::write::table_bytes;
use eyelet::ops::{self, Slice};
use eyelet::pack::{Load, PAGE};

/// Limits for slices and loads, largest first. The last one means one panel a slice.
const LIMITS: [u64; 8] = [4 << 20, 2 << 20, 1 << 20, 512 << 10, 256 << 10, 128 << 10, 64 << 10, 1];

/// Shares of the memory left beside activations that are tried for residents.
const SHARES: [f64; 7] = [0.0, 0.25, 0.5, 0.7, 0.85, 0.93, 0.97];

/// A step that could not be placed.
#[derive(Clone, Copy, Debug)]
struct Misfit {
    layer: u32,
    /// The arena is not even large enough for the activations.
    activations: bool,
}

/// The plan with the least predicted latency.
pub fn plan(request: &Request<'_>) -> Result<Plan, PlanError> {
    let costs = Costs::new(request.network, request.profile, request.threads);
    let mut best: Option<(u64, Plan)> = None;
    for limit in LIMITS {
        if !is_candidate(limit, request.budget) {
            continue;
        }
        let cut = Cut::new(request, &costs, limit);
        let before = best.as_ref().map(|(latency, _)| *latency);
        let mut least_here = u64::MAX;
        for share in SHARES {
            let Ok(plan) = cut.place(request, request.budget, share) else {
                continue;
            };
            let streams = !plan.loads.is_empty();
            let latency = simulate_with(&plan, &costs).steady_ns;
            least_here = least_here.min(latency);
            if best.as_ref().is_none_or(|(least, held)| better(latency, &plan, *least, held)) {
                best = Some((latency, plan));
            }
            if !streams {
                break;
            }
        }
        // Smaller slices cost more requests; once that outweighs what they free, the rest do not help.
        let worse = before
            .is_some_and(|before| least_here != u64::MAX && least_here > before + before / 50);
        if worse || best.as_ref().is_some_and(|(_, plan)| plan.loads.is_empty()) {
            break;
        }
    }
    match best {
        Some((_, plan)) => Ok(plan),
        None => Err(infeasible(request, &costs)),
    }
}

/// Whether slices of up to `limit` bytes are worth trying: two of them must fit.
fn is_candidate(limit: u64, budget: u64) -> bool {
    limit * 2 <= budget || limit == 1
}

/// Whether a plan is to be preferred: clearly faster, or as fast (within half a percent, which no
/// prediction can tell apart) with fewer bytes read, whose storage, energy and first inference it saves.
fn better(latency: u64, plan: &Plan, least: u64, held: &Plan) -> bool {
    let near = |a: u64, b: u64| a <= b + b / 200;
    match (near(latency, least), near(least, latency)) {
        (true, true) => plan.bytes_per_inference() < held.bytes_per_inference(),
        (faster, _) => faster,
    }
}

/// The smallest feasible budget, and the layer that sets it.
///
/// The same candidates count as in [`plan`]: one panel a slice needs the least memory for weights, but
/// the most for tables, so that where the network is small, larger slices can need less.
fn infeasible(request: &Request<'_>, costs: &Costs) -> PlanError {
    let cuts = LIMITS.map(|limit| (limit, Cut::new(request, costs, limit)));
    let fits = |pages: u64| -> Result<(), Misfit> {
        let budget = pages * PAGE;
        let mut misfit = Misfit { layer: 0, activations: true };
        for (_, cut) in cuts.iter().filter(|(limit, _)| is_candidate(*limit, budget)) {
            match SHARES.iter().find_map(|share| cut.place(request, budget, *share).ok()) {
                Some(_) => return Ok(()),
                None => misfit = cut.place(request, budget, 0.0).err().unwrap_or(misfit),
            }
        }
        Err(misfit)
    };
    let (mut low, mut high) = (0u64, 1u64);
    while fits(high).is_err() {
        (low, high) = (high, high * 2);
    }
    while low + 1 < high {
        let middle = (low + high) / 2;
        if fits(middle).is_ok() { high = middle } else { low = middle }
    }
    let misfit = fits(low).err().unwrap_or(Misfit { layer: 0, activations: true });
    let layer = misfit.layer as usize;
    let reason = if misfit.activations {
        "its inputs and output, with what else is alive then".to_owned()
    } else {
        "one panel of its weights and its scratch beside the activations".to_owned()
    };
    PlanError::Budget {
        network: request.network.name.clone(),
        budget: request.budget,
        smallest: high * PAGE,
        layer: request.network.names.get(layer).cloned().unwrap_or_default(),
        reason,
    }
}

/// A network cut by one limit, with everything that does not depend on the budget.
struct Cut {
    slices: Slices,
    /// Lifetimes of the buffers, in steps.
    lives: Vec<Lifetime>,
    /// Their offsets from the end of the tables, and the end of the highest.
    offsets: Vec<u64>,
    peak: u64,
    /// The layer at which the most activation bytes are alive.
    peak_layer: u32,
    scratch: Vec<u64>,
    load_ns: Vec<u64>,
    compute_ns: Vec<u64>,
}

impl Cut {
    fn new(request: &Request<'_>, costs: &Costs, limit: u64) -> Self {
        let network = request.network;
        let slices = slice(network, limit);
        let period = slices.steps.len() + 1;
        let mut spans = vec![0..0; network.layers.len()];
        for (index, step) in slices.steps.iter().enumerate() {
            let span = &mut spans[step.layer as usize];
            let start = if span.end == 0 { index + 1 } else { span.start };
            *span = start..index + 2;
        }
        let lives = lifetimes(network, period, |layer| spans[layer].clone());
        let offsets = place_buffers(network, &lives, period);
        let peak =
            (0..offsets.len()).map(|b| offsets[b] + network.buffers[b].bytes).max().unwrap_or(0);
        let alive = |time: usize| -> u64 {
            let live = |b: &usize| (lives[*b].start..=lives[*b].end).contains(&time);
            (0..lives.len()).filter(live).map(|b| network.buffers[b].bytes).sum()
        };
        let peak_layer = (0..network.layers.len())
            .max_by_key(|layer| (alive(spans[*layer].start), std::cmp::Reverse(*layer)))
            .unwrap_or(0) as u32;
        let scratch = slices
            .steps
            .iter()
            .map(|step| {
                let layer = &network.layers[step.layer as usize];
                let inputs = layer
                    .inputs
                    .map(|id| network.tensors.get(id as usize).copied().unwrap_or_default());
                let output = &network.tensors[layer.output as usize];
                let slice = Slice::from(step);
                ops::scratch_bytes(layer, &inputs, output, &slice, request.threads, network.isa)
                    .next_multiple_of(64)
            })
            .collect();
        let mut compute_ns = vec![0; slices.reads.len()];
        let mut current = 0;
        for (index, step) in slices.steps.iter().enumerate() {
            current = slices.read_of[index].unwrap_or(current);
            if let Some(sum) = compute_ns.get_mut(current) {
                *sum += costs.step_ns(step);
            }
        }
        let load_ns = slices.reads.iter().map(|read| costs.load_ns(read.bytes)).collect();
        Self { slices, lives, offsets, peak, peak_layer, scratch, load_ns, compute_ns }
    }

    /// Places everything in `budget` bytes, with `share` of what the activations leave for residents.
    fn place(&self, request: &Request<'_>, budget: u64, share: f64) -> Result<Plan, Misfit> {
        let network = request.network;
        let reads = &self.slices.reads;
        let end = budget / PAGE * PAGE;
        let tables = table_bytes(network, reads.len(), self.slices.steps.len());
        let room = end.saturating_sub(tables + self.peak);
        let pinned = if share == 0.0 {
            vec![false; reads.len()]
        } else {
            // All of them if they fit beside the peak; else a share.
            let bytes: Vec<u64> = reads.iter().map(|read| read.bytes).collect();
            let all: u64 =
                bytes.iter().sum::<u64>() + self.scratch.iter().max().copied().unwrap_or(0);
            let capacity = if all <= room { all } else { (room as f64 * share) as u64 };
            residents::choose(&bytes, &self.load_ns, &self.compute_ns, capacity)
        };

        // Residents from the top down; everything else below them.
        let mut plan = Plan {
            strategy: "flexnn".to_owned(),
            budget,
            tables,
            threads: request.threads,
            addresses: self.offsets.iter().map(|offset| tables + offset).collect(),
            steps: self.slices.steps.clone(),
            ..Plan::default()
        };
        let mut top = end;
        let mut address_of = vec![0u64; reads.len()];
        for (index, read) in reads.iter().enumerate().filter(|(index, _)| pinned[*index]) {
            top = top.checked_sub(read.bytes).ok_or(Misfit { layer: 0, activations: false })?;
            address_of[index] = top;
            plan.resident.push(self.load(index, top));
        }
        if tables + self.peak > top {
            return Err(Misfit { layer: self.peak_layer, activations: true });
        }

        let mut sky = Skyline::new(tables..top);
        let mut by_start: Vec<usize> =
            (0..self.lives.len()).filter(|&b| self.lives[b].start != usize::MAX).collect();
        by_start.sort_by_key(|&buffer| self.lives[buffer].start);
        let mut arriving = by_start.into_iter().peekable();
        let mut uses = Vec::new();
        let mut streamed = 0u32;
        for index in 0..plan.steps.len() {
            let time = index as i64 + 1;
            let read = self.slices.read_of[index]
                .filter(|&read| !pinned[read] && reads[read].first == index);
            // Activations that appear while this step's load is in use count as taken.
            let horizon = read.map_or(index, |read| reads[read].last) + 1;
            while let Some(buffer) = arriving.next_if(|&b| self.lives[b].start <= horizon) {
                let start = plan.addresses[buffer];
                let range = start..start + network.buffers[buffer].bytes;
                sky.raise(range, self.lives[buffer].end as i64);
            }
            let bytes = read.map_or(0, |read| reads[read].bytes);
            let placed = preload(&mut sky, bytes, horizon as i64, self.scratch[index], time)
                .or_else(|| no_preload(&mut sky, bytes, horizon as i64, self.scratch[index], time))
                .ok_or(Misfit { layer: plan.steps[index].layer, activations: false })?;
            if let Some(read) = read {
                address_of[read] = placed.weights;
                plan.loads.push(self.load(read, placed.weights));
                let life = Lifetime { start: index + 1, end: horizon };
                uses.push(Use { life, before: placed.before });
                streamed += 1;
            }
            let step = &mut plan.steps[index];
            step.ready = streamed;
            step.scratch_bytes = self.scratch[index];
            step.scratch = if step.scratch_bytes > 0 { placed.scratch } else { 0 };
            if let Some(read) = self.slices.read_of[index] {
                let layer = &network.layers[step.layer as usize];
                let start = layer.weights + u64::from(step.first) * u64::from(layer.panel_bytes);
                step.weights = address_of[read] + start - reads[read].offset;
            }
        }
        set_releases(network, &mut plan, &self.lives, &uses);
        keep_undisturbed(&mut plan, &uses);
        plan.arena_bytes = end;
        Ok(plan)
    }

    fn load(&self, read: usize, address: u64) -> Load {
        let read = &self.slices.reads[read];
        Load { offset: read.offset, address, bytes: read.bytes as u32, ..Load::default() }
    }
}

/// Where a step's weights and scratch went.
struct Placed {
    weights: u64,
    scratch: u64,
    /// Last use of the weights' place before.
    before: i64,
}

/// Weights where memory has been free the longest, scratch where it was freed last.
fn preload(sky: &mut Skyline, weights: u64, last: i64, scratch: u64, time: i64) -> Option<Placed> {
    place(sky, weights, last, scratch, time, [Choice::Earliest, Choice::Latest])
}

/// Both as low as possible: wastes the least memory, and may make the load wait.
fn no_preload(
    sky: &mut Skyline,
    weights: u64,
    last: i64,
    scratch: u64,
    time: i64,
) -> Option<Placed> {
    place(sky, weights, last, scratch, time, [Choice::Lowest, Choice::Lowest])
}

fn place(
    sky: &mut Skyline,
    weights: u64,
    last: i64,
    scratch: u64,
    time: i64,
    choices: [Choice; 2],
) -> Option<Placed> {
    let before = (weights > 0 && scratch > 0).then(|| sky.clone());
    let mut placed = Placed { weights: 0, scratch: 0, before: -1 };
    if weights > 0 {
        let place = sky.find(weights, PAGE, time, choices[0])?;
        (placed.weights, placed.before) = (place.address, place.last_use);
        sky.raise(placed.weights..placed.weights + weights, last);
    }
    if scratch > 0 {
        match sky.find(scratch, 64, time, choices[1]) {
            Some(place) => placed.scratch = place.address,
            None => {
                before.into_iter().for_each(|before| *sky = before);
                return None;
            }
        }
        sky.raise(placed.scratch..placed.scratch + scratch, time);
    }
    Some(placed)
}

/// Loads whose bytes nothing else ever uses stay where they are: they become residents. Such a load is
/// released as soon as its own last use is over.
fn keep_undisturbed(plan: &mut Plan, uses: &[Use]) {
    let period = plan.period();
    let loads = std::mem::take(&mut plan.loads);
    let mut renumbered = vec![0u32];
    for (load, using) in loads.into_iter().zip(uses) {
        if i64::from(load.release) == using.life.end as i64 + 1 - period {
            plan.resident.push(Load { release: 0, ..load });
        } else {
            plan.loads.push(load);
        }
        renumbered.push(plan.loads.len() as u32);
    }
    for step in &mut plan.steps {
        step.ready = renumbered[step.ready as usize];
    }
}
