//! Progress bars: on stderr, only if that is a terminal, never with `--json`, and only for what takes
//! long.

use super::Output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// What takes less than this has no bar.
const PATIENCE: Duration = Duration::from_millis(700);

/// A bar, or nothing where nobody would see it.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    start: Instant,
    shown: Cell<bool>,
}

impl Progress {
    /// A bar over so many bytes.
    pub fn bytes(output: Output, what: &'static str, total: u64) -> Self {
        Self::new(output, what, total, "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {eta}")
    }

    /// A bar over so many pieces of work.
    pub fn count(output: Output, what: &'static str, total: u64) -> Self {
        Self::new(output, what, total, "{msg} {wide_bar} {pos}/{len} {eta}")
    }

    /// For work of unknown length: how long it has taken.
    pub fn elapsed(output: Output, what: &'static str) -> Self {
        let progress = Self::new(output, what, 0, "{msg} {spinner} {elapsed}");
        if let Some(bar) = &progress.bar {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        progress
    }

    fn new(output: Output, what: &'static str, total: u64, template: &str) -> Self {
        let bar = (!output.json() && std::io::stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template(template);
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
            bar.with_style(style).with_message(what)
        });
        Self { bar, start: Instant::now(), shown: Cell::new(false) }
    }

    /// So much is done.
    pub fn set(&self, done: u64) {
        let Some(bar) = &self.bar else {
            return;
        };
        if !self.shown.get() && self.start.elapsed() > PATIENCE {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            self.shown.set(true);
        }
        bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Passes on what is written, and says how much there has been.
pub struct Counted<'a, W> {
    pub to: W,
    pub done: u64,
    pub progress: &'a Progress,
}

impl<W: std::io::Write> std::io::Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.done += written as u64;
        self.progress.set(self.done);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}
