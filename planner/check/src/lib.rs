//! The checker: proves a plan, or says what is wrong with it.
//!
//! It shares no code with any strategy and knows nothing of how plans are made. It has the records
//! of a pack in common with them, and asks the runtime's operators which slices they accept, in
//! which rows their outputs divide, and what scratch a step needs at least. Which weights a step
//! reads it reckons itself (`extent`), and what an operator touches says a table of its own
//! (`operators`). What it proves is what the executor relies on: every range
//! inside the arena; every layer made exactly once, from inputs that have been written and not
//! written over, though steps of layers alternate and rings hold a few lines; every weight in its
//! place before it is read and until it has been read; no two things in the same bytes at the same
//! time; no deadlock. All of it for every interleaving that the thresholds allow, over any number
//! of inferences.
//!
//! # Time
//!
//! With the host's, an inference has `S` steps. A load with `release` `e` may start as soon as `e`
//! steps are done: in the gap before step `e`. Loads are done one at a time in order, so it cannot
//! start before its predecessors may, those of the inference before included (`Schedule::earliest`).
//! The first step that waits for it is `d`: it is done in the gap before step `d` at the latest
//! (`Schedule::deadline`). Gaps matter: a load with `e = d` runs between two steps, while whatever is
//! live across the gap is in place. So time is counted in half steps: `2t` is the gap before step `t`,
//! `2t + 1` is step `t`. All of it has period `2S`.
//!
//! With stages, a load is a copy as far as the arena goes: `release` and `ready` are its thresholds. That the reads
//! before it find room in the staging ring is proved apart (`stages`).

mod bits;
mod dataflow;
mod extent;
mod held;
mod lines;
mod meeting;
mod operators;
mod order;
mod overlap;
mod rings;
mod runs;
mod slices;
mod stages;
mod structure;
mod violation;
mod weights;

#[cfg(test)]
mod tests;

pub use violation::{Holder, Occupant, Violation};

use eyelet::ops::{self, Problem, Slice};
use eyelet::pack::Step;
use eyelet_model::network::Network;
use eyelet_model::plan::Plan;
use std::ops::Range;

/// No more violations than this are collected: the first few say what is wrong.
const MAX_VIOLATIONS: usize = 64;

/// Scratch that a step needs with so many threads, in bytes.
pub type ScratchBytes<'a> = &'a dyn Fn(&Network, &Step, u32) -> u64;

/// What is known of a plan that has been proved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// The end of what the plan uses.
    pub arena_bytes: u64,
    /// Weights that stay.
    pub resident_bytes: u64,
    /// Bytes read from storage in each inference.
    pub read_bytes: u64,
    /// Most bytes of live buffers during any step; those that two share, line by line, count once.
    pub peak_activation_bytes: u64,
    /// Most bytes of scratch of any step.
    pub peak_scratch_bytes: u64,
    /// Most bytes during any step: live buffers, scratch, residents, loads from the earliest moment at which they may start,
    /// and each slice that they bring to the end of the last step that reads it.
    pub peak_live_bytes: u64,
    /// The step at which that is (0 is the host's).
    pub peak_step: usize,
}

/// Proves `plan` for `network`, whose weights section has `weights_bytes` bytes.
pub fn check(network: &Network, plan: &Plan, weights_bytes: u64) -> Result<Proof, Vec<Violation>> {
    check_with(network, plan, weights_bytes, &scratch_bytes)
}

/// What the operators cannot do without.
fn scratch_bytes(network: &Network, step: &Step, threads: u32) -> u64 {
    let layer = &network.layers[step.layer as usize];
    let tensor = |id: u32| network.tensors.get(id as usize).copied().unwrap_or_default();
    let output = tensor(layer.output);
    let slice = Slice::from(step);
    let inputs = layer.inputs.map(tensor);
    ops::least_scratch_bytes(&Problem {
        layer,
        inputs: &inputs,
        output: &output,
        slice,
        threads,
        isa: network.isa,
    })
}

/// [`check`] with another measure of the scratch that a step needs.
pub fn check_with(
    network: &Network,
    plan: &Plan,
    weights_bytes: u64,
    scratch: ScratchBytes<'_>,
) -> Result<Proof, Vec<Violation>> {
    let mut found = Found::default();
    // Later stages index by what the plan says.
    structure::references(network, plan, weights_bytes, &mut found);
    found.stop()?;
    structure::bounds(network, plan, weights_bytes, &mut found);
    slices::check(network, plan, &mut found);
    structure::scratch(network, plan, scratch, &mut found);
    structure::thresholds(plan, &mut found);
    stages::structure(network, plan, &mut found);
    rings::check(network, plan, &mut found);
    dataflow::check(network, &mut found);
    found.stop()?;
    stages::check(plan, &mut found);
    order::check(network, plan, &mut found);
    let schedule = Schedule::new(plan);
    let sources = weights::check(network, plan, &schedule, &mut found);
    let proof = overlap::check(network, plan, &schedule, &sources, &mut found);
    found.stop()?;
    Ok(proof)
}

/// The violations found so far.
#[derive(Default)]
struct Found(Vec<Violation>);

impl Found {
    fn add(&mut self, violation: Violation) {
        if self.0.len() < MAX_VIOLATIONS {
            self.0.push(violation);
        }
    }

    fn stop(&mut self) -> Result<(), Vec<Violation>> {
        if self.0.is_empty() { Ok(()) } else { Err(std::mem::take(&mut self.0)) }
    }
}

/// When loads may happen. Counts of steps of the load's own inference.
struct Schedule {
    /// Steps that are done before each load starts.
    earliest: Vec<i64>,
    /// The first step that does not start before each load is done; non-decreasing.
    deadline: Vec<i64>,
}

impl Schedule {
    fn new(plan: &Plan) -> Self {
        let period = plan.period();
        let last = plan.loads.iter().map(|load| i64::from(load.release)).max();
        let mut running = last.map_or(0, |release| release - period);
        let earliest = plan.loads.iter().map(|load| {
            running = running.max(i64::from(load.release));
            running
        });
        let earliest = earliest.collect();
        // Every step of the next inference, the host's excepted, waits for all loads of this one.
        let mut deadline = vec![period + 1; plan.loads.len()];
        let mut known = 0;
        for (index, step) in plan.steps.iter().enumerate() {
            let ready = step.ready as usize;
            if ready > known {
                deadline[known..ready].fill(index as i64 + 1);
                known = ready;
            }
        }
        Self { earliest, deadline }
    }
}

/// `start .. start + len`, up to the largest number.
fn span(start: u64, len: u64) -> Range<u64> {
    start..start.saturating_add(len)
}

/// Whether two ranges share a byte.
fn meet(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}
