//! The baseline `Base`: unified memory, whose driver evicts the pages that were used longest ago.
//!
//! As in the paper, its swap volumes cannot be known beforehand, so that executions are emulated: jobs run one after the other
//! in order of deadlines, each touches all its memory in order, and the most that one job of a task had to bring in is
//! its volume for the test.

use eyelet_tasks::analysis::theorem1::{Swapped, Theorem1, theorem1};
use eyelet_tasks::set::TaskSet;
use std::collections::VecDeque;

/// Jobs of each task that are emulated.
const JOBS: u32 = 30;
/// Bytes that the emulation moves at once.
const BLOCK: u64 = 32_000_000;

/// Eq. 3 with the volumes of the emulation.
pub fn test(set: &TaskSet) -> Theorem1 {
    let volumes = emulate(set);
    let read = set.storage.read;
    let write = set.storage.write.unwrap_or(read);
    let swapped = |(task, &bytes): (&eyelet_tasks::set::Task, &u64)| Swapped {
        period_ns: task.period_ns,
        compute_ns: task.cost.compute_ns,
        in_ns: if bytes == 0 { 0 } else { read.time_ns(bytes) },
        out_ns: if bytes == 0 { 0 } else { write.time_ns(bytes) },
    };
    let tasks: Vec<Swapped> = set.tasks.iter().zip(&volumes).map(swapped).collect();
    theorem1(&tasks)
}

/// The most bytes that a job of each task brought in, after the first job, which always loads everything.
pub fn emulate(set: &TaskSet) -> Vec<u64> {
    let mut memory = Pages::new(set.memory_bytes / BLOCK);
    let mut next: Vec<(u64, u32)> = vec![(0, 0); set.tasks.len()];
    let mut most = vec![0; set.tasks.len()];
    let mut now_ns = 0;
    while let Some(task) = earliest(set, &next, &mut now_ns) {
        let t = &set.tasks[task];
        let faults = memory.touch(task, t.cost.bytes.div_ceil(BLOCK));
        let (release_ns, jobs) = next[task];
        if jobs > 0 {
            most[task] = (faults * BLOCK).max(most[task]);
        }
        let swap_ns = if faults == 0 { 0 } else { 2 * set.storage.read.time_ns(faults * BLOCK) };
        now_ns += t.cost.compute_ns + swap_ns;
        next[task] = (release_ns + t.period_ns, jobs + 1);
    }
    most
}

/// The released job with the earliest deadline; if none is released, the clock goes on.
fn earliest(set: &TaskSet, next: &[(u64, u32)], now_ns: &mut u64) -> Option<usize> {
    let open = || (0..next.len()).filter(|&task| next[task].1 < JOBS);
    let first = open().map(|task| next[task].0).min()?;
    *now_ns = first.max(*now_ns);
    let deadline = |&task: &usize| next[task].0 + set.tasks[task].deadline_ns;
    open().filter(|&task| next[task].0 <= *now_ns).min_by_key(deadline)
}

/// Blocks in memory, the one used longest ago first.
struct Pages {
    room: u64,
    used: VecDeque<(usize, u64)>,
}

impl Pages {
    fn new(room: u64) -> Self {
        Self { room, used: VecDeque::new() }
    }

    /// Touches a task's blocks in order; how many had to come in.
    fn touch(&mut self, task: usize, blocks: u64) -> u64 {
        let mut faults = 0;
        for block in 0..blocks {
            match self.used.iter().position(|&page| page == (task, block)) {
                Some(at) => {
                    self.used.remove(at);
                }
                None => {
                    faults += 1;
                    if self.used.len() as u64 >= self.room {
                        self.used.pop_front();
                    }
                }
            }
            self.used.push_back((task, block));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_block_leaves() {
        let mut pages = Pages::new(4);
        assert_eq!(pages.touch(0, 2), 2);
        assert_eq!(pages.touch(1, 2), 2);
        assert_eq!(pages.touch(0, 2), 0);
        assert_eq!(pages.touch(2, 1), 1);
        assert_eq!(
            pages.touch(1, 2),
            2,
            "in order, each block pushes out the one that is needed next"
        );
    }
}
