//! The staging ring of a plan, for a device with a memory of its own: where each load is read to
//! before it is copied.
//!
//! Loads lie one after the other around the ring, from its start again in each inference. A read
//! waits for the copies of what lies in its place, which follows exactly from the addresses. The
//! size of the ring decides how far reads run ahead of copies. Copies are released as loads are
//! elsewhere: by addresses in the arena.

use super::design::Built;
use super::queue::queue;
use super::sliced_network::Loading;
use crate::simulate::{Costs, simulate_with};
use eyelet::executor::RESIDENT_PIECE;
use eyelet::pack::{PAGE, Stage};
use eyelet_model::plan::Plan;

/// Sizes of the ring that are tried, in largest loads.
const SIZES: std::ops::RangeInclusive<u64> = 2..=8;

/// The size while designs are compared.
const USUAL: u64 = 4;

/// Residents are read once, in pieces: a ring for them alone need not be larger.
const RESIDENTS: u64 = 4 << 20;

/// Gives a plan a ring of the usual size.
pub fn stage(plan: &mut Plan, loading: Loading) {
    stage_in(plan, loading, USUAL);
}

/// Gives a plan the smallest ring with which it is predicted to be as fast as with any, within what
/// can be measured, and no slower than with its own.
pub fn stage_best(held: Built, loading: Loading, costs: &Costs) -> Built {
    let built = |size| {
        let mut plan = held.plan.clone();
        stage_in(&mut plan, loading, size);
        Built { line: simulate_with(&plan, costs), plan }
    };
    let mut rings: Vec<Built> = SIZES.map(built).collect();
    let least = rings.iter().map(|built| built.line.steady_ns).min().unwrap_or(0);
    let most = (least + least / 1000).min(held.line.steady_ns);
    match rings.iter().position(|built| built.line.steady_ns <= most) {
        Some(smallest) => rings.swap_remove(smallest),
        None => held,
    }
}

/// Gives a plan a ring of `size` largest loads.
fn stage_in(plan: &mut Plan, loading: Loading, size: u64) {
    let bytes: Vec<u64> = plan.loads.iter().map(|load| load.bytes.into()).collect();
    let all: u64 = bytes.iter().sum();
    let resident = plan.resident.iter().map(|load| u64::from(load.bytes)).max().unwrap_or(PAGE);
    plan.staging_bytes = match bytes.iter().max() {
        // The executor takes what the plan says.
        Some(largest) => (size * largest).min(all).max(resident.min(RESIDENT_PIECE)),
        None => resident.min(RESIDENTS),
    };
    let (places, _) = queue(&bytes, plan.staging_bytes);
    let loads = bytes.len();
    let meets =
        |a: usize, b: usize| places[a] < places[b] + bytes[b] && places[b] < places[a] + bytes[a];
    let period = plan.period() as i32;
    let stage = |(load, record): (usize, &eyelet::pack::Load)| {
        // The last load before it in its place, if need be of the inference before.
        let back = (1..loads).find(|back| meets(load, (load + loads - back) % loads));
        let steps = match loading {
            Loading::Cyclic => 1 - period,
            Loading::Inference => 1,
            Loading::OnDemand => record.release,
        };
        let copies = (load + 1) as i32 - back.unwrap_or(loads) as i32;
        Stage { address: places[load], copies, steps }
    };
    plan.stages = plan.loads.iter().enumerate().map(stage).collect();
}
