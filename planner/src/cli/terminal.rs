//! How wide reports may be.

use std::io::IsTerminal;

/// Columns that a report has where it does not go to a terminal.
const MOST: usize = 100;
/// A narrower terminal wraps lines.
const LEAST: usize = 40;

/// Columns for a report on stdout: what the environment variable COLUMNS says, what the terminal has, or 100.
pub fn columns() -> usize {
    let given = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok());
    given.filter(|columns| *columns > 0).or_else(of_terminal).unwrap_or(MOST).max(LEAST)
}

fn of_terminal() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout));
    size.and_then(Result::ok).map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
