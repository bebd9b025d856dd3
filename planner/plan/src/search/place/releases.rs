//! When loads may start: when what was in their place is used no more.

use super::skyline::Skyline;
use crate::memory::Lifetime;
use crate::slice::Slices;
use eyelet::pack::FAST;
use eyelet_model::plan::Plan;

/// When a load is in use, and what was in its place before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Steps that read it.
    pub life: Lifetime,
    /// Its number among the reads of all slices.
    pub read: usize,
    /// The last step of this inference, before them, that uses any of its bytes for something else;
    /// -1 if none does.
    pub before: i64,
}

/// Fills in the release of every load from the addresses, exactly: a load is released when the last
/// step that uses any of its bytes for something else is done. If no step of this inference does so
/// before the load is used, that step is one of the inference before, and the load runs ahead into
/// it.
pub fn set_releases(
    sizes: &[u64],
    plan: &mut Plan,
    lives: &[Lifetime],
    slices: &Slices,
    uses: &[Use],
) {
    let period = plan.period();
    // The last use of every address in an inference, whatever for.
    let mut sky = Skyline::new(0..plan.budget);
    for (buffer, life) in lives.iter().enumerate().filter(|(_, life)| life.start != usize::MAX) {
        let start = plan.places[buffer].address;
        if start >= FAST {
            continue;
        }
        sky.raise(start..start + sizes[buffer], life.end as i64);
    }
    for (index, step) in plan.steps.iter().enumerate().filter(|(_, step)| step.scratch < FAST) {
        sky.raise(step.scratch..step.scratch + step.scratch_bytes, index as i64 + 1);
    }
    for (load, using) in plan.loads.iter().zip(uses) {
        sky.raise_load(slices, using.read, load.address);
    }
    for (load, using) in plan.loads.iter_mut().zip(uses) {
        let range = load.address..load.address + u64::from(load.bytes);
        load.release = match using.before {
            -1 => (sky.last_use(range) + 1 - period) as i32,
            before => before as i32 + 1,
        };
    }
}
