//! Reports and errors on stdout.

use crate::printable;
use eyelet_plan::board::described;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Display;
use std::io::{self, Write};

/// Prints a report: as one JSON object, or as text.
pub fn print(report: &(impl Serialize + Display), json: bool) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let written = match json {
        true => serde_json::to_writer(&mut stdout, report)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(stdout)),
        false => printable::write(&mut stdout, report),
    };
    written.and_then(|()| stdout.flush())
}

/// Prints an object.
pub fn print_object(object: &Value) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{object}").and_then(|()| stdout.flush())
}

/// A fault in a board or a profile as an object: where it is.
pub fn fault(wrong: &described::Error) -> Value {
    json!({
        "error": wrong.to_string(),
        "file": wrong.file,
        "line": wrong.line,
        "key": wrong.key,
        "reason": wrong.reason,
    })
}
