//! What the command does, step by step, on stderr: for those who ask for it.
//!
//! `-v` or EYELET_LOG=info says what the import read, what was fused, and which choice of algorithms the planner took and why; `-vv` or
//! EYELET_LOG=debug says it of every layer and every choice. Otherwise nothing is said.

use eyelet_profile::printable;
use log::{LevelFilter, Log, Metadata, Record};
use std::time::Instant;

/// The environment variable that names a level.
const LOG: &str = "EYELET_LOG";

/// Prints records with the time since the start.
struct Stderr {
    start: Instant,
}

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let ms = self.start.elapsed().as_secs_f64() * 1e3;
            let line = format_args!("[{ms:8.1} ms] {}\n", record.args());
            // Nobody reads it if that fails.
            let _ = printable::write(&mut std::io::stderr().lock(), line);
        }
    }

    fn flush(&self) {}
}

/// Has records printed, by how often `-v` was given, or by the environment variable. A level that is none is an error's text.
pub fn start(verbose: u8) -> Result<(), String> {
    let named = std::env::var(LOG).unwrap_or_default();
    let level = level(verbose, &named)?;
    if level > LevelFilter::Off {
        let logger = Box::leak(Box::new(Stderr { start: Instant::now() }));
        // There is no other: this is called once.
        let _ = log::set_logger(logger);
        log::set_max_level(level);
    }
    Ok(())
}

fn level(verbose: u8, named: &str) -> Result<LevelFilter, String> {
    let given = match named {
        "" => LevelFilter::Off,
        named => named.parse().map_err(|_| {
            format!("{LOG} is `{named}`: it must be off, error, warn, info, debug or trace")
        })?,
    };
    let asked = match verbose {
        0 => LevelFilter::Off,
        1 => LevelFilter::Info,
        2 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    };
    Ok(given.max(asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_unless_it_is_asked_for() {
        assert_eq!(level(0, ""), Ok(LevelFilter::Off));
        assert_eq!(level(1, ""), Ok(LevelFilter::Info));
        assert_eq!(level(2, "error"), Ok(LevelFilter::Debug));
        assert_eq!(level(0, "trace"), Ok(LevelFilter::Trace));
        assert!(level(0, "loud").unwrap_err().contains("`loud`"));
    }
}
