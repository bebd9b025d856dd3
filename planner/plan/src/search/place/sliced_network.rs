//! Placing: a network cut into slices, put into an arena of a given size.
//!
//! Activations first, then step by step weights and intermediates, as in FlexNN's Algorithm 1. A
//! strategy decides how finely to cut, how much memory residents get, and whether loads run ahead
//! of the step that needs them.

use super::activations::{ActivationLayout, spans};
use super::fast_memory::fast_bytes;
use super::releases::{Use, set_releases};
use super::skyline::{Choice, Skyline};
use crate::memory::{Lifetime, lifetimes};
use crate::request::Request;
use crate::slice::Slices;
use eyelet::pack::{self, FAST, Load, PAGE, Step};
use eyelet_model::plan::{Plan, step_weights};
use std::cell::Cell;
use std::ops::Range;

/// More memory than anything takes, whose addresses do not overflow.
pub const UNLIMITED: u64 = 1 << 60;

/// A step that could not be placed.
#[derive(Clone, Copy, Debug)]
pub struct Misfit {
    pub layer: u32,
    /// The arena is not even large enough for the activations.
    pub activations: bool,
}

/// How far loads may run ahead of the step that needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loading {
    /// As far as memory permits, into the next inference, too.
    Cyclic,
    /// As far as memory permits, within one inference.
    Inference,
    /// Not at all: each waits for the step that needs it to be next.
    OnDemand,
}

/// A network that was cut, with everything that does not depend on the budget.
pub struct SlicedNetwork<'a> {
    activations: &'a ActivationLayout,
    slices: Slices,
    /// Lifetimes of the buffers, in steps.
    lives: Vec<Lifetime>,
    scratch: Vec<u64>,
    /// Bytes of the tables of its plan.
    tables: u64,
    /// Segments of skylines that placing has looked at.
    candidates: Cell<usize>,
}

impl<'a> SlicedNetwork<'a> {
    /// `scratch_of` says how many bytes of scratch a step has.
    pub fn new(
        request: &Request<'_>,
        activations: &'a ActivationLayout,
        slices: Slices,
        scratch_of: impl Fn(&Step) -> u64,
    ) -> Self {
        let network = request.network;
        let period = slices.steps.len() + 1;
        let spans = spans(network, &slices.steps);
        let lives = lifetimes(network, period, |layer| spans[layer].clone());
        let mut scratch: Vec<u64> = Vec::with_capacity(slices.steps.len());
        // Slices of a layer are alike, in groups those of some steps before.
        let mut before: Vec<Option<usize>> = vec![None; network.layers.len()];
        for (index, step) in slices.steps.iter().enumerate() {
            let like = before[step.layer as usize].replace(index).filter(|like| {
                let like = &slices.steps[*like];
                (like.count, like.rows, like.chains()) == (step.count, step.rows, step.chains())
            });
            scratch.push(like.map_or_else(|| scratch_of(step), |like| scratch[like]));
        }
        let tables = activations.tables_for(request, &slices, |step| scratch[step]);
        Self { activations, slices, lives, scratch, tables, candidates: Cell::new(0) }
    }

    /// The work of placing it, in segments of memory that were looked at for places.
    pub fn candidates(&self) -> usize {
        self.candidates.get()
    }

    /// The steps with activations and scratch, and no weights: nothing else is below its end.
    pub fn frame(mut self, request: &Request<'_>) -> Plan {
        let tables = self.tables;
        let mut plan = self.empty(request, tables);
        self.slices.reads.clear();
        self.slices.read_of.fill(None);
        let scratch = self.scratch.iter().max().copied().unwrap_or(0);
        let sky = Skyline::new(tables..tables + self.activations.peak + scratch);
        // Above all activations there is room for any scratch.
        let placed = self.stream(&mut plan, &mut [], sky, false);
        debug_assert!(placed.is_ok(), "no room for scratch above the activations");
        plan.arena_bytes =
            used_end(&self.activations.sizes, &plan).max(tables).max(1).next_multiple_of(PAGE);
        plan
    }

    /// Bytes of tables, weights and activations, if all weights stay.
    pub fn bytes_without_scratch(&self) -> Option<u64> {
        let reads = &self.slices.reads;
        let all = reads.iter().all(|read| read.resident);
        let weights = reads.iter().map(|read| read.bytes).sum::<u64>();
        all.then_some(self.tables + weights + self.activations.peak)
    }

