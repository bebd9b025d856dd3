//! No load in flight meets a step that may run at the same time, and no step waits for ever.
//!
//! Where memory is short beside the weights, a load may be in flight beside hundreds of steps. They touch the same few
//! activations, and weights that lie side by side. So steps are taken in windows ([`Window`]): what those of one touch, sorted
//! and joined, is a few ranges ([`Union`]), and each load in flight beside any of them is compared with these. Only where it meets one,
//! which a load may that is in flight beside a part of the window alone, it is compared with the steps one by one.

use super::{Flaw, MAX_COMPARISONS, PlanView, Proven, Range64, check, image};
use crate::pack::Kept;
use heapless::Vec;

/// Steps of a window.
const WINDOW: usize = 32;

/// Ranges that a step touches: its inputs, its output, its weights, its scratch.
const TOUCHED: usize = 5;

/// Those of them that it writes: its output, its scratch.
const WRITTEN: usize = 2;

/// Steps that follow each other, and what they touch.
struct Window {
    /// When the first one runs: in steps from the start of an inference, the host's turn being the first.
    first: i64,
    /// So many of the first loads it has waited for.
    waited: usize,
    steps: Vec<[Range64; TOUCHED], WINDOW>,
    touched: Union<{ TOUCHED * WINDOW }>,
    written: Union<{ WRITTEN * WINDOW }>,
}

/// The bytes of up to `N` ranges, in ascending order.
struct Union<const N: usize> {
    ranges: Vec<Range64, N>,
}

impl<const N: usize> Union<N> {
    /// Of groups of ranges, which often are those of the group before.
    fn of<const K: usize>(groups: impl Iterator<Item = [Range64; K]>) -> Self {
        let mut all: Vec<Range64, N> = Vec::new();
        let mut before = [Range64::EMPTY; K];
        for group in groups {
            for (range, before) in group.into_iter().zip(before) {
                if range == Range64::EMPTY || range == before {
                    continue;
                }
                if let (Err(range), Some(last)) = (all.push(range), all.last_mut()) {
                    // One too many: what then seems to meet is compared one by one.
                    *last = last.hull(range);
                }
            }
            before = group;
        }
        all.sort_unstable_by_key(|range| range.start);
        let mut joined = 0;
        for at in 1..all.len() {
            let range = all[at];
            if range.start <= all[joined].end {
                all[joined] = all[joined].hull(range);
            } else {
                joined += 1;
                all[joined] = range;
            }
        }
        all.truncate(joined + 1);
        Self { ranges: all }
    }

    fn meets(&self, bytes: Range64) -> bool {
        let first = self.ranges.partition_point(|range| range.end <= bytes.start);
        self.ranges.get(first).is_some_and(|range| range.overlaps(bytes))
    }
}

impl Window {
    /// The end of its time.
    fn end(&self) -> i64 {
        self.first + self.steps.len() as i64
    }
}

