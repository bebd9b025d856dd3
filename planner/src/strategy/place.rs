//! Placing: a network cut into slices, put into an arena of a given size.
//!
//! Activations first, then step by step weights and intermediates, as in FlexNN's Algorithm 1. What a
//! strategy decides is how finely to cut, how much memory residents get, and whether loads run ahead of
//! the step that needs them.

use super::{Request, residents};
use crate::memory::{
    Choice, Lifetime, Skyline, Use, buffer_sizes, lifetimes, place_buffers, set_releases,
};
use crate::plan::{Plan, step_weights};
use crate::simulate::Costs;
use crate::slice::{Cutting, Slices, slice};
use crate::slide::Group;
use crate::write::table_bytes;
use eyelet::ops::{self, Slice};
use eyelet::pack::{Load, PAGE, Place};

/// A step that could not be placed.
#[derive(Clone, Copy, Debug)]
pub struct Misfit {
    pub layer: u32,
    /// The arena is not even large enough for the activations.
    pub activations: bool,
}

/// What a strategy wants of a placement.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Share of the memory that the activations leave which is set aside for residents.
    pub residents: f64,
    /// Loads run as far ahead as memory permits; else each waits for the step that needs it to be next.
    pub ahead: bool,
}

/// A network cut by one limit, with everything that does not depend on the budget.
pub struct Cut {
    slices: Slices,
    /// Bytes of the buffers, those of rings as many as they have lines for.
    sizes: Vec<u64>,
    /// Their lifetimes, in steps.
    lives: Vec<Lifetime>,
    /// Their offsets from the end of the tables, and the end of the highest.
    offsets: Vec<u64>,
    peak: u64,
    /// The layer at which the most activation bytes are alive.
    peak_layer: u32,
    scratch: Vec<u64>,
    load_ns: Vec<u64>,
    /// Computing between the use of each read and that of the next.
    compute_ns: Vec<u64>,
}

impl Cut {
    pub fn new(request: &Request<'_>, costs: &Costs, cutting: Cutting, groups: &[Group]) -> Self {
        let network = request.network;
        let slices = slice(network, cutting, groups);
        let sizes = buffer_sizes(network, &slices.rings);
        let period = slices.steps.len() + 1;
        let mut spans = vec![0..0; network.layers.len()];
        for (index, step) in slices.steps.iter().enumerate() {
            let span = &mut spans[step.layer as usize];
            let start = if span.end == 0 { index + 1 } else { span.start };
            *span = start..index + 2;
        }
        let lives = lifetimes(network, period, |layer| spans[layer].clone());
        let offsets = place_buffers(&sizes, &lives, period);
        let peak = (0..offsets.len()).map(|b| offsets[b] + sizes[b]).max().unwrap_or(0);
        let alive = |time: usize| -> u64 {
            let live = |b: &usize| (lives[*b].start..=lives[*b].end).contains(&time);
            (0..lives.len()).filter(live).map(|b| sizes[b]).sum()
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
        Self { slices, sizes, lives, offsets, peak, peak_layer, scratch, load_ns, compute_ns }
    }

    /// Places everything in `budget` bytes.
    pub fn place(
        &self,
        request: &Request<'_>,
        budget: u64,
        manner: Manner,
    ) -> Result<Plan, Misfit> {
        let network = request.network;
        let reads = &self.slices.reads;
        let end = budget / PAGE * PAGE;
        let tables = table_bytes(network, reads.len(), self.slices.steps.len());
        let room = end.saturating_sub(tables + self.peak);
        let pinned = if manner.residents == 0.0 {
            vec![false; reads.len()]
        } else {
            // All of them if they fit beside the peak; else a share.
            let bytes: Vec<u64> = reads.iter().map(|read| read.bytes).collect();
            let all: u64 =
                bytes.iter().sum::<u64>() + self.scratch.iter().max().copied().unwrap_or(0);
            let capacity = if all <= room { all } else { (room as f64 * manner.residents) as u64 };
            residents::choose(&bytes, &self.load_ns, &self.compute_ns, capacity)
        };

        // Residents from the top down; everything else below them.
        let mut plan = Plan {
            budget,
            tables,
            threads: request.threads,
            places: (self.offsets.iter().zip(&self.slices.rings))
                .map(|(offset, &lines)| Place { lines, ..Place::whole(tables + offset) })
                .collect(),
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
                let start = plan.places[buffer].address;
                let range = start..start + self.sizes[buffer];
                sky.raise(range, self.lives[buffer].end as i64);
            }
            let bytes = read.map_or(0, |read| reads[read].bytes);
            let placed = manner
                .ahead
                .then(|| preload(&mut sky, bytes, horizon as i64, self.scratch[index], time))
                .flatten()
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
        }

        // Residents move down onto the rest: what no one uses is not asked for.
        let gap = top - used_end(&self.sizes, &plan).next_multiple_of(PAGE).min(top);
        plan.resident.iter_mut().for_each(|load| load.address -= gap);
        plan.arena_bytes = end - gap;
        for (step, read) in plan.steps.iter_mut().zip(&self.slices.read_of) {
            if let Some(read) = *read {
                let moved = if pinned[read] { gap } else { 0 };
                let start = step_weights(network, step).start;
                step.weights = address_of[read] - moved + start - reads[read].offset;
            }
        }
        if manner.ahead {
            set_releases(&self.sizes, &mut plan, &self.lives, &uses);
            keep_undisturbed(&mut plan, &uses);
        } else {
            for (load, using) in plan.loads.iter_mut().zip(&uses) {
                load.release = using.life.start as i32;
            }
        }
        Ok(plan)
    }

    fn load(&self, read: usize, address: u64) -> Load {
        let read = &self.slices.reads[read];
        Load { offset: read.offset, address, bytes: read.bytes as u32, ..Load::default() }
    }
}

/// The end of the highest buffer, scratch or streamed load.
fn used_end(sizes: &[u64], plan: &Plan) -> u64 {
    let buffers = plan.places.iter().zip(sizes).map(|(at, bytes)| at.address + bytes);
    let scratch = plan.steps.iter().map(|step| step.scratch + step.scratch_bytes);
    let loads = plan.loads.iter().map(|load| load.address + u64::from(load.bytes));
    buffers.chain(scratch).chain(loads).max().unwrap_or(0)
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