    /// The smallest budget in which everything finds room at the lowest places, which are the same
    /// in every larger one.
    pub fn least_bytes(&self, request: &Request<'_>) -> u64 {
        let tables = self.tables;
        let mut plan = self.empty(request, tables);
        let mut address_of = vec![0; self.slices.reads.len()];
        let sky = Skyline::new(tables..UNLIMITED);
        let placed = self.stream(&mut plan, &mut address_of, sky, false);
        debug_assert!(placed.is_ok(), "no room in unlimited memory");
        let resident = self.slices.reads.iter().filter(|read| read.resident);
        let below =
            used_end(&self.activations.sizes, &plan).max(tables).max(1).next_multiple_of(PAGE);
        below + resident.map(|read| read.bytes).sum::<u64>()
    }

    /// The plan with its activations from byte `start` on, and nothing else placed in the arena.
    /// Buffers in fast memory are placed.
    fn empty(&self, request: &Request<'_>, start: u64) -> Plan {
        let fast = &self.activations.fast;
        let place = |((offset, &lines), in_fast): ((&u64, &u32), &Option<u64>)| pack::Place {
            lines,
            ..pack::Place::whole(in_fast.unwrap_or(start + offset))
        };
        Plan {
            tables: self.tables,
            threads: request.threads,
            places: self
                .activations
                .offsets
                .iter()
                .zip(&self.activations.sliding.rings)
                .zip(&fast.buffers)
                .map(place)
                .collect(),
            steps: self.slices.steps.clone(),
            ..Plan::default()
        }
    }

    /// Places everything in `budget` bytes.
    pub fn place(
        &self,
        request: &Request<'_>,
        budget: u64,
        loading: Loading,
    ) -> Result<Plan, Misfit> {
        self.place_by(request, budget, loading, loading != Loading::OnDemand)
    }

    /// Places everything at the lowest place, which succeeds from [`least_bytes`](Self::least_bytes)
    /// on. Loads run ahead as far as that permits.
    pub fn place_lowest(
        &self,
        request: &Request<'_>,
        budget: u64,
        loading: Loading,
    ) -> Result<Plan, Misfit> {
        self.place_by(request, budget, loading, false)
    }

    fn place_by(
        &self,
        request: &Request<'_>,
        budget: u64,
        loading: Loading,
        ahead: bool,
    ) -> Result<Plan, Misfit> {
        let network = request.network;
        let reads = &self.slices.reads;
        let end = budget / PAGE * PAGE;

        // Residents first, everything else above them: so the residents of a larger budget can
        // begin with those of a smaller one.
        let mut base = self.tables;
        let mut address_of = vec![0u64; reads.len()];
        let mut resident = Vec::new();
        for (index, read) in reads.iter().enumerate().filter(|(_, read)| read.resident) {
            address_of[index] = base;
            resident.push(self.load(index, base));
            base += read.bytes;
            if base > end {
                let layer = self.slices.steps[read.first].layer;
                return Err(Misfit { layer, activations: false });
            }
        }
        let mut plan = Plan { budget, resident, ..self.empty(request, base) };
        if base + self.activations.peak > end {
            let activations = self.tables + self.activations.peak > end;
            return Err(Misfit { layer: self.activations.peak_layer, activations });
        }

        let sky = Skyline::new(base..end);
        let uses = self.stream(&mut plan, &mut address_of, sky, ahead)?;

        // The arena ends at the last byte that is used.
        plan.arena_bytes =
            used_end(&self.activations.sizes, &plan).max(base).max(1).next_multiple_of(PAGE);
        for (step, read) in plan.steps.iter_mut().zip(&self.slices.read_of) {
            if let Some(read) = *read {
                let start = step_weights(network, step).start;
                step.weights = address_of[read] + start - reads[read].offset;
                debug_assert_eq!(step.weights_in, pack::Region::Arena);
            }
        }
        match loading {
            Loading::Cyclic => {
                set_releases(&self.activations.sizes, &mut plan, &self.lives, &self.slices, &uses);
                self.keep_undisturbed(&mut plan, &uses);
            }
            Loading::Inference => {
                set_releases(&self.activations.sizes, &mut plan, &self.lives, &self.slices, &uses);
                // Not before the host's turn is over.
                plan.loads.iter_mut().for_each(|load| load.release = load.release.max(1));
            }
            Loading::OnDemand => {
                for (load, using) in plan.loads.iter_mut().zip(&uses) {
                    load.release = using.life.start as i32;
                }
            }
        }
        Ok(plan)
    }

