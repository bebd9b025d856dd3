//! Errors of what makes a pack from a model.

use eyelet_planner::check::Violation;
use eyelet_planner::passes::PassError;
use eyelet_planner::size;
use std::path::PathBuf;

/// Why a model was not planned as it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum PlanningError {
    #[error(
        "{option} is for the strategy {of}, and this is {strategy}: leave it out, or give --strategy {of}"
    )]
    NotOfStrategy { option: &'static str, of: &'static str, strategy: &'static str },
    #[error("GPUs read no weights of int8: give --weights fp16, or plan for a board without one")]
    EightBitsOnGpu,
    #[error("{}: {source}", path.display())]
    Pass { path: PathBuf, source: PassError },
    #[error(
        "internal: the plan for {} breaks {} rules; please report this. The first: {}",
        size::human(*budget), violations.len(), violations[0]
    )]
    Broken { budget: u64, violations: Vec<Violation> },
}
