//! A bar on stderr, if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// Steps of the bar for a whole measurement.
const STEPS: u64 = 1000;

/// A bar, or nothing where nobody would see it.
#[derive(Debug)]
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// A bar that has just begun, unless it is not `wanted`.
    pub fn new(wanted: bool) -> Self {
        let seen = wanted && io_is_terminal();
        Self(seen.then(|| {
            let style = ProgressStyle::with_template("{msg} {wide_bar} {percent} % {elapsed}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
            bar.with_style(style).with_message("measuring")
        }))
    }

    /// So much is done, 0 to 1.
    pub fn set(&self, share: f64) {
        if let Some(bar) = &self.0 {
            bar.set_position((share * STEPS as f64) as u64);
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

fn io_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}
