//! Progress bars: on stderr, only if that is a terminal, never with `--json`.

use super::Output;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// A bar, or nothing where nobody would see it.
#[derive(Debug)]
pub struct Progress(Option<ProgressBar>);

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
        if let Some(bar) = &progress.0 {
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        progress
    }

    fn new(output: Output, what: &'static str, total: u64, template: &str) -> Self {
        if output.json() || !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let style = ProgressStyle::with_template(template);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(Some(ProgressBar::new(total).with_style(style).with_message(what)))
    }

    /// So much is done.
    pub fn set(&self, done: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
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
