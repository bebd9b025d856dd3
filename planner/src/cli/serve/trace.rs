//! The timeline of a set at work, for Perfetto: a track for each task, one for the loader, and chunks in memory.

use crate::cli::Error;
use crate::cli::perfetto::{self, Slice, name};
use eyelet::set::SetEvent;
use serde_json::{Value, json};
use std::path::Path;

const SET: u32 = 1;
const LOADER: u32 = 1;
/// The first task's track.
const TASKS: u32 = 2;

/// Events so far, as slices and counters.
struct Timeline<'a> {
    names: &'a [String],
    deadlines_ns: &'a [u64],
    slices: Vec<Slice>,
    counters: Vec<Counter>,
    /// Of each task: when its job was released, when its step began, chunks in memory.
    released: Vec<Option<u64>>,
    step: Vec<Option<u64>>,
    present: Vec<u64>,
    chunk: Option<u64>,
}

/// Chunks of a task that are in memory, from a time on.
struct Counter {
    task: usize,
    us: f64,
    chunks: u64,
}

/// Writes what happened. Deadlines count from releases.
pub fn write(
    file: &Path,
    names: &[String],
    deadlines_ns: &[u64],
    events: &[(u64, SetEvent)],
) -> Result<(), Error> {
    let mut timeline = Timeline::new(names, deadlines_ns);
    events.iter().for_each(|&(ns, event)| timeline.add(ns, event));
    let (others, slices) = timeline.finish();
    perfetto::write(file, &others, slices.into_iter())
        .map_err(|source| Error::Write { path: file.to_owned(), source })
}

impl<'a> Timeline<'a> {
    fn new(names: &'a [String], deadlines_ns: &'a [u64]) -> Self {
        let count = names.len();
        Self {
            names,
            deadlines_ns,
            slices: Vec::new(),
            counters: Vec::new(),
            released: vec![None; count],
            step: vec![None; count],
            present: vec![0; count],
            chunk: None,
        }
    }

    fn slice(&mut self, name: String, cat: &'static str, tid: u32, span: (u64, u64), args: Value) {
        let span = (span.0 as i64, span.1 as i64);
        self.slices.push(Slice::new(name, cat, (SET, tid), span, args));
    }

    fn add(&mut self, ns: u64, event: SetEvent) {
        let track = |task: usize| TASKS + task as u32;
        match event {
            SetEvent::Released { task } => self.released[task] = Some(ns),
            SetEvent::StepBegins { task } => self.step[task] = Some(ns),
            SetEvent::StepEnds { task } => {
                if let Some(begin) = self.step[task].take() {
                    self.slice("step".to_owned(), "step", track(task), (begin, ns), Value::Null);
                }
            }
            SetEvent::Ended { task } => {
                if let Some(begin) = self.released[task].take() {
                    let late = ns - begin > self.deadlines_ns[task];
                    let name = if late { "late job" } else { "job" };
                    let args = json!({ "deadline ms": self.deadlines_ns[task] as f64 / 1e6 });
                    self.slice(name.to_owned(), "job", track(task), (begin, ns), args);
                }
            }
            SetEvent::GivenUp { task } => {
                if let Some(begin) = self.released[task].take() {
                    let name = "job given up".to_owned();
                    self.slice(name, "job", track(task), (begin, ns), Value::Null);
                }
            }
            SetEvent::ChunkBegins { .. } => self.chunk = Some(ns),
            SetEvent::ChunkEnds { task, chunk } => {
                self.read(self.names[task].clone(), chunk, ns);
                self.count(task, ns, 1);
            }
            SetEvent::ChunkFails { task, chunk } => {
                self.read(format!("{}: failed", self.names[task]), chunk, ns);
            }
            SetEvent::ChunkLeaves { task, .. } => self.count(task, ns, -1),
            _ => {}
        }
    }

