//! Charts as SVG, drawn from a simulation's events.

use crate::simulate::{Event, What};
use std::fmt::Write;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 130.0;
const ROW: f64 = 34.0;
const BAR: f64 = 12.0;

/// Colours of tasks, in turn; distinct also for those who see no red and green.
const COLOURS: [&str; 8] =
    ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#000000"];

fn colour(task: usize) -> &'static str {
    COLOURS[task % COLOURS.len()]
}

/// Text that is safe inside SVG and HTML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// What each task does up to a time: loads above, steps below, releases as upward marks, deadlines as downward ones.
pub fn gantt(names: &[String], events: &[Event], until_ns: u64) -> String {
    let height = ROW * names.len() as f64 + 30.0;
    let x = |ns: u64| LEFT + (WIDTH - LEFT) * (ns.min(until_ns) as f64 / until_ns.max(1) as f64);
    let mut svg = open(height);
    for (task, name) in names.iter().enumerate() {
        let y = ROW * task as f64 + 22.0;
        let line = y + 8.0;
        let _ = write!(
            svg,
            "<text x='0' y='{y:.0}'>{}</text>\
             <line x1='{LEFT}' x2='{WIDTH}' y1='{line:.0}' y2='{line:.0}' stroke='#ccc'/>",
            escaped(name),
        );
    }
    for event in events.iter().filter(|event| event.start_ns < until_ns) {
        let top = ROW * event.task as f64 + 2.0;
        let (start, end) = (x(event.start_ns), x(event.end_ns));
        let mut bar = |y: f64, fill: &str| {
            let width = (end - start).max(0.3);
            let _ = write!(
                svg,
                "<rect x='{start:.2}' y='{y:.1}' width='{width:.2}' height='{BAR}' fill='{fill}'/>"
            );
        };
        match event.what {
            What::Load { .. } => bar(top + 2.0, "#999"),
            What::Step => bar(top + 2.0 + BAR, colour(event.task)),
            What::Missed => bar(top, "#d00"),
            What::Window => {
                let (y1, y2) = (top, top + 28.0);
                let _ = write!(
                    svg,
                    "<line x1='{start:.2}' x2='{start:.2}' y1='{y1:.1}' y2='{y2:.1}' stroke='#000'/>"
                );
                if event.end_ns <= until_ns {
                    let _ = write!(
                        svg,
                        "<line x1='{end:.2}' x2='{end:.2}' y1='{y1:.1}' y2='{y2:.1}' stroke='#d00' stroke-dasharray='2'/>"
                    );
                }
            }
        }
    }
    axis(&mut svg, height, until_ns);
    svg + "</svg>"
}

/// Bytes in memory over time: what stays, and each task's swapped chunks on top.
pub fn memory(
    names: &[String],
    stay_bytes: u64,
    chunk_bytes: u64,
    memory_bytes: u64,
    events: &[Event],
    until_ns: u64,
) -> String {
    let height = 260.0;
    let (x, y) = (
        |ns: u64| LEFT + (WIDTH - LEFT) * (ns as f64 / until_ns.max(1) as f64),
        |bytes: f64| 230.0 - 220.0 * bytes / memory_bytes.max(1) as f64,
    );
    let mut svg = open(height);
    let top = y(stay_bytes as f64);
    let _ = write!(
        svg,
        "<rect x='{LEFT}' y='{top:.1}' width='{:.1}' height='{:.1}' fill='#ddd'/><text x='0' y='225'>stays</text>",
        WIDTH - LEFT,
        230.0 - top,
    );
    let series = chunks_over_time(names.len(), events, until_ns);
    let ends: Vec<u64> = series.iter().skip(1).map(|(ns, _)| *ns).chain([until_ns]).collect();
    for task in 0..names.len() {
        if series.iter().all(|(_, chunks)| chunks[task] == 0) {
            continue;
        }
        let below = |chunks: &[u64], tasks: usize| {
            stay_bytes as f64 + chunks.iter().take(tasks).sum::<u64>() as f64 * chunk_bytes as f64
        };
        let mut path = String::new();
        let mut corner = |ns: u64, bytes: f64| {
            let _ = write!(path, "{:.2},{:.2} ", x(ns), y(bytes));
        };
        for ((start, chunks), &end) in series.iter().zip(&ends) {
            corner(*start, below(chunks, task + 1));
            corner(end, below(chunks, task + 1));
        }
        for ((start, chunks), &end) in series.iter().zip(&ends).rev() {
            corner(end, below(chunks, task));
            corner(*start, below(chunks, task));
        }
        let (fill, label) = (colour(task), 20.0 + 14.0 * task as f64);
        let _ = write!(
            svg,
            "<polygon points='{path}' fill='{fill}'/><text x='0' y='{label:.0}' fill='{fill}'>{}</text>",
            escaped(&names[task]),
        );
    }
    let limit = y(memory_bytes as f64);
    let _ = write!(
        svg,
        "<line x1='{LEFT}' x2='{WIDTH}' y1='{limit:.1}' y2='{limit:.1}' stroke='#d00'/>"
    );
    axis(&mut svg, height, until_ns);
    svg + "</svg>"
}

/// Each task's chunks in memory, after each change.
fn chunks_over_time(tasks: usize, events: &[Event], until_ns: u64) -> Vec<(u64, Vec<u64>)> {
    let mut chunks = vec![0u64; tasks];
    let mut series = vec![(0, chunks.clone())];
    for event in events.iter().filter(|event| event.start_ns < until_ns) {
        if let What::Load { evicted } = event.what {
            if let Some(victim) = evicted {
                chunks[victim] = chunks[victim].saturating_sub(1);
            }
            // The room is taken as soon as the read begins.
            chunks[event.task] += 1;
            series.push((event.start_ns, chunks.clone()));
        }
    }
    series
}

fn open(height: f64) -> String {
    format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height:.0}' font-family='sans-serif' font-size='11'>"
    )
}

fn axis(svg: &mut String, height: f64, until_ns: u64) {
    for n in 0..=5u64 {
        let x = LEFT + (WIDTH - LEFT) * n as f64 / 5.0;
        let anchor = if n == 5 { "end" } else { "middle" };
        let ms = until_ns as f64 / 5e6 * n as f64;
        let _ = write!(
            svg,
            "<text x='{x:.0}' y='{:.0}' text-anchor='{anchor}'>{ms:.0} ms</text>",
            height - 4.0
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_counts_chunks_that_come_and_leave() {
        let load = |task, start_ns, evicted| Event {
            task,
            start_ns,
            end_ns: start_ns + 5,
            what: What::Load { evicted },
        };
        let events = [load(0, 0, None), load(1, 10, None), load(1, 20, Some(0))];
        let series = chunks_over_time(2, &events, 100);
        let expected = vec![(0, vec![0, 0]), (0, vec![1, 0]), (10, vec![1, 1]), (20, vec![0, 2])];
        assert_eq!(series, expected);
    }

    #[test]
    fn names_cannot_break_out_of_the_picture() {
        let names = ["<script>".to_owned()];
        let svg = gantt(&names, &[], 100);
        assert!(svg.contains("&lt;script&gt;") && !svg.contains("<script>"));
    }
}
