//! How long each task of a plan takes, by the costs of a board.

use crate::profile::{Costs, Read, Service};
use eyelet::pack::Load;
use eyelet_model::plan::Plan;

/// How long everything takes, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    pub reads: Vec<Read>,
    /// Reads in flight at a time; with stages 1.
    pub depth: u32,
    /// The most reads in flight when each has begun, if that differs among them.
    pub places: Vec<u32>,
    /// Whether storage answers all reads in flight together.
    pub together: bool,
    /// Times of copies; only plans with stages use them.
    pub copies: Vec<i64>,
    pub steps: Vec<i64>,
}

impl Durations {
    /// The durations of a plan, by the costs of a board.
    pub fn new(plan: &Plan, costs: &Costs) -> Self {
        let steps = costs.steps_ns(plan);
        let bytes = plan.loads.iter().map(|load| u64::from(load.bytes));
        let copies = match plan.stages.is_empty() {
            true => Vec::new(),
            false => bytes.map(|bytes| costs.copy_ns(bytes) as i64).collect(),
        };
        Self { copies, steps, ..Self::of_reads(&plan.loads, costs.service_of(plan)) }
    }

    /// The durations of reads alone.
    pub(super) fn of_reads(loads: &[Load], service: &Service) -> Self {
        let reads = loads.iter().map(|load| service.read(load.bytes.into())).collect();
        let depth = service.depth();
        // Those before the first are the last ones of the inference before.
        let recent = |index: usize| {
            let earlier = loads[..=index].iter().rev().chain(loads[index + 1..].iter().rev());
            earlier.map(|load| u64::from(load.bytes))
        };
        let places = (0..loads.len()).map(|index| service.places(recent(index)));
        let places = if depth > 1 { places.collect() } else { Vec::new() };
        Self { reads, depth, places, together: service.together(), ..Self::default() }
    }

    /// The most reads in flight when this one has begun, itself included.
    pub(super) fn places(&self, index: usize) -> usize {
        self.places.get(index).map_or(self.depth.max(1), |places| *places) as usize
    }

    /// [`Timeline::read_ns`](super::Timeline::read_ns).
    pub(super) fn read_ns(&self) -> i64 {
        let sum = |part: fn(&Read) -> i64| self.reads.iter().map(part).sum::<i64>();
        match self.depth {
            0 | 1 => sum(Read::alone),
            _ => sum(|read| read.transfer).max(sum(|read| read.check)),
        }
    }
}
