//! The simulator: predicts when every load and step of a plan happens.
//!
//! Storage, copies (of a device with a memory of its own) and compute are channels that do one thing at a time, in
//! the plan's order, joined by the thresholds exactly as the executor's counters join them. Without stages a load
//! is a read: it starts when its predecessor has started, `release` steps are done, fewer reads than may be are under
//! way and the loader sees it, and takes what [`Service`](crate::profile::Service) says. With stages it is a read and a copy, and reads come one
//! after the other: the read starts when its predecessor is done and its stage's copies and steps are; the copy when its
//! predecessor and the read are done and `release` steps are. A step starts when its predecessor is done, `ready`
//! loads are in the arena and, with stages, `reads` have been read. The host's turn takes no time. How long
//! a step takes depends on what is loaded meanwhile ([`Costs::steps_ns`]). Inference
//! follows inference without a pause, until one is like the one before: from then on all are. Of some plans with
//! stages they alternate for ever, when what waits for what takes two inferences to come round: then the mean of two
//! counts.

use crate::network::Network;
use crate::plan::Plan;
pub use crate::profile::Costs;
use crate::profile::{Profile, Read, Service};
use eyelet::pack::Load;
use eyelet::storage::MAX_BEGUN;

/// No more inferences than this are simulated. Most plans are steady from the second on; with several reads under way
/// it can take some more until the loader is no further ahead.
const MAX_INFERENCES: usize = 12;

/// When something happens, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: i64,
    pub end: i64,
}

/// What is predicted of a plan.
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
    /// What the reads of an inference take at least: all that they keep the storage, or the loader.
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

/// How long everything takes, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    pub reads: Vec<Read>,
    /// Reads under way at a time; with stages 1.
    pub depth: u32,
    /// How many may be under way when each has begun, where that is fewer for some.
    pub places: Vec<u32>,
    /// Of plans with stages; of others it is not looked at.
    pub copies: Vec<i64>,
    pub steps: Vec<i64>,
}

impl Durations {
    /// Of a plan, by the costs of a board.
    pub fn new(plan: &Plan, costs: &Costs) -> Self {
        let steps = costs.steps_ns(plan);
        let bytes = plan.loads.iter().map(|load| u64::from(load.bytes));
        let copies = match plan.stages.is_empty() {
            true => Vec::new(),
            false => bytes.map(|bytes| costs.copy_ns(bytes) as i64).collect(),
        };
        Self { copies, steps, ..Self::of_reads(&plan.loads, costs.service_of(plan)) }
    }

    /// Of reads alone.
    fn of_reads(loads: &[Load], service: &Service) -> Self {
        let reads = loads.iter().map(|load| service.read(load.bytes.into())).collect();
        let depth = service.depth();
        // Those before the first are the last ones of the inference before.
        let recent = |index: usize| {
            let earlier = loads[..=index].iter().rev().chain(loads[index + 1..].iter().rev());
            earlier.map(|load| u64::from(load.bytes))
        };
        let places = (0..loads.len()).map(|index| service.places(recent(index)));
        let places = if depth > 1 { places.collect() } else { Vec::new() };
        Self { reads, depth, places, ..Self::default() }
    }

    /// How many reads may be under way when one has begun.
    fn places(&self, index: usize) -> usize {
        self.places.get(index).map_or(self.depth.max(1), |places| *places) as usize
    }

    /// [`Timeline::read_ns`].
    fn read_ns(&self) -> i64 {
        let sum = |part: fn(&Read) -> i64| self.reads.iter().map(part).sum::<i64>();
        match self.depth {
            0 | 1 => sum(Read::alone),
            _ => sum(|read| read.transfer).max(sum(|read| read.check)),
        }
    }
}

/// Predicts a plan on a board with so many compute threads.
///
/// # Panics
/// When a step waits for a load that waits for that step, or a threshold is out of range: the checker
/// refuses such plans.
pub fn simulate(network: &Network, plan: &Plan, profile: &Profile, threads: u32) -> Timeline {
    let rings: Vec<u32> = plan.places.iter().map(|place| place.lines).collect();
    simulate_with(plan, &Costs::new(network, profile, threads).sliding(network, &rings))
}