    /// The loader is done with a chunk.
    fn read(&mut self, name: String, chunk: u32, ns: u64) {
        if let Some(begin) = self.chunk.take() {
            self.slice(name, "chunk", LOADER, (begin, ns), json!({ "chunk": chunk }));
        }
    }

    fn count(&mut self, task: usize, ns: u64, more: i64) {
        let chunks = self.present[task].saturating_add_signed(more);
        self.present[task] = chunks;
        self.counters.push(Counter { task, us: ns as f64 / 1e3, chunks });
    }

    fn finish(mut self) -> (Vec<Value>, Vec<Slice>) {
        let zero = perfetto::from_zero(&mut self.slices);
        let mut others = vec![
            name("process_name", SET, LOADER, "set"),
            name("thread_name", SET, LOADER, "loader: storage to memory"),
        ];
        for (tid, task) in (TASKS..).zip(self.names) {
            others.push(name("thread_name", SET, tid, task));
        }
        others.extend(self.counters.iter().map(|counter| {
            let name = format!("chunks of {}", self.names[counter.task]);
            let ts = ((counter.us - zero).max(0.0) * 1e3).round() / 1e3;
            json!({ "name": name, "ph": "C", "pid": SET, "ts": ts, "args": { "chunks": counter.chunks } })
        }));
        (others, self.slices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_steps_and_chunks_have_tracks() {
        let names = ["a".to_owned(), "b".to_owned()];
        let mut timeline = Timeline::new(&names, &[100_000, 50_000]);
        let events = [
            (1_000_000, SetEvent::Released { task: 1 }),
            (1_001_000, SetEvent::ChunkBegins { task: 1, chunk: 3 }),
            (1_021_000, SetEvent::ChunkEnds { task: 1, chunk: 3 }),
            (1_022_000, SetEvent::StepBegins { task: 1 }),
            (1_062_000, SetEvent::StepEnds { task: 1 }),
            (1_062_000, SetEvent::Ended { task: 1 }),
            (1_070_000, SetEvent::ChunkLeaves { task: 1, chunk: 3 }),
        ];
        events.into_iter().for_each(|(ns, event)| timeline.add(ns, event));
        let (others, slices) = timeline.finish();
        let of = |slice: &Slice| (slice.cat, slice.tid, slice.ts, slice.dur);
        let found: Vec<_> = slices.iter().map(of).collect();
        let task = TASKS + 1;
        let expected =
            [("job", task, 0.0, 62.0), ("chunk", LOADER, 1.0, 20.0), ("step", task, 22.0, 40.0)];
        assert_eq!(found, expected);
        assert_eq!(slices[0].name, "late job");
        let counters: Vec<_> = others.iter().filter(|event| event["ph"] == "C").collect();
        assert_eq!(counters.len(), 2);
        assert_eq!(
            (&counters[0]["args"]["chunks"], &counters[1]["args"]["chunks"]),
            (&1.into(), &0.into())
        );
        assert_eq!(counters[1]["ts"], 70.0);
    }

    #[test]
    fn a_chunk_that_fails_is_not_counted_and_ends_its_job() {
        let names = ["a".to_owned()];
        let mut timeline = Timeline::new(&names, &[100_000]);
        let events = [
            (1_000_000, SetEvent::Released { task: 0 }),
            (1_001_000, SetEvent::ChunkBegins { task: 0, chunk: 3 }),
            (1_021_000, SetEvent::ChunkFails { task: 0, chunk: 3 }),
            (1_022_000, SetEvent::GivenUp { task: 0 }),
        ];
        events.into_iter().for_each(|(ns, event)| timeline.add(ns, event));
        let (others, slices) = timeline.finish();
        let found: Vec<_> =
            slices.iter().map(|slice| (&*slice.name, slice.tid, slice.dur)).collect();
        assert_eq!(found, [("job given up", TASKS, 22.0), ("a: failed", LOADER, 20.0)]);
        assert!(others.iter().all(|event| event["ph"] != "C"));
    }
}