    /// Places step by step what does not stay, where `sky` says that memory is free: where that
    /// delays loads the least, if they may run `ahead` and there is room; else as low as possible.
    fn stream(
        &self,
        plan: &mut Plan,
        address_of: &mut [u64],
        mut sky: Skyline,
        ahead: bool,
    ) -> Result<Vec<Use>, Misfit> {
        let reads = &self.slices.reads;
        plan.loads.clear();
        let mut by_start: Vec<usize> =
            (0..self.lives.len()).filter(|&b| self.lives[b].start != usize::MAX).collect();
        by_start.sort_by_key(|&buffer| self.lives[buffer].start);
        let mut arriving = by_start.into_iter().peekable();
        let mut uses = Vec::new();
        let mut streamed = 0u32;
        for index in 0..plan.steps.len() {
            let time = index as i64 + 1;
            let read = self.slices.read_of[index]
                .filter(|&read| !reads[read].resident && reads[read].first == index);
            // Activations that appear while this step's load is in use count as taken.
            let horizon = read.map_or(index, |read| reads[read].last) + 1;
            while let Some(buffer) = arriving.next_if(|&b| self.lives[b].start <= horizon) {
                let start = plan.places[buffer].address;
                if start >= FAST {
                    continue;
                }
                let range = start..start + self.activations.sizes[buffer];
                sky.raise(range, self.lives[buffer].end as i64);
            }
            let bytes = read.map_or(0, |read| reads[read].bytes);
            let fast = self.activations.fast.scratch(&plan.steps[index], self.scratch[index]);
            let scratch = if fast.is_some() { 0 } else { self.scratch[index] };
            let raise = |sky: &mut Skyline, address: u64| {
                if let Some(read) = read {
                    sky.raise_load(&self.slices, read, address);
                }
            };
            let weights = Weights { bytes, raise: &raise };
            let placed = match ahead {
                true => preload(&mut sky, weights, scratch, time)
                    .or_else(|| no_preload(&mut sky, weights, scratch, time)),
                false => lowest(&mut sky, weights, scratch, time),
            };
            let placed =
                placed.ok_or(Misfit { layer: plan.steps[index].layer, activations: false })?;
            if let Some(read) = read {
                address_of[read] = placed.weights;
                plan.loads.push(self.load(read, placed.weights));
                let life = Lifetime { start: index + 1, end: horizon };
                uses.push(Use { life, read, before: placed.before.max(-1) });
                streamed += 1;
            }
            let step = &mut plan.steps[index];
            step.ready = streamed;
            step.scratch_bytes = self.scratch[index];
            step.scratch = fast.unwrap_or(if scratch > 0 { placed.scratch } else { 0 });
        }
        plan.fast_bytes = fast_bytes(&self.activations.sizes, plan);
        self.candidates.set(self.candidates.get() + sky.candidates());
        Ok(uses)
    }

    /// Loads whose bytes nothing else ever uses become residents. Such a load is released as soon as
    /// its own last use is over.
    fn keep_undisturbed(&self, plan: &mut Plan, uses: &[Use]) {
        let period = plan.period();
        let span = |load: &Load| load.address..load.address + u64::from(load.bytes);
        // If a read has several parts, other data may have been in the place of those that are used up.
        let undisturbed = |plan: &Plan, at: usize| {
            let own = span(&plan.loads[at]);
            let apart = |other: Range<u64>| other.end <= own.start || own.end <= other.start;
            let places = plan.places.iter().zip(&self.activations.sizes).zip(&self.lives);
            let places = places.filter(|(_, life)| life.start != usize::MAX);
            places.map(|((at, bytes), _)| at.address..at.address + bytes).all(apart)
                && plan
                    .steps
                    .iter()
                    .all(|step| apart(step.scratch..step.scratch + step.scratch_bytes))
                && (0..plan.loads.len()).all(|other| other == at || apart(span(&plan.loads[other])))
        };
        let stays: Vec<bool> = (0..plan.loads.len())
            .map(|at| {
                let using = &uses[at];
                i64::from(plan.loads[at].release) == using.life.end as i64 + 1 - period
                    && (self.slices.reads[using.read].parts.len() == 1 || undisturbed(plan, at))
            })
            .collect();
        let loads = std::mem::take(&mut plan.loads);
        let mut renumbered = vec![0u32];
        for (load, stays) in loads.into_iter().zip(stays) {
            match stays {
                true => plan.resident.push(Load { release: 0, ..load }),
                false => plan.loads.push(load),
            }
            renumbered.push(plan.loads.len() as u32);
        }
        for step in &mut plan.steps {
            step.ready = renumbered[step.ready as usize];
        }
    }

