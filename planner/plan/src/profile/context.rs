//! The cost of steps in a plan, beyond the cost of each by itself.
//!
//! - **Where weights are.** A plan whose arena fits the cache that all processors share finds them there: they have been
//!   used in the inference before, or copied or checked on the way in. A larger plan finds them in memory. If the
//!   processor copies reads, it copies them there for a plan that fits, which is faster than to memory. Then half of the
//!   cache counts, since the source goes through it as well.
//! - **Loads meanwhile.** A load can be in flight from its `release` to the first step that waits for it. Bytes that arrive
//!   while steps compute slow these down. Bytes that steps wait for cost only the wait. Only one of the loads in flight
//!   moves bytes at a time: each counts with the time for which it keeps the busier one of storage and loader. The bytes are
//!   spread over all steps in proportion to their time, since the steps that a load meets are known only once they are
//!   timed.

use super::Costs;
use eyelet::pack::{FAST, Load, Method, Step};
use eyelet_model::plan::Plan;

/// How often the slowdown of steps is computed anew from the loads that they meet.
const TURNS: usize = 3;

impl Costs {
    /// Predicted times of a plan's steps, in nanoseconds.
    pub fn steps_ns(&self, plan: &Plan) -> Vec<i64> {
        let in_llc = self.fits_llc(plan.arena_bytes);
        // Slices of a layer are alike.
        let (mut like, mut like_ns) = (None, 0);
        let step_ns = |step: &Step| {
            let Step { layer, method, count, rows, scratch_bytes, weights_in, .. } = *step;
            let method = match method {
                // Wherever they begin.
                Method::Chains { count, .. } => Method::Chains { first: 0, count },
                method => method,
            };
            let in_fast = step.scratch >= FAST;
            let this = Some((layer, method, count, rows, scratch_bytes, weights_in, in_fast));
            if like != this {
                let ns = self.step_ns_from(step, in_llc);
                (like, like_ns) = (this, (ns - self.saved_ns(plan, step, ns)) as i64);
            }
            like_ns
        };
        let alone: Vec<i64> = plan.steps.iter().map(step_ns).collect();
        let all = alone.iter().sum::<i64>().max(1) as f64;
        let read = plan.bytes_per_inference() as f64;
        // Slowed down, steps meet more of the loads. From the most that can be, this comes down to what it is.
        let mut contention = read * self.contention_ns_per_byte(in_llc) / all;
        // Reads of staged plans go ahead into the ring, whatever copies wait for.
        let meetings = plan.stages.is_empty().then(|| Meetings::new(self, plan, &alone));
        for _ in 0..TURNS {
            let bytes = meetings.as_ref().map_or(read, |meetings| meetings.bytes(1.0 + contention));
            contention = bytes * self.contention_ns_per_byte(in_llc) / all;
        }
        alone.iter().map(|ns| ns + (*ns as f64 * contention).ceil() as i64).collect()
    }
}

/// How loads can meet steps.
struct Meetings {
    loads: Vec<Meeting>,
    /// All steps.
    all_ns: i64,
}

struct Meeting {
    bytes: f64,
    /// Time of the steps that compute from the load's release until one waits for it.
    window_ns: i64,
    /// Time for which it keeps the busier one of storage and loader.
    busy_ns: f64,
}

impl Meetings {
    /// The loads of a plan whose steps take `steps` nanoseconds.
    fn new(costs: &Costs, plan: &Plan, steps: &[i64]) -> Self {
        let (period, service) = (plan.period(), costs.service_of(plan));
        // The host's turn is step 0 and takes no time: `done[n]` is when n steps are done.
        let mut done = Vec::with_capacity(steps.len() + 2);
        done.extend([0, 0]);
        let mut all_ns = 0;
        for ns in steps {
            all_ns += ns;
            done.push(all_ns);
        }
        let after = |count: i64| {
            done[count.rem_euclid(period) as usize] + count.div_euclid(period) * all_ns
        };
        let mut user = 0;
        let meeting = |(index, load): (usize, &Load)| {
            while user < plan.steps.len() && plan.steps[user].ready as usize <= index {
                user += 1;
            }
            // The step numbered `user + 1` waits for the load, after that many steps.
            let window_ns = after(user as i64 + 1) - after(load.release.into());
            let busy_ns = service.busy_ns(load.bytes.into());
            Meeting { bytes: f64::from(load.bytes), window_ns: window_ns.max(0), busy_ns }
        };
        Self { loads: plan.loads.iter().enumerate().map(meeting).collect(), all_ns }
    }

