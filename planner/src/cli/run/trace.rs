//! The timeline of a run, measured and predicted, in the format of Chrome's tracing and of Perfetto.

use super::super::Error;
use super::super::describe;
use super::super::pack_file::{PackFile, planner_types};
use super::super::perfetto::{self, Slice, name};
use eyelet::executor::{Event, Observer};
use eyelet::pack::PlanEntry;
use eyelet_planner::network::Network;
use eyelet_planner::ops;
use eyelet_planner::plan::{Plan, step_weights};
use eyelet_planner::profile::Profile;
use eyelet_planner::simulate::{Timeline, simulate};
use eyelet_planner::size;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Waiting for less than this is looking at a counter, not a stall.
const STALL_NS: u64 = 1_000;

/// Nanoseconds, and what happened then.
type Moment = (u64, Event);

/// Notes what happens in the measured inferences, and when.
#[derive(Debug)]
pub struct Recorder {
    zero: Instant,
    /// Inferences that are still to begin before one is noted, that one included.
    unmeasured: AtomicU32,
    /// Two lists, so that neither side waits for the other.
    loads: Mutex<Vec<Moment>>,
    steps: Mutex<Vec<Moment>>,
}

impl Recorder {
    /// Notes nothing before it is told what to [`expect`](Self::expect).
    pub fn new() -> Self {
        let (loads, steps) = Default::default();
        Self { zero: Instant::now(), unmeasured: AtomicU32::new(u32::MAX), loads, steps }
    }

    /// Notes so many inferences of a plan, after others. Makes room, so that noting allocates nothing.
    pub fn expect(&self, plan: &eyelet::pack::PlanView<'_>, runs: usize, warmup: u32) {
        self.unmeasured.store(warmup + 1, Ordering::Relaxed);
        lock(&self.loads).reserve(2 * plan.loads.len() * (runs + 1));
        lock(&self.steps).reserve(3 * plan.steps.len() * runs);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer for Recorder {
    fn event(&self, event: Event) {
        let ns = self.zero.elapsed().as_nanos() as u64;
        let left = self.unmeasured.load(Ordering::Relaxed);
        match event {
            Event::StepWaits(0) if left > 0 => self.unmeasured.store(left - 1, Ordering::Relaxed),
            _ => {}
        }
        if self.unmeasured.load(Ordering::Relaxed) > 0 {
            return;
        }
        match event {
            Event::LoadBegins(_) | Event::LoadEnds(_) => lock(&self.loads).push((ns, event)),
            _ => lock(&self.steps).push((ns, event)),
        }
    }
}

const MEASURED: u32 = 1;
const PREDICTED: u32 = 2;
const COMPUTE: u32 = 1;
const STORAGE: u32 = 2;
const COPIES: u32 = 3;
/// More reads under way at once: the slices of a track may not overlap.
const MORE_STORAGE: u32 = 4;

/// When the last read on each of the tracks of storage ends.
#[derive(Debug, Default)]
struct Lanes(Vec<i64>);

impl Lanes {
    /// The first track on which nothing is under way at that time. Reads come in the order in which they begin.
    fn take(&mut self, (start, end): (i64, i64)) -> u32 {
        let free = self.0.iter().position(|until| *until <= start);
        let lane = free.unwrap_or(self.0.len());
        match self.0.get_mut(lane) {
            Some(until) => *until = end,
            None => self.0.push(end),
        }
        match lane {
            0 => STORAGE,
            lane => MORE_STORAGE + lane as u32 - 1,
        }
    }
}

/// What a slice shows: of a plan's steps and loads their numbers.
#[derive(Clone, Copy, Debug)]
enum Shown {
    /// Waiting for what a step needs.
    Stall(u32),
    Step(u32),
    Load(u32),
    /// The copy of what a load has read.
    Copy(u32),
    Inference(u32),
    /// What is between two inferences.
    Host,
}

/// What is shown of a time, in nanoseconds, on a track. A small plan has a hundred thousand, and each is put in words when
/// it is written.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: i64,
    end: i64,
    track: (u32, u32),
    shown: Shown,
}

/// What is traced, and the spans so far.
struct Trace<'a> {
    network: &'a Network,
    plan: &'a Plan,
    /// For each load the first step and the last that use what it brings.
    loads: Vec<Option<(usize, usize)>>,
    spans: Vec<Span>,
}

/// A run that was recorded.
pub struct Recorded<'r> {
    pub recorder: &'r Recorder,
    pub entry: &'r PlanEntry,
    pub threads: u32,
    /// Reads under way at once, at most.
    pub depth: u32,
}