impl Proven<'_> {
    /// No load in flight meets a step that may run at the same time, and no step waits for ever.
    pub(super) fn races(&self) -> Result<(), Flaw> {
        let PlanView { resident, loads, .. } = self.plan;
        for (j, (release, first_user)) in self.flights().enumerate() {
            let what = "load: released only after a step that waits for it (deadlock)";
            check(release <= first_user, what, j, release.unsigned_abs(), first_user as u64)?;
        }
        self.residents_apart()?;
        let ports = (self.skeleton.inputs.len() + self.skeleton.outputs.len()) as u64;
        let windows = u64::from(self.plan.period()).div_ceil(WINDOW as u64);
        // In flight beside a part of a window is a load at most four times: where it begins and ends, in either inference.
        let each = windows.saturating_add(ports).saturating_add(4 * WINDOW as u64);
        let work = each.saturating_mul(resident.len() as u64 + loads.len() as u64);
        let what = "plan: too many loads in flight over too many steps";
        check(work <= MAX_COMPARISONS, what, 0, work, MAX_COMPARISONS)?;
        for (j, (release, first_user)) in self.flights().enumerate() {
            // The host's turn is time 0: a flight begins after that of the inference before, and ends before the next one's.
            if (release..first_user).contains(&0) {
                self.apart_from_host(image(&loads.at(j)), j)?;
            }
        }
        for (j, load) in resident.iter().enumerate() {
            self.apart_from_host(image(&load), j)?;
        }
        for window in self.windows() {
            for (j, load) in loads.iter().enumerate() {
                self.apart(&window, load.release.into(), image(&load), j)?;
            }
            for (j, load) in resident.iter().enumerate() {
                apart_from_writes(&window, image(&load), j)?;
            }
        }
        Ok(())
    }

    /// No resident meets another one or a load.
    fn residents_apart(&self) -> Result<(), Flaw> {
        let PlanView { resident, loads, .. } = self.plan;
        let runs = loads.len().div_ceil(WINDOW);
        let mut work = (resident.len() as u64).saturating_mul(runs as u64);
        let what = "plan: too many resident loads";
        check(work <= MAX_COMPARISONS, what, 0, work, MAX_COMPARISONS)?;
        // In the order of their addresses, up or down, they are compared with what spans the others.
        let mut span = Range64 { start: u64::MAX, end: 0 };
        for (j, load) in resident.iter().enumerate() {
            let bytes = image(&load);
            if bytes.overlaps(span) {
                work = work.saturating_add(j as u64);
                check(work <= MAX_COMPARISONS, what, j, work, MAX_COMPARISONS)?;
                let other = resident.iter().take(j).find(|other| image(other).overlaps(bytes));
                let found = other.map_or(0, |other| other.address);
                check(other.is_none(), "load: two residents overlap", j, found, load.address)?;
            }
            span = span.hull(bytes);
        }
        for run in 0..runs {
            let these = || loads.iter().skip(run * WINDOW).take(WINDOW).map(|load| image(&load));
            let all: Union<WINDOW> = Union::of(these().map(|bytes| [bytes]));
            for (j, load) in resident.iter().enumerate().filter(|(_, load)| all.meets(image(load)))
            {
                for other in these() {
                    let ok = !other.overlaps(image(&load));
                    check(ok, "load: overwrites a resident", j, other.start, load.address)?;
                }
            }
        }
        Ok(())
    }

    /// For each load the first step that may run beside it, and the first that waits for it: times in
    /// steps from the start of its inference.
    fn flights(&self) -> impl Iterator<Item = (i64, i64)> + use<'_> {
        let PlanView { loads, steps, .. } = self.plan;
        // `ready` does not decrease, so the first step that waits for load j moves on with j.
        let mut user = 0;
        loads.iter().enumerate().map(move |(j, load)| {
            while user < steps.len() && steps.at(user).ready as usize <= j {
                user += 1;
            }
            (load.release.into(), user as i64 + 1)
        })
    }

    /// All steps.
    fn windows(&self) -> impl Iterator<Item = Window> {
        let steps = self.plan.steps;
        (0..steps.len()).step_by(WINDOW).map(move |first| {
            let all = steps.iter().skip(first).take(WINDOW);
            // Before what the first one finds was left.
            let kept = steps.at(first).kept == Kept::Found;
            let waited = steps.at(first - usize::from(kept && first > 0)).ready as usize;
            let steps: Vec<_, WINDOW> = all.map(|step| self.touched(&step)).collect();
            let touched = Union::of(steps.iter().copied());
            let written = Union::of(steps.iter().map(|[_, _, out, _, scratch]| [*out, *scratch]));
            Window { first: first as i64 + 1, waited, steps, touched, written }
        })
    }

    /// No step of a window that a load may be in flight beside touches the bytes that it fills.
    fn apart(
        &self,
        window: &Window,
        release: i64,
        bytes: Range64,
        load: usize,
    ) -> Result<(), Flaw> {
        let period = i64::from(self.plan.period());
        // A flight begins in its own inference, or in the one before, and then all steps from there on wait for none of its loads.
        for before in [0, period] {
            let waited = before == 0 && load < window.waited;
            if waited || release + before >= window.end() || !window.touched.meets(bytes) {
                continue;
            }
            let first = (release + before - window.first).max(0) as usize;
            for (at, step) in window.steps.iter().enumerate().skip(first) {
                let index = window.first as usize - 1 + at;
                if before == 0 {
                    let record = self.plan.steps.at(index);
                    if record.ready as usize > load {
                        // What it finds has been there since the step before.
                        let [.., scratch] = *step;
                        let meets = record.kept == Kept::Found && scratch.overlaps(bytes);
                        let what = "load: may be in flight where a step finds what it keeps";
                        check(!meets, what, load, scratch.start, bytes.start)?;
                        break;
                    }
                }
                for range in step {
                    let what = "load: may be in flight while a step uses its bytes";
                    check(!range.overlaps(bytes), what, load, range.start, bytes.start)?;
                }
            }
        }
        Ok(())
    }

    fn apart_from_host(&self, bytes: Range64, load: usize) -> Result<(), Flaw> {
        let ports = self.skeleton.inputs.iter().chain(self.skeleton.outputs);
        ports.map(|port| self.port_range(port)).try_for_each(|range| {
            let what = "load: may be in flight while the host uses its bytes";
            check(!range.overlaps(bytes), what, load, range.start, bytes.start)
        })
    }
}

/// No step of a window writes the bytes of a resident.
fn apart_from_writes(window: &Window, bytes: Range64, load: usize) -> Result<(), Flaw> {
    if !window.written.meets(bytes) {
        return Ok(());
    }
    let written = window.steps.iter().flat_map(|[_, _, out, _, scratch]| [out, scratch]);
    written.into_iter().try_for_each(|range| {
        let ok = !range.overlaps(bytes);
        check(ok, "step: overwrites a resident load", load, range.start, bytes.start)
    })
}
