//! Signals that end the command: nothing half-made is left, and the exit status says which it was.

use eyelet_model::leftovers;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::sync::Arc;

/// Cleans up when a signal comes that is to end the process, and ends it by that signal.
///
/// A thread waits for them, as removing folders is more than a handler may do. `run` has none, unless it writes files where
/// the file system has none without a name: a thread takes memory, which is measured there.
pub fn clean_up() {
    // Signals that a caller ignores (`nohup`, a script's background) stay ignored.
    let ignored = ignored_signals();
    let wanted = [SIGHUP, SIGINT, SIGTERM].into_iter();
    let wanted = wanted.filter(|signal| ignored & (1 << (signal - 1)) == 0);
    let Ok(mut signals) = Signals::new(wanted) else { return };
    let waiting = move || {
        for signal in signals.forever() {
            let _held = leftovers::remove_all();
            let _ = emulate_default_handler(signal);
        }
    };
    // Without a thread signals end the command as they always do, when they come a second time.
    let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(waiting);
}

/// Has a write beyond the largest size that a file may have (`ulimit -f`) fail with an error, which is printed, and not end
/// the process.
pub fn survive_large_files() {
    // Where that is not possible, the signal ends the command as it always does.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// The signals that this process ignores, the first in the lowest bit; 0 where the kernel does not say.
fn ignored_signals() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
