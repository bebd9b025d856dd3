//! The simulator: predicts when every load and step of a plan happens.
//!
//! Storage, copies (of a device with a memory of its own) and compute are channels that do one thing at a time, in the
//! plan's order, joined by the thresholds exactly as the executor's counters join them. Without stages a load is a read:
//! it starts when its predecessor has started, `release` steps are done, and the loader sees that another read may be in
//! flight. It takes the time that [`Service`] gives. With stages it is a read and a copy, and reads come one after the
//! other: the read starts when its predecessor is done and its stage's copies and steps are; the copy when its
//! predecessor and the read are done and `release` steps are. A step starts when its predecessor is done, `ready` loads
//! are in the arena and, with stages, `reads` have been read. The host's turn takes no time. How long a step takes
//! depends on what is loaded meanwhile ([`Costs::steps_ns`]). Inference follows inference without a pause, until one is
//! like the one before: from then on all are. In some plans with stages two kinds of inferences alternate for ever. Then
//! the mean of two counts.

mod durations;
mod player;
#[cfg(test)]
mod tests;

pub use durations::Durations;

pub use crate::profile::Costs;
use crate::profile::{Profile, Service};
use eyelet::pack::Load;
use eyelet_model::network::Network;
use eyelet_model::plan::Plan;
use player::{Inference, Player, ends};

/// No more inferences than this are simulated. Most plans are steady from the second on; with several reads in flight
/// it can take some more until the loader is no further ahead.
const MAX_INFERENCES: usize = 12;

/// When something happens, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: i64,
    pub end: i64,
}

/// The prediction for a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The first inference, after residents have been loaded and with nothing loaded ahead.
    pub first_ns: u64,
    /// An inference of many: from one output to the next. Where inferences alternate, the mean; the spans are one's.
    pub steady_ns: u64,
    /// Loading the residents, once.
    pub resident_ns: u64,
    /// Sum of the steps.
    pub compute_ns: u64,
    /// Time of a steady inference in which compute waits for loads.
    pub stall_ns: u64,
    /// Lower bound for the reads of an inference: the time for which they keep the storage, or the
    /// loader.
    pub read_ns: u64,
    /// Sum of the copies of an inference.
    pub copy_ns: u64,
    /// The reads of a steady inference. Time 0 is the host's turn before its first step; loads that run
    /// ahead start before it.
    pub loads: Vec<Span>,
    /// The copies of a steady inference; empty without stages.
    pub copies: Vec<Span>,
    /// The steps of a steady inference, the host's left out.
    pub steps: Vec<Span>,
}

/// Predicts a plan on a board with `threads` compute threads.
///
/// # Panics
/// When a step waits for a load that waits for that step, or a threshold is out of range: the checker
/// refuses such plans.
pub fn simulate(network: &Network, plan: &Plan, profile: &Profile, threads: u32) -> Timeline {
    let rings: Vec<u32> = plan.places.iter().map(|place| place.lines).collect();
    simulate_with(plan, &Costs::new(network, profile, threads).sliding(network, &rings))
}

/// Predicts a plan by costs at hand, for callers that simulate many plans in which the same layers slide.
///
/// # Panics
/// As [`simulate`].
pub fn simulate_with(plan: &Plan, costs: &Costs) -> Timeline {
    simulate_of(plan, costs, &Durations::new(plan, costs))
}

/// Predicts a plan, unless computing or reading alone takes more than `most_ns`. Then returns that time as the error.
///
/// # Panics
/// As [`simulate`].
pub fn simulate_within(plan: &Plan, costs: &Costs, most_ns: u64) -> Result<Timeline, u64> {
    let durations = Durations::new(plan, costs);
    let least_ns = durations.steps.iter().sum::<i64>().max(durations.read_ns()) as u64;
    if least_ns > most_ns {
        return Err(least_ns);
    }
    Ok(simulate_of(plan, costs, &durations))
}

fn simulate_of(plan: &Plan, costs: &Costs, durations: &Durations) -> Timeline {
    let mut line = play(plan, durations);
    // Residents are read once; into a staging ring, where what is read is copied before more is.
    let service = costs.service_of(plan);
    let resident = plan.resident.iter().map(|load| u64::from(load.bytes));
    line.resident_ns = match plan.staging_bytes {
        0 => preload_ns(&plan.resident, service),
        _ => resident.map(|bytes| service.load_ns(bytes) + costs.copy_ns(bytes)).sum(),
    };
    line
}

/// Reading residents, which nothing keeps from beginning.
fn preload_ns(resident: &[Load], service: &Service) -> u64 {
    let durations = Durations::of_reads(resident, service);
    let released = |load: &Load| Load { release: 0, ..*load };
    let plan = Plan { loads: resident.iter().map(released).collect(), ..Plan::default() };
    let mut now = Inference::default();
    Player::new(&plan, &durations, None, &mut now).run();
    ends(&now.reads, now.reads.len()) as u64
}

/// Plays a plan whose tasks take so long. Nothing is known of residents.
///
/// # Panics
/// As [`simulate`].
pub fn play(plan: &Plan, durations: &Durations) -> Timeline {
    let sum = |ns: &[i64]| ns.iter().sum::<i64>() as u64;
    let compute_ns = sum(&durations.steps);
    let (first_ns, [before, now]) = inferences(plan, durations);
    let steady_ns = (before.end() + now.end()) as u64 / 2;
    Timeline {
        first_ns,
        steady_ns,
        resident_ns: 0,
        compute_ns,
        stall_ns: steady_ns - compute_ns,
        read_ns: durations.read_ns() as u64,
        copy_ns: if plan.stages.is_empty() { 0 } else { sum(&durations.copies) },
        loads: now.reads,
        copies: now.copies,
        steps: now.steps,
    }
}

/// The time of the first inference, and the last two that are played.
fn inferences(plan: &Plan, durations: &Durations) -> (u64, [Inference; 2]) {
    let mut before = Inference::default();
    let mut now = Inference::default();
    let mut first_ns = 0;
    for number in 0..MAX_INFERENCES {
        std::mem::swap(&mut before, &mut now);
        Player::new(plan, durations, (number > 0).then_some(&before), &mut now).run();
        if number == 0 {
            first_ns = now.end() as u64;
        } else if now == before {
            break;
        }
    }
    (first_ns, [before, now])
}