/// Writes what was recorded of a pack, and into the same file as many inferences as the simulator predicts them, by
/// these costs.
pub fn write(
    file: &Path,
    recorded: &Recorded<'_>,
    found: &PackFile,
    mut profile: Profile,
) -> Result<(), Error> {
    let &Recorded { recorder, entry, threads, depth } = recorded;
    profile.storage.depth = profile.storage.depth.min(depth);
    let proven = found.prove(entry)?;
    let (network, plan) = planner_types(found, &proven, entry)?;
    let mut trace = Trace::new(&network, &plan);
    let (steps, loads) = (lock(&recorder.steps), lock(&recorder.loads));
    let inferences = trace.measured_steps(&steps);
    trace.measured_loads(&loads);
    let start = steps.first().map_or(0, |(ns, _)| *ns) as i64;
    trace.predicted(&simulate(&network, &plan, &profile, threads), start, inferences);
    let zero = trace.in_order();

    let budget = size::human(entry.budget);
    let measured = format!("measured: {} in {budget}", network.name);
    let predicted = format!("predicted with the costs of {}", profile.name);
    let mut names = Vec::new();
    for (pid, text) in [(MEASURED, &measured), (PREDICTED, &predicted)] {
        names.push(name("process_name", pid, COMPUTE, text));
        names.push(name("thread_name", pid, COMPUTE, "compute"));
        names.push(name("thread_name", pid, STORAGE, "storage"));
        let tracks = trace.spans.iter().map(|span| span.track);
        let lanes = tracks.filter(|track| track.0 == pid).map(|track| track.1);
        for tid in MORE_STORAGE..=lanes.max().unwrap_or(0) {
            let number = tid - MORE_STORAGE + 2;
            names.push(name("thread_name", pid, tid, &format!("storage, read {number}")));
        }
        if !plan.stages.is_empty() && pid == PREDICTED {
            names.push(name("thread_name", pid, COPIES, "copies"));
        }
        let order = json!({ "sort_index": pid });
        names.push(json!({ "name": "process_sort_index", "ph": "M", "pid": pid, "args": order }));
    }
    let slices = trace.spans.iter().map(|span| trace.slice(span, zero));
    perfetto::write(file, &names, slices)
        .map_err(|source| Error::Write { path: file.to_owned(), source })
}

impl<'a> Trace<'a> {
    fn new(network: &'a Network, plan: &'a Plan) -> Self {
        let loads = describe::streamed_readers(network, plan);
        Self { network, plan, loads, spans: Vec::new() }
    }

    fn add(&mut self, shown: Shown, track: (u32, u32), (start, end): (i64, i64)) {
        self.spans.push(Span { start, end, track, shown });
    }

    fn step(&mut self, index: usize, pid: u32, waits: i64, (begins, ends): (i64, i64)) {
        let Some(step) = self.plan.steps.get(index) else {
            return;
        };
        let track = (pid, COMPUTE);
        // A step that needs no load begins late for other reasons: pages that are touched for the first time, other
        // programs.
        if step.ready > 0 && begins - waits >= STALL_NS as i64 {
            self.add(Shown::Stall(index as u32), track, (waits, begins));
        }
        self.add(Shown::Step(index as u32), track, (begins, ends));
    }

    /// A read, or the copy of what was read.
    fn transfer(&mut self, shown: Shown, track: (u32, u32), span: (i64, i64)) {
        if let Shown::Load(index) | Shown::Copy(index) = shown
            && (index as usize) < self.plan.loads.len()
        {
            self.add(shown, track, span);
        }
    }

    /// Puts all in the order of time, longer ones first, as nesting wants it. Returns when the first begins.
    fn in_order(&mut self) -> i64 {
        self.spans.sort_by_key(|span| (span.start, span.start - span.end));
        self.spans.first().map_or(0, |span| span.start)
    }

    /// A span in words, where the first begins at `zero`.
    fn slice(&self, span: &Span, zero: i64) -> Slice {
        let (name, cat, args) = match span.shown {
            Shown::Stall(index) => {
                let step = &self.plan.steps[index as usize];
                let load =
                    step.ready.checked_sub(1).filter(|load| (*load as usize) < self.loads.len());
                let load = load.map(|load| self.name_of_load(load as usize));
                let before = describe::step(self.network, step);
                let args = json!({ "before": before, "waits for": load });
                ("stall".to_owned(), "stall", args)
            }
            Shown::Step(index) => {
                let step = &self.plan.steps[index as usize];
                (describe::step(self.network, step), "step", self.of_step(index as usize))
            }
            Shown::Load(index) => (self.name_of_load(index as usize), "load", self.of_load(index)),
            Shown::Copy(index) => (self.name_of_load(index as usize), "copy", self.of_load(index)),
            Shown::Inference(number) => (format!("inference {number}"), "inference", Value::Null),
            Shown::Host => ("host's turn".to_owned(), "host", Value::Null),
        };
        Slice::new(name, cat, span.track, (span.start - zero, span.end - zero), args)
    }

