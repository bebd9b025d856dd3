//! A table that is drawn again and again while a set runs: on stderr, if that is a terminal.

use super::host::Shown;
use crate::cli::output::Output;
use eyelet_tasks::set::units::human_ns;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Time between two drawings.
const PAUSE: Duration = Duration::from_millis(500);

/// Runs `body`, and shows meanwhile what another thread sees of it.
pub fn with_display<T>(
    output: Output,
    names: &[&str],
    shown: &[Shown],
    duration_ns: u64,
    body: impl FnOnce() -> T,
) -> T {
    if output.json() || !std::io::stderr().is_terminal() {
        return body();
    }
    let style = ProgressStyle::with_template("{msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style);
    let (ended, end) = channel::<()>();
    let result = std::thread::scope(|scope| {
        let (start, drawn) = (Instant::now(), bar.clone());
        scope.spawn(move || {
            while end.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                drawn.set_message(table(names, shown, start.elapsed(), duration_ns));
            }
        });
        let result = body();
        // The thread waits for this.
        drop(ended);
        result
    });
    bar.finish_and_clear();
    result
}

fn table(names: &[&str], shown: &[Shown], elapsed: Duration, duration_ns: u64) -> String {
    let elapsed_ns = elapsed.as_nanos() as u64;
    let mut text = format!(
        "{} of {}\n",
        human_ns(elapsed_ns / 100_000_000 * 100_000_000),
        human_ns(duration_ns)
    );
    let _ = writeln!(text, "{:<20} {:>9} {:>12} {:>9}", "task", "jobs", "worst", "missed");
    for (name, shown) in names.iter().zip(shown) {
        let [jobs, worst_ns, missed] = [&shown.jobs, &shown.worst_ns, &shown.missed]
            .map(|number| number.load(Ordering::Relaxed));
        let _ = writeln!(text, "{name:<20} {jobs:>9} {:>12} {missed:>9}", human_ns(worst_ns));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_row_for_each_task() {
        let shown = [Shown::default(), Shown::default()];
        shown[1].jobs.store(12, Ordering::Relaxed);
        shown[1].worst_ns.store(2_500_000, Ordering::Relaxed);
        let text = table(&["left", "right"], &shown, Duration::from_millis(1234), 10_000_000_000);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[0].starts_with("1.20 s of 10 s"), "{text}");
        assert!(lines[3].contains("12") && lines[3].contains("2.50 ms"), "{text}");
    }
}
