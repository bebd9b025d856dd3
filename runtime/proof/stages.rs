//! The stages of loads: reads into the staging ring of a device with a memory of its own, and
//! copies from there.
//!
//! Reads, copies and steps are three sequences, each done in order. The proof covers, in addition
//! to the bounds:
//!
//! - **no race in the ring**: when read j may start, `copies` copies are done, and of those that
//!   follow only the ones of loads before j can be in flight, since a copy comes after its read.
//!   None of these shares a byte with j's place. (In the arena copies are what is in flight, which
//!   `races` proves.)
//! - **no deadlock**: were all three stuck, the step that is next would wait for a copy or a read.
//!   A copy waits for its read, and for `release` steps, no more than are before the step that
//!   first waits for it; a read waits for `steps` steps, no more than are before the step that
//!   first waits for it or its copy, and for copies of loads before it, each of which waits for no
//!   more steps than that.

use super::{Effort, Proven, Range64, check};
use crate::pack::{Flaw, Isa, PAGE, PlanView};

/// The largest ring, as a multiple of the arena's bytes after its tables. Pinned memory is taken
/// before anything is loaded, so a pack may not ask for any amount. Rings are of a few loads, which
/// lie in the arena.
const MOST_ARENAS: u64 = 8;

impl Proven<'_> {
    /// Bounds, alignment and ranges of thresholds.
    pub(super) fn stages(&self) -> Result<(), Flaw> {
        let PlanView { loads, steps, stages, staging_bytes, .. } = self.plan;
        let (count, period) = (loads.len() as i64, i64::from(self.plan.period()));
        let most = if staging_bytes > 0 { count as u64 } else { 0 };
        let what = "plan: one stage for each load of a plan with a staging ring";
        check(stages.len() as u64 == most, what, 0, stages.len() as u64, most)?;
        for (i, step) in steps.iter().enumerate() {
            let reads = u64::from(step.reads);
            check(reads <= most, "step: waits for reads of loads without a stage", i, reads, most)?;
        }
        if staging_bytes == 0 {
            return Ok(());
        }
        let (found, limit) = (self.isa as u64, Isa::Cuda as u64);
        check(self.isa == Isa::Cuda, "plan: a staging ring for a processor", 0, found, limit)?;
        let room = self.arena.end.saturating_sub(self.arena.start);
        let most = room.saturating_mul(MOST_ARENAS).max(PAGE);
        let what = "plan: bytes of the staging ring, beside such an arena";
        check(staging_bytes <= most, what, 0, staging_bytes, most)?;
        for (j, stage) in stages.iter().enumerate() {
            let end = self.ring_range(j).end;
            check(end <= staging_bytes, "stage: outside the staging ring", j, end, staging_bytes)?;
            let copies = i64::from(stage.copies);
            let ok = copies > -count && copies <= j as i64;
            let what = "stage: waits for copies beyond one inference, or for its own (deadlock)";
            check(ok, what, j, copies.unsigned_abs(), j as u64)?;
            let awaited = i64::from(stage.steps);
            let ok = awaited > -period && awaited < period;
            let what = "stage: waits for steps beyond one inference";
            check(ok, what, j, awaited.unsigned_abs(), period as u64)?;
        }
        Ok(())
    }

    /// Where in the ring a load is read to.
    fn ring_range(&self, load: usize) -> Range64 {
        Range64::of(self.plan.stages.at(load).address, self.plan.loads.at(load).bytes.into())
    }

    /// No read goes where a copy may be reading, and nothing waits for ever. The rules of `stages`
    /// and of `races` hold.
    pub(super) fn stage_races(&self, effort: &mut Effort) -> Result<(), Flaw> {
        let stages = self.plan.stages;
        let count = stages.len() as i64;
        for (j, stage) in stages.iter().enumerate() {
            effort.spend(1 + (j as i64 - i64::from(stage.copies)) as u64)?;
            let place = self.ring_range(j);
            for other in i64::from(stage.copies)..j as i64 {
                let other = self.ring_range(other.rem_euclid(count) as usize);
                let what = "stage: read over bytes from which a copy may be going on";
                check(!place.overlaps(other), what, j, place.start, other.start)?;
            }
        }
        self.stage_waits()
    }

    fn stage_waits(&self) -> Result<(), Flaw> {
        let PlanView { loads, steps, stages, .. } = self.plan;
        // The first step that waits for load j, or for its read: both move on with j.
        let (mut user, mut reader, mut proved) = (0, 0, 0);
        for (j, stage) in stages.iter().enumerate() {
            while user < steps.len() && steps.at(user).ready as usize <= j {
                user += 1;
            }
            while reader < steps.len() && steps.at(reader).reads as usize <= j {
                reader += 1;
            }
            let first = user.min(reader) as i64 + 1;
            let what = "stage: read only after a step that waits for it (deadlock)";
            let awaited = i64::from(stage.steps);
            check(awaited <= first, what, j, awaited.unsigned_abs(), first as u64)?;
            // Copies that this step waits for come before it; others do so only if this is proved
            // here. Copies before an earlier step come before this one.
            if reader < user {
                let from = proved.max(steps.at(reader).ready as usize);
                let to = usize::try_from(stage.copies).unwrap_or(0);
                for (k, load) in loads.iter().enumerate().take(to).skip(from) {
                    let release = i64::from(load.release);
                    let what = "stage: read waits for a copy that comes after a step that waits for the read \
                                (deadlock)";
                    check(release <= first, what, k, release.unsigned_abs(), first as u64)?;
                }
                proved = proved.max(to);
            }
        }
        Ok(())
    }
}