/// The same with costs at hand, for those who simulate many plans in which the same layers slide.
///
/// # Panics
/// As [`simulate`].
pub fn simulate_with(plan: &Plan, costs: &Costs) -> Timeline {
    let mut line = play(plan, &Durations::new(plan, costs));
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

/// What the first inference takes, and the last two that are played.
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

/// The times of one inference, counted from its host's turn.
#[derive(Default, PartialEq)]
struct Inference {
    /// From its beginning to its being handed over.
    reads: Vec<Span>,
    /// When each has come, and is yet to be verified.
    come: Vec<i64>,
    /// Up to when what had come was seen when each began, and whether that left none under way.
    seen: Vec<(i64, bool)>,
    copies: Vec<Span>,
    steps: Vec<Span>,
}

impl Inference {
    /// The end of the last step: the host's turn of the next inference.
    fn end(&self) -> i64 {
        ends(&self.steps, self.steps.len())
    }
}

/// When a read began, came and was handed over.
#[derive(Clone, Copy, Default)]
struct Arrival {
    start: i64,
    seen: i64,
    idle: bool,
    come: i64,
    end: i64,
}

/// When a read begins.
struct Beginning {
    start: i64,
    /// Up to when the loader has seen by then what has come.
    seen: i64,
    /// Nothing was under way, and something to be verified: it is the only one that begins before that.
    idle: bool,
}

/// When so many of these are done; 0 for none.
fn ends(spans: &[Span], count: usize) -> i64 {
    count.checked_sub(1).map_or(0, |last| spans[last].end)
}

/// One inference being played after another. Each task is timed when something later is known to wait for it, so
/// that all it waits for itself has been timed: anything else would be a deadlock.
struct Player<'a> {
    plan: &'a Plan,
    durations: &'a Durations,
    /// The inference before, and when it ended: this one's beginning.
    before: Option<&'a Inference>,
    shift: i64,
    now: &'a mut Inference,
}

impl<'a> Player<'a> {
    fn new(
        plan: &'a Plan,
        durations: &'a Durations,
        before: Option<&'a Inference>,
        now: &'a mut Inference,
    ) -> Self {
        now.reads.clear();
        now.come.clear();
        now.seen.clear();
        now.copies.clear();
        now.steps.clear();
        Self { plan, durations, before, shift: before.map_or(0, Inference::end), now }
    }

    fn run(&mut self) {
        for (index, step) in self.plan.steps.iter().enumerate() {
            let loaded = self.arrived(step.ready as usize);
            let start =
                ends(&self.now.steps, index).max(loaded).max(self.read(step.reads as usize));
            self.now.steps.push(Span { start, end: start + self.durations.steps[index] });
        }
        self.arrived(self.plan.loads.len());
    }

    fn staged(&self) -> bool {
        !self.plan.stages.is_empty()
    }

    /// When so many loads are in the arena, and all of those of the inference before.
    fn arrived(&mut self, count: usize) -> i64 {
        if !self.staged() {
            return self.read(count);
        }
        while self.now.copies.len() < count {
            let index = self.now.copies.len();
            let read = self.read(index + 1);
            let copied = self.done(index as i64, Of::Copies);
            let released = self.done(self.plan.loads[index].release.into(), Of::Steps);
            let start = read.max(copied).max(released);
            self.now.copies.push(Span { start, end: start + self.durations.copies[index] });
        }
        self.done(count as i64, Of::Copies)
    }

    /// When so many loads have been read, and all of those of the inference before.
    fn read(&mut self, count: usize) -> i64 {
        while self.now.reads.len() < count {
            let index = self.now.reads.len();
            let released = match self.plan.stages.get(index) {
                None => self.done(self.plan.loads[index].release.into(), Of::Steps),
                Some(stage) => {
                    if let Ok(copies @ 1..) = usize::try_from(stage.copies) {
                        assert!(
                            copies <= index,
                            "deadlock: read {index} waits until {copies} loads are copied"
                        );
                        self.arrived(copies);
                    }
                    let copied = self.done(stage.copies.into(), Of::Copies);
                    copied.max(self.done(stage.steps.into(), Of::Steps))
                }
            };
            let Beginning { start, seen, idle } = self.begins(index, released);
            let read = self.durations.reads[index];
            let last = self.earlier(index, 1).unwrap_or_default();
            let come = match self.durations.places(index) {
                // Storage that has not rested goes on.
                1 if index > 0 || self.before.is_some() => {
                    start + read.latency.min(start - last.come) + read.transfer
                }
                _ => (start + read.latency).max(last.come) + read.transfer,
            };
            self.now.come.push(come);
            self.now.seen.push((seen, idle));
            self.now.reads.push(Span { start, end: come.max(last.end) + read.check });
        }
        self.done(count as i64, Of::Reads)
    }