    /// By the layers that use it.
    fn name_of_load(&self, index: usize) -> String {
        let Self { network, plan, .. } = self;
        let name = |step: usize| &network.names[plan.steps[step].layer as usize];
        match self.loads[index] {
            Some((first, last)) if first == last => describe::step(network, &plan.steps[first]),
            Some((first, last)) if plan.steps[first].layer == plan.steps[last].layer => {
                name(first).clone()
            }
            Some((first, last)) => format!("{} to {}", name(first), name(last)),
            None => "weights".to_owned(),
        }
    }

    fn of_step(&self, index: usize) -> Value {
        let step = &self.plan.steps[index];
        let weights = step_weights(self.network, step);
        json!({
            "step": index,
            "operator": ops::name(&self.network.layers[step.layer as usize]),
            "algorithm": describe::algorithm_of(self.network, step),
            "weights bytes": weights.end - weights.start,
            "rows": step.rows,
            "scratch bytes": step.scratch_bytes,
        })
    }

    fn of_load(&self, index: u32) -> Value {
        let load = &self.plan.loads[index as usize];
        json!({
            "load": index,
            "bytes": load.bytes,
            "address": load.address,
            "offset": load.offset,
            "released by step": load.release,
        })
    }

    /// What the compute side did; returns how many inferences.
    fn measured_steps(&mut self, moments: &[Moment]) -> u32 {
        let last = self.plan.steps.len().saturating_sub(1) as u32;
        let (mut inferences, mut waits, mut begins, mut start, mut end) = (0, 0, 0, 0, None);
        for &(ns, event) in moments {
            let ns = ns as i64;
            match event {
                Event::StepWaits(step) => {
                    if step == 0 {
                        start = ns;
                        if let Some(end) = end {
                            self.add(Shown::Host, (MEASURED, COMPUTE), (end, ns));
                        }
                    }
                    waits = ns;
                }
                Event::StepBegins(_) => begins = ns,
                Event::StepEnds(step) => {
                    self.step(step as usize, MEASURED, waits, (begins, ns));
                    if step == last {
                        inferences += 1;
                        self.inference(inferences, MEASURED, (start, ns));
                        end = Some(ns);
                    }
                }
                _ => {}
            }
        }
        inferences
    }

    fn inference(&mut self, number: u32, pid: u32, span: (i64, i64)) {
        self.add(Shown::Inference(number), (pid, COMPUTE), span);
    }

    fn measured_loads(&mut self, moments: &[Moment]) {
        // Of those that begin and never end, because an error came between, only the last is kept.
        let mut begun: BTreeMap<u32, i64> = BTreeMap::new();
        let mut lanes = Lanes::default();
        for &(ns, event) in moments {
            match event {
                Event::LoadBegins(load) => {
                    begun.insert(load, ns as i64);
                }
                Event::LoadEnds(load) => {
                    if let Some(start) = begun.remove(&load) {
                        let span = (start, ns as i64);
                        self.transfer(Shown::Load(load), (MEASURED, lanes.take(span)), span);
                    }
                }
                _ => {}
            }
        }
    }

    fn predicted(&mut self, timeline: &Timeline, start: i64, inferences: u32) {
        let mut lanes = Lanes::default();
        for number in 0..inferences {
            let zero = start + i64::from(number) * timeline.steady_ns as i64;
            self.inference(number + 1, PREDICTED, (zero, zero + timeline.steady_ns as i64));
            let mut waits = zero;
            for (index, span) in timeline.steps.iter().enumerate() {
                let (begins, ends) = (zero + span.start, zero + span.end);
                self.step(index, PREDICTED, waits, (begins, ends));
                waits = ends;
            }
            for (index, span) in timeline.loads.iter().enumerate() {
                let span = (zero + span.start, zero + span.end);
                let track = (PREDICTED, lanes.take(span));
                self.transfer(Shown::Load(index as u32), track, span);
            }
            for (index, span) in timeline.copies.iter().enumerate() {
                let span = (zero + span.start, zero + span.end);
                self.transfer(Shown::Copy(index as u32), (PREDICTED, COPIES), span);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_overlap_are_on_tracks_of_their_own() {
        let mut lanes = Lanes::default();
        let spans = [(0, 10), (2, 12), (4, 30), (10, 14), (11, 13), (14, 20), (40, 50)];
        let tracks = spans.map(|span| lanes.take(span));
        let [second, third, fourth] = [0, 1, 2].map(|lane| MORE_STORAGE + lane);
        assert_eq!(tracks, [STORAGE, second, third, STORAGE, fourth, STORAGE, STORAGE]);
    }
}
