//! Whether the kernel gives this process as many mappings as a set's chunks may need.
//!
//! A chunk in memory is a mapping of its own, and so are the addresses without memory between two of them. The kernel
//! refuses mappings beyond `vm.max_map_count`, and then chunks fail in the middle of jobs.

use crate::cli::Error;
use crate::cli::error::SetsError;
use eyelet_tasks::set::decided::Decided;
use std::fs;
use std::path::Path;

/// Mappings that threads, libraries and the allocator may take while the set runs.
const MORE: u64 = 128;

/// Refuses a set whose chunks may need more mappings than there may be.
pub fn check(file: &Path, decided: &Decided) -> Result<(), Error> {
    let limit = fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    let Some(most) = limit.and_then(|text| text.trim().parse().ok()) else { return Ok(()) };
    let own = fs::read_to_string("/proc/self/maps").map_or(0, |text| text.lines().count() as u64);
    let needed = needed(decided).saturating_add(own + MORE);
    match needed > most {
        true => Err(SetsError::Mappings { path: file.to_owned(), needed, most }.into()),
        false => Ok(()),
    }
}

/// Mappings of a set's networks and pool, at most.
fn needed(decided: &Decided) -> u64 {
    let chunks: u64 = decided.assignment.chunks.iter().map(|&chunks| u64::from(chunks)).sum();
    // No more chunks are in memory than the pool has, each with one stretch without memory before it.
    let apart = chunks.min(2 * u64::from(decided.pool()));
    // Chunks lie between parts that are kept.
    let kept: u64 =
        decided.assignment.chunks.iter().map(|&chunks| u64::from(chunks.min(KEPT))).sum();
    apart + 2 * (kept + decided.set.tasks.len() as u64) + 1
}

/// Parts of a network that are kept, at most, where it has many chunks.
const KEPT: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use eyelet::tasks::Policy;
    use eyelet_tasks::set::{Assignment, Cost, Storage, Swappable, Task, TaskSet, Transfer};

    fn decided(chunks: u64, memory_chunks: u64) -> Decided {
        let cost = Cost {
            compute_ns: 1,
            step_ns: 1,
            bytes: chunks * 4096,
            weights: Swappable::of(chunks * 4096),
            room: Swappable::default(),
            streams: false,
        };
        let task = Task { name: "a".to_owned(), period_ns: 1, deadline_ns: 1, jitter_ns: 0, cost };
        let read = Transfer { per_chunk_ns: 0, bytes_per_second: 1 };
        let storage = Storage { chunk_bytes: 4096, read, write: None };
        let memory_bytes = memory_chunks * 4096;
        Decided {
            set: TaskSet { memory_bytes, page_bytes: 0, storage, tasks: vec![task] },
            assignment: Assignment {
                chunk_bytes: 4096,
                chunks: vec![chunks as u32],
                levels: vec![0],
                policy: Policy::Steps,
            },
            packs: Vec::new(),
        }
    }

    #[test]
    fn what_chunks_need_is_bounded_by_chunks_and_by_the_pool() {
        assert_eq!(needed(&decided(10, 20)), 10 + 2 * (10 + 1) + 1);
        assert_eq!(needed(&decided(1_000_000, 1000)), 2000 + 2 * (64 + 1) + 1);
    }

    #[test]
    fn more_chunks_than_mappings_are_refused_with_both_numbers() {
        check(Path::new("set.toml"), &decided(10, 20)).unwrap();
        let chunks = u64::from(u32::MAX / 2);
        let error = check(Path::new("set.toml"), &decided(chunks, chunks)).unwrap_err().to_string();
        for part in ["set.toml: ", "21474", "sysctl vm.max_map_count=", "larger chunks"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