    /// Bytes that an inference can read while steps compute that are `slower` times as long.
    fn bytes(&self, slower: f64) -> f64 {
        let (mut bytes, mut read_ns) = (0.0, 0.0);
        for load in &self.loads {
            let overlap = (slower * load.window_ns as f64).min(load.busy_ns);
            bytes += load.bytes * overlap / load.busy_ns.max(1.0);
            read_ns += overlap;
        }
        // There is no more reading at once with computing than there is computing.
        bytes * (slower * self.all_ns as f64 / f64::max(read_ns, 1.0)).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Board;
    use crate::profile::{Contention, Profile};
    use eyelet::kernels::Isa;
    use eyelet_model::network::Network;

    /// Without layers: what steps take is said by the tests.
    fn network() -> Network {
        Network {
            name: "none".into(),
            isa: Isa::Neon,
            buffers: Vec::new(),
            tensors: Vec::new(),
            layers: Vec::new(),
            names: Vec::new(),
            weights: Vec::new(),
            on_load: Vec::new(),
            mapped: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// A profile of one read rate (4096 ns a page), and what reading costs computing.
    fn profile(contention: Contention) -> Profile {
        let mut profile = Board::load("jetson-nano").unwrap().profile;
        profile.storage = crate::profile::Storage::flat(0, 1000.0, f64::INFINITY);
        profile.storage.contention = Some(contention);
        (profile.compute.shared_cache_bytes, profile.compute.shared_cache_gbs) = (1 << 20, 50.0);
        profile
    }

    fn costs(contention: Contention) -> Costs {
        Costs::new(&network(), &profile(contention), 1)
    }

    /// Loads of a page each with these releases, for steps that wait for `ready` of them.
    fn plan(releases: &[i32], ready: &[u32]) -> Plan {
        let load = |release: &i32| Load { bytes: 4096, release: *release, ..Load::default() };
        let step = |ready: &u32| Step { ready: *ready, ..Step::default() };
        Plan {
            loads: releases.iter().map(load).collect(),
            steps: ready.iter().map(step).collect(),
            arena_bytes: 2 << 20,
            ..Plan::default()
        }
    }

    #[test]
    fn only_what_computing_overlaps_counts() {
        let costs = costs(Contention { llc_ns_per_byte: 0.0, dram_ns_per_byte: 1.0 });
        let bytes = |plan: &Plan, steps: &[i64]| Meetings::new(&costs, plan, steps).bytes(1.0);
        // On demand: each load may start when the step before the one that waits for it is done.
        assert_eq!(bytes(&plan(&[1, 2], &[1, 2]), &[10_000, 10_000]), 0.0);
        // A step earlier: all of it during the first step, or the part that this has time for.
        assert_eq!(bytes(&plan(&[1, 1], &[1, 2]), &[10_000, 10_000]), 4096.0);
        assert_eq!(bytes(&plan(&[1, 1], &[1, 2]), &[1024, 10_000]), 1024.0);
        // In the inference before, during its last step.
        assert_eq!(bytes(&plan(&[-1, 2], &[1, 2]), &[10_000, 10_000]), 4096.0);
        // No more at once than there is computing.
        assert_eq!(bytes(&plan(&[-2, -1], &[1, 2]), &[1024, 1024]), 2048.0);
    }

    #[test]
    fn plans_that_a_cache_holds_read_weights_there() {
        let contention = Contention { llc_ns_per_byte: 0.0, dram_ns_per_byte: 1.0 };
        let costs = costs(contention);
        assert!(costs.fits_llc(1 << 20) && !costs.fits_llc((1 << 20) + 1));
        assert_eq!([true, false].map(|in_llc| costs.contention_ns_per_byte(in_llc)), [0.0, 1.0]);
        // Where nothing was measured, memory takes its time for both.
        let mut profile = profile(contention);
        (profile.storage.contention, profile.compute.shared_cache_gbs) = (None, 0.0);
        profile.compute.memory_gbs = 4.0;
        let costs = Costs::new(&network(), &profile, 1);
        assert!(!costs.fits_llc(1));
        assert_eq!([true, false].map(|in_llc| costs.contention_ns_per_byte(in_llc)), [0.25; 2]);
    }
}