    /// When a read begins that is released at some time: all before it have begun, and of these fewer than may be are still
    /// under way, as far as the loader knows. It looks when the first that it has not handed over has come; begins more
    /// at once, but one only, if none is under way then, and else when it has verified and handed over that one.
    fn begins(&self, index: usize, released: i64) -> Beginning {
        let at = |start, seen| Beginning { start, seen, idle: false };
        let Some(last) = self.earlier(index, 1) else { return at(released, released) };
        if self.durations.depth <= 1 {
            return at(released.max(last.end), last.end);
        }
        let holder = self.earlier(index, self.durations.places(index));
        let free = |seen: i64| holder.is_none_or(|holder| holder.come <= seen);
        let oldest = self.earlier(index, MAX_BEGUN);
        let remembered = |start: i64| oldest.is_none_or(|oldest| oldest.end <= start);
        // With the one before it.
        let others = !last.idle && released <= last.start;
        if others && free(last.seen) && remembered(last.start) {
            return at(last.start, last.seen);
        }
        let least = released.max(last.start);
        for back in (1..=MAX_BEGUN).rev() {
            let Some(first) = self.earlier(index, back).filter(|first| first.end >= least) else {
                continue;
            };
            let busy = self.earlier(index, back + 1).map_or(i64::MIN, |other| other.end);
            let looks = first.come.max(busy);
            if !free(looks) {
                continue;
            }
            if looks >= least && last.come <= looks && remembered(looks) {
                return Beginning { start: looks, seen: looks, idle: true };
            }
            return at(first.end, looks);
        }
        at(released.max(last.end), released.max(last.end))
    }

    /// What came so many reads before one, if there was any.
    fn earlier(&self, index: usize, back: usize) -> Option<Arrival> {
        let of = |inference: &Inference, index: usize, shift: i64| {
            let Span { start, end } = inference.reads[index];
            let ((seen, idle), come) = (inference.seen[index], inference.come[index]);
            let [start, seen, come, end] = [start, seen, come, end].map(|at| at - shift);
            Arrival { start, seen, idle, come, end }
        };
        if let Some(index) = index.checked_sub(back) {
            return Some(of(self.now, index, 0));
        }
        let before = self.before?;
        // Of those earlier than the inference before nothing is left.
        let index = (before.reads.len() + index).checked_sub(back)?;
        Some(of(before, index, self.shift))
    }

    /// When so many tasks of a kind are done; less than one of steps, and less than none of others, counts back
    /// into the inference before. Nothing happened before the first.
    fn done(&self, count: i64, of: Of) -> i64 {
        let all = |inference: &'a Inference| match of {
            Of::Reads => &inference.reads,
            Of::Copies => &inference.copies,
            Of::Steps => &inference.steps,
        };
        let (own, host) = match of {
            Of::Reads => (&self.now.reads, 0),
            Of::Copies => (&self.now.copies, 0),
            // The host's turn is a step, at time 0.
            Of::Steps => (&self.now.steps, 1),
        };
        if count > host {
            let last = (count - host - 1) as usize;
            return own.get(last).map_or_else(|| self.deadlock(count), |task| task.end);
        }
        if of == Of::Steps && count >= 0 {
            return 0;
        }
        self.before.map_or(0, |before| {
            let tasks = all(before);
            let done = tasks.len() as i64 + count;
            assert!(done >= 0, "a threshold of {count} is out of range");
            ends(tasks, done as usize) - self.shift
        })
    }

    fn deadlock(&self, steps: i64) -> i64 {
        panic!(
            "deadlock: step {} waits for load {}, which waits until {steps} steps are done",
            self.now.steps.len() + 1,
            if self.staged() { self.now.copies.len() } else { self.now.reads.len() }
        )
    }
}

