//! What costs say of a pack's plans that were measured elsewhere, or later than those that they were made with.

use super::Error;
use super::calibrate::kept;
use super::error::TargetError;
use super::output::milliseconds;
use super::pack_file::{PackFile, planner_types};
use eyelet::kernels::Isa;
use eyelet::pack::PlanEntry;
use eyelet_planner::board::{self, Board};
use eyelet_planner::bound::least_bound_ns;
use eyelet_planner::profile::Profile;
use eyelet_planner::search::Request;
use eyelet_planner::simulate::simulate;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// The costs of a profile, or of the board that is this machine with the kernels of the pack.
pub fn costs(pack: &Path, isa: Isa, profile: Option<&Path>) -> Result<Profile, Error> {
    let Some(path) = profile else {
        let host = board::host()?;
        if host.profile.isa == isa {
            return Ok(kept(&host, pack).unwrap_or(host.profile));
        }
        let name = match isa {
            Isa::Portable => "portable".to_owned(),
            isa => format!("host-{}", isa.name()),
        };
        let threads = host.profile.threads;
        return Ok(Profile { threads, ..Board::load(&name)?.profile });
    };
    let profile = Profile::load(path)?;
    match profile.isa == isa {
        true => Ok(profile),
        false => Err(TargetError::ProfileOfOther {
            path: path.to_owned(),
            profile: profile.isa.name(),
            other: format!("{} is for", pack.display()),
            isa: isa.name(),
        }
        .into()),
    }
}

/// A plan by the costs of a profile, in the steady state.
#[derive(Debug, Serialize)]
pub struct Forecast {
    profile: PathBuf,
    predicted_ms: f64,
    predicted_first_ms: f64,
    predicted_stall_ms: f64,
    /// What no plan for its budget is faster than with the algorithms that are stored, whichever steps transform weights for.
    lower_bound_ms: f64,
}

impl Forecast {
    /// By each profile, of a pack at a path.
    pub fn by_all(
        profiles: &[PathBuf],
        path: &Path,
        pack: &PackFile,
        entry: &PlanEntry,
    ) -> Result<Vec<Self>, Error> {
        if profiles.is_empty() {
            return Ok(Vec::new());
        }
        let (network, plan) = planner_types(pack, &pack.prove(entry)?, entry)?;
        let by = |profile: &PathBuf| {
            let costs = costs(path, pack.isa, Some(profile))?;
            let timeline = simulate(&network, &plan, &costs, plan.threads);
            let request = Request {
                network: &network,
                weights_bytes: pack.header.weights_bytes,
                budget: plan.budget,
                threads: plan.threads,
                profile: &costs,
                exact: false,
                holds_all: false,
            };
            Ok(Self {
                profile: profile.clone(),
                predicted_ms: milliseconds(timeline.steady_ns),
                predicted_first_ms: milliseconds(timeline.first_ns),
                predicted_stall_ms: milliseconds(timeline.stall_ns),
                lower_bound_ms: milliseconds(least_bound_ns(&request)),
            })
        };
        profiles.iter().map(by).collect()
    }
}

impl fmt::Display for Forecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { profile, predicted_ms, predicted_stall_ms, lower_bound_ms, .. } = self;
        let profile = profile.display();
        write!(
            f,
            "{predicted_ms:.2} ms by {profile} ({predicted_stall_ms:.2} ms of stalls; bound {lower_bound_ms:.2} ms)"
        )
    }
}
