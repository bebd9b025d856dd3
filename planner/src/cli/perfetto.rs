//! Timelines in the format of Chrome's tracing and of Perfetto.

use eyelet_planner::replace::replace;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::path::Path;

/// A slice of a track. Times are microseconds.
#[derive(Debug, Serialize)]
pub struct Slice {
    pub name: String,
    pub cat: &'static str,
    ph: &'static str,
    pub ts: f64,
    pub dur: f64,
    pub pid: u32,
    pub tid: u32,
    #[serde(skip_serializing_if = "Map::is_empty")]
    args: Map<String, Value>,
}

impl Slice {
    /// From and to nanoseconds, on a track: its process and its thread.
    pub fn new(
        name: String,
        cat: &'static str,
        (pid, tid): (u32, u32),
        (start, end): (i64, i64),
        args: Value,
    ) -> Self {
        let us = |ns: i64| ns as f64 / 1e3;
        let args = match args {
            Value::Object(args) => args,
            _ => Map::new(),
        };
        let (ts, dur) = (us(start), us(end - start));
        Self { name, cat, ph: "X", ts, dur, pid, tid, args }
    }
}

/// The name of a process or a thread: `what` is `process_name` or `thread_name`.
pub fn name(what: &str, pid: u32, tid: u32, name: &str) -> Value {
    json!({ "name": what, "ph": "M", "pid": pid, "tid": tid, "args": { "name": name } })
}

/// Puts slices in the order of time, longer ones first, as nesting wants it. The first begins at 0. Returns the
/// microseconds by which all moved.
pub fn from_zero(slices: &mut [Slice]) -> f64 {
    let first = slices.iter().map(|slice| slice.ts).fold(f64::INFINITY, f64::min);
    for slice in &mut *slices {
        slice.ts = ((slice.ts - first) * 1e3).round() / 1e3;
    }
    slices.sort_by(|a, b| a.ts.total_cmp(&b.ts).then(b.dur.total_cmp(&a.dur)));
    if first.is_finite() { first } else { 0.0 }
}

/// Writes names and other events, then slices, each of which is made when it is its turn.
pub fn write(file: &Path, others: &[Value], slices: impl Iterator<Item = Slice>) -> io::Result<()> {
    replace(file, |sink| {
        // An event a line, so that the file can also be read with lesser tools.
        sink.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")?;
        let mut between: &[u8] = b"";
        for event in others {
            sink.write_all(std::mem::replace(&mut between, b",\n"))?;
            serde_json::to_writer(&mut *sink, event)?;
        }
        for slice in slices {
            sink.write_all(std::mem::replace(&mut between, b",\n"))?;
            serde_json::to_writer(&mut *sink, &slice)?;
        }
        sink.write_all(b"\n]}\n")
    })
}
