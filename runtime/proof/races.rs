//! No load in flight meets a step that may run at the same time, and no step waits for ever.
//!
//! An inference is walked through once, in the order of its steps, with the set of pages that loads
//! in flight fill and the set that residents do ([`Pages`]). A load enters the set when its release
//! permits it, which is never before the loads ahead of it, since the loader begins them in order;
//! it leaves when the first step waits for it. The proof then asks whether the bytes of each step
//! are in the set. So its time is linear in loads and steps: no load is compared with a step.

use super::pages::{Pages, SPAN};
use super::{Effort, Proven, Range64, check, image};
use crate::pack::{Flaw, Load, PlanView};

/// Looks at the sets that a step takes.
const STEP_LOOKS: u64 = 8;

const OVER_STEP: &str = "load: may be in flight while a step uses its bytes";
const OVER_PORT: &str = "load: may be in flight while the host uses its bytes";
const OVER_RESIDENT: &str = "load: overwrites a resident";

impl Proven<'_> {
    /// No load in flight meets a step that may run at the same time, and no step waits for ever.
    pub(super) fn races(&self, effort: &mut Effort) -> Result<(), Flaw> {
        let PlanView { resident, loads, steps, .. } = self.plan;
        // `ready` does not decrease, so the first step that waits for load j moves on with j.
        let mut user = 0;
        for (j, load) in loads.iter().enumerate() {
            while user < steps.len() && steps.at(user).ready as usize <= j {
                user += 1;
            }
            // Times are in steps from the start of its inference, the host's turn being the first.
            let (release, first_user) = (i64::from(load.release), user as i64 + 1);
            let what = "load: released only after a step that waits for it (deadlock)";
            check(release <= first_user, what, j, release.unsigned_abs(), first_user as u64)?;
        }
        let images = resident.iter().chain(loads.iter()).map(|load| image(&load));
        let Some(all) = images.reduce(Range64::hull) else { return Ok(()) };
        let mut start = all.start / SPAN * SPAN;
        while start < all.end {
            self.span(start, effort)?;
            start += SPAN;
        }
        Ok(())
    }

    /// One span of the arena.
    fn span(&self, start: u64, effort: &mut Effort) -> Result<(), Flaw> {
        let PlanView { resident, loads, steps, .. } = self.plan;
        let mut kept = Pages::none(start);
        for (j, load) in resident.iter().enumerate() {
            let bytes = image(&load);
            effort.spend(1 + kept.words(bytes))?;
            if kept.meets(bytes) {
                let other = resident.iter().take(j).find(|other| image(other).overlaps(bytes));
                let found = other.map_or(0, |other| other.address);
                check(false, "load: two residents overlap", j, found, load.address)?;
            }
            kept.add(bytes);
        }
        for load in loads.iter() {
            effort.spend(1)?;
            self.apart_from(&kept, image(&load), OVER_RESIDENT)?;
        }
        let mut flights = Flights::new(self, start);
        flights.begin(0, effort)?;
        for port in self.skeleton.inputs.iter().chain(self.skeleton.outputs) {
            let bytes = self.port_range(port);
            effort.spend(STEP_LOOKS)?;
            self.apart_from(&kept, bytes, OVER_PORT)?;
            flights.apart(bytes, OVER_PORT)?;
        }
        for (i, step) in steps.iter().enumerate() {
            effort.spend(STEP_LOOKS)?;
            let touched = self.touched(&step);
            let [.., out, _, scratch] = touched;
            flights.begin(i as i64 + 1, effort)?;
            flights.end(step.ready as usize, effort)?;
            touched.into_iter().try_for_each(|range| flights.apart(range, OVER_STEP))?;
            for range in [out, scratch] {
                let what = "step: overwrites a resident load";
                self.apart_from(&kept, range, what)?;
            }
        }
        Ok(())
    }

    /// Refuses bytes of residents.
    fn apart_from(&self, kept: &Pages, bytes: Range64, what: &'static str) -> Result<(), Flaw> {
        if !kept.meets(bytes) {
            return Ok(());
        }
        met(self.plan.resident.iter().enumerate(), bytes, what)
    }
}

/// The refusal of bytes that one of these loads fills.
fn met(
    loads: impl Iterator<Item = (usize, Load)>,
    bytes: Range64,
    what: &'static str,
) -> Result<(), Flaw> {
    let mut loads = loads.filter(|(_, load)| image(load).overlaps(bytes));
    let (index, address) = loads.next().map_or((0, 0), |(index, load)| (index, load.address));
    check(false, what, index, bytes.start, address)
}

/// The loads in flight, from one step of an inference to the next: those of this inference, and
/// after them those of the next one.
struct Flights<'p, 'a> {
    proven: &'p Proven<'a>,
    pages: Pages,
    /// Number of loads that have begun, of both inferences.
    begun: usize,
    /// Number of loads that have been waited for: the first ones.
    ended: usize,
    /// The last one that had pages in common with others in flight is before this one.
    mixed: usize,
}

impl<'p, 'a> Flights<'p, 'a> {
    fn new(proven: &'p Proven<'a>, start: u64) -> Self {
        Self { proven, pages: Pages::none(start), begun: 0, ended: 0, mixed: 0 }
    }

    /// A load by its number, and when it may begin.
    fn load(&self, number: usize) -> Option<(Load, i64)> {
        let PlanView { loads, .. } = self.proven.plan;
        let again = number >= loads.len();
        let load = loads.get(if again { number - loads.len() } else { number })?;
        let later = if again { i64::from(self.proven.plan.period()) } else { 0 };
        Some((load, i64::from(load.release) + later))
    }

    /// The bytes that a load fills.
    fn bytes(&self, number: usize) -> Range64 {
        self.load(number).map_or(Range64::EMPTY, |(load, _)| image(&load))
    }

    /// Begins all loads that may have begun by then. None does before those ahead of it.
    fn begin(&mut self, time: i64, effort: &mut Effort) -> Result<(), Flaw> {
        while let Some((load, release)) = self.load(self.begun)
            && release <= time
        {
            let bytes = image(&load);
            effort.spend(1 + 2 * self.pages.words(bytes))?;
            let meets = self.pages.meets(bytes);
            self.pages.add(bytes);
            self.begun += 1;
            if meets {
                self.mixed = self.begun;
            }
        }
        Ok(())
    }

    /// The first `ready` loads have been waited for.
    fn end(&mut self, ready: usize, effort: &mut Effort) -> Result<(), Flaw> {
        // A load that has not begun by now would wait for ever, which was refused.
        let ended = self.ended..ready.min(self.begun);
        if ended.is_empty() {
            return Ok(());
        }
        self.ended = ended.end;
        if ended.start >= self.mixed {
            for number in ended {
                let bytes = self.bytes(number);
                self.pages.remove(bytes);
            }
            return Ok(());
        }
        // Pages that are in the set once may be those of two loads.
        self.pages.clear();
        for number in self.ended..self.begun {
            let bytes = self.bytes(number);
            effort.spend(1 + self.pages.words(bytes))?;
            self.pages.add(bytes);
        }
        Ok(())
    }

    /// Refuses bytes that a load in flight fills.
    fn apart(&self, bytes: Range64, what: &'static str) -> Result<(), Flaw> {
        if !self.pages.meets(bytes) {
            return Ok(());
        }
        let count = self.proven.plan.loads.len().max(1);
        let flying =
            (self.ended..self.begun).filter_map(|number| Some((number, self.load(number)?.0)));
        met(flying.map(|(number, load)| (number % count, load)), bytes, what)
    }
}
