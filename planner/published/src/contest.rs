//! Comparing plans of a rival with the plan that `joint` has at hand.
//!
//! A rival places and simulates only the plans that its bound says could be faster. Published
//! strategies do not begin to read before the inference that they read for. So [`bounds_ns`] is a
//! bound: a line of reads, as if there were room for all, and of steps after them.

use eyelet::pack::{Method, Step};
use eyelet_model::plan::Plan;
use eyelet_plan::search::parts::{Built, PlanBuilder};
use eyelet_plan::slice::Slices;

/// Plans that are compared with the fastest so far.
pub struct Contest<'a, 'b> {
    pub builder: &'a PlanBuilder<'b>,
    /// Predicted nanoseconds of the fastest so far.
    pub least_ns: u64,
    may_read: bool,
    fastest: Option<Built>,
}

impl<'a, 'b> Contest<'a, 'b> {
    /// A contest against a plan that takes so long. Plans that read count only if they `may_read`.
    pub fn new(builder: &'a PlanBuilder<'b>, than_ns: u64, may_read: bool) -> Self {
        Self { builder, least_ns: than_ns, may_read, fastest: None }
    }

    /// Keeps a plan if it is faster.
    pub fn consider(&mut self, plan: Plan) {
        let Ok(built) = self.builder.predict_within(plan, self.least_ns) else { return };
        if built.line.steady_ns < self.least_ns && (self.may_read || !built.reads()) {
            (self.least_ns, self.fastest) = (built.line.steady_ns, Some(built));
        }
    }

    /// The fastest plan that was considered, if any was faster.
    pub fn fastest(self) -> Option<Built> {
        self.fastest
    }
}

/// Lower bounds for plans of these slices: with reads that run ahead within an inference, and with
/// reads that each wait for the step before the one that needs it. Steps have all the scratch that they can use, and reads
/// do not slow them down.
pub fn bounds_ns(builder: &PlanBuilder<'_>, slices: &Slices) -> [u64; 2] {
    let resident = slices.reads.iter().filter(|read| read.resident);
    let arena_bytes = builder.least_tables() + resident.map(|read| read.bytes).sum::<u64>();
    let in_llc = builder.costs.fits_llc(arena_bytes);
    let service = builder.costs.service(in_llc);
    let mut last: Option<(Step, i64)> = None;
    let (mut come, mut ahead, mut in_turn) = (0, 0i64, 0i64);
    for (index, step) in slices.steps.iter().enumerate() {
        let read = slices.read_of[index].map(|at| &slices.reads[at]);
        if let Some(read) = read.filter(|read| read.first == index && !read.resident) {
            // Other reads in flight can hide its latency.
            let parts = service.read(read.bytes);
            come += parts.transfer;
            ahead = ahead.max(come + parts.check);
            in_turn += parts.transfer + parts.check;
        }
        let method = match step.method {
            // Wherever they begin.
            Method::Chains { count, .. } => Method::Chains { first: 0, count },
            method => method,
        };
        let step = Step { first: 0, method, row: 0, scratch_bytes: 0, ..*step };
        let ns = match last {
            Some((like, ns)) if like == step => ns,
            _ => builder.costs.least_ns_from(&step, f64::INFINITY, None, in_llc) as i64,
        };
        last = Some((step, ns));
        (ahead, in_turn) = (ahead + ns, in_turn + ns);
    }
    [ahead, in_turn].map(|ns| ns as u64)
}
