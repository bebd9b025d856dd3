//! Where reports go.

use super::Error;
use eyelet_planner::board::BoardError;
use eyelet_planner::profile::ProfileError;
use eyelet_profile::printable;
use serde::Serialize;
use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the report is printed: there is one object on stdout, not a second one for what was wrong after all.
static REPORTED: AtomicBool = AtomicBool::new(false);

/// How this run of the command speaks.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
}

impl Output {
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether stdout takes one JSON object and nothing else.
    pub fn json(self) -> bool {
        self.json
    }

    /// Prints a verb's report.
    pub fn report(self, report: &(impl Serialize + Display)) -> Result<(), Error> {
        let printed = eyelet_profile::print(report, self.json);
        REPORTED.store(true, Ordering::Relaxed);
        printed.map_err(Error::Print)
    }

    /// Prints an error, with `--json`: with all that stands between a model and a pack, or with the place where a task set, a
    /// board or a profile is wrong, if that is the error.
    pub fn error(self, error: &Error) -> Result<(), Error> {
        let object = match error {
            Error::Import { source, .. } => serde_json::json!({
                "error": error.to_string(),
                "blockers": source.blockers(),
            }),
            Error::TaskSet(wrong) => serde_json::json!({
                "error": error.to_string(),
                "file": wrong.file,
                "line": wrong.line,
                "key": wrong.key,
                "reason": wrong.reason.to_string(),
            }),
            Error::Board(BoardError::File(wrong)) | Error::Profile(ProfileError::File(wrong)) => {
                eyelet_profile::fault(wrong)
            }
            _ => serde_json::json!({ "error": error.to_string() }),
        };
        match self.json && !REPORTED.load(Ordering::Relaxed) {
            true => self.object(&object),
            false => Ok(()),
        }
    }

    /// Prints an object.
    pub fn object(self, object: &serde_json::Value) -> Result<(), Error> {
        eyelet_profile::print_object(object).map_err(Error::Print)
    }

    /// Prints a line of a report that takes long to complete; nothing with `--json`.
    pub fn line(self, line: impl Display) -> Result<(), Error> {
        if self.json {
            return Ok(());
        }
        let mut stdout = std::io::stdout().lock();
        printable::write(&mut stdout, format_args!("{line}\n"))
            .and_then(|()| stdout.flush())
            .map_err(Error::Print)
    }
}

/// Whether a report leaves a number out.
pub fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Nanoseconds as milliseconds, to the microsecond: more digits are noise.
pub fn milliseconds(ns: u64) -> f64 {
    (ns as f64 / 1e3).round() / 1e3
}

/// The ending of a word that is counted.
pub fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// A shape as people write it: `1x3x224x224`.
pub fn shape(dims: &[impl Display]) -> String {
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    if dims.is_empty() { "scalar".to_owned() } else { dims.join("x") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(milliseconds(1_234_567), 1.235);
        assert_eq!(shape(&[1, 3, 224]), "1x3x224");
        assert_eq!(shape(&[0u32; 0]), "scalar");
    }
}
