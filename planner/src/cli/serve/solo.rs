//! A plan that was run: alone, and maybe in a rehearsal.

use super::samples::{Interruption, Rule, Timed};
use super::watch::Times;
use crate::cli::run::input::Input;
use crate::cli::run::report::{Digest, Spread};
use eyelet_tasks::set::Cost;
use eyelet_tasks::set::decided::Planned;

/// A plan that was run alone, and maybe in a rehearsal.
#[derive(Clone, Debug)]
pub struct Solo {
    pub planned: Planned,
    pub cost: Cost,
    pub job: Timed,
    /// Of the step that counts most.
    pub step: Timed,
    /// The set was rehearsed with it.
    pub rehearsed: bool,
    pub alone: Times,
    /// Counted times of job and step alone, before any rehearsal.
    pub rough_ns: [u64; 2],
    pub latency_ms: Spread,
    pub example: Example,
}

/// Inputs, and what a network makes of them alone.
#[derive(Clone, Debug, Default)]
pub struct Example {
    /// Every job is given these.
    pub inputs: Vec<Input>,
    /// Of the outputs, as `eyelet run` prints it.
    pub digest: Digest,
    /// CRC-32C of the outputs.
    pub crc: u32,
}

impl Solo {
    /// The longest time of each step alone.
    pub fn step_ns(&self, step: usize) -> u64 {
        self.alone.steps.get(step).map_or(0, |step| step.worst_ns)
    }

    /// A plan that ran alone in these times.
    pub fn new(
        (planned, cost): (Planned, Cost),
        alone: Times,
        (latency_ms, example): (Spread, Example),
        rough: Rule,
    ) -> Self {
        let all = Interruption::of(&alone.steps);
        let (job, step) = Default::default();
        let (rehearsed, rough_ns) = (false, [0; 2]);
        let mut solo =
            Self { planned, cost, job, step, rehearsed, alone, rough_ns, latency_ms, example };
        let alone = solo.alone.clone();
        solo.count(&alone, all, rough);
        solo.rough_ns = [solo.cost.compute_ns, solo.cost.step_ns];
        solo
    }

    /// Counts these times.
    pub fn count(&mut self, times: &Times, all: Interruption, rule: Rule) {
        self.job = rule.timed(&times.jobs, all);
        let steps = times.steps.iter().map(|step| rule.timed(step, all));
        self.step = steps.reduce(Timed::longer).unwrap_or_default();
        (self.cost.compute_ns, self.cost.step_ns) = (self.job.counted_ns, self.step.counted_ns);
        self.cost.step_ns = self.cost.step_ns.min(self.cost.compute_ns);
    }
}