/// A kind of task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Reads,
    Copies,
    Steps,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Board;
    use crate::check::example::Reuse;
    use crate::profile::{Deeper, Storage, Transfer};
    use eyelet::pack::{Stage, Step};
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use std::collections::VecDeque;

    /// With so many reads under way, of which two take two thirds of what they do one after the other, and so many bytes.
    fn deep(mbs: f64, depth: u32, window: u64) -> Profile {
        let mut profile = Board::load("jetson-nano").unwrap().profile;
        let deeper =
            Deeper { depth, bytes: 1 << 20, mbs: mbs * (1.0 + f64::from(depth - 1) / 2.0) };
        profile.storage = Storage::flat(1000, mbs, 1e9);
        (profile.storage.depth, profile.storage.deeper) = (depth, vec![deeper]);
        profile.storage.window = Some(window);
        profile.compute.step_overhead_ns = 1000;
        profile.transfer = Some(Transfer { latency_ns: 500, gbs: mbs / 500.0 });
        // Reads do not slow computing down.
        profile.compute.memory_gbs = f64::INFINITY;
        // A plan says whether there is a copy.
        profile.transfer = profile.transfer.filter(|_| depth == 1);
        profile
    }

    fn profile(mbs: f64) -> Profile {
        deep(mbs, 1, 1)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn thresholds_hold(
            seed: u64, reuse: bool, staged: bool, mbs in 1.0f64..10000.0, depth in 1u32..9,
            window in 1u64..40_000,
        ) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (network, plan, _) = Reuse { reuse, staged, ..Reuse::default() }.plan(&mut rng);
            let depth = if staged { 1 } else { depth };
            let profile = deep(mbs, depth, window);
            let line = simulate(&network, &plan, &profile, 1);
            prop_assert!(line.steady_ns >= line.compute_ns);
            prop_assert!(line.steady_ns >= line.read_ns);
            prop_assert!(line.first_ns >= line.compute_ns);
            prop_assert_eq!(line.stall_ns, line.steady_ns - line.compute_ns);
            let costs = Costs::new(&network, &profile, 1);
            let (_, [before, now]) = inferences(&plan, &Durations::new(&plan, &costs));
            prop_assert_eq!((&line.loads, &line.copies, &line.steps), (&now.reads, &now.copies, &now.steps));
            let (period, began) = (plan.period(), before.end());
            // When so many steps of the last inference are done.
            let done = |count: i64| match count - 1 {
                0 => 0,
                last if last > 0 => line.steps[last as usize - 1].end,
                last if last + period > 0 => before.steps[(last + period) as usize - 1].end - began,
                _ => -began,
            };
            for (load, span) in plan.loads.iter().zip(&line.loads) {
                let (took, alone) = ((span.end - span.start) as u64, profile.load_ns(load.bytes.into()));
                let rested = profile.service(false).read(load.bytes.into()).latency as u64;
                prop_assert!(took == alone || (depth > 1 && took >= alone - rested), "{took} and {alone}");
            }
            // What `release` and `ready` are about.
            let arrivals = if staged { &line.copies } else { &line.loads };
            prop_assert_eq!(arrivals.len(), plan.loads.len());
            for (load, span) in plan.loads.iter().zip(arrivals) {
                prop_assert!(span.start >= done(i64::from(load.release)));
            }
            let copied = |count: i64| match count {
                1.. => line.copies[count as usize - 1].end,
                _ => before.copies[(count + plan.loads.len() as i64) as usize - 1].end - began,
            };
            for (index, stage) in plan.stages.iter().enumerate() {
                prop_assert!(line.loads[index].start >= done(i64::from(stage.steps)));
                prop_assert!(line.loads[index].start >= copied(i64::from(stage.copies)));
                prop_assert!(line.copies[index].start >= line.loads[index].end);
            }
            for (step, span) in plan.steps.iter().zip(&line.steps) {
                let ns = costs.step_ns(step);
                prop_assert_eq!((span.end - span.start) as u64, ns);
                if let Some(last) = (step.ready as usize).checked_sub(1) {
                    prop_assert!(span.start >= arrivals[last].end);
                }
                if let Some(last) = (step.reads as usize).checked_sub(1) {
                    prop_assert!(span.start >= line.loads[last].end);
                }
            }
            for (earlier, spans, depth) in [
                (&before.reads, &now.reads, depth),
                (&before.copies, &now.copies, 1),
                (&before.steps, &now.steps, 1),
            ] {
                // Those of this inference, behind those of the one before.
                let earlier = earlier.iter().map(|s| Span { start: s.start - began, end: s.end - began });
                let all: Vec<Span> = earlier.chain(spans.iter().copied()).collect();
                prop_assert!(all.windows(2).all(|pair| pair[0].start <= pair[1].start));
                prop_assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].end));
                // Those that have come and wait to be verified are not under way.
                let most = if depth > 1 { MAX_BEGUN } else { 1 };
                let apart = |pair: &[Span]| pair[0].end <= pair[most].start;
                prop_assert!(all.windows(most + 1).all(apart), "more than {most} at a time");
            }
        }

        #[test]
        fn faster_storage_never_hurts(
            seed: u64, staged: bool, mbs in 1.0f64..1000.0, factor in 1.0f64..20.0,
        ) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (network, plan, _) = Reuse { staged, ..Reuse::default() }.plan(&mut rng);
            // One at a time: of several, what begins sooner can have the loader look away when another is released.
            let slow = simulate(&network, &plan, &profile(mbs), 1);
            let fast = simulate(&network, &plan, &profile(mbs * factor), 1);
            prop_assert!(fast.steady_ns <= slow.steady_ns);
            prop_assert!(fast.first_ns <= slow.first_ns);
        }

        /// Against a simulation that looks at the counters one event at a time.
        #[test]
        fn as_the_counters_would_have_it(
            seed: u64, reuse: bool, staged: bool, mbs in 1.0f64..10000.0, depth in 1u32..9,
            window in 1u64..40_000,
        ) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (network, plan, _) = Reuse { reuse, staged, ..Reuse::default() }.plan(&mut rng);
            let depth = if staged { 1 } else { depth };
            let costs = Costs::new(&network, &deep(mbs, depth, window), 1);
            let count = MAX_INFERENCES;
            let ends = tick(&plan, &Durations::new(&plan, &costs), count as i64);
            let line = simulate_with(&plan, &costs);
            prop_assert_eq!(line.first_ns as i64, ends[0]);
            prop_assert_eq!(line.steady_ns as i64, (ends[count - 1] - ends[count - 3]) / 2);
        }
    }

    /// Plays events in the order of time; returns the ends of the inferences.
    fn tick(plan: &Plan, durations: &Durations, inferences: i64) -> Vec<i64> {
        let (period, loads) = (plan.period(), plan.loads.len() as i64);
        let (mut steps_done, mut copies_done, mut reads_done, mut time) = (0, 0, 0, 0);
        let (mut step_end, mut copy_end) = (None, None);
        // When those under way have passed their latency; the first one's transfer, and what the loader checks.
        let mut under_way: VecDeque<i64> = VecDeque::new();
        let (mut transfer_end, mut check_end) = (None, None);
        let mut waiting: VecDeque<i64> = VecDeque::new();
        // Of those that wait to be checked, how many the loader has not seen.
        let mut unseen = 0;
        // Reads that have begun, and when the last came.
        let (mut begun, mut come) = (0, 0);
        // Whether the loader has just seen something.
        let mut awake = true;
        let mut ends = Vec::new();
        while (ends.len() as i64) < inferences {
            // Without stages, what is read is in the arena.
            let staged = !plan.stages.is_empty();
            let arrived = if staged { copies_done } else { reads_done };
            // Whatever may start does.
            if step_end.is_none() {
                let (inference, number) = (steps_done / period, steps_done % period);
                if number == 0 {
                    steps_done += 1;
                    continue;
                }
                let step = &plan.steps[number as usize - 1];
                if arrived >= inference * loads + i64::from(step.ready)
                    && reads_done >= inference * loads + i64::from(step.reads)
                {
                    step_end = Some(time + durations.steps[number as usize - 1]);
                }
            }
            let reached = |inference: i64, steps: i32, copies: i32| {
                steps_done >= inference * period + i64::from(steps)
                    && copies_done >= inference * loads + i64::from(copies)
            };
            let read = |number: i64| durations.reads[(number % loads) as usize];
            // One that has come is seen with all others that have, and checked; if nothing is under way then, another begins
            // before.
            for sees in [false, true] {
                let idle = under_way.is_empty() && waiting.is_empty();
                let looks =
                    if sees { durations.depth > 1 && !waiting.is_empty() } else { awake || idle };
                if loads == 0 || check_end.is_some() || !looks {
                    continue;
                }
                unseen = if sees { 0 } else { unseen };
                if sees && !under_way.is_empty() {
                    continue;
                }
                while under_way.len() + waiting.len() < MAX_BEGUN {
                    let (inference, number) = (begun / loads, (begun % loads) as usize);
                    if under_way.len() + unseen >= durations.places(number) {
                        break;
                    }
                    let (steps, copies) = match plan.stages.get(number) {
                        Some(stage) => (stage.steps, stage.copies),
                        None => (plan.loads[number].release, -i32::MAX),
                    };
                    if !reached(inference, steps, copies) {
                        break;
                    }
                    under_way.push_back(time + read(begun).latency);
                    begun += 1;
                    if sees {
                        break;
                    }
                }
            }
            awake = false;
            if let (Some(seek_end), None) = (under_way.front(), transfer_end) {
                let first = begun - under_way.len() as i64;
                let alone = first > 0 && durations.places((first % loads) as usize) == 1;
                // Alone it began now, and storage had rested since the last came.
                let latency = read(first).latency.min(time - come);
                let seek_end = if alone { time + latency } else { time.max(*seek_end) };
                transfer_end = Some(seek_end + read(first).transfer);
            }
            if let (Some(first), None) = (waiting.front(), check_end) {
                check_end = Some(time + read(*first).check);
            }
            if staged && copy_end.is_none() && copies_done < reads_done {
                let (inference, number) = (copies_done / loads, (copies_done % loads) as usize);
                if reached(inference, plan.loads[number].release, -i32::MAX) {
                    copy_end = Some(time + durations.copies[number]);
                }
            }
            let next = [step_end, copy_end, transfer_end, check_end].into_iter().flatten().min();
            time = next.expect("no deadlock");
            if step_end == Some(time) {
                (step_end, steps_done) = (None, steps_done + 1);
                if steps_done % period == 0 {
                    ends.push(time);
                }
            }
            if copy_end == Some(time) {
                (copy_end, copies_done) = (None, copies_done + 1);
            }
            if check_end == Some(time) {
                (check_end, reads_done, awake) = (None, reads_done + 1, true);
                waiting.pop_front();
                unseen = if durations.depth > 1 { unseen } else { 0 };
            }
            if transfer_end == Some(time) {
                (transfer_end, come) = (None, time);
                waiting.push_back(begun - under_way.len() as i64);
                unseen += 1;
                under_way.pop_front();
            }
        }
        ends
    }

    #[test]
    fn of_inferences_that_alternate_the_mean_counts() {
        let load = |release| Load { release, ..Load::default() };
        let stage = |copies| Stage { copies, steps: -10, ..Stage::default() };
        let ready = [1, 2, 2, 0, 0, 0, 0, 0, 0, 0];
        let reads = [0, 1, 1, 1, 0, 0, 2, 0, 0, 0];
        let step = |(ready, reads)| Step { ready, reads, ..Step::default() };
        let plan = Plan {
            loads: vec![load(-9), load(-7)],
            stages: vec![stage(-1), stage(0)],
            steps: ready.into_iter().zip(reads).map(step).collect(),
            staging_bytes: 1,
            ..Plan::default()
        };
        let durations = Durations {
            reads: [7096, 13192].map(Read::of).to_vec(),
            depth: 1,
            places: Vec::new(),
            copies: vec![3548, 6596],
            steps: vec![2613, 1806, 2234, 2234, 2234, 3403, 2201, 1411, 1411, 1411],
        };
        let ends = tick(&plan, &durations, 12);
        let each: Vec<i64> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(each[7..], [24271, 20958, 24271, 20958]);
        assert_eq!(play(&plan, &durations).steady_ns, (24271 + 20958) / 2);
    }

    #[test]
    #[should_panic(expected = "deadlock: step 1 waits for load 0")]
    fn a_deadlock_is_named() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let (network, mut plan, _) = Reuse { residents: false, ..Reuse::default() }.plan(&mut rng);
        plan.loads[0].release = 2;
        plan.steps[0].ready = 1;
        simulate(&network, &plan, &profile(100.0), 1);
    }
}
