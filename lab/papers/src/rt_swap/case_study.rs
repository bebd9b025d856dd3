//! RT-Swap's case study: Table IV's six tasks, simulated, with Fig. 8's latencies and Fig. 9's responses.

use super::costs::Approach;
use eyelet::tasks::{Policy, SetError};
use eyelet_tasks::generate::table3::{Drawn, Member};
use eyelet_tasks::set::{Assignment, TaskSet};
use eyelet_tasks::simulate::{Arrivals, Mode, Options, Outcome, Times, simulate};

/// A row of Table IV: network and resolution (indices of Table III), deadline, published volume.
pub const TABLE4: [(usize, usize, f64, u64); 6] = [
    (2, 1, 600.0, 0),
    (0, 0, 600.0, 0),
    (3, 2, 900.0, 576),
    (3, 2, 900.0, 576),
    (3, 2, 1200.0, 576),
    (3, 2, 1200.0, 576),
];

/// The paper's chunk size.
pub const CHUNK_BYTES: u64 = 32_000_000;
/// Published: footprint of all tasks, worst latency of τ1 and τ3 with RT-Swap and with Base, worst response with Base.
pub const PUBLISHED_GB: f64 = 25.6;
pub const PUBLISHED_MS: [(f64, f64); 2] = [(33.0, 383.0), (184.0, 2172.0)];
pub const PUBLISHED_BASE_RESPONSE_MS: f64 = 4438.0;

/// ResNext's footprint at 608: Table III rounds it to 5.7 GB, but only 5.65 GB gives the published footprint of all.
const RESNEXT_BYTES: u64 = 5_650_000_000;

/// The six tasks.
pub fn set(clean: bool) -> TaskSet {
    let member = |&(network, resolution, period_ms, _): &(usize, usize, f64, u64)| Member {
        network,
        resolution,
        period_ms,
    };
    let drawn = Drawn { members: TABLE4.iter().map(member).collect() };
    let mut set = Approach::RtSwap.set(&drawn, 1.0, clean);
    set.tasks.iter_mut().skip(2).for_each(|task| task.cost.bytes = RESNEXT_BYTES);
    set
}

/// The published volumes.
pub fn published() -> Assignment {
    let chunks = |&(_, _, _, mb): &(usize, usize, f64, u64)| (mb * 1_000_000 / CHUNK_BYTES) as u32;
    Assignment {
        chunk_bytes: CHUNK_BYTES,
        chunks: TABLE4.iter().map(chunks).collect(),
        levels: vec![0; TABLE4.len()],
        policy: Policy::Regions,
    }
}

/// Runs an assignment under a policy, all worst times, for so many jobs.
pub fn run(
    set: &TaskSet,
    assignment: &Assignment,
    policy: Policy,
    jobs: u64,
) -> Result<Outcome, SetError> {
    let mut tasks = assignment.tasks(set);
    if policy == Policy::Steps {
        // A network has hundreds of layers; a tenth of it is a long step.
        tasks.iter_mut().for_each(|task| task.step_ns = task.compute_ns.div_ceil(10));
    }
    let options = Options {
        policy,
        arrivals: Arrivals::Sporadic { most_pause: 0.2 },
        mode: Mode::AtOnce,
        times: Times::Share(0.9),
        jobs,
        until_miss: false,
        trace: true,
        seed: 9,
    };
    simulate(&tasks, assignment.pool(set).unwrap_or(0), &options)
}

/// The least, the median, the 99th percentile and the largest.
pub fn percentiles_ms(responses_ns: &[u64]) -> [f64; 4] {
    let mut sorted = responses_ns.to_vec();
    sorted.sort_unstable();
    let at = |share: f64| {
        let last = sorted.len().saturating_sub(1);
        sorted.get((last as f64 * share).round() as usize).map_or(0.0, |&ns| ns as f64 / 1e6)
    };
    [at(0.0), at(0.5), at(0.99), at(1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_volumes_pass_and_miss_nothing() {
        let set = set(false);
        let assignment = published();
        assert!(assignment.pool(&set).is_some_and(|pool| pool >= 18), "they fit the memory");
        for policy in [Policy::Regions, Policy::Steps] {
            let outcome = run(&set, &assignment, policy, 2000).unwrap();
            assert_eq!((outcome.jobs, outcome.misses), (2000, 0));
            assert!(outcome.loads > 0);
        }
    }
}
