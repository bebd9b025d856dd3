//! What was measured of a set's networks and chunks, and what a set that is refused reports.

use super::samples::Timed;
use crate::cli::table::Table;
use eyelet_planner::size;
use eyelet_tasks::set::units::human_ns;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// Times of plans and chunks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Costs {
    /// How the time that counts follows from samples.
    pub rule: String,
    pub plans: Vec<PlanCost>,
    pub chunks: Vec<ChunkCost>,
}

/// A plan of a pack.
#[derive(Clone, Debug, Serialize)]
pub struct PlanCost {
    pub pack: PathBuf,
    pub budget_bytes: u64,
    /// The set was rehearsed with it; otherwise it ran alone.
    pub rehearsed: bool,
    pub job: Timed,
    /// The step that counts most.
    pub step: Timed,
    pub counted_job_ns: u64,
    pub counted_step_ns: u64,
}

/// Chunks of one size.
#[derive(Clone, Debug, Serialize)]
pub struct ChunkCost {
    pub chunk_bytes: u64,
    pub rehearsed: bool,
    pub read: Timed,
}

impl Costs {
    /// Samples of the plans that counted, the fewest and the most.
    pub fn samples(&self) -> Option<(u64, u64)> {
        let rehearsed = self.plans.iter().any(|plan| plan.rehearsed);
        let counts = || {
            self.plans
                .iter()
                .filter(|plan| plan.rehearsed || !rehearsed)
                .map(|plan| plan.job.samples)
        };
        counts().min().zip(counts().max())
    }

    /// Samples of chunks that counted.
    pub fn chunk_samples(&self) -> u64 {
        let rehearsed = self.chunks.iter().any(|chunk| chunk.rehearsed);
        let counted = self.chunks.iter().filter(|chunk| chunk.rehearsed || !rehearsed);
        counted.map(|chunk| chunk.read.samples).min().unwrap_or(0)
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "counted      {}", self.rule)?;
        let head = ["measured", "in", "samples", "median", "worst", "counted", "longest step"];
        let mut table = Table::new(1, head).names();
        let place = |rehearsed| if rehearsed { "the set" } else { "alone" }.to_owned();
        for plan in &self.plans {
            let name = format!("{}, {}", plan.pack.display(), size::human(plan.budget_bytes));
            let Timed { samples, median_ns, worst_ns, .. } = plan.job;
            table.row([
                name,
                place(plan.rehearsed),
                samples.to_string(),
                human_ns(median_ns),
                human_ns(worst_ns),
                human_ns(plan.counted_job_ns),
                human_ns(plan.counted_step_ns),
            ]);
        }
        for chunk in &self.chunks {
            let Timed { samples, median_ns, worst_ns, counted_ns } = chunk.read;
            table.row([
                format!("a chunk of {}", size::human(chunk.chunk_bytes)),
                place(chunk.rehearsed),
                samples.to_string(),
                human_ns(median_ns),
                human_ns(worst_ns),
                human_ns(counted_ns),
                "–".to_owned(),
            ]);
        }
        write!(f, "{table}")
    }
}

/// A set that the test refuses.
#[derive(Debug, Serialize)]
pub struct Refused {
    pub admitted: bool,
    /// As it is printed to stderr.
    pub error: String,
    pub costs: Costs,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.costs)
    }
}