    fn load(&self, read: usize, address: u64) -> Load {
        let read = &self.slices.reads[read];
        Load { offset: read.offset, address, bytes: read.bytes as u32, ..Load::default() }
    }
}

/// The end of the highest buffer, scratch or streamed load in the arena.
pub(in crate::search) fn used_end(sizes: &[u64], plan: &Plan) -> u64 {
    let places = plan.places.iter().zip(sizes).filter(|(at, _)| at.address < FAST);
    let buffers = places.map(|(at, bytes)| at.address + bytes);
    let steps = plan.steps.iter().filter(|step| step.scratch < FAST);
    let scratch = steps.map(|step| step.scratch + step.scratch_bytes);
    let loads = plan.loads.iter().map(|load| load.address + u64::from(load.bytes));
    buffers.chain(scratch).chain(loads).max().unwrap_or(0)
}

/// Where a step's weights and scratch went.
struct Placed {
    weights: u64,
    scratch: u64,
    /// Last use of the weights' place before; negative if none in this inference.
    before: i64,
}

/// The bytes of a step's load, 0 if it has none, and how to mark them as used.
#[derive(Clone, Copy)]
struct Weights<'a> {
    bytes: u64,
    /// Marks it as used.
    raise: &'a dyn Fn(&mut Skyline, u64),
}

/// Weights where memory has been free the longest, scratch where it was freed last.
fn preload(sky: &mut Skyline, weights: Weights<'_>, scratch: u64, time: i64) -> Option<Placed> {
    place(sky, weights, scratch, time, [Choice::Earliest, Choice::Latest])
}

/// Both as low as possible: wastes the least memory, and may make the load wait.
fn no_preload(sky: &mut Skyline, weights: Weights<'_>, scratch: u64, time: i64) -> Option<Placed> {
    place(sky, weights, scratch, time, [Choice::Lowest, Choice::Lowest])
}

/// Both as low as possible, in the order that uses less memory. The scratch goes no higher than it
/// does without weights.
fn lowest(sky: &mut Skyline, weights: Weights<'_>, scratch: u64, time: i64) -> Option<Placed> {
    if weights.bytes == 0 || scratch == 0 {
        return no_preload(sky, weights, scratch, time);
    }
    let mut other = sky.clone();
    let scratch_first = other.find(scratch, 64, time, Choice::Lowest).and_then(|at| {
        other.raise(at.address..at.address + scratch, time);
        let placed = no_preload(&mut other, weights, 0, time)?;
        Some(Placed { scratch: at.address, ..placed })
    });
    let weights_first = no_preload(sky, weights, scratch, time);
    let end = |placed: &Placed| (placed.weights + weights.bytes).max(placed.scratch + scratch);
    match scratch_first {
        Some(placed) if weights_first.as_ref().is_none_or(|held| end(&placed) < end(held)) => {
            *sky = other;
            Some(placed)
        }
        _ => weights_first,
    }
}

fn place(
    sky: &mut Skyline,
    weights: Weights<'_>,
    scratch: u64,
    time: i64,
    choices: [Choice; 2],
) -> Option<Placed> {
    if weights.bytes > 0 && scratch > 0 {
        sky.save();
    }
    let mut placed = Placed { weights: 0, scratch: 0, before: -1 };
    if weights.bytes > 0 {
        let place = sky.find(weights.bytes, PAGE, time, choices[0])?;
        (placed.weights, placed.before) = (place.address, place.last_use);
        (weights.raise)(sky, placed.weights);
    }
    if scratch > 0 {
        match sky.find(scratch, 64, time, choices[1]) {
            Some(place) => placed.scratch = place.address,
            None => {
                if weights.bytes > 0 {
                    sky.restore();
                }
                return None;
            }
        }
        sky.raise(placed.scratch..placed.scratch + scratch, time);
    }
    Some(placed)
}
