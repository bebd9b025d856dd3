//! What the kernel says of this machine and this process while a set runs.

use crate::cli::output::milliseconds;
use crate::cli::run::process::{size_in, status_bytes};
use serde::Serialize;
use std::fs;

/// Bytes of memory that programs could take now, by the kernel's estimate. `None` where it does not say.
pub fn available_bytes() -> Option<u64> {
    size_in(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable")
}

/// Time of all processors, in the kernel's ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    all: u64,
    /// Taken by other virtual machines.
    stolen: u64,
    /// Nobody used it.
    idle: u64,
    /// This thread was ready, and others had the processors: nanoseconds.
    waited_ns: u64,
}

impl Ticks {
    /// So far. Zeros where the kernel does not say.
    pub fn now() -> Self {
        let own = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        // Time on a processor, time ready for one, turns.
        let waited = own.split_whitespace().nth(1).and_then(|ns| ns.parse().ok());
        let all = Self::parse(&fs::read_to_string("/proc/stat").unwrap_or_default());
        Self { waited_ns: waited.unwrap_or(0), ..all }
    }

    fn parse(text: &str) -> Self {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        let fields: Vec<u64> =
            line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        let at = |index: usize| fields.get(index).copied().unwrap_or(0);
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user.
        let all = fields.iter().take(8).sum();
        Self { all, stolen: at(7), idle: at(3) + at(4), waited_ns: 0 }
    }

    /// Per cent of the time since `earlier` that was stolen, and that was idle.
    pub fn since(self, earlier: Self) -> Disturbance {
        let all = self.all.saturating_sub(earlier.all).max(1) as f64;
        let percent = |ticks: u64| (ticks as f64 / all * 1e3).round() / 10.0;
        Disturbance {
            steal_percent: percent(self.stolen.saturating_sub(earlier.stolen)),
            idle_percent: percent(self.idle.saturating_sub(earlier.idle)),
            waited_ms: milliseconds(self.waited_ns.saturating_sub(earlier.waited_ns)),
        }
    }
}

/// What took processors away during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Disturbance {
    /// Of the time of all processors: taken by other virtual machines.
    pub steal_percent: f64,
    pub idle_percent: f64,
    /// The thread that computes was ready, and other programs had the processors.
    pub waited_ms: f64,
}

/// The memory of a run. `None` where the kernel does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// What the set may have.
    pub promised_bytes: u64,
    /// Resident in this process before the run: code, what was measured, samples.
    pub before_bytes: Option<u64>,
    /// The most that was resident during the run.
    pub peak_bytes: Option<u64>,
    /// All memory of the run: the arena as the kernel has it, and what else became resident.
    pub counted_bytes: Option<u64>,
}

/// Counts the most resident memory from now on.
#[derive(Debug)]
pub struct Meter {
    before_bytes: Option<u64>,
}

impl Meter {
    pub fn start() -> Self {
        // "5" has the kernel forget the most so far. Where that is forbidden, the peak is that of the whole process.
        let _ = fs::write("/proc/self/clear_refs", "5");
        Self { before_bytes: status_bytes("VmRSS") }
    }

    /// What the run took, with an arena of so many bytes that still exists.
    pub fn stop(self, promised_bytes: u64, arena_bytes: u64) -> Memory {
        let Self { before_bytes } = self;
        let peak_bytes = status_bytes("VmHWM");
        // The arena is shared memory, all of which is taken, whether it is mapped at the moment or not.
        let private = || Some(status_bytes("RssAnon")? + status_bytes("RssFile")?);
        let more = private().zip(before_bytes).map(|(now, before)| now.saturating_sub(before));
        let counted_bytes = more.map(|more| arena_bytes + more);
        Memory { promised_bytes, before_bytes, peak_bytes, counted_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_a_share_of_all() {
        let earlier = Ticks::parse("cpu  100 0 50 800 10 0 0 40 0 0\ncpu0 1 1 1 1\n");
        let later = Ticks::parse("cpu  200 0 100 1500 10 0 0 190 0 0\n");
        assert_eq!(earlier, Ticks { all: 1000, stolen: 40, idle: 810, waited_ns: 0 });
        let later = Ticks { waited_ns: 2_500_000, ..later };
        let expected = Disturbance { steal_percent: 15.0, idle_percent: 70.0, waited_ms: 2.5 };
        assert_eq!(later.since(earlier), expected);
        assert_eq!(Ticks::parse("").since(Ticks::default()), Disturbance::default());
    }
}
