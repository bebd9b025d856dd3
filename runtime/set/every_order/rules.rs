//! Invariants of every state of a set.

use super::super::*;
use super::NETWORKS;
use super::program::Program;
use crate::pack::PAGE;
use crate::storage::steered::Desk;
use crate::tasks::Chunk;
use crate::tasks::inside::JobState;
use std::vec::Vec;

/// Checks a state. `before` was in flight before the last event. The system has refused at most `refused`
/// calls.
pub(super) fn check(
    running: &mut Running<'_, '_, NETWORKS>,
    program: &Program,
    desks: &[Desk<'_>],
    before: Option<(Chunk, u64)>,
    refused: u32,
) {
    let jobs = running.state.scheduler.job_states();
    leases(running, &jobs, refused);
    let loading = running.loading.map(|(chunk, _)| chunk);
    let coming = loading.map(|chunk| (chunk.task, chunk.index));
    assert_eq!(program.coming.get(), coming, "the program knows what is in flight");
    let [processor, loader] = running.state.scheduler.operations();
    assert_eq!(processor, None, "a step ends with its call");
    assert_eq!(loader.map(|op| op.0), loading.map(|chunk| chunk.task), "the scheduler knows, too");
    for (task, job) in jobs.iter().enumerate() {
        assert_eq!(program.open[task].get(), job.pending, "every job ends or fails, once");
        assert!(job.pending || !job.begun);
        assert_eq!(program.present[task].get(), running.present(task), "the program was told");
        let position = running.networks.network(task).unwrap().inside().position;
        assert!(position == 0 || job.pending, "task {task} is in the middle of no job");
        let reads = desks[task].reads().len();
        let has_use = position > 0 || loading.is_some_and(|chunk| chunk.task == task);
        assert!(reads == 0 || has_use, "{reads} reads of task {task} are nobody's");
    }
    if let Some(chunk) = loading.filter(|_| running.loading != before) {
        by_deadline(running, &jobs, chunk.task);
    }
}

/// Every slot is free or has one chunk, and the books agree. A chunk that the system has not unmapped keeps its slot, which
/// the scheduler counts as free.
fn leases(running: &mut Running<'_, '_, NETWORKS>, jobs: &[JobState], refused: u32) {
    let mut slots: Vec<u32> = running.state.pool.free_slots().to_vec();
    let (free, mut leftovers) = (slots.len() as u32, 0);
    let loading = running.loading.map(|(chunk, _)| chunk);
    for (task, job) in jobs.iter().enumerate() {
        let inside = running.networks.network(task).unwrap().inside();
        let weights = running.state.scheduler.task(task).unwrap().weights();
        let comes = loading.filter(|chunk| chunk.task == task).map(|chunk| chunk.index);
        assert_eq!(inside.coming.map(|(chunk, ..)| chunk), comes, "task {task} reads this chunk");
        for (index, slot) in (0u32..).zip(&inside.slots) {
            // The scheduler counts a run of chunks of weights, in a circle, and the first chunks of room.
            let there = match index.checked_sub(weights) {
                None => (index + weights - job.first) % weights < job.present,
                Some(room) => room < job.room,
            };
            assert!(!there || comes != Some(index), "chunk {index} of task {task} comes twice");
            let counted = there || comes == Some(index);
            assert!(slot.is_some() || !counted, "chunk {index} of task {task} has no slot");
            leftovers += u32::from(slot.is_some() && !counted);
        }
        slots.extend(inside.slots.iter().flatten());
    }
    assert!(leftovers <= refused, "{leftovers} chunks are nobody's, {refused} could not leave");
    assert_eq!(free + leftovers, running.state.scheduler.free_chunks(), "free slots");
    slots.sort_unstable();
    let slot_pages = running.networks.network(0).unwrap().chunks().chunk_bytes().max(PAGE) / PAGE;
    let slot_pages = slot_pages as u32;
    assert!(slots.is_sorted_by(|a, b| a + slot_pages <= *b), "two chunks share a slot: {slots:?}");
    assert_eq!(slots.len() as u32, running.state.pool.chunks(), "no slot is lost");
}

/// A chunk has begun to come for `task`: no job that is due earlier waits for one, unless `task` is in its way.
fn by_deadline(running: &Running<'_, '_, NETWORKS>, jobs: &[JobState], task: usize) {
    let of = |task: usize| running.state.scheduler.task(task).unwrap();
    // A job that has begun is due when one is that cannot begin before it ends.
    let due_ns = |task: usize| {
        let own = jobs[task].deadline_ns;
        let waits = |other: &usize| {
            let job = &jobs[*other];
            job.pending && !job.begun && of(*other).chunks > 0 && of(*other).level <= of(task).level
        };
        let others = (0..jobs.len()).filter(waits).map(|other| jobs[other].deadline_ns);
        let others = others.filter(|_| jobs[task].begun).min();
        others.map_or(own, |other| own.min(other))
    };
    assert!(jobs[task].pending, "a chunk comes for a job");
    let begun = jobs[task].begun;
    for other in (0..jobs.len()).filter(|other| *other != task) {
        let job = &jobs[other];
        let lacks = job.pending && job.present + job.room < of(other).chunks && !of(other).streams;
        let earlier = match (job.begun, begun) {
            (false, true) => false,
            (true, false) => true,
            _ => due_ns(other) < due_ns(task),
        };
        assert!(!lacks || !earlier, "task {other} waits for chunks, and {task} gets one");
    }
}
